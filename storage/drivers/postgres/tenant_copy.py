"""Copies the rows of one tenant from a cluster to another, however often: what is there already is compared and kept.

Rows are compared in groups (one conversation of a table, say): at first by one hash of each group, then only those groups
with rows that are younger than the last look. So a copy that is nearly up to date is soon brought up to date. Ids and numbers stay as they are.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeAlias, cast

import asyncpg

from layerlore.storage.core.errors import StorageUnavailable
from layerlore.storage.core.records import Tenant
from layerlore.storage.drivers.postgres.transaction import binding

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
Group = tuple[str, ...]
Guard = Callable[[Connection], Awaitable[None]]

PARKED_MS = 10**15
"""Added to the time when a job is due while its tenant is on the way: no worker takes it up before the tenant is there."""
STAYING = frozenset({"api_keys", "tenant_spending", "tenant_places"})
"""The tables of the home cluster, which do not move."""
COUNTED = "stored_bytes"
"""Triggers count the bytes of the rows that are copied, and of those that are removed."""
_ROWS_OF_GROUP = 1_000
_BATCH_ROWS = 5_000
_MEMORY_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class TenantTable:
    """A table with rows of tenants. ``optional``: the columns that may be NULL. ``is_numbered``: the database itself gives
    numbers to its rows. ``keys_are_own``: each unique key begins with the tenant, so that rows of two tenants may have the
    same numbers."""

    name: str
    columns: tuple[str, ...]
    optional: frozenset[str]
    key: tuple[str, ...]
    is_numbered: bool
    keys_are_own: bool

    @property
    def only_grows(self) -> bool:
        return self.name == "journal"

    @property
    def groups(self) -> tuple[str, ...]:
        """The values that distinguish one group of rows from another. They are never NULL, which does not even equal
        itself."""
        by_name = tuple(
            f"coalesce(t.{name}, '')" if name in self.optional else f"t.{name}"
            for name in ("agent_id", "resource_id", "thread_uid", "scope_token")
            if name in self.columns
        )
        # Without a conversation a group could be all that a resource has.
        if "row_id" in self.key:
            return (*by_name, f"(t.row_id / {_ROWS_OF_GROUP})::text")
        return by_name

    @property
    def row_key(self) -> str:
        return f"ROW({', '.join(f't.{name}' for name in self.key)})::text"

    def values(self, *, parked: bool) -> str:
        """The columns as they are to be on the other cluster; ``parked``: of rows that come from where they are in use."""
        if parked and self.name == "jobs":
            return ", ".join(f"t.due_at + {PARKED_MS}" if name == "due_at" else f"t.{name}" for name in self.columns)
        return ", ".join(f"t.{name}" for name in self.columns)

    def row_hash(self, *, parked: bool) -> str:
        return f"hashtextextended(ROW({self.values(parked=parked)})::text, 0)"


_TABLES = """
SELECT t.relname AS name,
       (SELECT array_agg(attname::text ORDER BY attname) FROM pg_attribute
        WHERE attrelid = t.oid AND attnum > 0 AND NOT attisdropped AND attgenerated = '') AS columns,
       ARRAY(SELECT attname::text FROM pg_attribute
             WHERE attrelid = t.oid AND attnum > 0 AND NOT attisdropped AND NOT attnotnull) AS optional,
       (SELECT array_agg(attname::text ORDER BY attname) FROM pg_attribute JOIN pg_index ON indrelid = attrelid
        WHERE attrelid = t.oid AND indisprimary AND attnum = ANY (indkey)) AS key,
       EXISTS (SELECT FROM pg_attribute WHERE attrelid = t.oid AND attidentity <> '') AS is_numbered,
       NOT EXISTS (SELECT FROM pg_index JOIN pg_attribute ON attrelid = indrelid AND attnum = indkey[0]
                   WHERE indrelid = t.oid AND indisunique AND attname <> 'tenant_id') AS keys_are_own,
       ARRAY(SELECT p.relname::text FROM pg_constraint JOIN pg_class p ON p.oid = confrelid
             WHERE conrelid = t.oid AND contype = 'f' AND confrelid <> t.oid) AS parents
