"""Does with the standard library's SQLite what a thread goes through, and prints what it saw, as JSON."""

import asyncio
import json
import sys
import uuid
from pathlib import Path
from typing import Any

sys.modules["pysqlite3"] = None  # type: ignore[assignment]  # as where it has no wheel

from memstrata.storage import deletions, messages, restoration, search, sqlite_driver
from memstrata.storage.records import ROLES, Draft, Message, Scope
from memstrata.storage.sqlite_database import SqliteDatabase

ANA = Scope("local", "agent", "ana")


def words(message: Message) -> str:
    return str(message.parts[0]["text"])


async def main(path: str) -> dict[str, Any]:
    database = await SqliteDatabase.open(path)
    drafts = [
        Draft(f"m{n}", "user", None, [{"type": "text", "text": text}], {}, None, 1, "none", text)
        for n, text in enumerate(["walrus café", "walruses"])
    ]
    ours: dict[str, Any] = {"now": 5, "search_text": words}
    await database.write(messages.append, ANA, "main", drafts, new_uid="u", replace_known=False, now=5)
    before = (await database.read(search.postings, ANA, ["walrus", "café"], most=9)).values()
    deleted = await database.write(
        deletions.delete_messages,
        ANA,
        "main",
        "ids",
        ids=["m0"],
        roles=ROLES,
        deletion_uid=uuid.uuid4().hex,
        erase=False,
        **ours,
    )
    hidden = (await database.read(search.postings, ANA, ["walrus", "café"], most=9)).values()
    await database.write(restoration.restore, ANA, deleted.deletion_uid, **ours)
    again = (await database.read(search.postings, ANA, ["walrus", "café"], most=9)).values()
    seen = {
        "module": sqlite_driver.abilities().module,
        "found": [[len(rows) for rows in looked] for looked in (before, hidden, again)],
        "problems": await database.integrity_problems(),
    }
    await database.close()
    return seen


if __name__ == "__main__":
    Path(sys.argv[1]).parent.mkdir(exist_ok=True)
    print(json.dumps(asyncio.run(main(sys.argv[1]))))
