"""Pages of a thread's messages, of any sizes."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from typing import Any, Protocol, TypeVar

from sqlalchemy import Select, and_, bindparam, func, or_, select

from layerlore.storage.core.errors import NotFound
from layerlore.storage.core.json_text import parts_of
from layerlore.storage.core.records import CUSTOM, ROLES, Json, Message, Scope, Thread
from layerlore.storage.core.scopes import in_scope, in_thread, of_scope, of_thread, same_thread
from layerlore.storage.core.statements import any_of
from layerlore.storage.core.tables import messages
from layerlore.storage.core.tables import threads as threads_table
from layerlore.storage.core.transaction import Tx
from layerlore.storage.messages.message_rows import (
    COLUMNS,
    as_models_see,
    call_ids,
    find_erased_ids,
    loads_light,
    message_of,
    read,
    result_ids,
    without_data,
)
from layerlore.storage.threads import threads

REACH = 64
"""A result's call is searched for among this many messages before it. Hosts store it in the one before, or a few
before."""

_CALLS = (
    select(messages.c.seq, messages.c.parts)
    .where(
        in_thread(messages),
        messages.c.seq >= bindparam("first_seq"),
        messages.c.seq < bindparam("before_seq"),
        messages.c.role == "assistant",
        # A cheap filter, so that only messages with a call are parsed.
        messages.c.parts.like('%"tool_call"%'),
    )
    .order_by(messages.c.seq)
)


_COPIED = (
    select(messages.c.id, messages.c.said_at, messages.c.thread_uid, messages.c.seq, threads_table.c.thread_id)
    .select_from(messages.join(threads_table, same_thread(messages, threads_table)))
    .where(
        in_scope(messages),
        # The index by time finds the few messages of these moments, in whichever thread they are.
        any_of(messages.c.said_at, "times"),
        any_of(messages.c.id, "ids"),
        threads_table.c.thread_id != bindparam("of_thread_id"),
    )
)


@dataclass(frozen=True, slots=True)
class Copies:
    """Messages that other threads have, or had until they were deleted or erased there: their ids, and the places (thread
    and seq) of those that were not erased."""

    ids: set[str]
    places: list[tuple[str, int]]


async def find_copied(tx: Tx, scope: Scope, thread_id: str, said: Mapping[str, int]) -> Copies:
    """Which of these messages are copies of those of other threads of the scope. ``said``: the id and the time of
    each."""
    rows = await tx.all(
        _COPIED, **of_scope(scope), times=sorted({*said.values()}), ids=sorted(said), of_thread_id=thread_id
    )
    found = [row for row in rows if row[1] == said[row[0]]]
    ids = {id_ for id_, *_ in found}
    for thread_uid in sorted({uid for _, _, uid, *_ in found}):
        ids |= await find_erased_ids(tx, scope, thread_uid, {*said} - ids)
    return Copies(ids, sorted((of_thread_id, seq) for *_, seq, of_thread_id in found))


async def of_next(tx: Tx, scope: Scope, thread_id: str, ids: Collection[str]) -> list[Json]:
    """The calls with these ids that results in the next message of a thread would answer; none in a thread that does not
    exist yet."""
    try:
        thread = await threads.find(tx, scope, thread_id)
    except NotFound:
        return []
    return _latest(await _read(tx, scope, thread.thread_uid, thread.next_seq - REACH, thread.next_seq), ids)


async def attach(tx: Tx, scope: Scope, thread_uid: str, found: Sequence[Message]) -> list[Message]:
    """Messages of a thread with the calls that their results answer and that are not in the same message."""
    wanted = {message.seq: result_ids(message.parts) - call_ids(message.parts) for message in found}
    # Most messages answer no call, and then nothing is read.
    asking = [seq for seq, ids in wanted.items() if ids]
    if not asking:
        return list(found)
    calls = await _read(tx, scope, thread_uid, min(asking) - REACH, max(asking))
    return [
        replace(
            message, answered=tuple(_latest([each for each in calls if each[0] < message.seq], wanted[message.seq]))
        )
        if wanted[message.seq]
        else message
        for message in found
    ]


async def attach_everywhere(
    tx: Tx, scope: Scope, found: Mapping[tuple[str, int], Message]
) -> dict[tuple[str, int], Message]:
    """Messages of several threads, by place (thread uid, seq), each with the calls that its results answer and that are
    not in the same message."""
    attached: dict[tuple[str, int], Message] = {}
    # groupby joins neighbours only, so the places have to be sorted.
    for uid, places in groupby(sorted(found), key=lambda place: place[0]):
        some = [found[place] for place in places]
        attached |= {(uid, message.seq): message for message in await attach(tx, scope, uid, some)}
    return attached


async def _read(tx: Tx, scope: Scope, thread_uid: str, first: int, before: int) -> list[tuple[int, Json]]:
    """The calls in the messages from one seq to before another, deleted ones too, oldest first, each with its seq."""
    rows = await tx.all(_CALLS, **of_thread(scope, thread_uid), first_seq=first, before_seq=before)
    return [(seq, part) for seq, parts in rows for part in parts_of(parts, loads_light) if part["type"] == "tool_call"]


def _latest(calls: Sequence[tuple[int, Json]], ids: Collection[str]) -> list[Json]:
    # A later call takes the place of an earlier one: some models number their calls anew in each turn.
    return list({part["id"]: part for _, part in calls if part["id"] in ids}.values())


_LAST_SEQ = 2**62
# Beyond any time that can be given, in milliseconds since 1970.
_ALWAYS = 2**62
_visible = messages.c.deletion_uid.is_(None)


@dataclass(frozen=True, slots=True)
class Page:
    """Messages in chronological order, and how many of the thread's match the roles and the time asked for."""

    thread: Thread
    messages: list[Message]
    total: int


