"""Background work that the caller's own model does: it takes a job, and what it hands in is checked like any answer."""

import json
from typing import Any

import anyio
import jsonschema
import pytest
from sqlalchemy import text

from layerlore.conformance.seeing_all import see_all
from layerlore.extraction.jobs.host_jobs import LEASE_MS, host_kinds
from layerlore.extraction.kinds.kind import MODEL_KINDS
from layerlore.server.runtime import runtime
from layerlore.server.tools.background import RESUME
from layerlore.storage.audit import usage_rows
from layerlore.storage.audit.usage_rows import OfDay
from layerlore.storage.core.transaction import Tx
from layerlore.storage.jobs.job_rows import MOST_FAILURES

from ...server.tools.calling import Connect, Json, Tools
from ...server.tools.queueing import Queue

pytestmark = pytest.mark.anyio


KEY = "layerlore/idempotency-key"
PATIENCE = 60.0  # seconds: only a hang takes so long
TALK = [
    {"role": "user", "content": "The export fails with E-4711 since Monday."},
    {"role": "user", "content": "The token of the export job expired on Monday, says the log."},
    {"role": "user", "content": "Renewed it, and the export runs again."},
]
GOOD = {
    "content": "The export failed with E-4711 because its token had expired; renewing it helped.",
    "source": "user_assertion",
    "evidence": ["The export fails with E-4711", "Renewed it, and the export runs again"],
    "corrects": None,
}
INVENTED = {**GOOD, "content": "The export costs 12 euros.", "evidence": "it costs 12 euros"}
NOTED = {"observations": [], "nothing_to_note": True, "current_task": None, "next_step": None}


@pytest.fixture(autouse=True)
def no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's own worker makes titles, and so may have that job in its hands just now."""
    monkeypatch.setattr(runtime, "LOAD_AFTER_SECONDS", 3600)


async def take(tools: Tools, **call: Any) -> Json:
    job: Json = await tools("next_memory_job", **call)
    assert job["status"] == "taken"
    return job


async def submit(tools: Tools, job: Json, *entries: Json, **call: Any) -> Json:
    stored: Json = await tools("submit_memory_job", job_id=job["job_id"], result={"entries": list(entries)}, **call)
    return stored


def lines_of(job: Json) -> list[str]:
    """What is said in a job's messages, each of which begins with its seq, role and perhaps time."""
    return [line.partition(": ")[2] for line in job["material"]["messages"]]


async def entries_of(tools: Tools) -> list[str]:
    return [hit["text"] for hit in await tools.hits("export token 12 euros") if hit.get("kind") == "entry"]


@pytest.mark.databases
async def test_a_job_says_all_that_a_model_needs_and_its_answer_is_stored(tools: Tools, queue: Queue) -> None:
    await tools.add("main", *TALK)
    await queue.ask()
    job = await take(tools)
    assert job["kind"] == "entries"
    assert "evidence" in job["instructions"]
    assert lines_of(job) == [message["content"] for message in TALK]
    jsonschema.Draft202012Validator.check_schema(job["schema"])
    assert await submit(tools, job, GOOD) == {"kind": "entries", "kept": ["entries[0]"], "due": 0}
    assert await entries_of(tools) == [GOOD["content"]]
    assert (await tools("next_memory_job"))["status"] == "nothing_due"


async def test_what_is_stored_names_the_client_and_the_prompt(tools: Tools, queue: Queue) -> None:
    await tools.add("main", *TALK)
    await queue.ask()
    await submit(tools, await take(tools), GOOD)

    async def read(tx: Tx) -> Any:
        await see_all(tx)
        return await tx.all(text("SELECT model, prompt, trust FROM entries"))

    ((model, prompt, trust),) = await queue.database.write_installation(read)
    assert model.startswith("host:")
    assert len(model) > len("host:")
    assert prompt.startswith("turn/")
    assert trust == "user"


