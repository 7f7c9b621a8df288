"""Every visible message, and every active entry, of the installation by its place, for work that goes through all of them in short reads."""

from dataclasses import dataclass

from sqlalchemy import bindparam, func, select, tuple_

from memstrata.storage import entries as kept
from memstrata.storage.records import Scope
from memstrata.storage.scoping import in_thread, of_scope, of_thread
from memstrata.storage.tables import SCOPE, THREAD, entries, messages, threads
from memstrata.storage.transaction import Tx


@dataclass(frozen=True, slots=True)
class ThreadPlace:
    """A thread of any scope."""

    scope: Scope
    thread_uid: str


FIRST = ThreadPlace(Scope("", "", ""), "")
"""Before every thread."""

_columns = [threads.c[name] for name in THREAD]
_THREADS = (
    select(*_columns)
    .where(
        tuple_(*_columns) > tuple_(*(bindparam(f"after_{name}") for name in THREAD)), threads.c.deletion_uid.is_(None)
    )
    .order_by(*_columns)
    .limit(bindparam("most"))
)
_entry_columns = [entries.c[name] for name in (*SCOPE, "entry_id")]
_ENTRIES = (
    select(*_entry_columns)
    .where(
        tuple_(*_entry_columns) > tuple_(*(bindparam(f"after_{name}") for name in (*SCOPE, "entry_id"))),
        entries.c.status == "active",
    )
    .order_by(*_entry_columns)
    .limit(bindparam("most"))
)
_visible = messages.c.deletion_uid.is_(None)
_SEQS = (
    select(messages.c.seq)
    .where(in_thread(messages), messages.c.seq > bindparam("after_seq"), _visible)
    .order_by(messages.c.seq)
    .limit(bindparam("most"))
)
_COUNT = select(func.coalesce(func.sum(threads.c.message_count), 0)).where(threads.c.deletion_uid.is_(None))


async def entries_after(tx: Tx, after: ThreadPlace, most: int) -> list[ThreadPlace]:
    """The next active entries behind ``after``, all scopes in one order: each is the thread that it is in the index."""
    values = {f"after_{name}": value for name, value in of_scope(after.scope).items()}
    rows = await tx.all(_ENTRIES, **values, after_entry_id=after.thread_uid.removeprefix(kept.PLACE), most=most)
    return [ThreadPlace(Scope(*row[:3]), kept.place_of(row[3])) for row in rows]


async def threads_after(tx: Tx, after: ThreadPlace, most: int) -> list[ThreadPlace]:
    """The next threads behind ``after``, all scopes in one order."""
    values = {f"after_{name}": value for name, value in of_thread(after.scope, after.thread_uid).items()}
    return [ThreadPlace(Scope(*row[:3]), row[3]) for row in await tx.all(_THREADS, **values, most=most)]


async def seqs_after(tx: Tx, place: ThreadPlace, after: int, most: int) -> list[int]:
    """The next seqs behind ``after`` of a thread's visible messages."""
    rows = await tx.all(_SEQS, **of_thread(place.scope, place.thread_uid), after_seq=after, most=most)
    return [row[0] for row in rows]


async def count_messages(tx: Tx) -> int:
    """How many visible messages there are in all scopes."""
    row = await tx.one(_COUNT)
    return int(row[0]) if row else 0
