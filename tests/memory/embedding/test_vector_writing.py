"""What makes up for missing vectors: scans, old text, one process at a time where vectors cost money."""

import dataclasses
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio
import pytest
from sqlalchemy import text
from told_embedder import ToldEmbedder

from layerlore.memory.embedding.service import BATCH_ROWS, EmbeddingService
from layerlore.memory.engine.engine import Engine, WriteRequest
from layerlore.memory.messages.addition import add_messages
from layerlore.memory.recall import vector_writer
from layerlore.memory.recall.vector_writer import LEASE_MS, UNUSED_DAYS, VectorWriter
from layerlore.memory.removal.deletion import delete_messages
from layerlore.server.runtime.engines import close_engine, open_engine
from layerlore.server.settings.settings import load_settings
from layerlore.storage.core.records import DAY_MS, ROLES, Origin, Scope
from layerlore.storage.core.transaction import Tx
from layerlore.storage.index import vectors

pytestmark = pytest.mark.anyio

PATIENCE = 120.0  # seconds: only a hang takes so long
ANA, BEN = Scope("local", "agent", "ana"), Scope("local", "agent", "ben")
SENT = WriteRequest(Origin("test", "add_messages"))

Opened = Callable[..., AbstractAsyncContextManager[Engine]]


class Clock:
    """Milliseconds since 1970, as the engines of a test see them."""

    def __init__(self) -> None:
        self.now = 1_750_000_000_000

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def opened(database_url: str, clock: Clock) -> Opened:
    """Engines of processes on the test's database, each with its embedder."""
    settings = load_settings({"database": database_url, "embedding": {"embedder": "none"}}, environ={})

    @asynccontextmanager
    async def engine(embedder: ToldEmbedder) -> AsyncIterator[Engine]:
        plain = await open_engine(settings)
        try:
            async with _closing(dataclasses.replace(plain, now=clock, embedding=EmbeddingService(embedder))) as made:
                yield made
        finally:
            embedder.gate.set()

    return engine


@asynccontextmanager
async def _closing(engine: Engine) -> AsyncIterator[Engine]:
    try:
        yield engine
    finally:
        await close_engine(engine)


def writer(engine: Engine, holder: str = "one") -> VectorWriter:
    assert engine.embedding is not None
    return VectorWriter(engine, engine.embedding, holder)


async def say(engine: Engine, *texts: str, scope: Scope = ANA, thread: str = "main") -> None:
    raw = [{"role": "user", "content": each, "id": each} for each in texts]
    await add_messages(engine, scope, thread, raw, replace=False, sent=SENT)


async def execute(tx: Tx, sql: str) -> int:
    return await tx.run(text(sql))


async def made(engine: Engine, model: str = "told") -> vectors.Progress:
    return await engine.database.read_installation(vectors.progress_everywhere, model)


async def test_a_scan_finds_what_is_missing_in_every_scope_page_by_page(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_writer, "BATCH", 3)
    monkeypatch.setattr(vector_writer, "SPAN", 7)
    embedder = ToldEmbedder()
    async with opened(embedder) as engine:
        for scope in (ANA, BEN):
            await say(engine, *(f"text {n} of {scope.resource_id}" for n in range(20)), scope=scope)
        await delete_messages(
            engine, ANA, "main", "ids", ids=[f"text {n} of ana" for n in range(4, 15)], roles=ROLES, sent=SENT
        )
        batches: list[int] = []
        assert await writer(engine).scan(batches.append)
        assert await made(engine) == vectors.Progress(29, 29)
        assert (sum(batches), max(batches)) == (29, 3)
        assert len(embedder.texts) == 29
        assert await writer(engine).scan()
        assert len(embedder.texts) == 29


async def test_what_older_rules_indexed_is_made_anew_with_vectors_of_the_new_text(opened: Opened) -> None:
    async with opened(ToldEmbedder()) as engine:
        await say(engine, "an apple", "a pear")
        await engine.database.write_installation(execute, "UPDATE search_rows SET text_version = 1 WHERE seq = 1")
        before = await engine.database.read_installation(vectors.last_row)
        assert await writer(engine).scan()
        assert await engine.database.read_installation(vectors.stale, after=0, most=10) == []
        assert await engine.database.read_installation(vectors.last_row) == before + 1
        assert await made(engine) == vectors.Progress(2, 2)


async def test_everything_can_be_indexed_anew(opened: Opened) -> None:
    async with opened(ToldEmbedder()) as engine:
        for scope in (ANA, BEN):
            for thread in ("one", "two"):
                await say(engine, *(f"text {n}" for n in range(40)), scope=scope, thread=thread)
        await writer(engine).scan()
        await engine.database.write_installation(execute, "DELETE FROM search_rows WHERE seq > 30")
        batches: list[int] = []
        assert await vector_writer.rebuild_all(engine, batches.append) == 160
        assert (sum(batches), max(batches)) == (160, vector_writer.REBUILD_BATCH)
        assert await made(engine) == vectors.Progress(160, 0)