async def test_observations_come_from_the_host_too(connect: Connect) -> None:
    async with connect(observation={"message_tokens": 200, "keep_share": 0}) as tools:
        await tools.say(
            "main", *(f"Order {number} was sent to the harbour at {number} o'clock. " * 6 for number in range(5))
        )
        job = await take(tools)
        assert job["kind"] == "observe"
        seqs = [line["seq"] for line in job["material"]["messages"]]
        note = {
            "marker": "important",
            "text": "The user sent orders to the harbour.",
            "from_seq": seqs[0],
            "to_seq": seqs[-1],
            "refers_to": None,
            "details": [],
        }
        jsonschema.validate({**NOTED, "observations": [note], "nothing_to_note": False}, job["schema"])
        result = {**NOTED, "observations": [note], "nothing_to_note": False}
        assert (await tools("submit_memory_job", job_id=job["job_id"], result=result))["kind"] == "observe"
        shown = await tools.client.read_resource("memory://threads/main/observations")
        (made,) = json.loads(shown.contents[0].text)["observations"]  # type: ignore[union-attr]
        assert (made["text"], made["model"].partition(":")[0]) == ("The user sent orders to the harbour.", "host")


async def test_what_has_no_evidence_is_left_out_and_named_and_the_rest_stored(tools: Tools, queue: Queue) -> None:
    await tools.add("main", *TALK)
    await queue.ask()
    stored = await submit(tools, await take(tools), INVENTED, GOOD)
    (refused,) = stored["refused"]
    assert refused.startswith("entries[0].evidence: stands word for word in none of the user messages")
    assert (stored["kept"], stored["open"]) == (["entries[1]"], ["entries"])
    assert await entries_of(tools) == [GOOD["content"]]


@pytest.mark.databases
async def test_a_job_stays_open_for_what_was_refused_of_it_and_ends_with_the_next_answer(
    tools: Tools, queue: Queue
) -> None:
    await tools.add("main", *TALK)
    await queue.ask()
    job = await take(tools)
    await submit(tools, job, INVENTED, GOOD)
    assert (await take(tools))["job_id"] == job["job_id"]
    mended = {**INVENTED, "evidence": "The token of the export job expired on Monday"}
    stored = await submit(tools, job, mended)
    assert stored == {"kind": "entries", "kept": ["entries[0]"], "unproven": ["entries[0]"], "due": 0}
    assert sorted(await entries_of(tools)) == sorted([GOOD["content"], INVENTED["content"]])
    assert (await tools("next_memory_job"))["status"] == "nothing_due"


async def test_a_job_that_is_refused_in_part_again_ends_with_what_was_kept(tools: Tools, queue: Queue) -> None:
    await tools.add("main", *TALK)
    await queue.ask()
    job = await take(tools)
    await submit(tools, job, INVENTED, GOOD)
    stored = await submit(tools, job, INVENTED)
    assert "open" not in stored
    assert len(stored["refused"]) == 1
    assert await entries_of(tools) == [GOOD["content"]]
    assert (await tools("next_memory_job"))["status"] == "nothing_due"


async def test_a_refused_answer_says_why_and_can_be_mended_while_the_lease_lasts(tools: Tools, queue: Queue) -> None:
    await tools.add("main", *TALK)
    await queue.ask()
    job = await take(tools)
    wrong: list[tuple[Any, str]] = [
        ({"entries": [INVENTED]}, "quote one of them exactly"),
        ({"entries": [{**GOOD, "source": "a guess"}]}, "answer.entries[0].source"),
        ({"notes": []}, "answer.notes: is unknown; allowed: entries"),
        ("I found nothing.", "it is not a JSON object"),
    ]
    for result, told in wrong:
        error = await tools.refused("submit_memory_job", job_id=job["job_id"], result=result)
        assert error.startswith("result: refused, nothing was stored: ")
        assert told in error
        assert f"The job is yours until {job['lease_until']}" in error
        assert await entries_of(tools) == []
    await submit(tools, job, GOOD)
    assert await entries_of(tools) == [GOOD["content"]]


