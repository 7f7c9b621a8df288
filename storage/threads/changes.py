"""What a watcher reads: what happened since it last looked, in one transaction, and where the logs are now.

Seqs are given under the row lock of a thread or a resource, so what was committed after a look has a higher one.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import bindparam, func, select

from layerlore.storage.core.damaged_values import object_of
from layerlore.storage.core.records import Json, Scope
from layerlore.storage.core.scopes import in_scope, in_thread, of_scope, of_thread, same_thread
from layerlore.storage.core.statements import any_of
from layerlore.storage.core.tables import events as events_table
from layerlore.storage.core.tables import resource_events, runs, threads
from layerlore.storage.core.transaction import Row, Tx
from layerlore.storage.threads import events

MOST_EVENTS = 1000
"""More new events than this are not read: anything may have changed."""


@dataclass(frozen=True, slots=True)
class ThreadMark:
    """How far a thread's log was read. The uid is another one when the thread was made again; None: there was none."""

    uid: str | None = None
    seq: int = 0


@dataclass(frozen=True, slots=True)
class Watched:
    """What to look at. None as a mark: nothing is known, and only where things are now is to be read.

    ``totals`` asks for the scope's threads as a whole, which costs in proportion to their number.
    """

    threads: Mapping[str, ThreadMark | None] = field(default_factory=dict)
    run_ids: Collection[str] = ()
    resource: bool = False
    resource_seq: int | None = None
    totals: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """What was seen. ``types`` has the threads whose log has grown, with the types of the new events, or None where
    not all of them are there to be read; ``resource_events`` likewise, with their payloads.

    ``runs`` and ``totals`` are whatever differs once a run, or any thread of the scope, has changed.
    """

    marks: dict[str, ThreadMark]
    types: dict[str, frozenset[str] | None]
    runs: dict[str, Row]
    resource_seq: int
    resource_events: Sequence[tuple[str, Json]] | None
    totals: tuple[int, int]


_live = threads.c.deletion_uid.is_(None)
_MARKS = select(threads.c.thread_id, threads.c.thread_uid, threads.c.next_event_seq).where(
    in_scope(threads), any_of(threads.c.thread_id, "thread_ids"), _live
)
_TYPES = (
    select(events_table.c.type, func.count())
    .where(in_thread(events_table), events_table.c.seq > bindparam("after"))
    .group_by(events_table.c.type)
)
_RUNS = (
    select(
        runs.c.run_id,
        runs.c.thread_uid,
        runs.c.status,
        runs.c.epoch,
        runs.c.updated_at,
        runs.c.answered,
        runs.c.usage,
        runs.c.expires_at,
    )
    .join(threads, same_thread(threads, runs))
    .where(in_scope(runs), any_of(runs.c.run_id, "run_ids"), _live)
)
_RESOURCE_EVENTS = (
    select(resource_events.c.type, resource_events.c.payload)
    .where(in_scope(resource_events), resource_events.c.seq > bindparam("after"))
    .order_by(resource_events.c.seq)
)
_TOTALS = select(func.count(), func.coalesce(func.sum(threads.c.next_event_seq), 0)).where(in_scope(threads), _live)


async def look(tx: Tx, scope: Scope, watched: Watched) -> Found:
    """What happened since the marks, and where everything is now. A thread that is not there has the empty mark."""
    marks = await _marks(tx, scope, watched.threads)
    types = {}
    for thread_id, mark in marks.items():
        before = watched.threads[thread_id]
        if before is not None and before.uid == mark.uid and before.seq < mark.seq:
            types[thread_id] = await _types(tx, scope, mark, before.seq)
    found_runs = await tx.all(_RUNS, **of_scope(scope), run_ids=list(watched.run_ids)) if watched.run_ids else []
    seq = await events.last_of_resource(tx, scope) if watched.resource else 0
    totals = await tx.one(_TOTALS, **of_scope(scope)) if watched.totals else None
    count, next_seqs = totals or (0, 0)
    return Found(
        marks,
        types,
        {run_id: tuple(state) for run_id, *state in found_runs},
        seq,
        await _resource_events(tx, scope, watched.resource_seq, seq),
        (int(count), int(next_seqs)),
    )


async def _marks(tx: Tx, scope: Scope, wanted: Collection[str]) -> dict[str, ThreadMark]:
    marks = dict.fromkeys(wanted, ThreadMark())
    if wanted:
        for thread_id, uid, next_seq in await tx.all(_MARKS, **of_scope(scope), thread_ids=list(wanted)):
            marks[thread_id] = ThreadMark(uid, next_seq - 1)
    return marks


async def _types(tx: Tx, scope: Scope, mark: ThreadMark, after: int) -> frozenset[str] | None:
    """None, too, if events went with the message that they belong to."""
    if mark.uid is None or mark.seq - after > MOST_EVENTS:
        return None
    rows = await tx.all(_TYPES, **of_thread(scope, mark.uid), after=after)
    return frozenset(type_ for type_, _ in rows) if sum(count for _, count in rows) == mark.seq - after else None


async def _resource_events(tx: Tx, scope: Scope, after: int | None, seq: int) -> list[tuple[str, Any]] | None:
    if after is None or after == seq:
        return []
    if not 0 <= seq - after <= MOST_EVENTS:  # below: the log was erased
        return None
    rows = await tx.all(_RESOURCE_EVENTS, **of_scope(scope), after=after)
    return [(type_, object_of(payload)) for type_, payload in rows] if len(rows) == seq - after else None
