"""What several kinds of background work have to do about one turn is one job for the caller's model, and one answer whose
parts stand or fall alone. Small turns wait until there is something to say."""

import json
from typing import Any

import pytest
from sqlalchemy import text

from layerlore.extraction.kinds.profile import ProfileWriter
from layerlore.extraction.kinds.titles import TitleWriter
from layerlore.memory.messages.addition import GATHERED, GATHERED_MS
from layerlore.memory.parts.tokens import TokenCounter
from layerlore.server.runtime import runtime
from layerlore.storage.core.errors import Conflict
from layerlore.storage.core.transaction import Tx

from ...server.tools.calling import Connect, Json, Tools
from ...server.tools.queueing import Queue

pytestmark = pytest.mark.anyio

KEY = "layerlore/idempotency-key"
MOST_TOKENS = 900
ASKED = "The export to Graz fails with E-4711 since Monday, and I run version 3.2 on the harbour server."
FOUND = "The log says that the token of the export job expired on Monday. Renewing it should help."
TURN = [{"role": "user", "content": ASKED}, {"role": "assistant", "content": FOUND}]
ENTRY = {
    "content": "The export failed with E-4711 because its token had expired.",
    "source": "verified_assistant_finding",
    "evidence": ["The export to Graz fails with E-4711", "the token of the export job expired on Monday"],
}
PROFILE = {"document": "Runs version 3.2 on the harbour server.", "evidence": "I run version 3.2 on the harbour server"}
ANSWER = {
    "entries": [ENTRY],
    "profile": PROFILE,
    "session_memory": "Objective: the export to Graz works again (E-4711).",
    "title": "Failing export to Graz",
}


@pytest.fixture(autouse=True)
def no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's own worker makes titles, and so may have that job in its hands just now."""
    monkeypatch.setattr(runtime, "LOAD_AFTER_SECONDS", 3600)


async def pass_time(queue: Queue, ms: int = 5_000) -> None:
    await queue.change(f"UPDATE jobs SET due_at = due_at - {ms}")


async def say(tools: Tools, queue: Queue, *turns: Json, ms: int = 5_000) -> None:
    await tools.add("main", *turns)
    await pass_time(queue, ms)


async def take(tools: Tools, **call: Any) -> Json:
    job: Json = await tools("next_memory_job", **call)
    assert job["status"] == "taken"
    return job


async def submit(tools: Tools, job: Json, result: Any, **call: Any) -> Json:
    stored: Json = await tools("submit_memory_job", job_id=job["job_id"], result=result, **call)
    return stored


async def title_of(tools: Tools) -> str | None:
    ((row),) = (await tools("list_threads"))["threads"]
    title: str | None = row.get("title")
    return title


async def entries_of(tools: Tools) -> list[str]:
    return [hit["text"] for hit in await tools.hits("export token E-4711") if hit.get("kind") == "entry"]


@pytest.mark.databases
async def test_all_kinds_about_one_turn_are_one_job_and_one_answer(tools: Tools, queue: Queue) -> None:
    await say(tools, queue, *TURN)
    job = await take(tools)
    assert job["kind"] == "entries+profile+session_memory+title"
    first, second = job["material"]["messages"]
    assert (first[:7], first[-len(ASKED) - 2 :]) == ("1 user ", f": {ASKED}")
    assert second == f"2 assistant: {FOUND}"
    stored = await submit(tools, job, ANSWER)
    assert stored == {
        "kind": job["kind"],
        "kept": ["entries[0]", "profile", "session_memory", "title"],
        "due": 0,
    }
    assert await entries_of(tools) == [ENTRY["content"]]
    assert PROFILE["document"] in await tools("get_working_memory", scope="resource")
    assert ANSWER["session_memory"] in await tools("get_working_memory", scope="thread", thread_id="main")
    assert await title_of(tools) == ANSWER["title"]
    assert (await tools("next_memory_job"))["status"] == "nothing_due"


