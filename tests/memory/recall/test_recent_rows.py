"""What was just stored, as recalls at once and the writer of vectors meet it: each text is embedded once."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import anyio
import pytest
from told_embedder import ToldEmbedder

from layerlore.memory.context.context import get_context
from layerlore.memory.embedding import service
from layerlore.memory.embedding.port import EmbeddingFailed
from layerlore.memory.embedding.service import EmbeddingService
from layerlore.memory.recall.candidates import MOST_ROWS
from layerlore.memory.recall.recall import NOT_ALL_EMBEDDED, RecallRequest, recall
from layerlore.memory.recall.results import RecallResult
from layerlore.memory.recall.vector_writer import VectorWriter, embed_awaited
from layerlore.storage.core.errors import StorageUnavailable
from layerlore.storage.core.records import Scope
from layerlore.storage.core.transaction import Tx
from layerlore.storage.index import vectors

from ..entry_memory import ANA, BEN, Memory

pytestmark = pytest.mark.anyio

PATIENCE = 60.0  # seconds: only a hang takes so long
SAID = ("the apple is red", "the pear is green", "the plum is blue")


@pytest.fixture
def embedder(embedding: EmbeddingService) -> ToldEmbedder:
    assert isinstance(embedding.embedder, ToldEmbedder)
    return embedding.embedder


@pytest.fixture
def memory(memory_of: Callable[..., Memory], embedding: EmbeddingService) -> Memory:
    return memory_of(embedding)


async def ask_at_once(memory: Memory, embedder: ToldEmbedder, queries: list[str]) -> list[RecallResult]:
    """Ask all of them while the embedder is held, so that they meet the same rows."""
    found: list[RecallResult] = []

    async def ask(query: str) -> None:
        found.append(await memory.recall(query))

    embedder.hold()
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            for query in queries:
                tasks.start_soon(ask, query)
            await anyio.to_thread.run_sync(embedder.begun.wait, PATIENCE)
            embedder.gate.set()
    return found


async def ask_while_writing(memory: Memory, embedder: ToldEmbedder, ask: Callable[[], Awaitable[None]]) -> None:
    """Ask while the writer of vectors is at its first rows, which are held until the question waits, too."""
    writer = VectorWriter(memory.engine, service_of(memory), "one")
    embedder.hold()
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(writer.scan)
            await anyio.to_thread.run_sync(embedder.begun.wait, PATIENCE)
            tasks.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            embedder.gate.set()


def service_of(memory: Memory) -> EmbeddingService:
    assert memory.engine.embedding is not None
    return memory.engine.embedding


async def count_embedded(memory: Memory) -> int:
    return (await memory.engine.database.read_installation(vectors.progress_everywhere, "told")).done


async def test_recalls_at_once_embed_each_new_message_once(memory: Memory, embedder: ToldEmbedder) -> None:
    await memory.say("main", *SAID)
    found = await ask_at_once(memory, embedder, [f"which fruit is fig number {number}" for number in range(12)])
    assert [embedder.texts.count(text) for text in SAID] == [1, 1, 1]
    assert {each.degraded for each in found} == {()}
    assert await count_embedded(memory) == 3


async def test_recalls_that_met_the_same_messages_earlier_embed_none_again(
    memory: Memory, embedder: ToldEmbedder
) -> None:
    await memory.say("main", *SAID)
    assert (await memory.recall("which fruit is a fig")).degraded == ()
    await memory.say("main", "the quince is yellow")
    await ask_at_once(memory, embedder, ["which fruit is a sloe", "which fruit is a medlar"])
    assert [embedder.texts.count(text) for text in (*SAID, "the quince is yellow")] == [1, 1, 1, 1]


async def test_the_writer_and_a_recall_share_the_work(memory: Memory, embedder: ToldEmbedder) -> None:
    await memory.say("main", *SAID)
    # Its vector is at hand, so that only the messages are held up.
    assert (await service_of(memory).query("which fruit is a fig"))[0] is not None
    degraded: list[tuple[str, ...]] = []

    async def ask() -> None:
        degraded.append((await memory.recall("which fruit is a fig")).degraded)

    await ask_while_writing(memory, embedder, ask)
    assert [embedder.texts.count(text) for text in SAID] == [1, 1, 1]
    assert degraded == [()]


async def test_a_recall_that_is_cancelled_leaves_its_messages_to_the_next(
    memory: Memory, embedder: ToldEmbedder
) -> None:
    await memory.say("main", *SAID)
    embedder.hold()
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(memory.recall, "which fruit is a fig")
            await anyio.to_thread.run_sync(embedder.begun.wait, PATIENCE)
            tasks.cancel_scope.cancel()
        embedder.gate.set()
        assert (await memory.recall("which fruit is a sloe")).degraded == ()
    assert await count_embedded(memory) == 3


async def test_what_failed_for_one_recall_is_told_to_all_and_made_up_for_later(
    memory_of: Callable[..., Memory],
) -> None:
    now = 0.0
    embedder = ToldEmbedder()
    embedding = EmbeddingService(embedder, patience_ms=10_000, now=lambda: now)
    memory = memory_of(embedding)
    await memory.say("main", *SAID)
    queries = [f"which fruit is fig number {number}" for number in range(3)]
    for query in queries:
        assert (await embedding.query(query))[0] is not None
    embedder.failure = "it is broken"
    found = await ask_at_once(memory, embedder, queries)
    assert {each.degraded for each in found} == {(NOT_ALL_EMBEDDED,)}
    embedder.failure = ""
    now = 3600.0
    assert (await memory.recall(queries[0])).degraded == ()
    assert await count_embedded(memory) == 3
    await embedding.close()


async def test_who_is_cancelled_takes_nothing_from_those_who_wait_for_the_same_or_for_others(
    memory: Memory, embedder: ToldEmbedder
) -> None:
    await memory.say("main", *SAID)
    await memory.say("main", "the quince is yellow", scope=BEN)
    queries = [f"which fruit is fig number {number}" for number in range(3)]
    for query in queries:
        assert (await service_of(memory).query(query))[0] is not None
    degraded: dict[str, tuple[str, ...]] = {}

    async def ask(query: str, scope: Scope = ANA) -> None:
        degraded[query] = (await recall(memory.engine, scope, RecallRequest([query]))).degraded

    embedder.hold()
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            async with anyio.create_task_group() as first:
                first.start_soon(ask, queries[0])
                await anyio.to_thread.run_sync(embedder.begun.wait, PATIENCE)
                tasks.start_soon(ask, queries[1])
                tasks.start_soon(ask, queries[2], BEN)
                await anyio.wait_all_tasks_blocked()
                first.cancel_scope.cancel()
            embedder.gate.set()
    assert degraded == {queries[1]: (), queries[2]: ()}
    assert len(embedder.texts) == len({*embedder.texts})


async def test_what_nobody_waits_for_any_more_is_left_to_the_writer(
    memory: Memory, embedder: ToldEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "MOST_BATCHES", 1)
    await memory.say("main", *SAID)
    await memory.say("main", "the quince is yellow", scope=BEN)
    rows = await memory.engine.database.read_installation(vectors.pending, "told", after=0, most=9)
    embedder.hold()
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(embed_awaited, memory.engine, service_of(memory), rows[:3])
            await anyio.to_thread.run_sync(embedder.begun.wait, PATIENCE)
            async with anyio.create_task_group() as leaving:
                leaving.start_soon(embed_awaited, memory.engine, service_of(memory), rows[3:])
                await anyio.wait_all_tasks_blocked()
                leaving.cancel_scope.cancel()
            embedder.gate.set()
    assert sorted(embedder.texts) == sorted(SAID)
    assert await VectorWriter(memory.engine, service_of(memory), "one").scan()
    assert await count_embedded(memory) == 4


async def test_what_a_recall_waits_for_stands_behind_few_of_the_writers(memory: Memory, embedder: ToldEmbedder) -> None:
    await memory.say("main", *(f"apple number {number}" for number in range(60)))
    await memory.say("main", "the quince is yellow", scope=BEN)
    assert (await service_of(memory).query("which fruit is a fig"))[0] is not None

    async def ask() -> None:
        await recall(memory.engine, BEN, RecallRequest(["which fruit is a fig"]))

    await ask_while_writing(memory, embedder, ask)
    # The question itself comes first.
    assert embedder.texts.index("the quince is yellow") <= 1 + 2 * service.BATCH_ROWS
    assert len(embedder.texts) == 62


async def test_a_scope_that_cannot_be_stored_costs_no_other_its_vectors(
    memory: Memory, embedder: ToldEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = vectors.put

    async def failing(tx: Tx, scope: Scope, *given: Any) -> int:
        if scope == ANA:
            raise StorageUnavailable("the disk is full")
        return await put(tx, scope, *given)

    monkeypatch.setattr(vectors, "put", failing)
    await memory.say("main", *SAID)
    await memory.say("main", "the quince is yellow", scope=BEN)
    degraded = {}
    for scope in (ANA, BEN):
        degraded[scope] = (await recall(memory.engine, scope, RecallRequest(["which fruit is a fig"]))).degraded
    assert degraded == {ANA: (NOT_ALL_EMBEDDED,), BEN: ()}


async def test_closing_ends_the_work_and_whoever_waits_is_told(memory: Memory, embedder: ToldEmbedder) -> None:
    await memory.say("main", *SAID)
    rows = await memory.engine.database.read_installation(vectors.pending, "told", after=0, most=9)
    told: list[str] = []

    async def wait() -> None:
        try:
            await embed_awaited(memory.engine, service_of(memory), rows)
        except EmbeddingFailed as error:
            told.append(str(error))

    embedder.hold()
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.to_thread.run_sync(embedder.begun.wait, PATIENCE)
            await service_of(memory).rows.close()
            embedder.gate.set()
    assert told == ["the embedder has been closed"]
    await embed_awaited(memory.engine, service_of(memory), rows)
    assert await count_embedded(memory) == 3


async def test_that_older_messages_lack_a_vector_is_told_however_much_came_after_the_question(memory: Memory) -> None:
    await memory.say("older", *(f"the plum has number {number}" for number in range(MOST_ROWS + 1)))
    await memory.say("main", "which fruit is a fig?")
    await memory.say("main", *(f"looking at shelf {number}" for number in range(30)), role="assistant")
    found = await memory.recall("which fruit is a fig", asking="main", in_context=True)
    assert found.degraded == (NOT_ALL_EMBEDDED,)
    context = await get_context(memory.engine, ANA, "main", query="", max_tokens=2000, format="text")
    assert NOT_ALL_EMBEDDED in str(context)


async def test_a_context_waits_for_no_vector_of_the_question_itself(memory: Memory, embedder: ToldEmbedder) -> None:
    await memory.say("main", "which fruit is a fig?")
    context = await get_context(memory.engine, ANA, "main", query="", max_tokens=2000, format="text")
    assert "which fruit is a fig?" in context
    assert await count_embedded(memory) == 0
    await VectorWriter(memory.engine, service_of(memory), "one").scan()
    # What the message asks was embedded as a question.
    assert embedder.texts.count("which fruit is a fig?") == 1
    assert await count_embedded(memory) == 1


async def test_rows_that_are_asked_for_while_the_work_ends_are_not_forgotten(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "MOST_BATCHES", 1)
    await memory.say("main", "the apple is red", "the pear is green")
    rows = await memory.engine.database.read_installation(vectors.pending, "told", after=0, most=100)
    queue, ending = service.RowQueue(), anyio.Event()

    async def embed(some: Sequence[vectors.PendingRow]) -> list[int]:
        # Whoever waits for that runs when the task has ended and nobody was told yet.
        ending.set()
        return [row.row_id for row in some]

    async def ask_then() -> None:
        await ending.wait()
        assert await queue.embed(rows[1:], embed) == 1

    with anyio.fail_after(PATIENCE / 6):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask_then)
            await anyio.wait_all_tasks_blocked()
            assert await queue.embed(rows[:1], embed) == 1
