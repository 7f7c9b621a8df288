"""One call of a tool, as its action sees it."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from layerlore.memory.acceptance import check_id
from layerlore.memory.engine import Engine, Sent
from layerlore.server.caller import Caller
from layerlore.server.settings import Settings
from layerlore.server.toolsets import callable_tools
from layerlore.storage.records import Origin, Scope
from layerlore.storage.stored_bytes import Quota

if TYPE_CHECKING:
    from layerlore.extraction.worker import JobWorker


@dataclass(slots=True)
class DefaultUse:
    """The thread that a call was answered from though nothing named it, "" if it was none; ``reads``: the call changes
    nothing there."""

    thread_id: str = ""
    reads: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """Who calls which tool, with what engine; ``given`` are the arguments that were really sent, ``worker`` does the
    background work of this process, once it has begun."""

    tool: str
    engine: Engine
    settings: Settings
    caller: Caller
    given: frozenset[str]
    worker: "JobWorker | None" = None
    default_use: DefaultUse = field(default_factory=DefaultUse)

    @property
    def scope(self) -> Scope:
        return self.caller.scope

    @property
    def tools(self) -> frozenset[str]:
        """The names of those that the caller's model can call."""
        return callable_tools(self.settings, self.caller.principal.rights)

    @property
    def may_read(self) -> bool:
        """Whether the answer may hold what is stored."""
        return "read" in self.caller.principal.rights

    def sent(self, thread_id: str = "", *, key: str = "") -> Sent:
        """How a write was sent. ``thread_id`` and ``key`` are the call's arguments, where the tool has them."""
        origin = Origin(self.caller.client, self.tool, self.caller.principal.name)
        return Sent(origin, key or self.caller.idempotency_key, thread_id, self.quota)

    @property
    def quota(self) -> Quota | None:
        """How much may be stored; None for the person at this machine."""
        rates = self.settings.rates
        limits = Quota(rates.tenant_stored_bytes, rates.resource_stored_bytes)
        return None if self.caller.principal.local or limits == Quota(0, 0) else limits

    def thread(self, argument: str, *, reads: bool = False) -> str:
        """The thread that the call means, its name checked. Raises InvalidInput."""
        if not argument and self.caller.default != "named":
            self.default_use.thread_id, self.default_use.reads = self.caller.default_thread, reads
        return check_id(argument or self.caller.default_thread, "thread_id", self.engine.limits.thread_id_chars)
