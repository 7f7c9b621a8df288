"""The rows of the index: what stands around them, which of them pass a recall's filters, their messages,
and the rows made anew after the rules that make the indexed text have changed.
"""

from collections.abc import Sequence
from functools import cache
from operator import itemgetter
from typing import Any

import numpy as np
from sqlalchemy import (
    BigInteger,
    Select,
    Text,
    bindparam,
    cast,
    exists,
    literal,
    literal_column,
    not_,
    select,
    union_all,
)

from layerlore.storage.core import scopes
from layerlore.storage.core.index_rows import IndexedRow, IndexedRows, PackedIntegers, RowIdArray, to_list, unpacked
from layerlore.storage.core.json_text import to_json
from layerlore.storage.core.records import CUSTOM, Message, Scope, SearchText
from layerlore.storage.core.scopes import (
    PROFILE_PLACE,
    NoteKind,
    in_scope,
    in_thread,
    named_in_scope,
    note_places,
    of_scope,
    of_thread,
    read_note_place,
    same_thread,
    vector_of,
)
from layerlore.storage.core.statements import JsonText, WithIds, any_of, json_items
from layerlore.storage.core.tables import SCOPE, THREAD, entry_sources, messages, search_rows, search_vectors, threads
from layerlore.storage.core.tables import entries as entries_table
from layerlore.storage.core.transaction import Row, Tx
from layerlore.storage.derived import entries, note_rows
from layerlore.storage.index.vectors import PendingRow
from layerlore.storage.messages import message_pages, orphans
from layerlore.storage.messages.message_rows import COLUMNS, MakeMessage, message_of, read
from layerlore.storage.threads.threads import lock_uid

# How many messages before and after a row ``around`` brings.
REACH = 3
# Where ``find_unembedded`` looks: at the threads that were changed last and the newest entries, at most this number of
# each, and at the newest messages of each thread.
RECENT_THREADS = 4
RECENT_ENTRIES = 4
RECENT_MESSAGES = 16


_asked = (
    select(search_rows.c.row_id, *(search_rows.c[name] for name in THREAD), search_rows.c.seq)
    .where(named_in_scope(search_rows), any_of(search_rows.c.row_id, "row_ids"))
    .cte("asked")
    # It is read once. Folded into the join, it would be read again for each row.
    .prefix_with("MATERIALIZED")
)
# An outer join only because SQLite keeps its order: it may otherwise choose to walk the scope instead of looking up what is
# near each row. The row itself is near, so nothing is missing unless its message has no first chunk.
_near = search_rows.alias("near")
_neighbours = select(_near.c.row_id).join_from(
    _asked,
    _near,
    same_thread(_asked, _near) & _near.c.seq.between(_asked.c.seq - REACH, _asked.c.seq + REACH) & (_near.c.chunk == 0),
    isouter=True,
)
_AROUND = select(*(search_rows.c[name] for name in IndexedRow._fields)).where(
    WithIds(search_rows.c.tenant_id) == bindparam("tenant_id"),
    search_rows.c.row_id.in_(union_all(select(_asked.c.row_id), _neighbours)),
)
_in_order = itemgetter(*(IndexedRow._fields.index(name) for name in ("thread_uid", "seq", "chunk")))


_LIVE_BY_SEQS = (
    select(*COLUMNS)
    .where(
        in_thread(messages),
        messages.c.deletion_uid.is_(None),
        messages.c.role != CUSTOM,
        any_of(messages.c.seq, "seqs"),
    )
    .order_by(messages.c.seq)
)


async def around(tx: Tx, scope: Scope, row_ids: Sequence[int] | RowIdArray) -> IndexedRows:
    """The rows, and the first chunks of the messages of the same thread at most REACH seqs before or after them; each
    once, those of a thread together, ordered by seq and chunk. Rows that are gone, or of another scope, are left out."""
    held = await tx.backend.search.around(tx, scope, np.asarray(row_ids, np.int64), REACH)
    if held is not None:
        return held
    rows = await tx.all(_AROUND, **of_scope(scope), row_ids=to_list(row_ids))
    # Here, since databases do not agree on the order of texts.
    return IndexedRows.of(sorted(rows, key=_in_order))


async def shown_beside(tx: Tx, scope: Scope, thread_uid: str) -> RowIdArray:
    """The row ids, ascending, of the notes that a context of a thread shows whole: those of the thread (empty: of none)
    and the lines of the profile."""
    places = [PROFILE_PLACE, *(note_places(thread_uid) if thread_uid else ())]
    return np.array(await note_rows.rows_at(tx, scope, places), np.int64)


_PLACES = select(search_rows.c.row_id, search_rows.c.thread_uid, search_rows.c.seq).where(
    named_in_scope(search_rows), any_of(search_rows.c.row_id, "row_ids")
)