_UP_TO = (
    select(*COLUMNS)
    .where(in_thread(messages), _visible, messages.c.role != CUSTOM, messages.c.seq <= bindparam("upto"))
    .limit(bindparam("most"))
)
_behind_cursor = messages.c.seq > bindparam("after")
_spoken = or_(messages.c.role == "user", messages.c.role == "assistant")
_BETWEEN = _UP_TO.where(_behind_cursor).order_by(messages.c.seq)
_SPOKEN = _BETWEEN.where(_spoken)
_OF_USERS = (
    select(*COLUMNS)
    .where(in_thread(messages), _visible, messages.c.role == "user")
    .where(_behind_cursor, messages.c.created_at > bindparam("created_after"))
    .order_by(messages.c.seq.desc())
    .limit(bindparam("most"))
)
_SPOKEN_BEFORE = _UP_TO.where(_spoken).order_by(messages.c.seq.desc())


_said_then = and_(messages.c.said_at >= bindparam("since"), messages.c.said_at <= bindparam("until"))


@cache
def _page(newest_first: bool, by_offset: bool, timed: bool = False) -> Select[Any]:
    query = (
        select(*COLUMNS)
        .where(
            in_thread(messages),
            _visible,
            messages.c.seq > bindparam("after"),
            messages.c.seq < bindparam("before"),
            any_of(messages.c.role, "roles"),
        )
        .order_by(messages.c.seq.desc() if newest_first else messages.c.seq.asc())
        .limit(bindparam("page_size"))
    )
    if timed:
        query = query.where(_said_then)
    if by_offset:
        return query.offset(bindparam("skipped"))
    return query


_COUNT = (
    select(func.count()).select_from(messages).where(in_thread(messages), _visible, any_of(messages.c.role, "roles"))
)
_COUNT_THEN = _COUNT.where(_said_then)

