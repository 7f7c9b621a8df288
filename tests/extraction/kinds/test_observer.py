"""What is said is noted ahead, and the notes take the place of the messages; nothing is lost between the two."""

import pytest
from scripted_chat import ScriptedChat

from layerlore.extraction.jobs.worker import attempt
from layerlore.memory.messages.addition import add_messages
from layerlore.memory.observations.observation_text import list_observations
from layerlore.memory.recall.hit_lines import MemoryLine
from layerlore.memory.recall.recall import RecallRequest, recall
from layerlore.memory.removal.deletion import delete_messages, delete_thread
from layerlore.memory.settings.note_settings import ObservationRules
from layerlore.memory.text.quotation import wrap_block
from layerlore.storage.core.records import ROLES, Json
from layerlore.storage.core.transaction import Database
from layerlore.storage.threads import events

from ..talking import KINDS, SENT, SMALL, Talk, given, note, noting, words

pytestmark = pytest.mark.anyio


async def test_a_fifth_of_the_threshold_is_noted_ahead_and_shown_to_nobody(database: Database) -> None:
    talk = Talk.on(database)
    await talk.say(words("m1"), words("m2"), words("m3"))
    assert await talk.work() == []
    await talk.say(words("m4"))
    assert await talk.work() == ["observe"]
    assert (await talk.texts("buffered"), await talk.texts("active")) == (["m1", "m2", "m3", "m4"], [])
    thread = await talk.found()
    assert (thread.observed_seq, thread.buffered_seq, thread.raw_tokens) == (0, 4, thread.token_count)


async def test_at_the_threshold_notes_take_the_place_of_all_but_the_newest_fifth(database: Database) -> None:
    talk = Talk.on(database)
    for number in range(1, 19):
        await talk.say(words(f"m{number}"))
        await talk.work()
    before = await talk.found()
    assert (before.observed_seq, before.raw_tokens) == (0, before.token_count)
    await talk.say(words("m19"), words("m20"))
    thread = await talk.found()
    assert thread.raw_tokens >= SMALL.keep
    assert thread.raw_tokens < SMALL.keep + 2 * SMALL.step
    assert await talk.texts() == [f"m{number}" for number in range(1, thread.observed_seq + 1)]
    assert thread.raw_tokens == thread.token_count // 20 * (20 - thread.observed_seq)
    assert await talk.work() == ["observe"]


async def test_each_note_names_its_messages_its_trust_and_who_made_it(database: Database) -> None:
    talk = Talk.on(database)
    await talk.say(words("ask"))
    await talk.say(words("answer"), role="assistant")
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    await talk.add({"role": "assistant", "content": "", "tool_calls": [call]})
    await talk.add({"role": "tool", "tool_call_id": "c1", "content": words("sunny", 90)})
    await talk.say(words("fine"))
    talk.chat = ScriptedChat(
        observe=noting(
            note("asked", 1, 1, "important"),
            note("answered", 1, 2),
            note("sunny", 3, 4, details=["very"]),
            note("wild", 7, 99),
            task="tea",
            step="boil",
        )
    )
    assert await talk.work() == ["observe"]
    rows = await talk.rows("buffered")
    assert [(row.text, row.from_seq, row.to_seq, row.trust) for row in rows] == [
        ("asked", 1, 1, "user"),
        ("answered", 1, 2, "assistant"),
        ("sunny", 3, 4, "tool"),
        ("very", 3, 4, "tool"),
        ("wild", 1, 5, "tool"),  # seqs that nobody gave: all that was given
    ]
    assert [row.parent_id for row in rows] == [None, None, None, rows[2].observation_id, None]
    assert {(row.model, row.prompt, row.level, row.batch) for row in rows} == {("scripted/one", "observe/2", 0, 5)}
    thread = await talk.found()
    assert (thread.current_task, thread.next_step) == ("tea", "boil")
    assert rows[0].said_at < rows[2].said_at


async def test_nothing_is_noted_again_and_the_observer_knows_what_it_noted(database: Database) -> None:
    talk = Talk.on(database)
    for number in range(1, 13):
        await talk.say(words(f"m{number}"))
        await talk.work()
    seen = [each["seq"] for material in talk.chat.of("observe") for each in given(material)["messages"]]
    assert seen == list(range(1, len(seen) + 1))
    assert len(seen) >= 8
    last = given(talk.chat.of("observe")[-1])
    assert [each["text"] for each in last["already_noted"]] == [f"m{n}" for n in range(1, last["messages"][0]["seq"])]


