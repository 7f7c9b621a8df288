"""The messages that a window or a recall may show, which those of user interfaces are not, each found through an index, however long the thread is.

Every function takes a thread that was found in the same transaction, and gives visible messages only, light, less the
halves of tool calls whose other half was deleted.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, bindparam, func, literal_column, select

from layerlore.storage.core.json_text import object_of
from layerlore.storage.core.records import DAY_MS, Message, Scope, Thread
from layerlore.storage.core.scopes import in_scope, in_thread, of_scope, of_thread, same_thread
from layerlore.storage.core.statements import any_of
from layerlore.storage.core.tables import entries, events, messages, steps, threads
from layerlore.storage.core.transaction import Row, Tx
from layerlore.storage.derived.entries import IS_SEEN
from layerlore.storage.messages.message_rows import COLUMNS, MakeMessage, message_of, read

_visible = and_(messages.c.deletion_uid.is_(None), messages.c.role != literal_column("'custom'"))

# The role stands in the statement itself, since the index holds messages of this role alone.
_LATEST_FROM_USER = (
    select(*COLUMNS)
    .where(in_thread(messages), _visible, messages.c.role == literal_column("'user'"))
    .order_by(messages.c.seq.desc())
    .limit(1)
)


_in_span = and_(
    in_thread(messages), _visible, messages.c.seq > bindparam("after"), messages.c.seq < bindparam("before")
)


@cache
def _span(newest_first: bool) -> Select[Any]:
    query = select(*COLUMNS).where(_in_span)
    return query.order_by(messages.c.seq.desc() if newest_first else messages.c.seq.asc()).limit(bindparam("most"))


async def newest(
    tx: Tx, scope: Scope, thread: Thread, *, most: int, before: int | None = None, make: MakeMessage = message_of
) -> list[Message]:
    """The newest messages, at most ``most``, of those with a seq below ``before``, as ``make`` gives them; in
    chronological order."""
    if before is None:
        end = thread.next_seq
    else:
        end = before
    return await _read(tx, scope, thread, newest_first=True, after=0, before=end, most=most, make=make)


async def first(tx: Tx, scope: Scope, thread: Thread, *, most: int) -> list[Message]:
    """The messages that the thread begins with, at most ``most``, in order."""
    return await _read(tx, scope, thread, newest_first=False, after=0, before=thread.next_seq, most=most)


async def between(
    tx: Tx, scope: Scope, thread: Thread, *, after: int, before: int, first: int, newest: int
) -> tuple[list[Message], list[Message]]:
    """Read the first and the newest messages with ``after`` < seq < ``before``, at most the given number of each, in
    order.

    None comes twice: where there are fewer than both together, the newest are read in full and the first are the rest.
    """
    later = await _read(tx, scope, thread, newest_first=True, after=after, before=before, most=newest)
    if later:
        end = later[0].seq
    else:
        end = before
    return await _read(tx, scope, thread, newest_first=False, after=after, before=end, most=first), later


@dataclass(frozen=True, slots=True)
class RunState:
    """A mark that changes whenever other messages stand in a part of a thread: how many, the first and the last seq,
    and the sum of their revisions and tokens."""

    messages: int
    first: int
    last: int
    revisions: int
    tokens: int


@cache
def _state(of_newest: bool) -> Select[Any]:
    query = select(messages.c.seq, messages.c.revision, messages.c.tokens).where(_in_span)
    if of_newest:
        query = query.order_by(messages.c.seq.desc()).limit(bindparam("most"))
    found = query.subquery()
    return select(
        func.count(),
        func.coalesce(func.min(found.c.seq), 0),
        func.coalesce(func.max(found.c.seq), 0),
        func.coalesce(func.sum(found.c.revision), 0),
        func.coalesce(func.sum(found.c.tokens), 0),
    ).select_from(found)


async def state_between(
    tx: Tx, scope: Scope, thread: Thread, *, after: int, before: int, most: int | None = None
) -> RunState:
    """The state of the messages with ``after`` < seq < ``before``, or of the newest ``most`` of them: what that costs
    does not grow with the thread."""
    if most is None:
        newest = {}
    else:
        newest = {"most": most}
    of = of_thread(scope, thread.thread_uid)
    row = await tx.one(_state(most is not None), **of, after=after, before=before, **newest)
    assert row is not None
    return RunState(*map(int, row))


async def latest_from_user(tx: Tx, scope: Scope, thread: Thread) -> Message | None:
    """The newest message of role user; None if none exists."""
    row = await tx.one(_LATEST_FROM_USER, **of_thread(scope, thread.thread_uid))
    if row is None:
        return None
    return message_of(thread.thread_id, row)


_BEFORE = (
    select(*COLUMNS)
    .where(in_thread(messages), _visible, messages.c.seq < bindparam("at_seq"))
    .order_by(messages.c.seq.desc())
    .limit(bindparam("page_size"))
)
_AFTER = (
    select(*COLUMNS)
    .where(in_thread(messages), _visible, messages.c.seq > bindparam("at_seq"))
    .order_by(messages.c.seq.asc())
    .limit(bindparam("page_size"))
)


async def neighbours(
    tx: Tx, scope: Scope, thread_uid: str, thread_id: str, seq: int, *, before: int, after: int
) -> tuple[list[Message], list[Message]]:
    """The messages that stand just before and just after one, each in chronological order."""
    of = {**of_thread(scope, thread_uid), "at_seq": seq}
    earlier = await read(tx, _BEFORE, thread_id, **of, page_size=before)
    return earlier[::-1], await read(tx, _AFTER, thread_id, **of, page_size=after)


_WHOLE = (
    select(*COLUMNS)
    .where(in_thread(messages), _visible, any_of(messages.c.seq, "seqs"))
    .order_by(messages.c.seq.desc())
)


async def whole(tx: Tx, scope: Scope, thread: Thread, seqs: Sequence[int], take: Callable[[Message], bool]) -> None:
    """Give ``take`` these messages with the bytes of their images and files, one by one, the newest first, until it
    returns False."""
    of = of_thread(scope, thread.thread_uid)
    await tx.each(_WHOLE, lambda row: take(message_of(thread.thread_id, row, light=False)), **of, seqs=list(seqs))


async def _read(
    tx: Tx,
    scope: Scope,
    thread: Thread,
    *,
    newest_first: bool,
    after: int,
    before: int,
    most: int,
    make: MakeMessage = message_of,
) -> list[Message]:
    # No message can lie there.
    if most < 1 or before - after < 2:
        return []
    of = {**of_thread(scope, thread.thread_uid), "after": after, "before": before, "most": most}
    found = await read(tx, _span(newest_first), thread.thread_id, make, **of)
    if newest_first:
        return found[::-1]
    return found


_PAGE = 50
# The newest first, since the message is mostly from one of the last calls.
_ADDED = (
    select(events.c.payload).where(in_thread(events), events.c.type == "messages_added").order_by(events.c.seq.desc())
)


def is_said_by_user(message: Message) -> bool:
    """Whether the user wrote it: what holds nothing but tool results says nothing."""
    return message.role == "user" and any(part["type"] != "tool_result" for part in message.parts)


async def find_last_said(tx: Tx, scope: Scope, thread: Thread) -> Message | None:
    """The newest message that the user wrote; None if none exists."""
    found = await latest_from_user(tx, scope, thread)
    if found is None or is_said_by_user(found):
        return found
    # The newest message of the role user has tool results only.
    before = found.seq
    while page := await newest(tx, scope, thread, most=_PAGE, before=before):
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
    while begin > min(together) and (page := await newest(tx, scope, thread, most=_PAGE, before=begin)):
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
        # Once the call is found, no older event is read.
        return len(found) == 1

    await tx.each(_ADDED, take, **of_thread(scope, thread.thread_uid))
    return found


_DAY_MS: ColumnElement[int] = literal_column(str(DAY_MS))


@dataclass(frozen=True, slots=True)
class DayCount:
    """The counts of a day. ``day``: whole days since 1970, of UTC. ``tokens`` are those of the messages."""

    day: int
    messages: int = 0
    tokens: int = 0
    entries: int = 0
    steps: int = 0


def _by_day(at: ColumnElement[int], *counts: Any) -> Select[Any]:
    # SQLAlchemy's own division gives a fraction, and a day is a whole number.
    day = at.op("/")(_DAY_MS)
    return select(day, *counts).where(at >= bindparam("since")).group_by(day)


_live = threads.c.deletion_uid.is_(None)
_MESSAGES = (
    _by_day(messages.c.said_at, func.count(), func.sum(messages.c.tokens))
    .select_from(messages.join(threads, same_thread(messages, threads)))
    .where(in_scope(messages), messages.c.deletion_uid.is_(None), _live)
)
_ENTRIES = _by_day(entries.c.created_at, func.count()).where(in_scope(entries), IS_SEEN)
_STEPS = (
    _by_day(steps.c.created_at, func.count())
    .select_from(steps.join(threads, same_thread(steps, threads)))
    .where(in_scope(steps), _live)
)


async def count_by_day(tx: Tx, scope: Scope, *, since: int) -> list[DayCount]:
    """The counts of each day with any rows, the oldest first; ``since`` in milliseconds since 1970."""
    given = {**of_scope(scope), "since": since}
    said = {int(day): (int(number), int(tokens or 0)) for day, number, tokens in await tx.all(_MESSAGES, **given)}
    kept = {int(day): int(number) for day, number in await tx.all(_ENTRIES, **given)}
    done = {int(day): int(number) for day, number in await tx.all(_STEPS, **given)}
    return [
        DayCount(day, *said.get(day, (0, 0)), kept.get(day, 0), done.get(day, 0))
        for day in sorted({*said, *kept, *done})
    ]


_BY_KIND = select(entries.c.kind, func.count()).where(in_scope(entries), IS_SEEN).group_by(entries.c.kind)


async def count_by_kind(tx: Tx, scope: Scope) -> list[tuple[str | None, int]]:
    """How many entries of each kind can be seen (None: of none), the most first."""
    counted = [(kind, int(number)) for kind, number in await tx.all(_BY_KIND, **of_scope(scope))]
    return sorted(counted, key=lambda each: (-each[1], each[0] or ""))
