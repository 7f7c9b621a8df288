"""How far a thread's messages were looked through for entries, and the spoken ones behind and before that."""

from sqlalchemy import bindparam, or_, select, update

from memstrata.storage.messages import COLUMNS, message_of
from memstrata.storage.records import Message, Scope, Thread
from memstrata.storage.scoping import in_thread, of_thread
from memstrata.storage.tables import messages, threads
from memstrata.storage.transaction import Tx

_CURSOR = select(threads.c.entries_seq).where(in_thread(threads))
_MOVE = (
    update(threads)
    .where(in_thread(threads), threads.c.entries_seq <= bindparam("new_seq"))
    .values(entries_seq=bindparam("new_seq"))
)
_spoken = (
    select(*COLUMNS)
    .where(
        in_thread(messages),
        messages.c.deletion_uid.is_(None),
        or_(messages.c.role == "user", messages.c.role == "assistant"),
    )
    .limit(bindparam("most"))
)
_AFTER = _spoken.where(messages.c.seq > bindparam("after"), messages.c.seq <= bindparam("upto")).order_by(
    messages.c.seq
)
_BEFORE = _spoken.where(messages.c.seq <= bindparam("upto")).order_by(messages.c.seq.desc())


async def read(tx: Tx, scope: Scope, thread_uid: str) -> int:
    """The seq up to which entries were looked for; 0 for a thread that is not there."""
    row = await tx.one(_CURSOR, **of_thread(scope, thread_uid))
    return int(row[0]) if row else 0


async def move(tx: Tx, scope: Scope, thread_uid: str, seq: int) -> None:
    """Move it on, never back; the transaction holds the thread."""
    await tx.run(_MOVE, **of_thread(scope, thread_uid), new_seq=seq)


async def spoken_after(tx: Tx, scope: Scope, thread: Thread, *, after: int, upto: int, most: int) -> list[Message]:
    """The first ``most`` messages of user and assistant with a seq above ``after`` and not above ``upto``, in order."""
    of = of_thread(scope, thread.thread_uid)
    return [message_of(thread.thread_id, row) for row in await tx.all(_AFTER, **of, after=after, upto=upto, most=most)]


async def spoken_before(tx: Tx, scope: Scope, thread: Thread, *, upto: int, most: int) -> list[Message]:
    """The last ``most`` with a seq not above ``upto``, in order."""
    rows = await tx.all(_BEFORE, **of_thread(scope, thread.thread_uid), upto=upto, most=most)
    return [message_of(thread.thread_id, row) for row in reversed(rows)]