async def test_an_answer_without_notes_moves_the_cursor_only_if_it_says_that_there_is_nothing(
    database: Database,
) -> None:
    talk = Talk.on(database, chat=ScriptedChat(observe={"observations": [], "nothing_to_note": False}))
    await talk.say(*(words(f"m{n}") for n in range(5)))
    assert [each[:16] for each in await talk.work(most=1)] == ["observe refused:"]
    assert (await talk.found()).buffered_seq == 0
    talk.chat = ScriptedChat(observe=noting())
    assert await talk.work() == ["observe"]
    assert (await talk.found()).buffered_seq == 5
    assert await talk.texts("buffered") == []


@pytest.mark.parametrize(
    "answer",
    [
        noting(*(note("the same", 1, 1) for _ in range(6))),
        noting(note("no " * 300, 1, 1)),
        noting(note("one", 1, 1, "urgent")),
        noting(*(note(f"{n} " + "long " * 40, 1, 5) for n in range(40))),
        {"observations": "none"},
        {"observations": [{"marker": "info"}]},
        {},
    ],
    ids=["repeated notes", "a loop", "unknown marker", "longer than the messages", "no list", "no text", "empty"],
)
async def test_a_degenerate_answer_is_refused_and_nothing_is_stored(database: Database, answer: object) -> None:
    talk = Talk.on(database)
    await talk.say(*(words(f"m{n}") for n in range(5)))
    talk.chat = ScriptedChat(observe=answer)  # type: ignore[arg-type]
    assert [each[:16] for each in await talk.work(most=1)] == ["observe refused:"]
    assert await talk.rows("buffered", "active") == []
    assert (await talk.found()).buffered_seq == 0


@pytest.mark.parametrize("share", [0.8, 1.4])
async def test_notes_may_be_as_long_as_what_they_tell_and_no_longer(database: Database, share: float) -> None:
    talk = Talk.on(database, ObservationRules(message_tokens=5000, reflect_tokens=100_000))
    await talk.say(*(words(f"m{n}", 250) for n in range(5)))
    tokens, notes = talk.engine.tokens, list[Json]()
    while sum(tokens.text(each["text"]) + 12 for each in notes) < share * (await talk.found()).token_count:
        notes.append(note(" ".join(f"fact{len(notes)}x{each}" for each in range(20)), 1, 5))
    talk.chat = ScriptedChat(observe=noting(*notes))
    (done,) = await talk.work(most=1)
    assert done == "observe" if share < 1 else "more than the messages have" in done, done


async def test_a_message_longer_than_one_call_is_noted_in_pieces(database: Database) -> None:
    talk = Talk.on(database)
    await talk.say(words("first"))
    text = " ".join(f"word{n}" for n in range(900))
    await talk.say(text)
    await talk.say(words("last", 30))
    talk.chat = ScriptedChat(observe=lambda material: noting(note(given(material)["messages"][0]["text"][:9], 2, 2)))
    assert set(await talk.work("observe")) == {"observe"}
    told = [given(material)["messages"] for material in talk.chat.of("observe")]
    pieces = [each for messages in told for each in messages if each["seq"] == 2]
    assert len(pieces) > 1
    assert "".join(each["text"] for each in pieces) == text
    assert pieces[0]["part"].startswith("characters 1 to ")
    thread = await talk.found()
    assert (thread.buffered_seq, thread.buffered_chars) == (2, 0)
    assert len(await talk.rows("buffered", "active")) == len(told)


async def test_a_backlog_is_worked_off_at_once_a_batch_at_a_time(database: Database) -> None:
    talk = Talk.on(database, ObservationRules(message_tokens=500, reflect_tokens=100_000))
    await talk.say(*(words(f"m{n}") for n in range(1, 61)))
    ended = await talk.work("observe")
    assert len(ended) > 3
    thread = await talk.found()
    assert thread.buffered_seq >= 58
    assert await talk.texts("active", "buffered") == [f"m{n}" for n in range(1, thread.buffered_seq + 1)]
    assert thread.raw_tokens < 500
    assert await talk.waiting() == {"digest": "later"}


async def test_own_blocks_and_recalled_text_are_not_observed(database: Database) -> None:
    talk = Talk.on(database)
    recalled = wrap_block("memory", "SECRET-RECALLED", "what is remembered")
    call = {"id": "c1", "type": "function", "function": {"name": "mcp__x__recall_memory", "arguments": "{}"}}
    await talk.say(f"{recalled}\n\nhello")
    await talk.add({"role": "assistant", "content": "", "tool_calls": [call]})
    await talk.add({"role": "tool", "tool_call_id": "c1", "content": "SECRET-RECALLED"})
    await talk.say(words("ok", 200))
    await talk.work()
    (material,) = talk.chat.of("observe")
    assert "SECRET-RECALLED" not in material.content
    assert [each["text"][:7] for each in given(material)["messages"]] == ["hello", "ok: tea"]


