"""The rows of the index whose texts are being embedded, so that none is embedded twice at the same time: several recalls
of a scope, and the writer of vectors, find the same new rows."""

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import anyio

from layerlore.storage.index.vectors import PendingRow

MOST_GATHERED = 32
"""Rows in a batch that recalls wait for: some 100 ms with an embedder on this machine."""


@dataclass(slots=True)
class Work:
    """Somebody's work at some rows. ``done``: it has ended, and did not fail."""

    done: bool = False
    _ended: anyio.Event = field(default_factory=anyio.Event)

    async def wait(self) -> bool:
        """Wait until it has ended. Whether it was done; if not, the rows are as they were."""
        await self._ended.wait()
        return self.done

    def end(self) -> None:
        self._ended.set()


@dataclass(slots=True)
class _Batch:
    """Rows that are embedded together."""

    rows: dict[int, PendingRow] = field(default_factory=dict)
    begun: bool = False
    done: bool = False


class RowsAtWork:
    """Who is at which rows of the index, by their ids."""

    def __init__(self) -> None:
        self._work: dict[int, Work] = {}
        self._next = _Batch()
        self._turn = anyio.Lock()

    @contextmanager
    def claim(self, row_ids: Collection[int]) -> Iterator[Mapping[int, Work]]:
        """Claim rows until the block ends, and yield the work of others at those of them that are taken already, by row.
        What the block raises, cancellation too, leaves the rows to whoever waits."""
        taken = {row_id: self._work[row_id] for row_id in row_ids if row_id in self._work}
        mine, work = [row_id for row_id in row_ids if row_id not in taken], Work()
        self._work.update(dict.fromkeys(mine, work))
        try:
            yield taken
            work.done = True
        finally:
            for row_id in mine:
                del self._work[row_id]
            work.end()

    async def gather(self, rows: Sequence[PendingRow], embed: Callable[[list[PendingRow]], Awaitable[object]]) -> bool:
        """Have the rows embedded, in a batch with what others ask for until its turn comes: one batch is embedded at a
        time. Whether it was; what ``embed`` raises is raised to the one of them who ran it."""
        wanted = {row.row_id: row for row in rows}
        batch = self._next
        if batch.begun or len(batch.rows.keys() | wanted.keys()) > MOST_GATHERED:
            batch = self._next = _Batch()
        batch.rows.update(wanted)
        async with self._turn:
            if not batch.begun:
                batch.begun = True
                await embed([*batch.rows.values()])
                batch.done = True
        return batch.done
