"""The visible rows of a scope, read in pages for an export: nothing that is deleted, nor what was made from it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from sqlalchemy import Select, bindparam, func, or_, select

from layerlore.storage.core import scopes
from layerlore.storage.core.records import Message, Scope
from layerlore.storage.core.scopes import behind, in_scope, in_thread, of_scope, of_thread
from layerlore.storage.core.statements import any_of
from layerlore.storage.core.tables import (
    SCOPE,
    document_sources,
    entries,
    entry_sources,
    erased_ids,
    messages,
    threads,
)
from layerlore.storage.core.transaction import Row, Tx
from layerlore.storage.derived.entries import IS_SUPPORTED, Entry
from layerlore.storage.messages.message_rows import COLUMNS, hash_of_message, message_of, read
from layerlore.storage.moving.moved_rows import MovedTable

THREAD_COLUMNS = tuple(column.name for column in threads.c if column.name not in (*SCOPE, "deletion_uid"))
CLEARS = ("clear", "cleared")

_live = threads.c.deletion_uid.is_(None)
_UIDS = select(threads.c.created_at, threads.c.thread_uid).where(in_scope(threads), _live)
_THREAD = select(*(threads.c[name] for name in THREAD_COLUMNS)).where(in_thread(threads), _live)
_MESSAGES = (
    select(*COLUMNS)
    .where(in_thread(messages), messages.c.seq > bindparam("after"), messages.c.deletion_uid.is_(None))
    .order_by(messages.c.seq)
    .limit(bindparam("most"))
)
_HIDDEN = select(messages.c.id).where(in_thread(messages), messages.c.deletion_uid.is_not(None))
_ERASED = select(erased_ids.c.id_hash).where(in_thread(erased_ids))
_COUNT = select(func.count(), func.coalesce(func.sum(threads.c.message_count), 0)).where(in_scope(threads), _live)


@dataclass(frozen=True, slots=True)
class DocumentRun:
    """A run of messages of a thread that a version of a document was made from, both ends included."""

    version: int
    thread_uid: str
    from_seq: int
    to_seq: int


@dataclass(frozen=True, slots=True)
class EntryRun:
    """The place of an entry in a message."""

    entry_id: str
    thread_uid: str
    seq: int
    revision: int
    starts: int
    ends: int
    label: str
    created_at: int


async def count(tx: Tx, scope: Scope) -> tuple[int, int]:
    """How many threads there are, and messages in them."""
    row = await tx.one(_COUNT, **of_scope(scope))
    assert row is not None
    return int(row[0]), int(row[1])


async def list_uids(tx: Tx, scope: Scope) -> list[str]:
    """The uids of the threads of a scope, the first first."""
    # Sorted here, since databases do not agree on the order of texts.
    return [uid for _, uid in sorted((int(at), str(uid)) for at, uid in await tx.all(_UIDS, **of_scope(scope)))]


async def read_thread(tx: Tx, scope: Scope, thread_uid: str) -> dict[str, Any] | None:
    """A thread's row by column; None when it is deleted by now."""
    row = await tx.one(_THREAD, **of_thread(scope, thread_uid))
    if row is None:
        return None
    return dict(zip(THREAD_COLUMNS, row, strict=True))


async def read_messages(
    tx: Tx, scope: Scope, thread_uid: str, thread_id: str, *, after: int, most: int
) -> list[Message]:
    """The next messages of a thread behind a seq, with all their parts."""
    make = partial(message_of, light=False)
    of = of_thread(scope, thread_uid)
    return await read(tx, _MESSAGES, thread_id, make, **of, after=after, most=most)


async def list_erased(tx: Tx, scope: Scope, thread_uid: str) -> list[str]:
    """The hashed ids of a thread's messages that were erased, or are deleted."""
    of = of_thread(scope, thread_uid)
    # Deleted messages count as erased, so that an import elsewhere does not bring them back.
    hidden = [hash_of_message(thread_uid, id_) for id_ in await tx.scalars(_HIDDEN, **of)]
    return sorted({*await tx.scalars(_ERASED, **of), *hidden})


@cache
def _page(of: MovedTable, continued: bool) -> Select[Any]:
    key = [of.table.c[name] for name in of.key]
    query = select(*(of.table.c[name] for name in of.columns))
    query = query.where(in_thread(of.table) if of.of_thread else in_scope(of.table))
    if of.shown is not None:
        query = query.where(of.shown)
    if "change" in of.columns:  # cleared rows are deleted
        query = query.where(of.table.c.version >= bindparam("since"))
    if continued:
        query = query.where(behind(key))
    return query.order_by(*key).limit(bindparam("most"))


