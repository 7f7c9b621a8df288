"""Declares tools: ``@tool`` stands above a tool's function. A Call is one call as the function sees it; resources and
prompts make calls, too."""

import copy
import inspect
import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired, get_args, get_origin

from pydantic import Field, WithJsonSchema
from typing_extensions import get_type_hints, is_typeddict

from layerlore.memory.engine.status_answers import ProcessState
from layerlore.memory.rules.answers import STORED
from layerlore.memory.rules.validation import check_id, check_new_id
from layerlore.server.access.caller import Caller, RequestContext, admit, new_thread
from layerlore.server.access.credentials import READ, Right
from layerlore.server.settings.settings import Settings
from layerlore.server.tools.arguments import UNLISTED, check_arguments
from layerlore.storage.core.records import Json, Origin, Scope

if TYPE_CHECKING:
    from mcp.server.mcpserver.tools import Tool
    from mcp.types import Tool as ListedTool
    from mcp.types import ToolAnnotations

    from layerlore.extraction.jobs.worker import JobWorker
    from layerlore.memory.engine.engine import Engine, WriteRequest
    from layerlore.memory.parts.media import Media
    from layerlore.server.access.openings import Openings
    from layerlore.storage.audit.stored_bytes import Quota


def holds_stored(answer: Any) -> bool:
    """Whether an answer of this type may hold stored content."""
    return any(_is_stored(hint) or holds_stored(_inner(hint)) for hint in _keys(answer).values())


def drop_stored(hint: Any, answer: Any) -> Any:
    """An answer of the type ``hint`` without the keys that hold stored content, for a caller that may not read."""
    inner = _inner(hint)
    if not is_typeddict(inner):
        return answer
    if isinstance(answer, list):
        return [drop_stored(inner, each) for each in answer]
    # Filtered by type, not by name, so that a new field cannot be forgotten.
    keys = _keys(inner)
    return {key: drop_stored(keys.get(key), value) for key, value in answer.items() if not _is_stored(keys.get(key))}


def _keys(answer: Any) -> Mapping[str, Any]:
    if is_typeddict(answer):
        return get_type_hints(answer, include_extras=True)
    return {}


def _is_stored(hint: Any) -> bool:
    # A field may be optional and stored at once; the markers are nested.
    if get_origin(hint) is NotRequired:
        (hint,) = get_args(hint)
    return get_origin(hint) is Annotated and STORED in get_args(hint)[1:]


def _inner(hint: Any) -> Any:
    """The type of an object, or of the objects of a list."""
    while get_origin(hint) in (NotRequired, Annotated, list):
        hint = get_args(hint)[0]
    return hint


Action = Callable[..., Awaitable[Any]]
Schema = dict[str, Any]

CURRENT = "the current one"
"""Stands in the texts of arguments for the conversation that a call without thread_id means. ``name_current`` replaces it
on each connection."""
OF_DEFAULT = {"thread_id": {"type": "string"}, "note": {"type": "string"}}
"""The keys that an answer adds if no argument named a conversation."""
ThreadId = Annotated[str, Field(description=f"Default: {CURRENT}.")]

UNLISTED_META = "layerlore/unlisted-arguments"
"""The key in a tool's ``_meta`` of the schemas of its unlisted arguments: programs see them, models do not."""
TextOrJson = Annotated[
    Literal["text", "json"], UNLISTED, Field(description="json: the same as a structure, for programs.")
]

OBJECT_OR_TEXT = {"anyOf": [{"type": "object"}, {"type": "string"}]}
"""An object of any keys, or the same as JSON text: Gemini and OpenAI's strict mode cannot send an object whose keys the
schema does not name."""
FreeObject = Annotated[dict[str, Any], WithJsonSchema(OBJECT_OR_TEXT)]

_VALUES: list[dict[str, Any]] = [{"type": type_} for type_ in ("object", "string", "number", "boolean")]
ANY_JSON = {"anyOf": [*_VALUES, {"type": "array", "items": {"anyOf": _VALUES}}]}
"""Any JSON, as an argument; null is left out."""

_UNSAID = ("title", "default", "minimum", "maximum", "minLength", "maxLength", "$ref", "$defs")
# In this order the keys of a node cost the fewest tokens.
_KEYS = ("description", "enum", "items", "anyOf", "required", "type")


@dataclass(frozen=True, slots=True)
class Hints:
    """Tell clients how a call of the tool behaves. MCP's annotations have the same names."""

    only_reads: bool
    is_destructive: bool
    is_idempotent: bool


