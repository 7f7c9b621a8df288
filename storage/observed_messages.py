"""The messages that are still to be noted."""

from sqlalchemy import bindparam, select

from memstrata.storage.messages import COLUMNS, message_of
from memstrata.storage.records import Message, Scope, Thread
from memstrata.storage.scoping import in_thread, of_thread
from memstrata.storage.tables import messages
from memstrata.storage.transaction import Tx

_visible = messages.c.deletion_uid.is_(None)
_BETWEEN = (
    select(*COLUMNS)
    .where(in_thread(messages), _visible, messages.c.seq > bindparam("after"), messages.c.seq <= bindparam("upto"))
    .order_by(messages.c.seq)
    .limit(bindparam("most"))
)


async def between(tx: Tx, scope: Scope, thread: Thread, *, after: int, upto: int, most: int) -> list[Message]:
    """The first ``most`` messages with a seq above ``after`` and not above ``upto``, in order."""
    of = of_thread(scope, thread.thread_uid)
    rows = await tx.all(_BETWEEN, **of, after=after, upto=upto, most=most)
    return [message_of(thread.thread_id, row) for row in rows]
