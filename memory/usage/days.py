"""Numbers of each day: what was stored, spent, called, shown and captured, as pages plot them."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NotRequired

from typing_extensions import TypedDict

from layerlore.memory.rules.ages import DAY_MS, iso
from layerlore.memory.usage.call_counts import SHOW_CONTEXT, SHOW_RECALL, CallSums, estimate_wait
from layerlore.memory.usage.model_usage import NANO
from layerlore.memory.usage.usage_answers import Calls, Days
from layerlore.storage.audit import daily_calls, usage
from layerlore.storage.audit.daily_calls import CallCount
from layerlore.storage.audit.usage import Spent
from layerlore.storage.core.records import Scope
from layerlore.storage.core.transaction import Tx
from layerlore.storage.messages import days as stored_days
from layerlore.storage.messages.days import DayCount

_SHOWN_BY: Mapping[str, Literal["context_tokens", "recall_tokens"]] = {
    SHOW_CONTEXT: "context_tokens",
    SHOW_RECALL: "recall_tokens",
}


@dataclass(frozen=True, slots=True)
class DaysRead:
    """What is kept of each day since one, and how many entries of each kind can be seen (None: of none)."""

    stored: Sequence[DayCount]
    spent: dict[int, Spent]
    called: Sequence[CallCount]
    kinds: Sequence[tuple[str | None, int]]


async def read_days(tx: Tx, scope: Scope, since_day: int) -> DaysRead:
    """Read what is kept of each day; ``since_day`` in whole days since 1970."""
    return DaysRead(
        await stored_days.count_by_day(tx, scope, since=since_day * DAY_MS),
        await usage.by_day(tx, scope, since_day),
        await daily_calls.by_day(tx, scope, since_day),
        await stored_days.count_by_kind(tx, scope),
    )


class _Stored(TypedDict):
    messages: int
    tokens: int
    entries: int
    steps: int


class _Shown(TypedDict):
    """The tokens that models were shown on a day, and the messages that hooks captured."""

    context_tokens: int
    recall_tokens: int
    hook_tokens: int
    captured: int


class _SpentOfDay(TypedDict):
    model_calls: int
    model_tokens: int
    cost_usd: float
    unpriced_calls: NotRequired[int]


def _show_nothing() -> _Shown:
    return {"context_tokens": 0, "recall_tokens": 0, "hook_tokens": 0, "captured": 0}


def present_days(read: DaysRead, pending: Iterable[CallCount], tool: str = "") -> Days:
    """An answer: ``days``, those that had anything; of the whole time ``tools``, the most called first, ``hooks`` by host;
    ``kinds`` of entries. ``pending`` is what was counted and not written yet. With a ``tool``, the calls of each day are
    those of that one alone."""
    called = [*read.called, *pending]
    by_day: defaultdict[int, CallSums] = defaultdict(CallSums)
    by_tool: defaultdict[str, CallSums] = defaultdict(CallSums)
    by_host: defaultdict[str, CallSums] = defaultdict(CallSums)
    shown: defaultdict[int, _Shown] = defaultdict(_show_nothing)
    for each in called:
        if each.source == "hook":
            by_host[each.name].add(each)
            shown[each.day]["hook_tokens"] += each.tokens
            shown[each.day]["captured"] += each.messages
            continue
        by_tool[each.name].add(each)
        if each.name in _SHOWN_BY:
            shown[each.day][_SHOWN_BY[each.name]] += each.tokens
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
                **_present_spent(read.spent.get(day, Spent())),
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


def _present_stored(day: DayCount) -> _Stored:
    return {"messages": day.messages, "tokens": day.tokens, "entries": day.entries, "steps": day.steps}


def _present_spent(spent: Spent) -> _SpentOfDay:
    shown: _SpentOfDay = {
        "model_calls": spent.calls,
        "model_tokens": spent.input_tokens + spent.output_tokens,
        "cost_usd": spent.cost_nano_usd / NANO,
    }
    if spent.unpriced_calls:
        shown["unpriced_calls"] = spent.unpriced_calls
    return shown