@dataclass(frozen=True, eq=False)
class Declaration:
    """A tool: its function, and everything else that clients and the server know about it.

    The function takes a Call and then the tool's arguments; its name and docstring are the tool's. ``answers`` is the
    type of a structured answer; None: the answer is text for a model to read.

    A caller needs the right ``right``. An answer that is text, or has a key marked as Stored, holds stored content, and
    its caller needs ``read``, too. ``reduced`` describes the answer to a caller that may not read: the server drops the
    marked keys of a structure, and a tool that answers with text leaves stored content out itself.

    A tool with several uses has ``rights_of``, which returns the rights for a call with the arguments as sent, and
    ``ways``, the arguments of an example call for each use.

    ``of_tenant``: the tool is about the whole tenant, and a call names no agent and no resource. ``opens``: the URI of
    the page that a host shows with the answer.

    ``known_by``: the arguments that distinguish a call from one of another server's tool of the same name. None: the
    required ones. `make docs` lists them for the memory, which leaves calls of its own tools out of conversations.
    """

    function: Action
    title: str
    toolset: str
    right: Right
    hints: Hints
    answers: type | None = None
    largest_answer: int | None = None
    reduced: str = ""
    rights_of: Callable[[Mapping[str, Any]], frozenset[Right]] | None = None
    ways: tuple[Mapping[str, Any], ...] = ({},)
    of_tenant: bool = False
    opens: str = ""
    known_by: tuple[str, ...] | None = None

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def text(self) -> bool:
        """Whether its answer is text for a model to read."""
        return self.answers is None

    @cached_property
    def shows_stored(self) -> bool:
        """Whether its answer may hold stored content."""
        return self.text or holds_stored(self.answers)

    def needs(self, arguments: Mapping[str, Any]) -> frozenset[Right]:
        """All the rights that a call with these arguments needs."""
        if self.rights_of is None:
            acts = frozenset({self.right})
        else:
            acts = self.rights_of(arguments)
        # An answer with stored content needs the right to read, unless the tool has a reduced form.
        if self.shows_stored and not self.reduced:
            return acts | {"read"}
        return acts

    def changes(self, arguments: Mapping[str, Any]) -> bool:
        """Whether a call with these arguments may change what is stored."""
        # A tool that can both read and write changes nothing in a call that only needs the right to read.
        return not self.hints.only_reads and bool(self.needs(arguments) - READ)

    def open_to(self, rights: Collection[Right]) -> bool:
        """Whether a caller with these rights can use the tool in at least one way."""
        return any(self.needs(way) <= frozenset(rights) for way in self.ways)

    def hide_stored(self, answer: Any, rights: Collection[Right]) -> Any:
        """The answer, without stored content if the rights do not include ``read``."""
        if "read" in rights or not isinstance(answer, dict) or self.text:
            return answer
        return drop_stored(self.answers, answer)

    @cached_property
    def unlisted(self) -> frozenset[str]:
        """The names of the arguments that the tool accepts but does not list."""
        fields = self.tool.fn_metadata.arg_model.model_fields
        return frozenset(name for name, field in fields.items() if UNLISTED in field.metadata)

    @cached_property
    def annotations(self) -> "ToolAnnotations":
        """The hints as MCP has them. Nothing reaches beyond this server."""
        from mcp.types import ToolAnnotations

        return ToolAnnotations(
            read_only_hint=self.hints.only_reads,
            destructive_hint=self.hints.is_destructive,
            idempotent_hint=self.hints.is_idempotent,
            open_world_hint=False,
        )

    def show(self, listed: "ListedTool") -> "ListedTool":
        """The tool as clients list it, with its unlisted arguments in ``_meta``."""
        if not self.unlisted:
            return listed
        schemas = listed.input_schema["properties"]
        takes = {name: schema for name, schema in schemas.items() if name not in self.unlisted}
        beside = {name: schema for name, schema in schemas.items() if name in self.unlisted}
        return listed.model_copy(
            update={
                "input_schema": {**listed.input_schema, "properties": takes},
                "meta": {**(listed.meta or {}), UNLISTED_META: beside},
            }
        )

    @cached_property
    def tool(self) -> "Tool":
        """The SDK's form of the tool, with all arguments and schemas that every client accepts. Servers share it."""
        # The command line calls the functions alone, and does not wait for the SDK.
        from mcp.server.mcpserver.tools import Tool

        meta: Schema
        # Claude Code cuts tool results at a size of its own unless the tool names a larger one.
        if self.largest_answer:
            meta = {"anthropic/maxResultSizeChars": self.largest_answer}
        else:
            meta = {}
        if self.opens:
            meta["ui"] = {"resourceUri": self.opens, "visibility": ["model", "app"]}
        # The SDK derives the schemas from a signature, so it gets one without our first parameter.
        tool = Tool.from_function(
            _without_call(self.function, self.answers or str),
            title=self.title,
            # A docstring is wrapped for the source, and a description is one paragraph.
            description=" ".join((self.function.__doc__ or "").split()),
            annotations=self.annotations,
            meta=meta or None,
            structured_output=False if self.text else None,
        )
        described = {name: {**each, **_described(each)} for name, each in tool.parameters["properties"].items()}
        schema = {**tool.parameters, "properties": described}
        tool.parameters = _listed(schema, schema.get("$defs", {}))
        if tool.fn_metadata.output_schema is not None:
            output = tool.fn_metadata.output_schema
            tool.fn_metadata.output_schema = _listed(output, output.get("$defs", {}))
            # An answer may name the thread it came from, so its schema must allow the two keys.
            if CURRENT in tool.parameters["properties"].get("thread_id", {}).get("description", ""):
                tool.fn_metadata.output_schema["properties"] |= OF_DEFAULT
        return tool


