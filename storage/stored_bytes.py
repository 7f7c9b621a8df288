"""How many bytes of content are stored of a tenant, and of each resource of it, and whether more may be.

The database counts by itself, in the transaction that stores or erases (triggers of migration 12): the UTF-8 bytes of the
columns in COUNTED, and ROW_BYTES for each row, for its ids and its place in the index. What is deleted counts until it is
erased for good. What is made from messages in the background (observations, notes, summaries, the index, vectors) does
not count, nor do events.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache, reduce
from operator import add
from typing import Any, TypeVar

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    LargeBinary,
    Select,
    Text,
    bindparam,
    case,
    cast,
    func,
    literal,
    select,
    union_all,
)

from layerlore.storage.errors import LimitExceeded
from layerlore.storage.records import Scope, Tenant
from layerlore.storage.statements import Dialect
from layerlore.storage.tables import metadata, stored_bytes
from layerlore.storage.transaction import Tx

T = TypeVar("T")

ROW_BYTES = 256
COUNTED: dict[str, tuple[str, ...]] = {
    "messages": ("name", "parts", "metadata"),
    "threads": ("title", "metadata", "window_policy"),
    "session_memories": ("content",),
    "user_profiles": ("content",),
    "entries": ("content",),
    "plans": ("plan",),
    "attempts": ("action", "result", "error", "diagnosis", "fix_applied"),
    "runs": ("metadata", "state", "pending", "resumed", "reason", "output"),
    "steps": ("body",),
}
"""By table, the columns whose bytes count."""

_TENANT = ""
"""Stands for no resource: the sum of all of a tenant's."""


@dataclass(frozen=True, slots=True)
class Quota:
    """The most bytes that may be stored; 0 is no limit."""

    tenant: int
    resource: int


@dataclass(frozen=True, slots=True)
class Used:
    """Bytes that are stored."""

    tenant: int
    resource: int


def _sum_of(resource: str) -> ColumnElement[int]:
    return func.coalesce(func.sum(case((stored_bytes.c.resource_id == bindparam(resource), stored_bytes.c.bytes))), 0)


_USED = select(_sum_of("whole"), _sum_of("resource_id")).where(
    stored_bytes.c.tenant_id == bindparam("tenant_id"),
    stored_bytes.c.resource_id.in_((bindparam("whole"), bindparam("resource_id"))),
)
_OWN = select(func.coalesce(func.sum(stored_bytes.c.bytes), 0)).where(
    stored_bytes.c.tenant_id == bindparam("tenant_id"),
    stored_bytes.c.resource_id == bindparam("resource_id"),
    stored_bytes.c.part == func.txid_current(),
)
_ALONE = select(func.pg_advisory_xact_lock(func.hashtextextended(bindparam("tenant_id", type_=Text), 12)))
_FOLD = select(
    func.layerlore_fold_bytes(
        bindparam("tenant_id", type_=Text),
        bindparam("resource_id", type_=Text),
        func.txid_current(),
        literal(0, BigInteger),
    )
)


async def used(tx: Tx, owner: Scope) -> Used:
    """What is stored now of the tenant and the resource, whichever agent's, this transaction's part included."""
    row = await tx.one(_USED, tenant_id=owner.tenant_id, resource_id=owner.resource_id, whole=_TENANT)
    assert row is not None
    return Used(int(row[0]), int(row[1]))


async def within(tx: Tx, owner: Scope, quota: Quota, unit: Callable[[], Awaitable[T]]) -> T:
    """Run a unit of the transaction, whose end comes with it: one that stores more than it erases must leave no more than
    the quota allows. Writers of a tenant come to the count one after the other, so that two cannot exceed it together.

    Raises LimitExceeded, and what the unit raises.
    """
    # SQLite has one writer at a time; on Postgres others may commit between two looks, and each counts in its own part.
    before = await used(tx, owner) if tx.dialect == "sqlite" else None
    answer = await unit()
    if before is None:
        row = await tx.one(_OWN, tenant_id=owner.tenant_id, resource_id=owner.resource_id)
        more = int(row[0]) if row else 0
        if more <= 0:
            return answer
        await tx.one(_ALONE, tenant_id=owner.tenant_id)
    now = await used(tx, owner)
    if before is not None:
        more = now.resource - before.resource
    for whose, stored, allowed in (("tenant", now.tenant, quota.tenant), ("resource", now.resource, quota.resource)):
        if allowed and more > 0 and stored > allowed:
            raise LimitExceeded(
                f"this {whose} has {stored - more:,} bytes stored, and this would add {more:,}; {allowed:,} are allowed. "
                "Nothing was stored. What is deleted counts until it is erased for good"
            )
    return answer


async def fold(tx: Tx, owner: Scope) -> None:
    """Bring what is counted of a resource and its tenant into as few rows as there can be: none, where nothing is stored."""
    if tx.dialect == "postgres":
        for resource in (owner.resource_id, _TENANT):
            await tx.one(_FOLD, tenant_id=owner.tenant_id, resource_id=resource)


def _bytes(column: ColumnElement[Any], dialect: Dialect) -> ColumnElement[int]:
    if dialect == "postgres":
        return func.coalesce(func.octet_length(column), 0)
    return func.coalesce(func.length(cast(column, LargeBinary)), 0)


@cache
def _recount(dialect: Dialect) -> Select[Any]:
    rows = union_all(
        *(
            select(
                metadata.tables[table].c.resource_id,
                reduce(
                    add, (_bytes(metadata.tables[table].c[name], dialect) for name in names), literal(ROW_BYTES)
                ).label("bytes"),
            ).where(metadata.tables[table].c.tenant_id == bindparam("tenant_id"))
            for table, names in COUNTED.items()
        )
    ).subquery()
    return select(rows.c.resource_id, func.sum(rows.c.bytes)).group_by(rows.c.resource_id)


_COUNTS = (
    select(stored_bytes.c.resource_id, func.sum(stored_bytes.c.bytes))
    .where(stored_bytes.c.tenant_id == bindparam("tenant_id"))
    .group_by(stored_bytes.c.resource_id)
)


@dataclass(frozen=True, slots=True)
class Counted:
    """What the database keeps as a count, and what all rows come to: the same, or something is wrong. ``resource`` None:
    the whole tenant."""

    resource: str | None
    bytes: int
    recounted: int


async def recount(tx: Tx, tenant: Tenant) -> list[Counted]:
    """All of a tenant, counted anew: a look at every row. The tenant comes first, then its resources by name."""
    kept = {row[0]: int(row[1]) for row in await tx.all(_COUNTS, tenant_id=tenant.tenant_id)}
    found = {row[0]: int(row[1]) for row in await tx.all(_recount(tx.dialect), tenant_id=tenant.tenant_id)}
    found[_TENANT] = sum(found.values())
    return [
        Counted(name or None, kept.get(name, 0), found.get(name, 0))
        for name in sorted({*kept, *found})
        if not name or kept.get(name) or found.get(name)
    ]
