"""A real model behind an OpenAI-compatible server, where one is named: LAYERLORE_TEST_LLM_BASE_URL (as
``http://localhost:11434/v1``), and LAYERLORE_TEST_LLM_MODEL for its name there. What is asserted holds of any model,
however weak; ``pytest -s`` prints what it wrote."""

import contextlib
import json
import os
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import anyio
import pytest
from scripted_chat import ScriptedChat

from layerlore.extraction.chat.chat_port import Models
from layerlore.extraction.chat.litellm_chat import LitellmChat
from layerlore.extraction.jobs.registry import make_worker
from layerlore.extraction.jobs.worker import MOST_FAILURES, JobWorker
from layerlore.extraction.kinds.kind import MODEL_KINDS, Kind, Material
from layerlore.extraction.kinds.observer import Observer
from layerlore.memory.engine.engine import Engine, WriteRequest
from layerlore.memory.messages.addition import add_messages
from layerlore.server.runtime.engines import close_engine, open_engine
from layerlore.server.settings.settings import Settings, load_settings
from layerlore.storage.audit import usage_rows
from layerlore.storage.core.records import Json, Message, Origin, Scope, Thread
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import entries, observations, working_memory
from layerlore.storage.jobs import job_rows
from layerlore.storage.jobs.job_rows import JobRow
from layerlore.storage.messages import message_pages
from layerlore.storage.threads import threads

from ..talking import note, noting

pytestmark = pytest.mark.anyio

BASE_URL = os.environ.get("LAYERLORE_TEST_LLM_BASE_URL", "")
NAME = os.environ.get("LAYERLORE_TEST_LLM_MODEL", "qwen2.5:0.5b")
PATIENCE = 3600.0  # seconds: a small model on a busy processor takes minutes for a job
needs_server = pytest.mark.skipif(not BASE_URL, reason="LAYERLORE_TEST_LLM_BASE_URL names no server")

SCOPE = Scope("local", "default", "default")
SENT = WriteRequest(Origin("test", "add_messages"))
EARLIER = "scripted/earlier"
ASKED = ("entries", "observe", "profile", "reflect", "title")
TALK = (
    (
        "Hi, I'm Marta Lindqvist and I run a small bakery in Aarhus. I need help with planning our move to the new shop "
        "on Mejlgade 41, which opens on 14 March. Please always answer in English, my colleague Jonas reads along.",
        "Nice to meet you, Marta. I will answer in English. The new shop on Mejlgade 41 opens on 14 March, so we have a "
        "little time. Shall we begin with the ovens or with the permits?",
    ),
    (
        "With the ovens. We have two, a Miwe and an old Bongard. The Miwe moves with us, the Bongard is sold to a friend "
        "in Randers for 9,500 kroner. The movers are called Hansen Flyt, their offer is 23,400 kroner, number HF-20871.",
        "So the Miwe moves with you and the Bongard goes to Randers for 9,500 kroner. Hansen Flyt's offer HF-20871 comes "
        "to 23,400 kroner. I would ask them for the earliest day on which they can lift an oven out.",
    ),
    (
        "They can do it on 9 March. Never book anything on a Sunday for me, we bake the sourdough then. And I was wrong "
        "about the address: it is Mejlgade 47, not 41.",
        "Noted: 9 March for the oven, nothing on Sundays, and the shop is at Mejlgade 47. The permits are next: the city "
        "asks for a drawing of the ventilation.",
    ),
    (
        "The drawing is done by Peter Holm, he sends it on Thursday. I prefer short answers, by the way. What else is "
        "missing before we can open?",
        "The drawing by Peter Holm, the food inspection, and the sign above the door. I would apply for the inspection "
        "today, since it takes about ten days.",
    ),
)
"""What was said before there was a model."""
MORE = (
    (
        "I applied for it, the case is FI-66120 and a Ms Berg comes on 11 March at 13:40. The sign costs 4,150 kroner, "
        "that is too much for me. Can we do without one for a month?",
        "Yes: the sign is not part of the inspection, so it can wait until April. Ms Berg needs the ventilation drawing "
        "and the list of allergens on 11 March at 13:40, under FI-66120.",
    ),
    (
        "Then it waits until April. Do not tell Jonas what I pay the movers, please. And remind me of the allergens on "
        "10 March, I forget such things.",
        "I will keep the movers' price to ourselves, and remind you of the allergens on 10 March.",
    ),
)


