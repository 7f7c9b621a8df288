"""The queue of rows of the index that are to be embedded: each is embedded once, however many ask for it at the same time.

Recalls that meet the same new rows wait for the same work, and so does the writer of vectors, who asks for a few rows at a
time, so that what a recall waits for never stands behind many.
"""

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass

from layerlore.memory.embedding.port import CLOSED, EmbeddingFailed
from layerlore.storage.index.vectors import PendingRow

BATCH_ROWS = 16
"""Rows that are embedded together, of one scope: some 50 ms with an embedder on this machine."""

MOST_BATCHES = 2
"""Batches at a time: one is read or stored while the other one is embedded."""

Embed = Callable[[Sequence[PendingRow]], Awaitable[Collection[int]]]
"""Embeds rows of one scope and stores their vectors. Returns the ids of those that have one now; raises if that failed."""


@dataclass(slots=True)
class _Asked:
    """A row that ``askers`` wait for. ``ended``: whether it has a vector now, or why it could not be embedded."""

    row: PendingRow
    ended: "asyncio.Future[bool]"
    askers: int = 0
    begun: bool = False

    def fail(self, error: Exception) -> None:
        if not self.ended.done():
            self.ended.set_exception(error)
            # Whoever waited may have gone.
            self.ended.exception()


class RowQueue:
    """The rows that somebody waits for, in the order in which they were asked for. Tasks of its own embed them, for as long
    as there are any; nobody's end ends the work that others wait for."""

    def __init__(self) -> None:
        self._asked: dict[int, _Asked] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def embed(self, rows: Sequence[PendingRow], embed: Embed) -> int:
        """Wait until the rows are embedded, by ``embed`` unless others asked for them first. Returns how many have a vector
        now; raises what ``embed`` raised."""
        asked = [self._ask(row) for row in rows]
        try:
            if not all(each.begun for each in asked) and sum(not task.done() for task in self._tasks) < MOST_BATCHES:
                # Not in the context of whoever happens to be the first.
                task = asyncio.create_task(self._work(embed), context=contextvars.Context())
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            return sum([await asyncio.shield(each.ended) for each in asked])
        finally:
            for each in asked:
                each.askers -= 1

    async def close(self) -> None:
        """End the work; whoever waits is told so (EmbeddingFailed)."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for each in self._asked.values():
            each.fail(EmbeddingFailed(CLOSED))
        self._asked.clear()

    def _ask(self, row: PendingRow) -> _Asked:
        asked = self._asked.get(row.row_id)
        if asked is None:
            asked = self._asked[row.row_id] = _Asked(row, asyncio.get_running_loop().create_future())
        asked.askers += 1
        return asked

    async def _work(self, embed: Embed) -> None:
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
                    del self._asked[each.row.row_id]

    def _begin_batch(self) -> list[_Asked]:
        """The rows that were asked for first, of one scope. What nobody waits for any more is left out."""
        waiting = [each for each in self._asked.values() if not each.begun]
        for each in waiting:
            if not each.askers:
                del self._asked[each.row.row_id]
        wanted = [each for each in waiting if each.askers]
        batch = [each for each in wanted if each.row.scope == wanted[0].row.scope][:BATCH_ROWS]
        for each in batch:
            each.begun = True
        return batch
