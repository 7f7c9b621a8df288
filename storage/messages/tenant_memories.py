"""The memories of a tenant, those of each agent for each resource, and the tenants that there are, for operators."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from sqlalchemy import Select, Table, bindparam, func, select, tuple_, union

from layerlore.storage.core.records import Scope, Tenant
from layerlore.storage.core.statements import any_of
from layerlore.storage.core.tables import entries, resources, threads
from layerlore.storage.core.transaction import Tx
from layerlore.storage.messages import place_rows

Pair = tuple[str, str]
"""An agent and a resource."""

_LAST = "\U0010ffff"
"""Behind every id."""


@dataclass(frozen=True, slots=True)
class MemoryCounts:
    """The counts of a memory: live conversations, their messages, and active entries; when a conversation went on last
    (milliseconds), if there is one."""

    threads: int = 0
    messages: int = 0
    entries: int = 0
    last_at: int | None = None


@cache
def _pairs(given: tuple[str, ...]) -> Select[Any]:
    """The pairs behind one, in their order: each that has a thread, or that anything else was ever kept of."""

    def some(table: Table) -> Select[Any]:
        pair = (table.c.agent_id, table.c.resource_id)
        conditions = {
            "agents": any_of(table.c.agent_id, "agents"),
            "resource_id": table.c.resource_id == bindparam("resource_id"),
        }
        start = tuple_(bindparam("after_agent", type_=pair[0].type), bindparam("after_resource", type_=pair[1].type))
        found = (
            select(*pair)
            .distinct()
            .where(table.c.tenant_id == bindparam("tenant_id"), tuple_(*pair) > start)
            .where(*(conditions[name] for name in given))
            .order_by(*pair)
            .limit(bindparam("most"))
        )
        # SQLite takes a LIMIT in a part of a union only in a subquery.
        return select(*found.subquery().c)

    both = union(some(threads), some(resources)).subquery()
    return select(*both.c).order_by(*both.c).limit(bindparam("most"))


async def pairs_after(
    tx: Tx, tenant: Tenant, after: Pair, *, agents: Collection[str] | None, resource: str | None, most: int
) -> list[Pair]:
    """The next memories of a tenant behind one, by agent and resource; None: of any."""
    filters = {"agents": None if agents is None else list(agents), "resource_id": resource}
    given = {name: value for name, value in filters.items() if value is not None}
    rows = await tx.all(
        _pairs(tuple(given)),
        tenant_id=tenant.tenant_id,
        after_agent=after[0],
        after_resource=after[1],
        most=most,
        **given,
    )
    return [(agent, resource_id) for agent, resource_id in rows]


def _among(table: Table) -> tuple[Any, ...]:
    return (
        table.c.tenant_id == bindparam("tenant_id"),
        any_of(table.c.agent_id, "agents"),
        any_of(table.c.resource_id, "resources"),
    )


_THREADS = (
    select(
        threads.c.agent_id,
        threads.c.resource_id,
        func.count(),
        func.sum(threads.c.message_count),
        func.max(threads.c.updated_at),
    )
    .where(*_among(threads), threads.c.deletion_uid.is_(None))
    .group_by(threads.c.agent_id, threads.c.resource_id)
)
_ENTRIES = (
    select(entries.c.agent_id, entries.c.resource_id, func.count())
    .where(*_among(entries), entries.c.status == "active")
    .group_by(entries.c.agent_id, entries.c.resource_id)
)


async def count_memories(tx: Tx, tenant: Tenant, pairs: Sequence[Pair]) -> dict[Pair, MemoryCounts]:
    """The counts of each of these memories."""
    if not pairs:
        return {}
    # Each agent is read with each resource: more pairs than wanted, of which only theirs are used.
    named = {
        "tenant_id": tenant.tenant_id,
        "agents": sorted({agent for agent, _ in pairs}),
        "resources": sorted({resource for _, resource in pairs}),
    }
    noted = {(agent, resource): int(count) for agent, resource, count in await tx.all(_ENTRIES, **named)}
    said = {(agent, resource): counted for agent, resource, *counted in await tx.all(_THREADS, **named)}
    return {
        pair: MemoryCounts(int(count), int(messages), noted.get(pair, 0), last_at)
        for pair in pairs
        for count, messages, last_at in [said.get(pair, (0, 0, None))]
    }


async def tenants_after(tx: Tx, after: str, most: int) -> list[str]:
    """The next tenants of the installation behind one of which anything is stored. The transaction is bound to none."""
    found: list[str] = []
    while len(found) < most:
        # The next look begins behind every scope of the tenant, so each tenant costs one read.
        scopes = await place_rows.scopes_after(tx, Scope(after, _LAST if after else "", _LAST if after else ""), 1)
        if not scopes:
            break
        if scopes[0].tenant_id != after:
            found.append(scopes[0].tenant_id)
        after = scopes[0].tenant_id
    return found
