"""A clock that was wrong once: what it dated in the future is of now again when it is right."""

import time
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from layerlore.memory.rules.validation import parse_time

from ...server.tools.calling import Connect, Tools

pytestmark = pytest.mark.anyio

YEAR_NS = 365 * 86_400 * 10**9


class Clock:
    """What the server takes for the time."""

    def __init__(self) -> None:
        self.ahead_years = 0.0
        self.time_ns_of_machine = time.time_ns

    def time_ns(self) -> int:
        return self.time_ns_of_machine() + int(self.ahead_years * YEAR_NS)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("layerlore.server.runtime.engines.time", SimpleNamespace(time_ns=clock.time_ns))
    return clock


def hours_off(at: str) -> float:
    """How far a time in an answer is ahead of now."""
    return (parse_time(at, "at") - time.time_ns() // 10**6) / 3_600_000


async def thread_of(tools: Tools, thread_id: str) -> dict[str, Any]:
    rows = (await tools("list_threads"))["threads"]
    return next(row for row in rows if row["thread_id"] == thread_id)


@pytest.mark.databases
@pytest.mark.parametrize("first", ["written", "read", "listed"])
async def test_what_a_wrong_clock_dated_is_of_now_when_it_is_right_again(
    connect: Connect, clock: Clock, first: str
) -> None:
    async with connect() as tools:
        await tools.say("main", "before")
        clock.ahead_years = 10
        await tools.say("main", "in 2036", "and after")
        assert hours_off((await tools.messages("main"))[-1]["said_at"]) > 24
        clock.ahead_years = 0
        match first:
            case "written":
                await tools.say("main", "now")
            case "read":
                await tools.messages("main")
            case _:
                await thread_of(tools, "main")
        rows = await tools.messages("main")
        assert [row["parts"][0]["text"] for row in rows][:3] == ["before", "in 2036", "and after"]
        assert [row["seq"] for row in rows] == list(range(1, len(rows) + 1))
        made = [row["created_at"] for row in rows]
        assert made == sorted(set(made))
        assert all(abs(hours_off(row[name])) < 1 for row in rows for name in ("created_at", "said_at"))
        listed = await thread_of(tools, "main")
        assert all(abs(hours_off(listed[name])) < 1 for name in ("created_at", "updated_at"))
        found = await tools("recall_memory", query="in 2036")
        assert "today" in found
        assert "2036-" not in found


async def test_a_clock_that_lags_takes_no_date_away(connect: Connect, clock: Clock) -> None:
    """As a machine without a battery starts: in 1970."""
    async with connect() as tools:
        await tools.say("main", "now")
        before = (await tools.messages("main"))[0]
        clock.ahead_years = -50
        await tools.say("main", "in 1970")
        assert (await tools.messages("main"))[0] == before
        clock.ahead_years = 0
        assert (await tools.messages("main"))[0] == before


async def test_what_somebody_dated_in_the_future_is_not_said_to_be_of_today(connect: Connect) -> None:
    async with connect() as tools:
        await tools.add("main", {"role": "user", "content": "walrus", "created_at": "2036-02-03T04:05:06Z"})
        head, line, closing = (await tools("recall_memory", query="walrus")).splitlines()[1:]
        assert (head, line) == ("[thread main, 2036-02-03]", "#1 user: walrus")
        assert f"today: {datetime.now(UTC).date()}]" in closing
        (hit,) = await tools.hits("walrus")
        assert hit["age"] == "dated in the future"
