"""Every visible message, and every active entry, of the installation by its place, for work that goes through all of them in short reads."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import BigInteger, Select, Table, bindparam, cast, func, select, union

from layerlore.storage.core import scopes
from layerlore.storage.core.installation import Look
from layerlore.storage.core.records import CUSTOM, Scope
from layerlore.storage.core.scopes import behind, in_thread, of_scope, of_thread
from layerlore.storage.core.tables import SCOPE, THREAD, entries, messages, resources, threads
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import entries as kept


@dataclass(frozen=True, slots=True)
class ThreadPlace:
    """A thread of any scope."""

    scope: Scope
    thread_uid: str


FIRST = ThreadPlace(Scope("", "", ""), "")
"""Before every thread."""

_columns = [threads.c[name] for name in THREAD]
_PLACE = (*((name, "text") for name in THREAD),)
_THREADS = Look(
    "layerlore_threads_after",
    select(*_columns)
    .where(
        behind(_columns),
        threads.c.deletion_uid.is_(None),
    )
    .order_by(*_columns)
    .limit(bindparam("most", type_=BigInteger())),
    _PLACE,
)
_entry_columns = [entries.c[name] for name in (*SCOPE, "entry_id")]
_ENTRIES = Look(
    "layerlore_entries_after",
    select(*_entry_columns)
    .where(
        behind(_entry_columns),
        entries.c.status == "active",
    )
    .order_by(*_entry_columns)
    .limit(bindparam("most", type_=BigInteger())),
    _PLACE,
)
_visible = messages.c.deletion_uid.is_(None)
_SEQS = (
    select(messages.c.seq)
    .where(in_thread(messages), messages.c.seq > bindparam("after_seq"), _visible, messages.c.role != CUSTOM)
    .order_by(messages.c.seq)
    .limit(bindparam("most", type_=BigInteger()))
)
_COUNT = Look(
    "layerlore_count_messages",
    select(cast(func.coalesce(func.sum(threads.c.message_count), 0), BigInteger)).where(
        threads.c.deletion_uid.is_(None)
    ),
    (("count", "bigint"),),
)


async def entries_after(tx: Tx, after: ThreadPlace, most: int) -> list[ThreadPlace]:
    """The next active entries behind ``after``, all scopes in one order: each is the thread that it is in the index."""
    of = {**of_scope(after.scope), "entry_id": after.thread_uid.removeprefix(kept.PLACE)}
    rows = await _ENTRIES.rows(tx, **scopes.after(of), most=most)
    return [ThreadPlace(Scope(*scope), kept.place_of(entry_id)) for *scope, entry_id in rows]


def _scopes_of(table: Table) -> Select[Any]:
    columns = [table.c[name] for name in SCOPE]
    # Each part has its own limit, so that no table is read to its end.
    some = (
        select(*columns)
        .distinct()
        .where(behind(columns))
        .order_by(*columns)
        .limit(bindparam("most", type_=BigInteger()))
    )
    # SQLite takes a LIMIT in a part of a union only in a subquery.
    return select(*some.subquery().c)


_both = union(_scopes_of(threads), _scopes_of(resources)).subquery()
_SCOPES = Look(
    "layerlore_scopes_after",
    select(*_both.c).order_by(*_both.c).limit(bindparam("most", type_=BigInteger())),
    tuple((name, "text") for name in SCOPE),
)


async def scopes_after(tx: Tx, after: Scope, most: int) -> list[Scope]:
    """The next scopes behind ``after`` of which anything is stored, those of a tenant one after the other."""
    return [Scope(*row) for row in await _SCOPES.rows(tx, **scopes.after(of_scope(after)), most=most)]


async def threads_after(tx: Tx, after: ThreadPlace, most: int) -> list[ThreadPlace]:
    """The next threads behind ``after``, all scopes in one order."""
    of = of_thread(after.scope, after.thread_uid)
    rows = await _THREADS.rows(tx, **scopes.after(of), most=most)
    return [ThreadPlace(Scope(*scope), thread_uid) for *scope, thread_uid in rows]


async def seqs_after(tx: Tx, place: ThreadPlace, after: int, most: int) -> list[int]:
    """The next seqs behind ``after`` of a thread's visible messages that are indexed."""
    return await tx.scalars(_SEQS, **of_thread(place.scope, place.thread_uid), after_seq=after, most=most)


async def count_messages(tx: Tx) -> int:
    """How many visible messages there are in all scopes."""
    ((count,),) = await _COUNT.rows(tx)
    return int(count)