FROM pg_class t
WHERE t.relnamespace = current_schema()::regnamespace AND t.relkind IN ('r', 'p')
  AND EXISTS (SELECT FROM pg_attribute WHERE attrelid = t.oid AND attname = 'tenant_id' AND NOT attisdropped)
ORDER BY t.relname
"""


async def read_tables(connection: Connection) -> list[TenantTable]:
    """The tables whose rows go with a tenant, each behind those that its rows refer to."""
    found = {
        row["name"]: row
        for row in await connection.fetch(_TABLES)
        if row["name"] not in STAYING and row["name"] != COUNTED
    }
    ordered: list[str] = []

    def place(name: str) -> None:
        for parent in found[name]["parents"]:
            if parent in found and parent not in ordered:
                place(parent)
        if name not in ordered:
            ordered.append(name)

    # Removing a message or an entry removes its rows of the index, so these are compared last.
    for name in sorted(found, key=lambda name: name.startswith("search_")):
        place(name)
    return [
        TenantTable(
            name,
            tuple(row["columns"]),
            frozenset(row["optional"]),
            tuple(row["key"]),
            row["is_numbered"],
            row["keys_are_own"],
        )
        for name, row in ((name, found[name]) for name in ordered)
    ]


@asynccontextmanager
async def of_tenant(connection: Connection, tenant: Tenant, *, snapshot: bool = False) -> AsyncIterator[None]:
    """A transaction of the role that owns the tables, bound to all rows of a tenant. ``snapshot``: all of it sees one state."""
    async with connection.transaction(isolation="repeatable_read" if snapshot else "read_committed"):
        await bind(connection, tenant)
        yield


async def bind(connection: Connection, tenant: Tenant) -> None:
    """Let the open transaction see the tenant's rows, and remove those of the journal."""
    await connection.execute(
        f"{binding(tenant)}; SET LOCAL layerlore.across TO 'yes'; SET LOCAL layerlore.prune TO 'on'; "
        "SET LOCAL jit TO off; SET LOCAL synchronous_commit TO on"
    )


async def _read_groups(
    connection: Connection, table: TenantTable, tenant: Tenant, found: str, *values: Any
) -> dict[Group, Any]:
    """The expressions of ``found`` for each group; its parameters begin at $2."""
    names = "".join(f"{group}, " for group in table.groups)
    rows = await connection.fetch(
        f"SELECT {names} {found} FROM {table.name} AS t "  # noqa: S608 - names of tables
        f"WHERE t.tenant_id = $1 GROUP BY {', '.join(table.groups)}",
        tenant.tenant_id,
        *values,
    )
    parts = len(table.groups)
    return {tuple(row)[:parts]: tuple(row)[parts:] for row in rows}


def _among(table: TenantTable) -> str:
    """The rows of the tenant in some groups, whose names come as one array for each part of them, from $2 on."""
    arrays = ", ".join(f"${at}::text[]" for at, _ in enumerate(table.groups, 2))
    names = ", ".join(f"g{at}" for at, _ in enumerate(table.groups))
    same = " AND ".join(f"{group} = g{at}" for at, group in enumerate(table.groups))
    return f"FROM {table.name} AS t JOIN unnest({arrays}) AS wanted({names}) ON {same} WHERE t.tenant_id = $1"


def _arrays(tenant: Tenant, groups: Sequence[Group]) -> list[Any]:
    return [tenant.tenant_id, *(list(part) for part in zip(*groups, strict=True))]


async def _read_hashes(
    connection: Connection, table: TenantTable, tenant: Tenant, groups: Sequence[Group], *, parked: bool
) -> dict[str, int]:
    """The hash of each row of some groups, by its key."""
    rows = await connection.fetch(
        f"SELECT {table.row_key}, {table.row_hash(parked=parked)} {_among(table)}",
        *_arrays(tenant, groups),
    )
    return {row[0]: row[1] for row in rows}