async def test_what_is_no_json_is_refused_by_name(tools: Tools, queue: Queue) -> None:
    await tools.add("main", *TALK)
    await queue.ask()
    job = await take(tools)
    for result in ('{"entries": NaN}', {"entries": "half a pair \ud83d"}, {"entries": "\x00"}):
        assert await tools.refused("submit_memory_job", job_id=job["job_id"], result=result)
    await submit(tools, job, GOOD)


async def test_the_object_is_found_in_what_a_model_wrote_around_it(tools: Tools, queue: Queue) -> None:
    await tools.add("main", *TALK)
    await queue.ask()
    written = f"Here it is:\n```json\n{json.dumps({'entries': [GOOD]})}\n```"
    await tools("submit_memory_job", job_id=(await take(tools))["job_id"], result=written)
    assert await entries_of(tools) == [GOOD["content"]]


async def test_a_job_that_was_refused_too_often_is_put_aside_where_it_is_seen(tools: Tools, queue: Queue) -> None:
    await tools.add("main", *TALK)
    await queue.ask()
    job = await take(tools)
    for failures in range(1, MOST_FAILURES + 1):
        error = await tools.refused("submit_memory_job", job_id=job["job_id"], result={"secret words": []})
        assert ("put aside" in error) is (failures == MOST_FAILURES)
    assert "there is no such job" in await tools.refused(
        "submit_memory_job", job_id=job["job_id"], result={"entries": []}
    )
    status = await tools("memory_status")
    assert status["jobs"]["waiting"] == [{"kind": "entries", "state": "dead", "jobs": 1}]
    (dead,) = status["jobs"]["dead"]
    assert (dead["kind"], dead["thread_id"], dead["failures"]) == ("entries", "main", MOST_FAILURES)
    assert dead["error"] == "it has a member that is no kind's"
    assert "secret" not in dead["error"]
    assert status["jobs"]["resume"] == RESUME
    assert any(RESUME in each for each in status["degraded"])


async def test_a_lease_that_is_over_stores_nothing_and_the_job_is_given_again(tools: Tools, queue: Queue) -> None:
    await tools.add("main", *TALK)
    await queue.ask()
    late = await take(tools)
    await queue.change("UPDATE jobs SET lease_until = 1")
    error = await tools.refused("submit_memory_job", job_id=late["job_id"], result={"entries": [GOOD]})
    assert error.startswith("job_id: the lease ended at 1970-01-01")
    again = await take(tools)
    assert again["job_id"] != late["job_id"]
    assert again["material"] == late["material"]
    assert "somebody else took it" in await tools.refused(
        "submit_memory_job", job_id=late["job_id"], result={"entries": [GOOD]}
    )
    assert await entries_of(tools) == []
    await submit(tools, again, GOOD)
    assert await entries_of(tools) == [GOOD["content"]]


async def test_jobs_of_others_are_not_there(connect: Connect, queue: Queue) -> None:
    async with connect() as tools, connect(resource="ben") as other:
        await tools.add("main", *TALK)
        await queue.ask()
        assert (await other("next_memory_job"))["waiting"] == []
        assert (await other("memory_status"))["jobs"] == {"waiting": []}
        job = await take(tools)
        result = {"entries": [GOOD]}
        foreign = await other.refused("submit_memory_job", job_id=job["job_id"], result=result)
        for unknown in (
            "nobody.e1-012345",
            "x.d1-012345",
            "entries.nobody.1.0123456789ab",
            "\x00",
            "x" * 200,
            job["job_id"][:-1],
        ):
            assert await tools.refused("submit_memory_job", job_id=unknown, result=result) == foreign
        await submit(tools, job, GOOD)
        assert await tools.refused("submit_memory_job", job_id=job["job_id"], result=result) == foreign


