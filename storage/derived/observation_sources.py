"""What becomes of observations when messages they were made from are deleted, restored or replaced.

Nothing is shown any more that rests on such a message: what was made ahead is forgotten and made again, and what is shown
goes for good, together with every reflection that took it in; what else a reflection had replaced is shown again. A row
without text stays as the place (a gap) where notes on what remains are to be put.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, delete, func, insert, select, update

from layerlore.storage.core import installation
from layerlore.storage.core.records import Scope
from layerlore.storage.core.scopes import in_thread, of_thread
from layerlore.storage.core.statements import any_of
from layerlore.storage.core.tables import observations, threads
from layerlore.storage.core.transaction import Tx
from layerlore.storage.jobs import jobs

_THREAD = select(
    threads.c.observed_seq,
    threads.c.buffered_seq,
    threads.c.buffered_chars,
    threads.c.next_seq,
    threads.c.next_event_seq,
).where(in_thread(threads))
_BUFFERED = (
    select(observations.c.batch)
    .where(in_thread(observations), observations.c.status == "buffered")
    .group_by(observations.c.batch)
)
_FORGET_BUFFERED = delete(observations).where(
    in_thread(observations), observations.c.status == "buffered", observations.c.batch > bindparam("after")
)
_MOVE_BACK = (
    update(threads)
    .where(in_thread(threads))
    .values(buffered_seq=bindparam("new_buffered_seq"), buffered_chars=0, current_task=None, next_step=None)
)
_SHOWN = select(
    observations.c.observation_id,
    observations.c.superseded_by,
    observations.c.batch,
    observations.c.level,
).where(in_thread(observations), observations.c.status != "buffered")
_LAST_ID = select(func.coalesce(func.max(observations.c.observation_id), 0)).where(in_thread(observations))
_FORGET = delete(observations).where(in_thread(observations), any_of(observations.c.observation_id, "ids"))
_SHOW_AGAIN = (
    update(observations)
    .where(in_thread(observations), any_of(observations.c.observation_id, "ids"))
    .values(status="active", superseded_by=None)
)
_WITHOUT_PARENT = (
    update(observations).where(in_thread(observations), any_of(observations.c.parent_id, "ids")).values(parent_id=None)
)
_GAPS = (
    select(observations.c.observation_id, observations.c.from_seq, observations.c.to_seq)
    .where(in_thread(observations), observations.c.status == "dropped", observations.c.text == "")
    .order_by(observations.c.from_seq)
)
_KEY = ("tenant_id", "agent_id", "resource_id", "thread_uid")
_LEAVE_GAP = insert(observations).values(
    **{name: bindparam(name) for name in (*_KEY, "observation_id", "from_seq", "to_seq", "batch", "created_at")},
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
    row = await tx.one(_THREAD, **of) if seqs else None
    if row is None:
        return
    observed, buffered, chars, next_seq, next_event_seq = row
    ahead = [seq for seq in seqs if seq > observed and (seq <= buffered or chars)]
    shown = [seq for seq in seqs if seq <= observed]
    if ahead or shown:
        await _forget_ahead(tx, of, observed, buffered, min(ahead, default=buffered + 1))
    if shown:
        await _forget_shown(tx, of, observed, shown, now)
        # Events are counted on with every change, so that this is above whatever was done.
        await jobs.request(tx, scope, thread_uid, "digest", next_seq + next_event_seq, due_at=now, now=now)


async def gaps(tx: Tx, scope: Scope, thread_uid: str) -> list[Gap]:
    """The gaps of a thread, in its order."""
    return [Gap(*row) for row in await tx.all(_GAPS, **of_thread(scope, thread_uid))]


async def close(tx: Tx, scope: Scope, thread_uid: str, gap: Gap, upto: int, *, now: int) -> None:
    """Take a gap away as far as the seq: what covers it has been put there."""
    of = of_thread(scope, thread_uid)
    await tx.run(_FORGET, **of, ids=[gap.observation_id])
    if upto < gap.to_seq:
        await _leave_gap(tx, of, upto, gap.to_seq, now)


async def erase(tx: Tx, scope: Scope, thread_uid: str, ids: Collection[int]) -> None:
    """Erase observations for good, with those that they stand for; the transaction holds the thread."""
    of = of_thread(scope, thread_uid)
    rows = await tx.all(_SHOWN, **of)
    gone = set(ids)
    while below := {id_ for id_, by, _, _ in rows if by in gone} - gone:
        gone |= below
    await tx.run(_WITHOUT_PARENT, **of, ids=sorted(gone))
    await tx.run(_FORGET, **of, ids=sorted(gone))
    await installation.owe_rewrite(tx)


async def _forget_ahead(tx: Tx, of: dict[str, Any], observed: int, buffered: int, first: int) -> None:
    """Forget the batches made ahead that reach up to the first of the seqs, or beyond it."""
    ends = await tx.scalars(_BUFFERED, **of)
    kept = buffered if first > buffered else max((end for end in ends if end < first), default=observed)
    await tx.run(_FORGET_BUFFERED, **of, after=kept)
    await tx.run(_MOVE_BACK, **of, new_buffered_seq=kept)


async def _forget_shown(tx: Tx, of: dict[str, Any], observed: int, seqs: Collection[int], now: int) -> None:
    rows = await tx.all(_SHOWN, **of)
    ends = sorted({batch for _, _, batch, level in rows if level == 0})
    runs = {_run(seq, ends, observed) for seq in seqs}
    gone = {id_ for id_, _, batch, level in rows if level == 0 and any(lo < batch <= hi for lo, hi in runs)}
    gone |= _above(gone, rows)
    again = [id_ for id_, by, _, _ in rows if by in gone and id_ not in gone]
    await tx.run(_FORGET, **of, ids=sorted(gone))
    await tx.run(_SHOW_AGAIN, **of, ids=again)
    for lo, hi in sorted(runs):
        await _leave_gap(tx, of, lo, hi, now)


def _run(seq: int, ends: Sequence[int], observed: int) -> tuple[int, int]:
    """The batch in which a message was noted: behind where the one before ended, and up to its own end."""
    lo = max((end for end in ends if end < seq), default=0)
    hi = min((end for end in ends if end >= seq), default=observed)
    return lo, min(hi, observed)


def _above(ids: Collection[int], rows: Sequence[Sequence[Any]]) -> set[int]:
    """The reflections that the rows went into, directly or by way of others."""
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
