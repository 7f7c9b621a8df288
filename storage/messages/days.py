"""How much there is of each day: messages, entries and steps of a scope that can be seen."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, bindparam, func, literal_column, select

from layerlore.storage.core.records import Scope
from layerlore.storage.core.scopes import in_scope, of_scope, same_thread
from layerlore.storage.core.tables import entries, messages, steps, threads
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived.entries import IS_SEEN

_DAY_MS: ColumnElement[int] = literal_column("86400000")


@dataclass(frozen=True, slots=True)
class DayCount:
    """The counts of a day. ``day``: whole days since 1970, of UTC. ``tokens`` are those of the messages."""

    day: int
    messages: int = 0
    tokens: int = 0
    entries: int = 0
    steps: int = 0


def _by_day(at: ColumnElement[int], *counts: Any) -> Select[Any]:
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
