"""The index has the notes that stand, whatever was done to them, and no others."""

import contextlib
from collections.abc import Callable

import pytest
from hypothesis import given
from sqlalchemy import text

from layerlore.memory.documents.working_memory import update_document
from layerlore.memory.embedding.service import EmbeddingService
from layerlore.memory.engine.engine import Engine
from layerlore.memory.recall.vector_writer import VectorWriter, rebuild_all
from layerlore.storage.core.errors import NotFound
from layerlore.storage.core.records import Scope
from layerlore.storage.core.scopes import NOTE_KINDS, note_place
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import note_rows
from layerlore.storage.index import vectors
from layerlore.storage.threads import threads

from ..entry_memory import ANA, Memory
from ..moving.test_moving import both, engine, lives, some  # noqa: F401 - fixtures
from ..moving_memory import Life, bring, export_lines

pytestmark = pytest.mark.anyio


async def _differences(tx: Tx, scope: Scope) -> list[tuple[str, object, object]]:
    """The places at which the index has other notes than stand there."""
    uids = [row[0] for row in await tx.all(text("SELECT thread_uid FROM threads"))]
    found = []
    for kind in NOTE_KINDS:
        for uid in [""] if kind == "profile" else uids:
            place = note_place(kind, uid)
            standing = await note_rows.read_place(tx, scope, kind, uid)
            indexed = await tx.scalars(
                text(
                    "SELECT DISTINCT seq FROM search_rows WHERE tenant_id = :tenant AND agent_id = :agent"
                    " AND resource_id = :resource AND thread_uid = :place"
                ),
                tenant=scope.tenant_id,
                agent=scope.agent_id,
                resource=scope.resource_id,
                place=place,
            )
            if set(indexed) != set(standing.notes):
                found.append((place, sorted(indexed), standing.notes))
    return found


async def _store(tx: Tx, scope: Scope, thread_id: str, engine: Engine) -> None:  # noqa: F811 - no fixture here
    """What a job does besides, when it stores what it noted."""
    with contextlib.suppress(NotFound):
        thread = await threads.lock(tx, scope, thread_id)
        await note_rows.refresh(tx, scope, thread.thread_uid, engine.search_text_of)
        await note_rows.refresh_document(tx, scope, None, engine.search_text_of)


@some
@given(acts=lives)
async def test_the_index_has_the_notes_that_stand_after_any_life(
    engine: Engine,  # noqa: F811 - the fixture
    acts: list[tuple[str, str, int]],
) -> None:
    scope, elsewhere = (Scope("local", "agent", engine.new_id()) for _ in range(2))
    life = Life(engine, scope)
    for act in acts:
        await life.act(*act)
        if act[0] == "note":
            await engine.database.write(_store, scope, act[1], engine)
    assert await engine.database.read(_differences, scope) == []
    await bring(engine, elsewhere, await export_lines(engine, scope))
    assert await engine.database.read(_differences, elsewhere) == []


async def test_notes_that_the_index_lost_are_found_after_a_whole_rebuild(memory: Memory) -> None:
    for of, thread in (("resource", ""), ("thread", "main")):
        await update_document(
            memory.engine, ANA, of, thread, "The gate is green.", mode=None, expected_version=None, sent=memory.sent()
        )
    assert len(await memory.found("gate")) == 2

    async def forget_notes(tx: Tx, scope: Scope) -> None:
        await tx.run(text("DELETE FROM search_rows"))

    await memory.engine.database.write(forget_notes, ANA)
    assert await memory.found("gate") == []
    assert await rebuild_all(memory.engine) == 2
    assert len(await memory.found("gate")) == 2
    assert await rebuild_all(memory.engine) == 2
    assert len(await memory.found("gate")) == 2


async def test_a_line_that_stays_keeps_its_row_and_its_time(memory: Memory) -> None:
    async def write(content: str) -> None:
        await update_document(
            memory.engine, ANA, "thread", "main", content, mode="replace", expected_version=None, sent=memory.sent()
        )

    await write("The gate is green.\nThe door is red.")
    (before,) = (await memory.recall("gate")).hits
    memory.now += 86_400_000
    await write("The gate is green.\nThe door is blue.")
    (after,) = (await memory.recall("gate")).hits
    (door,) = (await memory.recall("door")).hits
    assert after.message.said_at == before.message.said_at
    assert door.message.said_at == memory.now


async def test_a_note_gets_its_vector_from_the_writer_and_keeps_it_while_the_line_stays(
    memory_of: Callable[..., Memory], embedding: EmbeddingService
) -> None:
    memory = memory_of(embedding)
    model = embedding.embedder.name

    async def write(content: str) -> vectors.Progress:
        await update_document(
            memory.engine, ANA, "resource", "", content, mode="replace", expected_version=None, sent=memory.sent()
        )
        return await memory.engine.database.read(vectors.progress, ANA, model)

    assert await write("A quince grows in the garden.\nThe door is red.") == vectors.Progress(2, 0)
    assert await VectorWriter(memory.engine, embedding, "writer").scan()
    assert (await memory.recall("a sloe, a quince?")).hits[0].explain().cosine is not None
    assert await write("A quince grows in the garden.\nThe door is blue.") == vectors.Progress(2, 1)