async def read_page(
    tx: Tx, scope: Scope, of: MovedTable, thread_uid: str, *, after: Sequence[Any] | None, most: int
) -> list[dict[str, Any]]:
    """The next rows of a table behind a key, by column, in the order of keys. ``thread_uid`` counts where the rows hang on
    threads."""
    values: dict[str, Any]
    if of.of_thread:
        values = of_thread(scope, thread_uid)
    else:
        values = of_scope(scope)
    if "change" in of.columns:
        values["since"] = await tx.scalar(_last_clear(of), **values) or 0
    values |= scopes.after(dict(zip(of.key, after or (), strict=False)))
    found = await scopes.some(tx, _page(of, after is not None), **values, most=most)
    return [dict(zip(of.columns, row, strict=True)) for row in found[0]]


@cache
def _last_clear(of: MovedTable) -> Select[Any]:
    if of.of_thread:
        own = in_thread(of.table)
    else:
        own = in_scope(of.table)
    return select(func.max(of.table.c.version)).where(own, or_(*(of.table.c.change == change for change in CLEARS)))


_NAMES = select(threads.c.thread_uid, threads.c.thread_id).where(
    in_scope(threads), _live, any_of(threads.c.thread_uid, "uids")
)
_DOCUMENT_SOURCES = (
    select(
        document_sources.c.version,
        document_sources.c.source_thread_uid,
        document_sources.c.from_seq,
        document_sources.c.to_seq,
    )
    .where(in_thread(document_sources), any_of(document_sources.c.version, "versions"))
    .order_by(document_sources.c.version, document_sources.c.source_thread_uid, document_sources.c.from_seq)
)


async def names_of(tx: Tx, scope: Scope, uids: Sequence[str]) -> dict[str, str]:
    """The names of those of these threads that are there, by uid."""
    if uids:
        rows = await tx.all(_NAMES, **of_scope(scope), uids=list(uids))
    else:
        rows = ()
    return {str(uid): str(name) for uid, name in rows}


async def document_runs(tx: Tx, scope: Scope, thread_uid: str, versions: Sequence[int]) -> list[DocumentRun]:
    """The sources of a document's versions: of a thread's, or (empty ``thread_uid``) of the profile."""
    rows = await tx.all(_DOCUMENT_SOURCES, **of_thread(scope, thread_uid), versions=list(versions))
    return [DocumentRun(*row) for row in rows]


_ENTRY_NAMES = tuple(Entry.__dataclass_fields__)
_entry_key = [entries.c.entry_id]


@cache
def _entries(continued: bool) -> Select[Any]:
    query = select(*(entries.c[name] for name in _ENTRY_NAMES)).where(
        in_scope(entries), entries.c.status != "dropped", IS_SUPPORTED
    )
    if continued:
        query = query.where(behind(_entry_key))
    return query.order_by(*_entry_key).limit(bindparam("most"))


_ENTRY_SOURCES = (
    select(
        entry_sources.c.entry_id,
        entry_sources.c.thread_uid,
        entry_sources.c.message_seq,
        entry_sources.c.revision,
        entry_sources.c.starts,
        entry_sources.c.ends,
        entry_sources.c.label,
        entry_sources.c.created_at,
    )
    .select_from(
        entry_sources.join(
            messages,
            (messages.c.tenant_id == entry_sources.c.tenant_id)
            & (messages.c.agent_id == entry_sources.c.agent_id)
            & (messages.c.resource_id == entry_sources.c.resource_id)
            & (messages.c.thread_uid == entry_sources.c.thread_uid)
            & (messages.c.seq == entry_sources.c.message_seq),
        )
    )
    .where(
        in_scope(entry_sources),
        any_of(entry_sources.c.entry_id, "ids"),
        messages.c.deletion_uid.is_(None),
        messages.c.revision == entry_sources.c.revision,
    )
    .order_by(entry_sources.c.entry_id, entry_sources.c.thread_uid, entry_sources.c.message_seq, entry_sources.c.starts)
)


async def read_entries(
    tx: Tx, scope: Scope, *, after: str | None, most: int
) -> tuple[list[Entry], dict[str, list[EntryRun]], dict[str, str]]:
    """The next entries that were not dropped and whose sources are there, those sources by entry, and the names of their
    threads by uid."""
    if after is None:
        values = {}
    else:
        values = scopes.after({"entry_id": after})
    rows: Sequence[Row] = await tx.all(_entries(after is not None), **of_scope(scope), **values, most=most)
    found = [Entry(*row) for row in rows]
    ids = [entry.entry_id for entry in found]
    runs: dict[str, list[EntryRun]] = {}
    for row in await tx.all(_ENTRY_SOURCES, **of_scope(scope), ids=ids) if ids else ():
        runs.setdefault(row[0], []).append(EntryRun(*row))
    uids = sorted({each.thread_uid for some in runs.values() for each in some})
    return found, runs, await names_of(tx, scope, uids)
