"""Entries are made of what was said, with evidence that stands, once, and of nothing that was taken back meanwhile."""

import json
from collections.abc import AsyncIterator

import pytest
from scripted_chat import ScriptedChat
from sqlalchemy import text
from told_embedder import ToldEmbedder

from layerlore.extraction.jobs.worker import attempt
from layerlore.extraction.kinds.entries import MOST_MESSAGES, EntryExtractor
from layerlore.extraction.kinds.kind import AnswerRefused, Author, Material, Stale
from layerlore.memory.embedding.service import EmbeddingService
from layerlore.memory.entries import entries as keeping
from layerlore.memory.entries.entry_curation import mark_entry
from layerlore.memory.recall.recall import RecallRequest, recall
from layerlore.memory.removal import forget_requests
from layerlore.memory.settings.context_settings import RecallRules
from layerlore.memory.settings.note_settings import EntryRules
from layerlore.memory.text.quotation import wrap_block
from layerlore.storage.core.records import Json, Message, Scope
from layerlore.storage.core.transaction import Database, Tx
from layerlore.storage.derived import entries
from layerlore.storage.derived.entries import Entry
from layerlore.storage.jobs import job_rows
from layerlore.storage.jobs.job_rows import Claim, JobRow
from layerlore.storage.threads import threads

from ..talking import SENT, Talk

pytestmark = pytest.mark.anyio

EXTRACTOR = EntryExtractor()
FIXED = "The checks read record B, and the subscription is on record A."


def entry(content: str, evidence: str, source: str = "user_assertion", corrects: str | None = None) -> Json:
    return {"content": content, "source": source, "evidence": evidence, "corrects": corrects}


def answer(*made: Json) -> Json:
    return {"entries": list(made)}


class Turns:
    """A conversation whose turns are looked through for entries."""

    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        self.database = talk.engine.database

    def set(self, **given: object) -> None:
        for name, value in given.items():
            object.__setattr__(self.talk.engine, name, value)

    async def claim(self) -> Claim:
        thread = await self.talk.found()
        seq = thread.next_seq - 1
        now = self.talk.now
        asked = (self.talk.scope, thread.thread_uid, "entries", seq)
        await self.database.write(job_rows.request, *asked, due_at=now, now=now, revive=True)
        claimed = await self.database.write_installation(
            job_rows.claim, ["entries"], holder="test", now=now, lease_ms=30_000
        )
        assert claimed is not None
        return claimed

    async def look(self, *made: Json) -> Material | None:
        """Look through what is new, as a worker does; the model answers with these. Returns what it was given."""
        chat = ScriptedChat(entries=answer(*made))
        await attempt(self.talk.engine, EXTRACTOR, await self.claim(), chat)
        return chat.of("entries")[0] if chat.request else None

    async def given(self) -> Json:
        found = await self.look()
        assert found is not None
        content: Json = json.loads(found.content)
        return content

    async def kept(self) -> list[Message]:
        request = RecallRequest(["subscription record gate apple pear checks"], kinds=("entry",), limit=50)
        return [hit.message for hit in (await recall(self.talk.engine, self.talk.scope, request)).hits]

    async def texts(self) -> list[str]:
        return sorted(message.parts[0]["text"] for message in await self.kept())

    async def row(self, entry_id: str) -> Entry:
        return (await self.database.read(entries.read_seen, self.talk.scope, [entry_id]))[entry_id]

    async def waiting(self) -> list[JobRow]:
        found = await self.database.read(job_rows.list_waiting, self.talk.scope, self.talk.now)
        return [job for job in found if job.kind == "entries"]

    async def cursor(self) -> int:
        return await self.database.read(
            threads.read_cursor, self.talk.scope, (await self.talk.found()).thread_uid, "entries_seq"
        )


@pytest.fixture
def turns(database: Database) -> Turns:
    made = Turns(Talk.on(database))
    made.set(recall=RecallRules())
    return made


