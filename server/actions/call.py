"""One call of a tool, as its action sees it."""

from dataclasses import dataclass

from memstrata.memory.acceptance import check_id
from memstrata.memory.engine import Engine
from memstrata.server.caller import Caller
from memstrata.server.settings import Settings
from memstrata.storage.records import Scope


@dataclass(frozen=True, slots=True)
class Call:
    """Who calls, with what engine; ``given`` are the arguments that were really sent."""

    engine: Engine
    settings: Settings
    caller: Caller
    given: frozenset[str]

    @property
    def scope(self) -> Scope:
        return self.caller.scope

    def thread(self, argument: str) -> str:
        """The thread that the call means, its name checked. Raises InvalidInput."""
        return check_id(self.caller.thread(argument), "thread_id", self.engine.limits.thread_id_chars)
