"""Reads what a clock that was wrong has dated, as of when it is right again."""

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import TypeVar

from layerlore.memory.engine import Engine
from layerlore.storage import threads
from layerlore.storage.clock_mending import is_ahead, mend
from layerlore.storage.errors import StorageUnavailable
from layerlore.storage.records import Scope, Thread
from layerlore.storage.transaction import Tx

T = TypeVar("T")


async def read_mended(
    engine: Engine,
    scope: Scope,
    read: Callable[[Tx, Scope], Awaitable[T]],
    threads_in: Callable[[T], Iterable[Thread]],
) -> T:
    """What ``read`` answers; again after the threads in it that lie in the future were brought back. Raises what it does."""
    found = await engine.database.read(read, scope)
    now = engine.now()
    uids = [thread.thread_uid for thread in threads_in(found) if is_ahead(thread, now)]
    if not uids:
        return found
    with suppress(StorageUnavailable):
        await engine.database.write(_mend_all, scope, uids, now)
        found = await engine.database.read(read, scope)
    return found


async def _mend_all(tx: Tx, scope: Scope, uids: list[str], now: int) -> None:
    for uid in sorted(uids):
        if (thread := await threads.lock_uid(tx, scope, uid)) is not None:
            await mend(tx, scope, thread, now)
