"""The last turn of a thread: what the user said last, and what followed it."""

from sqlalchemy import select

from layerlore.storage.core.damaged_values import object_of
from layerlore.storage.core.records import Message, Scope, Thread
from layerlore.storage.core.scopes import in_thread, of_thread
from layerlore.storage.core.tables import events
from layerlore.storage.core.transaction import Row, Tx
from layerlore.storage.messages import windows

_PAGE = 50
_ADDED = (
    select(events.c.payload).where(in_thread(events), events.c.type == "messages_added").order_by(events.c.seq.desc())
)


def is_said_by_user(message: Message) -> bool:
    """Whether the user wrote it: what holds nothing but tool results says nothing."""
    return message.role == "user" and any(part["type"] != "tool_result" for part in message.parts)


async def find_last_said(tx: Tx, scope: Scope, thread: Thread) -> Message | None:
    """The newest message that the user wrote; None where there is none."""
    found = await windows.latest_from_user(tx, scope, thread)
    if found is None or is_said_by_user(found):
        return found
    before = found.seq
    while page := await windows.newest(tx, scope, thread, most=_PAGE, before=before):
        for message in reversed(page):
            if is_said_by_user(message):
                return message
        before = page[0].seq
    return None


async def find_begin(tx: Tx, scope: Scope, thread: Thread, said: Message) -> int:
    """The seq where the turn begins in which the user said something: with the first of the messages of the user that
    came in one call, one after the other."""
    together = await _find_added_with(tx, scope, thread, said.seq)
    begin = said.seq
    while begin > min(together) and (page := await windows.newest(tx, scope, thread, most=_PAGE, before=begin)):
        for message in reversed(page):
            if message.seq not in together or not is_said_by_user(message):
                return begin
            begin = message.seq
    return begin


async def _find_added_with(tx: Tx, scope: Scope, thread: Thread, seq: int) -> set[int]:
    """The seqs of the messages that were added in one call with this one, as the log says; else its own."""
    found = {seq}

    def take(row: Row) -> bool:
        seqs = object_of(row[0]).get("seqs")
        if isinstance(seqs, list) and seq in seqs:
            found.update(seqs)
        return len(found) == 1

    await tx.each(_ADDED, take, **of_thread(scope, thread.thread_uid))
    return found