async def test_a_turn_of_two_messages_costs_few_tokens(tools: Tools, queue: Queue) -> None:
    await say(tools, queue, *TURN)
    answer = await tools.client.call_tool("next_memory_job", {})
    shown = json.dumps(answer.structured_content, ensure_ascii=False)
    written = "".join(block.text for block in answer.content)  # type: ignore[union-attr]
    counter = TokenCounter(None)
    assert max(counter.text(shown), counter.text(written)) < MOST_TOKENS


async def test_each_part_stands_or_falls_alone_and_what_is_refused_can_be_mended(tools: Tools, queue: Queue) -> None:
    await say(tools, queue, *TURN)
    job = await take(tools)
    wrong = {**ANSWER, "profile": {**PROFILE, "evidence": "I live on the moon"}, "title": "?!"}
    del wrong["session_memory"]
    stored = await submit(tools, job, wrong)
    assert stored["kept"] == ["entries[0]"]
    assert stored["open"] == ["profile", "session_memory", "title"]
    by_part = dict(zip(stored["open"], stored["refused"], strict=True))
    assert by_part["profile"].startswith("profile: evidence: stands word for word in none of the user messages")
    assert by_part["session_memory"].startswith("session_memory: is missing")
    assert by_part["title"].startswith("title: must be a text with words in it")
    again = await take(tools)
    assert again["job_id"] != job["job_id"]  # what is left of it
    assert again["kind"] == "profile+session_memory+title"
    # The first id still serves, and what is settled may be sent with it.
    stored = await submit(tools, job, {**ANSWER, "profile": {**PROFILE, "evidence": "I live on the moon"}})
    assert stored["kept"] == ["session_memory", "title"]
    (refused,) = stored["refused"]
    assert refused.startswith("profile.evidence: stands word for word in none of the user messages")
    assert refused.endswith("; it stays as it is")
    assert "harbour" not in await tools("get_working_memory", scope="resource")
    assert (await tools("next_memory_job"))["status"] == "nothing_due"


async def test_lines_of_the_profile_with_names_that_no_user_said_are_kept_and_named(tools: Tools, queue: Queue) -> None:
    await say(tools, queue, *TURN)
    document = "Runs version 3.3 on the harbour server.\nIs patient."
    stored = await submit(tools, await take(tools), {**ANSWER, "profile": {**PROFILE, "document": document}})
    assert stored["unproven"] == ["profile: line 1"]
    assert "version 3.3" in await tools("get_working_memory", scope="resource")


async def test_an_answer_with_nothing_to_keep_is_short(tools: Tools, queue: Queue) -> None:
    await say(tools, queue, *TURN)
    nothing = {"entries": [], "profile": None, "session_memory": "", "title": "Failing export"}
    assert (await submit(tools, await take(tools), nothing))["kept"] == ["title"]
    assert (await tools("next_memory_job"))["status"] == "nothing_due"


async def test_what_is_known_already_is_named_as_a_duplicate(tools: Tools, queue: Queue) -> None:
    await say(tools, queue, *TURN)
    await submit(tools, await take(tools), ANSWER)
    await say(tools, queue, {"role": "user", "content": ASKED}, {"role": "assistant", "content": FOUND})
    job = await take(tools)
    assert [each["content"] for each in job["material"]["known"]] == [ENTRY["content"]]
    note = {"category": "state", "text": "The token of the export job expired on Monday."}
    twice = {"entries": [ENTRY, ENTRY], "profile": PROFILE, "session_memory": [note, note]}
    stored = await submit(tools, job, twice)
    assert stored["kept"] == ["entries[0]", "session_memory: 1 notes"]
    assert stored["duplicates"] == [
        "entries[1]: says the same as entries[0]",
        "profile: it says that already",
        "session_memory: 1 notes",
    ]


async def test_notes_that_wait_for_the_session_memory_can_be_seen(tools: Tools, queue: Queue) -> None:
    await say(tools, queue, *TURN)
    await submit(tools, await take(tools), ANSWER)
    await say(
        tools, queue, {"role": "user", "content": "Renewed it: job 77 runs."}, {"role": "assistant", "content": "Ok."}
    )
    note = {"category": "state", "text": "Job 77 runs again."}
    await submit(tools, await take(tools), {"entries": [], "profile": None, "session_memory": [note]})
    shown = await tools.client.read_resource("memory://threads/main/observations")
    listed = json.loads(shown.contents[0].text)  # type: ignore[union-attr]
    assert listed["for_session_memory"] == [{**note, "from_seq": 3, "to_seq": 4}]
    assert "noted_ahead" not in listed


