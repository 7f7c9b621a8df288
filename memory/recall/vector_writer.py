"""The writer of vectors, and the rebuild of search text.

Text is committed first, is found by its words meanwhile, and gets its vectors here. Search text is rebuilt for messages
that older rules indexed, or for all messages, entries and notes.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

import anyio

from layerlore.memory.embedding.port import EmbeddingFailed
from layerlore.memory.embedding.service import BATCH_ROWS, EmbeddingService
from layerlore.memory.engine.engine import Engine
from layerlore.storage.core import metrics
from layerlore.storage.core.errors import LayerloreError
from layerlore.storage.core.records import DAY_MS, Message, Scope
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import note_rows
from layerlore.storage.derived.entries import SEQ
from layerlore.storage.index import vectors
from layerlore.storage.index.vectors import NewVector, PendingRow
from layerlore.storage.messages import indexed_rows, place_rows

# Messages in one transaction: others that write wait for it.
REBUILD_BATCH = 32
_THREADS = 100

ReportMessages = Callable[[int], None]
"""Receives how many messages a batch indexed."""


async def rebuild_old(engine: Engine, report: ReportMessages = lambda messages: None) -> int:
    """Index messages, entries and notes anew whose words were made by older rules; ``report`` is called after each batch.
    Returns how many.

    Raises StorageUnavailable.
    """
    done = after = 0
    while rows := await engine.database.read_installation(vectors.stale, after=after, most=REBUILD_BATCH):
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
            while seqs := await engine.database.read(place_rows.seqs_after, thread, after, REBUILD_BATCH):
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


async def embed_awaited(engine: Engine, embedding: EmbeddingService, rows: Sequence[PendingRow]) -> None:
    """Embed the rows of a scope that a caller waits for, unless that is under way. Raises EmbeddingFailed,
    StorageUnavailable."""
    await embedding.rows.embed(rows, partial(_embed, engine, embedding))


async def embed_page(engine: Engine, embedding: EmbeddingService, rows: Sequence[PendingRow]) -> int:
    """Embed rows of any scopes without a waiting caller: with a model on this machine a few at a time, behind those
    that are waited for. Returns how many have a vector now. Raises EmbeddingFailed, StorageUnavailable."""
    if not embedding.embedder.local:
        return len(await _embed(engine, embedding, rows))
    done = 0
    for some in _group_by_scope(rows).values():
        for at in range(0, len(some), BATCH_ROWS):
            await embedding.make_way()
            done += await embedding.rows.embed(some[at : at + BATCH_ROWS], partial(_embed, engine, embedding))
    return done


async def _embed(engine: Engine, embedding: EmbeddingService, rows: Sequence[PendingRow]) -> set[int]:
    """Embed the texts of those rows that have no vector yet, as their messages have them now, and store the vectors.
    Returns which of the rows have one now."""
    read: list[tuple[PendingRow, Message]] = []
    made: set[int] = set()
    for scope, some in _group_by_scope(rows).items():
        lacking = await engine.database.read(_read_lacking, scope, embedding.embedder.name, some)
        read += lacking.items()
        # Another process may have embedded these meanwhile.
        made |= {row.row_id for row in some if row not in lacking}
    if not read:
        return made
    # Cutting long texts would hold up the event loop, so it runs in a thread.
    found, texts = await asyncio.to_thread(_find_texts, engine, embedding, read)
    new: dict[Scope, list[NewVector]] = {}
    for row, vector in zip(found, await embedding.embed(texts), strict=True):
        if vector is None:
            # The model refuses this text for good. Without this note every scan would send it again.
            embedding.refused.setdefault(row.scope, set()).add(row.row_id)
        else:
            new.setdefault(row.scope, []).append(vectors.make_vector(row.row_id, vector))
    model, dimension = embedding.embedder.name, embedding.embedder.dimension
    for scope, vectors_of_scope in new.items():
        # Vectors of another dimension cannot be compared, so a model keeps the dimension of its first vectors.
        agreed, _ = await engine.database.write(_store, scope, model, dimension, vectors_of_scope)
        embedding.expect(agreed)
        made |= {each.row_id for each in vectors_of_scope if agreed == dimension}
    return made


def _group_by_scope(rows: Sequence[PendingRow]) -> dict[Scope, list[PendingRow]]:
    found: dict[Scope, list[PendingRow]] = {}
    for row in rows:
        found.setdefault(row.scope, []).append(row)
    return found


async def _read_lacking(tx: Tx, scope: Scope, model: str, rows: Sequence[PendingRow]) -> dict[PendingRow, Message]:
    """The rows that still have no vector, with their messages."""
    lacking = await vectors.find_lacking(tx, scope, model, [row.row_id for row in rows])
    places = {row: (row.thread_uid, row.seq) for row in rows if row.row_id in lacking}
    messages = await indexed_rows.messages_to_index(tx, scope, [*places.values()])
    return {row: messages[place] for row, place in places.items() if place in messages}


def _find_texts(
    engine: Engine, embedding: EmbeddingService, read: Sequence[tuple[PendingRow, Message]]
) -> tuple[list[PendingRow], list[str]]:
    """The rows that have a text, and it."""
    texts: dict[tuple[Scope, str, int], list[str]] = {}
    found: list[PendingRow] = []
    chunks: list[str] = []
    for row, message in read:
        place = (row.scope, row.thread_uid, row.seq)
        if place not in texts:
            texts[place] = engine.embedded_texts_of(message)
        if row.chunk < len(texts[place]) and row.row_id not in embedding.refused.get(row.scope, ()):
            found.append(row)
            chunks.append(texts[place][row.chunk])
    return found, chunks


async def _store(tx: Tx, scope: Scope, model: str, dimension: int, new: list[NewVector]) -> tuple[int, int]:
    """How many dimensions the model's vectors have, and how many of these were stored: none, if they have others."""
    agreed = await vectors.agree_on_dimension(tx, model, dimension)
    return agreed, await vectors.put(tx, scope, model, dimension, new) if agreed == dimension else 0


