"""What was deleted: listed, restored, and, when its time has passed, erased for good."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import and_, bindparam, delete, select, update

from memstrata.storage import threads
from memstrata.storage.deletions import (
    CHANGE_COUNTS,
    ERASE_THREAD,
    WITH_TOOLS,
    SearchText,
    hidden_calls_of,
    index_again,
    set_hidden_calls,
)
from memstrata.storage.errors import Conflict, NotFound
from memstrata.storage.messages import COLUMNS, message_of
from memstrata.storage.records import Message, Scope, Thread
from memstrata.storage.scoping import in_scope, in_thread, of_scope, of_thread, same_thread
from memstrata.storage.tables import deletions, idempotency, messages
from memstrata.storage.tables import threads as threads_table
from memstrata.storage.tool_pairs import call_ids, result_ids
from memstrata.storage.transaction import Tx


@dataclass(frozen=True, slots=True)
class Deletion:
    """One delete that can still be undone."""

    deletion_uid: str
    thread_uid: str
    thread_id: str
    kind: Literal["messages", "thread"]
    message_count: int
    deleted_at: int


_DELETIONS = (
    select(
        deletions.c.deletion_uid,
        deletions.c.thread_uid,
        threads_table.c.thread_id,
        deletions.c.kind,
        deletions.c.message_count,
        deletions.c.deleted_at,
    )
    .join_from(deletions, threads_table, same_thread(deletions, threads_table))
    .where(in_scope(deletions))
    .order_by(deletions.c.deleted_at.desc(), deletions.c.deletion_uid.desc())
)
_DELETION = _DELETIONS.where(deletions.c.deletion_uid == bindparam("deletion_uid"))
_FORGET = delete(deletions).where(in_scope(deletions), deletions.c.deletion_uid == bindparam("deletion_uid"))

_visible = messages.c.deletion_uid.is_(None)
_ALL = select(*COLUMNS).where(in_thread(messages), _visible).order_by(messages.c.seq)
_HIDDEN = select(*COLUMNS).where(in_thread(messages), messages.c.deletion_uid == bindparam("deletion_uid"))
_SHOW = (
    update(messages)
    .where(in_thread(messages), messages.c.deletion_uid == bindparam("old_deletion_uid"))
    .values(deletion_uid=None)
)
_SHOW_THREAD = update(threads_table).where(in_thread(threads_table)).values(deletion_uid=None)


async def listed(tx: Tx, scope: Scope) -> list[Deletion]:
    """The deletes of a scope that can still be undone, newest first."""
    return [Deletion(*row) for row in await tx.all(_DELETIONS, **of_scope(scope))]


async def restore(tx: Tx, scope: Scope, deletion_uid: str, *, now: int, search_text: SearchText) -> Deletion:
    """Undo one delete: what it hid is there again, and found again.

    Raises NotFound for an unknown or erased delete, Conflict while another thread has the deleted thread's name, or
    while the thread itself is deleted.
    """
    row = await tx.one(_DELETION, **of_scope(scope), deletion_uid=deletion_uid)
    if row is None:
        raise NotFound(f"there is no delete {deletion_uid!r} to undo: it is unknown, undone, or erased for good")
    deletion = Deletion(*row)
    of = of_thread(scope, deletion.thread_uid)
    if deletion.kind == "thread":
        thread = await _restore_thread(tx, scope, deletion, of)
        shown = [message_of(thread.thread_id, row) for row in await tx.all(_ALL, **of)]
    else:
        thread = await _thread_of(tx, scope, deletion)
        hidden = await tx.all(_HIDDEN, **of, deletion_uid=deletion_uid)
        await tx.run(_SHOW, **of, old_deletion_uid=deletion_uid)
        tokens = sum(message_of(thread.thread_id, row).tokens for row in hidden)
        await tx.run(CHANGE_COUNTS, **of, more_messages=len(hidden), more_tokens=tokens, now=now)
        shown = await _show_partners(tx, of, thread, [message_of(thread.thread_id, row).seq for row in hidden])
    await index_again(tx, scope, thread, shown, search_text)
    await tx.run(_FORGET, **of_scope(scope), deletion_uid=deletion_uid)
    return deletion


async def _restore_thread(tx: Tx, scope: Scope, deletion: Deletion, of: dict[str, Any]) -> Thread:
    try:
        await threads.find(tx, scope, deletion.thread_id)
    except NotFound:
        await tx.run(_SHOW_THREAD, **of)
        return await threads.lock(tx, scope, deletion.thread_id)
    raise Conflict(
        f"a thread {deletion.thread_id!r} was made again since this one was deleted; delete or rename that one first"
    )


async def _thread_of(tx: Tx, scope: Scope, deletion: Deletion) -> Thread:
    try:
        thread = await threads.lock(tx, scope, deletion.thread_id)
    except NotFound:
        thread = None
    if thread is None or thread.thread_uid != deletion.thread_uid:
        raise Conflict(f"thread {deletion.thread_id!r}, which these messages belong to, is deleted: restore it first")
    return thread


async def _show_partners(tx: Tx, of: dict[str, Any], thread: Thread, seqs: Sequence[int]) -> list[Message]:
    """Show tool calls and results again whose other half is back. Returns every message that changed."""
    rows = await tx.all(WITH_TOOLS, **of)
    everything = {row[0]: message_of(thread.thread_id, [*row[:5], None, *row[6:]]) for row in rows}
    changed = set(seqs)
    for row in rows:
        hidden = hidden_calls_of(row)
        if not hidden:
            continue
        others = [message.parts for seq, message in everything.items() if seq != row[0]]
        there = {id_ for parts in others for id_ in call_ids(parts) | result_ids(parts)}
        still = [id_ for id_ in hidden if id_ not in there]
        if still != hidden:
            await set_hidden_calls(tx, of, row[0], still)
            changed.add(row[0])
    return [message_of(thread.thread_id, row) for row in await tx.all(_ALL, **of) if row[0] in changed]


_EXPIRED = (
    select(
        deletions.c.tenant_id,
        deletions.c.agent_id,
        deletions.c.resource_id,
        deletions.c.thread_uid,
        deletions.c.deletion_uid,
        deletions.c.kind,
    )
    .where(deletions.c.deleted_at < bindparam("before"))
    .order_by(deletions.c.deleted_at)
    .limit(bindparam("most"))
)
_ERASE = delete(messages).where(in_thread(messages), messages.c.deletion_uid == bindparam("deletion_uid"))
_ERASE_ANSWERS = delete(idempotency).where(and_(idempotency.c.created_at < bindparam("before")))


async def erase_expired(tx: Tx, *, deleted_before: int, answered_before: int, most: int = 100) -> int:
    """Erase, for all tenants, at most ``most`` deletes older than ``deleted_before``, and answers kept for repeated
    requests older than ``answered_before`` (both milliseconds since 1970). Returns how many deletes were erased."""
    expired = await tx.all(_EXPIRED, before=deleted_before, most=most)
    for tenant_id, agent_id, resource_id, thread_uid, deletion_uid, kind in expired:
        scope = Scope(tenant_id, agent_id, resource_id)
        of = of_thread(scope, thread_uid)
        if kind == "thread":
            await tx.run(ERASE_THREAD, **of)
        else:
            await tx.run(_ERASE, **of, deletion_uid=deletion_uid)
        await tx.run(_FORGET, **of_scope(scope), deletion_uid=deletion_uid)
    await tx.run(_ERASE_ANSWERS, before=answered_before)
    return len(expired)
