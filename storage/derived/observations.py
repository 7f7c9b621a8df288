"""Observations of threads: notes on runs of messages, made ahead (buffered), shown (active), and replaced by fewer.

A thread's cursors move only here. ``batch`` is where the observer's cursor stood after the answer that a row came with,
so that rows in the order of batches and ids describe the thread in its order: what is activated later comes last.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

from sqlalchemy import bindparam, delete, func, insert, select, update

from layerlore.storage.core import installation
from layerlore.storage.core.records import Scope, Thread
from layerlore.storage.core.scopes import in_thread, of_thread
from layerlore.storage.core.statements import any_of, parameters
from layerlore.storage.core.tables import messages, observations
from layerlore.storage.core.tables import threads as threads_table
from layerlore.storage.core.tables.columns import THREAD
from layerlore.storage.core.transaction import Tx
from layerlore.storage.jobs import job_rows
from layerlore.storage.threads import threads

Marker = Literal["critical", "important", "info", "completion"]
MARKERS: tuple[Marker, ...] = get_args(Marker)
Status = Literal["buffered", "active", "superseded", "dropped"]


@dataclass(frozen=True, slots=True)
class NewObservation:
    """A note that is ready to be stored. ``said_at``: ms since 1970; ``refers_to``: the date it is about, in ISO form,
    if another than that; ``tokens`` of its line; ``batch``: up to which seq the messages lie that it was made from;
    ``level``: after how many reflections; ``parent``: its place among the new ones."""

    marker: Marker
    text: str
    said_at: int
    refers_to: str | None
    from_seq: int
    to_seq: int
    tokens: int
    trust: str
    batch: int
    level: int = 0
    parent: int | None = None


@dataclass(frozen=True, slots=True)
class Observation:
    observation_id: int
    marker: Marker
    text: str
    said_at: int
    refers_to: str | None
    from_seq: int
    to_seq: int
    tokens: int
    parent_id: int | None
    status: Status
    superseded_by: int | None
    trust: str
    level: int
    batch: int
    model: str
    prompt: str
    created_at: int


_COLUMNS = tuple(
    observations.c[name]
    for name in (
        *("observation_id", "marker", "text", "said_at", "refers_to", "from_seq", "to_seq", "tokens", "parent_id"),
        *("status", "superseded_by", "trust", "level", "batch", "model", "prompt", "created_at"),
    )
)
_told = observations.c.text != ""  # a row without text is the place of notes that are to be made again
_OF_STATUS = (
    select(*_COLUMNS)
    .where(in_thread(observations), any_of(observations.c.status, "statuses"), _told)
    .order_by(observations.c.batch, observations.c.observation_id)
)
_NEWEST = (
    select(*_COLUMNS)
    .where(
        in_thread(observations),
        any_of(observations.c.status, "statuses"),
        _told,
        observations.c.batch <= bindparam("upto"),
    )
    .order_by(observations.c.batch.desc(), observations.c.observation_id.desc())
    .limit(bindparam("most"))
)
_LAST_ID = select(func.coalesce(func.max(observations.c.observation_id), 0)).where(in_thread(observations))
_INSERT = insert(observations).values(**parameters(*THREAD, *(column.name for column in _COLUMNS)))
_TOKENS = select(func.coalesce(func.sum(observations.c.tokens), 0)).where(
    in_thread(observations), observations.c.status == "active"
)
_BUFFERED_ENDS = (
    select(observations.c.batch)
    .where(in_thread(observations), observations.c.status == "buffered")
    .group_by(observations.c.batch)
)
_SIZES = (
    select(messages.c.seq, messages.c.tokens)
    .where(
        in_thread(messages),
        messages.c.deletion_uid.is_(None),
        messages.c.seq > bindparam("after"),
        messages.c.seq <= bindparam("upto"),
    )
    .order_by(messages.c.seq)
)
_ACTIVATE = (
    update(observations)
    .where(in_thread(observations), observations.c.status == "buffered", observations.c.batch <= bindparam("upto"))
    .values(status="active")
)
_OBSERVED = threads.totals_change({"observed_seq": bindparam("new_observed_seq"), "raw_tokens": bindparam("new_raw")})
_BUFFERED = threads.totals_change(
    {
        "buffered_seq": bindparam("new_buffered_seq"),
        "buffered_chars": bindparam("new_buffered_chars"),
        "current_task": bindparam("new_current_task"),
        "next_step": bindparam("new_next_step"),
    }
)
_PUT_AWAY = (
    update(observations)
    .where(in_thread(observations), observations.c.observation_id == bindparam("at_id"))
    .values(status=bindparam("new_status"), superseded_by=bindparam("new_superseded_by"))
)
_WITHOUT_PARENT = (
    update(observations)
    .where(in_thread(observations), observations.c.status == "active", any_of(observations.c.parent_id, "ids"))
    .values(parent_id=None)
)
_DISCARD = delete(observations).where(
    in_thread(observations), observations.c.status == "buffered", observations.c.batch > bindparam("after")
)


# Number, newest id and sum of the ids distinguish two sets of rows without a read of their texts.
_STATE = (
    select(
        observations.c.status,
        func.count(),
        func.max(observations.c.observation_id),
        func.sum(observations.c.observation_id),
    )
    .where(in_thread(observations), any_of(observations.c.status, "statuses"), _told)
    .group_by(observations.c.status)
    .order_by(observations.c.status)
)


class StatusSums(NamedTuple):
    """The observations of one status: how many, the newest id and the sum of the ids."""

    status: str
    number: int
    newest_id: int
    ids: int


async def state(tx: Tx, scope: Scope, thread_uid: str) -> tuple[StatusSums, ...]:
    """A mark that changes whenever other observations are active or buffered, by status; empty without any."""
    rows = await tx.all(_STATE, **of_thread(scope, thread_uid), statuses=["active", "buffered"])
    return tuple(
        StatusSums(str(status), int(count), int(newest_id), int(ids)) for status, count, newest_id, ids in rows
    )


async def read(tx: Tx, scope: Scope, thread_uid: str, *statuses: Status) -> list[Observation]:
    """The observations of a thread with these statuses, in the thread's order."""
    rows = await tx.all(_OF_STATUS, **of_thread(scope, thread_uid), statuses=list(statuses))
    return [Observation(*row) for row in rows]