async def test_a_part_whose_material_changed_is_given_again_and_the_rest_stored(tools: Tools, queue: Queue) -> None:
    await say(tools, queue, *TURN)
    job = await take(tools)
    await tools("update_working_memory", content="Called Ana.", scope="resource")
    stored = await submit(tools, job, ANSWER)
    assert stored["kept"] == ["entries[0]", "session_memory", "title"]
    again = await take(tools)
    assert (again["kind"], again["material"]["profile"]) == ("profile", "Called Ana.")
    assert "Called Ana." in await tools("get_working_memory", scope="resource")


async def test_who_lost_the_id_of_a_job_gets_it_again_and_nobody_else_does(connect: Connect, queue: Queue) -> None:
    async with connect() as tools, connect() as other:
        await say(tools, queue, *TURN)
        job = await take(tools)
        again = await take(tools)
        assert {**again, "lease_until": ""} == {**job, "lease_until": ""}
        assert again["lease_until"] >= job["lease_until"]
        assert (await other("next_memory_job"))["status"] == "nothing_due"
        await submit(tools, job, ANSWER)
        assert (await tools("next_memory_job"))["status"] == "nothing_due"


async def test_an_answer_sent_again_with_its_key_is_answered_as_before(tools: Tools, queue: Queue) -> None:
    await say(tools, queue, *TURN)
    job = await take(tools)
    part = {**ANSWER, "title": ""}
    first = await submit(tools, job, part, meta={KEY: "k1"})
    again = await submit(tools, job, part, meta={KEY: "k1"})
    assert (first["kept"], first["open"]) == (again["kept"], again["open"])
    assert (await submit(tools, job, {"title": "Export"}, meta={KEY: "k2"}))["kept"] == ["title"]


async def test_a_title_that_was_cut_from_what_was_said_is_replaced_by_a_models(tools: Tools, queue: Queue) -> None:
    await say(tools, queue, *TURN)
    await queue.change("UPDATE threads SET title = 'The export to Graz fails…', title_by = 'extractive'")
    await queue.change("UPDATE jobs SET done_seq = requested_seq WHERE kind = 'title'")
    job = await take(tools)
    assert job["kind"].endswith("+title")
    await submit(tools, job, ANSWER)
    assert await title_of(tools) == ANSWER["title"]
    await say(tools, queue, *TURN)
    assert "title" not in (await take(tools))["kind"]


async def test_a_turn_that_only_thanks_greets_or_asks_makes_nothing_due_by_itself(tools: Tools, queue: Queue) -> None:
    for said, answer in (
        ("Thanks!", "You're welcome!"),
        ("What is the capital of Austria?", "Vienna."),
        ("ok, great", "Anything else?"),
    ):
        await say(tools, queue, {"role": "user", "content": said}, {"role": "assistant", "content": answer}, ms=0)
    await queue.change("UPDATE jobs SET due_at = 1 WHERE kind = 'title'")
    nothing = await tools("next_memory_job")
    while nothing["status"] == "taken":  # the question gives a title
        assert nothing["kind"] == "title"
        await submit(tools, nothing, {"title": "Capital of Austria"})
        nothing = await tools("next_memory_job")
    assert {(row["kind"], row["state"]) for row in nothing["waiting"]} == {
        ("entries", "later"),
        ("profile", "later"),
        ("session_memory", "later"),
    }
    assert 0 < nothing["again_in_seconds"] <= GATHERED_MS / 1000


async def test_small_turns_are_read_together_with_the_next_that_says_something(tools: Tools, queue: Queue) -> None:
    await tools.add("main", {"role": "user", "content": "Can you help me?"}, {"role": "assistant", "content": "Yes."})
    await say(tools, queue, *TURN)
    job = await take(tools)
    assert job["kind"].startswith("entries+profile+session_memory")
    assert len(job["material"]["messages"]) == 4


