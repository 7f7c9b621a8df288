"""What was just stored, as recalls at once and the writer of vectors meet it: each text is embedded once."""

from collections.abc import Callable

import anyio
import pytest
from told_embedder import ToldEmbedder

from layerlore.memory.context.context import get_context
from layerlore.memory.embedding.rows_at_work import MOST_GATHERED
from layerlore.memory.embedding.service import EmbeddingService
from layerlore.memory.recall.recall import NOT_ALL_EMBEDDED
from layerlore.memory.recall.recent_rows import MOST_ROWS
from layerlore.memory.recall.results import RecallResult
from layerlore.memory.recall.vector_writer import VectorWriter
from layerlore.storage.index import vectors

from .entry_memory import ANA, Memory

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
    assert memory.engine.embedding is not None
    writer = VectorWriter(memory.engine, memory.engine.embedding, "one")
    # Its vector is at hand, so that only the messages are held up.
    assert (await memory.engine.embedding.query("which fruit is a fig"))[0] is not None
    degraded: list[tuple[str, ...]] = []

    async def ask() -> None:
        degraded.append((await memory.recall("which fruit is a fig")).degraded)

    embedder.hold()
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(writer.scan)
            await anyio.to_thread.run_sync(embedder.begun.wait, PATIENCE)
            tasks.start_soon(ask)
            await anyio.wait_all_tasks_blocked()
            embedder.gate.set()
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


async def test_recalls_of_more_messages_than_a_batch_holds_are_all_served(
    memory: Memory, embedder: ToldEmbedder
) -> None:
    assert memory.engine.embedding is not None
    for number in range(2 * MOST_GATHERED // MOST_ROWS):
        await memory.say(f"thread {number}", *(f"apple {number} {each}" for each in range(MOST_ROWS)))
    rows = await memory.engine.database.read_installation(vectors.pending, "told", after=0, most=1000)
    assert len(rows) == 2 * MOST_GATHERED
    batches: list[int] = []
    work = memory.engine.embedding.at_work

    async def embed(some: list[vectors.PendingRow]) -> None:
        batches.append(len(some))
        await anyio.lowlevel.checkpoint()

    done: list[bool] = []

    async def gather(at: int) -> None:
        done.append(await work.gather(rows[at : at + MOST_ROWS], embed))

    async with anyio.create_task_group() as tasks:
        for at in range(0, len(rows), MOST_ROWS):
            tasks.start_soon(gather, at)
    assert sum(batches) == len(rows)
    assert max(batches) <= MOST_GATHERED
    assert len(batches) < len(rows) // MOST_ROWS
    assert all(done)


async def test_a_context_waits_for_no_vector_of_the_question_itself(memory: Memory, embedder: ToldEmbedder) -> None:
    await memory.say("main", "which fruit is a fig?")
    context = await get_context(memory.engine, ANA, "main", query="", max_tokens=2000, format="text")
    assert "which fruit is a fig?" in context
    assert await count_embedded(memory) == 0
    assert memory.engine.embedding is not None
    await VectorWriter(memory.engine, memory.engine.embedding, "one").scan()
    # What the message asks was embedded as a question.
    assert embedder.texts.count("which fruit is a fig?") == 1
    assert await count_embedded(memory) == 1
