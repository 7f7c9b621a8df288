"""Cases for a fit of the ranking: for each question what the ranking knows of its candidates, and which are evidence.

In this process, on an open store: each conversation twice, as it was, and after all its questions were stored and
answered with "not sure", since a ranking must not be drowned by them.
"""

import random
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import anyio
import numpy as np

from benchmarks import absent
from benchmarks.conversations import Conversation, batches
from benchmarks.embedders import EMBEDDER_SETTING
from benchmarks.filling import SENT, opened_engine
from benchmarks.hosting import draw_not_sure
from layerlore.memory.embedding.relevance import RelevanceEvidence
from layerlore.memory.engine.engine import Engine
from layerlore.memory.messages.addition import add_messages
from layerlore.memory.recall.candidates import Place, gather_candidates
from layerlore.memory.recall.ranking import Flags, Floats, measure_signals
from layerlore.memory.recall.recall import PreparedRecall, RecallRequest, prepare_recall
from layerlore.memory.recall.results import judge
from layerlore.memory.recall.vector_writer import VectorWriter
from layerlore.server.access.credentials import LOCAL_TENANT
from layerlore.storage.core.records import Scope
from layerlore.storage.core.transaction import Tx
from layerlore.storage.threads import threads

DEPTH = 100
"""Candidates of each list."""
_PATIENCE_MS = 20_000


@dataclass(frozen=True, slots=True)
class Case:
    """A question of ``category`` (empty: about what was never said), with one row for each message that was found, its
    best chunk first: ``signals`` [rows, names], ``evidence`` of the rows, how many messages are evidence in all, and
    what speaks for the answer as a whole."""

    category: str
    names: tuple[str, ...]
    signals: Floats
    evidence: Flags
    wanted: int
    relevance: RelevanceEvidence


@dataclass(frozen=True, slots=True)
class Cases:
    """The cases of a set: as the conversations were, and with all questions stored."""

    name: str
    clean: list[Case]
    lived: list[Case]


async def read_cases(name: str, conversations: Sequence[Conversation], embedder: str, apart: Sequence[str]) -> Cases:
    """Load the conversations of a set, and ask their questions."""
    foreign = absent.drawn(conversations, apart)
    found: list[list[Case]] = []
    for lived in (False, True):
        async with _opened(embedder) as engine:
            for conversation in conversations:
                await _load(engine, conversation, lived=lived)
            if engine.embedding is not None:
                await VectorWriter(engine, engine.embedding, "benchmark").scan()
            cases: list[Case] = []
            for conversation in conversations:
                held = await engine.database.read(_read_places, _scope(conversation), conversation)
                request = [each for each in conversation.questions if each.category not in apart]
                for question in request:
                    evidence = frozenset(held[each] for each in question.evidence if each in held)
                    cases += await _ask(engine, conversation, question.text, question.category, evidence)
                for text in foreign.get(conversation.id, []):
                    cases += await _ask(engine, conversation, text, "", frozenset())
            found.append(cases)
    return Cases(name, *found)


@asynccontextmanager
async def _opened(embedder: str) -> AsyncIterator[Engine]:
    variables = {
        EMBEDDER_SETTING: embedder,
        "EMBEDDING__QUERY_PATIENCE_MS": str(_PATIENCE_MS),
        "LIMITS__MESSAGE_TEXT_BYTES": str(1024 * 1024),
    }
    with tempfile.TemporaryDirectory(prefix="layerlore-weights-") as folder:
        async with opened_engine(Path(folder), **variables) as engine:
            yield engine


def _scope(conversation: Conversation) -> Scope:
    return Scope(LOCAL_TENANT, "default", conversation.id)


async def _load(engine: Engine, conversation: Conversation, *, lived: bool) -> None:
    chance = random.Random(conversation.id)
    threads = list(conversation.threads)
    if lived:
        for number, question in enumerate(conversation.questions):
            answer = draw_not_sure(question.text, chance)
            said = [{"role": "user", "content": question.text}, {"role": "assistant", "content": answer}]
            threads.append((f"{conversation.id}/asked-{number}", said))
    for thread, messages in threads:
        for batch in batches(messages):
            await add_messages(engine, _scope(conversation), thread, batch, replace=False, sent=SENT)


async def _read_places(tx: Tx, scope: Scope, conversation: Conversation) -> dict[str, Place]:
    """Where each message of a conversation is, by its id."""
    found = {}
    for name, messages in conversation.threads:
        uid = (await threads.find(tx, scope, name)).thread_uid
        found.update({message["id"]: (uid, seq) for seq, message in enumerate(messages, 1)})
    return found


async def _ask(
    engine: Engine, conversation: Conversation, text: str, category: str, evidence: frozenset[Place]
) -> list[Case]:
    """The question's case; none where nothing was found."""
    scope = _scope(conversation)
    with anyio.fail_after(_PATIENCE_MS / 1000):
        while True:
            prepared = await prepare_recall(engine, scope, RecallRequest([text], limit=DEPTH), engine.recall)
            if engine.embedding is None or prepared.space is not None or not prepared.words:
                break
    return await engine.database.read(_find_case, scope, prepared, category, evidence)


async def _find_case(
    tx: Tx, scope: Scope, prepared: PreparedRecall, category: str, evidence: frozenset[Place]
) -> list[Case]:
    gathered = await gather_candidates(tx, scope, prepared.queries, prepared.matches, prepared.space, prepared.rules)
    verdict = judge(gathered, 0, prepared.space, prepared.rules, now=prepared.now)
    order = verdict.ranked.order
    if not len(order):
        return []
    measured = measure_signals(gathered.pool, gathered.candidates[0], gathered.questions[0], prepared.rules)
    names = tuple(measured.by_name)
    rows = [gathered.rows[at] for at in order.tolist()]
    return [
        Case(
            category,
            names,
            np.stack([measured.by_name[name][order] for name in names], axis=1),
            np.array([(row.thread_uid, row.seq) in evidence for row in rows], np.bool_),
            len(evidence),
            verdict.evidence,
        )
    ]
