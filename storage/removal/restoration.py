"""What was deleted: listed, restored, and, when its time has passed, erased for good."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, Literal

from sqlalchemy import bindparam, delete, select, update

from layerlore.storage.core import installation, resource_lock
from layerlore.storage.core.errors import Conflict, NotFound
from layerlore.storage.core.records import CUSTOM, Message, Scope, SearchText, Thread
from layerlore.storage.core.scopes import in_scope, in_thread, of_scope, of_thread, same_thread
from layerlore.storage.core.statements import any_of
from layerlore.storage.core.tables import deletions, idempotency, messages
from layerlore.storage.core.tables import threads as threads_table
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import derivations, entries, notes, observation_sources, version_sources
from layerlore.storage.index import lexical
from layerlore.storage.jobs import jobs
from layerlore.storage.messages import orphans
from layerlore.storage.messages.messages import COLUMNS, read
from layerlore.storage.removal import acts
from layerlore.storage.removal.deletions import CHANGE_COUNTS, ERASE_THREAD, raw_tokens
from layerlore.storage.threads import threads


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
    .where(in_scope(deletions), deletions.c.deleted_at > 0)  # at 0: what is being erased
    .order_by(deletions.c.deleted_at.desc(), deletions.c.deletion_uid.desc())
)
_DELETION = _DELETIONS.where(deletions.c.deletion_uid == bindparam("deletion_uid")).with_for_update(of=deletions)
_HOLD = (
    select(deletions.c.deletion_uid)
    .where(in_scope(deletions), any_of(deletions.c.deletion_uid, "uids"))
    .order_by(deletions.c.deletion_uid)
    .with_for_update()
)
_FORGET = delete(deletions).where(in_scope(deletions), deletions.c.deletion_uid == bindparam("deletion_uid"))

_visible = messages.c.deletion_uid.is_(None)
_ALL = select(*COLUMNS).where(in_thread(messages), _visible).order_by(messages.c.seq)
_HIDDEN_SEQS = select(messages.c.seq).where(in_thread(messages), messages.c.deletion_uid == bindparam("deletion_uid"))
_BY_SEQS = _ALL.where(any_of(messages.c.seq, "seqs"))
_MOVE = (
    update(messages)
    .where(in_thread(messages), any_of(messages.c.seq, "seqs"))
    .values(deletion_uid=bindparam("new_deletion_uid"))
)
_SHOW_THREAD = update(threads_table).where(in_thread(threads_table)).values(deletion_uid=None)


async def list_deletions(tx: Tx, scope: Scope) -> list[Deletion]:
    """The deletes of a scope that can still be undone, newest first."""
    return [Deletion(*row) for row in await tx.all(_DELETIONS, **of_scope(scope))]


async def hold(tx: Tx, scope: Scope, deletion_uids: Collection[str]) -> None:
    """Hold these deletes until the transaction ends: who undoes several does so before anything else."""
    await tx.all(_HOLD, **of_scope(scope), uids=list(deletion_uids))


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
        shown = await read(tx, _ALL, thread.thread_id, **of)
        await derivations.thread_came_back(tx, scope, thread, since=deletion.deleted_at, now=now)
    else:
        thread = await _thread_of(tx, scope, deletion)
        shown, hidden = await _show(tx, scope, thread, deletion_uid, search_text, now)
        tokens = sum(message.tokens for message in shown) - sum(message.tokens for message in hidden)
        raw = raw_tokens(shown, thread) - raw_tokens(hidden, thread)
        changed = [message.seq for message in (*shown, *hidden)]
        await observation_sources.changed(tx, scope, thread.thread_uid, changed, now=now)
        await derivations.come_back(tx, scope, thread, changed, now=now)
        more = sum(message.role != CUSTOM for message in shown) - len(hidden)
        await tx.run(CHANGE_COUNTS, **of, more_messages=more, more_tokens=tokens, more_raw=raw, now=now)
    await orphans.index_again(tx, scope, thread, shown, search_text)
    await notes.refresh(tx, scope, thread.thread_uid, search_text)
    sourced = await entries.sourced_from(tx, scope, thread.thread_uid)
    await resource_lock.hold(tx, scope)
    await notes.refresh_document(tx, scope, None, search_text)
    if sourced:
        await entries.hide_unseen(tx, scope, sourced)
        await entries.show_seen(tx, scope, sourced, search_text)
    await tx.run(_FORGET, **of_scope(scope), deletion_uid=deletion_uid)
    await acts.mark_restored(tx, scope, deletion_uid, now=now)
    # Halves of tool calls may have gone over to this delete since, or to another one by its undoing.
    return replace(deletion, message_count=len(shown))


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


async def _show(
    tx: Tx, scope: Scope, thread: Thread, deletion_uid: str, search_text: SearchText, now: int
) -> tuple[list[Message], list[Message]]:
    """Show what a delete hid, less the halves of tool calls whose other half is still deleted. A message that holds
    nothing else now belongs to the delete that hid the other half. Returns the messages that are there again, and
    those that were there before and are no more."""
    of = of_thread(scope, thread.thread_uid)
    seqs = await tx.scalars(_HIDDEN_SEQS, **of, deletion_uid=deletion_uid)
    await tx.run(_MOVE, **of, seqs=seqs, new_deletion_uid=None)
    emptied = await orphans.settle(tx, scope, thread, (), search_text, now=now)
    for half in emptied:
        await tx.run(_MOVE, **of, seqs=[half.message.seq], new_deletion_uid=half.deletion_uid)
    hidden = [half.message for half in emptied if half.message.seq not in seqs]
    await lexical.remove(tx, scope, thread.thread_uid, [message.seq for message in hidden])
    return await read(tx, _BY_SEQS, thread.thread_id, **of, seqs=seqs), hidden


_EXPIRED = (
    select(deletions.c.thread_uid, deletions.c.deletion_uid, deletions.c.kind)
    .where(in_scope(deletions), deletions.c.deleted_at < bindparam("before"), deletions.c.deleted_at > 0)
    .order_by(deletions.c.deleted_at)
    .limit(bindparam("most"))
    # A delete that is being undone meanwhile is left alone.
    .with_for_update(skip_locked=True)
)
_ERASE_DELETED_THREAD = ERASE_THREAD.where(threads_table.c.deletion_uid == bindparam("deletion_uid"))
_ERASE_ANSWERS = delete(idempotency).where(in_scope(idempotency), idempotency.c.created_at < bindparam("before"))


async def erase_expired(tx: Tx, scope: Scope, *, deleted_before: int, answered_before: int, most: int = 100) -> int:
    """Erase at most ``most`` deletes older than ``deleted_before``, and answers kept for repeated requests older than
    ``answered_before`` (both milliseconds since 1970). Returns how many deletes were erased."""
    expired = await tx.all(_EXPIRED, **of_scope(scope), before=deleted_before, most=most)
    for thread_uid, deletion_uid, kind in expired:
        of = of_thread(scope, thread_uid)
        if kind == "thread":
            await jobs.forget_thread(tx, scope, thread_uid)
            await version_sources.erase_of_thread(tx, scope, thread_uid)
            await tx.run(_ERASE_DELETED_THREAD, **of, deletion_uid=deletion_uid)
        else:
            await orphans.erase(tx, scope, thread_uid, deletion_uid)
        await entries.erase_unsourced(tx, scope)
        await tx.run(_FORGET, **of_scope(scope), deletion_uid=deletion_uid)
    await tx.run(_ERASE_ANSWERS, **of_scope(scope), before=answered_before)
    if expired:
        await installation.owe_rewrite(tx)
    return len(expired)
