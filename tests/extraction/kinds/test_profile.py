"""The profile follows what users say of themselves, loses nothing, and never overwrites what a caller wrote."""

import json

import anyio
import pytest
from scripted_chat import ScriptedChat

from layerlore.extraction.jobs.worker import NoModel
from layerlore.extraction.kinds.kind import AnswerRefused, Fenced, Stale
from layerlore.extraction.kinds.profile import MOST_MESSAGES, ProfileWriter
from layerlore.memory.settings.note_settings import DocumentRules
from layerlore.memory.text.quotation import wrap_block
from layerlore.storage.core.records import Json
from layerlore.storage.core.transaction import Database
from layerlore.storage.threads import events

from ..talking import Talk
from ..turning import Turns, said

pytestmark = pytest.mark.anyio

UNCHANGED: Json = {"changed": False, "evidence": "", "document": ""}
SCHEMA: Json = {
    "type": "object",
    "additionalProperties": False,
    "properties": {"name": {"type": "string"}, "likes": {"type": "array", "items": {"type": "string"}}},
}


def changed(document: str, evidence: str) -> Json:
    return {"changed": True, "evidence": evidence, "document": document}


@pytest.fixture
def turns(database: Database) -> Turns:
    return Turns.on(database, ProfileWriter(), "resource")


async def test_what_a_user_says_changes_the_profile_and_what_came_of_it_is_written_down(turns: Turns) -> None:
    await turns.turn("I live in Graz, by the way.")
    await turns.work(changed("Lives in Graz.", "i live in GRAZ"))
    document = await turns.document()
    assert document.content == "Lives in Graz."
    assert document.changed is not None
    assert (document.changed.actor, document.changed.tool) == ("scripted/one", "profile/3")
    assert await turns.sources(1) == [(1, 2)]
    assert await turns.waiting() == []
    log = await turns.talk.engine.database.read(
        events.read_page_of_resource, turns.talk.scope, after=0, types=["profile_updated"], limit=9
    )
    assert [(event.actor, event.payload) for event in log.events] == [
        ("profile", {"scope": "resource", "version": 1, "mode": "replace"})
    ]


async def test_a_model_is_given_what_was_said_and_the_profile_but_no_tool_and_no_block_of_ours(turns: Turns) -> None:
    await turns.keep("Likes tea.")
    await turns.turn("Old news.", "Yes.")
    await turns.work(UNCHANGED)
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    await turns.talk.say(f"{wrap_block('user-profile', 'Likes tea.')}\nWhat is new?")
    await turns.talk.add({"role": "assistant", "content": "I look.", "tool_calls": [call]})
    await turns.talk.add({"role": "tool", "tool_call_id": "c", "content": "she likes gin"})
    await turns.talk.say("Nothing.", role="assistant")
    (given,) = await turns.work(UNCHANGED)
    assert given["profile"] == "Likes tea."
    assert said(given["earlier"]) == ["Old news.", "Yes."]
    assert said(given["messages"]) == ["What is new?", "I look.", "Nothing."]


async def test_an_answer_that_nothing_changed_makes_no_version_and_moves_the_cursor(turns: Turns) -> None:
    await turns.keep("Likes tea.")
    for answer in (UNCHANGED, changed("Likes tea.\n", "tea at four"), {**UNCHANGED, "document": "Likes gin."}):
        await turns.turn("Tea at four.")
        assert len(await turns.work(answer)) == 1
    assert (await turns.document()).version == 1
    assert await turns.cursor("profile_seq") == 6
    assert await turns.work(UNCHANGED) == []


@pytest.mark.parametrize("empty", ["", "  \n", "# Profile\n\n- \n", "# Profile\n## Name\n"])
async def test_an_empty_profile_never_takes_the_place_of_a_full_one(turns: Turns, empty: str) -> None:
    turns.rule(DocumentRules(format="markdown", template="# Profile\n## Name\n"))
    await turns.turn("forget it all")
    await turns.work(changed(empty, "forget it all"))
    assert (await turns.document()).version == 0
    await turns.keep("# Profile\n## Name\nAna\n")
    await turns.turn("forget it all")
    with pytest.raises(AnswerRefused, match="nothing in it"):
        await turns.work(changed(empty, "forget it all"))
    assert "Ana" in await turns.content()
    assert [job.attempts for job in await turns.waiting()] == [1]


