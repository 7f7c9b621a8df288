"""Entries and lines of documents that expire: after that they are shown only to a caller that asks for their days."""

import json
import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from ...server.tools.calling import Tools
from ...server.tools.documents import PROFILE, content, refused, update

pytestmark = pytest.mark.anyio

HOLIDAY = "The user is on holiday in Lisbon."


def day(offset: int) -> str:
    """The date so many days from today."""
    return (datetime.now(UTC) + timedelta(days=offset)).date().isoformat()


class Clock:
    """What the server takes for the time."""

    def __init__(self) -> None:
        self.days_ahead = 0
        self.time_ns_of_machine = time.time_ns

    def time_ns(self) -> int:
        return self.time_ns_of_machine() + self.days_ahead * 86_400 * 10**9


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("layerlore.server.runtime.engines.time", SimpleNamespace(time_ns=clock.time_ns))
    return clock


@pytest.mark.databases
async def test_an_entry_is_shown_until_it_expires(all_tools: Tools, clock: Clock) -> None:
    tools = all_tools
    kept = await tools("remember", content=HOLIDAY, expires_at=day(2))
    shown = await tools("recall_memory", query="Where is the user on holiday?")
    assert HOLIDAY in shown
    assert f"until {day(2)}" in shown
    found = await tools.client.read_resource("memory://entries")
    (row,) = json.loads(found.contents[0].text)["entries"]  # type: ignore[union-attr]
    assert (row["id"], row["expires_at"][:10]) == (kept["id"], day(3))
    error = await tools.refused("remember", content="The user is in Porto.", expires_at="2020-01-01")
    assert "expires_at: 2020-01-01 has passed" in error
    assert "expires_at" in await tools.refused("remember", content="The user is in Porto.", expires_at="soon")
    assert HOLIDAY in await tools("get_context", thread_id="main")
    clock.days_ahead = 3
    assert HOLIDAY not in await tools("recall_memory", query="Where is the user on holiday?")
    assert HOLIDAY not in await tools("get_context", thread_id="main")
    assert HOLIDAY not in await tools("get_briefing", task="Where is the user on holiday?", thread_id="main")
    assert HOLIDAY in await tools("recall_memory", query="Where is the user on holiday?", since=day(-1))
    assert HOLIDAY in await tools("forget", query="holiday in Lisbon")
    # After that it is no repetition.
    again = await tools("remember", content="The user is on a holiday in Lisbon")
    assert (again["status"], again["id"] == kept["id"]) == ("kept", False)


async def test_a_line_of_the_profile_is_shown_until_it_expires(all_tools: Tools, clock: Clock) -> None:
    tools = all_tools
    await update(tools, "lives in Graz", **PROFILE)
    await update(tools, "is on holiday", expires_at=day(2), **PROFILE)
    assert await content(tools, **PROFILE) == f"lives in Graz\nis on holiday (until {day(2)})"
    assert "is on holiday" in await tools("get_context", thread_id="main")
    assert "is on holiday" in await tools("recall_memory", query="holiday", opening=False)
    assert "has passed" in await refused(tools, content="is ill", expires_at=day(-2), **PROFILE)
    clock.days_ahead = 3
    assert "is on holiday" in await content(tools, **PROFILE)
    shown = await tools("get_working_memory", **PROFILE)
    assert "is on holiday" not in shown
    assert "1 line has expired" in shown
    context = await tools("get_context", thread_id="main")
    assert "lives in Graz" in context
    assert "is on holiday" not in context
    assert "is on holiday" not in await tools("recall_memory", query="holiday", opening=False)
    assert "is on holiday" not in await tools("get_briefing", task="Plan the week", thread_id="main")


async def test_an_entry_says_which_end_it_has_from_the_one_that_it_replaces(all_tools: Tools) -> None:
    old = await all_tools("remember", content="The user is in Lisbon.", expires_at=day(2))
    new = await all_tools("remember", content="The user is in Lisbon for good.", replaces=old["id"])
    assert f"it ends on {day(3)}" in new["note"]
