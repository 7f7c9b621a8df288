"""The memories and conversations of a whole tenant, for its operator. Each read is in the journal."""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Literal

from layerlore.memory.engine.engine import Engine
from layerlore.memory.engine.journal_lines import make_line
from layerlore.memory.messages.message_answers import (
    MemoryPage,
    MemoryRow,
    TenantPage,
    TenantThreadPage,
    TenantThreadRow,
    ThreadNaming,
)
from layerlore.memory.rules.ages import iso
from layerlore.memory.rules.answers import fit_entries, read_cursor, write_cursor
from layerlore.memory.rules.validation import MOST_INTEGER, check_metadata, check_text
from layerlore.memory.text.quotation import make_visible
from layerlore.storage.audit import journal_rows
from layerlore.storage.core.errors import InvalidInput, StorageUnavailable
from layerlore.storage.core.records import Json, Origin, Scope, Tenant
from layerlore.storage.core.transaction import Tx
from layerlore.storage.messages import tenant_memories
from layerlore.storage.messages.tenant_memories import MemoryCounts, Pair
from layerlore.storage.threads import threads
from layerlore.storage.threads.threads import OwnedThread, ThreadFilter

_LOOKED_AT = 1_000
_MOST_LOOKED_AT = 20_000
"""The number of memories that are searched for words, in one step and for one page."""


@dataclass(frozen=True, slots=True)
class MemorySearch:
    """Which memories of a tenant. ``agents`` and ``resource``: those that the caller may see (None: any); ``query``: words
    that the agent's or the resource's name has, whatever their case; ``limit``: of a page."""

    agents: Collection[str] | None = None
    resource: str | None = None
    query: str = ""
    limit: int = 50
    cursor: str = ""


async def list_memories(engine: Engine, tenant_id: str, search: MemorySearch, origin: Origin) -> MemoryPage:
    """The memories of a tenant, by agent and resource: ``memories`` with what each holds, and ``next_cursor`` if there are
    more; with a query a page may then have fewer than fit. Raises InvalidInput."""
    words = check_text(search.query, "query").casefold().split()
    place = _read_place(search.cursor, 2)
    after = (place[0], place[1])
    # The list is of no single agent or resource, so its journal line names none.
    now, tenant, nobody = engine.now(), Tenant(tenant_id), Scope(tenant_id, "", "")

    async def look(tx: Tx, tenant: Tenant) -> MemoryPage:
        found, reached = await _find(tx, tenant, search, words, after)
        counted = await tenant_memories.count_memories(tx, tenant, found)
        rows = fit_entries([_show(pair, counted[pair]) for pair in found], engine.limits.answer_bytes)
        if len(rows) < len(found):
            reached = found[len(rows) - 1]
        # In the transaction of the read: an operator sees nothing without a line in the journal.
        line = make_line(engine.hmac_key, nobody, origin, "done", now, counts={"memories": len(rows)})
        await journal_rows.append(tx, nobody, line)
        page: MemoryPage = {"memories": rows}
        if reached:
            page["next_cursor"] = write_cursor([*reached])
        return page

    return await engine.database.write(look, tenant)


async def _find(
    tx: Tx, tenant: Tenant, search: MemorySearch, words: Collection[str], after: Pair
) -> tuple[list[Pair], Pair | None]:
    """The memories of a page, and the last one that was examined if there are more behind it."""
    found: list[Pair] = []
    looked_at = 0
    if words:
        most = _LOOKED_AT
    else:
        most = search.limit
    while True:
        pairs = await tenant_memories.pairs_after(
            tx, tenant, after, agents=search.agents, resource=search.resource, most=most + 1
        )
        for at, pair in enumerate(pairs[:most]):
            after = pair
            if all(word in f"{pair[0]}\n{pair[1]}".casefold() for word in words):
                found.append(pair)
            if len(found) == search.limit:
                # One pair more than needed was read: if it is there, another page follows.
                return found, pair if at + 1 < len(pairs) else None
        looked_at += most
        if len(pairs) <= most:
            return found, None
        # A rare word in a large tenant: the page ends early, and its cursor continues the search.
        if looked_at >= _MOST_LOOKED_AT:
            return found, after


async def list_tenants(engine: Engine, *, query: str, limit: int, cursor: str) -> TenantPage:
    """The tenants of the installation of which anything is stored, by name, those of the home cluster first: ``tenants``
    and, if there are more, ``next_cursor``. Raises InvalidInput."""
    words = check_text(query, "query").casefold().split()
    clusters = engine.database.clusters
    number, after = _read_place(cursor, 2)
    at = int(number) if number.isdecimal() else 0
    found: list[tuple[int, str]] = []
    while len(found) <= limit and at < len(clusters):
        try:
            tenants = await clusters[at].read_installation(tenant_memories.tenants_after, after, limit + 1)
        except StorageUnavailable:
            # A shard that is away hides its own tenants and no others.
            if at == 0:
                raise
            tenants = []
        found += [(at, tenant) for tenant in tenants if all(word in tenant.casefold() for word in words)]
        if tenants:
            after = tenants[-1]
        else:
            at, after = at + 1, ""
    shown = found[:limit]
    page: TenantPage = {"tenants": [tenant for _, tenant in shown]}
    if len(found) > limit:
        last_at, last = shown[-1]
        page["next_cursor"] = write_cursor([str(last_at), last])
    return page