@pytest.fixture
async def embedding() -> AsyncIterator[EmbeddingService]:
    opened = EmbeddingService(ToldEmbedder(), patience_ms=10_000)
    yield opened
    await opened.close()


async def test_an_entry_is_kept_with_its_place_its_trust_and_who_made_it(turns: Turns) -> None:
    await turns.talk.say("The subscription is on record A.")
    await turns.talk.say("The checks read record B — the subscription is on A.", role="assistant")
    await turns.look(
        entry("The subscription was on record A.", "SUBSCRIPTION is on record a"),
        entry(FIXED, "checks read record B - the", "verified_assistant_finding"),
    )
    by_text = {message.parts[0]["text"]: message for message in await turns.kept()}
    assert by_text.keys() == {"The subscription was on record A.", FIXED}
    assert by_text[FIXED].metadata == {
        "origin": "extracted",
        "trust": "assistant",
        "sources": [
            {
                "thread_id": "main",
                "seq": 2,
                "label": "verified_assistant_finding",
                "quote": "checks read record B — the",
            }
        ],
    }
    row = await turns.row(by_text[FIXED].id)
    assert (row.model, row.prompt, row.origin) == ("scripted/one", "extract_entries/3", "extracted")
    assert await turns.cursor() == 2


async def test_it_is_given_what_was_said_since_the_cursor_and_a_little_before(turns: Turns) -> None:
    await turns.talk.say("Old gate.")
    await turns.look(entry("A gate is old.", "old gate"))
    await turns.talk.add({"role": "system", "content": "Be brief."})
    await turns.talk.say(f"{wrap_block('memory', '- A gate is old. (today)')}\nIs the gate green?")
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    await turns.talk.add({"role": "assistant", "content": "I look.", "tool_calls": [call]})
    await turns.talk.add({"role": "tool", "tool_call_id": "c", "content": "green"})
    given = await turns.given()
    assert [(line["seq"], line["role"], line["text"]) for line in given["messages"]] == [
        (3, "user", "Is the gate green?"),
        (4, "assistant", "I look."),
    ]
    assert [line["text"] for line in given["earlier"]] == ["Old gate."]
    assert [known["content"] for known in given["known"]["entries"]] == ["A gate is old."]


@pytest.mark.parametrize(
    "invented",
    [
        entry("x", "nobody said that"),
        entry("x", "checks read record B"),  # an assistant's words, called a user's
        entry("x", "gate is green", "verified_assistant_finding"),  # a tool's
        entry("x", "was injected", "verified_assistant_finding"),
        entry("x", "said before", "user_assertion"),  # looked through already
        entry("x", "", "user_assertion"),
    ],
)
async def test_an_entry_without_standing_evidence_is_never_kept(turns: Turns, invented: Json) -> None:
    await turns.talk.say("This was said before.")
    await turns.look()
    await turns.talk.say(f"{wrap_block('memory', '- this was injected')}\nThe gate sticks.")
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    await turns.talk.add({"role": "assistant", "content": "The checks read record B.", "tool_calls": [call]})
    await turns.talk.add({"role": "tool", "tool_call_id": "c", "content": "The gate is green."})
    await turns.look(invented, entry("A gate sticks.", "gate sticks"))
    assert await turns.texts() == ["A gate sticks."]


async def test_when_no_evidence_stands_the_model_is_asked_once_more_and_then_the_turn_is_over(turns: Turns) -> None:
    await turns.talk.say("The gate sticks.")
    wrong = answer(entry("A gate sticks.", "the gate is stuck"))
    chat = ScriptedChat(entries=wrong)
    await attempt(turns.talk.engine, EXTRACTOR, await turns.claim(), chat)
    _, again = chat.of("entries")
    content = json.loads(again.content)
    assert content["refused_answer"] == wrong
    assert content["refused"] == [
        "entries[0].evidence: stands word for word in none of the user messages: quote one of them exactly"
    ]
    assert '"refused" says what of it cannot be kept and why' in again.instructions
    assert await turns.texts() == []
    assert await turns.cursor() == 1


