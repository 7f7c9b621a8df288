"""The first turn with something to keep begins the document. After that what is new in a turn is noted, and after enough
notes they are in the document, or all still there."""

import pytest

from layerlore.extraction.jobs.worker import NoModel
from layerlore.extraction.kinds.kind import AnswerRefused, Stale
from layerlore.extraction.kinds.session_memory import COMPACTED, MOST_NOTES, SessionMemoryWriter
from layerlore.memory.documents import working_memory
from layerlore.memory.settings.note_settings import DocumentRules, WorkingMemoryRules
from layerlore.memory.text.quotation import wrap_block
from layerlore.storage.core.records import Json
from layerlore.storage.core.transaction import Database
from layerlore.storage.derived import session_notes
from layerlore.storage.derived.session_notes import Note
from layerlore.storage.threads import events

from ..talking import MINUTE
from ..turning import Turns, said

pytestmark = pytest.mark.anyio

NOTHING: Json = {"notes": [], "nothing_to_note": True}
SCHEMA: Json = {
    "type": "object",
    "additionalProperties": False,
    "required": ["objective"],
    "properties": {"objective": {"type": "string"}},
}


def noting(*texts: str, category: str = "state") -> Json:
    return {"notes": [{"category": category, "text": text} for text in texts], "nothing_to_note": not texts}


def document(text: str) -> Json:
    return {"document": text}


@pytest.fixture
def turns(database: Database) -> Turns:
    turns = Turns.on(database, SessionMemoryWriter())
    # Between the turns of these tests much time passes.
    turns.set(working_memory=WorkingMemoryRules(idle_minutes=10_080))
    return turns


async def queued(turns: Turns) -> list[Note]:
    uid = (await turns.talk.found()).thread_uid
    return await turns.talk.engine.database.read(session_notes.queued, turns.talk.scope, uid)


async def texts(turns: Turns) -> list[str]:
    return [note.text for note in await queued(turns)]


async def note_turns(turns: Turns, count: int) -> None:
    for number in range(1, count + 1):
        await turns.turn(f"Say {number}.")
        await turns.work(noting(f"said {number}"))


async def test_the_first_turn_that_has_something_to_keep_begins_the_document(turns: Turns) -> None:
    await turns.turn("What is a gate?", "An opening in a wall.")
    (given,) = await turns.work(document(""))
    assert said(given["messages"]) == ["What is a gate?", "An opening in a wall."]
    assert (await turns.document()).version == 0
    assert await turns.cursor("session_seq") == 2
    await turns.turn("Gate 7 stays closed until Monday.")
    (given,) = await turns.work(document("Gate 7 stays closed until Monday."))
    assert (given["session_memory"], given["notes"]) == ("", [])
    kept = await turns.document()
    assert kept.content == "Gate 7 stays closed until Monday."
    assert kept.changed is not None
    assert (kept.changed.actor, kept.changed.tool) == ("scripted/one", "session_document/1")
    assert await turns.sources(1) == [(3, 4)]
    assert await turns.waiting() == []


async def test_thanks_and_greetings_ask_no_model_and_are_read_with_what_is_said_next(turns: Turns) -> None:
    await turns.keep("Find the gate.")
    await turns.turn("Hello!", "Hi, what can I do?")
    assert await turns.work(noting("never")) == []
    assert await turns.waiting() == []
    await turns.turn("The gate is green.")
    (given,) = await turns.work(noting("the gate is green"))
    assert said(given["messages"]) == ["Hello!", "Hi, what can I do?", "The gate is green.", "I see."]


