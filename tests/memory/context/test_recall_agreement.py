"""A recall and a context find the same entries and messages for the same question."""

import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from told_embedder import WORDS

from layerlore.memory.embedding.service import EmbeddingService
from layerlore.memory.recall.memory_block import find_memory, prepare_memory
from layerlore.memory.recall.vector_writer import VectorWriter
from layerlore.memory.settings.context_settings import RecallRules
from layerlore.memory.settings.note_settings import EntryRules
from layerlore.storage.core.records import Scope
from layerlore.storage.core.transaction import Tx

from ...server.tools.calling import Tools
from ..entry_memory import ANA, DAY, NOW, Memory

pytestmark = [pytest.mark.anyio, pytest.mark.databases]

OTHERS = ("gate", "harbour", "invoice", "kettle", "ladder", "meadow")
QUESTIONS = (
    "Where is the apple?",
    "Which invoice named the quince and the fig?",
    "gate harbour",
    "Tell me about plums.",
    "The ladder broke yesterday near the old wall. Who has a kettle?",
    "Nothing of this was ever said",
)


def draw_texts(number: int) -> list[str]:
    """Texts of two fruits and two other words each; no two are equal."""
    chance = random.Random(7)
    return [
        f"Note {at}: {' and '.join(chance.sample(WORDS, 2))} by the {' '.join(chance.sample(OTHERS, 2))}"
        for at in range(number)
    ]


async def fill(memory: Memory, embedding: EmbeddingService | None) -> None:
    """Messages in four threads, entries, and one entry that has ended."""
    texts = draw_texts(58)
    for at, text in enumerate(texts[:48]):
        await memory.say(f"thread {at % 4}", text)
    for text in texts[48:57]:
        await memory.remember(text)
    await memory.remember(texts[57], expires_at="2025-06-16")
    memory.now = NOW + 30 * DAY
    if embedding is not None:
        await VectorWriter(memory.engine, embedding, "writer").scan()


async def find_in_context(memory: Memory, question: str, *, asking: str = "") -> set[str]:
    """The ids of the entries and messages that a context may show for the question."""
    prepared = await prepare_memory(memory.engine, ANA, [question], asking=asking)

    async def look(tx: Tx, scope: Scope) -> set[str]:
        found = await find_memory(tx, memory.engine, scope, prepared)
        return {each.id for each in (*found.entries, *(hit.message for hit in found.hits))}

    return await memory.engine.database.read(look, ANA)


@pytest.mark.parametrize("embedded", [True, False])
async def test_a_context_finds_what_a_recall_finds(
    memory_of: Callable[..., Memory], embedding: EmbeddingService, embedded: bool
) -> None:
    service = embedding if embedded else None
    memory = memory_of(service)
    await fill(memory, service)
    counts = []
    for question in QUESTIONS:
        recalled = {hit.message.id for hit in (await memory.recall(question, limit=100)).hits}
        assert await find_in_context(memory, question) == recalled, question
        counts.append(len(recalled))
    assert max(counts) > 40
    assert min(counts) == 0 or embedded


@pytest.mark.parametrize("embedded", [True, False])
async def test_only_its_own_newest_turn_is_missing_from_a_context(
    memory_of: Callable[..., Memory], embedding: EmbeddingService, embedded: bool
) -> None:
    service = embedding if embedded else None
    memory = memory_of(service)
    await fill(memory, service)
    await memory.say("thread 1", "An apple fell from the ladder")
    question = "Which apple lies by the gate?"
    recalled = {hit.message.id: hit.message.parts[0]["text"] for hit in (await memory.recall(question, limit=100)).hits}
    shown = await find_in_context(memory, question, asking="thread 1")
    assert [recalled[each] for each in recalled.keys() - shown] == ["An apple fell from the ladder"]
    assert shown <= recalled.keys()


async def test_the_floor_of_recall_holds_for_the_entries_of_a_context(memory: Memory) -> None:
    await memory.remember("apple of spring")
    question = "Which apple did the captain of the harbour sell?"
    (hit,) = (await memory.recall(question)).hits
    for floor, finds in ((hit.score / 2, True), (hit.score * 2, False)):
        floored = Memory(replace(memory.engine, recall=RecallRules(floor=floor)))
        assert bool((await floored.recall(question)).hits) is finds
        assert bool(await floored.block(question)) is finds


async def test_a_context_has_as_many_of_the_found_entries_as_the_operator_wants(memory: Memory) -> None:
    for number in range(3):
        await memory.remember(f"apple {number} of spring")
    few = Memory(replace(memory.engine, entries=EntryRules(auto_inject_top_k=2)))
    best = [hit.message.id for hit in (await few.recall("which apple?")).hits][:2]
    assert await find_in_context(few, "which apple?") == set(best)


async def test_a_context_shows_the_lines_that_a_recall_lists(tools: Tools) -> None:
    texts = draw_texts(40)
    for at, text in enumerate(texts[:34]):
        await tools.say(f"thread {at % 3}", text)
    for text in texts[34:]:
        await tools("remember", content=text)
    for question in QUESTIONS:
        context = await tools("get_context", thread_id="new", query=question, max_tokens=20_000)
        memory = context.partition("<memory>")[2].partition("</memory>")[0]
        shown = [text for text in texts if text in memory]
        assert sorted(shown) == sorted(await tools.found(question, limit=100)), question