@pytest.mark.parametrize("evidence", ["she lives in Rome", "", "Rome is nice", "it rains in Graz"])
async def test_without_a_users_word_nothing_changes(turns: Turns, evidence: str) -> None:
    call = {"type": "tool_use", "id": "c", "name": "look", "input": {}}
    result = [{"type": "tool_result", "tool_use_id": "c", "content": "x"}, {"type": "text", "text": "it rains in Graz"}]
    await turns.talk.add({"role": "assistant", "content": [call]}, {"role": "user", "content": result})
    await turns.turn("Where do I live?", "Rome is nice, she lives in Rome.")
    first, again = await turns.work(changed("Lives in Rome.", evidence))
    assert "refused" not in first
    assert again["refused_answer"] == changed("Lives in Rome.", evidence)
    assert "word for word" in again["refused"][0]
    assert (await turns.document()).version == 0
    assert await turns.waiting() == []


async def test_a_better_quotation_is_asked_for_at_once_and_then_the_profile_changes(turns: Turns) -> None:
    await turns.turn("I moved to Rome. I work as a nurse.")
    wrong = changed("Lives in Rome.", "she lives in Rome")
    await turns.work(wrong, changed("A nurse, lives in Rome.", ["I moved to Rome", "I work as a nurse"]))  # type: ignore[arg-type]
    assert await turns.content() == "A nurse, lives in Rome."


async def test_a_new_line_is_kept_in_other_words_than_the_users(turns: Turns) -> None:
    await turns.turn("If I fly, aisle, always.")
    await turns.work(changed("Prefers seats at the aisle, never the window.", "aisle, always"))
    assert await turns.content() == "Prefers seats at the aisle, never the window."


async def test_a_version_that_a_caller_wrote_meanwhile_stays(turns: Turns) -> None:
    await turns.turn("I live in Graz.")
    chat = ScriptedChat(profile=changed("Lives in Graz.", "I live in Graz"))
    claim = await turns.claim()
    assert claim is not None

    async def think() -> None:
        with pytest.raises(Stale):
            await turns.attempt(claim, chat)

    chat.hold()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(think)
        await chat.begun.wait()
        await turns.keep("Likes tea.")
        chat.release()
    assert await turns.content() == "Likes tea."
    (given,) = await turns.work(changed("Likes tea.\nLives in Graz.", "I live in Graz"))
    assert given["profile"] == "Likes tea."
    assert await turns.content() == "Likes tea.\nLives in Graz."


async def test_a_message_deleted_meanwhile_leaves_nothing(turns: Turns) -> None:
    await turns.talk.add({"role": "user", "content": "I live in Graz.", "id": "a"})
    await turns.talk.say("Nice.", role="assistant")
    claim = await turns.claim()
    assert claim is not None
    material = await turns.talk.engine.database.read(turns.kind.prepare, claim, turns.talk.engine)
    assert material is not None
    await turns.talk.delete("a")
    answer = changed("Lives in Graz.", "I live in Graz")
    with pytest.raises((Stale, Fenced)):
        await turns.answer(claim, material, answer)
    assert (await turns.document()).version == 0