async def test_notes_that_wait_are_written_into_the_document_once_the_conversation_rests(turns: Turns) -> None:
    turns.set(working_memory=WorkingMemoryRules(idle_minutes=60))
    await turns.keep("Find the gate.")
    await turns.turn("The gate is green.")
    assert ["notes" in given for given in await turns.work(noting("the gate is green"))] == [False]
    (waiting,) = await turns.waiting()
    assert waiting.due_at == (await queued(turns))[0].created_at + 60 * MINUTE
    turns.talk.now = waiting.due_at
    (given,) = await turns.work(document("Find the green gate."))
    assert (given["session_memory"], [note["text"] for note in given["notes"]]) == (
        "Find the gate.",
        ["the gate is green"],
    )
    assert await turns.content() == "Find the green gate."
    assert await texts(turns) == []
    assert await turns.waiting() == []


async def test_a_turn_before_the_conversation_rests_is_noted_and_the_rest_begins_anew(turns: Turns) -> None:
    turns.set(working_memory=WorkingMemoryRules(idle_minutes=60))
    await turns.keep("Find the gate.")
    await turns.turn("The gate is green.")
    await turns.work(noting("the gate is green"))
    await turns.turn("The gate is open.")
    assert len(await turns.work(noting("the gate is open"))) == 1
    (waiting,) = await turns.waiting()
    assert waiting.due_at == (await queued(turns))[-1].created_at + 60 * MINUTE
    assert await texts(turns) == ["the gate is green", "the gate is open"]


async def test_notes_from_before_a_rest_are_written_with_the_turn_that_ends_it(turns: Turns) -> None:
    turns.set(working_memory=WorkingMemoryRules(idle_minutes=60))
    await turns.keep("Find the gate.")
    await turns.turn("The gate is green.")
    await turns.work(noting("the gate is green"))
    turns.talk.now += 61 * MINUTE
    await turns.turn("The gate is open.")
    (given,) = await turns.work(document("The green gate is open."))
    assert [note["text"] for note in given["notes"]] == ["the gate is green"]
    assert said(given["messages"]) == ["The gate is open.", "I see."]
    assert await turns.waiting() == []


@pytest.mark.parametrize("said", ["No, the gate is red.", "Sorry, I meant gate 8.", "Gate 7 is closed."])
async def test_what_the_user_corrects_is_written_into_the_document_at_once(turns: Turns, said: str) -> None:
    await turns.keep("Gate 7 is open.")
    await turns.turn("The wall is high.")
    await turns.work(noting("the wall is high"))
    await turns.turn(said)
    (given,) = await turns.work(document("It is corrected."))
    assert [note["text"] for note in given["notes"]] == ["the wall is high"]
    assert given["messages"][0]["text"] == said
    assert await turns.content() == "It is corrected."
    assert await texts(turns) == []
    assert await turns.waiting() == []


async def test_notes_that_wait_stand_below_the_document_until_it_holds_them(turns: Turns) -> None:
    await turns.turn("The gate opens on Monday.")
    await turns.work(document("- Opens: Monday\n- The wall is 3 m high."))
    await turns.turn("The wall is painted.")
    await turns.work(noting("The wall is painted.", "The wall is 4 m high."))
    shown = working_memory.render_block(await turns.document())
    assert "- Opens: Monday\n- The wall is 3 m high. (newer, " in shown
    assert ": The wall is 4 m high.)\n\nNewer than this document:\n- " in shown
    assert shown.endswith(", noted from #3-4: The wall is painted.\n</value>\n</session-memory>")
    await note_turns(turns, COMPACTED - 3)
    await turns.turn("Say the last.")
    await turns.work(noting("said the last"), document("- The wall is 4 m high."))
    assert "newer" not in working_memory.render_block(await turns.document()).lower()


async def test_a_correction_that_an_agent_wrote_into_the_document_is_only_noted(turns: Turns) -> None:
    await turns.keep("The gate is green.")
    await turns.talk.say("No, the gate is red.")
    await turns.keep("The gate is red.")
    await turns.talk.say("I see.", role="assistant")
    (given,) = await turns.work(NOTHING)
    assert "notes" not in given
    assert await turns.content() == "The gate is red."


