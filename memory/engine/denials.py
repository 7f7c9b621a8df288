"""Denied calls, counted, so that the journal has at most one line a second for each principal and reason.

The first is written at once. Those that follow within a second are counted, and written together after it.
"""

import asyncio
from dataclasses import dataclass

from layerlore.storage.core.records import Origin, Scope

PAUSE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Denial:
    """Who was refused what, in which scope, and by which class of error. Of a scope that the principal may not name,
    the agent is empty: a line holds no text that somebody else chose."""

    scope: Scope
    origin: Origin
    error: str

    @property
    def kind(self) -> tuple[str, str, str]:
        """What has one line a second. Tools and resources are not in it: a caller could go through endless ones."""
        return self.scope.tenant_id, self.origin.principal, self.error


@dataclass(slots=True)
class _Counted:
    last: Denial
    more: int = 0
    written_now: bool = True


class Denials:
    """The denied calls of one event loop."""

    def __init__(self) -> None:
        self._counted: dict[tuple[str, str, str], _Counted] = {}
        self._some = asyncio.Event()

    def count(self, denial: Denial) -> bool:
        """Count a denied call. Returns whether it is to be written at once."""
        counted = self._counted.get(denial.kind)
        if counted is None:
            self._counted[denial.kind] = _Counted(denial)
            self._some.set()
            return True
        counted.last = denial
        counted.more += 1
        return False

    async def wait(self) -> None:
        """Return once a denied call was counted, or one is still to be written."""
        await self._some.wait()

    def take(self, *, all_of_them: bool = False) -> list[tuple[Denial, int]]:
        """The denials to write, and how many calls each stands for; called once every PAUSE_SECONDS. What was written
        since the last time waits for the next, unless ``all_of_them``."""
        due: list[tuple[Denial, int]] = []
        for kind, counted in list(self._counted.items()):
            if counted.written_now and not all_of_them:
                counted.written_now = False
            elif counted.more:
                due.append((counted.last, counted.more))
                counted.more = 0
            else:
                del self._counted[kind]
        if not self._counted:
            self._some.clear()
        return due