async def test_a_part_that_is_refused_is_asked_for_again_and_the_rest_is_kept(turns: Turns) -> None:
    await turns.talk.say("The gate sticks. It has been green since May.")
    chat = ScriptedChat()
    first = answer(entry("A gate sticks.", "gate sticks"), entry("The gate is green.", "is a green gate"))
    second = answer(entry("The gate is green.", ["gate sticks", "green since May"]))  # type: ignore[arg-type]
    chat.tell("entries", first, second)
    await attempt(turns.talk.engine, EXTRACTOR, await turns.claim(), chat)
    (reason,) = json.loads(chat.of("entries")[1].content)["refused"]
    assert reason.startswith("entries[1].evidence: stands word for word in none of the user messages")
    assert await turns.texts() == ["A gate sticks.", "The gate is green."]
    assert await turns.cursor() == 1


async def test_an_answer_that_is_no_better_the_second_time_loses_nothing_of_the_first(turns: Turns) -> None:
    await turns.talk.say("The gate sticks.")
    chat = ScriptedChat()
    first = answer(entry("A gate sticks.", "gate sticks"), entry("The gate is green.", "is a green gate"))
    chat.tell("entries", first, {"entries": "none"})
    await attempt(turns.talk.engine, EXTRACTOR, await turns.claim(), chat)
    assert await turns.texts() == ["A gate sticks."]


async def test_what_its_author_labels_a_preference_or_advice_is_no_entry(turns: Turns) -> None:
    await turns.talk.say("The gate sticks, and I always want short answers.")
    await turns.look(
        {**entry("A gate sticks.", "gate sticks"), "about": "case"},
        {**entry("The user wants short answers at the gate.", "always want short answers"), "about": "preference"},
        {**entry("A gate should be oiled.", "gate sticks"), "about": "advice"},
    )
    assert await turns.texts() == ["A gate sticks."]


async def test_an_entry_says_which_of_its_names_and_numbers_are_not_in_its_quotation(turns: Turns) -> None:
    await turns.talk.say("The gate code is 4711.")
    await turns.look(entry("The gate code in Graz is 4712.", "gate code is 4711"))
    (kept,) = await turns.kept()
    assert kept.metadata["unproven"] == ["Graz", "4712"]


@pytest.mark.parametrize(
    "shape",
    [{}, {"entries": {}}, {"entries": ["x"]}, {"entries": [{"content": "x"}]}, answer(entry("x", "y", "caller"))],
)
async def test_an_answer_of_another_shape_is_refused(turns: Turns, shape: Json) -> None:
    await turns.talk.say("The gate sticks.")
    with pytest.raises(AnswerRefused):
        await attempt(turns.talk.engine, EXTRACTOR, await turns.claim(), ScriptedChat(entries=shape))
    assert await turns.cursor() == 0


async def test_texts_are_made_even_cut_counted_and_never_repeated(turns: Turns) -> None:
    turns.set(entries=EntryRules.model_construct(max_entry_length=20, max_entries_per_turn=3))
    await turns.talk.say("The gate sticks, gate three and gate four, too.")
    await turns.look(
        entry("  the   gate\nsticks ", "gate sticks"),
        entry("The gate sticks", "gate sticks"),
        entry(" \n", "gate sticks"),
        entry("gate " * 10, "gate sticks"),
        entry("gate three\x00", "gate sticks"),
        entry("gate four", "gate sticks"),
    )
    assert await turns.texts() == ["gate gate gate gate", "gate three", "the gate sticks"]
    await turns.talk.say("The gate still sticks.")
    await turns.look(entry("The  gate sticks", "still sticks"))
    (again,) = [each for each in await turns.kept() if "sticks" in each.parts[0]["text"]]
    assert [source["seq"] for source in again.metadata["sources"]] == [1, 2]


