"""Denied calls in the journal: none is lost, and a flood of them is a line a second."""

from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from itertools import pairwise

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layerlore.memory.engine import engine
from layerlore.memory.engine.engine import Denial, Denials
from layerlore.storage.audit import journal_rows
from layerlore.storage.audit.journal_rows import JournalFilter, JournalLine
from layerlore.storage.core.records import Origin, Scope

from ..entry_memory import Memory

pytestmark = pytest.mark.anyio

PATIENCE = 120.0  # seconds: only a hang takes so long


def denial(
    principal: str = "key:a", *, tool: str = "remember", resource: str = "ana", error: str = "NotFound"
) -> Denial:
    return Denial(Scope("acme", "", resource), Origin("client", tool, principal), error)


@given(st.lists(st.sampled_from(["a", "b", "c", "pause"]), max_size=60))
def test_every_denied_call_is_told_once_and_each_kind_at_most_once_a_pause(steps: list[str]) -> None:
    denials, pauses = Denials(), 0
    sent, told = Counter[str](), Counter[str]()
    # When at the earliest and at the latest, in pauses.
    lines: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for step in steps:
        if step == "pause":
            for each, calls in denials.take():
                told[each.origin.principal] += calls
                lines[each.origin.principal].append((pauses + 1, pauses + 1))
            pauses += 1
        else:
            sent[step] += 1
            if denials.count(denial(step)):
                told[step] += 1
                lines[step].append((pauses, pauses + 1))
    for found in lines.values():
        assert all(earliest - latest >= 1 for (_, latest), (earliest, _) in pairwise(found))
    for each, calls in denials.take(all_of_them=True):
        told[each.origin.principal] += calls
    assert told == sent


def test_what_is_quiet_for_a_while_is_forgotten_and_told_at_once_again() -> None:
    denials = Denials()
    assert denials.count(denial())
    assert not denials.count(denial())
    assert [denials.take(), denials.take(), denials.take()] == [[], [(denial(), 1)], []]
    assert denials.count(denial())


def test_tools_and_resources_are_one_kind_and_errors_and_principals_are_not() -> None:
    denials = Denials()
    told = [
        denials.count(each)
        for each in (denial(), denial(tool="forget"), denial(resource="ben"), denial("key:b"), denial(error="TooMuch"))
    ]
    assert told == [True, False, False, True, True]


Lines = Callable[[], Awaitable[list[JournalLine]]]


@pytest.fixture
def lines(memory: Memory) -> Lines:
    async def read() -> list[JournalLine]:
        return [
            row.line
            for row in await memory.engine.database.read_installation(
                journal_rows.read_lines, JournalFilter(), limit=1000
            )
        ]

    return read


async def test_a_flood_is_a_line_at_once_and_one_of_the_rest(memory: Memory, lines: Lines) -> None:
    for n in range(500):
        await engine.report_denial(memory.engine, denial(("key:a", "key:b")[n % 2], resource=f"r{n}"))
    await engine.report_counted_denials(memory.engine)
    found = await lines()
    assert [(line.principal, dict(line.counts), line.outcome, line.reason) for line in found] == [
        ("key:a", {"calls": 1}, "denied", "NotFound"),
        ("key:b", {"calls": 1}, "denied", "NotFound"),
        ("key:a", {"calls": 249}, "denied", "NotFound"),
        ("key:b", {"calls": 249}, "denied", "NotFound"),
    ]
    await engine.report_counted_denials(memory.engine)
    assert await lines() == found


async def test_what_was_counted_is_told_without_another_call(
    memory: Memory, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "PAUSE_SECONDS", 0.01)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(engine.keep_reporting_denials, memory.engine)
        for _ in range(10):
            await engine.report_denial(memory.engine, denial())
        with anyio.fail_after(PATIENCE):
            while sum(line.counts["calls"] for line in await lines()) < 10:
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()


async def test_a_database_that_cannot_serve_does_not_change_the_answer(memory: Memory) -> None:
    await memory.engine.database.close()
    await engine.report_denial(memory.engine, denial())
