"""A read that repairs dates in the future, which a wrong clock left behind, once the clock is right again."""

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import TypeVar

from layerlore.memory.engine.engine import Engine
from layerlore.storage.core.errors import StorageUnavailable
from layerlore.storage.core.records import Scope, Thread
from layerlore.storage.core.transaction import Tx
from layerlore.storage.threads import threads
from layerlore.storage.threads.clock_repair import is_ahead, mend

T = TypeVar("T")


async def read_repaired(
    engine: Engine,
    scope: Scope,
    read: Callable[[Tx, Scope], Awaitable[T]],
    threads_in: Callable[[T], Iterable[Thread]],
) -> T:
    """Read; if threads in the answer lie in the future, bring them back and read again. Raises what ``read`` raises."""
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
