"""Titles that nobody gave: made once, of a thread whose title no caller ever set or removed."""

from sqlalchemy import bindparam, update

from layerlore.storage.records import Scope
from layerlore.storage.scoping import in_thread, of_thread
from layerlore.storage.tables import threads
from layerlore.storage.transaction import Tx

# When the thread was last used stays: lists are sorted by that.
_PUT = (
    update(threads)
    .where(in_thread(threads), threads.c.title.is_(None), threads.c.title_by.is_(None))
    .values(title=bindparam("new_title"), title_by=bindparam("new_title_by"))
)


async def put(tx: Tx, scope: Scope, thread_uid: str, title: str, *, by: str) -> bool:
    """Give the thread a title, if it has none and no caller wanted it so; ``by`` is the model, or ``extractive``. The
    transaction holds the thread. Returns whether it was given."""
    return await tx.run(_PUT, **of_thread(scope, thread_uid), new_title=title, new_title_by=by) == 1
