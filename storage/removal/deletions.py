"""Deletions: hidden at once, listed, restorable for a while, then erased for good."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from sqlalchemy import bindparam, delete, insert, select, update

from layerlore.storage.core import installation, linear_re, scopes
from layerlore.storage.core.errors import Conflict, InvalidInput, NotFound
from layerlore.storage.core.records import CUSTOM, Message, Scope, SearchText, Thread
from layerlore.storage.core.scopes import in_scope, in_thread, of_scope, of_thread, same_thread
from layerlore.storage.core.statements import any_of, parameters
from layerlore.storage.core.tables import deletions, idempotency, messages
from layerlore.storage.core.tables import threads as threads_table
from layerlore.storage.core.tables.columns import SCOPE
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import derivations, entries, note_rows, observations, working_memory
from layerlore.storage.index import lexical
from layerlore.storage.jobs import job_rows
from layerlore.storage.jobs.job_rows import Kind
from layerlore.storage.messages import orphans, windows
from layerlore.storage.messages.message_rows import COLUMNS, read
from layerlore.storage.removal import acts
from layerlore.storage.threads import threads

Which = Literal["last_turn", "all", "ids"]

_NUMBER = linear_re.compile(r"#[1-9][0-9]{0,17}")
_visible = messages.c.deletion_uid.is_(None)
_ALL = select(*COLUMNS).where(in_thread(messages), _visible).order_by(messages.c.seq)
BY_IDS = _ALL.where(any_of(messages.c.id, "ids"))
_BY_SEQS = _ALL.where(any_of(messages.c.seq, "seqs"))
_FROM = _ALL.where(messages.c.seq >= bindparam("from_seq"))

HIDE = (
    update(messages)
    .where(in_thread(messages), any_of(messages.c.seq, "seqs"))
    .values(deletion_uid=bindparam("new_deletion_uid"))
)
CHANGE_COUNTS = threads.totals_change(
    {
        "message_count": threads_table.c.message_count + bindparam("more_messages"),
        "token_count": threads_table.c.token_count + bindparam("more_tokens"),
        "raw_tokens": threads_table.c.raw_tokens + bindparam("more_raw"),
        "updated_at": bindparam("now"),
    }
)
_HIDE_THREAD = update(threads_table).where(in_thread(threads_table)).values(deletion_uid=bindparam("new_deletion_uid"))
ERASE_THREAD = delete(threads_table).where(in_thread(threads_table))
_RECORD = insert(deletions).values(
    **parameters(*SCOPE, "deletion_uid", "thread_uid", "kind", "message_count", "deleted_at")
)


@dataclass(frozen=True, slots=True)
class DeleteResult:
    """The rows that a delete hid; ``deletion_uid`` restores it, unless it was erased at once or nothing was there."""

    thread: Thread
    messages: list[Message]
    deletion_uid: str | None
    fell_back: frozenset[Kind] = frozenset()
    """The kinds that lost content made from the messages: ``profile``, ``session_memory`` or ``title``."""
    entries: Sequence[str] = ()
    """Ids of the entries that rested on the messages."""


async def delete_messages(
    tx: Tx,
    scope: Scope,
    thread_id: str,
    which: Which,
    *,
    ids: Collection[str],
    roles: Collection[str],
    deletion_uid: str,
    erase: bool,
    now: int,
    search_text: SearchText,
) -> DeleteResult:
    """Hide (or, with ``erase``, remove for good) messages of a thread, narrowed to the roles.

    ``last_turn`` is what the user said last, in one message or several of one call, and all that followed. A tool call whose result goes, or a result whose
    call goes, goes too: its whole message if nothing else is in it, else that part of it.

    Raises NotFound for an unknown thread or id, InvalidInput without a turn to delete.
    """
    thread = await threads.lock(tx, scope, thread_id)
    of = of_thread(scope, thread.thread_uid)
    gone = [message for message in await _chosen(tx, scope, thread, which, ids) if message.role in roles]
    if not gone:
        return DeleteResult(thread, [], None)
    emptied = await orphans.settle(tx, scope, thread, {message.seq for message in gone}, search_text, now=now)
    gone += [half.message for half in emptied]
    seqs = [message.seq for message in gone]
    # Nothing is made of what only a user interface shows.
    told = [message.seq for message in gone if message.role != CUSTOM]
    # Read before the messages go, since an erasure takes the sources along.
    sourced = await entries.sourced_from(tx, scope, thread.thread_uid, told)
    stood = await derivations.standing(tx, scope, thread, told)
    await lexical.remove(tx, scope, thread.thread_uid, seqs)
    again = await derivations.drop(tx, scope, thread, told) + await derivations.drop_title(tx, scope, thread, told)
    await tx.run(HIDE, **of, seqs=seqs, new_deletion_uid=deletion_uid)
    if erase:
        await orphans.erase(tx, scope, thread.thread_uid, deletion_uid)
        await installation.owe_rewrite(tx)
    else:
        await tx.run(_RECORD, **of, deletion_uid=deletion_uid, kind="messages", message_count=len(gone), deleted_at=now)
    await entries.drop_sources(tx, scope, sourced, erased=erase)
    # Other messages may say the same as the entry, so they are read again.
    if sourced and len(await entries.read_seen(tx, scope, sourced)) < len(sourced):
        again.append((thread.thread_uid, "entries", min(told)))
    await observations.changed(tx, scope, thread.thread_uid, seqs, now=now)
    again += await derivations.fallen(tx, scope, thread, stood)
    # After the fall back, so that the index has the versions that are the newest now.
    await note_rows.refresh(tx, scope, thread.thread_uid, search_text, note_rows.OF_MESSAGES)
    await note_rows.refresh_document(tx, scope, None, search_text)
    await derivations.do_again(tx, scope, again, now=now)
    # A job under way has read the deleted messages, so its result must not be stored.
    await job_rows.fence_off(tx, scope, now=now)
    tokens, raw = sum(message.tokens for message in gone), raw_tokens(gone, thread)
    await tx.run(CHANGE_COUNTS, **of, more_messages=-len(told), more_tokens=-tokens, more_raw=-raw, now=now)
    after = await threads.find(tx, scope, thread_id)
    fell_back = frozenset(kind for _, kind, _ in again)
    in_order = sorted(gone, key=lambda message: message.seq)
    return DeleteResult(after, in_order, None if erase else deletion_uid, fell_back, sourced)


def raw_tokens(found: Sequence[Message], thread: Thread) -> int:
    """Tokens of those messages that no active observation covers."""
    return sum(message.tokens for message in found if message.seq > thread.observed_seq)


async def _chosen(tx: Tx, scope: Scope, thread: Thread, which: Which, ids: Collection[str]) -> list[Message]:
    of, thread_id = of_thread(scope, thread.thread_uid), thread.thread_id
    if which == "all":
        return await read(tx, _ALL, thread_id, **of)
    if which == "ids":
        found = await read(tx, BY_IDS, thread_id, **of, ids=list(ids))
        unknown = sorted(set(ids) - {message.id for message in found})
        # A model that reads lines knows a message by its number.
        if seqs := [int(each[1:]) for each in unknown if _NUMBER.fullmatch(each)]:
            numbered = await read(tx, _BY_SEQS, thread_id, **of, seqs=seqs)
            unknown = sorted(set(unknown) - {f"#{message.seq}" for message in numbered})
            found = sorted(
                {message.seq: message for message in (*found, *numbered)}.values(), key=lambda each: each.seq
            )
        if unknown:
            names = ", ".join(map(repr, unknown[:5]))
            raise NotFound(f"thread {thread_id!r} has no message {names}; nothing was deleted")
        return found
    said = await windows.find_last_said(tx, scope, thread)
    if said is None:
        raise InvalidInput(
            f"thread {thread_id!r} has no user message, so no last turn; which='ids' or which='all' delete without one"
        )
    begin = await windows.find_begin(tx, scope, thread, said)
    return await read(tx, _FROM, thread_id, **of, from_seq=begin)


async def delete_thread(
    tx: Tx, scope: Scope, thread_id: str, *, deletion_uid: str, erase: bool, now: int
) -> DeleteResult:
    """Hide (or, with ``erase``, remove for good) a thread and everything that hangs on it. Raises NotFound.

    Its name is free at once: a thread made under it is another one. A caller refreshes the profile's notes.
    """
    thread = await threads.lock(tx, scope, thread_id)
    of = of_thread(scope, thread.thread_uid)
    sourced = await entries.sourced_from(tx, scope, thread.thread_uid)
    stood = await derivations.standing(tx, scope, thread, None)
    await lexical.remove_thread(tx, scope, thread.thread_uid)
    # The versions are found through the thread's sources, so they go before its row.
    if erase:
        await working_memory.erase_of_thread(tx, scope, thread.thread_uid)
        await tx.run(ERASE_THREAD, **of)
        await job_rows.forget_thread(tx, scope, thread.thread_uid)
        await installation.owe_rewrite(tx)
    else:
        await tx.run(_HIDE_THREAD, **of, new_deletion_uid=deletion_uid)
        await tx.run(
            _RECORD, **of, deletion_uid=deletion_uid, kind="thread", message_count=thread.message_count, deleted_at=now
        )
    await entries.drop_sources(tx, scope, sourced, erased=erase)
    again = await derivations.fallen(tx, scope, thread, stood)
    await derivations.do_again(tx, scope, again, now=now)
    await job_rows.fence_off(tx, scope, now=now)
    fell_back = frozenset(kind for _, kind, _ in again)
    return DeleteResult(thread, [], None if erase else deletion_uid, fell_back, sourced)


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

_HIDDEN_SEQS = select(messages.c.seq).where(in_thread(messages), messages.c.deletion_uid == bindparam("deletion_uid"))
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
        await observations.changed(tx, scope, thread.thread_uid, changed, now=now)
        await derivations.come_back(tx, scope, thread, changed, now=now)
        more = sum(message.role != CUSTOM for message in shown) - len(hidden)
        await tx.run(CHANGE_COUNTS, **of, more_messages=more, more_tokens=tokens, more_raw=raw, now=now)
    await orphans.index_again(tx, scope, thread, shown, search_text)
    await note_rows.refresh(tx, scope, thread.thread_uid, search_text)
    sourced = await entries.sourced_from(tx, scope, thread.thread_uid)
    # Threads before the resource, as in every transaction: no two then wait for each other.
    await scopes.hold(tx, scope)
    await note_rows.refresh_document(tx, scope, None, search_text)
    if sourced:
        await entries.hide_unseen(tx, scope, sourced)
        await entries.show_seen(tx, scope, sourced, search_text)
    await tx.run(_FORGET, **of_scope(scope), deletion_uid=deletion_uid)
    await acts.mark_restored(tx, scope, deletion_uid, now=now)
    # Halves of tool calls may have gone over to this delete since, or to another one by its undoing.
    return replace(deletion, message_count=len(shown))


async def _restore_thread(tx: Tx, scope: Scope, deletion: Deletion, of: dict[str, Any]) -> Thread:
    try:
        # The name has to be free: a live thread under it would make two.
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
    # All are shown first: only then do the halves that are left alone show.
    await tx.run(_MOVE, **of, seqs=seqs, new_deletion_uid=None)
    emptied = await orphans.settle(tx, scope, thread, (), search_text, now=now)
    for half in emptied:
        await tx.run(_MOVE, **of, seqs=[half.message.seq], new_deletion_uid=half.deletion_uid)
    hidden = [half.message for half in emptied if half.message.seq not in seqs]
    await lexical.remove(tx, scope, thread.thread_uid, [message.seq for message in hidden])
    return await read(tx, _BY_SEQS, thread.thread_id, **of, seqs=seqs), hidden


_EXPIRED = (
    select(deletions.c.thread_uid, deletions.c.deletion_uid, deletions.c.kind)
    # At 0 are the marks of an erasure, which takes them away itself.
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
            await job_rows.forget_thread(tx, scope, thread_uid)
            await working_memory.erase_of_thread(tx, scope, thread_uid)
            await tx.run(_ERASE_DELETED_THREAD, **of, deletion_uid=deletion_uid)
        else:
            await orphans.erase(tx, scope, thread_uid, deletion_uid)
        await entries.erase_unsourced(tx, scope)
        await tx.run(_FORGET, **of_scope(scope), deletion_uid=deletion_uid)
    await tx.run(_ERASE_ANSWERS, **of_scope(scope), before=answered_before)
    if expired:
        await installation.owe_rewrite(tx)
    return len(expired)