async def _remove_rows(
    connection: Connection, table: TenantTable, tenant: Tenant, groups: Sequence[Group], keys: Sequence[str]
) -> None:
    if keys:
        await connection.execute(
            f"DELETE FROM {table.name} WHERE ctid IN (SELECT t.ctid {_among(table)} "  # noqa: S608
            f"AND {table.row_key} = ANY (${len(table.groups) + 2}::text[]))",
            *_arrays(tenant, groups),
            keys,
        )


class TenantCopy:
    """The copy of a tenant on ``target``. ``guard`` is called first in each transaction there: it raises if the tenant is
    on that cluster by now."""

    def __init__(self, target: Connection, tenant: Tenant, tables: Sequence[TenantTable], guard: Guard) -> None:
        self._target = target
        self._tenant = tenant
        self._tables = tables
        self._guard = guard
        self._since: str | None = None

    async def update(self, source: Connection) -> int:
        """Make the copy what the source's open transaction sees. Returns how many rows differed."""
        # Transactions from here on may not be in what is seen now, so the next look begins with them.
        since: str = await source.fetchval("SELECT pg_snapshot_xmin(pg_current_snapshot())::text")
        differed = 0
        for table in self._tables:
            there, differing = await self._compare(source, table)
            differed += await self._update_table(source, table, there, differing)
        self._since = since
        return differed

    async def _compare(self, source: Connection, table: TenantTable) -> tuple[dict[Group, int], list[Group]]:
        """How many rows each group has on the side that has more, and the groups that differ."""
        async with of_tenant(self._target, self._tenant):
            if self._since is None:
                there, here = await asyncio.gather(
                    _read_groups(source, table, self._tenant, f"count(*), bit_xor({table.row_hash(parked=True)})"),
                    _read_groups(
                        self._target, table, self._tenant, f"count(*), bit_xor({table.row_hash(parked=False)})"
                    ),
                )
            else:
                # Every row that came or changed since the last look has a younger transaction, and one that went is
                # missing in the count. To read no values takes a small part of the time.
                younger = "count(*) FILTER (WHERE age(t.xmin) <= age($2::text::xid8::xid))"
                there, here = await asyncio.gather(
                    _read_groups(source, table, self._tenant, f"count(*), {younger}", self._since),
                    _read_groups(self._target, table, self._tenant, "count(*), 0::bigint"),
                )
        # A journal may have other lines on the target, which stay.
        groups = {*there} if table.only_grows else {*there, *here}
        rows = {group: max(there.get(group, (0,))[0], here.get(group, (0,))[0]) for group in groups}
        return rows, sorted(group for group in groups if there.get(group) != here.get(group))

    async def _update_table(
        self, source: Connection, table: TenantTable, rows: dict[Group, int], differing: Sequence[Group]
    ) -> int:
        batch: list[Group] = []
        changed = size = 0
        for group in differing:
            batch.append(group)
            size += rows[group]
            if size >= _BATCH_ROWS:
                changed += await self._update_groups(source, table, batch)
                batch, size = [], 0
        if batch:
            changed += await self._update_groups(source, table, batch)
        return changed

    async def _update_groups(self, source: Connection, table: TenantTable, groups: Sequence[Group]) -> int:
        wanted = await _read_hashes(source, table, self._tenant, groups, parked=True)
        async with of_tenant(self._target, self._tenant):
            await self._guard(self._target)
            present = await _read_hashes(self._target, table, self._tenant, groups, parked=False)
            gone = [key for key in present if key not in wanted]
            changed = [key for key, found in wanted.items() if present.get(key) != found]
            if table.only_grows:
                gone, changed = [], [key for key in changed if key not in present]
            if not gone and not changed:
                return 0
            await _remove_rows(self._target, table, self._tenant, groups, gone)
            if changed:
                with tempfile.SpooledTemporaryFile(max_size=_MEMORY_BYTES) as rows:
                    await source.copy_from_query(
                        f"SELECT {table.values(parked=True)} {_among(table)} "
                        f"AND {table.row_key} = ANY (${len(table.groups) + 2}::text[])",
                        *_arrays(self._tenant, groups),
                        changed,
                        output=cast("BinaryIO", rows),
                        format="binary",
                    )
                    rows.seek(0)
                    await self._store(table, groups, [key for key in changed if key in present], rows)
                await self._check(table, groups, wanted)
        return len(gone) + len(changed)

    async def _check(self, table: TenantTable, groups: Sequence[Group], wanted: dict[str, int]) -> None:
        """Raises StorageUnavailable if the target does not have the rows that were copied."""
        stored = await _read_hashes(self._target, table, self._tenant, groups, parked=False)
        if table.only_grows:
            is_there = wanted.keys() <= stored.keys()
        else:
            is_there = wanted == stored
        if not is_there:
            raise StorageUnavailable(f"rows of {table.name} are not on the other cluster as they were copied")

    async def _store(self, table: TenantTable, groups: Sequence[Group], present: Sequence[str], rows: Any) -> None:
        columns = ", ".join(table.columns)
        await self._target.execute(
            f"CREATE TEMP TABLE moved_rows ON COMMIT DROP AS SELECT {columns} FROM {table.name} WITH NO DATA"  # noqa: S608
        )
        await self._target.copy_to_table("moved_rows", source=rows, columns=table.columns, format="binary")
        insert = f"INSERT INTO {table.name} ({columns}) OVERRIDING SYSTEM VALUE SELECT {columns} FROM moved_rows"  # noqa: S608
        others = ", ".join(f"{name} = excluded.{name}" for name in table.columns if name not in table.key)
        update = f"DO UPDATE SET {others}" if others else "DO NOTHING"
        # A number that the database gave cannot be changed, only stored with a new row.
        if not table.is_numbered:
            try:
                async with self._target.transaction():
                    await self._target.execute(f"{insert} ON CONFLICT ({', '.join(table.key)}) {update}")
                return
            except asyncpg.UniqueViolationError:
                # Two rows changed names, say: the new owner of a name came before the former one had lost it.
                pass
        await _remove_rows(self._target, table, self._tenant, groups, present)
        await self._target.execute(insert)


