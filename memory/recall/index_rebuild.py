"""The rebuild of search text: of messages that older rules indexed, or of all messages, entries and notes."""

from collections.abc import Callable, Sequence
from itertools import groupby

from layerlore.memory.engine.engine import Engine
from layerlore.storage.core.records import Scope
from layerlore.storage.derived import note_rows
from layerlore.storage.derived.entries import SEQ
from layerlore.storage.index import vectors
from layerlore.storage.messages import indexed_rows, place_rows

# Messages in one transaction: others that write wait for it.
BATCH = 32
_THREADS = 100

ReportMessages = Callable[[int], None]
"""Receives how many messages a batch indexed."""


async def rebuild_old(engine: Engine, report: ReportMessages = lambda messages: None) -> int:
    """Index messages, entries and notes anew whose words were made by older rules; ``report`` is called after each batch.
    Returns how many.

    Raises StorageUnavailable.
    """
    done = after = 0
    while rows := await engine.database.read_installation(vectors.stale, after=after, most=BATCH):
        for (scope, uid), some in groupby(rows, key=lambda row: (row.scope, row.thread_uid)):
            done += await _rebuild(engine, scope, uid, [row.seq for row in some], report)
        after = rows[-1].row_id
    return done


async def rebuild_all(engine: Engine, report: ReportMessages = lambda messages: None) -> int:
    """Index every message, entry and note anew; ``report`` is called after each batch. Returns how many. Raises
    StorageUnavailable."""
    done, thread = 0, place_rows.FIRST
    while some := await engine.database.read_installation(place_rows.threads_after, thread, _THREADS):
        for thread in some:
            after = 0
            while seqs := await engine.database.read(place_rows.seqs_after, thread, after, BATCH):
                done += await _rebuild(engine, thread.scope, thread.thread_uid, seqs, report)
                after = seqs[-1]
    entry = place_rows.FIRST
    while some := await engine.database.read_installation(place_rows.entries_after, entry, _THREADS):
        for entry in some:
            done += await _rebuild(engine, entry.scope, entry.thread_uid, [SEQ], report)
    return done + await _index_notes(engine, report)


async def _index_notes(engine: Engine, report: ReportMessages) -> int:
    """Index the notes of all threads and all profiles anew. Returns how many."""
    done, thread = 0, place_rows.FIRST
    while some := await engine.database.read_installation(place_rows.threads_after, thread, _THREADS):
        for thread in some:
            if await engine.database.read(note_rows.stand_in, thread.scope, thread.thread_uid):
                done += await engine.database.write(
                    indexed_rows.index_notes, thread.scope, thread.thread_uid, engine.search_text_of
                )
    scope = place_rows.FIRST.scope
    while scopes := await engine.database.read_installation(place_rows.scopes_after, scope, _THREADS):
        for scope in scopes:
            if await engine.database.read(note_rows.stand_in, scope, ""):
                done += await engine.database.write(indexed_rows.index_notes, scope, "", engine.search_text_of)
    if done:
        report(done)
    return done


async def _rebuild(engine: Engine, scope: Scope, uid: str, seqs: Sequence[int], report: ReportMessages) -> int:
    # The chunks of a message are rows of their own.
    once = sorted(set(seqs))
    done = await engine.database.write(indexed_rows.rebuild_rows, scope, uid, once, engine.search_text_of)
    report(done)
    return done
