"""The cost of one added message, with the background work that follows it: statements, commits, log and stored bytes.

``python -m benchmarks.add_cost`` measures SQLite; ``--database URL`` measures a Postgres database that nothing else uses.
"""

import argparse
import asyncio
import tempfile
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import asyncpg

from benchmarks.cpu_parts import replace_everywhere
from benchmarks.sample_text import SampleText
from benchmarks.servers import Connection, in_process, ours
from layerlore.storage.drivers.sqlite import driver
from layerlore.storage.drivers.sqlite import transaction as sqlite_transaction
from layerlore.storage.drivers.sqlite.group_commit import commit_group

_WARM_UP = 12
_QUIET_SECONDS = 2.0
_BYTES = 391
_SIZES = """
    SELECT relname, pg_relation_size(oid) + coalesce(pg_relation_size(nullif(reltoastrelid, 0)), 0)
    FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'i')
"""
_FILE_SIZE = "SELECT 'the file', page_count * page_size FROM pragma_page_count(), pragma_page_size()"

State = tuple[dict[str, int], dict[str, int]]
"""Counters of the database's log, and the bytes of each table and index."""


class Calls:
    """Statements by their text, and round trips to the database, of the whole process."""

    def __init__(self) -> None:
        self.statements: Counter[str] = Counter()
        self.round_trips = 0
        self._lock = threading.Lock()

    def note(self, sql: str, times: int = 1) -> None:
        with self._lock:
            self.round_trips += 1
            for each in filter(None, map(str.strip, sql.split(";"))):
                self.statements[" ".join(each.split())] += times

    def commits(self) -> int:
        return self.statements["COMMIT"]

    def clear(self) -> None:
        self.statements.clear()
        self.round_trips = 0


def count_calls() -> Calls:
    """Count every statement of both drivers from now on."""
    calls = Calls()

    for name in ("execute", "fetch", "fetchrow", "fetchval", "cursor", "executemany"):
        made = getattr(asyncpg.Connection, name)

        def counted(self: Any, sql: str, *args: Any, _made: Any = made, **options: Any) -> Any:
            calls.note(sql)
            return _made(self, sql, *args, **options)

        setattr(asyncpg.Connection, name, counted)

    def note_statements(self: Any, statement: Any, values: Any) -> Any:
        calls.note(sqlite_transaction.compiled(statement, sqlite_transaction.DIALECT).sql)
        return execute(self, statement, values)

    async def note_many(self: Any, statement: Any, rows: Any) -> None:
        calls.note(sqlite_transaction.compiled(statement, sqlite_transaction.DIALECT).sql)
        await many(self, statement, rows)

    def note_commit(connection: driver.Connection, *args: Any) -> Any:
        calls.note("COMMIT")
        return commit_group(connection, *args)

    execute, many = sqlite_transaction.SqliteTx._execute, sqlite_transaction.SqliteTx.many
    sqlite_transaction.SqliteTx._execute = note_statements  # type: ignore[method-assign]
    sqlite_transaction.SqliteTx.many = note_many  # type: ignore[method-assign]
    replace_everywhere("layerlore", commit_group, note_commit)
    return calls


async def _add(connection: Connection, sample: SampleText, number: int, thread: str) -> None:
    text = sample.text(40, 40)[:_BYTES]
    role = "assistant" if number % 2 else "user"
    await connection.call("add_messages", thread_id=thread, messages=[{"role": role, "content": text}])


async def _postgres_state(url: str) -> State:
    connection = await asyncpg.connect(url)
    try:
        written = await connection.fetchrow(
            "SELECT pg_current_wal_insert_lsn() - '0/0' AS bytes, wal_fpi AS pages FROM pg_stat_wal"
        )
        sizes = dict(await connection.fetch(_SIZES))
    finally:
        await connection.close()
    return {"log bytes": int(written["bytes"]), "whole pages in the log": written["pages"]}, sizes


def _sqlite_state(file: Path) -> State:
    connection = driver.connect(str(file), synchronous="FULL", read_only=True)
    try:
        sizes = dict(connection.execute(_FILE_SIZE).fetchall())
    finally:
        connection.close()
    # Pages go to the log and from there to the file; nothing else of this process writes as much.
    written = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return {"bytes written": int(written["wchar"])}, sizes


async def measure(database: str, adds: int, pause: float, threads: int, shown: int) -> None:
    calls, sample = count_calls(), SampleText(1)
    with tempfile.TemporaryDirectory(prefix="layerlore-add-", ignore_cleanup_errors=True) as folder:
        launch = ours(Path(folder), database=database)
        file = Path(folder) / "memory.db"

        async def state() -> State:
            done = -1
            # Background work is over when the server has been quiet for a while.
            while done != calls.round_trips:
                done = calls.round_trips
                await asyncio.sleep(_QUIET_SECONDS)
            return await _postgres_state(database) if database else _sqlite_state(file)

        async with in_process(launch) as connection:
            for number in range(_WARM_UP):
                await _add(connection, sample, number, f"thread {number // 2 % threads}")
            before, sizes_before = await state()
            calls.clear()
            for number in range(adds):
                await _add(connection, sample, _WARM_UP + number, f"thread {number // 2 % threads}")
                await asyncio.sleep(pause)
            after, sizes_after = await state()
            counted = Counter(calls.statements)
            print(f"{adds} adds of {_BYTES} bytes, one each {pause:g} s, in {threads} threads. For one of them:")
            print(
                f"  statements {counted.total() / adds:.1f}, round trips {calls.round_trips / adds:.1f}, "
                f"commits {calls.commits() / adds:.2f}"
            )
        for name, value in after.items():
            print(f"  {name} {(value - before[name]) / adds:,.2f}")
        grown = {name: (size - sizes_before.get(name, 0)) / adds for name, size in sizes_after.items()}
        print(f"  stored bytes {sum(grown.values()):,.0f}")
        for name, more in sorted(grown.items(), key=lambda each: -each[1]):
            if more:
                print(f"    {more:8,.0f}  {name}")
        for sql, times in counted.most_common(shown):
            print(f"    {times / adds:6.2f}  {sql[:150]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", default="", help="the URL of a Postgres database; without it SQLite")
    parser.add_argument("--adds", type=int, default=40)
    parser.add_argument("--pause", type=float, default=0.5, help="seconds between two adds")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument(
        "--statements", type=int, default=0, help="how many statements to list, the most frequent first"
    )
    given = parser.parse_args()
    asyncio.run(measure(given.database, given.adds, given.pause, given.threads, given.statements))


if __name__ == "__main__":
    main()
