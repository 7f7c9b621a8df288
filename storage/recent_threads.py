"""Where the conversation goes on of somebody who reads a thread that nobody wrote to."""

from dataclasses import dataclass

from sqlalchemy import bindparam, select

from layerlore.storage import threads
from layerlore.storage.errors import NotFound
from layerlore.storage.records import Scope
from layerlore.storage.scoping import in_scope, of_scope, same_thread
from layerlore.storage.tables import events
from layerlore.storage.tables import threads as threads_table
from layerlore.storage.transaction import Tx

# Of a thread's newest events so many are looked at for their actor: background work is an actor too.
_NEWEST_EVENTS = 20

_live = threads_table.c.deletion_uid.is_(None)
_ACTORS = (
    select(events.c.actor)
    .where(same_thread(events, threads_table))
    .order_by(events.c.seq.desc())
    .limit(_NEWEST_EVENTS)
    .correlate(threads_table)
)
_NEWEST = (
    select(threads_table.c.thread_id, threads_table.c.updated_at)
    .where(in_scope(threads_table), _live, threads_table.c.updated_at >= bindparam("since"))
    .where(bindparam("actor").in_(_ACTORS))
    .order_by(threads_table.c.updated_at.desc(), threads_table.c.thread_uid.desc())
    .limit(1)
)


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Whether a thread is there, and, where it is not, the newest one that the same client wrote to."""

    there: bool
    thread_id: str = ""
    updated_at: int = 0


async def elsewhere(tx: Tx, scope: Scope, thread_id: str, actor: str, *, since: int) -> Elsewhere:
    """Look for a live thread; if there is none, for one that was changed at ``since`` or later, and lately by ``actor``
    (a client's name as events have it; "": of nobody)."""
    try:
        await threads.find(tx, scope, thread_id)
    except NotFound:
        row = await tx.one(_NEWEST, **of_scope(scope), since=since, actor=actor) if actor else None
        return Elsewhere(False, *row) if row else Elsewhere(False)
    return Elsewhere(True)
