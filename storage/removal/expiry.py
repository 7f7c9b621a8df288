"""Whose memory holds something whose time has passed: what was deleted, cleared or dropped long enough ago, answers
kept for repeated requests, expired runs."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    BigInteger,
    BindParameter,
    ColumnElement,
    Select,
    Table,
    bindparam,
    select,
    text,
    union_all,
)

from layerlore.storage.core import pages
from layerlore.storage.core.all_tenants import Look
from layerlore.storage.core.pages import behind
from layerlore.storage.core.records import Scope
from layerlore.storage.core.scopes import of_scope
from layerlore.storage.core.tables import (
    SCOPE,
    deletions,
    entries,
    idempotency,
    runs,
    session_memories,
    user_profiles,
)
from layerlore.storage.core.transaction import Tx
from layerlore.storage.work.run_lists import EXPIRED

FIRST = Scope("", "", "")
"""Before every scope."""


@dataclass(frozen=True, slots=True)
class Times:
    """Milliseconds since 1970: what was deleted, cleared or dropped before the first is erased, and so are answers that
    were kept before the second."""

    deleted_before: int
    answered_before: int


def _of(table: Table, *past: ColumnElement[bool]) -> Select[Any]:
    """Written so that SQLite looks for the time, and not through all scopes in their order."""
    return select(*(table.c[name].op("||")("").label(name) for name in SCOPE)).where(*past)


def _page(found: Any) -> Select[Any]:
    """The next scopes behind one, each once."""
    columns = [found.c[name] for name in SCOPE]
    return (
        select(*columns)
        .distinct()
        .where(behind(columns))
        .order_by(*columns)
        .limit(bindparam("most", type_=BigInteger()))
    )


_deleted: BindParameter[int] = bindparam("deleted_before", type_=BigInteger())
# Written out where an index on some of the rows serves no other form.
_cleared = text("change = 'clear'")
_ERASABLE = Look(
    "layerlore_scopes_to_erase",
    _page(
        union_all(
            _of(deletions, deletions.c.deleted_at < _deleted, deletions.c.deleted_at > 0),
            _of(idempotency, idempotency.c.created_at < bindparam("answered_before")),
            _of(session_memories, _cleared, session_memories.c.created_at < _deleted),  # type: ignore[arg-type]
            _of(user_profiles, _cleared, user_profiles.c.created_at < _deleted),  # type: ignore[arg-type]
            _of(entries, text("status = 'dropped'"), entries.c.seen_at < _deleted),  # type: ignore[arg-type]
        ).subquery()
    ),
    tuple((name, "text") for name in SCOPE),
)
_WITH_EXPIRED_RUNS = Look(
    "layerlore_scopes_with_expired_runs",
    _page(_of(runs, EXPIRED).subquery()),
    tuple((name, "text") for name in SCOPE),
)


async def erasable(tx: Tx, times: Times, *, after: Scope, most: int = 100) -> list[Scope]:
    """The next scopes behind ``after`` of which something is to be erased."""
    given = {"deleted_before": times.deleted_before, "answered_before": times.answered_before}
    return [Scope(*row) for row in await _ERASABLE.rows(tx, **pages.after(of_scope(after)), **given, most=most)]


async def with_expired_runs(tx: Tx, now: int, *, after: Scope, most: int = 100) -> list[Scope]:
    """The next scopes behind ``after`` that have runs whose checkpoint has expired and that nobody holds."""
    return [
        Scope(*row) for row in await _WITH_EXPIRED_RUNS.rows(tx, **pages.after(of_scope(after)), now=now, most=most)
    ]