async def test_notes_wait_until_there_are_enough_and_are_then_written_into_the_document(turns: Turns) -> None:
    await turns.keep("Say it.")
    await note_turns(turns, COMPACTED - 1)
    assert await texts(turns) == [f"said {n}" for n in range(1, COMPACTED)]
    assert await turns.content() == "Say it."
    await turns.turn("Say the last.")
    noted, compacted = await turns.work(noting("said the last", category="objective"), document("All was said."))
    assert [note["text"] for note in noted["already_noted"]] == [f"said {n}" for n in range(1, COMPACTED)]
    assert compacted["session_memory"] == "Say it."
    assert compacted["notes"][-1] == {"category": "objective", "text": "said the last"}
    assert len(compacted["notes"]) == COMPACTED
    kept = await turns.document()
    assert kept.content == "All was said."
    assert kept.changed is not None
    assert (kept.changed.actor, kept.changed.tool) == ("scripted/one", "session_document/1")
    assert await turns.sources(2) == [(1, 2 * COMPACTED)]
    assert await texts(turns) == []
    assert await turns.waiting() == []
    log = await turns.talk.engine.database.read(
        events.read_page, turns.talk.scope, "main", after=0, types=["working_memory_updated"], limit=9
    )
    assert [(event.actor, event.payload["version"]) for event in log.events][1:] == [("session_memory", 2)]


async def test_a_model_is_given_what_was_said_and_done_since_the_last_notes(turns: Turns) -> None:
    await turns.keep("Find the gate.")
    await turns.turn("The gate is open.")
    await turns.work(NOTHING)
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    await turns.talk.say(f"{wrap_block('session-memory', 'Find the gate.')}\nIs it green?")
    await turns.talk.add({"role": "assistant", "content": "", "tool_calls": [call]})
    await turns.talk.add({"role": "tool", "tool_call_id": "c", "content": "green"})
    await turns.talk.say("It is.", role="assistant")
    (given,) = await turns.work(noting("the gate is green"))
    assert given["session_memory"] == "Find the gate."
    assert said(given["messages"]) == ["Is it green?", "[tool call look({})]", "[tool result look: green]", "It is."]
    (note,) = await queued(turns)
    assert (note.category, note.from_seq, note.to_seq) == ("state", 3, 6)


async def test_an_answer_without_notes_moves_the_cursor_only_if_it_says_that_there_is_nothing(turns: Turns) -> None:
    await turns.keep("Find the gate.")
    await turns.turn("The gate is open.")
    for empty in ({"notes": [], "nothing_to_note": False}, {"notes": [{"category": "state", "text": " "}]}):
        with pytest.raises(AnswerRefused, match="nothing_to_note"):
            await turns.work(empty)
    assert await turns.cursor("session_seq") == 0
    await turns.work(NOTHING)
    assert await turns.cursor("session_seq") == 2
    assert await texts(turns) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"notes": "none"},
        {"notes": ["none"]},
        {"notes": [{"category": "gossip", "text": "x"}]},
        {"notes": [{"category": "state"}]},
        noting(*(f"note {n}" for n in range(MOST_NOTES + 1))),
        noting("no " * 300),
    ],
    ids=["empty", "no list", "no object", "unknown category", "no text", "too many", "a loop"],
)
async def test_notes_of_another_shape_are_refused(turns: Turns, wrong: Json) -> None:
    await turns.keep("Find the gate.")
    await turns.turn("The gate is open.")
    with pytest.raises(AnswerRefused):
        await turns.work(wrong)
    assert await texts(turns) == []


async def test_what_waits_already_is_not_noted_again_and_secrets_are_masked(turns: Turns) -> None:
    await turns.keep("Find the gate.")
    await turns.turn("The gate is open.")
    await turns.work(noting("a", "a", "token ghp_abcdefghijklmnopqrstuvwxyz0123456789 set"))
    await turns.turn("The gate is open.")
    await turns.work(noting("a", "b"))
    found = await texts(turns)
    assert [found[0], found[2]] == ["a", "b"]
    assert "abcdefghijklm" not in found[1]
    assert len(found) == 3