async def places(tx: Tx, scope: Scope, row_ids: Sequence[int] | RowIdArray) -> dict[int, tuple[str, int]]:
    """Which message (thread uid, seq) each row is a chunk of. Rows that are gone, or of another scope, are left out."""
    rows = await tx.all(_PLACES, **of_scope(scope), row_ids=to_list(row_ids))
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


# Through the keys of a few threads and entries: how large the scope is does not matter.
_recent_threads = (
    select(*(threads.c[name] for name in THREAD), (threads.c.next_seq - RECENT_MESSAGES).label("from_seq"))
    .where(in_scope(threads), threads.c.deletion_uid.is_(None))
    .order_by(threads.c.updated_at.desc(), threads.c.thread_uid.desc())
    .limit(RECENT_THREADS)
    .subquery("recent_threads")
)
_recent_entries = (
    select(
        *(entries_table.c[name] for name in SCOPE),
        (literal(entries.PLACE) + entries_table.c.entry_id).label("thread_uid"),
        literal_column(str(entries.SEQ), BigInteger).label("from_seq"),
    )
    .where(in_scope(entries_table), entries_table.c.status == "active")
    .order_by(entries_table.c.created_at.desc(), entries_table.c.entry_id.desc())
    .limit(RECENT_ENTRIES)
    .subquery("recent_entries")
)
_recent = union_all(select(_recent_threads), select(_recent_entries)).cte("recent").prefix_with("MATERIALIZED")
_UNEMBEDDED = (
    select(search_rows.c.row_id, search_rows.c.thread_uid, search_rows.c.seq, search_rows.c.chunk)
    .join_from(
        _recent,
        search_rows,
        same_thread(_recent, search_rows) & (search_rows.c.seq >= _recent.c.from_seq),
    )
    .where(not_(exists().where(vector_of(search_rows), search_vectors.c.model == bindparam("model"))))
    .order_by(search_rows.c.row_id.desc())
    .limit(bindparam("most"))
)


async def find_unembedded(tx: Tx, scope: Scope, model: str, *, most: int) -> list[PendingRow]:
    """Rows without a vector of the model among the rows stored last in a scope, at most ``most``, newest first. Vectors
    are made oldest first or newest first, so an empty result means that hardly any is missing."""
    rows = await tx.all(_UNEMBEDDED, **of_scope(scope), model=model, most=most)
    return [PendingRow(row_id, scope, *place) for row_id, *place in rows]


_FROM = (
    select(search_rows.c.row_id)
    .where(in_thread(search_rows), search_rows.c.seq >= bindparam("from_seq"))
    .order_by(search_rows.c.row_id)
)


async def row_ids_from(tx: Tx, scope: Scope, thread_uid: str, seq: int) -> RowIdArray:
    """The row ids, ascending, of a thread's messages from this seq on."""
    return np.array(await tx.scalars(_FROM, **of_thread(scope, thread_uid), from_seq=seq), np.int64)


@cache
def _passing(of_one_thread: bool, since: bool, until: bool) -> Select[Any]:
    query = select(PackedIntegers(search_rows.c.row_id)).where(
        in_scope(search_rows), any_of(search_rows.c.role, "roles")
    )
    if of_one_thread:
        named = select(threads.c.thread_uid).where(
            in_scope(threads), threads.c.thread_id == bindparam("thread_id"), threads.c.deletion_uid.is_(None)
        )
        uid = named.scalar_subquery()
        # The notes of the thread stand under its uid with a prefix.
        query = query.where(search_rows.c.thread_uid.in_([uid, *(literal(prefix) + uid for prefix in note_places(""))]))
    if since:
        query = query.where(search_rows.c.said_at >= bindparam("since"))
    if until:
        return query.where(search_rows.c.said_at <= bindparam("until"))
    return query


@cache
def _passing_entries(since: bool, until: bool) -> Select[Any]:
    """Select which rows are of entries with a source in the thread."""
    sourced = (
        select(literal(entries.PLACE) + entry_sources.c.entry_id)
        .join_from(entry_sources, threads, same_thread(entry_sources, threads))
        .where(in_scope(threads), threads.c.thread_id == bindparam("thread_id"), threads.c.deletion_uid.is_(None))
    )
    query = select(PackedIntegers(search_rows.c.row_id)).where(
        in_scope(search_rows), search_rows.c.thread_uid.in_(sourced)
    )
    if since:
        query = query.where(search_rows.c.said_at >= bindparam("since"))
    if until:
        return query.where(search_rows.c.said_at <= bindparam("until"))
    return query