async def newest(tx: Tx, scope: Scope, thread_uid: str, *, upto: int, most: int) -> list[Observation]:
    """The last ``most`` that are active or buffered, of batches up to ``upto``, in the thread's order."""
    of = of_thread(scope, thread_uid)
    rows = await tx.all(_NEWEST, **of, statuses=["active", "buffered"], upto=upto, most=most)
    return [Observation(*row) for row in reversed(rows)]


async def active_tokens(tx: Tx, scope: Scope, thread_uid: str) -> int:
    """Tokens of the thread's active observations."""
    return int(await tx.scalar(_TOKENS, **of_thread(scope, thread_uid)) or 0)


async def add(
    tx: Tx,
    scope: Scope,
    thread_uid: str,
    made: Sequence[NewObservation],
    *,
    status: Status,
    model: str,
    prompt: str,
    now: int,
) -> list[int]:
    """Store the notes that a model made with a prompt, in their order; the transaction holds the thread. Returns their
    ids."""
    of = of_thread(scope, thread_uid)
    if made:
        # The transaction holds the thread, so no other writer takes these ids.
        first = (await tx.scalar(_LAST_ID, **of) or 0) + 1
    else:
        first = 1
    rows = [
        {
            **of,
            "observation_id": first + place,
            "marker": each.marker,
            "text": each.text,
            "said_at": each.said_at,
            "refers_to": each.refers_to,
            "from_seq": each.from_seq,
            "to_seq": each.to_seq,
            "tokens": each.tokens,
            "parent_id": None if each.parent is None else first + each.parent,
            "status": status,
            "superseded_by": None,
            "trust": each.trust,
            "level": each.level,
            "batch": each.batch,
            "model": model,
            "prompt": prompt,
            "created_at": now,
        }
        for place, each in enumerate(made)
    ]
    if rows:
        await tx.many(_INSERT, rows)
    return [first + place for place in range(len(rows))]


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where the observer is: at the message behind ``seq``, of which it has ``chars`` characters (0: none)."""

    seq: int
    chars: int = 0


async def buffer(
    tx: Tx, scope: Scope, thread: Thread, cursor: Cursor, *, current_task: str | None, next_step: str | None
) -> None:
    """Move the observer's cursor on, and store the current task and the next step. A lower cursor is a defect."""
    assert (cursor.seq, cursor.chars) >= (thread.buffered_seq, thread.buffered_chars)
    await tx.run(
        _BUFFERED,
        **of_thread(scope, thread.thread_uid),
        new_buffered_seq=cursor.seq,
        new_buffered_chars=cursor.chars,
        new_current_task=current_task,
        new_next_step=next_step,
    )


@dataclass(frozen=True, slots=True)
class Activation:
    """Up to which seq a thread is covered by its observations now, and the tokens of the messages behind."""

    observed_seq: int
    raw_tokens: int
    tokens: int