@pytest.mark.databases
async def test_small_turns_wait_no_longer_than_a_bound_by_number_and_one_by_age(tools: Tools, queue: Queue) -> None:
    request = (
        {"role": "user", "content": "And what is the capital of France?"},
        {"role": "assistant", "content": "Paris."},
    )
    await say(tools, queue, *request)
    await queue.change("UPDATE jobs SET done_seq = requested_seq WHERE kind = 'title'")
    assert (await tools("next_memory_job"))["status"] == "nothing_due"
    await pass_time(queue, GATHERED_MS)
    job = await take(tools)
    await submit(tools, job, {"entries": [], "profile": None, "session_memory": ""})
    for _ in range(GATHERED // 2 - 1):
        await say(tools, queue, *request)
        await queue.change("UPDATE jobs SET done_seq = requested_seq WHERE kind = 'title'")
        assert (await tools("next_memory_job"))["status"] == "nothing_due"
    await say(tools, queue, *request)
    assert len((await take(tools))["material"]["messages"]) == GATHERED


async def test_an_answer_that_comes_in_a_call_of_its_own_ends_the_turn_that_was_begun_before(
    tools: Tools, queue: Queue
) -> None:
    await tools.add("main", TURN[0])
    await say(tools, queue, TURN[1])
    assert (await take(tools))["kind"] == "entries+profile+session_memory+title"


async def test_without_titles_nobody_makes_one(connect: Connect, queue: Queue) -> None:
    for settings in ({"llm": {"models": {"title": "none"}}}, {"titles": {"enabled": False}}):
        async with connect(**settings) as tools:
            await say(tools, queue, *TURN)
            await queue.ask("title")
            job = await take(tools)
            assert job["kind"] == "entries+profile+session_memory"
            await submit(tools, job, {name: ANSWER[name] for name in ("entries", "profile", "session_memory")})
            assert await title_of(tools) is None
            await tools("delete_thread", thread_id="main")


async def test_a_titles_instructions_and_length_are_settings(connect: Connect, queue: Queue) -> None:
    async with connect(titles={"instructions": "Begin with the word Case.", "max_length": 24}) as tools:
        await say(tools, queue, *TURN)
        job = await take(tools)
        assert "Begin with the word Case. At most 24 characters." in job["instructions"]
        await submit(tools, job, {**ANSWER, "title": "Case of the export that fails in Graz"})
        assert await title_of(tools) == "Case of the export that…"


async def test_parts_are_stored_in_one_transaction_and_a_fault_in_it_stores_none(
    tools: Tools, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    await say(tools, queue, *TURN)
    job = await take(tools)

    async def fail(*_: Any) -> None:
        raise Conflict("something is in the way")

    with monkeypatch.context() as patched:
        patched.setattr(TitleWriter, "commit", fail)
        await tools.refused("submit_memory_job", job_id=job["job_id"], result=ANSWER)
    assert await entries_of(tools) == []
    assert "harbour" not in await tools("get_working_memory", scope="resource")
    assert len((await submit(tools, job, ANSWER))["kept"]) == 4


async def test_a_part_that_somebody_else_took_as_it_was_stored_is_left_to_them(
    tools: Tools, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    await say(tools, queue, *TURN)
    job = await take(tools)
    commit = ProfileWriter.commit

    async def find_taken(self: ProfileWriter, tx: Tx, *given: Any) -> Any:
        await tx.run(text("UPDATE jobs SET epoch = epoch + 1 WHERE kind = 'profile'"))
        return await commit(self, tx, *given)

    with monkeypatch.context() as patched:
        patched.setattr(ProfileWriter, "commit", find_taken)
        stored = await submit(tools, job, ANSWER)
    assert stored["kept"] == ["entries[0]", "session_memory", "title"]
    assert await entries_of(tools) == [ENTRY["content"]]
    assert "harbour" not in await tools("get_working_memory", scope="resource")
