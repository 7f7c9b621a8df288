"""Threads and messages as an import brings them: with their own ids, numbers and times."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import bindparam, func, insert, select, update

from layerlore.storage.core.json_text import to_json
from layerlore.storage.core.records import CUSTOM, Draft, Scope, SearchText, Thread
from layerlore.storage.core.scopes import in_scope, in_thread, of_scope, of_thread
from layerlore.storage.core.statements import any_of, insert_or_ignore, parameters
from layerlore.storage.core.tables import erased_ids as erased_ids_table
from layerlore.storage.core.tables import messages
from layerlore.storage.core.tables import threads as threads_table
from layerlore.storage.core.tables.columns import THREAD
from layerlore.storage.core.transaction import Tx
from layerlore.storage.index import lexical
from layerlore.storage.jobs import job_rows
from layerlore.storage.jobs.job_rows import Kind
from layerlore.storage.messages import message_rows as erased_ids
from layerlore.storage.messages import orphans
from layerlore.storage.messages.message_rows import AHEAD_MS
from layerlore.storage.threads import threads

Mode = Literal["merge", "overwrite", "skip"]
"""Which of two with the same id stays: ``merge`` keeps the newer, ``overwrite`` the imported, ``skip`` the stored one.
"""

DESCRIBED = ("title", "title_by", "metadata", "window_policy")
CURSORS = ("observed_seq", "buffered_seq", "buffered_chars", "entries_seq", "profile_seq", "session_seq")
COUNTERS = ("next_seq", "next_event_seq", "next_step_seq")
_FAR = tuple(name for name in CURSORS if name.endswith("_seq"))
_WORK: tuple[Kind, ...] = ("entries", "profile", "session_memory")

_LIVE = select(
    threads_table.c.thread_uid, threads_table.c.updated_at, *(threads_table.c[name] for name in DESCRIBED)
).where(
    in_scope(threads_table), threads_table.c.thread_id == bindparam("thread_id"), threads_table.c.deletion_uid.is_(None)
)
_LOCK = _LIVE.with_for_update()
_BY_UID = select(threads_table.c.thread_id, threads_table.c.deletion_uid).where(in_thread(threads_table))
_MADE = (*DESCRIBED, "thread_id", "created_at", "updated_at")
_MAKE = insert_or_ignore(
    threads_table,
    {
        **parameters(*THREAD, *_MADE),
        "next_seq": 1,
        "last_created_at": 0,
        "message_count": 0,
        "token_count": 0,
    },
)
_DESCRIBE = (
    update(threads_table)
    .where(in_thread(threads_table))
    .values({threads_table.c[name]: bindparam(f"new_{name}") for name in DESCRIBED})
)
_TIMES = (
    update(threads_table)
    .where(in_thread(threads_table))
    .values(created_at=bindparam("new_created_at"), updated_at=bindparam("new_updated_at"))
)


@dataclass(frozen=True, slots=True)
class MovedThread:
    """A thread as a line describes it: ``described`` has DESCRIBED as they are stored."""

    thread_uid: str
    thread_id: str
    created_at: int
    updated_at: int
    described: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ThreadOutcome:
    """Where a thread is now. ``uid`` None: it is deleted here, and stays so. ``changed``: its description is another."""

    uid: str | None
    made: bool
    changed: bool = False


async def put_thread(tx: Tx, scope: Scope, moved: MovedThread, mode: Mode, *, new_uid: str) -> ThreadOutcome:
    """Make a thread that is not there, with its own uid if that is free, and else bring its description."""
    named = {**of_scope(scope), "thread_id": moved.thread_id}
    row = await tx.one(_LOCK, **named)
    if row is None:
        taken = await tx.one(_BY_UID, **of_thread(scope, moved.thread_uid))
        # The thread was deleted here, and an import does not bring it back.
        if taken is not None and taken[1] is not None:
            return ThreadOutcome(None, False)
        if taken is None:
            uid = moved.thread_uid
        else:
            uid = new_uid
        values = {"created_at": moved.created_at, "updated_at": moved.updated_at, **moved.described}
        made = await tx.run(_MAKE, **named, **values, thread_uid=uid)
        # Another import may have made it meanwhile: then that one's description is compared.
        row = await tx.one(_LOCK, **named)
        if made or row is None:
            return ThreadOutcome(uid if made else None, bool(made))
    uid, updated_at, *described = row
    same = described == [moved.described[name] for name in DESCRIBED]
    takes = mode == "overwrite" or (mode == "merge" and moved.updated_at > updated_at)
    if same or not takes:
        return ThreadOutcome(uid, False)
    new = {f"new_{name}": value for name, value in moved.described.items()}
    await tx.run(_DESCRIBE, **of_thread(scope, uid), **new)
    return ThreadOutcome(uid, False, True)


_TIMES_NOW = select(threads_table.c.created_at, threads_table.c.updated_at).where(in_thread(threads_table))


async def put_times(tx: Tx, scope: Scope, thread_uid: str, *, first: int, last: int, before: int | None) -> None:
    """Date a thread by what is in it. ``before``: when it was last changed before the import; None: that made it."""
    of = of_thread(scope, thread_uid)
    row = await tx.one(_TIMES_NOW, **of)
    if row is not None:
        if before is None:
            created = first
        else:
            created = min(first, row[0])
        await tx.run(_TIMES, **of, new_created_at=created, new_updated_at=max(last, before or 0))


_STATE = select(
    *(threads_table.c[name] for name in (*COUNTERS, *CURSORS)),
    threads_table.c.updated_at,
    threads_table.c.title,
    threads_table.c.title_by,
).where(in_thread(threads_table))
_COUNT_ON = (
    update(threads_table)
    .where(in_thread(threads_table))
    .values({threads_table.c[name]: bindparam(f"new_{name}") for name in (*COUNTERS, "updated_at")})
)
_RAW = select(func.coalesce(func.sum(messages.c.tokens), 0)).where(
    in_thread(messages), messages.c.deletion_uid.is_(None), messages.c.seq > bindparam("after")
)
_READ_ON = (
    update(threads_table)
    .where(in_thread(threads_table))
    .values(
        {
            threads_table.c[name]: bindparam(f"new_{name}")
            for name in (*CURSORS, "current_task", "next_step", "raw_tokens")
        }
    )
)


async def put_state(tx: Tx, scope: Scope, thread_uid: str, state: dict[str, Any], *, cursors: bool, now: int) -> None:
    """Bring how far a thread has counted, and (``cursors``) how far background work has read it. Messages behind that
    are due. The transaction has brought what the cursors stand for."""
    of = of_thread(scope, thread_uid)
    row = await tx.one(_STATE, **of)
    if row is None:
        return
    stored = dict(zip((*COUNTERS, *CURSORS, "updated_at", "title", "title_by"), row, strict=True))
    # Counters never go back, so that no number is used twice.
    counters = {f"new_{name}": max(stored[name], state[name]) for name in (*COUNTERS, "updated_at")}
    await tx.run(_COUNT_ON, **of, **counters)
    # Cursors that would go back are not taken over: that work would be done twice.
    cursors = cursors and all(stored[name] <= state[name] for name in _FAR)
    if cursors:
        raw = await tx.scalar(_RAW, **of, after=state["observed_seq"])
        read = {f"new_{name}": state[name] for name in (*CURSORS, "current_task", "next_step")}
        await tx.run(_READ_ON, **of, **read, new_raw_tokens=int(raw))
    at = {**stored, **(state if cursors else {})}
    await _request_work(tx, scope, thread_uid, at, counters["new_next_seq"] - 1, now)


async def _request_work(tx: Tx, scope: Scope, uid: str, at: dict[str, Any], last: int, now: int) -> None:
    """Request the work that the cursors have not reached."""
    cursors = {"entries": "entries_seq", "profile": "profile_seq", "session_memory": "session_seq"}
    wanted: list[tuple[Kind, int, int]] = [(kind, last, now) for kind in _WORK if at[cursors[kind]] < last]
    if last > at["buffered_seq"] and last > at["observed_seq"]:
        wanted.append(("observe", last, now))
    if at["title"] is None and at["title_by"] is None and last:
        wanted.append(("title", last, now))
    await job_rows.request_many(tx, scope, uid, wanted, now=now)


_PUT_ERASED = insert_or_ignore(erased_ids_table, parameters(*THREAD, "id_hash"))
_THERE = select(erased_ids_table.c.id_hash).where(
    in_thread(erased_ids_table), any_of(erased_ids_table.c.id_hash, "hashes")
)


async def put_erased(tx: Tx, scope: Scope, thread_uid: str, hashes: Collection[str]) -> int:
    """Keep hashed ids of messages that were erased elsewhere, of the thread with this very uid; counts the new ones."""
    of = of_thread(scope, thread_uid)
    new = sorted(set(hashes) - {*await tx.scalars(_THERE, **of, hashes=sorted(hashes))})
    if new:
        await tx.many(_PUT_ERASED, [{**of, "id_hash": each} for each in new])
    return len(new)


Status = Literal["added", "unchanged", "replaced", "kept", "deleted"]

_COLUMNS = ("id", "role", "name", "parts", "metadata", "tokens", "encoding", "created_at", "said_at", "revision")
_INSERT = insert(messages).values(**parameters(*THREAD, "seq", *_COLUMNS, "turn", "turn_set"))
_KNOWN = select(
    messages.c.id,
    messages.c.seq,
    messages.c.revision,
    messages.c.deletion_uid,
    messages.c.role,
    messages.c.name,
    messages.c.parts,
    messages.c.metadata,
).where(in_thread(messages), any_of(messages.c.id, "ids"))
_COUNT = threads.totals_change(
    parameters("next_seq", "last_created_at", "message_count", "token_count", "raw_tokens", prefix="new_")
)


@dataclass(frozen=True, slots=True)
class MovedMessage:
    """A message ready to be stored, and the seq, time and revision that it had."""

    draft: Draft
    seq: int
    created_at: int
    revision: int


@dataclass(frozen=True, slots=True)
class MessageOutcome:
    """Where a message is now. ``kept``: another text is stored under its id, and stays. ``deleted``: it was, here."""

    status: Status
    seq: int
    revision: int


async def put_messages(
    tx: Tx,
    scope: Scope,
    thread_uid: str,
    moved: Sequence[MovedMessage],
    mode: Mode,
    *,
    now: int,
    search_text: SearchText,
) -> list[MessageOutcome]:
    """Add the messages that a thread has not, in their order; what it has stays, or is replaced as ``mode`` says.

    Raises Conflict for a tool result whose call is deleted here. Nothing is put into a thread that is deleted.
    """
    thread = await threads.lock_uid(tx, scope, thread_uid)
    if thread is None:
        return [MessageOutcome("deleted", 0, 0) for _ in moved]
    of = of_thread(scope, thread_uid)
    ids = [each.draft.id for each in moved]
    known = {row[0]: row for row in await tx.all(_KNOWN, **of, ids=ids)}
    new = [each.draft.id for each in moved if each.draft.id not in known]
    if new:
        erased = await erased_ids.find_erased_ids(tx, scope, thread_uid, new)
    else:
        erased = set()
    puts: list[MessageOutcome] = []
    fresh: list[tuple[MovedMessage, int]] = []
    replaced: list[Draft] = []
    next_seq = thread.next_seq
    for each in moved:
        if (row := known.get(each.draft.id)) is not None:
            put = _meet(row, each, mode)
            if put.status == "replaced":
                replaced += [each.draft]
        elif each.draft.id in erased:
            put = MessageOutcome("deleted", 0, 0)
        else:
            # A message keeps its seq if that is still free, so that references to it fit.
            put = MessageOutcome("added", max(each.seq, next_seq), each.revision)
            next_seq = put.seq + 1
            fresh.append((each, put.seq))
        puts.append(put)
    await _insert(tx, scope, thread, fresh, next_seq, now)
    # A thread that has all its messages has no half of a call without the other.
    lost_some = thread.next_seq - 1 > thread.message_count
    if replaced or (lost_some and _has_calls(fresh)):
        # Has whatever depends on them follow, and no half of a tool call stand alone.
        again = [*replaced, *(each.draft for each, _ in fresh)]
        await orphans.add_beside_deleted(
            tx, scope, thread.thread_id, again, new_uid=thread_uid, replace_known=True, now=now, search_text=search_text
        )
    return puts


def _meet(row: Sequence[Any], each: MovedMessage, mode: Mode) -> MessageOutcome:
    _, seq, revision, deletion_uid, *stored = row
    draft = each.draft
    if deletion_uid is not None:
        return MessageOutcome("deleted", seq, revision)
    if stored == [draft.role, draft.name, to_json(draft.parts), to_json(draft.metadata)]:
        return MessageOutcome("unchanged", seq, revision)
    if mode == "overwrite" or (mode == "merge" and each.revision > revision):
        return MessageOutcome("replaced", seq, revision + 1)
    return MessageOutcome("kept", seq, revision)


def _has_calls(fresh: Sequence[tuple[MovedMessage, int]]) -> bool:
    return any(part["type"] in ("tool_call", "tool_result") for each, _ in fresh for part in each.draft.parts)


async def _insert(
    tx: Tx, scope: Scope, thread: Thread, fresh: Sequence[tuple[MovedMessage, int]], next_seq: int, now: int
) -> None:
    if not fresh:
        return
    of = of_thread(scope, thread.thread_uid)
    last, tokens, raw = thread.last_created_at, 0, 0
    rows: list[dict[str, Any]] = []
    indexed: list[lexical.IndexEntry] = []
    for each, seq in fresh:
        draft = each.draft
        # A file may hold times of a wrong clock: they may lie ahead by AHEAD_MS only.
        last = max(min(each.created_at, now + AHEAD_MS), last + 1)
        if draft.said_at is not None:
            said_at = draft.said_at
        else:
            said_at = last
        rows.append(
            {
                **of,
                "seq": seq,
                "id": draft.id,
                "role": draft.role,
                "name": draft.name,
                "parts": to_json(draft.parts),
                "metadata": to_json(draft.metadata),
                "tokens": draft.tokens,
                "encoding": draft.encoding,
                "created_at": last,
                "said_at": said_at,
                "revision": each.revision,
                "turn": draft.mark and draft.mark.turn,
                "turn_set": draft.mark and draft.mark.set,
            }
        )
        if draft.role == CUSTOM:
            continue
        indexed.append(lexical.IndexEntry(thread.thread_uid, seq, draft.role, said_at, draft.indexed))
        tokens += draft.tokens
        if seq > thread.observed_seq:
            raw += draft.tokens
    await tx.many(_INSERT, rows)
    await lexical.put(tx, scope, indexed)
    await tx.run(
        _COUNT,
        **of,
        new_next_seq=next_seq,
        new_last_created_at=last,
        new_message_count=thread.message_count + len(indexed),
        new_token_count=thread.token_count + tokens,
        new_raw_tokens=thread.raw_tokens + raw,
    )