@pytest.mark.parametrize("local", [True, False])
async def test_one_process_at_a_time_makes_up_for_what_is_missing(opened: Opened, local: bool) -> None:
    slow, other = ToldEmbedder(local=local), ToldEmbedder(local=local)
    async with opened(slow) as one, opened(other) as two:
        await say(one, "an apple")
        slow.hold()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(writer(one, "one").scan)
            assert await anyio.to_thread.run_sync(slow.begun.wait, PATIENCE)
            assert not await writer(two, "two").scan()
            assert other.texts == []
            slow.gate.set()
        assert await made(one) == vectors.Progress(1, 1)
        await say(one, "a pear")
        assert await writer(two, "two").scan()
        assert len(other.texts) == 1


async def test_a_process_that_ends_in_the_middle_of_it_holds_nobody_up(opened: Opened) -> None:
    slow, other = ToldEmbedder(), ToldEmbedder()
    async with opened(slow) as one, opened(other) as two:
        await say(one, "an apple")
        slow.hold()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(writer(one, "one").run)
            assert await anyio.to_thread.run_sync(slow.begun.wait, PATIENCE)
            tasks.cancel_scope.cancel()
        assert await writer(two, "two").scan()
        assert await made(two) == vectors.Progress(1, 1)


async def test_a_process_that_died_at_it_holds_others_up_no_longer_than_its_lease(opened: Opened, clock: Clock) -> None:
    async with opened(ToldEmbedder(local=False)) as engine:
        await say(engine, "an apple")
        until = clock.now + LEASE_MS
        await engine.database.write_installation(vectors.take_lease, "told", "dead", now=clock.now, until=until)
        assert not await writer(engine).scan()
        clock.now = until
        assert await writer(engine).scan()
        assert await made(engine) == vectors.Progress(1, 1)


async def test_each_process_embeds_what_it_writes_itself_and_only_that(opened: Opened) -> None:
    mine, theirs = ToldEmbedder(local=False), ToldEmbedder(local=False)
    async with opened(mine) as one, opened(theirs) as two, anyio.create_task_group() as tasks:
        # Once the first text has its vector, the scan at the start has fixed how far it goes.
        await say(one, "a pear", scope=ANA)
        tasks.start_soon(writer(one, "one").run)
        await until_embedded(one, 1)
        await say(two, "a plum", scope=BEN)
        await say(one, "an apple", scope=ANA)
        await until_embedded(one, 2)
        assert {text.split()[-1] for text in mine.texts} == {"pear", "apple"}
        tasks.cancel_scope.cancel()


async def until_embedded(engine: Engine, done: int) -> None:
    with anyio.fail_after(PATIENCE):
        while (await made(engine)).done < done:
            await anyio.sleep(0.01)


@pytest.mark.parametrize("local", [True, False], ids=["local", "remote"])
async def test_only_a_local_model_rests_between_batches_while_others_write(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, local: bool
) -> None:
    rests: list[float] = []

    async def rest(seconds: float) -> None:
        rests.append(seconds)

    monkeypatch.setattr(vector_writer, "_rest", rest)
    embedder = ToldEmbedder(local=local)
    async with opened(embedder) as engine:
        await say(engine, *(f"text {n}" for n in range(BATCH_ROWS + 1)))
        assert await writer(engine).scan()
        assert rests == []
        await say(engine, *(f"text {n}" for n in range(BATCH_ROWS + 1)), scope=BEN)
        embedder.hold()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(writer(engine).scan)
            assert await anyio.to_thread.run_sync(embedder.begun.wait, PATIENCE)
            await say(engine, "an apple", thread="other")
            embedder.gate.set()
        assert any(seconds > 0 for seconds in rests) == local
        assert (await made(engine)).done >= 2 * BATCH_ROWS + 2


async def test_vectors_that_nobody_has_used_for_a_week_go_and_no_others(opened: Opened, clock: Clock) -> None:
    async def scanned(name: str) -> dict[str, int]:
        async with opened(ToldEmbedder(name)) as engine:
            assert await writer(engine).scan()
            return {model: (await made(engine, model)).done for model in ("first", "second", "third")}

    async with opened(ToldEmbedder("first")) as engine:
        await say(engine, *(f"text {n}" for n in range(5)))
    assert await scanned("first") == {"first": 5, "second": 0, "third": 0}
    clock.now += 4 * DAY_MS
    assert await scanned("second") == {"first": 5, "second": 5, "third": 0}
    clock.now += (UNUSED_DAYS - 4) * DAY_MS + 1
    assert await scanned("third") == {"first": 0, "second": 5, "third": 5}
    assert await scanned("second") == {"first": 0, "second": 5, "third": 5}


async def test_a_writer_that_cannot_work_tries_again_and_ends_when_told(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(vector_writer, "AGAIN_SECONDS", 0.01)
    failures = 3
    read = vectors.last_row

    async def sometimes(tx: Tx) -> int:
        nonlocal failures
        failures -= 1
        if failures >= 0:
            raise RuntimeError("not yet")
        return await read(tx)

    monkeypatch.setattr(vectors, "last_row", sometimes)
    async with opened(ToldEmbedder()) as engine, anyio.create_task_group() as tasks:
        await say(engine, "an apple")
        tasks.start_soon(writer(engine).run)
        await until_embedded(engine, 1)
        tasks.cancel_scope.cancel()
    told: list[Any] = [record for record in caplog.records if record.name == vector_writer.__name__]
    assert [record.exc_info is not None for record in told] == [True] * 3
