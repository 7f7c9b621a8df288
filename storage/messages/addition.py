"""Messages added to a thread whose other messages may be deleted."""

from collections.abc import Sequence

from sqlalchemy import select

from layerlore.storage.core.errors import Conflict
from layerlore.storage.core.records import Draft, Scope, SearchText
from layerlore.storage.core.scopes import in_thread, of_thread
from layerlore.storage.core.tables import deletions
from layerlore.storage.core.transaction import Tx
from layerlore.storage.messages import messages, orphans
from layerlore.storage.messages.messages import Appended
from layerlore.storage.messages.tool_pairs import call_ids, result_ids

_ANY_DELETE = select(deletions.c.deletion_uid).where(in_thread(deletions)).limit(1)


async def add(
    tx: Tx,
    scope: Scope,
    thread_id: str,
    drafts: Sequence[Draft],
    *,
    new_uid: str,
    replace_known: bool,
    now: int,
    search_text: SearchText,
) -> Appended:
    """``messages.append``, and no half of a tool call is left alone by it.

    Raises Conflict also for a tool result whose call is deleted.
    """
    appended = await messages.append(
        tx,
        scope,
        thread_id,
        drafts,
        new_uid=new_uid,
        replace_known=replace_known,
        now=now,
        search_text=search_text,
    )
    thread = appended.thread
    if not any(call_ids(draft.parts) | result_ids(draft.parts) for draft in drafts):
        return appended
    if await tx.one(_ANY_DELETE, **of_thread(scope, thread.thread_uid)) is None:
        return appended
    for half in await orphans.settle(tx, scope, thread, (), search_text, now=now):
        ids = ", ".join(sorted(call_ids(half.message.parts) | result_ids(half.message.parts)))
        raise Conflict(
            f"message {half.message.id!r} has nothing but halves of tool calls whose other half is deleted ({ids}): "
            "leave it out, or have the delete undone"
        )
    return appended