def tool(
    title: str,
    toolset: str,
    right: Right,
    *,
    answers: type | None = None,
    destructive: bool | None = None,
    idempotent: bool | None = None,
    largest_answer: int | None = None,
    reduced: str = "",
    rights_of: Callable[[Mapping[str, Any]], frozenset[Right]] | None = None,
    ways: tuple[Mapping[str, Any], ...] = ({},),
    reads: bool | None = None,
    of_tenant: bool = False,
    opens: str = "",
    known_by: tuple[str, ...] | None = None,
) -> Callable[[Action], Declaration]:
    """Make a function the tool of its name; the arguments are those of a Declaration.

    A client gets all four hints. By default a tool with the right ``read`` only reads, one with ``forget`` or ``admin``
    is destructive unless it only reads, and one that only reads is idempotent. ``reads``, ``destructive`` and
    ``idempotent`` override this. No tool reaches beyond this server.
    """
    if reads is None:
        reads = right == "read"
    if destructive is None:
        destructive = right in ("forget", "admin") and not reads
    if idempotent is None:
        idempotent = reads
    hints = Hints(only_reads=reads, is_destructive=destructive, is_idempotent=idempotent)

    def declared(function: Action) -> Declaration:
        return Declaration(
            function,
            title,
            toolset,
            right,
            hints,
            answers=answers,
            largest_answer=largest_answer,
            reduced=reduced,
            rights_of=rights_of,
            ways=ways,
            of_tenant=of_tenant,
            opens=opens,
            known_by=known_by,
        )

    return declared


def _without_call(function: Action, answers: type) -> Callable[..., Any]:
    """A function with the name and the arguments of the tool. The SDK makes the schemas from it."""
    signature = inspect.signature(function)
    _, *arguments = signature.parameters.values()

    def shown() -> None:
        """Never called: calls go to the function itself."""

    shown.__name__ = function.__name__
    # The SDK reads the signature and the annotations, never the body.
    shown.__signature__ = signature.replace(parameters=arguments, return_annotation=answers)  # type: ignore[attr-defined]
    shown.__annotations__ = {**{each.name: each.annotation for each in arguments}, "return": answers}
    return shown


# Listed schemas must pass the converter of every client, in few tokens. Where converters differ, the strictest decides:
# every node has a type (AutoGen, Gemini), no node is a reference (Gemini), no key stands beside anyOf (Vertex), true never
# stands for a schema (google-genai), no argument is a union with null (AutoGen, Gemini), and no node has a default, a bound
# or a length (OpenAI's strict mode, as Azure has it). The description names a surprising default, an error the bounds.


def _described(argument: Schema) -> Schema:
    """The description of an argument, which names a surprising default."""
    default = argument.get("default")
    # A bool is an int too, so a true default is named as well.
    if default and isinstance(default, int):
        unexpected = f"Default {json.dumps(default)}."
    else:
        unexpected = ""
    words = " ".join(filter(None, [argument.get("description", ""), unexpected]))
    if words:
        return {"description": words}
    return {}


def _listed(node: Schema, definitions: Mapping[str, Schema]) -> Schema:
    if "$ref" in node:
        node = {**definitions[node["$ref"].removeprefix("#/$defs/")], **node}
    node = {key: value for key, value in node.items() if key not in _UNSAID}
    # It allows any key, which is the default of JSON Schema.
    if node.get("additionalProperties") is True:
        del node["additionalProperties"]
    for key in ("items", "additionalProperties"):
        if key in node:
            node[key] = _listed(node[key], definitions)
    if "properties" in node:
        node["properties"] = {name: _listed(each, definitions) for name, each in node["properties"].items()}
    if "anyOf" in node:
        node = _union(node, [_listed(each, definitions) for each in node.pop("anyOf")])
    first = {key: node.pop(key) for key in _KEYS if key in node}
    # A copy, since definitions are shared between the places that refer to them.
    return copy.deepcopy(first | node)


