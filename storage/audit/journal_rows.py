"""The journal: who wrote what when, appended in the transaction that wrote it, and never changed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, NamedTuple

from sqlalchemy import Select, bindparam, delete, insert, select

from layerlore.storage.core.json_text import object_of, to_json
from layerlore.storage.core.records import Scope
from layerlore.storage.core.statements import parameters
from layerlore.storage.core.tables import journal
from layerlore.storage.core.transaction import Act, Row, Tx

Outcome = Literal["done", "repeated", "denied", "failed"]

# As times, before and after everything.
_FIRST, _LAST = -(2**62), 2**62


@dataclass(frozen=True, slots=True)
class JournalLine:
    """The content of a row: numbers, names of ours, and the names that the caller and its program have; no text of
    messages. ``at`` is in milliseconds since 1970, ``reason`` the class of an error, ``resource_mark`` an HMAC."""

    at: int
    principal: str
    client: str
    tool: str
    outcome: Outcome
    resource_mark: str
    counts: Mapping[str, int] = field(default_factory=dict)
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class StoredJournalLine:
    """A row. Later ones have higher numbers; none is used again."""

    row_id: int
    tenant_id: str
    agent_id: str
    line: JournalLine


@dataclass(frozen=True, slots=True)
class JournalFilter:
    """A filter of rows. Fields that are None do not restrict it. ``since`` and ``until`` are both included; only rows
    appended before the row with the number ``before`` are read."""

    tenant_id: str | None = None
    agent_id: str | None = None
    since: int | None = None
    until: int | None = None
    principal: str | None = None
    tool: str | None = None
    outcome: Outcome | None = None
    resource_mark: str | None = None
    before: int | None = None


_given = [column.name for column in journal.c if column.name != "row_id"]
# Inline: without RETURNING. A role that may only append may not read the number of its row.
_APPEND = insert(journal).inline().values(**parameters(*_given))


async def append(tx: Tx, scope: Scope, line: JournalLine) -> None:
    """Write a row. It needs only the right to append."""
    row = {
        "tenant_id": scope.tenant_id,
        "agent_id": scope.agent_id,
        "resource_mark": line.resource_mark,
        "at": line.at,
        "principal": line.principal,
        "client": line.client,
        "tool": line.tool,
        "counts": to_json(dict(line.counts)),
        "outcome": line.outcome,
        "reason": line.reason,
    }
    await tx.many(_APPEND, [row])


@cache
def _page(filters: tuple[str, ...], continued: bool = False) -> Select[Any]:
    # The limit has to take the newest rows, so the query runs backwards and the reader turns the rows round.
    query = (
        select(*journal.c)
        .where(journal.c.at.between(bindparam("since"), bindparam("until")))
        .order_by(journal.c.row_id.desc())
        .limit(bindparam("most"))
    )
    if continued:
        query = query.where(journal.c.row_id < bindparam("before"))
    return query.where(*(journal.c[name] == bindparam(name) for name in filters))


async def read_lines(tx: Tx, wanted: JournalFilter, *, limit: int) -> list[StoredJournalLine]:
    """The newest rows of all tenants, or of one, in the order in which they were appended, the newest last."""
    given = {
        name: value
        for name in ("tenant_id", "agent_id", "principal", "tool", "outcome", "resource_mark")
        if (value := getattr(wanted, name)) is not None
    }
    rows = await tx.all(
        _page(tuple(given), wanted.before is not None),
        **given,
        **({} if wanted.before is None else {"before": wanted.before}),
        since=_FIRST if wanted.since is None else wanted.since,
        until=_LAST if wanted.until is None else wanted.until,
        most=limit,
    )
    return [_journaled(row) for row in reversed(rows)]


class _JournalRow(NamedTuple):
    """A line as it is stored."""

    row_id: int
    tenant_id: str
    agent_id: str
    resource_mark: str
    at: int
    principal: str
    client: str
    tool: str
    counts: str
    outcome: Outcome
    reason: str | None


def _journaled(row: Row) -> StoredJournalLine:
    stored = _JournalRow._make(row)
    line = JournalLine(
        stored.at,
        stored.principal,
        stored.client,
        stored.tool,
        stored.outcome,
        stored.resource_mark,
        object_of(stored.counts),
        stored.reason,
    )
    return StoredJournalLine(stored.row_id, stored.tenant_id, stored.agent_id, line)


async def may(tx: Tx, act: Act) -> bool:
    """Whether the connected role may read, or prune, the journal."""
    return await tx.backend.may_change_journal(tx, act)


_is_old = journal.c.at < bindparam("before")
_OLDEST = select(journal.c.row_id).where(_is_old).limit(bindparam("most"))
# Lines of two tenants may have the same number, once one of them came from another cluster.
_PRUNE = delete(journal).where(journal.c.row_id.in_(_OLDEST), _is_old)


async def prune(tx: Tx, *, before: int, most: int = 10_000) -> int:
    """Remove at most ``most`` rows of all tenants from before a time (milliseconds since 1970); counts them."""
    # A trigger refuses deletes from the journal. It is lifted for this transaction only.
    await tx.backend.open_journal(tx)
    pruned = await tx.run(_PRUNE, before=before, most=most)
    await tx.backend.close_journal(tx)
    return pruned
