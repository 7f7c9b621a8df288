"""What falls out of a window that is to be summarised is told, once, by a summary made of the one before it."""

from typing import Any

import pytest
from scripted_chat import ScriptedChat

from layerlore.extraction.jobs.worker import NoModel
from layerlore.extraction.kinds.kind import AnswerRefused, Fenced, Stale
from layerlore.extraction.kinds.summaries import Summariser
from layerlore.memory.window.policy import WindowPolicy, WindowRules
from layerlore.storage.core.records import Json
from layerlore.storage.core.transaction import Database
from layerlore.storage.derived import observations, session_notes
from layerlore.storage.derived.session_notes import Summary
from layerlore.storage.threads import events

from ..talking import words
from ..turning import Turns, given, said

pytestmark = pytest.mark.anyio


def summary(text: str) -> Json:
    return {"summary": text}


def policy(turns: Turns, **given: Any) -> None:
    turns.set(windows=WindowRules(WindowPolicy(**{"summarise": True, "summary_tokens": 60, **given})))


@pytest.fixture
def turns(database: Database) -> Turns:
    made = Turns.on(database, Summariser())
    policy(made, limit="messages", max_messages=4)
    return made


async def say(turns: Turns, count: int, *, first: int = 1) -> None:
    """Turns of two messages of 50 tokens each."""
    for number in range(first, first + count):
        await turns.turn(words(f"q{number}"), words(f"a{number}"))


async def newest(turns: Turns, before: int = 10**6) -> Summary | None:
    uid = (await turns.talk.found()).thread_uid
    return await turns.talk.engine.database.read(session_notes.newest, turns.talk.scope, uid, before=before)


def tags(content: Json) -> list[str]:
    return [text.partition(":")[0] for text in said(content["messages"])]


async def test_what_fell_out_is_summarised_together_with_the_summary_of_what_fell_out_before(turns: Turns) -> None:
    await say(turns, 3)
    assert await turns.work(summary("never")) == [], "two messages are too few"
    await say(turns, 1, first=4)
    (first,) = await turns.work(summary("Tea was asked for."))
    assert (first["summary"], tags(first)) == ("", ["q1", "a1", "q2", "a2"])
    await say(turns, 2, first=5)
    (second,) = await turns.work(summary("Tea, again and again."))
    assert (second["summary"], tags(second)) == ("Tea was asked for.", ["q3", "a3", "q4", "a4"])
    found = await newest(turns)
    assert found is not None
    assert (found.text, found.from_seq, found.upto_seq) == ("Tea, again and again.", 1, 8)
    assert (found.model, found.prompt, found.tokens) == ("scripted/one", "summary/2", 6)
    earlier = await newest(turns, 8)
    assert earlier is not None
    assert earlier.upto_seq == 4
    assert await turns.waiting() == []
    log = await turns.talk.engine.database.read(
        events.read_page, turns.talk.scope, "main", after=0, types=["summary_updated"], limit=9
    )
    assert [event.payload for event in log.events] == [{"from_seq": 1, "to_seq": 4}, {"from_seq": 1, "to_seq": 8}]


async def test_the_policys_own_prompt_and_length_are_asked_for(turns: Turns) -> None:
    policy(turns, limit="messages", max_messages=4, summary_prompt="Only numbers {{ x }}.", summary_tokens=40)
    await say(turns, 5)
    claim = await turns.claim()
    assert claim is not None
    material = await turns.talk.engine.database.read(turns.kind.prepare, claim, turns.talk.engine)
    assert material is not None
    assert "Only numbers {{ x }}." in material.instructions
    assert "40 tokens" in material.instructions


async def test_tools_are_told_and_secrets_are_masked(turns: Turns) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    await turns.talk.say(words("q0"))
    await turns.talk.add({"role": "assistant", "content": "", "tool_calls": [call]})
    await turns.talk.add({"role": "tool", "tool_call_id": "c", "content": "green"})
    await say(turns, 4)
    (content,) = await turns.work(summary("It is green. Key: ghp_abcdefghijklmnopqrstuvwxyz0123456789"))
    assert "[tool result look: green]" in said(content["messages"])
    found = await newest(turns)
    assert found is not None
    assert "It is green." in found.text
    assert "abcdefgh" not in found.text


async def test_threads_whose_policy_does_not_summarise_are_left_alone(turns: Turns) -> None:
    policy(turns, limit="messages", max_messages=4, summarise=False)
    await say(turns, 5)
    assert await turns.claim() is None
    policy(turns, limit="messages", max_messages=4)
    await say(turns, 1)
    policy(turns, limit="messages", max_messages=4, summarise=False)
    assert await turns.work(summary("never")) == []
    assert await turns.waiting() == []


