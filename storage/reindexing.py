"""Index rows made anew from their messages and entries, after the rules that make the indexed text have changed."""

from collections.abc import Sequence

from sqlalchemy import select

from layerlore.storage import entries, orphans, resources, threads
from layerlore.storage.messages import COLUMNS, read
from layerlore.storage.records import Scope, SearchText
from layerlore.storage.scoping import in_thread, of_thread
from layerlore.storage.statements import any_of
from layerlore.storage.tables import messages
from layerlore.storage.transaction import Tx

_BY_SEQS = (
    select(*COLUMNS)
    .where(in_thread(messages), messages.c.deletion_uid.is_(None), any_of(messages.c.seq, "seqs"))
    .order_by(messages.c.seq)
)


async def rebuild(tx: Tx, scope: Scope, thread_uid: str, seqs: Sequence[int], search_text: SearchText) -> int:
    """Index the visible messages at these places of a thread, or an entry, anew; counts them. 0 for a thread that is
    deleted."""
    if thread_uid.startswith(entries.PLACE):
        await resources.hold(tx, scope)
        return await entries.index_anew(tx, scope, thread_uid.removeprefix(entries.PLACE), search_text)
    thread = await threads.lock_uid(tx, scope, thread_uid)
    if thread is None:
        return 0
    of = of_thread(scope, thread_uid)
    found = await read(tx, _BY_SEQS, thread.thread_id, **of, seqs=[int(seq) for seq in seqs])
    await orphans.index_again(tx, scope, thread, found, search_text)
    return len(found)
