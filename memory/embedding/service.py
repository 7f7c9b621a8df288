"""Embedding as memory uses it: the queues are bounded, and a failing or slow embedder harms no caller.

It has two workers, one for queries and one for background work, so that a query never waits behind a batch. A query has
a fixed time; after it recall goes on without a vector, while the vector is still made for the next time. The first
queries of a process wait longer, once, while a local model loads. A failed embedder rests for a while, and queries
learn of it at once.
"""

import asyncio
import contextvars
import functools
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import anyio
import anyio.to_thread

from layerlore.memory.embedding.port import CLOSED, Embedder, EmbeddingFailed, Vectors
from layerlore.memory.embedding.thread_worker import Worker, WorkerStopped
from layerlore.storage.core.records import Scope
from layerlore.storage.core.stamped_cache import StampedCache
from layerlore.storage.index.vectors import PendingRow

BATCH_ROWS = 16
"""Rows that are embedded together, of one scope: some 50 ms with an embedder on this machine."""

MOST_BATCHES = 2
"""Batches at a time: one is read or stored while the other one is embedded."""

RowEmbedder = Callable[[Sequence[PendingRow]], Awaitable[Collection[int]]]
"""Embeds rows of one scope and stores their vectors. Returns the ids of those that have one now; raises if that failed."""


@dataclass(slots=True)
class _AwaitedRow:
    """A row that ``askers`` wait for. ``ended``: whether it has a vector now, or why it could not be embedded."""

    row: PendingRow
    ended: "asyncio.Future[bool]"
    askers: int = 0
    begun: bool = False

    def fail(self, error: Exception) -> None:
        if not self.ended.done():
            self.ended.set_exception(error)
            # The waiting caller may be gone.
            self.ended.exception()


class RowQueue:
    """The rows that callers wait for, in the order of their requests. Tasks of its own embed them, for as long
    as there are any; the end of one caller does not end the work that others wait for."""

    def __init__(self) -> None:
        # Clusters number their rows independently.
        self._asked: dict[tuple[Scope, int], _AwaitedRow] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def embed(self, rows: Sequence[PendingRow], embed: RowEmbedder) -> int:
        """Wait until the rows are embedded, by ``embed`` unless others asked for them first. Returns how many have a vector
        now; raises what ``embed`` raised."""
        awaited = [self._ask(row) for row in rows]
        try:
            if not all(each.begun for each in awaited) and sum(not task.done() for task in self._tasks) < MOST_BATCHES:
                # Not in the context of the caller that happens to be first.
                task = asyncio.create_task(self._work(embed), context=contextvars.Context())
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            # Shielded: a caller that gives up must not cancel the future that others wait for.
            return sum([await asyncio.shield(each.ended) for each in awaited])
        finally:
            for each in awaited:
                each.askers -= 1

    async def close(self) -> None:
        """End the work; waiting callers get EmbeddingFailed."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for each in self._asked.values():
            each.fail(EmbeddingFailed(CLOSED))
        self._asked.clear()

    def _ask(self, row: PendingRow) -> _AwaitedRow:
        place = row.scope, row.row_id
        awaited = self._asked.get(place)
        if awaited is None:
            awaited = self._asked[place] = _AwaitedRow(row, asyncio.get_running_loop().create_future())
        awaited.askers += 1
        return awaited

    async def _work(self, embed: RowEmbedder) -> None:
        while batch := self._begin_batch():
            try:
                made = await embed([each.row for each in batch])
                for each in batch:
                    each.ended.set_result(each.row.row_id in made)
            except Exception as error:  # noqa: BLE001 - it belongs to those who wait
                for each in batch:
                    each.fail(error)
            except asyncio.CancelledError:
                for each in batch:
                    each.fail(EmbeddingFailed(CLOSED))
                raise
            finally:
                for each in batch:
                    del self._asked[each.row.scope, each.row.row_id]

    def _begin_batch(self) -> list[_AwaitedRow]:
        """The rows that were requested first, of one scope. Rows without a waiting caller are left out."""
        waiting = [each for each in self._asked.values() if not each.begun]
        for each in waiting:
            if not each.askers:
                del self._asked[each.row.scope, each.row.row_id]
        wanted = [each for each in waiting if each.askers]
        batch = [each for each in wanted if each.row.scope == wanted[0].row.scope][:BATCH_ROWS]
        for each in batch:
            each.begun = True
        return batch


log = logging.getLogger(__name__)

CACHED_QUERIES = 256
QUERIES_AT_ONCE = 16
"""A local model takes half as long again for three queries as for one, and twice as long for eight."""
# The most of a background batch that is embedded at a time, so that the cores are soon free for a query and closing
# does not wait.
SLICE_CHARACTERS = 2000
SLICE_TEXTS = 64
# Seconds that background rows make way for waiting queries, and that closing waits for what cannot be
# interrupted: a local model is soon done, a request may take as long as it likes.
_YIELD = 1.0
_LINGER = 0.5
_REMOTE_LINGER = 0.1
# Requests to a remote model wait on the network: one that hangs leaves room for others.
_REMOTE_QUERIES = 4
# After this number of seconds new queries no longer wait for an embedder that hangs.
_STALLED = 3.0
State = Literal["loading", "ready", "failed", "closed"]
FIRST_PAUSE = 5.0
LONGEST_PAUSE = 300.0


class Backoff:
    """The pause after a failure, twice as long after each failure in a row. ``now`` gives seconds that never go
    back."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._pause = 0.0
        self._until = 0.0
        self.reason = ""

    def note_failure(self, reason: str) -> None:
        # Several that failed together are one failure.
        if not self.barred:
            self._pause = min(self._pause * 2 or FIRST_PAUSE, LONGEST_PAUSE)
            self._until = self._now() + self._pause
        self.reason = reason

    def note_success(self) -> None:
        self._pause, self.reason = 0.0, ""

    @property
    def barred(self) -> str:
        """Why it must not be tried now, and when it will be; empty when it may be tried."""
        left = self._until - self._now()
        if self.reason and left > 0:
            return f"{self.reason}; tried again in {max(1, round(left))} s"
        return ""


