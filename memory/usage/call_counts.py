"""How often tools are called, how long they take, and what models are shown: gathered here, and written together now and
then, so that no call waits for a write.

What a process gathered since it last wrote is lost if it is killed.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from layerlore.memory.rules.ages import DAY_MS
from layerlore.storage.audit import daily_calls
from layerlore.storage.audit.daily_calls import NO_WAITS, CallCount, Source
from layerlore.storage.core.records import Scope, Tenant
from layerlore.storage.core.tables import WAIT_BOUNDS_MS
from layerlore.storage.core.transaction import Database

WRITE_SECONDS = 60.0
_MOST = 10_000
"""How many sums are gathered at most until the next write; what is beyond is not counted."""
_TOGETHER = 16
"""How many scopes are written in a transaction."""


class _Place(NamedTuple):
    """The memory, the day since 1970 and the tool or hook that calls are counted for."""

    scope: Scope
    day: int
    source: Source
    name: str


@dataclass(slots=True)
class CallSums:
    """Sums of what a ``CallCount`` counts."""

    calls: int = 0
    failed: int = 0
    tokens: int = 0
    messages: int = 0
    waits: list[int] = field(default_factory=lambda: [*NO_WAITS])

    def add(self, more: "CallCount | CallSums") -> None:
        self.calls += more.calls
        self.failed += more.failed
        self.tokens += more.tokens
        self.messages += more.messages
        self.waits = [one + other for one, other in zip(self.waits, more.waits, strict=True)]


class CallCounts:
    """The counts of one event loop that are not written yet."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._sums: dict[_Place, CallSums] = {}

    def count_call(self, scope: Scope, tool: str, now: int, milliseconds: float, *, failed: bool, tokens: int) -> None:
        """Count a call that was answered ``now`` (milliseconds since 1970); ``tokens`` were shown to a model."""
        sums = self._find(_Place(scope, now // DAY_MS, "tool", tool))
        if sums is not None:
            sums.calls += 1
            sums.failed += failed
            sums.tokens += tokens
            sums.waits[bisect_left(WAIT_BOUNDS_MS, milliseconds)] += 1

    def count_hook(self, scope: Scope, host: str, now: int, *, shown: int = 0, tokens: int = 0, kept: int = 0) -> None:
        """Count what hooks of a host did: how often they showed something, in how many tokens, and what they kept."""
        sums = self._find(_Place(scope, now // DAY_MS, "hook", host))
        if sums is not None:
            sums.calls += shown
            sums.tokens += tokens
            sums.messages += kept

    def list_pending(self, scope: Scope) -> list[CallCount]:
        """What is counted of a scope and not written yet."""
        return [_finish(place, sums) for place, sums in self._sums.items() if place.scope == scope]

    def forget(self, scope: Scope) -> None:
        """Forget what is counted of a scope and not written yet."""
        for place in [each for each in self._sums if each.scope == scope]:
            del self._sums[place]

    async def write(self, database: Database, now: int) -> None:
        """Write what was gathered, a few scopes of a tenant in each transaction. What cannot be written waits for the next
        time. Raises StorageUnavailable."""
        taken, self._sums = self._sums, {}
        by_scope: dict[Scope, list[CallCount]] = {}
        by_tenant: dict[str, list[Scope]] = {}
        for place, sums in taken.items():
            by_scope.setdefault(place.scope, []).append(_finish(place, sums))
        for scope in by_scope:
            by_tenant.setdefault(scope.tenant_id, []).append(scope)
        left = set(by_scope)
        try:
            for tenant_id, scopes in by_tenant.items():
                for at in range(0, len(scopes), _TOGETHER):
                    some = scopes[at : at + _TOGETHER]
                    counts = [(scope, by_scope[scope]) for scope in some]
                    await database.write(daily_calls.add, Tenant(tenant_id), counts, today=now // DAY_MS)
                    left.difference_update(some)
        finally:
            for place, sums in taken.items():
                if place.scope in left:
                    self._put_back(place, sums)

    def _find(self, place: _Place) -> CallSums | None:
        sums = self._sums.get(place)
        if sums is None and len(self._sums) < self._most:
            sums = self._sums[place] = CallSums()
        return sums

    def _put_back(self, place: _Place, sums: CallSums) -> None:
        newer = self._find(place)
        if newer is not None:
            newer.add(sums)


def _finish(place: _Place, sums: CallSums) -> CallCount:
    return CallCount(
        place.day,
        place.source,
        place.name,
        sums.calls,
        sums.failed,
        sums.tokens,
        sums.messages,
        tuple(sums.waits),
    )


SHOW_CONTEXT, SHOW_RECALL = "get_context", "recall_memory"
"""The tools whose answers are counted as what a model was shown."""
_CHARS_A_TOKEN = 4


def estimate_shown(tool: str, answer: Any) -> int:
    """The tokens of an answer that a model is shown; 0 for tools that are called for something else. A report says how many
    there are; else they are not counted again, and so many characters are taken for one."""
    if tool not in (SHOW_CONTEXT, SHOW_RECALL):
        return 0
    if isinstance(answer, str):
        return -(-len(answer) // _CHARS_A_TOKEN)
    if "report" in answer:
        return int(answer["report"]["tokens"])
    return sum(len(hit.get("text", "")) for hit in answer.get("hits", ())) // _CHARS_A_TOKEN


def estimate_wait(waits: Sequence[int], share: float) -> float | None:
    """Within how many milliseconds this share of the calls was answered, about: what is known of each is two bounds. None
    without calls; of those beyond the last bound, that bound."""
    left = share * sum(waits)
    if not left:
        return None
    for number, calls in enumerate(waits[:-1]):
        if calls and left <= calls:
            least = WAIT_BOUNDS_MS[number - 1] if number else 0
            return round(least + (WAIT_BOUNDS_MS[number] - least) * left / calls, 1)
        left -= calls
    return float(WAIT_BOUNDS_MS[-1])
