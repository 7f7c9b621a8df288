"""Where no model notes a thread, extracts stand in: beyond 1.2 times the threshold, and where notes went."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layerlore.extraction.kinds.documents import find_repetition
from layerlore.memory.settings.note_settings import ObservationRules
from layerlore.storage.core.transaction import Database
from layerlore.storage.derived import observations

from ..talking import SMALL, Talk, words

pytestmark = pytest.mark.anyio

LATER = 60_000


async def order(talk: Talk, first: int, last: int) -> None:
    for number in range(first, last + 1):
        await talk.say(words(f"Please ship order ORD-{number} to Lima"))


async def test_beyond_the_threshold_a_model_is_waited_for_and_then_extracts_stand_in(database: Database) -> None:
    talk = Talk.on(database)
    await order(talk, 1, 20)
    assert await talk.waiting() == {"observe": "due"}
    await order(talk, 21, 24)
    assert await talk.waiting() == {"observe": "due", "digest": "later"}
    talk.now += LATER
    assert await talk.work("digest") == ["digest"]
    thread = await talk.found()
    assert SMALL.keep <= thread.raw_tokens < SMALL.keep + 60
    assert thread.buffered_seq == thread.observed_seq
    rows = await talk.rows()
    assert {(row.model, row.prompt, row.trust) for row in rows} == {("extractive", "digest/2", "user")}
    assert [row.from_seq for row in rows] == sorted({row.from_seq for row in rows})
    assert all(f"ORD-{row.from_seq} " in row.text for row in rows)
    assert len(rows) >= 4
    # The observer goes on behind them.
    await talk.work("observe")
    assert min(material.inputs.messages[0].seq for material in talk.chat.of("observe")) == thread.observed_seq + 1


async def test_what_was_noted_ahead_comes_before_extracts(database: Database) -> None:
    talk = Talk.on(database)
    await order(talk, 1, 6)
    await talk.work("observe")
    await order(talk, 7, 26)
    rows = await talk.rows()
    assert {row.model for row in rows} == {"scripted/one"}
    await order(talk, 27, 40)
    talk.now += LATER
    await talk.work("digest")
    made = [row.model for row in await talk.rows()]
    assert made[: len(rows)] == ["scripted/one"] * len(rows)
    assert set(made[len(rows) :]) == {"extractive"}


async def test_what_agents_say_is_dropped_before_facts_of_users_and_their_rules_and_corrections_never(
    database: Database,
) -> None:
    talk = Talk.on(database)
    await talk.say("Never email customers directly.", "No, the channel is #fin-alerts, not #finance-alerts.")
    for number in range(30):
        await talk.say(f"The customer {number} is Hartmann GmbH, account A-88{number:03}.")
        await talk.say(f"I looked at record R-77{number:03} in Oslo, Bergen and Narvik.", role="assistant")
        await talk.say(words("on it", 40), role="assistant")
        talk.now += LATER
        await talk.work("digest")
    texts = await talk.texts("active")
    dropped = await talk.texts("dropped")
    assert texts[:2] == [
        "user: Never email customers directly.",
        "user: No, the channel is #fin-alerts, not #finance-alerts.",
    ]
    assert dropped
    assert not any(text.startswith("user: ") for text in dropped) or not any(
        text.startswith("assistant: ") for text in texts
    )


async def test_an_observer_that_comes_first_leaves_a_digest_nothing(database: Database) -> None:
    talk = Talk.on(database)
    await order(talk, 1, 24)
    await talk.work("observe")
    talk.now += LATER
    assert await talk.work("digest") == ["digest"]
    assert {row.model for row in await talk.rows("active", "buffered")} == {"scripted/one"}


async def test_a_message_beyond_the_threshold_is_told_in_extracts_when_no_model_answers(database: Database) -> None:
    talk = Talk.on(database)
    await talk.say(" ".join(f"Please ship order ORD-{n} to Lima today." for n in range(150)))
    talk.now += LATER
    assert await talk.work("digest") == ["digest"]
    thread = await talk.found()
    assert (thread.observed_seq, thread.raw_tokens) == (1, 0)
    assert await talk.texts()


async def test_extracts_hold_no_secret_even_where_messages_keep_theirs(database: Database) -> None:
    talk = Talk.on(database, redaction="derived")
    key = f"sk-ant-api03-{'aB3dE5fG7hI9' * 5}"
    await talk.say(words(f"Please always use the key {key} for order ORD-1"))
    await order(talk, 2, 30)
    talk.now += LATER
    await talk.work("digest")
    assert "[masked:" in " ".join(await talk.texts())
    assert key[:20] not in " ".join(await talk.texts())


async def test_where_notes_went_with_a_message_what_remains_is_told_in_extracts(database: Database) -> None:
    talk = Talk.on(database, SMALL.model_copy(update={"reflect_tokens": 100_000}))
    for number in range(1, 23):
        await order(talk, number, number)
        await talk.work("observe")
    before = await talk.rows()
    uid = (await talk.found()).thread_uid
    await talk.engine.database.write(observations.changed, talk.scope, uid, [2], now=talk.now)
    (gap,) = await talk.engine.database.read(observations.gaps, talk.scope, uid)
    assert (gap.from_seq, gap.to_seq) == (1, before[0].batch)
    assert await talk.rows() == [row for row in before if row.batch > gap.to_seq]
    assert await talk.work("digest") == ["digest", "digest"]
    after = await talk.rows()
    assert [row.from_seq for row in after] == [row.from_seq for row in before]
    assert [row.model for row in after[: gap.to_seq]] == ["extractive"] * gap.to_seq
    assert await talk.engine.database.read(observations.gaps, talk.scope, uid) == []


def test_repetition_is_told_and_ordinary_notes_are_not() -> None:
    assert find_repetition(["the same"] * 4) == "3 of 4 notes repeat another one"
    assert find_repetition(["one", "two", "the same", "the same"]) is None
    assert find_repetition(["ha " * 100]) == "note 1 repeats itself"
    long = " ".join(f"the server number {n} went down and came up" for n in range(12))
    assert find_repetition([f"{n} {long}" for n in range(8)]) == "the notes repeat long passages"
    assert (
        find_repetition([f"Order ORD-{n * 7919} for customer {n * 104729} was shipped to Lima." for n in range(60)])
        is None
    )


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(max_size=300), max_size=12, unique_by=lambda text: " ".join(text.lower().split())))
def test_repetition_never_fails_and_short_notes_that_differ_pass(notes: list[str]) -> None:
    said = find_repetition(notes)
    assert said is None or any(len(each) >= 200 for each in notes) or sum(map(len, notes)) >= 2000


def test_the_steps_follow_from_the_shares() -> None:
    rules = ObservationRules()
    assert (rules.step, rules.keep, rules.stand_in_tokens, rules.batch) == (6000, 6000, 36_000, 10_000)
    assert rules.reflect_stand_in_tokens == 48_000
