"""Days are the user's: yesterday, ages and the days above lines are counted in the user's time zone."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from types import SimpleNamespace
from zoneinfo import ZoneInfo

import pytest

from layerlore.memory.rules import ages
from layerlore.memory.rules.time_zones import local_zone, read_zone, use_zone
from layerlore.server.settings.settings import SettingsError, load_settings
from layerlore.storage.core.errors import InvalidInput

from ...server.tools.calling import Tools

pytestmark = pytest.mark.anyio
Connect = Callable[..., AbstractAsyncContextManager[Tools]]

TOKYO = {"layerlore/time-zone": "Asia/Tokyo"}
# 28 November 2026, 16:00 UTC: one in the morning of the 29th in Tokyo.
NOW = 1_795_881_600_000
HOUR = 3_600_000


@pytest.fixture(autouse=True)
def _at_a_fixed_time(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(time_ns=lambda: NOW * 1_000_000)
    monkeypatch.setattr("layerlore.server.runtime.engines.time", clock)


async def _tell_of_two_days(tools: Tools) -> None:
    messages = [
        {"role": "user", "content": "The kettle is blue.", "created_at": "2026-11-28T14:30:00Z"},
        {"role": "user", "content": "The kettle was red before.", "created_at": "2026-11-28T15:30:00Z"},
    ]
    await tools("add_messages", thread_id="kitchen", messages=messages)


async def test_the_day_above_a_line_is_that_of_the_users_zone(tools: Tools) -> None:
    await _tell_of_two_days(tools)
    in_tokyo = await tools("recall_memory", query="the kettle", meta=TOKYO)
    assert "2026-11-28]" in in_tokyo
    assert "[same thread, 2026-11-29]" in in_tokyo
    assert "today: 2026-11-29" in in_tokyo
    in_utc = await tools("recall_memory", query="the kettle", meta={"layerlore/time-zone": "UTC"})
    assert "2026-11-29" not in in_utc


async def test_yesterday_is_the_users(tools: Tools) -> None:
    await _tell_of_two_days(tools)
    found = await tools("recall_memory", query="What did I say yesterday?", format="json", meta=TOKYO)
    assert found["hits"][0]["text"] == "The kettle is blue."
    assert found["hits"][0]["age"] == "1 day ago"


async def test_a_date_as_a_bound_is_a_day_of_the_users(tools: Tools) -> None:
    await _tell_of_two_days(tools)
    found = await tools("recall_memory", query="kettle", since="2026-11-29", format="json", meta=TOKYO)
    assert [hit["text"] for hit in found["hits"]] == ["The kettle was red before."]
    found = await tools("recall_memory", query="kettle", until="2026-11-28", format="json", meta=TOKYO)
    assert [hit["text"] for hit in found["hits"]] == ["The kettle is blue."]


async def test_a_context_names_the_users_days_and_is_not_given_to_another_zone(tools: Tools) -> None:
    await _tell_of_two_days(tools)
    asked = {"thread_id": "new", "query": "the kettle"}
    in_tokyo = await tools("get_context", meta=TOKYO, **asked)
    in_utc = await tools("get_context", meta={"layerlore/time-zone": "UTC"}, **asked)
    assert "2026-11-29" in in_tokyo
    assert "2026-11-29" not in in_utc


async def test_an_unknown_zone_is_refused_with_an_example(tools: Tools) -> None:
    refused = await tools.refused("recall_memory", query="kettle", meta={"layerlore/time-zone": "Mars/Olympus"})
    assert "'Mars/Olympus' is no time zone; give an IANA name such as Europe/Berlin" in refused


async def test_the_settings_name_the_zone_where_a_request_names_none(connect: Connect) -> None:
    async with connect(time_zone="Asia/Tokyo") as tools:
        await _tell_of_two_days(tools)
        assert "today: 2026-11-29" in await tools("recall_memory", query="the kettle")


def test_an_unknown_zone_in_the_settings_is_explained() -> None:
    with pytest.raises(SettingsError, match="Mars/Olympus' is no time zone"):
        load_settings(environ={"LAYERLORE_TIME_ZONE": "Mars/Olympus"})


async def test_an_answer_says_that_nothing_was_said_on_the_day_that_is_asked_for(tools: Tools) -> None:
    await _tell_of_two_days(tools)
    for question, day in {
        "What did I say on 24 November?": "2026-11-24",
        "Was war am 3. Oktober?": "2026-10-03",
    }.items():
        found = await tools("recall_memory", query=f"{question} kettle")
        assert f"Nothing was said on {day}. Of other days:" in found
        context = await tools("get_context", thread_id="new", query=f"{question} kettle")
        assert f"Nothing was said on {day}. Of other days:" in context


async def test_the_day_without_messages_is_named_in_the_users_zone(tools: Tools) -> None:
    await _tell_of_two_days(tools)
    found = await tools("recall_memory", query="What did I say on 3 November? kettle", meta=TOKYO)
    assert "Nothing was said on 2026-11-03. Of other days:" in found


async def test_a_day_on_which_something_was_said_has_no_such_line(tools: Tools) -> None:
    await _tell_of_two_days(tools)
    assert "Nothing was said" not in await tools(
        "recall_memory", query="What did I say on 28 November about the kettle?"
    )


def test_an_end_is_the_last_moment_of_the_users_day() -> None:
    with use_zone(ZoneInfo("America/New_York")):
        end = ages.parse_expiry("2026-12-08")
        assert ages.iso(end) == "2026-12-09T05:00:00.000Z"
        assert ages.name_end(end) == "2026-12-08"


def test_the_machines_zone_follows_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert local_zone() == ZoneInfo("Asia/Tokyo")


@pytest.mark.parametrize("name", ["", "../etc/passwd", "/etc/passwd", "x" * 400, "Europe/\x00"])
def test_what_is_no_name_of_a_zone_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="is no time zone"):
        read_zone(name)