_BY_TIME = (
    messages.join(threads_table, same_thread(messages, threads_table)),
    and_(
        in_scope(messages),
        _said_then,
        _visible,
        any_of(messages.c.role, "roles"),
        threads_table.c.deletion_uid.is_(None),
    ),
)
_SAID_THEN = (
    select(*COLUMNS, threads_table.c.thread_id)
    .select_from(_BY_TIME[0])
    .where(_BY_TIME[1])
    .order_by(messages.c.said_at, messages.c.thread_uid, messages.c.seq)
    .limit(bindparam("page_size"))
    .offset(bindparam("skipped"))
)
_COUNT_SAID_THEN = select(func.count()).select_from(_BY_TIME[0]).where(_BY_TIME[1])


class MessageSink(Protocol):
    """The record of a page. ``take`` is passed each message, whole, as it is read, and says whether it wants more."""

    def take(self, message: Message) -> bool: ...


MessageSinkT = TypeVar("MessageSinkT", bound=MessageSink)


async def fill(
    tx: Tx,
    scope: Scope,
    thread_id: str,
    new: Callable[[], MessageSinkT],
    *,
    roles: Sequence[str],
    limit: int,
    offset: int | None = None,
    before: int | None = None,
    after: int | None = None,
    since: int | None = None,
    until: int | None = None,
) -> tuple[MessageSinkT, Thread, int]:
    """Read one page of a thread into what ``new`` makes: from the oldest on with an offset or ``after``, else from the
    newest before ``before`` back. Only what it takes is read, so that a page may hold any sizes.

    ``before`` and ``after`` are seqs and exclusive; ``since`` and ``until`` are times of messages, in milliseconds
    since 1970, and inclusive. Returns the thread and the number of its messages with these roles and of that time.
    Raises NotFound.
    """
    thread = await threads.find(tx, scope, thread_id)
    timed = since is not None or until is not None
    if timed:
        then = _times(since, until)
    else:
        then = {}
    of = {**of_thread(scope, thread.thread_uid), "roles": list(roles), **then}
    filled = new()
    await tx.each(
        _page(_newest_first(offset, before, after), offset is not None, timed),
        lambda row: filled.take(message_of(thread_id, row, light=False)),
        **of,
        page_size=limit,
        after=after if after is not None else 0,
        before=before if before is not None else _LAST_SEQ,
        **({"skipped": offset} if offset is not None else {}),
    )
    if timed:
        return filled, thread, int(await tx.scalar(_COUNT_THEN, **of))
    return filled, thread, await _count(tx, thread, of)


async def _count(tx: Tx, thread: Thread, of: dict[str, Any]) -> int:
    """How many messages a thread has of some roles. It counts those that models are shown itself, and those of user
    interfaces are searched for only where seqs are missing."""
    requested_roles: list[str] = of["roles"]
    # The thread counts all roles together, so its number serves only if all are wanted.
    if not {*ROLES} <= {*requested_roles}:
        return int(await tx.scalar(_COUNT, **of))
    if CUSTOM not in requested_roles or thread.next_seq - 1 == thread.message_count:
        return thread.message_count
    return thread.message_count + int(await tx.scalar(_COUNT, **{**of, "roles": [CUSTOM]}))


# The turn is also compared with NULL, since the index holds only messages with a turn.
_END_OF_TURN = select(func.max(messages.c.seq)).where(
    in_thread(messages), _visible, messages.c.turn == bindparam("of_turn"), messages.c.turn.is_not(None)
)


async def find_turn(tx: Tx, scope: Scope, thread_id: str, turn: str) -> int | None:
    """The seq of the last message of a turn; None if none exists. Raises NotFound."""
    thread = await threads.find(tx, scope, thread_id)
    found = await tx.scalar(_END_OF_TURN, **of_thread(scope, thread.thread_uid), of_turn=turn)
    if found is None:
        return None
    return int(found)


