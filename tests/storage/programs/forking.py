"""Imports once, then forks children as it is told, for tests that need many processes or kill them.

An order is a line of JSON on standard input: what to do, with what, and how many children. They begin together. On
standard output: the children's process ids, the lines that they print, and at last their exit codes.
"""

import asyncio
import itertools
import json
import os
import random
import sys
import time
import uuid
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import asyncpg

from layerlore.storage.core import installation
from layerlore.storage.core.records import Draft, IndexedText, Scope
from layerlore.storage.core.transaction import Database
from layerlore.storage.drivers.dialect import open_database
from layerlore.storage.drivers.postgres.places import migrate_postgres
from layerlore.storage.drivers.sqlite import driver
from layerlore.storage.drivers.sqlite.file import migrate_sqlite
from layerlore.storage.messages import message_rows

ANA = Scope("local", "agent", "ana")
WORD = IndexedText(("word",), 4)
DEAD = 9


def say(line: dict[str, Any]) -> None:
    os.write(1, json.dumps(line).encode() + b"\n")


async def append(database: Database, thread_id: str, ids: list[str]) -> list[int]:
    drafts = [Draft(id_, "user", None, [{"type": "text", "text": id_}], {}, None, 1, "none", WORD) for id_ in ids]
    now = time.time_ns() // 1_000_000
    done = await database.write(
        message_rows.append,
        ANA,
        thread_id,
        drafts,
        new_uid=uuid.uuid4().hex,
        replace_known=False,
        now=now,
        search_text=lambda _: WORD,
    )
    return [stored.seq for stored in done.stored]


async def append_for_a_while(child: int, url: str, seconds: float, tasks: int, answers: str) -> None:
    """Tasks that append to the same few threads; what was acknowledged goes to a file at the end."""
    database = await open_database(url, Path())
    acknowledged: list[tuple[str, str, int]] = []

    async def work(task: int) -> None:
        stop_at = time.monotonic() + seconds
        for n in itertools.count():
            if time.monotonic() > stop_at:
                return
            thread_id = f"t{random.randrange(3)}"
            ids = [f"{child}.{task}.{n}.{part}" for part in range(random.randrange(1, 4))]
            seqs = await append(database, thread_id, ids)
            acknowledged.extend((thread_id, id_, seq) for id_, seq in zip(ids, seqs, strict=True))

    await asyncio.gather(*(work(task) for task in range(tasks)))
    await database.close()
    Path(f"{answers}.{child}").write_text(json.dumps(acknowledged))


async def append_until_killed(_child: int, url: str, tasks: int) -> None:
    """Tasks that append and say so, after the write returned."""
    database = await open_database(url, Path())

    async def work(task: int) -> None:
        for n in itertools.count():
            ids = [f"{task}.{n}.{part}" for part in range(n % 3 + 1)]
            await append(database, f"t{task % 2}", ids)
            say({"acknowledged": ids})

    await asyncio.gather(*(work(task) for task in range(tasks)))


async def open_it(_child: int, url: str) -> None:
    database = await open_database(url, Path())
    say({"key": (await database.read_installation(installation.hmac_key)).hex()})
    await database.close()


class DyingConnection:
    """A connection whose process ends, without a farewell, after its nth statement."""

    def __init__(self, connection: Any, statements: int) -> None:
        self._connection = connection
        self._left = statements

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def _count(self) -> None:
        if self._left == 0:
            os._exit(DEAD)
        self._left -= 1


class DyingSqlite(DyingConnection):
    def execute(self, *arguments: Any) -> Any:
        self._count()
        return self._connection.execute(*arguments)


class DyingPostgres(DyingConnection):
    async def execute(self, *arguments: Any, **options: Any) -> Any:
        self._count()
        return await self._connection.execute(*arguments, **options)

    async def fetch(self, *arguments: Any) -> Any:
        self._count()
        return await self._connection.fetch(*arguments)

    async def fetchval(self, *arguments: Any) -> Any:
        self._count()
        return await self._connection.fetchval(*arguments)


async def migrate_and_die(_child: int, url: str, statements: int) -> None:
    if url.startswith("sqlite://"):
        connection = driver.connect(url.removeprefix("sqlite://"), synchronous="OFF")
        driver.use_write_ahead_log(connection)
        migrate_sqlite(DyingSqlite(connection, statements))
    else:
        await migrate_postgres(DyingPostgres(await asyncpg.connect(url), statements))


WORK: dict[str, Callable[..., Coroutine[Any, Any, None]]] = {
    work.__name__: work for work in (append_for_a_while, append_until_killed, open_it, migrate_and_die)
}


def run_child(child: int, begin: int, order: dict[str, Any]) -> int:
    os.read(begin, 1)  # until the parent closes its end
    try:
        asyncio.run(WORK[order.pop("work")](child, **order))
    except Exception as error:  # noqa: BLE001 - the test shows it
        say({"error": f"{type(error).__name__}: {error}"})
        return 1
    return 0


def main() -> None:
    for line in sys.stdin:
        order = json.loads(line)
        begin, hold = os.pipe()
        pids = []
        for child in range(order.pop("children", 1)):
            pid = os.fork()
            if pid == 0:
                os.close(hold)
                os._exit(run_child(child, begin, order))
            pids.append(pid)
        say({"pids": pids})
        os.close(begin)
        os.close(hold)
        say({"codes": [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]})


if __name__ == "__main__":
    main()
