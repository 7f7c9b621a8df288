"""Threads: found, made by their first message, listed, updated, counted; and how far background work has read them."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Integer,
    Select,
    Text,
    Update,
    and_,
    bindparam,
    case,
    cast,
    exists,
    func,
    or_,
    select,
    tuple_,
    update,
)

from layerlore.storage.core.errors import Conflict, NotFound
from layerlore.storage.core.json_text import object_of, to_json
from layerlore.storage.core.records import Json, Scope, Tenant, Thread
from layerlore.storage.core.scopes import in_scope, in_thread, of_scope, of_thread, same_thread
from layerlore.storage.core.statements import any_of, insert_or_ignore, parameters
from layerlore.storage.core.tables import deletions, events, messages, runs, search_rows, threads
from layerlore.storage.core.tables.columns import THREAD
from layerlore.storage.core.transaction import Row, Tx

# The number of tries to make a thread while others delete it.
_TRIES = 20

# If metadata filters the threads, this number of rows is read at a time.
_CHOSEN_FROM = 200

OrderBy = Literal["created_at", "updated_at", "title"]

COLUMNS = (
    threads.c.thread_uid,
    threads.c.thread_id,
    threads.c.title,
    threads.c.metadata,
    threads.c.created_at,
    threads.c.updated_at,
    threads.c.next_seq,
    threads.c.last_created_at,
    threads.c.message_count,
    threads.c.token_count,
    threads.c.next_event_seq,
    threads.c.next_step_seq,
    threads.c.window_policy,
    threads.c.raw_tokens,
    threads.c.observed_seq,
    threads.c.buffered_seq,
    threads.c.buffered_chars,
    threads.c.current_task,
    threads.c.next_step,
    threads.c.title_by,
)
_live = threads.c.deletion_uid.is_(None)
_FIND = select(*COLUMNS).where(in_scope(threads), threads.c.thread_id == bindparam("thread_id"), _live)
_LOCK = _FIND.with_for_update()
_FIND_UID = select(*COLUMNS).where(in_thread(threads), _live)
_LOCK_UID = _FIND_UID.with_for_update()

_MAKE = insert_or_ignore(
    threads,
    {
        **parameters(*THREAD, "thread_id"),
        "title": None,
        "metadata": "{}",
        "created_at": bindparam("now"),
        "updated_at": bindparam("now"),
        "next_seq": 1,
        "last_created_at": 0,
        "message_count": 0,
        "token_count": 0,
    },
)
_DESCRIBE = (
    update(threads)
    .where(in_thread(threads))
    .values(
        title=bindparam("new_title"),
        title_by=bindparam("new_title_by"),
        metadata=bindparam("new_metadata"),
        window_policy=bindparam("new_window_policy"),
        updated_at=bindparam("now"),
    )
)


@dataclass(frozen=True, slots=True)
class Counts:
    """How much a scope holds."""

    threads: int
    messages: int
    tokens: int
    restorable_deletes: int


_COUNT_LIVE = select(
    func.count(),
    func.coalesce(func.sum(threads.c.message_count), 0),
    func.coalesce(func.sum(threads.c.token_count), 0),
).where(in_scope(threads), threads.c.deletion_uid.is_(None))
_COUNT_DELETES = select(func.count()).select_from(deletions).where(in_scope(deletions))


Cursor = Literal["entries_seq", "profile_seq", "session_seq"]


# The number of a thread's newest events whose actors are read: background work is an actor too.
_NEWEST_EVENTS = 20

_ACTORS = (
    select(events.c.actor)
    .where(same_thread(events, threads))
    .order_by(events.c.seq.desc())
    .limit(_NEWEST_EVENTS)
    .correlate(threads)
)
_NEWEST = (
    select(threads.c.thread_id, threads.c.updated_at)
    .where(in_scope(threads), _live, threads.c.updated_at >= bindparam("since"))
    .where(bindparam("actor").in_(_ACTORS))
    .order_by(threads.c.updated_at.desc(), threads.c.thread_uid.desc())
    .limit(1)
)


_TASKS = (
    select(*COLUMNS)
    .where(in_scope(threads), _live, or_(threads.c.current_task.is_not(None), threads.c.next_step.is_not(None)))
    .order_by(threads.c.updated_at.desc(), threads.c.thread_uid.desc())
    .limit(bindparam("most"))
)


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Whether a thread is there and, if not, the newest one that the same client wrote to."""

    there: bool
    thread_id: str = ""
    updated_at: int = 0