@dataclass(frozen=True, slots=True)
class QueryVector:
    """A query's vector: float32 [dimension], of length 1, not to be written to; and the name it is compared under."""

    model: str
    vector: Vectors


@dataclass(frozen=True, slots=True)
class EmbeddingStatus:
    """``failed``: the last try failed, for this ``reason``; the next one follows after a pause."""

    model: str
    dimension: int
    languages: str
    state: State
    reason: str


class EmbeddingService:
    """An embedder in use, of one event loop at a time; ``close`` it at the end."""

    def __init__(
        self,
        embedder: Embedder,
        *,
        patience_ms: int = 300,
        load_patience_ms: int = 0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """``patience_ms``: how long a query may take. ``load_patience_ms``: how long the first query, and those that
        come meanwhile, may wait before that for a local model to be loaded. ``now`` gives seconds that never go
        back."""
        self.embedder = embedder
        self._patience_ms = patience_ms
        self._load_patience_ms = load_patience_ms if embedder.local else 0
        # When the wait for the load ends, in seconds; None before the first query.
        self._load_awaited_until: float | None = None
        self._queries = Worker("embed-query", 1 if embedder.local else _REMOTE_QUERIES)
        # The queries that callers wait for, where a local model can embed them together.
        self._waiting: list[str] = []
        self._batches = Worker("embed-batch")
        # How many queries there were: the writer of vectors rests while there are any.
        self.queries_seen = 0
        self._load_backoff, self._query_backoff, self._batch_backoff = Backoff(now), Backoff(now), Backoff(now)
        self._loading = threading.Lock()
        self._loaded = False
        self._closed = False
        # By its text, with the name of the model.
        self._cache = StampedCache[str, str, QueryVector](CACHED_QUERIES)
        self._stored_dimension = 0
        # Rows of the index whose text the model refuses, by scope: noted by who embeds them, for who counts.
        self.refused: dict[Scope, set[int]] = {}
        self.rows = RowQueue()

    def expect(self, dimension: int) -> None:
        """The number of dimensions of the vectors stored under the embedder's name (0: nothing is): other vectors are
        an error from now on, since they cannot be compared with it."""
        self._stored_dimension = dimension

    def start(self) -> None:
        """Begin to load. The result is in ``status``, and in the answers of queries."""
        self._queries.submit(self._load)

    def status(self) -> EmbeddingStatus:
        reason = self._load_backoff.reason or self._query_backoff.reason or self._batch_backoff.reason
        state: State
        if self._loaded:
            state = "ready"
        else:
            state = "loading"
        if self._closed:
            state = "closed"
        elif reason:
            state = "failed"
        return EmbeddingStatus(self.embedder.name, self.embedder.dimension, self.embedder.languages, state, reason)

    async def query(self, text: str, *, at_hand: bool = False) -> tuple[QueryVector | None, str]:
        """A query's vector, or None and the reason, within the patience; while a local model loads within the
        patience for that, too, once in a process. It raises nothing but cancellation.

        ``at_hand``: only what costs no request, a vector of a local model or one that was made before.
        """
        self.queries_seen += 1
        made = self._find_cached(text)
        if made is not None:
            return made, ""
        if at_hand and not self.embedder.local:
            return None, "no vector of this query is at hand, and a remote embedder is not asked here"
        barred = self._load_backoff.barred or self._query_backoff.barred
        if barred:
            return None, barred
        if failed := await self._await_load():
            return None, failed
        if self._queries.is_stalled(_STALLED):
            return None, self._too_late_reason()
        # Past its patience the work goes on, so that the same query finds its vector the next time.
        work = self._queries.submit(functools.partial(self._embed_query, text))
        with self._waited_for(text), anyio.move_on_after(self._patience_ms / 1000):
            try:
                return await asyncio.wrap_future(work), ""
            except (EmbeddingFailed, WorkerStopped) as error:
                return None, str(error) or CLOSED
        return None, self._too_late_reason()

    @contextmanager
    def _waited_for(self, text: str) -> Iterator[None]:
        """Wraps the wait for a query. A remote model embeds several at a time in any case."""
        if not self.embedder.local:
            yield
            return
        self._waiting.append(text)
        try:
            yield
        finally:
            self._waiting.remove(text)

    async def _await_load(self) -> str:
        """Wait until the model is loaded or the time for that is over, which runs from the first query on. Returns why
        the load failed; "" if it did not."""
        if self._loaded:
            return ""
        now = time.monotonic()
        if self._load_awaited_until is None:
            self._load_awaited_until = now + self._load_patience_ms / 1000
        if now >= self._load_awaited_until:
            return ""
        loading = self._queries.submit(self._load)
        with anyio.move_on_after(self._load_awaited_until - now):
            try:
                await asyncio.wrap_future(loading)
            except (EmbeddingFailed, WorkerStopped) as error:
                return str(error) or CLOSED
        return ""

    async def make_way(self) -> None:
        """Wait for the queries that a local model is at or is still to embed, not for those that come meanwhile, and at
        most a second: for a caller about to embed rows that no query waits for."""
        if self.embedder.local and not self._queries.wait_turn(0):
            await anyio.to_thread.run_sync(self._queries.wait_turn, _YIELD, abandon_on_cancel=True)

    async def embed(self, texts: Sequence[str]) -> list[Vectors | None]:
        """Embed texts beside the queries: a vector [dimension] for each; None for one that the model refuses on its own.

        Raises EmbeddingFailed, also at once while what failed before is left alone.
        """
        # The user's message is often the same question.
        known = {text: vector for text in texts if (vector := self._find_known(text)) is not None}
        vectors: list[Vectors | None] = []
        for some in self._slices([text for text in texts if text not in known]):
            barred = self._load_backoff.barred or self._batch_backoff.barred
            if barred:
                raise EmbeddingFailed(barred)
            work = self._batches.submit(functools.partial(self._embed_batch, some))
            try:
                made = await asyncio.wrap_future(work)
            except WorkerStopped:
                raise EmbeddingFailed(CLOSED) from None
            vectors += made
        made_now = iter(vectors)
        return [known[text] if text in known else next(made_now) for text in texts]

    def forget(self, scope: Scope) -> None:
        """Forget all that is cached of a scope, and all queries, since they do not name their scope."""
        self.refused.pop(scope, None)
        # A query's text may repeat an erased text, so all of them go.
        self._cache.forget(lambda _: True)

    async def close(self) -> None:
        """End the threads. One that is within a model or a request ends after it, and is not waited for long."""
        self._closed = True
        await self.rows.close()
        self._queries.stop()
        self._batches.stop()
        await anyio.to_thread.run_sync(self._join)

    def _too_late_reason(self) -> str:
        if self._loaded:
            return f"the embedder took longer than {self._patience_ms} ms"
        return "the embedder is loading"

    def _join(self) -> None:
        until = time.monotonic() + (_LINGER if self.embedder.local else _REMOTE_LINGER)
        # Both share one time limit, so that closing takes no longer with two workers.
        for worker in (self._queries, self._batches):
            if not worker.join(max(0.0, until - time.monotonic())):
                log.info("the embedder was left at work: it ends with what it does, or with the process")

    def _load(self) -> None:
        with self._loading:
            if self._loaded:
                return
            if barred := self._load_backoff.barred:
                raise EmbeddingFailed(barred)
            try:
                self.embedder.load()
            except Exception as error:
                raise _pause_after(self._load_backoff, error) from error
            self._load_backoff.note_success()
            self._loaded = True

    def _embed_with_waiting(self, text: str) -> Vectors:
        """The vector of a query. Those of others that wait come into the cache: each pass over the weights of a local model
        serves all of them."""
        with_others = list(dict.fromkeys([text, *self._waiting]))
        new = [each for each in with_others if each == text or self._find_cached(each) is None][:QUERIES_AT_ONCE]
        if len(new) > 1:
            try:
                vectors = self._embed_checked(new)
            except Exception:
                # Each of them is tried alone, and says why there.
                log.debug("queries could not be embedded together", exc_info=True)
            else:
                for other, made in zip(new[1:], vectors[1:], strict=True):
                    self._keep_query(other, made)
                own: Vectors = vectors[0]
                return own
        alone: Vectors = self._embed_checked([text])[0]
        return alone

    def _keep_query(self, text: str, vector: Vectors) -> QueryVector:
        # The cache hands the same array to several callers.
        vector.setflags(write=False)
        return self._cache.keep(text, self.embedder.name, QueryVector(self.embedder.name, vector))

    def _embed_query(self, text: str) -> QueryVector:
        made = self._find_cached(text)
        if made is not None:
            return made
        self._load()
        if barred := self._query_backoff.barred:
            raise EmbeddingFailed(barred)
        try:
            vector = self._embed_with_waiting(text)
        except Exception as error:
            # The model works, and only this text was refused: other queries need no pause.
            if isinstance(error, EmbeddingFailed) and error.refused:
                raise
            raise _pause_after(self._query_backoff, error) from error
        self._note_success()
        return self._keep_query(text, vector)

    def _find_cached(self, text: str) -> QueryVector | None:
        return self._cache.find(text, self.embedder.name)

    def _find_known(self, text: str) -> Vectors | None:
        """The vector that a query of the same text has, if it may be stored."""
        request, stored = self._find_cached(text), self._stored_dimension
        if request is not None and len(request.vector) == (stored or len(request.vector)):
            return request.vector
        return None

    def _slices(self, texts: Sequence[str]) -> Iterator[list[str]]:
        """Runs of texts that are embedded without a break: at least one, else no more than a slice may hold."""
        some: list[str] = []
        characters = 0
        for text in texts:
            # Only a local model competes with queries for the cores; a remote one saves requests with full batches.
            full = self.embedder.local and characters + len(text) > SLICE_CHARACTERS
            if some and (full or len(some) == SLICE_TEXTS):
                yield some
                some, characters = [], 0
            some.append(text)
            characters += len(text)
        if some:
            yield some

    def _embed_batch(self, texts: list[str]) -> list[Vectors | None]:
        self._load()
        try:
            vectors = self._embed_without_refused(texts)
        except Exception as error:
            raise _pause_after(self._batch_backoff, error) from error
        self._note_success()
        return vectors

    def _note_success(self) -> None:
        """The model is there again, for queries and for batches."""
        self._query_backoff.note_success()
        self._batch_backoff.note_success()

    def _embed_checked(self, texts: Sequence[str]) -> Vectors:
        vectors = self.embedder.embed(texts)
        made, stored = vectors.shape[1], self._stored_dimension
        if stored and made != stored:
            raise EmbeddingFailed(
                f"{self.embedder.name} makes vectors of {made} dimensions, and those that are stored under its name have "
                f"{stored}: embedding.dimensions = {made} stores them under a name of their own"
            )
        return vectors

    def _embed_without_refused(self, texts: list[str]) -> list[Vectors | None]:
        """The vectors, those of texts that the model refuses left out."""
        try:
            return list(self._embed_checked(texts))
        except EmbeddingFailed as error:
            if not error.refused:
                raise
        # Is it the texts? It is not if the model refuses this too, which raises.
        self.embedder.embed(["hello"])
        return self._embed_halves(texts)

    def _embed_halves(self, texts: list[str]) -> list[Vectors | None]:
        """Embed the two halves on their own, and so on: there were too many texts at once, or one of them is
        refused."""
        if len(texts) == 1:
            log.warning(
                "%s refuses a text of %d characters: it is found by its words only", self.embedder.name, len(texts[0])
            )
            return [None]
        vectors: list[Vectors | None] = []
        for half in (texts[: len(texts) // 2], texts[len(texts) // 2 :]):
            try:
                vectors += list(self._embed_checked(half))
            except EmbeddingFailed as error:
                if not error.refused:
                    raise
                vectors += self._embed_halves(half)
        return vectors


def _pause_after(backoff: Backoff, error: Exception) -> EmbeddingFailed:
    """Start the pause. The text of an error of ours fits an answer; any other's stays in the log."""
    if not isinstance(error, EmbeddingFailed):
        log.error("the embedder failed", exc_info=error)
    if isinstance(error, EmbeddingFailed):
        reason = str(error)
    else:
        reason = f"the embedder failed ({type(error).__name__})"
    backoff.note_failure(reason)
    return EmbeddingFailed(reason)
