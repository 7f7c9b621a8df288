"""Makes the searched words of messages anew: of those that older rules made, or of all there are."""

from collections.abc import Callable, Sequence
from itertools import groupby

from layerlore.memory.engine import Engine
from layerlore.storage import places, reindexing, vectors
from layerlore.storage.entries import SEQ
from layerlore.storage.records import Scope

# Messages in one transaction: others that write wait for it.
BATCH = 32
_THREADS = 100

Told = Callable[[int], None]


async def rebuild_old(engine: Engine, told: Told = lambda messages: None) -> int:
    """Index messages anew whose words were made by older rules; ``told`` hears of each batch. Returns how many.

    Raises StorageUnavailable.
    """
    done = after = 0
    while rows := await engine.database.read_installation(vectors.stale, after=after, most=BATCH):
        for (scope, uid), some in groupby(rows, key=lambda row: (row.scope, row.thread_uid)):
            done += await _rebuild(engine, scope, uid, [row.seq for row in some], told)
        after = rows[-1].row_id
    return done


async def rebuild_all(engine: Engine, told: Told = lambda messages: None) -> int:
    """Index every message and entry anew; ``told`` hears of each batch. Returns how many. Raises StorageUnavailable."""
    done, thread = 0, places.FIRST
    while some := await engine.database.read_installation(places.threads_after, thread, _THREADS):
        for thread in some:
            after = 0
            while seqs := await engine.database.read(places.seqs_after, thread, after, BATCH):
                done += await _rebuild(engine, thread.scope, thread.thread_uid, seqs, told)
                after = seqs[-1]
    entry = places.FIRST
    while some := await engine.database.read_installation(places.entries_after, entry, _THREADS):
        for entry in some:
            done += await _rebuild(engine, entry.scope, entry.thread_uid, [SEQ], told)
    return done


async def _rebuild(engine: Engine, scope: Scope, uid: str, seqs: Sequence[int], told: Told) -> int:
    # The chunks of a message are rows of their own.
    once = sorted(set(seqs))
    done = await engine.database.write(reindexing.rebuild, scope, uid, once, engine.search_text_of)
    told(done)
    return done