def make_thread(row: Row) -> Thread:
    uid, thread_id, title, metadata, *rest = row
    return Thread(uid, thread_id, title, {} if metadata == "{}" else object_of(metadata), *rest)


async def find(tx: Tx, scope: Scope, thread_id: str) -> Thread:
    """The live thread of that name. Raises NotFound, also for another scope's."""
    return _found(await tx.one(_FIND, **of_scope(scope), thread_id=thread_id), thread_id)


async def lock(tx: Tx, scope: Scope, thread_id: str) -> Thread:
    """The live thread of that name, held until the transaction ends: a transaction that changes a thread's messages
    holds it. Raises NotFound."""
    return _found(await tx.one(_LOCK, **of_scope(scope), thread_id=thread_id), thread_id)


async def find_uid(tx: Tx, scope: Scope, thread_uid: str) -> Thread | None:
    """The live thread with this uid; None when it is deleted by now."""
    row = await tx.one(_FIND_UID, **of_thread(scope, thread_uid))
    if row is None:
        return None
    return make_thread(row)


async def lock_uid(tx: Tx, scope: Scope, thread_uid: str) -> Thread | None:
    """The live thread with this uid, held until the transaction ends, for work that goes on where it left off; None
    when it is deleted by now."""
    row = await tx.one(_LOCK_UID, **of_thread(scope, thread_uid))
    if row is None:
        return None
    return make_thread(row)


async def find_tasks(tx: Tx, scope: Scope, *, most: int) -> list[Thread]:
    """The live threads of which a current task or a next step is noted, at most ``most``, those changed last first."""
    return [make_thread(row) for row in await tx.all(_TASKS, **of_scope(scope), most=most)]


def _found(row: Row | None, thread_id: str) -> Thread:
    if row is None:
        raise NotFound(f"there is no thread {thread_id!r}; list_threads shows the ones there are")
    return make_thread(row)


async def lock_or_make(tx: Tx, scope: Scope, thread_id: str, new_uid: str, now: int) -> Thread:
    """The thread of that name, held; made under ``new_uid`` if none exists. Raises Conflict when others make and
    delete it all the while."""
    values = {**of_scope(scope), "thread_id": thread_id}
    for _ in range(_TRIES):
        row = await tx.one(_LOCK, **values)
        if row is not None:
            return make_thread(row)
        # Nothing is made beside a live thread, and on Postgres that one may be deleted before it can be locked.
        await tx.run(_MAKE, **values, thread_uid=new_uid, now=now)
    raise Conflict(f"thread {thread_id!r} is deleted and made again by others at this moment; try again")


@dataclass(frozen=True, slots=True)
class Description:
    """The fields that update_thread changes: a title and a window's policy (None leaves each, "" removes it), and a
    merge patch (RFC 7396) for metadata."""

    title: str | None
    metadata_patch: Json | None
    window_policy: str | None = None


async def describe(
    tx: Tx,
    scope: Scope,
    thread_id: str,
    change: Description,
    *,
    new_uid: str,
    now: int,
    check: Callable[[Json], object],
) -> Thread:
    """Change what describes a thread, making it if it is absent; ``check`` refuses metadata that is too large."""
    thread = await lock_or_make(tx, scope, thread_id, new_uid, now)
    if change.title is None:
        title = thread.title
    else:
        title = change.title or None
    if change.metadata_patch is not None:
        metadata = merge_patch(thread.metadata, change.metadata_patch)
    else:
        metadata = thread.metadata
    check(metadata)
    if change.window_policy is None:
        window_policy = thread.window_policy
    else:
        window_policy = change.window_policy or None
    await tx.run(
        _DESCRIBE,
        **of_thread(scope, thread.thread_uid),
        new_title=title,
        new_title_by=thread.title_by if change.title is None else "caller",
        new_metadata=to_json(metadata),
        new_window_policy=window_policy,
        now=now,
    )
    return await find(tx, scope, thread_id)