async def fill_of_all(
    tx: Tx,
    scope: Scope,
    new: Callable[[], MessageSinkT],
    *,
    roles: Sequence[str],
    limit: int,
    offset: int = 0,
    since: int | None = None,
    until: int | None = None,
) -> tuple[MessageSinkT, int]:
    """Read the messages of a time, of all threads of the scope, from the oldest on, into what ``new`` makes; see
    ``fill``. Returns how many messages that are, too."""
    of = {**of_scope(scope), "roles": list(roles), **_times(since, until)}
    filled = new()
    await tx.each(
        _SAID_THEN,
        lambda row: filled.take(message_of(row[-1], row[:-1], light=False)),
        **of,
        page_size=limit,
        skipped=offset,
    )
    return filled, int(await tx.scalar(_COUNT_SAID_THEN, **of))


def _times(since: int | None, until: int | None) -> dict[str, int]:
    return {"since": -_ALWAYS if since is None else since, "until": _ALWAYS if until is None else until}


def _newest_first(offset: int | None, before: int | None, after: int | None) -> bool:
    return offset is None and (after is None or before is not None)


class Light:
    """All of a page, light."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def take(self, message: Message) -> bool:
        parts = as_models_see(message.parts)
        self.messages.append(replace(message, parts=without_data(parts, message.seq)))
        return True


async def page(
    tx: Tx,
    scope: Scope,
    thread_id: str,
    *,
    roles: Sequence[str],
    limit: int,
    offset: int | None = None,
    before: int | None = None,
    after: int | None = None,
) -> Page:
    """A page of a thread as light messages. Raises NotFound."""
    places = {"offset": offset, "before": before, "after": after}
    filled, thread, total = await fill(tx, scope, thread_id, Light, roles=roles, limit=limit, **places)
    return Page(thread, filled.messages[::-1] if _newest_first(**places) else filled.messages, total)


async def read_between(tx: Tx, scope: Scope, thread: Thread, *, after: int, upto: int, most: int) -> list[Message]:
    """The first ``most`` messages that models are shown with a seq above ``after`` and not above ``upto``, in order, with the calls that their
    results answer."""
    of = of_thread(scope, thread.thread_uid)
    found = await read(tx, _BETWEEN, thread.thread_id, **of, after=after, upto=upto, most=most)
    return await attach(tx, scope, thread.thread_uid, found)


async def read_newest_of_users(
    tx: Tx, scope: Scope, thread: Thread, *, after: int, created_after: int, most: int
) -> list[Message]:
    """The last ``most`` messages of role user with a seq above ``after`` that were added later than ``created_after``
    (ms since 1970), in order."""
    of = of_thread(scope, thread.thread_uid)
    found = await read(tx, _OF_USERS, thread.thread_id, **of, after=after, created_after=created_after, most=most)
    return found[::-1]


async def read_spoken(tx: Tx, scope: Scope, thread: Thread, *, after: int, upto: int, most: int) -> list[Message]:
    """The first ``most`` messages of user and assistant with a seq above ``after`` and not above ``upto``, in order."""
    of = of_thread(scope, thread.thread_uid)
    return await read(tx, _SPOKEN, thread.thread_id, **of, after=after, upto=upto, most=most)


async def read_spoken_before(tx: Tx, scope: Scope, thread: Thread, *, upto: int, most: int) -> list[Message]:
    """The last ``most`` of user and assistant with a seq not above ``upto``, in order."""
    of = of_thread(scope, thread.thread_uid)
    return (await read(tx, _SPOKEN_BEFORE, thread.thread_id, **of, upto=upto, most=most))[::-1]


_IDS_THERE = select(messages.c.id).where(
    in_thread(messages), messages.c.deletion_uid.is_(None), any_of(messages.c.id, "ids")
)


async def ids_there(tx: Tx, scope: Scope, thread_uid: str, ids: Sequence[str]) -> list[str]:
    """Which of these ids a thread has visible messages of."""
    return sorted(await tx.scalars(_IDS_THERE, **of_thread(scope, thread_uid), ids=list(ids)))