async def test_an_entry_that_is_too_long_is_cut_at_a_word_after_its_evidence_was_found(turns: Turns) -> None:
    turns.set(entries=EntryRules.model_construct(max_entry_length=20, max_entries_per_turn=1))
    await turns.talk.say("The gate sticks in the morning.")
    await turns.look(entry("A gate is green.", "is green"), entry("The gate sticks in the morning.", "gate sticks"))
    assert await turns.texts() == ["The gate sticks in"]


async def test_what_is_alike_is_kept_once_in_a_turn_and_against_what_is_kept(
    turns: Turns, embedding: EmbeddingService
) -> None:
    turns.set(embedding=embedding)
    await turns.talk.say("apple and pear, apple 2, the gate")
    await turns.look(
        entry("an apple and a pear", "apple and pear"),
        entry("the apple and the pear", "apple and pear"),
        entry("apple 2 and pear", "apple and pear"),
    )
    assert await turns.texts() == ["an apple and a pear", "apple 2 and pear"]
    await turns.talk.say("apple and pear again, at the gate")
    await turns.look(
        entry("the apple, and the pear", "apple and pear"), entry("gate", "apple and pear again, at the gate")
    )
    assert await turns.texts() == ["an apple and a pear", "apple 2 and pear", "gate"]


async def test_a_correction_takes_the_place_of_a_known_entry_that_it_names(turns: Turns) -> None:
    await turns.talk.say("The gate code is 4711.")
    await turns.look(entry("The gate code is 4711.", "gate code is 4711"))
    (old,) = await turns.kept()
    await turns.talk.say("The gate code is 1234 now.")
    await turns.look(
        entry("The gate code is 1234.", "code is 1234 now", corrects=old.id),
        entry("The gate has a code.", "gate code", corrects="invented"),
    )
    assert await turns.texts() == ["The gate code is 1234.", "The gate has a code."]


async def test_a_secret_does_not_get_into_an_entry(turns: Turns) -> None:
    turns.set(redaction="derived")
    secret = f"sk-ant-api03-{'aB3dE5fG7hI9' * 5}"
    await turns.talk.say(f"The gate key is {secret}.")
    material = await turns.look(entry(f"The gate key is {secret}.", "The gate key is"))
    assert material is not None
    assert secret not in material.content
    (text,) = await turns.texts()
    assert secret not in text


@pytest.mark.parametrize("what", ["deleted", "replaced", "forgotten"])
async def test_nothing_is_kept_of_what_was_taken_back_while_the_model_was_thinking(turns: Turns, what: str) -> None:
    await turns.talk.add({"role": "user", "content": "The gate sticks.", "id": "m"})
    await turns.talk.say("The gate is green.")
    claim = await turns.claim()
    material = await turns.database.read(EXTRACTOR.prepare, claim, turns.talk.engine)
    assert material is not None
    result = EXTRACTOR.read(answer(entry("A gate is green.", "gate is green")), material)
    ready = await EXTRACTOR.enrich(turns.talk.engine, material, result)
    if what == "replaced":
        await turns.talk.add({"role": "user", "content": "The gate is fine.", "id": "m"}, replace=True)
    elif what == "deleted":
        await turns.talk.delete("m")
    else:
        engine, scope = turns.talk.engine, turns.talk.scope
        preview = await forget_requests.forget(engine, scope, ids=[], query="gate", confirm="", sent=SENT)
        await forget_requests.forget(engine, scope, ids=[], query="", confirm=preview["confirm"], sent=SENT)

    by = Author("m", material.prompt)
    with pytest.raises(Stale):
        await turns.database.write(EXTRACTOR.commit, claim, turns.talk.engine, material, ready, by)
    assert await turns.texts() == []
    assert await turns.cursor() == 0


