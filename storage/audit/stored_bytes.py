"""The stored bytes of content of a tenant and of each of its resources, and the quota for them.

The database counts by itself, in the transaction that stores or erases (triggers of the schema): the UTF-8 bytes of the
columns in COUNTED, and ROW_BYTES for each row, for its ids and its place in the index. Deleted rows count until they
are erased for good. Rows made from messages in the background (observations, notes, summaries, the index, vectors) do
not count, nor do events.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Select, Table, bindparam, case, func, literal, select, union_all

from layerlore.storage.core.errors import QuotaExceeded
from layerlore.storage.core.records import Scope, Tenant
from layerlore.storage.core.statements import ByteLength
from layerlore.storage.core.tables import metadata, stored_bytes
from layerlore.storage.core.transaction import Tx

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

_PLENTY = 256 * 1024 * 1024
"""With this many bytes free, even 64 writers at one moment with 4 MiB each do not exceed a quota."""

_TENANT = ""
"""The resource id of the sum over all resources of a tenant."""


@dataclass(frozen=True, slots=True)
class Quota:
    """The most bytes that may be stored; 0 means no limit."""

    tenant: int
    resource: int


@dataclass(frozen=True, slots=True)
class StoredUsage:
    """Bytes that are stored."""

    tenant: int
    resource: int


def _sum_of(resource: str) -> ColumnElement[int]:
    # A resource that stores nothing has no row, and the sum over no rows is NULL.
    return func.coalesce(func.sum(case((stored_bytes.c.resource_id == bindparam(resource), stored_bytes.c.bytes))), 0)


_USED = select(_sum_of("whole"), _sum_of("resource_id")).where(
    stored_bytes.c.tenant_id == bindparam("tenant_id"),
    stored_bytes.c.resource_id.in_((bindparam("whole"), bindparam("resource_id"))),
)


async def read_used(tx: Tx, owner: Scope) -> StoredUsage:
    """The bytes stored now for the tenant and the resource, over all agents, with this transaction's part."""
    row = await tx.one(_USED, tenant_id=owner.tenant_id, resource_id=owner.resource_id, whole=_TENANT)
    assert row is not None
    return StoredUsage(*map(int, row))


async def within(tx: Tx, owner: Scope, quota: Quota, unit: Callable[[], Awaitable[T]]) -> T:
    """Run a unit as the last part of the transaction. If it stores more than it erases, the quota must allow all that
    is stored then. Near the quota, writers of a tenant come to the count one after the other, so that two cannot exceed
    it together. Far from it they do not wait for each other's commits.

    Raises QuotaExceeded, and what the unit raises.
    """
    before = await tx.backend.bytes_before(tx, owner)
    answer = await unit()
    more = await tx.backend.bytes_added(tx, owner, before)
    # A write that frees bytes is allowed over the limit: it is the way back under it.
    if more <= 0:
        return answer
    if _has_plenty(await read_used(tx, owner), quota):
        return answer
    await tx.backend.wait_for_count(tx, owner)
    now = await read_used(tx, owner)
    for whose, stored, allowed in (("tenant", now.tenant, quota.tenant), ("resource", now.resource, quota.resource)):
        if allowed and stored > allowed:
            raise QuotaExceeded(
                f"this {whose} has {stored - more:,} bytes stored, and this would add {more:,}; at most {allowed:,} are allowed. "
                "Nothing was stored. What is deleted counts until it is erased for good"
            )
    return answer


def _has_plenty(used: StoredUsage, quota: Quota) -> bool:
    """Whether more is free than all that others may be about to commit."""
    pairs = ((used.tenant, quota.tenant), (used.resource, quota.resource))
    return all(not allowed or stored + _PLENTY <= allowed for stored, allowed in pairs)


async def fold(tx: Tx, owner: Scope) -> None:
    """Bring what is counted of a resource and its tenant into as few rows as there can be: none, where nothing is stored."""
    await tx.backend.fold_bytes(tx, owner)


def _bytes_by_row(table: Table, columns: Sequence[str]) -> Select[Any]:
    """The resource of each row of a tenant, and the bytes that it counts."""
    # A column that is NULL takes no bytes, but would make the whole sum NULL.
    lengths = (func.coalesce(ByteLength(table.c[name]), 0) for name in columns)
    counted = reduce(add, lengths, literal(ROW_BYTES)).label("bytes")
    return select(table.c.resource_id, counted).where(table.c.tenant_id == bindparam("tenant_id"))


_rows = union_all(*(_bytes_by_row(metadata.tables[table], columns) for table, columns in COUNTED.items())).subquery()
_RECOUNT = select(_rows.c.resource_id, func.sum(_rows.c.bytes)).group_by(_rows.c.resource_id)
_COUNTS = (
    select(stored_bytes.c.resource_id, func.sum(stored_bytes.c.bytes))
    .where(stored_bytes.c.tenant_id == bindparam("tenant_id"))
    .group_by(stored_bytes.c.resource_id)
)


@dataclass(frozen=True, slots=True)
class Recount:
    """The stored count, and the sum of all rows: the same, or something is wrong. ``resource`` None:
    the whole tenant."""

    resource: str | None
    bytes: int
    recounted: int


async def recount(tx: Tx, tenant: Tenant) -> list[Recount]:
    """All of a tenant, counted anew: a look at every row. The tenant comes first, then its resources by name."""
    kept = {resource: int(size) for resource, size in await tx.all(_COUNTS, tenant_id=tenant.tenant_id)}
    found = {resource: int(size) for resource, size in await tx.all(_RECOUNT, tenant_id=tenant.tenant_id)}
    found[_TENANT] = sum(found.values())
    return [
        Recount(name or None, kept.get(name, 0), found.get(name, 0))
        for name in sorted({*kept, *found})
        if not name or kept.get(name) or found.get(name)
    ]
