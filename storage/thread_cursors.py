"""How far a thread's messages were taken in by each kind of background work that reads it turn by turn."""

from functools import cache
from typing import Literal

from sqlalchemy import Select, Update, bindparam, select, update

from layerlore.storage.records import Scope
from layerlore.storage.scoping import in_thread, of_thread
from layerlore.storage.tables import threads
from layerlore.storage.transaction import Tx

Cursor = Literal["entries_seq", "profile_seq", "session_seq"]


@cache
def _read(cursor: Cursor) -> Select[tuple[int]]:
    return select(threads.c[cursor]).where(in_thread(threads))


@cache
def _move(cursor: Cursor) -> Update:
    column = threads.c[cursor]
    return (
        update(threads).where(in_thread(threads), column <= bindparam("new_seq")).values({column: bindparam("new_seq")})
    )


async def read(tx: Tx, scope: Scope, thread_uid: str, cursor: Cursor) -> int:
    """The seq up to which it was done; 0 for a thread that is not there."""
    row = await tx.one(_read(cursor), **of_thread(scope, thread_uid))
    return int(row[0]) if row else 0


async def move(tx: Tx, scope: Scope, thread_uid: str, cursor: Cursor, seq: int) -> None:
    """Move it on, never back; the transaction holds the thread."""
    await tx.run(_move(cursor), **of_thread(scope, thread_uid), new_seq=seq)
