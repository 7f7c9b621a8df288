"""How a tool is declared."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, NotRequired

from mcp.server.mcpserver.tools import Tool
from mcp.types import ToolAnnotations
from pydantic import Field, WithJsonSchema
from typing_extensions import TypedDict

from layerlore.server.access.principal import Right
from layerlore.server.tools.listed_schema import listed_input, listed_output
from layerlore.server.tools.stored_content import holds_stored, without_stored

Signature = Callable[..., Any]

CURRENT = "the current one"
"""In the texts of arguments, the conversation that a call means without one; each connection is told which that is."""
OF_DEFAULT = {"thread_id": {"type": "string"}, "note": {"type": "string"}}
"""What an answer has if no argument named a conversation."""
ThreadId = Annotated[str, Field(description=f"Default: {CURRENT}.")]

OBJECT_OR_TEXT = {"anyOf": [{"type": "object"}, {"type": "string"}]}
"""An object of any keys: as JSON text too, since Gemini and OpenAI's strict mode give no object whose keys they do not
know."""
FreeObject = Annotated[dict[str, Any], WithJsonSchema(OBJECT_OR_TEXT)]

_VALUES: list[dict[str, Any]] = [{"type": type_} for type_ in ("object", "string", "number", "boolean")]
ANY_JSON = {"anyOf": [*_VALUES, {"type": "array", "items": {"anyOf": _VALUES}}]}
"""Any JSON, as an argument; null is left out."""
Answered = Annotated[Any, WithJsonSchema({"anyOf": [*_VALUES, {"type": "array"}, {"type": "null"}]})]
"""Any JSON, as an answer."""


# What was spent on models; calls of one whose price is not known cost nothing here.
class Usage(TypedDict):
    input_tokens: int
    output_tokens: int
    cost_usd: float
    unpriced_calls: NotRequired[int]


@dataclass(frozen=True, eq=False)
class Declaration:
    """A tool, its toolset, and whether its answer is text for a model to read.

    ``right`` is what it takes to do what the tool does. An answer that is text, or has a key marked as Stored, holds what
    is stored: to get it takes ``read``, too. ``reduced`` says what the tool answers to those who may not read; a structure
    loses the marked keys by itself, and the action of a tool that answers with text leaves them out.

    ``rights_of`` is, for one that can do several things, what a call with these arguments takes, as they were sent;
    ``ways`` are then arguments of one call of each.
    """

    signature: Signature
    title: str
    toolset: str
    right: Right
    annotations: ToolAnnotations
    text: bool = False
    largest_answer: int | None = None
    reduced: str = ""
    rights_of: Callable[[Mapping[str, Any]], frozenset[Right]] | None = None
    ways: tuple[Mapping[str, Any], ...] = ({},)

    @cached_property
    def shows_stored(self) -> bool:
        """Whether its answer may hold what is stored."""
        return self.text or holds_stored(self.signature.__annotations__["return"])

    def needs(self, arguments: Mapping[str, Any]) -> frozenset[Right]:
        """The rights that a call takes, all of them."""
        acts = frozenset({self.right}) if self.rights_of is None else self.rights_of(arguments)
        return acts | {"read"} if self.shows_stored and not self.reduced else acts

    def open_to(self, rights: Collection[Right]) -> bool:
        """Whether it can be called in any way with these rights."""
        return any(self.needs(way) <= frozenset(rights) for way in self.ways)

    def told_to(self, rights: Collection[Right], answer: Any) -> Any:
        """Its answer, as far as these rights let it be seen."""
        if "read" in rights or not isinstance(answer, dict) or self.text:
            return answer
        return without_stored(self.signature.__annotations__["return"], answer)

    @cached_property
    def tool(self) -> Tool:
        """As the SDK lists it, with schemas that every client takes. Servers share it."""
        meta = {"anthropic/maxResultSizeChars": self.largest_answer} if self.largest_answer else None
        tool = Tool.from_function(
            self.signature,
            title=self.title,
            description=" ".join((self.signature.__doc__ or "").split()),
            annotations=self.annotations,
            meta=meta,
            structured_output=False if self.text else None,
        )
        tool.parameters = listed_input(tool.parameters)
        if tool.fn_metadata.output_schema is not None:
            tool.fn_metadata.output_schema = listed_output(tool.fn_metadata.output_schema)
            if CURRENT in tool.parameters["properties"].get("thread_id", {}).get("description", ""):
                tool.fn_metadata.output_schema["properties"] |= OF_DEFAULT
        return tool


def annotations(*, read_only: bool = False, destructive: bool = False, idempotent: bool = False) -> ToolAnnotations:
    """All four hints; nothing here reaches beyond this server."""
    return ToolAnnotations(
        read_only_hint=read_only,
        destructive_hint=destructive,
        idempotent_hint=idempotent,
        open_world_hint=False,
    )