async def test_when_nothing_is_due_it_is_said_what_waits(tools: Tools, queue: Queue) -> None:
    assert await tools("next_memory_job") == {
        "status": "nothing_due",
        "waiting": [],
        "again_after": "a turn in which the user says something",
    }
    for thread in ("a", "b", "c"):
        await tools.add(thread, *TALK)
    await queue.ask(thread="a")
    await queue.claim("entries")
    await queue.ask(thread="b", in_ms=3_600_000)
    await queue.ask("observe", thread="c")
    await queue.change("UPDATE jobs SET dead_at = 1 WHERE kind = 'observe'")
    await queue.ask("digest", thread="c")
    nothing = await tools("next_memory_job")
    assert nothing["waiting"] == [
        {"kind": "entries", "state": "running", "jobs": 1},
        {"kind": "entries", "state": "later", "jobs": 1},
        {"kind": "observe", "state": "dead", "jobs": 1},
    ]
    assert LEASE_MS / 1000 - 60 < nothing["again_in_seconds"] <= LEASE_MS / 1000  # another has the first one so long
    assert {"kind": "digest", "state": "due", "jobs": 1} in (await tools("memory_status"))["jobs"]["waiting"]


async def test_what_the_servers_worker_cannot_do_without_a_model_is_left_to_the_host(
    connect: Connect, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runtime, "LOAD_AFTER_SECONDS", 0)
    async with connect() as tools:
        await tools.add("main", *TALK)
        await queue.ask()
        with anyio.fail_after(PATIENCE):
            # For a moment the worker may have it in its hands.
            while (job := await tools("next_memory_job"))["status"] == "nothing_due":
                await anyio.sleep(0.01)
        await submit(tools, job, GOOD)
        assert await entries_of(tools) == [GOOD["content"]]


def test_only_kinds_that_a_model_can_do_are_given() -> None:
    assert {"observe", "reflect", "entries"} <= set(host_kinds())
    assert set(host_kinds()) == set(MODEL_KINDS)


async def test_a_job_with_nothing_to_do_is_done_and_the_next_is_given(tools: Tools, queue: Queue) -> None:
    await tools.add("empty", {"role": "tool", "tool_call_id": "c", "content": "x"}, {"role": "system", "content": "x"})
    await tools.add("main", *TALK)
    await queue.ask(thread="empty")
    await queue.ask(thread="main", in_ms=1)
    job = await take(tools)
    assert lines_of(job)[0] == TALK[0]["content"]
    assert (await tools("memory_status"))["jobs"]["waiting"] == [{"kind": "entries", "state": "running", "jobs": 1}]


@pytest.mark.databases
async def test_a_delete_takes_jobs_back_and_they_are_given_without_what_was_deleted(tools: Tools, queue: Queue) -> None:
    await tools.add("main", *TALK[:-1])
    await tools.add("main", TALK[-1])
    await queue.ask()
    job = await take(tools)
    await tools("delete_messages", which="last_turn", thread_id="main")
    error = await tools.refused("submit_memory_job", job_id=job["job_id"], result={"entries": [GOOD]})
    assert "something was deleted; nothing was stored" in error
    assert await entries_of(tools) == []
    again = await take(tools)
    assert len(again["material"]["messages"]) == 2
    assert "quote one of them" in await tools.refused(
        "submit_memory_job", job_id=again["job_id"], result={"entries": [GOOD]}
    )


async def test_what_a_caller_wrote_meanwhile_is_not_written_over(tools: Tools, queue: Queue) -> None:
    await tools.add("main", *TALK)
    await queue.ask("profile")
    job = await take(tools)
    await tools("update_working_memory", content="Called Ana.", scope="resource")
    error = await tools.refused("submit_memory_job", job_id=job["job_id"], result={"document": "Exports data."})
    assert "what it is about has changed since it was taken" in error
    again = await take(tools)
    assert again["kind"] == "profile"
    assert "profile" not in job["material"]
    assert again["material"]["profile"] == "Called Ana."
    assert "Called Ana." in await tools("get_working_memory", scope="resource")


