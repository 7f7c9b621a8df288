"""The rows of the index: what stands around them, which of them pass a recall's filters, and their messages."""

from collections.abc import Sequence
from functools import cache
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import (
    BigInteger,
    Column,
    Integer,
    Select,
    Text,
    bindparam,
    literal,
    literal_column,
    select,
    text,
    true,
    union_all,
)

from layerlore.storage import entries
from layerlore.storage.json_text import to_json
from layerlore.storage.messages import COLUMNS, message_of
from layerlore.storage.records import Message, Scope
from layerlore.storage.row_ids import Packed, RowIdArray, listed, unpacked
from layerlore.storage.scoping import in_scope, in_thread, named_in_scope, of_scope, of_thread, same_thread
from layerlore.storage.statements import Dialect, any_of
from layerlore.storage.tables import SCOPE, THREAD, entry_sources, messages, search_rows, threads
from layerlore.storage.transaction import Row, Tx

# How many messages before and after a row ``around`` brings.
REACH = 3


class IndexedRow(NamedTuple):
    """A chunk of a message, or of an entry (role ``entry``), in the index. ``chars`` counts the whole message's text; ``session_seq`` names the session
    in its thread. (A tuple: a recall makes a thousand of them.)"""

    row_id: int
    thread_uid: str
    seq: int
    chunk: int
    role: str
    speaker: str | None
    said_at: int
    chars: int
    session_seq: int


_asked = (
    select(search_rows.c.row_id, search_rows.c.thread_uid, search_rows.c.seq)
    .where(named_in_scope(search_rows), any_of(search_rows.c.row_id, "row_ids"))
    .cte("asked")
    .prefix_with("MATERIALIZED")
)
_distances = union_all(
    *(select(literal_column(str(distance), Integer).label("distance")) for distance in range(-REACH, REACH + 1))
).subquery("distances")
# Looked up one by one: joined, SQLite may choose to walk the scope instead.
_near = search_rows.alias("near")
_neighbour = (
    select(_near.c.row_id)
    .where(
        in_scope(_near),
        _near.c.thread_uid == _asked.c.thread_uid,
        _near.c.seq == _asked.c.seq + _distances.c.distance,
        _near.c.chunk == 0,
    )
    .correlate(_asked, _distances)
    .scalar_subquery()
)
_AROUND = select(*(search_rows.c[name] for name in IndexedRow._fields)).where(
    search_rows.c.row_id.in_(
        union_all(select(_asked.c.row_id), select(_neighbour).join_from(_asked, _distances, true()))
    )
)
_in_order = itemgetter(*(IndexedRow._fields.index(name) for name in ("thread_uid", "seq", "chunk")))


async def around(tx: Tx, scope: Scope, row_ids: Sequence[int] | RowIdArray) -> list[IndexedRow]:
    """The rows, and the first chunks of the messages of the same thread at most REACH seqs before or after them; each
    once, ordered by thread, seq and chunk. Rows that are gone, or of another scope, are left out."""
    rows = await tx.all(_AROUND, **of_scope(scope), row_ids=listed(row_ids))
    # Here, since databases do not agree on the order of texts.
    return list(map(IndexedRow._make, sorted(rows, key=_in_order)))


_PLACES = select(search_rows.c.row_id, search_rows.c.thread_uid, search_rows.c.seq).where(
    named_in_scope(search_rows), any_of(search_rows.c.row_id, "row_ids")
)


async def places(tx: Tx, scope: Scope, row_ids: Sequence[int] | RowIdArray) -> dict[int, tuple[str, int]]:
    """Which message (thread uid, seq) each row is a chunk of. Rows that are gone, or of another scope, are left out."""
    rows = await tx.all(_PLACES, **of_scope(scope), row_ids=listed(row_ids))
    return {row_id: (thread_uid, seq) for row_id, thread_uid, seq in rows}


_CHUNKS = (
    select(search_rows.c.row_id, search_rows.c.chunk)
    .where(in_thread(search_rows), search_rows.c.seq == bindparam("of_seq"))
    .order_by(search_rows.c.chunk)
)


async def chunks_of(tx: Tx, scope: Scope, thread_uid: str, seq: int) -> list[tuple[int, int]]:
    """The row ids and numbers of the chunks of a message that are in the index."""
    rows = await tx.all(_CHUNKS, **of_thread(scope, thread_uid), of_seq=seq)
    return [(row_id, chunk) for row_id, chunk in rows]


