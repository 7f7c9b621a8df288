"""The end of a turn asks for what is to be made of it, in the transaction that stores it, and nothing else does."""

import uuid
from typing import Any

import pytest

from layerlore.memory.engine.engine import Engine, WriteRequest
from layerlore.memory.messages.addition import DEBOUNCE_MS, add_messages
from layerlore.memory.messages.threads import update_thread
from layerlore.memory.parts.tokens import TokenCounter
from layerlore.memory.rules.validation import Limits
from layerlore.memory.secrets.redaction import Redactor
from layerlore.memory.window.policy import WindowPolicy, WindowRules
from layerlore.storage.core.records import Json, Origin, Scope
from layerlore.storage.core.transaction import Database
from layerlore.storage.jobs import job_rows
from layerlore.storage.jobs.job_rows import JobRow

pytestmark = pytest.mark.anyio

ANA = Scope("local", "agent", "ana")
SENT = WriteRequest(Origin("test", "add_messages"))
NOW = 1_750_000_000_000
EACH_TURN = {"entries", "profile", "session_memory"}

USER: Json = {"role": "user", "content": "I live in Graz now. What is the weather?"}
REPLY: Json = {"role": "assistant", "content": "Fine."}
CALL: Json = {
    "role": "assistant",
    "content": "I look.",
    "tool_calls": [{"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}],
}
RESULT: Json = {"role": "tool", "tool_call_id": "c", "content": "fine"}
SYSTEM: Json = {"role": "system", "content": "Be brief."}


class Talk:
    def __init__(self, database: Database, **given: Any) -> None:
        self.now = NOW
        self.engine = Engine(
            database=database,
            tokens=TokenCounter(None),
            redactor=Redactor(b"k" * 32),
            hmac_key=b"k" * 32,
            limits=Limits(),
            redaction="all",
            deleted_days=30,
            now=lambda: self.now,
            new_id=lambda: uuid.uuid4().hex,
            **given,
        )

    async def add(self, *raw: Json, replace: bool = False) -> None:
        await add_messages(self.engine, ANA, "main", list(raw), replace=replace, sent=SENT)

    async def request(self) -> list[JobRow]:
        return await self.engine.database.read(job_rows.list_waiting, ANA, self.now)

    async def kinds(self) -> set[str]:
        return {job.kind for job in await self.request()}


@pytest.fixture
def talk(database: Database) -> Talk:
    return Talk(database)


@pytest.mark.parametrize("batches", [[[USER, REPLY]], [[USER], [REPLY]], [[USER, CALL], [RESULT, REPLY]]], ids=str)
async def test_an_assistants_answer_asks_for_all_that_is_made_of_a_turn(talk: Talk, batches: list[list[Json]]) -> None:
    for batch in batches:
        assert await talk.kinds() == set()
        await talk.add(*batch)
    request = await talk.request()
    assert {job.kind for job in request} == EACH_TURN | {"title"}
    last = sum(map(len, batches))
    assert {(job.requested_seq, job.due_at, job.thread_id) for job in request} == {(last, NOW + DEBOUNCE_MS, "main")}


@pytest.mark.parametrize(
    "batch",
    [
        [USER],
        [SYSTEM, REPLY],
        [REPLY, USER],
        [USER, CALL],
        [USER, CALL, RESULT],
        [USER, {"role": "assistant", "content": " "}],
    ],
    ids=["a question", "a greeting", "a question after it", "a call", "a result", "nothing said"],
)
async def test_what_ends_no_turn_asks_for_nothing(talk: Talk, batch: list[Json]) -> None:
    await talk.add(*batch)
    assert await talk.kinds() == set()


async def test_turns_in_quick_succession_are_one_piece_of_work(talk: Talk) -> None:
    await talk.add(USER, REPLY)
    talk.now += DEBOUNCE_MS - 1
    await talk.add(USER, REPLY)
    request = await talk.request()
    assert {(job.requested_seq, job.due_at) for job in request} == {(4, NOW + DEBOUNCE_MS)}


async def test_the_same_messages_sent_again_ask_for_nothing(talk: Talk) -> None:
    batch = [{**USER, "id": "u"}, {**REPLY, "id": "a"}]
    await talk.add(*batch)
    claims = [
        await talk.engine.database.write_installation(
            job_rows.claim, job_rows.KINDS, holder="h", now=NOW + DEBOUNCE_MS, lease_ms=9
        )
        for _ in range(4)
    ]
    for claim in claims:
        assert claim is not None
        await talk.engine.database.write(job_rows.finish, claim, now=NOW)
    await talk.add(*batch)
    await talk.add(*batch, replace=True)
    assert await talk.kinds() == set()


@pytest.mark.parametrize("title", ["Weather", ""])
async def test_no_title_is_asked_for_where_a_caller_set_or_removed_one(talk: Talk, title: str) -> None:
    await update_thread(talk.engine, ANA, "main", title=title, metadata=None, sent=SENT)
    await talk.add(USER, REPLY)
    assert await talk.kinds() == EACH_TURN


async def test_a_summary_is_asked_for_once_a_window_that_wants_one_is_full(database: Database) -> None:
    talk = Talk(database, windows=WindowRules(WindowPolicy(limit="messages", max_messages=4, summarise=True)))
    for _ in range(2):
        await talk.add(USER, REPLY)
    assert "summary" not in await talk.kinds()
    await talk.add(USER, REPLY)
    assert "summary" in await talk.kinds()


async def test_work_that_is_under_way_is_asked_for_again(talk: Talk) -> None:
    await talk.add(USER, REPLY)
    database = talk.engine.database
    claim = await database.write_installation(
        job_rows.claim, ["profile"], holder="h", now=NOW + DEBOUNCE_MS, lease_ms=9_000
    )
    assert claim is not None
    talk.now += DEBOUNCE_MS
    await talk.add(USER, REPLY)
    await database.write(job_rows.finish, claim, now=talk.now)
    (job,) = [job for job in await talk.request() if job.kind == "profile"]
    assert (job.done_seq, job.requested_seq, job.due_at) == (2, 4, talk.now + DEBOUNCE_MS)
