"""Threads as an import brings them: made with the uid and the times they had, and at the end with how far they were read."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import bindparam, func, select, update

from layerlore.storage.core.records import Scope
from layerlore.storage.core.scopes import in_scope, in_thread, of_scope, of_thread
from layerlore.storage.core.statements import any_of, insert_or_ignore
from layerlore.storage.core.tables import SCOPE, erased_ids, messages, threads
from layerlore.storage.core.transaction import Tx
from layerlore.storage.jobs import jobs
from layerlore.storage.jobs.jobs import Kind

Mode = Literal["merge", "overwrite", "skip"]
"""What becomes of what is stored under the same id as what is brought: of two, ``merge`` keeps the newer, ``overwrite``
what is brought, ``skip`` what is stored."""

DESCRIBED = ("title", "title_by", "metadata", "window_policy")
CURSORS = ("observed_seq", "buffered_seq", "buffered_chars", "entries_seq", "profile_seq", "session_seq")
COUNTERS = ("next_seq", "next_event_seq", "next_step_seq")
_FAR = tuple(name for name in CURSORS if name.endswith("_seq"))
_WORK: tuple[Kind, ...] = ("entries", "profile", "session_memory")

_LIVE = select(threads.c.thread_uid, threads.c.updated_at, *(threads.c[name] for name in DESCRIBED)).where(
    in_scope(threads), threads.c.thread_id == bindparam("thread_id"), threads.c.deletion_uid.is_(None)
)
_LOCK = _LIVE.with_for_update()
_BY_UID = select(threads.c.thread_id, threads.c.deletion_uid).where(in_thread(threads))
_MADE = (*DESCRIBED, "thread_id", "created_at", "updated_at")
_MAKE = insert_or_ignore(
    threads,
    {
        **{name: bindparam(name) for name in (*SCOPE, "thread_uid", *_MADE)},
        "next_seq": 1,
        "last_created_at": 0,
        "message_count": 0,
        "token_count": 0,
    },
)
_DESCRIBE = (
    update(threads).where(in_thread(threads)).values({threads.c[name]: bindparam(f"new_{name}") for name in DESCRIBED})
)
_TIMES = (
    update(threads)
    .where(in_thread(threads))
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
class ThreadPut:
    """Where a thread is now. ``uid`` None: it is deleted here, and stays so. ``changed``: its description is another."""

    uid: str | None
    made: bool
    changed: bool = False


async def put_thread(tx: Tx, scope: Scope, moved: MovedThread, mode: Mode, *, new_uid: str) -> ThreadPut:
    """Make a thread that is not there, with its own uid if that is free, and else bring its description."""
    named = {**of_scope(scope), "thread_id": moved.thread_id}
    row = await tx.one(_LOCK, **named)
    if row is None:
        taken = await tx.one(_BY_UID, **of_thread(scope, moved.thread_uid))
        if taken is not None and taken[1] is not None:
            return ThreadPut(None, False)
        uid = moved.thread_uid if taken is None else new_uid
        values = {"created_at": moved.created_at, "updated_at": moved.updated_at, **moved.described}
        made = await tx.run(_MAKE, **named, **values, thread_uid=uid)
        row = await tx.one(_LOCK, **named)
        if made or row is None:
            return ThreadPut(uid if made else None, bool(made))
    uid, updated_at, *described = row
    same = described == [moved.described[name] for name in DESCRIBED]
    takes = mode == "overwrite" or (mode == "merge" and moved.updated_at > updated_at)
    if same or not takes:
        return ThreadPut(uid, False)
    new = {f"new_{name}": value for name, value in moved.described.items()}
    await tx.run(_DESCRIBE, **of_thread(scope, uid), **new)
    return ThreadPut(uid, False, True)


_TIMES_NOW = select(threads.c.created_at, threads.c.updated_at).where(in_thread(threads))


async def put_times(tx: Tx, scope: Scope, thread_uid: str, *, first: int, last: int, before: int | None) -> None:
    """Date a thread by what is in it. ``before``: when it was last changed before the import; None: that made it."""
    of = of_thread(scope, thread_uid)
    row = await tx.one(_TIMES_NOW, **of)
    if row is not None:
        created = first if before is None else min(first, row[0])
        await tx.run(_TIMES, **of, new_created_at=created, new_updated_at=max(last, before or 0))


_STATE = select(
    *(threads.c[name] for name in (*COUNTERS, *CURSORS)), threads.c.updated_at, threads.c.title, threads.c.title_by
).where(in_thread(threads))
_COUNT_ON = (
    update(threads)
    .where(in_thread(threads))
    .values({threads.c[name]: bindparam(f"new_{name}") for name in (*COUNTERS, "updated_at")})
)
_RAW = select(func.coalesce(func.sum(messages.c.tokens), 0)).where(
    in_thread(messages), messages.c.deletion_uid.is_(None), messages.c.seq > bindparam("after")
)
_READ_ON = (
    update(threads)
    .where(in_thread(threads))
    .values(
        {threads.c[name]: bindparam(f"new_{name}") for name in (*CURSORS, "current_task", "next_step", "raw_tokens")}
    )
)


async def put_state(tx: Tx, scope: Scope, thread_uid: str, state: dict[str, Any], *, cursors: bool, now: int) -> None:
    """Bring how far a thread has counted, and (``cursors``) how far background work has read it. What is behind that is
    due. The transaction has brought what the cursors stand for."""
    of = of_thread(scope, thread_uid)
    row = await tx.one(_STATE, **of)
    if row is None:
        return
    stored = dict(zip((*COUNTERS, *CURSORS, "updated_at", "title", "title_by"), row, strict=True))
    counters = {f"new_{name}": max(stored[name], state[name]) for name in (*COUNTERS, "updated_at")}
    await tx.run(_COUNT_ON, **of, **counters)
    cursors = cursors and all(stored[name] <= state[name] for name in _FAR)
    if cursors:
        raw = await tx.scalar(_RAW, **of, after=state["observed_seq"])
        read = {f"new_{name}": state[name] for name in (*CURSORS, "current_task", "next_step")}
        await tx.run(_READ_ON, **of, **read, new_raw_tokens=int(raw))
    at = {**stored, **(state if cursors else {})}
    await _request_work(tx, scope, thread_uid, at, counters["new_next_seq"] - 1, now)


async def _request_work(tx: Tx, scope: Scope, uid: str, at: dict[str, Any], last: int, now: int) -> None:
    """Ask for what the cursors have not come to."""
    cursors = {"entries": "entries_seq", "profile": "profile_seq", "session_memory": "session_seq"}
    wanted: list[tuple[Kind, int, int]] = [(kind, last, now) for kind in _WORK if at[cursors[kind]] < last]
    if last > at["buffered_seq"] and last > at["observed_seq"]:
        wanted.append(("observe", last, now))
    if at["title"] is None and at["title_by"] is None and last:
        wanted.append(("title", last, now))
    await jobs.request_many(tx, scope, uid, wanted, now=now)


_PUT_ERASED = insert_or_ignore(erased_ids, {name: bindparam(name) for name in (*SCOPE, "thread_uid", "id_hash")})
_THERE = select(erased_ids.c.id_hash).where(in_thread(erased_ids), any_of(erased_ids.c.id_hash, "hashes"))


async def put_erased(tx: Tx, scope: Scope, thread_uid: str, hashes: Collection[str]) -> int:
    """Keep hashed ids of messages that were erased elsewhere, of the thread with this very uid; counts the new ones."""
    of = of_thread(scope, thread_uid)
    new = sorted(set(hashes) - {*await tx.scalars(_THERE, **of, hashes=sorted(hashes))})
    if new:
        await tx.many(_PUT_ERASED, [{**of, "id_hash": each} for each in new])
    return len(new)