async def activate(tx: Tx, scope: Scope, thread: Thread, *, keep: int) -> Activation | None:
    """Show what was noted ahead in place of the messages, and leave at least ``keep`` tokens of messages raw, if that
    can be; the transaction holds the thread. None: nothing was noted ahead.

    Only whole batches are activated: of several, as many as leave enough, or the first one alone. ``tokens`` is what
    all active observations have then.
    """
    of = of_thread(scope, thread.thread_uid)
    # The last messages may have given no note. The cursor covers them all the same.
    found = {*await tx.scalars(_BUFFERED_ENDS, **of), thread.buffered_seq}
    ends = sorted(end for end in found if thread.observed_seq < end <= thread.buffered_seq)
    if not ends:
        return None
    noted = await sizes(tx, scope, thread.thread_uid, after=thread.observed_seq, upto=ends[-1])
    raw = {end: thread.raw_tokens - sum(tokens for seq, tokens in noted if seq <= end) for end in ends}
    end = max((end for end in ends if raw[end] >= keep), default=ends[0])
    await tx.run(_ACTIVATE, **of, upto=end)
    await tx.run(_OBSERVED, **of, new_observed_seq=end, new_raw=raw[end])
    return Activation(end, raw[end], await active_tokens(tx, scope, thread.thread_uid))


async def put_away(tx: Tx, scope: Scope, thread_uid: str, ids: Mapping[int, int | None]) -> None:
    """Show observations no more: each is superseded by the one with the given id or, with None, dropped. The rows stay,
    and what they were the parents of stands for itself."""
    of = of_thread(scope, thread_uid)
    rows = [
        {**of, "at_id": id_, "new_status": "dropped" if by is None else "superseded", "new_superseded_by": by}
        for id_, by in sorted(ids.items())
    ]
    if rows:
        await tx.many(_PUT_AWAY, rows)
        await tx.run(_WITHOUT_PARENT, **of, ids=list(ids))


async def discard(tx: Tx, scope: Scope, thread: Thread, after: int) -> None:
    """Forget the notes made ahead in batches above ``after``, where the observer's cursor will be."""
    await tx.run(_DISCARD, **of_thread(scope, thread.thread_uid), after=after)


async def sizes(tx: Tx, scope: Scope, thread_uid: str, *, after: int, upto: int) -> list[tuple[int, int]]:
    """The messages with a seq above ``after`` and not above ``upto``, in order: the seq and the tokens of each."""
    rows = await tx.all(_SIZES, **of_thread(scope, thread_uid), after=after, upto=upto)
    return [(seq, tokens) for seq, tokens in rows]


_THREAD = select(
    threads_table.c.observed_seq,
    threads_table.c.buffered_seq,
    threads_table.c.buffered_chars,
    threads_table.c.next_seq,
    threads_table.c.next_event_seq,
).where(in_thread(threads_table))
_BUFFERED_SOURCES = (
    select(observations.c.batch)
    .where(in_thread(observations), observations.c.status == "buffered")
    .group_by(observations.c.batch)
)
_FORGET_BUFFERED = delete(observations).where(
    in_thread(observations), observations.c.status == "buffered", observations.c.batch > bindparam("after")
)
_MOVE_BACK = (
    update(threads_table)
    .where(in_thread(threads_table))
    .values(buffered_seq=bindparam("new_buffered_seq"), buffered_chars=0, current_task=None, next_step=None)
)
_SHOWN = select(
    observations.c.observation_id,
    observations.c.superseded_by,
    observations.c.batch,
    observations.c.level,
).where(in_thread(observations), observations.c.status != "buffered")
_FORGET = delete(observations).where(in_thread(observations), any_of(observations.c.observation_id, "ids"))
_SHOW_AGAIN = (
    update(observations)
    .where(in_thread(observations), any_of(observations.c.observation_id, "ids"))
    .values(status="active", superseded_by=None)
)
_SOURCES_WITHOUT_PARENT = (
    update(observations).where(in_thread(observations), any_of(observations.c.parent_id, "ids")).values(parent_id=None)
)
_GAPS = (
    select(observations.c.observation_id, observations.c.from_seq, observations.c.to_seq)
    .where(in_thread(observations), observations.c.status == "dropped", observations.c.text == "")
    .order_by(observations.c.from_seq)
)
# A gap is a dropped row without text, so that no reader shows it.
_LEAVE_GAP = insert(observations).values(
    **parameters(*THREAD, "observation_id", "from_seq", "to_seq", "batch", "created_at"),
    marker="info",
    text="",
    said_at=0,
    tokens=0,
    status="dropped",
    trust="web",
    level=0,
    model="",
    prompt="",
)


@dataclass(frozen=True, slots=True)
class Gap:
    """A run of messages whose notes went, in the row of this id. It ends where a batch ended."""

    observation_id: int
    from_seq: int
    to_seq: int


