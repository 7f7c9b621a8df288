"""Indexed rows back to messages, narrowed by what a recall asks for."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import bindparam, select

from memstrata.storage.messages import COLUMNS, message_of
from memstrata.storage.records import Message, Scope
from memstrata.storage.scoping import named_in_scope, of_scope, same_thread
from memstrata.storage.statements import any_of
from memstrata.storage.tables import messages, search_rows, threads
from memstrata.storage.transaction import Tx

_FIRST = -(2**62)
_LAST = 2**62

# The rows first, by their ids, and then each one's message by its whole key: without statistics of its own a planner
# would rather walk every message there is.
_rows = (
    select(*(column for column in search_rows.c if column.name != "text_version"))
    .where(named_in_scope(search_rows), any_of(search_rows.c.row_id, "row_ids"))
    .cte("winners")
    .prefix_with("MATERIALIZED")
)
_MATCHING = (
    select(_rows.c.row_id, threads.c.thread_uid, threads.c.thread_id, *COLUMNS)
    .join_from(_rows, threads, same_thread(_rows, threads))
    .join(messages, same_thread(_rows, messages) & (_rows.c.seq == messages.c.seq))
    .where(
        threads.c.deletion_uid.is_(None),
        messages.c.deletion_uid.is_(None),
        messages.c.said_at >= bindparam("since"),
        messages.c.said_at <= bindparam("until"),
        any_of(messages.c.role, "roles"),
    )
)
_IN_THREAD = _MATCHING.where(threads.c.thread_id == bindparam("thread_id"))


@dataclass(frozen=True, slots=True)
class Found:
    """A message that an indexed row stands for."""

    row_id: int
    thread_uid: str
    message: Message


async def matching(
    tx: Tx,
    scope: Scope,
    row_ids: Sequence[int],
    *,
    thread_id: str | None,
    since: int | None,
    until: int | None,
    roles: Sequence[str],
) -> dict[int, Found]:
    """The visible messages behind the rows that pass the filters, by row id. Times are compared with ``said_at``."""
    rows = await tx.all(
        _MATCHING if thread_id is None else _IN_THREAD,
        **of_scope(scope),
        row_ids=list(row_ids),
        since=_FIRST if since is None else since,
        until=_LAST if until is None else until,
        roles=list(roles),
        **({} if thread_id is None else {"thread_id": thread_id}),
    )
    return {row[0]: Found(row[0], row[1], message_of(row[2], row[3:])) for row in rows}