def merge_patch(target: Any, patch: Any) -> Any:
    """JSON merge patch, RFC 7396: objects merge, null removes, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    if isinstance(target, dict):
        result = dict(target)
    else:
        result = {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


_ORDER: dict[OrderBy, ColumnElement[Any]] = {
    "created_at": threads.c.created_at,
    "updated_at": threads.c.updated_at,
    "title": func.coalesce(threads.c.title, ""),
}


def order_value(thread: Thread, order_by: OrderBy) -> Any:
    """The value by which a list in that order places the thread."""
    if order_by == "title":
        return thread.title or ""
    if order_by == "created_at":
        return thread.created_at
    return thread.updated_at


@dataclass(frozen=True, slots=True)
class ThreadFilter:
    """A filter of threads and their order. Fields that are None do not restrict it. ``since`` and ``until`` are of
    ``order_by``, in milliseconds since 1970, both included."""

    agents: Collection[str] | None = None
    resource_id: str | None = None
    since: int | None = None
    until: int | None = None
    metadata: Mapping[str, Any] | None = None
    order_by: OrderBy = "updated_at"
    descending: bool = True


class OwnedThread(NamedTuple):
    """A thread, and the agent and the resource whose it is."""

    agent_id: str
    resource_id: str
    thread: Thread


@cache
def _page(order_by: OrderBy, descending: bool, given: tuple[str, ...]) -> Select[Any]:
    value = _ORDER[order_by]
    place = tuple_(value, threads.c.thread_uid)
    start = tuple_(bindparam("after_value", type_=value.type), bindparam("after_uid"))
    conditions = {
        "tenant_id": threads.c.tenant_id == bindparam("tenant_id"),
        "agent_id": threads.c.agent_id == bindparam("agent_id"),
        "agents": any_of(threads.c.agent_id, "agents"),
        "resource_id": threads.c.resource_id == bindparam("resource_id"),
        "since": value >= bindparam("since"),
        "until": value <= bindparam("until"),
        "after_uid": place < start if descending else place > start,
    }
    query = select(threads.c.agent_id, threads.c.resource_id, value.label("place"), *COLUMNS)
    query = query.where(_live, *(conditions[name] for name in given)).limit(bindparam("page_size"))
    return query.order_by(*(column.desc() if descending else column.asc() for column in (value, threads.c.thread_uid)))


async def read_page(
    tx: Tx, scope: Scope | Tenant, wanted: ThreadFilter, *, after: tuple[Any, str] | None, limit: int
) -> tuple[list[OwnedThread], tuple[Any, str] | None]:
    """Live threads of the scope or of the whole tenant, and behind which the next page goes on; None: there are no
    more."""
    filters: dict[str, Any] = {
        "agents": None if wanted.agents is None else list(wanted.agents),
        "resource_id": wanted.resource_id,
        "since": wanted.since,
        "until": wanted.until,
    }
    given = {name: value for name, value in filters.items() if value is not None}
    if isinstance(scope, Scope):
        given |= of_scope(scope)
    else:
        given["tenant_id"] = scope.tenant_id
    sought = wanted.metadata or {}
    if sought:
        page_size = _CHOSEN_FROM
    else:
        page_size = limit + 1
    chosen: list[OwnedThread] = []
    while True:
        if after:
            behind = dict(zip(("after_value", "after_uid"), after, strict=True))
        else:
            behind = {}
        names = (*given, *(["after_uid"] if after else []))
        rows = await tx.all(_page(wanted.order_by, wanted.descending, names), **given, **behind, page_size=page_size)
        for agent_id, resource_id, place, *columns in rows:
            thread = make_thread(columns)
            if all(name in thread.metadata and equals(thread.metadata[name], value) for name, value in sought.items()):
                # There is one more, so another page follows.
                if len(chosen) == limit:
                    return chosen, after
                chosen.append(OwnedThread(agent_id, resource_id, thread))
            after = (place, thread.thread_uid)
        if len(rows) < page_size:
            return chosen, None


def equals(left: Any, right: Any) -> bool:
    """Equality of JSON values: true is not 1, as it is in Python; 1 is 1.0."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(equals(value, right[key]) for key, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(equals, left, right))
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)


def totals_change(values: Mapping[str, ColumnElement[Any]]) -> Update:
    """An update of one thread's counters, for the stores that add or hide messages."""
    return update(threads).where(in_thread(threads)).values(**values)


# When the thread was last used stays: lists are sorted by that.
_EXTRACTIVE = "extractive"
_PUT_TITLE = (
    update(threads)
    .where(
        in_thread(threads),
        or_(
            and_(threads.c.title.is_(None), threads.c.title_by.is_(None)),
            and_(threads.c.title_by == _EXTRACTIVE, cast(bindparam("new_title_by"), Text) != _EXTRACTIVE),
        ),
    )
    .values(title=bindparam("new_title"), title_by=bindparam("new_title_by"))
)