async def test_a_json_profile_fits_its_schema_or_is_refused_without_a_word_of_it(turns: Turns) -> None:
    turns.rule(DocumentRules(format="json", json_schema=SCHEMA))
    await turns.turn("I am Ana and like tea.")
    for wrong, why in (
        ("Ana likes tea", "must be a JSON object"),
        ("[1]", "must be a JSON object"),
        ('{"name": "Ana", "likes": "secret tea"}', "its JSON Schema at likes"),
        ('{"secret": 1}', "its JSON Schema at its top level"),
    ):
        with pytest.raises(AnswerRefused, match=why) as refused:
            await turns.work(changed(wrong, "I am Ana"))
        assert "secret" not in str(refused.value)
    good = '{"likes": ["tea"], "name": "Ana"}'
    await turns.work(changed(good, "I am Ana"))
    assert await turns.content() == '{"likes":["tea"],"name":"Ana"}'
    await turns.turn("I am Ana.")
    (given,) = await turns.work(changed('{"name": "Ana",  "likes": ["tea"]}', "I am Ana"))
    assert given["profile"] == {"name": "Ana", "likes": ["tea"]}
    assert (await turns.document()).version == 1
    await turns.turn("I am Ana!")
    with pytest.raises(AnswerRefused, match="nothing in it"):
        await turns.work(changed('{"likes": [], "name": ""}', "I am Ana"))


async def test_what_is_too_long_or_repeats_itself_is_refused(turns: Turns) -> None:
    turns.rule(DocumentRules(), max_bytes=200)
    await turns.turn("I like tea.")
    for wrong, why in (
        (" ".join(f"tea{n}" for n in range(50)), "289 bytes; at most 200"),
        ("\n".join(["likes tea"] * 8), "again and"),
    ):
        with pytest.raises(AnswerRefused, match=why):
            await turns.work(changed(wrong, "I like tea"))
    assert (await turns.document()).version == 0


async def test_secrets_do_not_enter_the_profile(turns: Turns) -> None:
    key = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD"
    await turns.turn(f"I like tea. Key: {key}")
    await turns.work(changed(f"Likes tea. Key: {key}", "I like tea"))
    assert "Likes tea." in await turns.content()
    assert "abcdefghijklmnop" not in await turns.content()


async def test_sources_of_a_version_are_those_of_the_one_before_and_its_own(turns: Turns) -> None:
    await turns.turn("I like tea.")
    await turns.work(changed("Likes tea.", "like tea"))
    await turns.turn("It rains.")
    await turns.work(UNCHANGED)
    await turns.turn("I like gin.")
    await turns.work(changed("Likes tea and gin.", "like gin"))
    assert await turns.sources(2) == [(1, 2), (5, 6)]
    await turns.clear()
    await turns.turn("I like rum.")
    await turns.work(changed("Likes rum.", "like rum"))
    assert await turns.sources(4) == [(7, 8)]


async def test_two_threads_write_one_profile_and_none_undoes_the_other(turns: Turns) -> None:
    await turns.turn("I like tea.")
    turns.talk.thread = "other"
    await turns.turn("I live in Graz.")

    def reply(material: object) -> Json:
        given = json.loads(material.content)  # type: ignore[attr-defined]
        quote = said(given["messages"])[0].rstrip(".")
        return changed(f"{given['profile']}\n{quote}".strip(), quote)

    await turns.work(reply)
    assert sorted((await turns.content()).splitlines()) == ["I like tea", "I live in Graz"]


async def test_a_long_backlog_is_read_in_pieces_and_only_where_a_user_speaks(database: Database) -> None:
    turns = Turns(Talk.on(database), ProfileWriter(), "resource")
    for part in range(0, MOST_MESSAGES + 10, 10):
        await turns.talk.add(*({"role": "assistant", "content": f"step {n}"} for n in range(part, part + 10)))
    for n in range(MOST_MESSAGES // 10 + 1):
        await turns.talk.add(*({"role": "user", "content": f"word {n} {m}"} for m in range(10)))
    await turns.talk.say("ok", role="assistant")
    read = await turns.work(UNCHANGED)
    texts = [text for given in read for text in said(given["messages"])]
    assert texts[0] == f"step {MOST_MESSAGES}"
    assert [len(given["messages"]) for given in read] == [MOST_MESSAGES, 21]
    assert texts[-1] == "ok"
    assert len(set(texts)) == len(texts)


async def test_the_profile_waits_for_a_model(turns: Turns) -> None:
    await turns.turn("I like tea.")
    claim = await turns.claim()
    assert claim is not None
    with pytest.raises(NoModel):
        await turns.attempt(claim, None)
