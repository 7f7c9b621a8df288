"""Counts of calls, gathered in memory: what is gathered, what is written, and what of it waits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layerlore.memory.usage.call_counts import CallCounts, estimate_shown, estimate_wait
from layerlore.storage.core.errors import StorageUnavailable
from layerlore.storage.core.records import DAY_MS, Scope
from layerlore.storage.core.tables import WAIT_BOUNDS_MS, WAITS

pytestmark = pytest.mark.anyio

ANA, BEN = Scope("local", "agent", "ana"), Scope("acme", "agent", "ben")
NOW = 20_000 * DAY_MS + 5


class Written:
    """A database that takes the counts of some tenants."""

    def __init__(self, *refuses: str) -> None:
        self.refuses = refuses
        self.took: list[tuple[str, int]] = []

    async def write(self, function, tenant, counts, *, today):  # type: ignore[no-untyped-def]
        if tenant.tenant_id in self.refuses:
            raise StorageUnavailable("the disk is full")
        self.took += [(tenant.tenant_id, sum(each.calls for _, of_it in counts for each in of_it))]


def call(counts: CallCounts, scope: Scope = ANA, tool: str = "plan", took: float = 3.0, now: int = NOW) -> None:
    counts.count_call(scope, tool, now, took, failed=False, tokens=0)


async def test_what_is_written_is_gathered_no_more_and_what_cannot_be_waits() -> None:
    counts = CallCounts()
    for scope in (ANA, ANA, BEN):
        call(counts, scope)
    database = Written("local")
    with pytest.raises(StorageUnavailable):
        await counts.write(database, NOW)  # type: ignore[arg-type]
    call(counts)
    database.refuses = ()
    await counts.write(database, NOW)  # type: ignore[arg-type]
    await counts.write(database, NOW)  # type: ignore[arg-type]
    assert sorted(database.took) == [("acme", 1), ("local", 3)]


def test_days_and_tools_are_counted_apart_and_a_scope_can_be_forgotten() -> None:
    counts = CallCounts()
    for tool, now in (("plan", NOW), ("plan", NOW), ("plan", NOW + DAY_MS), ("forget", NOW)):
        call(counts, tool=tool, now=now)
    call(counts, BEN)
    counts.count_hook(ANA, "codex", NOW, shown=1, tokens=90)
    counts.count_hook(ANA, "codex", NOW, kept=4)
    assert [(each.day, each.source, each.name, each.calls) for each in counts.list_pending(ANA)] == [
        (20_000, "tool", "plan", 2),
        (20_001, "tool", "plan", 1),
        (20_000, "tool", "forget", 1),
        (20_000, "hook", "codex", 1),
    ]
    assert [(each.tokens, each.messages) for each in counts.list_pending(ANA)][-1] == (90, 4)
    counts.forget(ANA)
    assert counts.list_pending(ANA) == []
    assert len(counts.list_pending(BEN)) == 1


def test_no_more_sums_are_gathered_than_allowed() -> None:
    counts = CallCounts(most=2)
    for number in range(5):
        call(counts, Scope("local", "agent", str(number)))
    call(counts, Scope("local", "agent", "0"))
    gathered = [counts.list_pending(Scope("local", "agent", str(number))) for number in range(5)]
    assert [sum(each.calls for each in of_it) for of_it in gathered] == [2, 1, 0, 0, 0]


@given(st.lists(st.floats(0, 20_000), min_size=1, max_size=60), st.sampled_from([0.5, 0.95]))
def test_a_wait_is_estimated_within_the_bounds_of_the_call_that_took_so_long(took: list[float], share: float) -> None:
    counts = CallCounts()
    for each in took:
        call(counts, took=each)
    (gathered,) = counts.list_pending(ANA)
    assert sum(gathered.waits) == len(took)
    estimated = estimate_wait(gathered.waits, share)
    assert estimated is not None
    ranked = sorted(took)
    real = ranked[min(len(took) - 1, max(0, -int(-share * len(took) // 1) - 1))]
    bounds = [0, *WAIT_BOUNDS_MS, float("inf")]
    place = next(number for number, bound in enumerate(bounds[1:]) if real <= bound)
    assert bounds[place] - 0.06 <= estimated <= min(bounds[place + 1], WAIT_BOUNDS_MS[-1])


def test_without_calls_there_is_no_wait() -> None:
    assert estimate_wait([0] * len(WAITS), 0.5) is None


def test_what_a_model_is_shown_is_reported_or_estimated() -> None:
    assert estimate_shown("recall_memory", "12345") == 2
    assert estimate_shown("recall_memory", {"hits": [{"text": "12345678"}, {"id": "x"}]}) == 2
    assert estimate_shown("get_context", {"messages": [], "report": {"tokens": 77}}) == 77
    assert estimate_shown("remember", "12345") == 0