def _union(node: Schema, branches: list[Schema]) -> Schema:
    """A union with its description in the first branch. The null branch is left out, since any argument may be null."""
    typed = [each for each in branches if each != {"type": "null"}]
    first = {**typed[0], **node}
    if len(typed) == 1:
        return first
    return {"anyOf": [first, *branches[1:]]}


DEFAULT_LINE_TOKENS = 40
"""The line that names a default thread in an answer costs at most this much."""


@dataclass(frozen=True, slots=True)
class AnswerWithMedia:
    """A structure or a text, with one image or file of a thread."""

    structure: Mapping[str, Any] | str
    media: "Media"
    thread_id: str


@dataclass(slots=True)
class DefaultUse:
    """The default thread that a call used because no argument named one; "" if it used none. ``reads``: the call does not
    change the thread. ``brief``: a structured answer only names the thread."""

    thread_id: str = ""
    reads: bool = False
    brief: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a tool: the tool's name, the caller, and the engine and settings that serve it.

    ``given``: the names of the arguments that were really sent. ``worker``: does the background work of this process; None
    until it has begun. ``tools``: the names of the tools that the caller's model can call. ``describe_server``: returns the
    state of the process. ``openings``: records which connections got their opening; None: no answer gets one.
    """

    tool: str
    engine: "Engine"
    settings: Settings
    caller: Caller
    given: frozenset[str]
    worker: "JobWorker | None" = None
    tools: frozenset[str] = frozenset()
    describe_server: Callable[[], ProcessState] = ProcessState
    default_use: DefaultUse = field(default_factory=DefaultUse)
    openings: "Openings | None" = None

    @property
    def scope(self) -> Scope:
        return self.caller.scope

    @property
    def may_read(self) -> bool:
        """Whether the answer may hold stored content."""
        return "read" in self.caller.principal.rights

    def sent(self, thread_id: str = "", *, key: str = "") -> "WriteRequest":
        """The request of a write: its origin, key and quota. ``thread_id`` and ``key`` are arguments of the call."""
        from layerlore.memory.engine.engine import WriteRequest

        origin = Origin(self.caller.client, self.tool, self.caller.principal.name)
        # The idempotency key of the call overrides that of the request's envelope.
        return WriteRequest(origin, key or self.caller.idempotency_key, thread_id, self.quota)

    def claim_opening(self) -> bool:
        """Whether this answer is the first of its connection that shows memories. A call may ask once."""
        return self.openings is not None and self.openings.claim(self.caller, self.engine.now())

    def claim_advice(self) -> bool:
        """Whether this answer is the first of its connection that may advise the model how to search."""
        return self.openings is not None and self.openings.claim(self.caller, self.engine.now(), "advice")

    @property
    def quota(self) -> "Quota | None":
        """How much may be stored; None for the person at this machine, and without limits."""
        from layerlore.storage.audit.stored_bytes import Quota

        # The local person has no quota, so that no setting for others limits them.
        rates = self.settings.rates
        if self.caller.principal.local or not (rates.tenant_stored_bytes or rates.resource_stored_bytes):
            return None
        return Quota(rates.tenant_stored_bytes, rates.resource_stored_bytes)

    @property
    def reserved_tokens(self) -> int:
        """The tokens that an answer reserves for the line about its default thread."""
        if self.default_use.thread_id:
            return DEFAULT_LINE_TOKENS
        return 0

    def thread(self, argument: str, *, reads: bool = False, deletes: bool = False, key: str = "") -> str:
        """The thread that the call means, its name checked. ``key``: the idempotency key among the arguments. Raises
        InvalidInput."""
        default = self.caller.default_thread
        if key and self.caller.default == "new":
            default = new_thread(key)
        if not argument and self.caller.default != "named":
            # The thread of a launch is checked here as well, at its first use.
            self.default_use.thread_id, self.default_use.reads = default, reads
        # Threads that older versions stored under a blank name can still be read and deleted.
        check = check_id if reads or deletes else check_new_id
        return check(argument or default, "thread_id", self.engine.limits.thread_id_chars)


async def call_tool(ctx: RequestContext, tool: Declaration, arguments: Json) -> Any:
    """Call a tool that only reads, listed or not, and return its answer. Raises LayerloreError, ToolError."""
    # A resource or a prompt needs the right to read, whatever its tool would need.
    caller = await admit(ctx, READ, ctx.method)
    values, given = check_arguments(tool.tool, arguments)
    return await ctx.lifespan_context.act(tool.name, tool.function, caller, values, given)


async def call_function(ctx: RequestContext, function: Action, values: Json) -> Any:
    """The answer of a function that takes a Call and is not a tool. Raises LayerloreError."""
    caller = await admit(ctx, READ, ctx.method)
    return await ctx.lifespan_context.act(function.__name__, function, caller, values, frozenset(values))
