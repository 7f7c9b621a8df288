"""The rows of the index whose texts are being embedded, so that none is embedded twice at the same time: several recalls
of a scope, and the writer of vectors, find the same new rows."""

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import anyio

from layerlore.storage.index.vectors import PendingRow


@dataclass(slots=True)
class Work:
    """Somebody's work at some rows."""

    _ended: anyio.Event = field(default_factory=anyio.Event)
    _done: bool = False

    async def wait(self) -> bool:
        """Wait until it has ended. Whether it was done; if not, the rows are as they were."""
        await self._ended.wait()
        return self._done

    def end(self, *, done: bool) -> None:
        self._done = done
        self._ended.set()


class RowsAtWork:
    """Who is at which rows of the index, by their ids."""

    def __init__(self) -> None:
        self._work: dict[int, Work] = {}
        self._waiting: dict[int, PendingRow] = {}
        self._turn = anyio.Lock()

    @contextmanager
    def claim(self, row_ids: Collection[int]) -> Iterator[Mapping[int, Work]]:
        """Claim rows until the block ends, and yield the work of others at those of them that are taken already, by row.
        What the block raises, cancellation too, leaves the rows to whoever waits."""
        taken = {row_id: self._work[row_id] for row_id in row_ids if row_id in self._work}
        mine, work = [row_id for row_id in row_ids if row_id not in taken], Work()
        self._work.update(dict.fromkeys(mine, work))
        done = False
        try:
            yield taken
            done = True
        finally:
            for row_id in mine:
                del self._work[row_id]
            work.end(done=done)

    async def gather(self, rows: Sequence[PendingRow], embed: Callable[[list[PendingRow]], Awaitable[object]]) -> None:
        """Have the rows embedded, together with all that others wait for: while some are being embedded, the next
        gather. Of a batch that fails only the one who embeds it is told. Raises what ``embed`` raises."""
        self._waiting.update({row.row_id: row for row in rows})
        async with self._turn:
            if any(row.row_id in self._waiting for row in rows):
                batch = list(self._waiting.values())
                self._waiting.clear()
                await embed(batch)