async def test_what_was_forgotten_is_not_made_again_from_what_was_said_before(turns: Turns) -> None:
    await turns.talk.say("The gate code is 4711.")
    await turns.look(entry("The gate code is 4711.", "gate code is 4711"))
    (kept,) = await turns.kept()
    turns.talk.now += 1
    await forget_requests.forget(turns.talk.engine, turns.talk.scope, ids=[kept.id], query="", confirm="", sent=SENT)
    await turns.database.write(_back, turns.talk.scope)
    await turns.look(entry("The gate code is 4711.", "gate code is 4711"))
    assert await turns.texts() == []
    await turns.talk.say("As I said: the gate code is 4711.")
    await turns.look(entry("The gate code is 4711.", "gate code is 4711"))
    assert await turns.texts() == ["The gate code is 4711."]


async def _back(tx: Tx, scope: Scope) -> None:
    await tx.run(text("UPDATE threads SET entries_seq = 0"))
    await tx.run(text("UPDATE jobs SET done_seq = 0, requested_seq = 0"))


async def test_a_long_conversation_is_looked_through_piece_by_piece(turns: Turns) -> None:
    for start in range(0, MOST_MESSAGES + 20, 50):
        await turns.talk.say(*(f"gate {number}" for number in range(start, start + 50)))
    material = await turns.look()
    assert material is not None
    assert await turns.cursor() == MOST_MESSAGES
    (waiting,) = await turns.waiting()
    assert (waiting.done_seq, waiting.state) == (MOST_MESSAGES, "due")
    await turns.look()
    assert await turns.cursor() == 150
    assert await turns.waiting() == []


async def test_where_nobody_says_anything_no_model_is_asked(turns: Turns) -> None:
    await turns.talk.add({"role": "system", "content": "Be brief."})
    assert await turns.look() is None
    assert await turns.waiting() == []


async def test_an_embedder_that_hangs_holds_no_entry_up(turns: Turns, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "PATIENCE_SECONDS", 0.05)
    embedder = ToldEmbedder()
    embedding = EmbeddingService(embedder, patience_ms=50)
    turns.set(embedding=embedding)
    embedder.hold()
    try:
        await turns.talk.say("The apple gate sticks.")
        await turns.look(entry("A gate sticks.", "gate sticks"))
        assert embedder.begun.is_set()
        assert await turns.texts() == ["A gate sticks."]
    finally:
        embedder.gate.set()
        await embedding.close()


async def test_what_is_marked_as_wrong_is_kept_again_only_from_what_the_user_says_after_it(turns: Turns) -> None:
    said = "The subscription is on record A."
    await turns.talk.say(said)
    await turns.look(entry(said, said))
    (kept,) = await turns.kept()
    await mark_entry(turns.talk.engine, turns.talk.scope, kept.id, pinned=None, wrong=True, sent=SENT)
    await turns.talk.say("As I found: the subscription is on record A.", role="assistant")
    await turns.look(entry(said, "the subscription is on record A", "verified_assistant_finding"))
    assert await turns.texts() == []
    await turns.talk.say("The subscription is on record A after all.")
    await turns.look(entry(said, "The subscription is on record A after all"))
    assert await turns.texts() == [said]


async def test_a_correction_of_what_is_pinned_is_pinned(turns: Turns) -> None:
    await turns.talk.say("The subscription is on record A.")
    await turns.look(entry("The subscription is on record A.", "The subscription is on record A"))
    (kept,) = await turns.kept()
    await mark_entry(turns.talk.engine, turns.talk.scope, kept.id, pinned=True, wrong=None, sent=SENT)
    await turns.talk.say("No, the subscription is on record B.")
    right = "The subscription is on record B."
    await turns.look(entry(right, "the subscription is on record B", corrects=kept.id))
    (now,) = await turns.kept()
    assert (now.parts[0]["text"], now.metadata.get("pinned")) == (right, True)