log = logging.getLogger(__name__)

BATCH = 64
"""Rows in one read; with a remote embedder in one call of it, too."""
SPAN = 10_000
"""Row ids that one read of a scan looks at."""
OVERTAKEN = 1_000
"""Postgres numbers rows before they are committed. So this number of rows behind the newest one is read again."""
GATHER_SECONDS = 0.2
"""After a write the writer waits this long for others, to fill the same batch."""
SCAN_SECONDS = 600.0
"""Between two scans of everything."""
LOOK_SECONDS = 10.0
"""Between two looks for new rows that other processes, such as a restore, left without a vector for that long."""
AGAIN_SECONDS = 5.0
LONGEST_PAUSE = 60.0
"""The writer tries again after the first failure in AGAIN_SECONDS, and after many in LONGEST_PAUSE."""
LEASE_MS = 300_000
LOCAL_LEASE_MS = 30_000
"""One process at a time embeds a backlog, since others would pay, or compute, for the same texts. Its lease lasts this long
with a remote or a local embedder, unless it renews it."""
REST_RATIO = 2
LONGEST_REST = 1.0
"""If callers were served during a batch, the writer rests for REST_RATIO times as long as the batch took, and at most for
LONGEST_REST seconds. With 2, most calls meet no batch."""
MOST_RESTED = 60.0
"""The most seconds that all rests within a backlog take together. Otherwise callers who never pause would keep the vectors
further and further behind."""
UNUSED_DAYS = 7
"""Vectors of an embedder that no process has used for this number of days are removed."""
GIVE_WAY_SECONDS = 0.5
_FORGOTTEN = 500

Done = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class _Page:
    """Rows without a vector, of the scopes that were requested; all such up to the id ``upto`` were examined. ``full``:
    more may be behind it."""

    rows: list[PendingRow]
    upto: int
    full: bool


