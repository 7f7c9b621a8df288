"""The log of changes of threads and resources, and what a watcher reads of it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from sqlalchemy import Select, Table, bindparam, exists, func, insert, or_, select, update

from layerlore.storage.core.json_text import object_of, to_json
from layerlore.storage.core.records import Json, Origin, Scope, Thread
from layerlore.storage.core.scopes import in_scope, in_thread, of_scope, of_thread, same_thread, some
from layerlore.storage.core.statements import any_of, insert_or_update, parameters
from layerlore.storage.core.tables import events, messages, resource_events, resources, runs
from layerlore.storage.core.tables import events as events_table
from layerlore.storage.core.tables import threads as threads_table
from layerlore.storage.core.tables.columns import SCOPE, THREAD
from layerlore.storage.core.transaction import Row, Tx
from layerlore.storage.threads import threads


@dataclass(frozen=True, slots=True)
class NewEvent:
    """The event. The server's own payloads hold seqs, ids and counts, never text of a message or document;
    ``message_seq`` is the message that the payload was made from, if it was: it is hidden and erased with it."""

    type: str
    payload: Json = field(default_factory=dict)
    message_seq: int | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """A row of the log. ``actor`` is the client or the job, ``tool`` the tool that it called."""

    seq: int
    type: str
    actor: str
    tool: str
    payload: Json
    created_at: int


@dataclass(frozen=True, slots=True)
class EventPage:
    """Events in order. ``last_seq`` is the newest seq of the log, whether or not its event is among them."""

    events: list[Event]
    more: bool
    last_seq: int


_TAKE = (
    update(threads_table)
    .where(in_thread(threads_table))
    .values(next_event_seq=threads_table.c.next_event_seq + bindparam("count"))
    .returning(threads_table.c.next_event_seq)
)
_WRITTEN = ("seq", "type", "actor", "tool", "payload", "created_at")
_INSERT = insert(events).values(
    **parameters(*THREAD, *_WRITTEN, "message_seq"),
)

_TAKE_OF_RESOURCE = insert_or_update(
    resources,
    # A new row has spent number 1 on this event.
    {**parameters(*SCOPE), "next_event_seq": 2},
    keys=SCOPE,
    changes={"next_event_seq": resources.c.next_event_seq + 1},
    returning=[resources.c.next_event_seq],
)
_INSERT_OF_RESOURCE = insert(resource_events).values(
    **parameters(*SCOPE, *_WRITTEN, "thread_uid"),
)


def list_changes(messages: Iterable[tuple[str, int]]) -> list[NewEvent]:
    """The events of an append, from the status and the seq of each message: which were added, and which replaced."""
    seqs: dict[str, list[int]] = {"added": [], "replaced": []}
    for status, seq in messages:
        seqs.setdefault(status, []).append(seq)
    return [NewEvent(f"messages_{status}", {"seqs": seqs[status]}) for status in ("added", "replaced") if seqs[status]]


async def record(
    tx: Tx, scope: Scope, thread: Thread, happened: Sequence[NewEvent], *, origin: Origin, now: int
) -> int:
    """Write events of a thread that the transaction holds; one that was made in it is noted in its resource's log.

    Returns the seq of the last one.
    """
    # The update holds the thread's row, so that the numbers have no gap and are used once.
    of = of_thread(scope, thread.thread_uid)
    next_seq: int = await tx.scalar(_TAKE, **of, count=len(happened))
    await record_counted(tx, scope, thread, happened, next_seq - len(happened), origin=origin, now=now)
    return next_seq - 1


async def record_counted(
    tx: Tx, scope: Scope, thread: Thread, happened: Sequence[NewEvent], first: int, *, origin: Origin, now: int
) -> None:
    """The same, with numbers from ``first`` on, which the transaction itself counts in the thread's row."""
    # The first event, in the transaction that made the thread.
    if thread.next_event_seq == 1 and thread.created_at == now:
        made = NewEvent("thread_created", {"thread_id": thread.thread_id})
        await record_of_resource(tx, scope, made, thread_uid=thread.thread_uid, origin=origin, now=now)
    rows = [
        {
            **of_thread(scope, thread.thread_uid),
            **_values(event, first + place, origin, now),
            "message_seq": event.message_seq,
        }
        for place, event in enumerate(happened)
    ]
    await tx.many(_INSERT, rows)