async def put_title(tx: Tx, scope: Scope, thread_uid: str, title: str, *, by: str) -> bool:
    """Give the thread a title, unless it has one or a caller removed it; a model's title replaces one that was cut from
    messages; ``by`` is the model, or ``extractive``. The transaction holds the thread. Returns whether it was set."""
    return await tx.run(_PUT_TITLE, **of_thread(scope, thread_uid), new_title=title, new_title_by=by) == 1


async def count_live(tx: Tx, scope: Scope) -> tuple[int, int, int]:
    """How many live threads there are, and their messages and tokens."""
    row = await tx.one(_COUNT_LIVE, **of_scope(scope))
    assert row is not None
    count, messages, tokens = map(int, row)
    return count, messages, tokens


async def count_scope(tx: Tx, scope: Scope) -> Counts:
    """Live threads, their messages and tokens, and the deletes that can be undone."""
    held = await count_live(tx, scope)
    return Counts(*held, restorable_deletes=int(await tx.scalar(_COUNT_DELETES, **of_scope(scope))))


@cache
def _read_cursor(cursor: Cursor) -> Select[tuple[int]]:
    return select(threads.c[cursor]).where(in_thread(threads))


@cache
def _move_cursor(cursor: Cursor) -> Update:
    column = threads.c[cursor]
    return (
        update(threads).where(in_thread(threads), column <= bindparam("new_seq")).values({column: bindparam("new_seq")})
    )


async def read_cursor(tx: Tx, scope: Scope, thread_uid: str, cursor: Cursor) -> int:
    """The seq up to which a kind of background work has read a thread; 0 for a thread that is not there."""
    return int(await tx.scalar(_read_cursor(cursor), **of_thread(scope, thread_uid)) or 0)


async def move_cursor(tx: Tx, scope: Scope, thread_uid: str, cursor: Cursor, seq: int) -> None:
    """Move a cursor on, never back; the transaction holds the thread."""
    await tx.run(_move_cursor(cursor), **of_thread(scope, thread_uid), new_seq=seq)


async def find_elsewhere(tx: Tx, scope: Scope, thread_id: str, actor: str, *, since: int) -> Elsewhere:
    """Look for a live thread; if none exists, for one that was changed at ``since`` or later, and lately by ``actor``
    (a client's name as events have it; "" matches no client)."""
    try:
        await find(tx, scope, thread_id)
    except NotFound:
        if actor:
            row = await tx.one(_NEWEST, **of_scope(scope), since=since, actor=actor)
        else:
            row = None
        if row:
            return Elsewhere(False, *row)
        return Elsewhere(False)
    return Elsewhere(True)


def _begins(column: ColumnElement[str]) -> ColumnElement[bool]:
    """LIKE would ignore the case on one database, and want its wildcards escaped on both."""
    return func.substr(column, 1, bindparam("typed_chars")) == bindparam("typed")


_THREADS = select(threads.c.thread_id).where(in_scope(threads), _live, _begins(threads.c.thread_id))
_RUNS = select(runs.c.run_id).where(
    in_scope(runs), _begins(runs.c.run_id), exists().where(same_thread(threads, runs), _live)
)


def _newest_ids(query: Select[Any], *order: ColumnElement[Any]) -> Select[Any]:
    return query.order_by(*(column.desc() for column in order)).limit(bindparam("most"))


def _count(query: Select[Any]) -> Select[Any]:
    return select(func.count()).select_from(query.subquery())


_SOME_THREADS, _ALL_THREADS = (
    _newest_ids(_THREADS, threads.c.updated_at, threads.c.thread_uid),
    _count(_THREADS),
)
_SOME_RUNS, _ALL_RUNS = _newest_ids(_RUNS, runs.c.created_at, runs.c.run_id), _count(_RUNS)


async def thread_ids(tx: Tx, scope: Scope, typed: str, *, most: int) -> tuple[list[str], int]:
    """The live threads whose id begins so, those updated last first, and how many there are in all."""
    return await _read_ids(tx, scope, typed, most, _SOME_THREADS, _ALL_THREADS)


async def run_ids(tx: Tx, scope: Scope, typed: str, *, most: int) -> tuple[list[str], int]:
    """The runs of live threads whose id begins so, those made last first, and how many there are in all."""
    return await _read_ids(tx, scope, typed, most, _SOME_RUNS, _ALL_RUNS)


async def _read_ids(
    tx: Tx, scope: Scope, typed: str, most: int, some: Select[Any], every: Select[Any]
) -> tuple[list[str], int]:
    bounds = {**of_scope(scope), "typed": typed, "typed_chars": len(typed)}
    ids = await tx.scalars(some, **bounds, most=most)
    if len(ids) < most:
        return ids, len(ids)
    return ids, int(await tx.scalar(every, **bounds))