def check_same_tables(source: Sequence[TenantTable], target: Sequence[TenantTable]) -> None:
    """Raises StorageUnavailable if the two clusters have tables of different versions."""
    if {*source} != {*target}:
        raise StorageUnavailable("the two clusters have tables of different versions: run `layerlore migrate` first")
    for table in source:
        if not table.keys_are_own:
            raise StorageUnavailable(f"rows of {table.name} cannot move: their numbers are not the tenant's own")


async def remove_journal(source: Connection, target: Connection, tenant: Tenant, journal: TenantTable) -> int:
    """Remove the lines of the journal from a cluster that the tenant has left, as far as the target has the same.
    Returns their number."""
    async with of_tenant(source, tenant):
        groups = await _read_groups(source, journal, tenant, "count(*)")
    removed = 0
    for group in sorted(groups):
        async with of_tenant(target, tenant):
            there = await _read_hashes(target, journal, tenant, [group], parked=False)
        async with of_tenant(source, tenant):
            here = await _read_hashes(source, journal, tenant, [group], parked=False)
            same = [key for key, found in here.items() if there.get(key) == found]
            await _remove_rows(source, journal, tenant, [group], same)
        removed += len(same)
    return removed


async def remove_tenant(connection: Connection, tenant: Tenant, tables: Sequence[TenantTable], guard: Guard) -> int:
    """Remove a tenant's rows from a cluster that it has left. Returns their number."""
    removed = 0
    # Rows before those that they refer to; last the bytes, which every removal counts down.
    for name in [*(table.name for table in reversed(tables)), COUNTED]:
        some = 1
        while some:
            async with of_tenant(connection, tenant):
                await guard(connection)
                done = await connection.execute(
                    f"DELETE FROM {name} WHERE ctid IN "  # noqa: S608
                    f"(SELECT ctid FROM {name} WHERE tenant_id = $1 LIMIT {_BATCH_ROWS})",
                    tenant.tenant_id,
                )
            some = int(done.rpartition(" ")[2])
            removed += some if name != COUNTED else 0
    return removed
