"""One call of a tool, as its action sees it."""

from dataclasses import dataclass

from memstrata.extraction.worker import JobWorker
from memstrata.memory.acceptance import check_id
from memstrata.memory.engine import Engine, Sent
from memstrata.server.caller import Caller
from memstrata.server.settings import Settings
from memstrata.storage.records import Origin, Scope


@dataclass(frozen=True, slots=True)
class Call:
    """Who calls which tool, with what engine; ``given`` are the arguments that were really sent, ``worker`` does the
    background work of this process."""

    tool: str
    engine: Engine
    settings: Settings
    caller: Caller
    given: frozenset[str]
    worker: JobWorker | None = None

    @property
    def scope(self) -> Scope:
        return self.caller.scope

    def sent(self, thread_id: str = "", *, key: str = "") -> Sent:
        """How a write was sent. ``thread_id`` and ``key`` are the call's arguments, where the tool has them."""
        origin = Origin(self.caller.client, self.tool, self.caller.principal.name)
        return Sent(origin, key or self.caller.idempotency_key, thread_id)

    def thread(self, argument: str) -> str:
        """The thread that the call means, its name checked. Raises InvalidInput."""
        return check_id(self.caller.thread(argument), "thread_id", self.engine.limits.thread_id_chars)