async def test_a_call_waits_for_its_result_and_both_are_noted_together(database: Database) -> None:
    talk = Talk.on(database)
    await talk.say(*(words(f"m{n}") for n in range(1, 4)))
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    await talk.add({"role": "assistant", "content": words("look"), "tool_calls": [call]})
    await talk.work()
    assert (await talk.found()).buffered_seq == 3
    await talk.add({"role": "tool", "tool_call_id": "c1", "content": words("sunny", 250)})
    await talk.work()
    assert [each["seq"] for each in given(talk.chat.of("observe")[-1])["messages"]] == [4, 5]


async def test_a_thread_of_tool_results_is_observed_like_any_other(database: Database) -> None:
    talk = Talk.on(database, ObservationRules(message_tokens=3000, reflect_tokens=100_000))
    talk.chat = ScriptedChat(
        observe=lambda material: noting(
            *(note(f"read number {each['seq']}", each["seq"], each["seq"]) for each in given(material)["messages"])
        )
    )
    for number in range(1, 31):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "read", "arguments": "{}"}}
        await talk.add(
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": words(f"file {number}", 200)},
        )
        await talk.work("observe")
    thread = await talk.found()
    assert thread.observed_seq > 20
    assert thread.raw_tokens < 3000


async def test_silent_messages_need_no_model(database: Database) -> None:
    talk = Talk.on(database)
    images = [{"type": "text", "text": wrap_block("memory", words("m", 120), "old")}]
    await talk.add(*({"role": "user", "content": images} for _ in range(3)))
    claim = await talk.claim("observe")
    assert claim is not None
    material = await database.read(KINDS["observe"].prepare, claim, talk.engine)
    assert material is not None
    assert KINDS["observe"].digest(material) == noting()
    await attempt(talk.engine, KINDS["observe"], claim, talk.chat)
    assert talk.chat.request == []
    assert (await talk.found()).buffered_seq == 3


async def test_a_job_of_a_deleted_thread_asks_no_model(database: Database) -> None:
    talk = Talk.on(database)
    await talk.say(*(words(f"m{n}") for n in range(5)))
    await delete_thread(talk.engine, talk.scope, "main", sent=SENT)
    assert await talk.work() == ["observe"]
    assert talk.chat.request == []


async def test_notes_are_found_by_recall_until_a_message_of_theirs_is_deleted(database: Database) -> None:
    talk = Talk.on(database, chat=ScriptedChat(observe=noting(note("she asks for forecasts", 1, 4))))
    await talk.say(*(words(f"m{n}") for n in range(4)))
    assert await talk.work() == ["observe"]

    async def found() -> list[str]:
        recalled = await recall(talk.engine, talk.scope, RecallRequest(["forecasts"]))
        return [str(MemoryLine(hit.message, hit.message.parts[0]["text"])) for hit in recalled.hits]

    assert await found() == ["[observation of thread main, 2025-06-15] she asks for forecasts"]
    await delete_messages(talk.engine, talk.scope, "main", "all", ids=[], roles=ROLES, sent=SENT)
    assert await found() == []


async def test_what_is_noted_and_shown_stands_in_the_log_and_in_the_answer_for_people(database: Database) -> None:
    talk = Talk.on(database)
    for number in range(1, 21):
        await talk.say(words(f"m{number}"))
        await talk.work("observe")
    page = await database.read(events.read_page, talk.scope, "main", after=0, types=(), limit=1000)
    noted = [event for event in page.events if event.type.startswith("observations_")]
    assert noted[0].payload == {"from_seq": 1, "to_seq": 4, "count": 4}
    assert {(event.type, event.actor) for event in noted} >= {("observations_added", "observe")}
    thread = await talk.found()
    shown = [event.payload["observed_seq"] for event in noted if event.type == "observations_activated"]
    assert shown == [thread.observed_seq]
    answer = await list_observations(talk.engine, talk.scope, "main")
    assert answer["observed_seq"] == thread.observed_seq
    assert [each["text"] for each in answer["observations"]] == [f"m{n}" for n in range(1, thread.observed_seq + 1)]
    assert answer["observations"][0] == {
        "id": 1,
        "marker": "info",
        "text": "m1",
        "said_at": "2025-06-15T15:07:40.000Z",
        "from_seq": 1,
        "to_seq": 1,
        "trust": "user",
        "reflections": 0,
        "model": "scripted/one",
    }


async def test_a_message_that_is_sent_again_counts_once(database: Database) -> None:
    talk = Talk.on(database)
    raw = [{"id": "a", "role": "user", "content": words("m", 150)}]
    for _ in range(3):
        await add_messages(talk.engine, talk.scope, "main", raw, replace=False, sent=SENT)
    assert await talk.work() == []
    thread = await talk.found()
    assert thread.raw_tokens == thread.token_count
