"""The fate of derived rows when their messages are deleted, or come back.

Documents fall back to an earlier version (``version_sources``) and entries hide (``entries``): both are there again when
the messages are. Texts about a run of messages (notes, summaries, observations) go at once, with a title.
All of it is made again from what remains: cursors go back, and the jobs are due again. Jobs that run for the resource
meanwhile are fenced off, since their input may hold a deleted message.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import bindparam, delete, exists, func, select, update

from layerlore.storage.core import scopes
from layerlore.storage.core.records import Scope, Thread
from layerlore.storage.core.scopes import in_scope, in_thread, of_thread
from layerlore.storage.core.statements import any_of
from layerlore.storage.core.tables import document_sources as sources
from layerlore.storage.core.tables import events, messages, session_notes, summaries
from layerlore.storage.core.tables import threads as threads_table
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import working_memory
from layerlore.storage.derived.working_memory import DocumentSource, Version
from layerlore.storage.jobs import job_rows
from layerlore.storage.jobs.job_rows import Kind
from layerlore.storage.threads import threads

PATIENCE_MS = 2_000
"""Milliseconds until the work is due, so that deletes that follow each other share it."""

_CURSORS = {"entries": "entries_seq", "profile": "profile_seq", "session_memory": "session_seq"}
_SET_BACK = {
    kind: update(threads_table)
    .where(in_thread(threads_table), threads_table.c[column] > bindparam("new_seq"))
    .values({column: bindparam("new_seq")})
    for kind, column in _CURSORS.items()
}
_lies = exists().where(in_thread(messages), any_of(messages.c.seq, "seqs"))
_tells = _lies.where(messages.c.seq.between(session_notes.c.from_seq, session_notes.c.to_seq)).correlate(session_notes)
_FIRST_NOTE = select(func.min(session_notes.c.from_seq)).where(in_thread(session_notes), _tells)
_DROP_NOTES_BEHIND = delete(session_notes).where(
    in_thread(session_notes), session_notes.c.to_seq > bindparam("new_seq")
)
_DROP_SUMMARIES = delete(summaries).where(
    in_thread(summaries),
    _lies.where(messages.c.seq.between(summaries.c.from_seq, summaries.c.upto_seq)).correlate(summaries),
)
_FIRST_OF_PROFILE = select(func.min(sources.c.from_seq)).where(
    in_scope(sources), sources.c.thread_uid == "", sources.c.source_thread_uid == bindparam("thread_uid")
)
_CLEAR_TITLE = (
    update(threads_table)
    .where(
        in_thread(threads_table),
        threads_table.c.title_by.is_not(None),
        threads_table.c.title_by != "caller",
        # The job's event names the message that the title was made of.
        exists()
        .where(
            in_thread(events),
            any_of(events.c.message_seq, "seqs"),
            events.c.message_seq.is_not(None),
            events.c.type == "thread_updated",
            events.c.actor == "title",
        )
        .correlate(threads_table),
    )
    .values(title=None, title_by=None)
)


@dataclass(frozen=True, slots=True)
class Document:
    """A document as it is before messages go: its version, and all that this was made from."""

    version: Version
    sources: Sequence[DocumentSource]


@dataclass(frozen=True, slots=True)
class RestingDocuments:
    """The documents that rest on messages which are about to go. None: it does not."""

    session_memory: Document | None
    profile: Document | None


async def standing(tx: Tx, scope: Scope, thread: Thread, seqs: Collection[int] | None) -> RestingDocuments:
    """The rows that rest on these messages of a thread (None: on any), just before they go; holds the thread already,
    and from here on the resource, and before it the other threads that the profile is made from."""
    # Threads are locked before the resource and in one order, so that two deletes never wait for each other.
    for uid in sorted({each.source_thread_uid for each in await _sources_of_profile(tx, scope, thread, seqs)}):
        if uid != thread.thread_uid:
            await threads.lock_uid(tx, scope, uid)
    await scopes.hold(tx, scope)
    return RestingDocuments(
        # A thread that goes as a whole takes its session memory with it.
        await _resting(tx, scope, thread, thread, seqs) if seqs is not None else None,
        await _resting(tx, scope, None, thread, seqs),
    )


async def _sources_of_profile(
    tx: Tx, scope: Scope, thread: Thread, seqs: Collection[int] | None
) -> Sequence[DocumentSource]:
    found = await _resting(tx, scope, None, thread, seqs)
    if found:
        return found.sources
    return ()


async def _resting(
    tx: Tx, scope: Scope, owner: Thread | None, thread: Thread, seqs: Collection[int] | None
) -> Document | None:
    """The document of the owner (None: the resource) if its version rests on these messages."""
    version = await working_memory.read_newest(tx, scope, owner)
    if version is None:
        return None
    sources = await working_memory.sources_of_version(tx, scope, owner.thread_uid if owner else "", version.version)
    own = [each for each in sources if each.source_thread_uid == thread.thread_uid]
    rests = any(seqs is None or any(each.from_seq <= seq <= each.to_seq for seq in seqs) for each in own)
    if rests:
        return Document(version, sources)
    return None


Again = list[tuple[str, Kind, int]]
"""Work to do again: the uid of the thread, the kind of work, and the seq from which on."""


async def drop(tx: Tx, scope: Scope, thread: Thread, seqs: Collection[int]) -> Again:
    """Drop the notes and summaries that describe a run with one of these messages in it, which goes, changes or comes
    back."""
    of = of_thread(scope, thread.thread_uid)
    again: Again = []
    first = await tx.scalar(_FIRST_NOTE, **of, seqs=list(seqs))
    if first is not None:
        again.append((thread.thread_uid, "session_memory", first))
    if await tx.run(_DROP_SUMMARIES, **of, seqs=list(seqs)):
        again.append((thread.thread_uid, "summary", 1))
    return again


async def drop_title(tx: Tx, scope: Scope, thread: Thread, seqs: Collection[int]) -> Again:
    """Take a title away that was made of one of the messages."""
    cleared = await tx.run(_CLEAR_TITLE, **of_thread(scope, thread.thread_uid), seqs=list(seqs))
    if cleared:
        return [(thread.thread_uid, "title", 1)]
    return []


async def fallen(tx: Tx, scope: Scope, thread: Thread, stood: RestingDocuments) -> Again:
    """The documents that fell back after messages went."""
    again: Again = []
    if stood.session_memory:
        again += [(uid, "session_memory", seq) for uid, seq in await _behind(tx, scope, thread, stood.session_memory)]
    if stood.profile:
        again += [(uid, "profile", seq) for uid, seq in await _behind(tx, scope, None, stood.profile)]
    return again


async def _behind(tx: Tx, scope: Scope, owner: Thread | None, stood: Document) -> list[tuple[str, int]]:
    """For each thread that a document was made from, the first seq that the restored version does not cover."""
    now = await working_memory.read_newest(tx, scope, owner)
    kept = (
        await working_memory.sources_of_version(tx, scope, owner.thread_uid if owner else "", now.version)
        if now
        else ()
    )
    # The runs are sorted, so the last run of a thread is the one that stays.
    covered = {each.source_thread_uid: each.to_seq + 1 for each in sorted(kept)}
    first: dict[str, int] = {}
    for each in sorted(stood.sources):
        first.setdefault(each.source_thread_uid, covered.get(each.source_thread_uid, each.from_seq))
    return sorted(first.items())


async def do_again(tx: Tx, scope: Scope, again: Again, *, now: int) -> None:
    """Set cursors back, so that what lies from the seqs on is done again; the transaction holds the threads."""
    firsts: dict[tuple[str, Kind], int] = {}
    for uid, kind, seq in again:
        firsts[uid, kind] = min(seq, firsts.get((uid, kind), seq))
    for (uid, kind), seq in sorted(firsts.items()):
        of = of_thread(scope, uid)
        if kind in _SET_BACK:
            await tx.run(_SET_BACK[kind], **of, new_seq=seq - 1)
        if kind == "session_memory":
            await tx.run(_DROP_NOTES_BEHIND, **of, new_seq=seq - 1)  # they are made again
        await job_rows.set_back(tx, scope, uid, kind, seq - 1, due_at=now + PATIENCE_MS, now=now)


async def come_back(tx: Tx, scope: Scope, thread: Thread, seqs: Collection[int], *, now: int) -> None:
    """After messages came back: background work that passed them is done again from the first of them on."""
    if not seqs:
        return
    again = await drop(tx, scope, thread, seqs)
    kinds: tuple[Kind, ...] = ("entries", "profile", "session_memory", "title")
    await do_again(tx, scope, [*again, *((thread.thread_uid, kind, min(seqs)) for kind in kinds)], now=now)


async def thread_came_back(tx: Tx, scope: Scope, thread: Thread, *, since: int, now: int) -> None:
    """After a thread came back: its jobs are due from where their cursors are, since without a thread there was nothing
    to do; and a profile that was written since it went is made anew of all that the thread gave to earlier ones."""
    for kind in job_rows.KINDS:
        await job_rows.set_back(tx, scope, thread.thread_uid, kind, 0, due_at=now + PATIENCE_MS, now=now)
    newest = await working_memory.read_newest(tx, scope, None)
    # No profile was written without the thread, so the current one holds what the thread gave.
    if newest is None or newest.created_at < since:
        return
    first = await tx.scalar(_FIRST_OF_PROFILE, **of_thread(scope, thread.thread_uid))
    if first is not None:
        await do_again(tx, scope, [(thread.thread_uid, "profile", first)], now=now)


async def replaced(tx: Tx, scope: Scope, thread: Thread, seqs: Collection[int], *, now: int) -> None:
    """After messages got other content: every text about a run with one of them is made again. Documents stay: the next
    messages rewrite them."""
    again = await drop(tx, scope, thread, seqs) + await drop_title(tx, scope, thread, seqs)
    await do_again(tx, scope, again, now=now)
    await scopes.hold(tx, scope)
    # A job under way may have read the old content, so its result must not be stored.
    await job_rows.fence_off(tx, scope, now=now)
