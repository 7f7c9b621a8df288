"""What agents did, step by step: written under the thread's lock, so that the order holds across operations."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import Select, bindparam, insert, select, update

from layerlore.storage.core.damaged_values import object_of
from layerlore.storage.core.json_text import to_json
from layerlore.storage.core.pages import some
from layerlore.storage.core.records import Json, Scope, Thread
from layerlore.storage.core.scopes import in_thread, of_thread
from layerlore.storage.core.statements import any_of
from layerlore.storage.core.tables import messages, steps
from layerlore.storage.core.tables import threads as threads_table
from layerlore.storage.core.transaction import Tx
from layerlore.storage.threads import threads
from layerlore.storage.threads.events import of_visible_message


@dataclass(frozen=True, slots=True)
class NewStep:
    """A step. ``body`` is all of it but operation, type and time; ``message_seq`` is the message that it was made
    from, if it was: the step is hidden and erased with it."""

    operation_id: str
    type: str
    body: Json
    created_at: int
    message_seq: int | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """A stored step."""

    seq: int
    operation_id: str
    type: str
    body: Json
    created_at: int


@dataclass(frozen=True, slots=True)
class StepPage:
    """Steps in the order in which they were recorded."""

    thread: Thread
    steps: list[Step]
    more: bool


_TAKE = (
    update(threads_table)
    .where(in_thread(threads_table))
    .values(next_step_seq=threads_table.c.next_step_seq + bindparam("count"), updated_at=bindparam("now"))
    .returning(threads_table.c.next_step_seq)
)
_INSERT = insert(steps).values(**{column.name: bindparam(column.name) for column in steps.c})
_MESSAGE_SEQS = select(messages.c.id, messages.c.seq).where(
    in_thread(messages), any_of(messages.c.id, "ids"), messages.c.deletion_uid.is_(None)
)


async def record(tx: Tx, scope: Scope, thread: Thread, made: Sequence[NewStep], *, now: int) -> int:
    """Write steps of a thread that the transaction holds. Returns the seq of the first: they are given in order."""
    of = of_thread(scope, thread.thread_uid)
    first: int = await tx.scalar(_TAKE, **of, count=len(made), now=now) - len(made)
    rows = [
        {
            **of,
            "seq": first + place,
            "operation_id": step.operation_id,
            "type": step.type,
            "body": to_json(step.body),
            "message_seq": step.message_seq,
            "created_at": step.created_at,
        }
        for place, step in enumerate(made)
    ]
    await tx.many(_INSERT, rows)
    return first


async def message_seqs(tx: Tx, scope: Scope, thread: Thread, ids: Sequence[str]) -> dict[str, int]:
    """The seqs of those of the messages that the thread has and that are not deleted."""
    rows = await tx.all(_MESSAGE_SEQS, **of_thread(scope, thread.thread_uid), ids=list(ids))
    return {id_: seq for id_, seq in rows}  # noqa: C416 - rows are sequences, not pairs


@cache
def _page(of_operation: bool) -> Select[Any]:
    query = (
        select(steps.c.seq, steps.c.operation_id, steps.c.type, steps.c.body, steps.c.created_at)
        .where(in_thread(steps), steps.c.seq > bindparam("after"), of_visible_message(steps))
        .order_by(steps.c.seq)
        .limit(bindparam("page_size"))
    )
    return query.where(steps.c.operation_id == bindparam("operation_id")) if of_operation else query


async def read_page(tx: Tx, scope: Scope, thread_id: str, *, operation_id: str, after: int, limit: int) -> StepPage:
    """A thread's steps with a seq above ``after``, of one operation (empty: of all), in order. Raises NotFound."""
    thread = await threads.find(tx, scope, thread_id)
    of = {**of_thread(scope, thread.thread_uid), **({"operation_id": operation_id} if operation_id else {})}
    rows, stopped = await some(tx, _page(bool(operation_id)), **of, after=after, page_size=limit + 1)
    found = [Step(seq, operation, type_, object_of(body), at) for seq, operation, type_, body, at in rows]
    return StepPage(thread, found[:limit], stopped or len(found) > limit)
