"""Schemas of a Postgres database that tests borrow one after another: migrated once, emptied in between.

To migrate a schema and drop it costs a quarter of a CPU-second, to empty it a fifteenth of that.
"""

import asyncio
import threading
import uuid
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar
from urllib.parse import urlsplit

import asyncpg

from layerlore.storage.drivers.postgres.database import PostgresDatabase

T = TypeVar("T")

# What a test may change about a schema besides its rows: tables, columns, rights, policies, functions, triggers.
_SHAPE = """
SELECT md5(string_agg(line, '|' ORDER BY line)) FROM (
    SELECT format('%s %s %s %s %s %s', relname, relkind, relacl, relrowsecurity, relforcerowsecurity, relhastriggers)
        AS line FROM pg_class WHERE relnamespace = $1::text::regnamespace
    UNION ALL SELECT format('%s.%s %s %s', relname, attname, atttypid, attnotnull)
        FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
        WHERE relnamespace = $1::text::regnamespace AND relkind = 'r' AND attnum > 0
    UNION ALL SELECT format('%s %s %s', proname, proacl, md5(prosrc)) FROM pg_proc WHERE pronamespace = $1::text::regnamespace
    UNION ALL SELECT format('%s %s', tgname, tgenabled) FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid
        WHERE relnamespace = $1::text::regnamespace AND NOT tgisinternal
    UNION ALL SELECT format('%s %s', policyname, qual) FROM pg_policies WHERE schemaname = $1
    UNION ALL SELECT format('%s', nspacl) FROM pg_namespace WHERE nspname = $1::text
) AS lines
"""
_OTHERS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""
_TABLES = """
SELECT relname FROM pg_class WHERE relnamespace = $1::text::regnamespace AND relkind = 'r' AND relname <> 'schema_migrations'
"""
_SEQUENCES = "SELECT relname FROM pg_class WHERE relnamespace = $1::text::regnamespace AND relkind = 'S'"
_VERSION = "SELECT max(version) FROM {}.schema_migrations"
_LONGEST = 150  # uses, before rows that were deleted make a schema slow


class LentSchemas:
    """One borrower at a time; what is given back as it was lent goes to the next one.

    The connections run on a loop in a thread of their own, as each test has a loop that ends with it.
    """

    def __init__(self, admin_url: str, role_url: str) -> None:
        self._role_url = role_url
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._admin: asyncpg.Connection[asyncpg.Record] = self._wait(self._connect(admin_url))
        self._ready: tuple[str, int] | None = None
        self._shape: str | None = None
        self._version: int | None = None
        self._emptying = ""
        self._uses = 0

    def empty(self) -> str:
        """A schema without a table."""
        self._uses = _LONGEST
        return self._wait(self._create())

    def migrated(self) -> str:
        """A schema with every table, and no row but the installation's key."""
        if self._ready is None:
            self._ready = self._wait(self._migrate()), 0
        schema, self._uses = self._ready
        self._ready = None
        return schema

    def give_back(self, schema: str) -> None:
        """Everyone who is still connected is thrown out, so that nothing is written after this."""
        if self._wait(self._clear(schema, drop=self._uses >= _LONGEST)):
            self._ready = schema, self._uses + 1

    def url(self, schema: str) -> str:
        return f"{self._role_url}{'&' if '?' in self._role_url else '?'}search_path={schema}"

    def close(self) -> None:
        self._wait(self._admin.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        done: Future[T] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return done.result(60)

    async def _connect(self, admin_url: str) -> "asyncpg.Connection[asyncpg.Record]":
        # Rows go in any order: the superuser's session looks at no foreign key and no trigger.
        return await asyncpg.connect(
            admin_url,
            database=urlsplit(self._role_url).path.removeprefix("/"),
            server_settings={"session_replication_role": "replica"},
        )

    async def _create(self) -> str:
        schema = f"t_{uuid.uuid4().hex[:12]}"
        connection = await asyncpg.connect(self._role_url)
        try:
            await connection.execute(f"CREATE SCHEMA {schema}")
        finally:
            await connection.close()
        return schema

    async def _migrate(self) -> str:
        schema = await self._create()
        database = await PostgresDatabase.open(self.url(schema), pool_size=1)
        await database.close()
        self._shape = await self._admin.fetchval(_SHAPE, schema)
        self._version = await self._admin.fetchval(_VERSION.format(schema))
        tables = [row[0] for row in await self._admin.fetch(_TABLES, schema)]
        sequences = [row[0] for row in await self._admin.fetch(_SEQUENCES, schema)]
        self._emptying = "".join(
            f'DELETE FROM "{table}"' + (" WHERE name <> 'hmac_key'" if table == "installation" else "") + ";"
            for table in tables
        ) + "".join(f'ALTER SEQUENCE "{sequence}" RESTART;' for sequence in sequences)
        return schema

    async def _clear(self, schema: str, *, drop: bool) -> bool:
        while await self._admin.fetch(_OTHERS):
            await asyncio.sleep(0.01)
        same = not drop and await self._admin.fetchval(_SHAPE, schema) == self._shape
        if not same or await self._admin.fetchval(_VERSION.format(schema)) != self._version:
            await self._admin.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
            return False
        await self._admin.execute(f"SET search_path = {schema}; {self._emptying}")
        return True
