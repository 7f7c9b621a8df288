"""One call of a tool, as the tool's function sees it; and how a resource or a prompt makes one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from layerlore.memory.engine.status_answers import ProcessState
from layerlore.memory.rules.validation import check_id
from layerlore.server.access.caller import Caller, RequestContext, admit, new_thread
from layerlore.server.access.credentials import READ
from layerlore.server.settings.settings import Settings
from layerlore.server.tools.arguments import check_arguments
from layerlore.server.tools.declaration import Action, Declaration
from layerlore.storage.core.records import Json, Origin, Scope

if TYPE_CHECKING:
    from layerlore.extraction.jobs.worker import JobWorker
    from layerlore.memory.engine.engine import Engine, WriteRequest
    from layerlore.memory.parts.media import Media
    from layerlore.server.access.openings import Openings
    from layerlore.storage.audit.stored_bytes import Quota

DEFAULT_LINE_TOKENS = 40
"""What the line costs at most that names a default thread in an answer, where something is kept of the thread."""


@dataclass(frozen=True, slots=True)
class AnswerWithMedia:
    """A structure or a text, with one image or file of a thread."""

    structure: Mapping[str, Any] | str
    media: "Media"
    thread_id: str


def _describe_nothing() -> ProcessState:
    return {}


@dataclass(slots=True)
class DefaultUse:
    """The thread that a call was answered from though nothing named it, "" if it was none; ``reads``: the call changes
    nothing there. ``brief``: a structure names the thread and says no more of it."""

    thread_id: str = ""
    reads: bool = False
    brief: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """Who calls which tool, with what engine; ``given`` are the arguments that were really sent, ``worker`` does the
    background work of this process, once it has begun, and ``tools`` are the names of those that the caller's model can
    call; ``describe_server`` tells of the process, ``openings`` which connections had theirs (None: no answer gets one)."""

    tool: str
    engine: "Engine"
    settings: Settings
    caller: Caller
    given: frozenset[str]
    worker: "JobWorker | None" = None
    tools: frozenset[str] = frozenset()
    describe_server: Callable[[], ProcessState] = _describe_nothing
    default_use: DefaultUse = field(default_factory=DefaultUse)
    openings: "Openings | None" = None

    @property
    def scope(self) -> Scope:
        return self.caller.scope

    @property
    def may_read(self) -> bool:
        """Whether the answer may hold what is stored."""
        return "read" in self.caller.principal.rights

    def sent(self, thread_id: str = "", *, key: str = "") -> "WriteRequest":
        """How a write was sent. ``thread_id`` and ``key`` are the call's arguments, where the tool has them."""
        from layerlore.memory.engine.engine import WriteRequest

        origin = Origin(self.caller.client, self.tool, self.caller.principal.name)
        # The idempotency key of the call goes before that of the request's envelope.
        return WriteRequest(origin, key or self.caller.idempotency_key, thread_id, self.quota)

    def claim_opening(self) -> bool:
        """Whether this answer is the first of its connection that shows memories. It runs once a call."""
        return self.openings is not None and self.openings.claim(self.caller, self.engine.now())

    def claim_advice(self) -> bool:
        """Whether this answer is the first of its connection that may advise the model how to search."""
        return self.openings is not None and self.openings.claim(self.caller, self.engine.now(), "advice")

    @property
    def quota(self) -> "Quota | None":
        """How much may be stored; None for the person at this machine, and where nothing is limited."""
        from layerlore.storage.audit.stored_bytes import Quota

        # The local person has no quota, so that no setting for others limits them.
        rates = self.settings.rates
        if self.caller.principal.local or not (rates.tenant_stored_bytes or rates.resource_stored_bytes):
            return None
        return Quota(rates.tenant_stored_bytes, rates.resource_stored_bytes)

    @property
    def reserved_tokens(self) -> int:
        """The tokens of an answer that the line on its default thread takes."""
        if self.default_use.thread_id:
            return DEFAULT_LINE_TOKENS
        return 0

    def thread(self, argument: str, *, reads: bool = False, key: str = "") -> str:
        """The thread that the call means, its name checked. ``key``: the idempotency key among the arguments. Raises
        InvalidInput."""
        default = self.caller.default_thread
        if key and self.caller.default == "new":
            default = new_thread(key)
        if not argument and self.caller.default != "named":
            # The thread of a launch is checked here as well, at its first use.
            self.default_use.thread_id, self.default_use.reads = default, reads
        return check_id(argument or default, "thread_id", self.engine.limits.thread_id_chars)


async def call_tool(ctx: RequestContext, tool: Declaration, arguments: Json) -> Any:
    """What the tool, one that only reads, would answer, listed or not. Raises LayerloreError, ToolError."""
    # A resource or a prompt needs the right to read, whatever its tool would need.
    caller = await admit(ctx, READ, ctx.method)
    values, given = check_arguments(tool.tool, arguments)
    return await ctx.lifespan_context.act(tool.name, tool.function, caller, values, given)


async def call_function(ctx: RequestContext, function: Action, values: Json) -> Any:
    """The answer of a function that takes a Call and is not a tool. Raises LayerloreError."""
    caller = await admit(ctx, READ, ctx.method)
    return await ctx.lifespan_context.act(function.__name__, function, caller, values, frozenset(values))