@cache
def _passing(of_one_thread: bool, since: bool, until: bool) -> Select[Any]:
    query = select(Packed(search_rows.c.row_id)).where(in_scope(search_rows), any_of(search_rows.c.role, "roles"))
    if of_one_thread:
        named = select(threads.c.thread_uid).where(
            in_scope(threads), threads.c.thread_id == bindparam("thread_id"), threads.c.deletion_uid.is_(None)
        )
        query = query.where(search_rows.c.thread_uid == named.scalar_subquery())
    if since:
        query = query.where(search_rows.c.said_at >= bindparam("since"))
    return query.where(search_rows.c.said_at <= bindparam("until")) if until else query


@cache
def _passing_entries(since: bool, until: bool) -> Select[Any]:
    """Of the entries with a source in the thread."""
    sourced = (
        select(literal(entries.PLACE) + entry_sources.c.entry_id)
        .join_from(entry_sources, threads, same_thread(entry_sources, threads))
        .where(in_scope(threads), threads.c.thread_id == bindparam("thread_id"), threads.c.deletion_uid.is_(None))
    )
    query = select(Packed(search_rows.c.row_id)).where(in_scope(search_rows), search_rows.c.thread_uid.in_(sourced))
    if since:
        query = query.where(search_rows.c.said_at >= bindparam("since"))
    return query.where(search_rows.c.said_at <= bindparam("until")) if until else query


async def passing(
    tx: Tx, scope: Scope, *, thread_id: str | None, since: int | None, until: int | None, roles: Sequence[str]
) -> RowIdArray:
    """The row ids, ascending, of the messages of these roles that were said (``said_at``, milliseconds) from ``since``
    to ``until``, both included, in the thread of that name, if one is given. The role ``entry`` means entries: in a
    thread those that have a source there."""
    given: dict[str, Any] = {"thread_id": thread_id, "since": since, "until": until}
    filters = {name: value for name, value in given.items() if value is not None}
    statement = _passing(*(value is not None for value in given.values()))
    row = await tx.one(statement, **of_scope(scope), **filters, roles=list(roles))
    found = unpacked(row[0] if row else None)
    if thread_id is None or "entry" not in roles:
        return found
    row = await tx.one(_passing_entries(since is not None, until is not None), **of_scope(scope), **filters)
    return np.union1d(found, unpacked(row[0] if row else None))


_KEYS = {
    "sqlite": "json_extract(value, '$[0]') AS thread_uid, json_extract(value, '$[1]') AS seq FROM json_each(:keys)",
    "postgres": "value ->> 0 AS thread_uid, CAST(value ->> 1 AS bigint) AS seq"
    " FROM json_array_elements(CAST(:keys AS json))",
}


@cache
def _messages(dialect: Dialect) -> Select[Any]:
    scope = ", ".join(f"CAST(:{name} AS text) AS {name}" for name in SCOPE)
    keys = (
        text(f"SELECT {scope}, {_KEYS[dialect]}")
        .columns(*(Column(name, Text) for name in THREAD), Column("seq", BigInteger))
        .cte("keys")
        .prefix_with("MATERIALIZED")
    )
    return (
        select(threads.c.thread_uid, threads.c.thread_id, *COLUMNS)
        .join_from(keys, threads, same_thread(keys, threads))
        .join(messages, same_thread(keys, messages) & (messages.c.seq == keys.c.seq))
        .where(threads.c.deletion_uid.is_(None), messages.c.deletion_uid.is_(None))
    )


async def messages_of(tx: Tx, scope: Scope, keys: Sequence[tuple[str, int]]) -> dict[tuple[str, int], Message]:
    """The visible messages at these places (thread uid, seq), light, by place; entries in the shape of messages."""
    of_entries = {uid.removeprefix(entries.PLACE) for uid, _ in keys if uid.startswith(entries.PLACE)}
    kept = await entries.as_messages(tx, scope, of_entries) if of_entries else {}
    distinct = [[uid, int(seq)] for uid, seq in dict.fromkeys(keys) if not uid.startswith(entries.PLACE)]
    found: dict[tuple[str, int], Message] = {}

    def take(row: Row) -> bool:
        found[row[0], row[2]] = message_of(row[1], row[2:])
        return True

    if distinct:
        await tx.each(_messages(tx.dialect), take, **of_scope(scope), keys=to_json(distinct))
    return found | {(entries.place_of(entry_id), entries.SEQ): message for entry_id, message in kept.items()}
