"""Halves of tool calls whose other half was deleted, and messages added beside deleted ones."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from sqlalchemy import bindparam, delete, or_, select, update

from layerlore.storage.core.errors import Conflict
from layerlore.storage.core.json_text import list_of, parts_of, to_json
from layerlore.storage.core.records import CUSTOM, Draft, Json, Message, Origin, Scope, SearchText, Thread
from layerlore.storage.core.scopes import in_thread, of_thread
from layerlore.storage.core.statements import any_of
from layerlore.storage.core.tables import deletions
from layerlore.storage.core.tables import messages as messages_table
from layerlore.storage.core.transaction import Row, Tx
from layerlore.storage.derived import observations, working_memory
from layerlore.storage.index import lexical
from layerlore.storage.messages import message_pages, message_rows
from layerlore.storage.messages import message_rows as erased_ids
from layerlore.storage.messages.message_rows import (
    COLUMNS,
    AppendResult,
    MessageRow,
    call_ids,
    message_of,
    orphans,
    result_ids,
    without,
)

# Deleted ones too: they show which halves are gone.
_WITH_TOOLS = (
    select(*COLUMNS, messages_table.c.deletion_uid)
    .where(
        in_thread(messages_table),
        or_(messages_table.c.parts.like('%"tool_call%'), messages_table.c.parts.like('%"tool_result%')),
    )
    .order_by(messages_table.c.seq)
)
_HIDE_CALLS = (
    update(messages_table)
    .where(in_thread(messages_table), messages_table.c.seq == bindparam("at_seq"))
    .values(hidden_calls=bindparam("new_hidden_calls"))
)
_STRIP = _HIDE_CALLS.values(parts=bindparam("new_parts"))
_ERASE_DELETION = delete(messages_table).where(
    in_thread(messages_table), messages_table.c.deletion_uid == bindparam("deletion_uid")
)
_GO_WITH = (
    update(messages_table)
    .where(in_thread(messages_table), any_of(messages_table.c.seq, "seqs"))
    .values(deletion_uid=bindparam("deletion_uid"))
)


class _WithTools(NamedTuple):
    """A message with halves of tool calls; ``row`` has COLUMNS."""

    seq: int
    row: Row
    parts: list[Json]
    hidden: set[str]
    deletion_uid: str | None


async def _with_tools(tx: Tx, of: dict[str, Any]) -> list[_WithTools]:
    found: list[_WithTools] = []
    for *row, deletion_uid in await tx.all(_WITH_TOOLS, **of):
        stored = MessageRow._make(row)
        if stored.hidden_calls:
            hidden = set(list_of(stored.hidden_calls))
        else:
            hidden = set()
        found.append(_WithTools(stored.seq, row, parts_of(stored.parts), hidden, deletion_uid))
    return found


@dataclass(frozen=True, slots=True)
class EmptiedMessage:
    """A visible message that holds nothing but halves whose other half is deleted, and one delete that hid such."""

    message: Message
    deletion_uid: str | None


async def settle(
    tx: Tx, scope: Scope, thread: Thread, gone: Collection[int], search_text: SearchText, *, now: int
) -> list[EmptiedMessage]:
    """Hide the halves whose other half is deleted or in ``gone``, show the others, and index what changed anew.

    Returns the messages, not in ``gone``, of which nothing would be left: they are for the caller to hide.
    """
    of = of_thread(scope, thread.thread_uid)
    found = await _with_tools(tx, of)
    deleted_by: dict[int, str | None] = {each.seq: each.deletion_uid for each in found if each.deletion_uid is not None}
    alone = orphans([(each.seq, each.parts) for each in found], {*deleted_by, *gone})
    emptied: list[EmptiedMessage] = []
    changed: list[int] = []
    for each in found:
        wanted = alone.get(each.seq, {})
        if each.seq in deleted_by or each.seq in gone or each.hidden == set(wanted):
            continue
        message = message_of(thread.thread_id, each.row)
        rest = without(each.parts, wanted)
        if rest:
            await tx.run(_HIDE_CALLS, **of, at_seq=each.seq, new_hidden_calls=_stored(wanted))
            await index_again(tx, scope, thread, [replace(message, parts=rest)], search_text)
            changed.append(each.seq)
        else:
            emptied.append(EmptiedMessage(message, next(filter(None, map(deleted_by.get, wanted.values())), None)))
    await observations.changed(tx, scope, thread.thread_uid, changed, now=now)
    return emptied


async def erase(tx: Tx, scope: Scope, thread_uid: str, deletion_uid: str, *, keeps_versions: bool = False) -> None:
    """Erase the messages that one delete hid, the halves of tool calls elsewhere whose other half they held, and the
    documents that were made from them, unless these stay (``keeps_versions``)."""
    of = of_thread(scope, thread_uid)
    found = await _with_tools(tx, of)
    calls: set[str] = set()
    erased = {each.seq for each in found if each.deletion_uid == deletion_uid}
    if erased:
        alone = orphans([(each.seq, each.parts) for each in found], erased)
    else:
        alone = {}
    for each in found:
        wanted = alone.get(each.seq)
        if not wanted:
            continue
        rest = without(each.parts, wanted)
        if rest:
            calls |= wanted.keys()
            hidden = _stored(each.hidden - wanted.keys())
            await tx.run(_STRIP, **of, at_seq=each.seq, new_parts=to_json(rest), new_hidden_calls=hidden)
        else:
            # Nothing else is in the message, so it goes with the delete that took its other half.
            await tx.run(_GO_WITH, **of, seqs=[each.seq], deletion_uid=deletion_uid)
    if not keeps_versions:
        # The versions are found through the deleted messages, so they go before these.
        await working_memory.erase(tx, scope, thread_uid, deletion_uid)
    await erased_ids.keep_erased_ids(tx, scope, thread_uid, deletion_uid, calls)
    await tx.run(_ERASE_DELETION, **of, deletion_uid=deletion_uid)


async def index_again(
    tx: Tx, scope: Scope, thread: Thread, changed: Sequence[Message], search_text: SearchText
) -> None:
    """Index messages anew, whether or not they are in the index; those of user interfaces never are."""
    changed = [message for message in changed if message.role != CUSTOM]
    changed = await message_pages.attach(tx, scope, thread.thread_uid, changed)
    await lexical.remove(tx, scope, thread.thread_uid, [message.seq for message in changed])
    entries = [
        lexical.IndexEntry(thread.thread_uid, message.seq, message.role, message.said_at, search_text(message))
        for message in changed
    ]
    await lexical.put(tx, scope, entries)


def _stored(hidden_calls: Collection[str]) -> str | None:
    if hidden_calls:
        return to_json(sorted(hidden_calls))
    return None


_ANY_DELETE = select(deletions.c.deletion_uid).where(in_thread(deletions)).limit(1)


async def add_beside_deleted(
    tx: Tx,
    scope: Scope,
    thread_id: str,
    drafts: Sequence[Draft],
    *,
    new_uid: str,
    replace_known: bool,
    now: int,
    search_text: SearchText,
    origin: Origin | None = None,
) -> AppendResult:
    """Append as ``message_rows.append`` does, without leaving a half of a tool call alone.

    Raises Conflict also for a tool result whose call is deleted.
    """
    appended = await message_rows.append(
        tx,
        scope,
        thread_id,
        drafts,
        new_uid=new_uid,
        replace_known=replace_known,
        now=now,
        search_text=search_text,
        origin=origin,
    )
    thread = appended.thread
    if not any(call_ids(draft.parts) | result_ids(draft.parts) for draft in drafts):
        return appended
    # Without a delete in the thread no half can be alone.
    if await tx.one(_ANY_DELETE, **of_thread(scope, thread.thread_uid)) is None:
        return appended
    for half in await settle(tx, scope, thread, (), search_text, now=now):
        ids = ", ".join(sorted(call_ids(half.message.parts) | result_ids(half.message.parts)))
        raise Conflict(
            f"message {half.message.id!r} has nothing but halves of tool calls whose other half is deleted ({ids}): "
            "leave it out, or have the delete undone"
        )
    return appended