@pytest.mark.parametrize(
    ("given", "turns_said", "told"),
    [
        ({"limit": "tokens", "max_tokens": 210}, 5, ["q1", "a1", "q2", "a2", "q3"]),
        ({"limit": "tokens", "max_tokens": 60, "min_messages": 4}, 5, ["q1", "a1", "q2", "a2", "q3", "a3"]),
        (
            {"limit": "messages", "max_messages": 4, "drop": "middle", "keep_first": 2},
            6,
            ["q2", "a2", "q3", "a3", "q4", "a4"],
        ),
        (
            {"limit": "messages", "trim": "threshold", "threshold": 10, "target": 4},
            6,
            ["q1", "a1", "q2", "a2", "q3", "a3"],
        ),
        ({"limit": "messages", "trim": "threshold", "threshold": 20, "target": 4}, 6, None),
        ({"limit": "observed"}, 6, None),
    ],
    ids=["tokens", "fewest", "middle", "threshold", "below the threshold", "observed"],
)
async def test_what_falls_out_follows_the_policy(
    turns: Turns, given: Json, turns_said: int, told: list[str] | None
) -> None:
    policy(turns, **given)
    await say(turns, turns_said)
    read = await turns.work(summary("Tea."))
    assert [tags(content) for content in read] == ([told] if told else [])


async def test_of_an_observed_thread_only_what_is_not_observed_and_too_much_is_summarised(turns: Turns) -> None:
    policy(turns, limit="observed", last_messages=2)
    for number in range(1, 13):
        await turns.turn(words(f"q{number}", 700), words(f"a{number}", 300))
    thread = await turns.talk.found()
    cursor = observations.Cursor(2)
    database, scope = turns.talk.engine.database, turns.talk.scope
    await database.write(observations.buffer, scope, thread, cursor, current_task=None, next_step=None)
    note = observations.NewObservation("info", "tea", 0, None, 1, 2, 3, "user", 2)
    made = {"status": "buffered", "model": "m", "prompt": "p", "now": 0}
    await database.write(observations.add, scope, thread.thread_uid, [note], **made)
    await database.write(observations.activate, scope, await turns.talk.found(), keep=0)
    assert (await turns.talk.found()).observed_seq == 2
    (content,) = await turns.work(summary("Tea."))
    assert tags(content) == ["q2", "a2", "q3", "a3", "q4", "a4"]


@pytest.mark.parametrize("wrong", [{}, summary(""), summary("…"), summary("\n".join(["tea"] * 9))], ids=str)
async def test_what_is_no_summary_is_refused(turns: Turns, wrong: Json) -> None:
    await say(turns, 5)
    with pytest.raises(AnswerRefused, match="summary"):
        await turns.work(wrong)
    assert await newest(turns) is None


async def test_a_summary_that_is_too_long_is_refused_once_and_then_cut(turns: Turns) -> None:
    await say(turns, 5)
    long = summary(" ".join(f"word{n}" for n in range(200)))
    with pytest.raises(AnswerRefused, match="at most 60"):
        await turns.work(long)
    await turns.work(long)
    found = await newest(turns)
    assert found is not None
    assert found.tokens <= 62
    assert found.text.startswith("word0 word1")
    assert found.text.endswith("…")


async def test_a_long_backlog_is_summarised_in_pieces(turns: Turns) -> None:
    for number in range(8):
        await turns.turn(f"q{number}: " + "long " * 3_000)
    read = await turns.work(
        lambda material: summary(f"{given(material)['summary']} {len(given(material)['messages'])}")
    )
    assert [content["summary"] for content in read] == ["", "4", "4 4"]
    found = await newest(turns)
    assert found is not None
    assert (found.from_seq, found.upto_seq) == (1, 12)


async def test_a_message_deleted_meanwhile_or_another_summary_leaves_nothing(turns: Turns) -> None:
    await turns.talk.add({"role": "user", "content": words("q0"), "id": "a"})
    await say(turns, 5)
    engine, claim = turns.talk.engine, await turns.claim()
    assert claim is not None
    material = await engine.database.read(turns.kind.prepare, claim, engine)
    assert material is not None
    other = Summary(1, 1, "Theirs.", 1, "m", "p", 0)
    uid = (await turns.talk.found()).thread_uid
    await engine.database.write(session_notes.add_summary, turns.talk.scope, uid, other)
    with pytest.raises(Stale):
        await turns.answer(claim, material, summary("Mine."))
    await turns.talk.delete("a")
    with pytest.raises((Stale, Fenced)):
        await turns.answer(claim, material, summary("Mine."))
    found = await newest(turns)
    assert found is None or found.text == "Theirs."


async def test_summaries_wait_for_a_model(turns: Turns) -> None:
    await say(turns, 5)
    claim = await turns.claim()
    assert claim is not None
    with pytest.raises(NoModel):
        await turns.attempt(claim, None)
    await turns.attempt(claim, ScriptedChat(summary=summary("Tea.")))