_MOST_LOOKED_AT = 100_000


def _newest(*columns: Any) -> Select[Any]:
    query = select(*columns).where(in_scope(threads), _live)
    return query.order_by(threads.c.updated_at.desc(), threads.c.thread_uid.desc()).limit(bindparam("most"))


_COUNT = select(func.count()).select_from(threads).where(in_scope(threads), _live)
_PAGE = _newest(*COLUMNS).offset(bindparam("skipped"))
_NAMES = _newest(threads.c.thread_uid, threads.c.thread_id, threads.c.title)
_CHOSEN = select(*COLUMNS).where(in_scope(threads), _live, any_of(threads.c.thread_uid, "uids"))


async def read_at(tx: Tx, scope: Scope, offset: int, limit: int) -> tuple[int, list[Thread]]:
    """How many threads there are, and those at a place of the list."""
    rows = await tx.all(_PAGE, **of_scope(scope), skipped=offset, most=limit)
    return int(await tx.scalar(_COUNT, **of_scope(scope)) or 0), [make_thread(row) for row in rows]


async def search_at(
    tx: Tx, scope: Scope, fits: Callable[[str, str], bool], offset: int, limit: int
) -> tuple[int, list[Thread]]:
    """The same of those alone whose id and title (or "") fit, among the newest 100,000."""
    names = await tx.all(_NAMES, **of_scope(scope), most=_MOST_LOOKED_AT)
    found = [uid for uid, thread_id, title in names if fits(thread_id, title or "")]
    uids = found[offset : offset + limit]
    chosen = map(make_thread, await tx.all(_CHOSEN, **of_scope(scope), uids=uids))
    by_uid = {each.thread_uid: each for each in chosen}
    return len(found), [by_uid[uid] for uid in uids]


AHEAD_MS = 86_400_000
EARLIEST_MS = 1_735_689_600_000
"""2025-01-01: a clock that shows an earlier time is wrong itself."""

_limit: Any = bindparam("limit_at", type_=messages.c.created_at.type)
_ahead = messages.c.created_at > _limit
_PLACES = select(
    func.min(case((_ahead, messages.c.seq))),
    func.max(case((_ahead, messages.c.seq))),
    func.max(case((messages.c.created_at <= _limit, messages.c.created_at))),
).where(in_thread(messages))
_base: Any = bindparam("base", type_=messages.c.created_at.type)
_new = messages.c.seq + _base
_MESSAGES = (
    update(messages)
    .where(in_thread(messages), _ahead)
    .values(created_at=_new, said_at=case((messages.c.said_at > _limit, _new), else_=messages.c.said_at))
)
_SEARCHED = (
    update(search_rows)
    .where(
        in_thread(search_rows), search_rows.c.seq >= bindparam("first", type_=Integer), search_rows.c.said_at > _limit
    )
    .values(said_at=search_rows.c.seq + _base)
)
_now: Any = bindparam("now", type_=threads.c.updated_at.type)
_THREAD = (
    update(threads)
    .where(in_thread(threads))
    .values(
        created_at=case((threads.c.created_at > _now, _now), else_=threads.c.created_at),
        updated_at=case((threads.c.updated_at > _now, _now), else_=threads.c.updated_at),
        last_created_at=bindparam("new_last"),
    )
)


def is_ahead(thread: Thread, now: int) -> bool:
    """Whether a thread was dated by a clock that was wrong."""
    return now > EARLIEST_MS and max(thread.created_at, thread.updated_at, thread.last_created_at) > now + AHEAD_MS


async def mend(tx: Tx, scope: Scope, thread: Thread, now: int) -> Thread:
    """Date a thread that the transaction holds, and those of its messages that lie ahead, at now; their order stays."""
    if not is_ahead(thread, now):
        return thread
    of = {**of_thread(scope, thread.thread_uid), "limit_at": now + AHEAD_MS}
    row = await tx.one(_PLACES, **of)
    first, last, before = row if row is not None else (None, None, None)
    newest = before or 0
    if first is not None:
        # A millisecond for each seq, up to now, and behind the messages whose time is right.
        base = max(newest + 1, now - (last - first)) - first
        await tx.run(_MESSAGES, **of, base=base)
        await tx.run(_SEARCHED, **of, base=base, first=first)
        newest = last + base
    await tx.run(_THREAD, **of, now=now, new_last=newest)
    return await find_uid(tx, scope, thread.thread_uid) or thread