@pytest.mark.parametrize(
    "wrong", [{}, document(""), document("# Session\n\n"), document("\n".join(["tea"] * 9))], ids=str
)
async def test_a_document_that_does_not_validate_leaves_the_notes_waiting(turns: Turns, wrong: Json) -> None:
    await turns.keep("Find the gate.")
    await note_turns(turns, COMPACTED - 1)
    await turns.turn("The gate is open.")
    with pytest.raises(AnswerRefused):
        await turns.work(noting("last"), wrong)
    assert len(await texts(turns)) == COMPACTED
    assert (await turns.document()).version == 1
    await turns.work(document("Find the gate. All said."))
    assert await texts(turns) == []
    assert await turns.content() == "Find the gate. All said."


async def test_a_json_document_fits_its_schema(turns: Turns) -> None:
    turns.rule(DocumentRules(format="json", json_schema=SCHEMA), idle_minutes=10_080)
    await turns.keep({"objective": "a gate"})
    await note_turns(turns, COMPACTED - 1)
    await turns.turn("The gate is open.")
    with pytest.raises(AnswerRefused, match="JSON Schema"):
        await turns.work(noting("last"), document('{"goal": "gate"}'))
    assert len(await texts(turns)) == COMPACTED
    await turns.work(document('{"objective": "gate"}'))
    assert await turns.content() == '{"objective":"gate"}'


async def test_a_version_that_a_caller_wrote_meanwhile_stays_and_so_do_the_notes(turns: Turns) -> None:
    await turns.keep("Find the gate.")
    await note_turns(turns, COMPACTED - 1)
    await turns.turn("The gate is open.")
    engine = turns.talk.engine
    claim = await turns.claim()
    assert claim is not None
    first = await engine.database.read(turns.kind.prepare, claim, engine)
    assert first is not None
    await turns.answer(claim, first, noting("last"))
    claim = await turns.claim()
    assert claim is not None
    material = await engine.database.read(turns.kind.prepare, claim, engine)
    assert material is not None
    await turns.keep("Mine.")
    with pytest.raises(Stale):
        await turns.answer(claim, material, document("Theirs."))
    assert await turns.content() == "Mine."
    assert len(await texts(turns)) == COMPACTED


async def test_what_was_noted_before_a_caller_emptied_the_document_does_not_come_back(turns: Turns) -> None:
    await turns.keep("Secret plan.")
    await note_turns(turns, COMPACTED - 1)
    await turns.clear()
    await turns.turn("The gate is open.")
    (given,) = await turns.work(document("New things."))
    assert given["notes"] == []
    assert await turns.content() == "New things."
    assert await texts(turns) == []


async def test_what_is_said_before_a_compaction_goes_into_the_document_at_once(turns: Turns) -> None:
    await turns.keep("Find the gate.")
    await note_turns(turns, COMPACTED - 1)
    await turns.turn("The gate is open.")
    await turns.turn("And this.")
    read = await turns.work(noting("one", "two"), document("All."), noting("never"))
    assert ["notes" in given for given in read] == [False, True]
    await turns.turn("More.")
    (given,) = await turns.work(noting("more"))
    assert said(given["messages"]) == ["More.", "I see."]


async def test_a_long_turn_is_noted_in_pieces(turns: Turns) -> None:
    await turns.keep("Find the gate.")
    await turns.talk.say("Read this.")
    for number in range(6):
        await turns.talk.say(f"{number} " + "long " * 3_000, role="assistant")
    read = await turns.work(NOTHING)
    assert [each["seq"] for given in read for each in given["messages"]] == list(range(1, 8))
    assert len(read) == 3
    assert await turns.waiting() == []


async def test_session_memory_waits_for_a_model(turns: Turns) -> None:
    await turns.turn("The gate is open.")
    claim = await turns.claim()
    assert claim is not None
    with pytest.raises(NoModel):
        await turns.attempt(claim, None)
