"""What a store holds in the end, read through a server of its own, and what its database says of itself."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.metrics import gaps
from benchmarks.servers import Connection, Launch, over_stdio
from layerlore.storage.drivers.sqlite.database import SqliteDatabase

_PAGE = 200


@dataclass(frozen=True, slots=True)
class Stored:
    """The ids of all messages in some threads (again if stored twice), and the threads' breaks in their seqs."""

    ids: list[str]
    broken: dict[str, list[int]]

    @property
    def repeated(self) -> int:
        """How many messages are there more than once."""
        return len(self.ids) - len(set(self.ids))

    @property
    def breaks(self) -> int:
        """How many seqs are missing or given twice."""
        return sum(map(len, self.broken.values()))


async def read_back(launch: Launch, threads: Iterable[str]) -> Stored:
    """Page through the threads with a new server process."""
    ids: list[str] = []
    broken = {}
    async with over_stdio(launch) as connection:
        for thread in threads:
            messages = await _all_messages(connection, thread)
            ids += [message["id"] for message in messages]
            if found := gaps(message["seq"] for message in messages):
                broken[thread] = found
    return Stored(ids, broken)


async def _all_messages(connection: Connection, thread: str) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    following: dict[str, Any] | None = {"offset": 0}
    while following:
        # At a low detail more messages fit into a page.
        page = await connection.call(
            "get_messages", thread_id=thread, limit=_PAGE, detail="low", format="json", **following
        )
        messages += page["messages"]
        following = page.get("next")
    return messages


async def integrity_problems(file: Path) -> list[str] | None:
    """What SQLite's own checks find; None where there is no such file (the store is on Postgres)."""
    if not file.exists():
        return None
    database = await SqliteDatabase.open(str(file))
    try:
        return await database.integrity_problems()
    finally:
        await database.close()
