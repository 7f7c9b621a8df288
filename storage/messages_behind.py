"""The visible messages behind a cursor: all of them, or what users and assistants said."""

from sqlalchemy import bindparam, or_, select

from layerlore.storage.messages import COLUMNS, read
from layerlore.storage.records import Message, Scope, Thread
from layerlore.storage.scoping import in_thread, of_thread
from layerlore.storage.tables import messages
from layerlore.storage.transaction import Tx

_ALL = (
    select(*COLUMNS)
    .where(in_thread(messages), messages.c.deletion_uid.is_(None), messages.c.seq <= bindparam("upto"))
    .limit(bindparam("most"))
)
_behind = messages.c.seq > bindparam("after")
_spoken = or_(messages.c.role == "user", messages.c.role == "assistant")
_BETWEEN = _ALL.where(_behind).order_by(messages.c.seq)
_SPOKEN = _BETWEEN.where(_spoken)
_SPOKEN_BEFORE = _ALL.where(_spoken).order_by(messages.c.seq.desc())


async def between(tx: Tx, scope: Scope, thread: Thread, *, after: int, upto: int, most: int) -> list[Message]:
    """The first ``most`` messages with a seq above ``after`` and not above ``upto``, in order."""
    of = of_thread(scope, thread.thread_uid)
    return await read(tx, _BETWEEN, thread.thread_id, **of, after=after, upto=upto, most=most)


async def spoken(tx: Tx, scope: Scope, thread: Thread, *, after: int, upto: int, most: int) -> list[Message]:
    """The same of those of user and assistant."""
    of = of_thread(scope, thread.thread_uid)
    return await read(tx, _SPOKEN, thread.thread_id, **of, after=after, upto=upto, most=most)


async def spoken_before(tx: Tx, scope: Scope, thread: Thread, *, upto: int, most: int) -> list[Message]:
    """The last ``most`` of user and assistant with a seq not above ``upto``, in order."""
    of = of_thread(scope, thread.thread_uid)
    return (await read(tx, _SPOKEN_BEFORE, thread.thread_id, **of, upto=upto, most=most))[::-1]
