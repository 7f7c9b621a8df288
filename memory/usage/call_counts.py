"""Numbers by day: calls of tools, stored rows, tokens and money."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, NotRequired

from typing_extensions import TypedDict

from layerlore.memory.rules.ages import iso
from layerlore.memory.usage.model_usage import NANO
from layerlore.memory.usage.usage_answers import Calls, Days
from layerlore.storage.audit import daily_calls, usage_rows
from layerlore.storage.audit.daily_calls import NO_WAITS, CallCount, Source
from layerlore.storage.audit.usage_rows import UsageSums
from layerlore.storage.core.records import DAY_MS, Scope, Tenant
from layerlore.storage.core.tables import WAIT_BOUNDS_MS
from layerlore.storage.core.transaction import Database, Tx
from layerlore.storage.messages import windows as stored_days
from layerlore.storage.messages.windows import DayCount

WRITE_SECONDS = 60.0
_MOST = 10_000
"""The most sums that are gathered until the next write; further calls are not counted."""
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
            # The bounds are fixed, so that the waits of several days can be added up.
            sums.waits[bisect_left(WAIT_BOUNDS_MS, milliseconds)] += 1

    def count_hook(self, scope: Scope, host: str, now: int, *, shown: int = 0, tokens: int = 0, kept: int = 0) -> None:
        """Count what hooks of a host did: how often they showed something, in how many tokens, and what they kept."""
        sums = self._find(_Place(scope, now // DAY_MS, "hook", host))
        if sums is not None:
            sums.calls += shown
            sums.tokens += tokens
            sums.messages += kept

    def list_pending(self, scope: Scope) -> list[CallCount]:
        """The counts of a scope that are not written yet."""
        return [_finish(place, sums) for place, sums in self._sums.items() if place.scope == scope]

    def forget(self, scope: Scope) -> None:
        """Forget what is counted of a scope and not written yet."""
        for place in [each for each in self._sums if each.scope == scope]:
            del self._sums[place]

    async def write(self, database: Database, now: int) -> None:
        """Write what was gathered, a few scopes of a tenant in each transaction. Counts that cannot be written wait
        for the next time. Raises StorageUnavailable."""
        # The sums are replaced first, so that calls during the writes go into new ones.
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
                # Few scopes in one transaction, so that calls of tools need not wait long for it.
                for at in range(0, len(scopes), _TOGETHER):
                    some = scopes[at : at + _TOGETHER]
                    counts = [(scope, by_scope[scope]) for scope in some]
                    await database.write(daily_calls.add, Tenant(tenant_id), counts, today=now // DAY_MS)
                    left.difference_update(some)
        finally:
            # After a failure or a cancellation, unwritten sums wait for the next time.
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
"""The tools whose answers count as shown to a model."""
_CHARS_A_TOKEN = 4


def estimate_shown(tool: str, answer: Any) -> int:
    """The tokens of an answer that a model is shown; 0 for tools that are called for something else. A report says how many
    there are; else this many characters count as one token."""
    if tool not in (SHOW_CONTEXT, SHOW_RECALL):
        return 0
    # A text carries no report, so its length stands for its tokens.
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
        # The calls between two bounds count as spread evenly.
        if calls and left <= calls:
            if number:
                least = WAIT_BOUNDS_MS[number - 1]
            else:
                least = 0
            return round(least + (WAIT_BOUNDS_MS[number] - least) * left / calls, 1)
        left -= calls
    return float(WAIT_BOUNDS_MS[-1])


_SHOWN_BY: Mapping[str, Literal["context_tokens", "recall_tokens"]] = {
    SHOW_CONTEXT: "context_tokens",
    SHOW_RECALL: "recall_tokens",
}


@dataclass(frozen=True, slots=True)
class StoredDays:
    """The stored counts of each day since one, and the number of visible entries of each kind (None: without one)."""

    stored: Sequence[DayCount]
    spent: dict[int, UsageSums]
    called: Sequence[CallCount]
    kinds: Sequence[tuple[str | None, int]]


async def read_days(tx: Tx, scope: Scope, since_day: int) -> StoredDays:
    """Read what is stored of each day; ``since_day`` in whole days since 1970."""
    return StoredDays(
        await stored_days.count_by_day(tx, scope, since=since_day * DAY_MS),
        await usage_rows.by_day(tx, scope, since_day),
        await daily_calls.by_day(tx, scope, since_day),
        await stored_days.count_by_kind(tx, scope),
    )


class _StoredCounts(TypedDict):
    messages: int
    tokens: int
    entries: int
    steps: int


class _ShownCounts(TypedDict):
    """The tokens that models were shown on a day, and the messages that hooks captured."""

    context_tokens: int
    recall_tokens: int
    hook_tokens: int
    captured: int


class _UsageCounts(TypedDict):
    model_calls: int
    model_tokens: int
    cost_usd: float
    unpriced_calls: NotRequired[int]


def present_days(read: StoredDays, pending: Iterable[CallCount], tool: str = "") -> Days:
    """An answer: ``days``, those that had anything; of the whole time ``tools``, the most called first, ``hooks`` by host;
    ``kinds`` of entries. ``pending`` is what was counted and not written yet. With a ``tool``, the calls of each day are
    those of that one alone."""
    called = [*read.called, *pending]
    by_day: defaultdict[int, CallSums] = defaultdict(CallSums)
    by_tool: defaultdict[str, CallSums] = defaultdict(CallSums)
    by_host: defaultdict[str, CallSums] = defaultdict(CallSums)
    shown: defaultdict[int, _ShownCounts] = defaultdict(
        lambda: {"context_tokens": 0, "recall_tokens": 0, "hook_tokens": 0, "captured": 0}
    )
    for each in called:
        if each.source == "hook":
            by_host[each.name].add(each)
            shown[each.day]["hook_tokens"] += each.tokens
            shown[each.day]["captured"] += each.messages
            continue
        by_tool[each.name].add(each)
        if each.name in _SHOWN_BY:
            shown[each.day][_SHOWN_BY[each.name]] += each.tokens
        # With a tool, the days show its calls alone, while tokens count for all tools.
        if not tool or each.name == tool:
            by_day[each.day].add(each)
    stored = {each.day: each for each in read.stored}
    ranked = sorted(by_tool.items(), key=lambda each: (-each[1].calls, each[0]))
    return {
        "days": [
            {
                "day": iso(day * DAY_MS)[:10],
                **_present_stored(stored.get(day, DayCount(day))),
                **_present_calls(by_day[day]),
                **shown[day],
                **_present_spent(read.spent.get(day, UsageSums())),
            }
            for day in sorted({*stored, *read.spent, *(each.day for each in called)})
        ],
        "tools": [{"tool": name, **_present_calls(calls)} for name, calls in ranked],
        "hooks": [
            {"host": host, "shown": done.calls, "tokens": done.tokens, "captured": done.messages}
            for host, done in sorted(by_host.items())
        ],
        "kinds": [{"kind": kind or "", "entries": entries} for kind, entries in read.kinds],
    }


def _present_calls(sums: CallSums) -> Calls:
    p50, p95 = estimate_wait(sums.waits, 0.5), estimate_wait(sums.waits, 0.95)
    calls: Calls = {"calls": sums.calls, "failed": sums.failed}
    if p50 is not None and p95 is not None:
        calls["p50_ms"] = p50
        calls["p95_ms"] = p95
    return calls


def _present_stored(day: DayCount) -> _StoredCounts:
    return {"messages": day.messages, "tokens": day.tokens, "entries": day.entries, "steps": day.steps}


def _present_spent(spent: UsageSums) -> _UsageCounts:
    shown: _UsageCounts = {
        "model_calls": spent.calls,
        "model_tokens": spent.input_tokens + spent.output_tokens,
        "cost_usd": spent.cost_nano_usd / NANO,
    }
    if spent.unpriced_calls:
        shown["unpriced_calls"] = spent.unpriced_calls
    return shown