async def test_what_is_added_meanwhile_is_the_next_jobs(tools: Tools, queue: Queue) -> None:
    await tools.add("main", *TALK)
    await queue.ask()
    job = await take(tools)
    await tools.add("main", {"role": "user", "content": "And the invoices are numbered from 900."})
    await tools("remember", content="The export token of E-4711 belongs to the finance team.")
    await queue.ask()
    assert (await submit(tools, job, GOOD))["due"] == 1
    more = await take(tools)
    assert lines_of(more) == ["And the invoices are numbered from 900."]


async def test_a_job_outlives_the_process_that_gave_it(connect: Connect, queue: Queue) -> None:
    async with connect() as tools:
        await tools.add("main", *TALK)
        await queue.ask()
        job = await take(tools)
    async with connect() as tools:
        await submit(tools, job, GOOD)
        assert await entries_of(tools) == [GOOD["content"]]


async def test_both_sent_again_with_their_key_get_the_first_answer(tools: Tools, queue: Queue) -> None:
    for thread in ("a", "b"):
        await tools.add(thread, *TALK)
        await queue.ask(thread=thread)
    job = await take(tools, meta={KEY: "k1"})
    assert await take(tools, meta={KEY: "k1"}) == job
    first = await submit(tools, job, GOOD, meta={KEY: "k2"})
    assert await submit(tools, job, GOOD, meta={KEY: "k2"}) == first
    assert "'k2'" in await tools.refused(
        "submit_memory_job", job_id=job["job_id"], result={"entries": []}, meta={KEY: "k2"}
    )
    assert "has ended" in await tools.refused("next_memory_job", meta={KEY: "k1"})
    assert (await take(tools, meta={KEY: "k3"}))["job_id"] != job["job_id"]
    assert len(await entries_of(tools)) == 1


async def test_an_answer_that_is_too_large_is_not_looked_at(connect: Connect, queue: Queue) -> None:
    async with connect(llm={"max_answer_tokens": 256}) as tools:
        await tools.add("main", *TALK)
        await queue.ask()
        job = await take(tools)
        result = {"entries": [{**GOOD, "content": "x" * 5_000}]}
        error = await tools.refused("submit_memory_job", job_id=job["job_id"], result=result)
        assert "4,096 are allowed" in error
        await submit(tools, job, GOOD)


async def test_the_status_says_who_thinks_and_what_it_cost_today(
    connect: Connect, queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "k")
    now = queue.now()
    await queue.database.write_installation(usage_rows.add_spending, OfDay(1_200, 3_000_000), now=now)
    async with connect() as tools:
        thinking = (await tools("memory_status"))["thinking"]
        assert thinking["models"] == {}
        assert "nothing is sent anywhere (auto would take gemini/gemini-2.5-flash" in thinking["model"]
        assert (thinking["budget"]["tokens"], thinking["budget"]["cost_usd"]) == (1_200, 0.003)
    async with connect(llm={"model": "openai/a", "models": {"entries": "none"}, "daily_tokens": 9}) as tools:
        thinking = (await tools("memory_status"))["thinking"]
        assert thinking["models"]["observe"] == "openai/a"
        assert "entries" not in thinking["models"]
        assert thinking["budget"]["daily_tokens"] == 9


async def test_the_status_says_how_far_the_current_conversation_is_observed(connect: Connect) -> None:
    async with connect(thread="main") as tools:
        assert (await tools("memory_status"))["observation"] == {}
        added = await tools.say("main", "tea is served at four")
        assert (await tools("memory_status"))["observation"] == {
            "thread_id": "main",
            "pending_tokens": added["totals"]["tokens"],
            "message_tokens": 30_000,
            "observed_seq": 0,
            "noted_ahead_seq": 0,
        }