async def passing(
    tx: Tx, scope: Scope, *, thread_id: str | None, since: int | None, until: int | None, roles: Sequence[str]
) -> RowIdArray:
    """The row ids, ascending, of the messages of these roles with a time (``said_at``, milliseconds) from ``since``
    to ``until``, both included, in the thread of that name, if one is passed. The role ``entry`` means entries: in a
    thread those that have a source there; the kind of a note as a role means such notes, and when they were written."""
    given: dict[str, Any] = {"thread_id": thread_id, "since": since, "until": until}
    filters = {name: value for name, value in given.items() if value is not None}
    statement = _passing(*(value is not None for value in given.values()))
    found = unpacked(await tx.scalar(statement, **of_scope(scope), **filters, roles=list(roles)))
    if thread_id is None or "entry" not in roles:
        return found
    of_entries = await tx.scalar(_passing_entries(since is not None, until is not None), **of_scope(scope), **filters)
    return np.union1d(found, unpacked(of_entries))


_items = json_items("keys")
_keys = (
    select(
        *(cast(bindparam(name), Text).label(name) for name in SCOPE),
        JsonText(_items.c.value, 0).label("thread_uid"),
        cast(JsonText(_items.c.value, 1), BigInteger).label("seq"),
    )
    .select_from(_items)
    .cte("keys")
    .prefix_with("MATERIALIZED")
)
_MESSAGES = (
    select(threads.c.thread_uid, threads.c.thread_id, *COLUMNS)
    .join_from(_keys, threads, same_thread(_keys, threads))
    .join(messages, same_thread(_keys, messages) & (messages.c.seq == _keys.c.seq))
    .where(threads.c.deletion_uid.is_(None), messages.c.deletion_uid.is_(None))
)


async def messages_of(
    tx: Tx, scope: Scope, keys: Sequence[tuple[str, int]], make: MakeMessage = message_of
) -> dict[tuple[str, int], Message]:
    """The visible messages at these places (thread uid, seq), as ``make`` gives them, by place; entries and notes in the
    shape of messages."""
    of_notes = {key for key in keys if read_note_place(key[0]) is not None}
    of_entries = {uid.removeprefix(entries.PLACE) for uid, _ in keys if uid.startswith(entries.PLACE)}
    if of_entries:
        kept = await entries.as_messages(tx, scope, of_entries)
    else:
        kept = {}
    distinct = [
        [uid, int(seq)]
        for uid, seq in dict.fromkeys(keys)
        if not uid.startswith(entries.PLACE) and (uid, seq) not in of_notes
    ]
    found: dict[tuple[str, int], Message]
    if of_notes:
        found = await note_rows.as_messages(tx, scope, of_notes)
    else:
        found = {}

    def take(row: Row) -> bool:
        message = make(row[1], row[2:])
        found[row[0], message.seq] = message
        return True

    if distinct:
        await tx.each(_MESSAGES, take, **of_scope(scope), keys=to_json(distinct))
    return found | {(entries.place_of(entry_id), entries.SEQ): message for entry_id, message in kept.items()}


async def messages_to_index(tx: Tx, scope: Scope, keys: Sequence[tuple[str, int]]) -> dict[tuple[str, int], Message]:
    """The visible messages at these places, as ``messages_of`` reads them, with the calls that their results answer."""
    return await message_pages.attach_everywhere(tx, scope, await messages_of(tx, scope, keys))


async def rebuild_rows(tx: Tx, scope: Scope, thread_uid: str, seqs: Sequence[int], search_text: SearchText) -> int:
    """Index the visible messages at these places of a thread, or an entry, or all notes of a place, anew; counts them. 0
    for a thread that is deleted."""
    if (of_notes := read_note_place(thread_uid)) is not None:
        kind, uid = of_notes
        return await index_notes(tx, scope, uid, search_text, [kind])
    if thread_uid.startswith(entries.PLACE):
        await scopes.hold(tx, scope)
        return await entries.index_anew(tx, scope, thread_uid.removeprefix(entries.PLACE), search_text)
    thread = await lock_uid(tx, scope, thread_uid)
    if thread is None:
        return 0
    of = of_thread(scope, thread_uid)
    found = await read(tx, _LIVE_BY_SEQS, thread.thread_id, **of, seqs=[int(seq) for seq in seqs])
    await orphans.index_again(tx, scope, thread, found, search_text)
    return len(found)


async def index_notes(
    tx: Tx,
    scope: Scope,
    thread_uid: str,
    search_text: SearchText,
    kinds: Sequence[NoteKind] = note_rows.OF_THREAD,
) -> int:
    """Index the notes of these kinds of a thread, or (empty ``thread_uid``) the lines of the profile, anew. Counts them."""
    if not thread_uid:
        await scopes.hold(tx, scope)
        return await note_rows.refresh(tx, scope, "", search_text, ("profile",), anew=True)
    await lock_uid(tx, scope, thread_uid)
    return await note_rows.refresh(tx, scope, thread_uid, search_text, kinds, anew=True)