async def changed(tx: Tx, scope: Scope, thread_uid: str, seqs: Collection[int], *, now: int) -> None:
    """Note that messages are not what they were, or not there, or there again; the transaction holds the thread."""
    of = of_thread(scope, thread_uid)
    if seqs:
        row = await tx.one(_THREAD, **of)
    else:
        row = None
    if row is None:
        return
    observed, buffered, chars, next_seq, next_event_seq = row
    # The message behind the cursor may be half observed, so a change of it counts as well.
    ahead = [seq for seq in seqs if seq > observed and (seq <= buffered or chars)]
    shown = [seq for seq in seqs if seq <= observed]
    # Also for shown messages alone: the current task and the next step may rest on them.
    if ahead or shown:
        await _forget_ahead(tx, of, observed, buffered, min(ahead, default=buffered + 1))
    if shown:
        await _forget_shown(tx, of, observed, shown, now)
        # Events are counted on with every change, so that this is above whatever was done.
        await job_rows.request(tx, scope, thread_uid, "digest", next_seq + next_event_seq, due_at=now, now=now)


async def gaps(tx: Tx, scope: Scope, thread_uid: str) -> list[Gap]:
    """The gaps of a thread, in its order."""
    return [Gap(*row) for row in await tx.all(_GAPS, **of_thread(scope, thread_uid))]


async def close(tx: Tx, scope: Scope, thread_uid: str, gap: Gap, upto: int, *, now: int) -> None:
    """Close a gap up to the seq, since new notes cover it."""
    of = of_thread(scope, thread_uid)
    await tx.run(_FORGET, **of, ids=[gap.observation_id])
    if upto < gap.to_seq:
        await _leave_gap(tx, of, upto, gap.to_seq, now)


async def erase(tx: Tx, scope: Scope, thread_uid: str, ids: Collection[int]) -> None:
    """Erase observations for good, with those that they stand for; the transaction holds the thread."""
    of = of_thread(scope, thread_uid)
    rows = await tx.all(_SHOWN, **of)
    gone = set(ids)
    # Rows that one of these replaced say the same in other words, so they go, too.
    while below := {id_ for id_, by, _, _ in rows if by in gone} - gone:
        gone |= below
    await tx.run(_SOURCES_WITHOUT_PARENT, **of, ids=sorted(gone))
    await tx.run(_FORGET, **of, ids=sorted(gone))
    await installation.owe_rewrite(tx)


async def _forget_ahead(tx: Tx, of: dict[str, Any], observed: int, buffered: int, first: int) -> None:
    """Forget the batches made ahead that reach up to the first of the seqs, or beyond it."""
    ends = await tx.scalars(_BUFFERED_SOURCES, **of)
    if first > buffered:
        kept = buffered
    else:
        kept = max((end for end in ends if end < first), default=observed)
    await tx.run(_FORGET_BUFFERED, **of, after=kept)
    await tx.run(_MOVE_BACK, **of, new_buffered_seq=kept)


async def _forget_shown(tx: Tx, of: dict[str, Any], observed: int, seqs: Collection[int], now: int) -> None:
    rows = await tx.all(_SHOWN, **of)
    # Reflections have a batch, too, but only the observer's own notes say where a run ended.
    ends = sorted({batch for _, _, batch, level in rows if level == 0})
    runs = {_run(seq, ends, observed) for seq in seqs}
    gone = {id_ for id_, _, batch, level in rows if level == 0 and any(lo < batch <= hi for lo, hi in runs)}
    gone |= _above(gone, rows)
    # A row that a lost reflection stood for is shown again, unless it is lost itself.
    again = [id_ for id_, by, _, _ in rows if by in gone and id_ not in gone]
    await tx.run(_FORGET, **of, ids=sorted(gone))
    await tx.run(_SHOW_AGAIN, **of, ids=again)
    for lo, hi in sorted(runs):
        await _leave_gap(tx, of, lo, hi, now)


def _run(seq: int, ends: Sequence[int], observed: int) -> tuple[int, int]:
    """The batch in which a message was noted: from the end of the batch before it to its own end."""
    lo = max((end for end in ends if end < seq), default=0)
    hi = min((end for end in ends if end >= seq), default=observed)
    return lo, min(hi, observed)


def _above(ids: Collection[int], rows: Sequence[Sequence[Any]]) -> set[int]:
    """The reflections that the rows went into, directly or through others."""
    by = {id_: superseded_by for id_, superseded_by, _, _ in rows if superseded_by is not None}
    found: set[int] = set()
    todo = list(ids)
    while todo:
        above = by.get(todo.pop())
        if above is not None and above not in found:
            found.add(above)
            todo.append(above)
    return found


async def _leave_gap(tx: Tx, of: dict[str, Any], after: int, upto: int, now: int) -> None:
    id_ = (await tx.scalar(_LAST_ID, **of) or 0) + 1
    await tx.run(_LEAVE_GAP, **of, observation_id=id_, from_seq=after + 1, to_seq=upto, batch=upto, created_at=now)
