"""Does with the standard library's SQLite what a thread goes through, and prints what it saw, as JSON."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

sys.modules["pysqlite3"] = None  # type: ignore[assignment]  # as where it has no wheel

# ruff: noqa: E402
from layerlore.storage.core.records import ROLES, Draft, IndexedText, Message, Scope
from layerlore.storage.drivers.sqlite import driver
from layerlore.storage.drivers.sqlite.database import SqliteDatabase
from layerlore.storage.index import lexical, vectors
from layerlore.storage.messages import message_rows
from layerlore.storage.removal import deletions

ANA = Scope("local", "agent", "ana")


def words(message: Message) -> IndexedText:
    return IndexedText((message.parts[0]["text"],), 9)


async def nearest(database: SqliteDatabase) -> list[int]:
    """The seqs, nearest first, of two codes that are put and one asked for."""
    rows = await database.read_installation(vectors.pending, "m", after=0, most=9)
    codes = (b"\x00\xff", b"\xf0\xff")
    news = [vectors.NewVector(row.row_id, code, bytes(4)) for row, code in zip(rows, codes, strict=True)]
    await database.write(vectors.put, ANA, "m", 16, news)
    seqs = {row.row_id: row.seq for row in rows}
    return [seqs[row] for row in (await database.read(vectors.nearest, ANA, "m", b"\xff\xff", most=9)).tolist()]


async def lengths(database: SqliteDatabase) -> list[int]:
    found = await database.read(lexical.postings, ANA, ["lamp", "café"], most=9)
    return [len(rows) for rows in found.values()]


async def live(database: SqliteDatabase) -> dict[str, Any]:
    drafts = [
        Draft(f"m{n}", "user", None, [{"type": "text", "text": text}], {}, None, 1, "none", IndexedText((text,), 9))
        for n, text in enumerate(["lamp café", "lamps"])
    ]
    await database.write(
        message_rows.append, ANA, "main", drafts, new_uid="u", replace_known=False, now=5, search_text=words
    )
    found = [await lengths(database)]
    near = await nearest(database)
    chosen: dict[str, Any] = {"ids": ["m0"], "roles": ROLES, "deletion_uid": "d", "now": 5, "search_text": words}
    await database.write(deletions.delete_messages, ANA, "main", "ids", erase=False, **chosen)
    found.append(await lengths(database))
    await database.write(deletions.restore, ANA, "d", now=5, search_text=words)
    found.append(await lengths(database))
    await database.write(deletions.delete_messages, ANA, "main", "ids", erase=True, **chosen)
    return {
        "module": driver.abilities().module,
        "found": found,
        "nearest": near,
        "problems": await database.integrity_problems(),
        "rewritten": await database.rewrite(),
    }


async def main(path: Path) -> dict[str, Any]:
    database = await SqliteDatabase.open(str(path))
    try:
        seen = await live(database)
    finally:
        await database.close()
    return {**seen, "erased": "café".encode() not in path.read_bytes(), "kept": b"lamps" in path.read_bytes()}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(Path(sys.argv[1])))))
