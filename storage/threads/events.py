"""The log of what changed: of a thread, and of a resource (its profile, the coming and going of threads).

Seqs are given under the row lock of the thread or resource, so they commit in their order: who reads on from a cursor
misses nothing. Rows are never changed; they go with their thread, or with the message they belong to.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from sqlalchemy import Select, Table, bindparam, exists, insert, or_, select, update

from layerlore.storage.core.damaged_values import object_of
from layerlore.storage.core.json_text import to_json
from layerlore.storage.core.pages import some
from layerlore.storage.core.records import Json, Origin, Scope, Thread
from layerlore.storage.core.scopes import in_scope, in_thread, of_scope, of_thread, same_thread
from layerlore.storage.core.statements import any_of, insert_or_update
from layerlore.storage.core.tables import events, messages, resource_events, resources
from layerlore.storage.core.tables import threads as threads_table
from layerlore.storage.core.transaction import Row, Tx
from layerlore.storage.threads import threads


@dataclass(frozen=True, slots=True)
class NewEvent:
    """What happened. The server's own payloads hold seqs, ids and counts, never text of a message or document;
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
    """Events in order. ``last_seq`` is the newest seq that was given, whether or not its event is among them."""

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
_SCOPE = ("tenant_id", "agent_id", "resource_id")
_INSERT = insert(events).values(
    **{name: bindparam(name) for name in (*_SCOPE, "thread_uid", *_WRITTEN, "message_seq")},
)

_TAKE_OF_RESOURCE = insert_or_update(
    resources,
    {**{name: bindparam(name) for name in _SCOPE}, "next_event_seq": 2},
    keys=_SCOPE,
    changes={"next_event_seq": resources.c.next_event_seq + 1},
    returning=[resources.c.next_event_seq],
)
_INSERT_OF_RESOURCE = insert(resource_events).values(
    **{name: bindparam(name) for name in (*_SCOPE, *_WRITTEN, "thread_uid")},
)


async def record(
    tx: Tx, scope: Scope, thread: Thread, happened: Sequence[NewEvent], *, origin: Origin, now: int
) -> int:
    """Write events of a thread that the transaction holds; one that was made in it is noted in its resource's log.

    Returns the seq of the last one.
    """
    if thread.next_event_seq == 1 and thread.created_at == now:
        made = NewEvent("thread_created", {"thread_id": thread.thread_id})
        await record_of_resource(tx, scope, made, thread_uid=thread.thread_uid, origin=origin, now=now)
    of = of_thread(scope, thread.thread_uid)
    next_seq: int = await tx.scalar(_TAKE, **of, count=len(happened))
    first = next_seq - len(happened)
    rows = [
        {**of, **_values(event, first + place, origin, now), "message_seq": event.message_seq}
        for place, event in enumerate(happened)
    ]
    await tx.many(_INSERT, rows)
    return next_seq - 1


async def record_of_resource(
    tx: Tx, scope: Scope, happened: NewEvent, *, thread_uid: str | None = None, origin: Origin, now: int
) -> int:
    """Write an event of the resource; one about a thread goes when the thread is erased. Returns its seq.

    Who also locks a thread does so first.
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
    return query.where(any_of(events.c.type, "types")) if of_types else query


@cache
def _page_of_resource(of_types: bool) -> Select[Any]:
    query = (
        select(*_columns(resource_events))
        .where(in_scope(resource_events), resource_events.c.seq > bindparam("after"))
        .order_by(resource_events.c.seq)
        .limit(bindparam("page_size"))
    )
    return query.where(any_of(resource_events.c.type, "types")) if of_types else query


_LAST_OF_RESOURCE = select(resources.c.next_event_seq).where(in_scope(resources))


async def read_page(tx: Tx, scope: Scope, thread_id: str, *, after: int, types: Sequence[str], limit: int) -> EventPage:
    """A thread's events with a seq above ``after``, of the types (none: all), in order. Raises NotFound."""
    thread = await threads.find(tx, scope, thread_id)
    of = {**of_thread(scope, thread.thread_uid), **({"types": list(types)} if types else {})}
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
    return 0 if next_seq is None else int(next_seq) - 1


def _made_page(rows: Sequence[Row], stopped: bool, limit: int, last_seq: int) -> EventPage:
    found = [Event(seq, type_, actor, tool, object_of(payload), at) for seq, type_, actor, tool, payload, at in rows]
    return EventPage(found[:limit], stopped or len(found) > limit, last_seq)