class VectorWriter:
    """Embeds text as soon as the engine reports that it was written, and looks now and then for rows without a vector.

    ``holder`` names this process to others.
    """

    def __init__(self, engine: Engine, embedding: EmbeddingService, holder: str) -> None:
        self._engine = engine
        self._embedding = embedding
        self._model = embedding.embedder.name
        self._holder = holder
        self._lease_ms = LOCAL_LEASE_MS if embedding.embedder.local else LEASE_MS
        self._lease_until = 0
        self._slack = 0 if engine.database.backend.commits_in_id_order else OVERTAKEN
        self._seen: int | None = None
        # Rows up to the first id were made up for; those up to the second were there at the last look.
        self._looked = (0, 0)
        self._owed: set[Scope] = set()
        self._rested = 0.0
        self._scan_at = self._look_at = time.monotonic()

    async def run(self) -> None:
        """Work until cancelled. Raises nothing: what goes wrong is in the log or the embedder's status, and is tried
        again; what was not embedded is still there without a vector, for the next try or process."""
        pause = AGAIN_SECONDS
        while True:
            try:
                await self._work()
                pause = AGAIN_SECONDS
                continue
            except EmbeddingFailed as error:
                log.info("vectors wait for the embedder: %s", error)
            except LayerloreError as error:
                log.warning("vectors could not be written, and are tried again: %s", error)
            except Exception:
                log.exception("vectors could not be written; it is tried again")
            await anyio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    async def _work(self) -> None:
        self._rested = 0.0
        if self._seen is None:
            self._seen = await self._engine.database.read_installation(vectors.last_row)
        if time.monotonic() >= self._scan_at:
            scanned = await self.scan()
            # If another process scans, its lease has run out by the next try, unless it still works.
            self._scan_at = time.monotonic() + (SCAN_SECONDS if scanned else self._lease_ms / 1000)
        elif time.monotonic() >= self._look_at:
            await self._look()
        self._look_at = time.monotonic() + LOOK_SECONDS
        if not self._owed:
            with anyio.move_on_after(max(0.0, min(self._scan_at, self._look_at) - time.monotonic())):
                await self._engine.written.wait()
                await anyio.sleep(GATHER_SECONDS)
        await self._write_new()

    async def scan(self, done: Done = lambda rows: None) -> bool:
        """Bring text and vectors of all scopes up to date; ``done`` receives how many rows each batch brought. False if
        another process is at it: no text is embedded twice.

        Raises EmbeddingFailed, StorageUnavailable.
        """
        database, now = self._engine.database, self._engine.now
        await database.write_installation(vectors.note_use, self._model, now())
        await rebuild_old(self._engine)
        last = await database.read_installation(vectors.last_row)
        if not await self._make_up(0, last, done):
            return False
        self._looked = (last, last)
        await self._forget_unused()
        return True

    async def _look(self) -> None:
        """Make up for rows that were there at the last look already: others embed what they write themselves, sooner
        than that."""
        after, upto = self._looked
        if upto == after or await self._make_up(max(0, after - self._slack), upto):
            self._looked = (upto, await self._engine.database.read_installation(vectors.last_row))

    async def _make_up(self, after: int, last: int, done: Done = lambda rows: None) -> bool:
        """Embed what is missing behind ``after``, up to ``last``. False if another process is at it."""
        try:
            while after < last:
                await self._write_new()
                page = await self._page(after, last)
                await self._report_pending(page)
                if page.rows:
                    if not await self._alone():
                        return False
                    done(await self._embed(page))
                after = page.upto
            return True
        finally:
            await self._give_way()

    async def _alone(self) -> bool:
        now = self._engine.now()
        # The lease is prolonged after half of its time, before it can run out during a batch.
        if self._lease_until - now > self._lease_ms // 2:
            return True
        until = now + self._lease_ms
        alone = await self._engine.database.write_installation(
            vectors.take_lease, self._model, self._holder, now=now, until=until
        )
        self._lease_until = until if alone else 0
        return alone

    async def _give_way(self) -> None:
        """Return the lease, also when cancelled: other processes would wait until it runs out."""
        if not self._lease_until:
            return
        self._lease_until = 0
        with anyio.move_on_after(GIVE_WAY_SECONDS, shield=True), contextlib.suppress(LayerloreError):
            await self._engine.database.write_installation(vectors.return_lease, self._model, self._holder)

    async def _write_new(self) -> None:
        """Embed the newest rows of the scopes that were reported. Other processes embed what they write themselves."""
        self._owed |= self._engine.written.take()
        if not self._owed or self._seen is None:
            return
        after = max(0, self._seen - self._slack)
        while True:
            page = await self._page(after, None, self._owed)
            await self._report_pending(page)
            await self._embed(page)
            self._seen = max(self._seen, page.upto)
            if not page.full:
                break
            after = page.upto
        self._owed.clear()
        metrics.VECTORS_PENDING.set(0)

    async def _report_pending(self, page: _Page) -> None:
        if not metrics.VECTORS_PENDING.is_kept:
            return
        pending = len(page.rows)
        if page.full:
            # Row ids are consecutive, so the distance to the newest one is the number of rows.
            pending += max(0, await self._engine.database.read_installation(vectors.last_row) - page.upto)
        metrics.VECTORS_PENDING.set(pending)

    async def _page(self, after: int, last: int | None, scopes: Collection[Scope] | None = None) -> _Page:
        """The next rows without a vector, of these scopes (None: of all)."""
        rows, upto = await self._engine.database.read_installation(_read_rows, self._model, after, last)
        full = len(rows) == BATCH
        wanted = [row for row in rows if scopes is None or row.scope in scopes]
        return _Page(wanted, rows[-1].row_id if full else upto, full)

    async def _embed(self, page: _Page) -> int:
        """Embed a page. While callers write and search, a model on this machine rests between batches: it would take the
        cores from them. Returns how many rows have a vector now."""
        local = self._embedding.embedder.local
        # A remote model works elsewhere, and a full request costs less than several.
        most = BATCH_ROWS if local else BATCH
        done = 0
        for at in range(0, len(page.rows), most):
            began, queries = time.monotonic(), self._embedding.queries_seen
            done += await embed_page(self._engine, self._embedding, page.rows[at : at + most])
            served = self._engine.written.noted or self._embedding.queries_seen > queries
            if local and served and self._rested < MOST_RESTED:
                seconds = min(REST_RATIO * (time.monotonic() - began), LONGEST_REST)
                self._rested += seconds
                await _rest(seconds)
        return done

    async def _forget_unused(self) -> None:
        database = self._engine.database
        used = await database.read_installation(vectors.last_used)
        before = self._engine.now() - UNUSED_DAYS * DAY_MS
        unused = {model: at for model, at in used.items() if at < before and model != self._model}
        if unused:
            # One long delete would block every other writer, so it goes in portions.
            while await database.write_installation(vectors.forget_models, used.keys() - unused.keys(), _FORGOTTEN):
                pass
            await database.write_installation(vectors.forget_use, unused)
            log.info("removed the vectors of %s", ", ".join(sorted(unused)))


async def _rest(seconds: float) -> None:
    await anyio.sleep(seconds)


async def _read_rows(tx: Tx, model: str, after: int, last: int | None) -> tuple[list[PendingRow], int]:
    """The next rows without a vector, up to ``last`` and SPAN rows on, or all there are; and up to which id."""
    if last is None:
        upto = await vectors.last_row(tx)
    else:
        upto = min(last, await vectors.reach(tx, after=after, rows=SPAN))
    return await vectors.pending(tx, model, after=after, upto=upto, most=BATCH), upto