async def record_of_resource(
    tx: Tx, scope: Scope, happened: NewEvent, *, thread_uid: str | None = None, origin: Origin, now: int
) -> int:
    """Write an event of the resource; one about a thread goes when the thread is erased. Returns its seq.

    A transaction that also locks a thread does so first.
    """
    seq: int = await tx.scalar(_TAKE_OF_RESOURCE, **of_scope(scope)) - 1
    await tx.run(_INSERT_OF_RESOURCE, **of_scope(scope), **_values(happened, seq, origin, now), thread_uid=thread_uid)
    return seq


def _values(event: NewEvent, seq: int, origin: Origin, now: int) -> dict[str, str | int]:
    return {
        "seq": seq,
        "type": event.type,
        "actor": origin.actor,
        "tool": origin.tool,
        "payload": to_json(event.payload),
        "created_at": now,
    }


def of_visible_message(table: Table) -> Any:
    """Rows that belong to no message, or to one that is not deleted."""
    shown = exists().where(
        same_thread(messages, table), messages.c.seq == table.c.message_seq, messages.c.deletion_uid.is_(None)
    )
    return or_(table.c.message_seq.is_(None), shown)


def _columns(table: Table) -> list[Any]:
    return [table.c[name] for name in _WRITTEN]


@cache
def _page(of_types: bool) -> Select[Any]:
    query = (
        select(*_columns(events))
        .where(in_thread(events), events.c.seq > bindparam("after"), of_visible_message(events))
        .order_by(events.c.seq)
        .limit(bindparam("page_size"))
    )
    if of_types:
        return query.where(any_of(events.c.type, "types"))
    return query


@cache
def _page_of_resource(of_types: bool) -> Select[Any]:
    query = (
        select(*_columns(resource_events))
        .where(in_scope(resource_events), resource_events.c.seq > bindparam("after"))
        .order_by(resource_events.c.seq)
        .limit(bindparam("page_size"))
    )
    if of_types:
        return query.where(any_of(resource_events.c.type, "types"))
    return query


_LAST_OF_RESOURCE = select(resources.c.next_event_seq).where(in_scope(resources))


async def read_page(tx: Tx, scope: Scope, thread_id: str, *, after: int, types: Sequence[str], limit: int) -> EventPage:
    """A thread's events with a seq above ``after``, of the types (none: all), in order. Raises NotFound."""
    thread = await threads.find(tx, scope, thread_id)
    of = {**of_thread(scope, thread.thread_uid), **({"types": list(types)} if types else {})}
    # One more than wanted shows whether there are more.
    read = await some(tx, _page(bool(types)), **of, after=after, page_size=limit + 1)
    return _made_page(*read, limit, thread.next_event_seq - 1)


async def read_page_of_resource(tx: Tx, scope: Scope, *, after: int, types: Sequence[str], limit: int) -> EventPage:
    """The resource's events with a seq above ``after``, of the types (none: all), in order."""
    of = {**of_scope(scope), **({"types": list(types)} if types else {})}
    read = await some(tx, _page_of_resource(bool(types)), **of, after=after, page_size=limit + 1)
    return _made_page(*read, limit, await last_of_resource(tx, scope))


async def last_of_resource(tx: Tx, scope: Scope) -> int:
    """The seq of the newest event of the resource; 0 when there was none."""
    next_seq = await tx.scalar(_LAST_OF_RESOURCE, **of_scope(scope))
    if next_seq is None:
        return 0
    return int(next_seq) - 1


def _made_page(rows: Sequence[Row], stopped: bool, limit: int, last_seq: int) -> EventPage:
    found = [Event(seq, type_, actor, tool, object_of(payload), at) for seq, type_, actor, tool, payload, at in rows]
    return EventPage(found[:limit], stopped or len(found) > limit, last_seq)