@needs_server
async def test_a_small_model_answers_in_the_form_that_is_asked_for() -> None:
    schema = {
        "type": "object",
        "properties": {"title": {"type": "string", "minLength": 1, "maxLength": 80}},
        "required": ["title"],
        "additionalProperties": False,
    }
    said = json.dumps([{"seq": 1, "role": "user", "text": "Which trains go from Vienna to Graz on Sunday morning?"}])
    material = Material("Give this conversation a title of a few words.", said, schema, "title/1", None)
    answer = await LitellmChat(Models({"title": f"openai/{NAME}"}), api_base=BASE_URL, timeout_seconds=600).answer(
        "title", material
    )
    assert answer.json["title"]
    assert answer.usage.input_tokens > 0


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Bounds so small that a short talk is observed and reflected."""
    model = {"model": f"openai/{NAME}", "api_base": BASE_URL, "timeout_seconds": 600, "max_answer_tokens": 500}
    observed = {"message_tokens": 200, "buffer_share": 0.6, "keep_share": 0.0, "reflect_tokens": 200}
    chosen: Json = {"database": f"sqlite:///{tmp_path / 'memory.db'}", "embedding": {"embedder": "none"}}
    return load_settings({**chosen, "llm": model, "observation": observed}, environ={})


@pytest.fixture
async def engine(settings: Settings) -> AsyncIterator[Engine]:
    opened = await open_engine(settings)
    yield opened
    await close_engine(opened)


@needs_server
async def test_all_kinds_of_jobs_end_with_any_model_and_leave_nothing_that_may_not_be(
    engine: Engine, settings: Settings
) -> None:
    began = time.monotonic()
    # As an earlier model noted it, so that there are notes to be made fewer of.
    async with _at_work(JobWorker(engine, [Observer()], ScriptedChat(EARLIER, observe=_note_each), holder="one")):
        for turn in TALK:
            await _add(engine, [turn])
            await _until_ended(engine, "observe")
    async with _at_work(make_worker(engine, settings.llm, environ={})):
        await _add(engine, MORE)
        await engine.database.write(_ask_to_reflect, SCOPE, now=engine.now())
        engine.wake.notify()
        await _until_ended(engine, *MODEL_KINDS)
    spent = time.monotonic() - began

    waiting = await engine.database.read(job_rows.list_waiting, SCOPE, engine.now())
    left = [job for job in waiting if job.kind in MODEL_KINDS]
    lines = [line for line in await engine.database.read(usage_rows.of_resource, SCOPE) if line.model != EARLIER]
    thread, stored = await engine.database.read(_read_thread, SCOPE)
    _show(left, lines, spent)

    said = [text for turn in (*TALK, *MORE) for text in turn]
    assert [_text(message) for message in stored] == said
    assert all(job.error and 1 <= job.attempts <= MOST_FAILURES for job in left)
    assert set(ASKED) <= {line.source for line in lines}
    for line in lines:
        assert line.model == f"openai/{NAME}"
        assert line.spent.calls > 0
        assert line.spent.input_tokens > 0
    await _check_notes(engine, thread)
    await _check_entries(engine, thread, {message.seq: _text(message) for message in stored})
    await _check_documents(engine, thread)
    print(f"title: {thread.title!r}")
    assert len(thread.title or "") <= 60


def _note_each(material: Material) -> Json:
    """A note on each message, nearly as long; the user's are important."""
    return noting(
        *(
            note(
                " ".join(each["text"].split()[:-3]),
                each["seq"],
                each["seq"],
                "important" if each["role"] == "user" else "info",
            )
            for each in json.loads(material.content)["messages"]
        )
    )


async def _add(engine: Engine, turns: Sequence[tuple[str, str]]) -> None:
    for request, answered in turns:
        raw = [{"role": "user", "content": request}, {"role": "assistant", "content": answered}]
        await add_messages(engine, SCOPE, "main", raw, replace=False, sent=SENT)


@contextlib.asynccontextmanager
async def _at_work(worker: JobWorker) -> AsyncIterator[None]:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(worker.run)
        yield
        tasks.cancel_scope.cancel()


async def _until_ended(engine: Engine, *kinds: Kind) -> None:
    """Until each job of the kinds was done, or has failed at least once."""
    with anyio.fail_after(PATIENCE):
        while [
            job
            for job in await engine.database.read(job_rows.list_waiting, SCOPE, engine.now())
            if job.kind in kinds and job.state != "dead" and not job.attempts
        ]:
            await anyio.sleep(0.2)


async def _ask_to_reflect(tx: Tx, scope: Scope, *, now: int) -> None:
    thread = await threads.find(tx, scope, "main")
    above = thread.next_seq + thread.next_event_seq
    await job_rows.request(tx, scope, thread.thread_uid, "reflect", above, due_at=now, now=now)


async def _read_thread(tx: Tx, scope: Scope) -> tuple[Thread, list[Message]]:
    thread = await threads.find(tx, scope, "main")
    return thread, await message_pages.read_between(tx, scope, thread, after=0, upto=thread.next_seq, most=100)


def _text(message: Message) -> str:
    return "".join(part["text"] for part in message.parts)


async def _check_notes(engine: Engine, thread: Thread) -> None:
    rows = await engine.database.read(observations.read, SCOPE, thread.thread_uid, "active", "buffered")
    for row in rows:
        print(f"note by {row.model}: [{row.marker}] #{row.from_seq}-{row.to_seq} {row.text}")
        assert row.marker in ("critical", "important", "info", "completion")
        assert row.text.strip()
        assert 1 <= row.from_seq <= row.to_seq < thread.next_seq


async def _check_entries(engine: Engine, thread: Thread, texts: dict[int, str]) -> None:
    """Each is proved by words that somebody said."""

    async def read(tx: Tx, scope: Scope) -> list[tuple[str, list[entries.ShownSource]]]:
        ids = await entries.sourced_from(tx, scope, thread.thread_uid)
        found, sources = await entries.read_seen(tx, scope, ids), await entries.sources_of(tx, scope, ids)
        return [(entry.content, sources[entry_id]) for entry_id, entry in found.items()]

    for content, sources in await engine.database.read(read, SCOPE):
        quotes = [texts[source.seq][source.starts : source.ends] for source in sources]
        print(f"entry: {content!r}, proved by {quotes}")
        assert content.strip()
        assert quotes
        assert all(quote.strip() for quote in quotes)


async def _check_documents(engine: Engine, thread: Thread) -> None:
    for name, of in (("profile", None), ("session memory", thread)):
        document = await engine.database.read(working_memory.read_newest, SCOPE, of)
        print(f"{name}: {document.content if document else document!r}")
        assert document is None or len(document.content.encode()) <= engine.working_memory.max_bytes


def _show(left: list[JobRow], lines: list[usage_rows.UsageLine], spent: float) -> None:
    print(f"\n{spent:.0f} s")
    for line in lines:
        print(f"{line.source}: {line.spent.calls} calls, {line.spent.input_tokens} in, {line.spent.output_tokens} out")
    for job in left:
        print(f"left: {job.kind}, {job.state}, {job.attempts} attempts: {job.error}")
