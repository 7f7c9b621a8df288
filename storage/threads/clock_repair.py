"""Threads that were dated while the clock was wrong: what lies in the future is brought back to now.

The order of messages is their seq, which no clock changes. A clock that is wrong now may be the one that lags: nothing is
mended before the time at which this program was made, nor what is less than a day ahead, which time itself catches up.
"""

from typing import Any

from sqlalchemy import Integer, bindparam, case, func, select, update

from layerlore.storage.core.records import Scope, Thread
from layerlore.storage.core.scopes import in_thread, of_thread
from layerlore.storage.core.tables import messages, search_rows, threads
from layerlore.storage.core.transaction import Tx
from layerlore.storage.threads.threads import find_uid

AHEAD_MS = 86_400_000
EARLIEST_MS = 1_735_689_600_000
"""2025-01-01: a clock that shows an earlier time is wrong itself."""

_limit: Any = bindparam("limit_at", type_=messages.c.created_at.type)
_ahead = messages.c.created_at > _limit
_PLACES = select(
    func.min(case((_ahead, messages.c.seq))),
    func.max(case((_ahead, messages.c.seq))),
    func.max(case((messages.c.created_at <= _limit, messages.c.created_at))),
).where(in_thread(messages))
_base: Any = bindparam("base", type_=messages.c.created_at.type)
_new = messages.c.seq + _base
_MESSAGES = (
    update(messages)
    .where(in_thread(messages), _ahead)
    .values(created_at=_new, said_at=case((messages.c.said_at > _limit, _new), else_=messages.c.said_at))
)
_SEARCHED = (
    update(search_rows)
    .where(
        in_thread(search_rows), search_rows.c.seq >= bindparam("first", type_=Integer), search_rows.c.said_at > _limit
    )
    .values(said_at=search_rows.c.seq + _base)
)
_now: Any = bindparam("now", type_=threads.c.updated_at.type)
_THREAD = (
    update(threads)
    .where(in_thread(threads))
    .values(
        created_at=case((threads.c.created_at > _now, _now), else_=threads.c.created_at),
        updated_at=case((threads.c.updated_at > _now, _now), else_=threads.c.updated_at),
        last_created_at=bindparam("new_last"),
    )
)


def is_ahead(thread: Thread, now: int) -> bool:
    """Whether a thread was dated by a clock that was wrong."""
    return now > EARLIEST_MS and max(thread.created_at, thread.updated_at, thread.last_created_at) > now + AHEAD_MS


async def mend(tx: Tx, scope: Scope, thread: Thread, now: int) -> Thread:
    """Date a thread that the transaction holds, and its messages, at now where they lie ahead; in their order."""
    if not is_ahead(thread, now):
        return thread
    of = {**of_thread(scope, thread.thread_uid), "limit_at": now + AHEAD_MS}
    row = await tx.one(_PLACES, **of)
    first, last, before = row if row is not None else (None, None, None)
    newest = before or 0
    if first is not None:
        base = max(newest + 1, now - (last - first)) - first
        await tx.run(_MESSAGES, **of, base=base)
        await tx.run(_SEARCHED, **of, base=base, first=first)
        newest = last + base
    await tx.run(_THREAD, **of, now=now, new_last=newest)
    return await find_uid(tx, scope, thread.thread_uid) or thread