MOST_EVENTS = 1000
"""If there are more new events than this, they are not read: anything may have changed."""


@dataclass(frozen=True, slots=True)
class ThreadMark:
    """How far a thread's log was read. The uid is another one when the thread was made again; None: there was none."""

    uid: str | None = None
    seq: int = 0


@dataclass(frozen=True, slots=True)
class WatchRequest:
    """The threads and resources to look at. None as a mark: nothing is known, and only where things are now is to be
    read.

    ``totals`` asks for the scope's threads as a whole, which costs in proportion to their number.
    """

    threads: Mapping[str, ThreadMark | None] = field(default_factory=dict)
    run_ids: Collection[str] = ()
    resource: bool = False
    resource_seq: int | None = None
    totals: bool = False


@dataclass(frozen=True, slots=True)
class WatchResult:
    """The marks of the last look. ``types`` has the threads whose log has grown, with the types of the new events, or
    None where not all of them are there to be read; ``resource_events`` likewise, with their payloads.

    ``runs`` and ``totals`` are whatever differs once a run, or any thread of the scope, has changed.
    """

    marks: dict[str, ThreadMark]
    types: dict[str, frozenset[str] | None]
    runs: dict[str, Row]
    resource_seq: int
    resource_events: Sequence[tuple[str, Json]] | None
    totals: tuple[int, int]


_live = threads_table.c.deletion_uid.is_(None)
_MARKS = select(threads_table.c.thread_id, threads_table.c.thread_uid, threads_table.c.next_event_seq).where(
    in_scope(threads_table), any_of(threads_table.c.thread_id, "thread_ids"), _live
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
    .join(threads_table, same_thread(threads_table, runs))
    .where(in_scope(runs), any_of(runs.c.run_id, "run_ids"), _live)
)
_RESOURCE_EVENTS = (
    select(resource_events.c.type, resource_events.c.payload)
    .where(in_scope(resource_events), resource_events.c.seq > bindparam("after"))
    .order_by(resource_events.c.seq)
)
_TOTALS = select(func.count(), func.coalesce(func.sum(threads_table.c.next_event_seq), 0)).where(
    in_scope(threads_table), _live
)


async def look(tx: Tx, scope: Scope, watched: WatchRequest) -> WatchResult:
    """The events since the marks, and the new marks. A thread that is not there has the empty mark."""
    marks = await _marks(tx, scope, watched.threads)
    types = {}
    for thread_id, mark in marks.items():
        before = watched.threads[thread_id]
        # A thread that was made again has another log, of which the mark says nothing.
        if before is not None and before.uid == mark.uid and before.seq < mark.seq:
            types[thread_id] = await _types(tx, scope, mark, before.seq)
    if watched.run_ids:
        found_runs = await tx.all(_RUNS, **of_scope(scope), run_ids=list(watched.run_ids))
    else:
        found_runs = []
    if watched.resource:
        seq = await last_of_resource(tx, scope)
    else:
        seq = 0
    if watched.totals:
        totals = await tx.one(_TOTALS, **of_scope(scope))
    else:
        totals = None
    count, next_seqs = totals or (0, 0)
    return WatchResult(
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
    """None also if events went with the message that they belong to."""
    if mark.uid is None or mark.seq - after > MOST_EVENTS:
        return None
    rows = await tx.all(_TYPES, **of_thread(scope, mark.uid), after=after)
    if sum(count for _, count in rows) == mark.seq - after:
        return frozenset(type_ for type_, _ in rows)
    return None


async def _resource_events(tx: Tx, scope: Scope, after: int | None, seq: int) -> list[tuple[str, Any]] | None:
    if after is None or after == seq:
        return []
    if not 0 <= seq - after <= MOST_EVENTS:  # below: the log was erased
        return None
    rows = await tx.all(_RESOURCE_EVENTS, **of_scope(scope), after=after)
    # Events of an erased thread are gone, so some may be missing.
    if len(rows) == seq - after:
        return [(type_, object_of(payload)) for type_, payload in rows]
    return None
