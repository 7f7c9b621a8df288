"""Exports and imports: what comes in is what went out, on either database, once, and whole after a kill."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from layerlore.memory.engine.engine import Engine, WriteRequest
from layerlore.memory.entries.entry_curation import mark_entry
from layerlore.memory.entries.remember_requests import RememberRequest, remember
from layerlore.memory.messages import addition
from layerlore.memory.moving.imports import Import
from layerlore.memory.moving.line_forms import NumberedLine
from layerlore.memory.rules.validation import Limits, parse_time
from layerlore.memory.work import steps
from layerlore.memory.work.run_lists import RunListing, list_runs
from layerlore.storage.audit.stored_bytes import Quota
from layerlore.storage.core.errors import LimitExceeded
from layerlore.storage.core.records import Json, Origin, Scope
from layerlore.storage.drivers.postgres.database import PostgresDatabase
from layerlore.storage.drivers.sqlite.database import SqliteDatabase
from layerlore.storage.moving.moved_threads import Mode

from ..moving_memory import NOW, SENT, Clock, Life, bring, export_lines, in_order, make_engine

pytestmark = pytest.mark.anyio

ACTS = (
    *("say", "say", "call", "delete", "delete_thread", "remember", "prove", "mark", "forget", "plan", "document"),
    *("profile", "clear", "run", "steps", "attempt", "describe", "note", "note"),
)
lives = st.lists(st.tuples(st.sampled_from(ACTS), st.sampled_from(["main", "tea"]), st.integers(0, 6)), max_size=18)
FULL = [(act, thread, 3) for thread in ("main", "tea") for act in ("say", "call", *ACTS[5:8], *ACTS[9:12], *ACTS[13:])]
some = settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
async def both(sqlite_url: str, postgres_url: str) -> AsyncIterator[list[Engine]]:
    """An engine on SQLite and one on Postgres."""
    clock = Clock()
    opened = [
        await SqliteDatabase.open(sqlite_url.removeprefix("sqlite://")),
        await PostgresDatabase.open(postgres_url),
    ]
    yield [make_engine(database, clock) for database in opened]
    for database in opened:
        await database.close()


@pytest.fixture
async def engine(sqlite_url: str) -> AsyncIterator[Engine]:
    database = await SqliteDatabase.open(sqlite_url.removeprefix("sqlite://"))
    yield make_engine(database, Clock())
    await database.close()


async def live(engine: Engine, acts: list[tuple[str, str, int]]) -> tuple[Scope, list[Json]]:
    """A scope in which this was done, and its export."""
    scope = Scope("local", "agent", engine.new_id())
    life = Life(engine, scope)
    for act in acts:
        await life.act(*act)
    return scope, await export_lines(engine, scope)


@some
@given(acts=lives, cut=st.integers(0, 60), to_postgres=st.booleans())
async def test_a_memory_moves_to_the_other_database_and_back_with_equal_contents(
    both: list[Engine], acts: list[tuple[str, str, int]], cut: int, to_postgres: bool
) -> None:
    source, target = both if to_postgres else both[::-1]
    scope, lines = await live(source, acts)
    await bring(target, scope, lines, upto=cut)
    report = await bring(target, scope, lines)
    assert (report.skipped, report.masked) == ([], 0)
    there = await export_lines(target, scope)
    assert in_order(there) == in_order(lines)
    again = await bring(target, scope, lines, mode="overwrite")
    assert not any(counts["added"] or counts["replaced"] for counts in again.counts.values())
    elsewhere = Scope("local", "agent", source.new_id())
    await bring(source, elsewhere, there)
    back = await export_lines(source, elsewhere)
    assert in_order(back[1:]) == in_order(lines[1:])


async def test_a_full_life_has_a_line_of_every_kind(both: list[Engine]) -> None:
    _, lines = await live(both[0], [*FULL, ("delete", "main", 0)])
    assert {line["record"] for line in lines} == {
        *("scope", "thread", "erased", "message", "event", "step", "attempt", "run", "observation", "summary"),
        *("session_note", "plan", "session_memory", "thread_state", "entry", "profile", "resource_event"),
        *("resource_state", "end"),
    }


def line_of(lines: list[Json], record: str) -> Json:
    return next(line for line in lines if line["record"] == record)


def texts(lines: list[Json]) -> list[str]:
    return [line["parts"][0]["text"] for line in lines if line["record"] == "message"]


def changed(lines: list[Json], record: str, **new: Any) -> list[Json]:
    """The lines with those of one kind changed."""
    return [{**line, **new} if line["record"] == record else line for line in lines]


async def test_of_two_memories_that_went_apart_both_histories_are_kept_and_what_rests_on_them_follows(
    engine: Engine,
) -> None:
    _, brought = await live(
        engine, [("say", "main", 2), ("prove", "main", 2), ("steps", "main", 2), ("note", "main", 2)]
    )
    scope, _ = await live(engine, [("say", "main", 4), ("profile", "", 1)])
    report = await bring(engine, scope, brought)
    after = await export_lines(engine, scope)
    assert texts(after) == [
        *("the walnut tea number 4 is best", "noted: walnut", "the walnut tea number 2 is best", "noted: walnut"),
        "the key is [masked:github-token:c9275aac]",
    ]
    assert [line["seq"] for line in after if line["record"] == "message"] == [1, 2, 3, 4, 5]
    (source,) = line_of(after, "entry")["sources"]
    assert (source["thread"], source["seq"]) == ("main", 3)
    assert line_of(after, "event")["seq"] == 1
    assert not any(line["record"] in ("observation", "summary") for line in after), "they are made anew of all messages"
    left_out = {(each.kind, each.why) for each in report.skipped}
    own = "this thread has messages or notes of its own here, so notes are made anew"
    assert {("observation", own), ("summary", own), ("session_note", own)} < left_out


@pytest.mark.parametrize(("mode", "told"), [("merge", "newer"), ("overwrite", "newer"), ("skip", "older")])
async def test_of_two_things_under_one_id_the_mode_says_which_stays(engine: Engine, mode: Mode, told: str) -> None:
    _, lines = await live(engine, [("say", "main", 0), ("run", "main", 1), ("describe", "main", 1), ("profile", "", 1)])
    scope = Scope("local", "agent", engine.new_id())
    await bring(engine, scope, lines)
    later = changed(lines, "thread", title="newer", updated_at=NOW + 10**9)
    later = changed(later, "run", reason="newer", updated_at=NOW + 10**9)
    later = changed(later, "message", parts=[{"type": "text", "text": "newer"}], revision=2)
    later = changed(later, "profile", content="newer", created_at=NOW + 10**9)
    await bring(engine, scope, later, mode)
    after = await export_lines(engine, scope)
    is_newer = told == "newer"
    assert (line_of(after, "thread")["title"] == "newer") is is_newer
    assert (line_of(after, "run").get("reason") == "newer") is is_newer
    assert texts(after) == ["newer" if is_newer else "the walnut tea number 0 is best"]
    profiles = [line["content"] for line in after if line["record"] == "profile"]
    assert profiles == (["tea 1", "newer"] if is_newer else ["tea 1"])
    older = await bring(engine, scope, lines, "merge")
    assert not is_newer or not any(counts["replaced"] for counts in older.counts.values())


async def test_pins_and_what_is_wrong_move_too_and_no_older_file_makes_it_right(engine: Engine) -> None:
    scope, older = await live(engine, [("remember", "", 1), ("remember", "", 3)])
    tea, cake = [line["entry_id"] for line in older if line["record"] == "entry"]
    await mark_entry(engine, scope, tea, pinned=True, wrong=None, sent=SENT)
    await mark_entry(engine, scope, cake, pinned=None, wrong=True, sent=SENT)
    lines = await export_lines(engine, scope)
    elsewhere = Scope("local", "agent", "elsewhere")
    await bring(engine, elsewhere, lines)
    assert in_order((await export_lines(engine, elsewhere))[1:]) == in_order(lines[1:])
    modes: tuple[Mode, ...] = ("skip", "merge", "overwrite")
    for mode in modes:
        await bring(engine, elsewhere, older, mode=mode)
        rows = {row["entry_id"]: row for row in await export_lines(engine, elsewhere) if row["record"] == "entry"}
        assert rows[cake]["status"] == "wrong", mode
        assert ("pinned_at" in rows[tea]) == (mode != "overwrite")


async def test_when_an_entry_ends_moves_with_it(engine: Engine) -> None:
    scope = Scope("local", "agent", "ends")
    request = RememberRequest("Tea is kept in the attic.", expires_at="2100-01-01")
    await remember(engine, scope, "", request, sent=SENT)
    elsewhere = Scope("local", "agent", "elsewhere")
    await bring(engine, elsewhere, await export_lines(engine, scope))
    (row,) = [line for line in await export_lines(engine, elsewhere) if line["record"] == "entry"]
    assert row["expires_at"] == parse_time("2100-01-02", "time")


async def test_what_comes_in_is_checked_and_masked_like_what_is_added(engine: Engine) -> None:
    engine = replace(engine, limits=Limits(message_text_bytes=100))
    secret = f"ghp_{'a1B2' * 9}"
    _, lines = await live(
        engine, [("say", "main", 1), ("remember", "", 1), ("plan", "main", 1), ("attempt", "main", 1)]
    )
    first = line_of(lines, "message")
    lines = changed(lines, "message", parts=[{"type": "text", "text": f"the key is {secret}"}])
    lines = changed(lines, "entry", content=f"The key of the cellar is {secret}.")
    lines = changed(lines, "attempt", action=f"try {secret}")
    at = lines.index(line_of(lines, "attempt"))
    lines[at:at] = [
        {**first, "seq": 7, "id": "long", "parts": [{"type": "text", "text": "x" * 201}]},
        {**first, "seq": 8, "id": "odd", "color": "red"},
        {**first, "seq": "nine", "id": "nine"},
        {**first, "thread": "nowhere"},
        {**first, "seq": 2**62, "id": "far"},
        {"record": "dream", "of": "tea"},
    ]
    lines.insert(1, {**line_of(lines, "thread"), "thread": "odd", "uid": "entry:1"})
    scope = Scope("local", "agent", engine.new_id())
    report = await bring(engine, scope, lines)
    after = await export_lines(engine, scope)
    assert secret not in repr(after)
    assert repr(after).count("[masked:github-token:") == 4
    assert report.masked == 4
    assert [(each.kind, each.why) for each in report.skipped] == [
        ("thread", "line 2.uid: must be 1 to 64 letters, digits and hyphens, not 'entry:1'"),
        ("message", "201 bytes of text; at most 200 are allowed in one message, so split it"),
        (
            "message",
            "message: unknown name 'color'; allowed: record, thread, seq, id, role, name, parts, metadata, created_at, said_at, revision, turn, set",
        ),
        ("message", "seq: must be a whole number below 2^53, not 'nine'"),
        ("message", "its thread 'nowhere' was not begun by a line before it"),
        ("message", "seq: must be a whole number below 2^53, not a number"),
        ("dream", "unknown record 'dream'"),
    ]


@pytest.mark.parametrize(
    ("record", "wrong"),
    [
        ("run", {"pending": [1]}),
        ("run", {"pending": {"c1": "approve"}}),
        ("run", {"resumed": [{"data": 1}]}),
        ("run", {"answered": [{}]}),
        ("run", {"usage": [["agent", "model", 1]]}),
        ("run", {"metadata": [1]}),
        ("run", {"status": "running"}),
        ("plan", {"plan": {"goal": "brew"}}),
        ("plan", {"plan": "brew"}),
        ("observation", {"level": 2**40}),
        ("message", {"revision": 2**40}),
    ],
)
async def test_what_no_tool_could_have_stored_is_left_out_and_said(
    both: list[Engine], record: str, wrong: Json
) -> None:
    _, lines = await live(both[0], [(act, "main", 3) for act in ("say", "run", "plan", "note")])
    for engine in both:
        scope = Scope("local", "agent", engine.new_id())
        report = await bring(engine, scope, changed(lines, record, **wrong))
        assert record in {each.kind for each in report.skipped}
        assert record not in {line["record"] for line in await export_lines(engine, scope)}
        assert "runs" in await list_runs(engine, scope, RunListing(), limit=9, cursor="")


async def test_messages_of_any_year_keep_their_times(both: list[Engine]) -> None:
    times = ("0001-01-01T00:00:00Z", "1969-12-31T23:59:59.999Z", "1970-01-09T02:26:40Z", "9999-12-31T23:59:59.999Z")
    said: list[Json] = [{"role": "user", "content": f"a letter of {time}", "created_at": time} for time in times]
    for source, target in (both, both[::-1]):
        scope = Scope("local", "agent", source.new_id())
        await addition.add_messages(source, scope, "letters", said, replace=False, sent=SENT)
        lines = await export_lines(source, scope)
        assert (await bring(target, scope, lines)).skipped == []
        arrived = [line for line in await export_lines(target, scope) if line["record"] == "message"]
        assert [line["said_at"] for line in arrived] == [parse_time(time, "time") for time in times]


async def test_a_message_of_a_time_that_no_calendar_shows_is_left_out_and_said(engine: Engine) -> None:
    _, lines = await live(engine, [("say", "main", 1)])
    scope = Scope("local", "agent", engine.new_id())
    report = await bring(engine, scope, changed(lines, "message", said_at=2**52))
    [why] = {each.why for each in report.skipped if each.kind == "message"}
    assert why.endswith("outside the years 1 to 9999")


async def test_a_thread_whose_import_came_to_no_end_takes_what_is_added(both: list[Engine]) -> None:
    _, lines = await live(both[0], [("say", "main", 2), ("steps", "main", 2)])
    at = lines.index(line_of(lines, "thread_state"))
    said: Json = {"role": "user", "content": "and mint tea"}
    thought: Json = {"type": "text", "operation_id": "op", "content": "mint"}
    for engine in both:
        scope = Scope("local", "agent", engine.new_id())
        await bring(engine, scope, lines, upto=at)
        await addition.add_messages(engine, scope, "main", [said], replace=False, sent=SENT)
        await steps.record_steps(engine, scope, "main", [thought], sent=SENT)
        assert (await bring(engine, scope, lines)).skipped == []
        assert "and mint tea" in texts(await export_lines(engine, scope))


async def test_what_was_deleted_here_stays_deleted(engine: Engine) -> None:
    scope, lines = await live(engine, [("say", "main", 1), ("remember", "", 1), ("say", "tea", 1)])
    life = Life(engine, scope)
    for act in (("delete", "main", 0), ("forget", "", 1), ("delete_thread", "tea", 0)):
        await life.act(*act)
    before = await export_lines(engine, scope)
    report = await bring(engine, scope, lines, "overwrite")
    assert in_order(await export_lines(engine, scope)) == in_order(before)
    assert [each.why for each in report.skipped if each.kind != "resource_event"] == [
        "it was deleted here, and stays so",
        "it is deleted here and stays so; `layerlore undo` brings it back",
        "it was forgotten here, and stays so",
    ]


async def test_an_import_stops_at_the_quota(engine: Engine) -> None:
    _, lines = await live(engine, [("say", "main", 2), ("say", "tea", 2)])
    scope = Scope("local", "agent", engine.new_id())
    taking = Import(engine, lambda named: scope, "merge", WriteRequest(Origin("x", "import"), quota=Quota(0, 600)))
    await taking.take([NumberedLine(number, line) for number, line in enumerate(lines[:4], 1)])
    with pytest.raises(LimitExceeded, match="at most 600 are allowed"):
        await taking.settle()