def _show(pair: Pair, holds: MemoryCounts) -> MemoryRow:
    row: MemoryRow = {
        "agent": pair[0],
        "resource": pair[1],
        "conversations": holds.threads,
        "messages": holds.messages,
        "entries": holds.entries,
    }
    if holds.last_at is not None:
        row["last_at"] = iso(holds.last_at)
    return row


def _read_place(cursor: str, parts: int) -> list[str]:
    """The names that a cursor holds, none of which is empty; without one, those before all others."""
    if not cursor:
        return [""] * parts
    unknown = InvalidInput("cursor: not one that this list gave; leave it out to begin at the first page")
    place = read_cursor(cursor, unknown)
    if not isinstance(place, list) or len(place) != parts or not all(isinstance(each, str) for each in place):
        raise unknown
    return [check_text(each, "cursor") for each in place]


@dataclass(frozen=True, slots=True)
class TenantSearch:
    """A search of a tenant's conversations. Empty fields do not restrict it. ``agents``: whose the caller may see
    (None: those of all). Times are milliseconds since 1970 and are of ``order_by``."""

    agents: Collection[str] | None = None
    agent: str = ""
    resource: str = ""
    metadata: Json = field(default_factory=dict)
    since: int | None = None
    until: int | None = None
    order_by: Literal["created_at", "updated_at"] = "updated_at"
    descending: bool = True
    limit: int = 20
    cursor: str = ""

    @property
    def filter(self) -> ThreadFilter:
        """The filters of the store's query."""
        named = [self.agent] if self.agent else self.agents
        resource = self.resource or None
        return ThreadFilter(
            named, resource, self.since, self.until, self.metadata or None, self.order_by, self.descending
        )


async def list_tenant_threads(engine: Engine, tenant_id: str, search: TenantSearch, origin: Origin) -> TenantThreadPage:
    """The conversations of a tenant, with whose they are; ``next_cursor`` continues. A line in the journal says who
    looked, for which agent and resource if one was named, and how many were shown.

    Raises InvalidInput, LimitExceeded.
    """
    check_metadata(search.metadata, "metadata", engine.limits)
    if search.since is not None and search.until is not None and search.since > search.until:
        raise InvalidInput("since: it is later than until, so nothing could be found")
    conditions = [search.agent, search.resource, search.metadata, search.order_by, search.descending]
    if search.cursor:
        place = _read_thread_place(search.cursor, conditions)
    else:
        place = None
    now, tenant = engine.now(), Tenant(tenant_id)
    named = Scope(tenant_id, search.agent, search.resource)

    async def look(tx: Tx, tenant: Tenant) -> TenantThreadPage:
        found, after = await threads.read_page(tx, tenant, search.filter, after=place, limit=search.limit)
        rows = fit_entries([_show_thread(thread) for thread in found], engine.limits.answer_bytes)
        if len(rows) < len(found):
            last = found[len(rows) - 1].thread
            after = threads.order_value(last, search.order_by), last.thread_uid
        line = make_line(engine.hmac_key, named, origin, "done", now, counts={"threads": len(rows)})
        await journal_rows.append(tx, named, line)
        page: TenantThreadPage = {"threads": rows}
        if after:
            page["next_cursor"] = write_cursor([conditions, *after])
        return page

    return await engine.database.write(look, tenant)


def _show_thread(owned: OwnedThread) -> TenantThreadRow:
    thread = owned.thread
    naming: ThreadNaming = {}
    # Invisible characters in a title could hide text from the operator.
    title = make_visible(thread.title or "")
    if title:
        naming["title"] = title
    if thread.metadata:
        naming["metadata"] = thread.metadata
    return {
        "agent": owned.agent_id,
        "resource": owned.resource_id,
        "thread_id": thread.thread_id,
        **naming,
        "messages": thread.message_count,
        "tokens": thread.token_count,
        "created_at": iso(thread.created_at),
        "updated_at": iso(thread.updated_at),
    }


def _read_thread_place(cursor: str, conditions: list[object]) -> tuple[int, str]:
    unknown = InvalidInput("cursor: not one that this list gave; leave it out to begin at the first page")
    match read_cursor(cursor, unknown):
        case [list(made_for), int(value), str(uid)] if not isinstance(value, bool) and abs(value) <= MOST_INTEGER:
            # With other filters or in another order the place would skip or repeat rows.
            if made_for != conditions:
                raise InvalidInput("cursor: it belongs to a list with other filters; repeat them, or leave it out")
            return value, check_text(uid, "cursor")
    raise unknown
