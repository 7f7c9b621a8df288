"""Writers on Postgres whose work would show if it were lost, or done twice."""

import asyncio
import itertools

from layerlore.storage.core.records import Scope
from layerlore.storage.core.transaction import Tx
from layerlore.storage.drivers.postgres.database import PostgresDatabase
from layerlore.storage.messages import message_rows
from layerlore.storage.threads import threads
from layerlore.storage.threads.threads import Description

from ..conformance.building import ANA, NOW, draft, everything, search_text, uid

WRITERS = 16


async def append_and_count(tx: Tx, scope: Scope, /, thread_id: str, id_: str, new_uid: str) -> str:
    """An append that would be seen twice if it happened twice: a counter goes up with it."""
    done = await message_rows.append(
        tx, scope, thread_id, [draft(id=id_)], new_uid=new_uid, replace_known=False, now=NOW, search_text=search_text
    )
    count = done.thread.metadata.get("count", 0) + 1
    await threads.describe(
        tx, scope, thread_id, Description(None, {"count": count}), new_uid=new_uid, now=NOW, check=lambda _: None
    )
    return done.stored[0].status


async def write_until(database: PostgresDatabase, stop: asyncio.Event) -> dict[str, list[str]]:
    """Sixteen writers with unique ids. Returns what was acknowledged, by thread."""
    acknowledged: dict[str, list[str]] = {f"t{writer}": [] for writer in range(WRITERS)}

    async def write(thread_id: str) -> None:
        for n in itertools.count():
            if stop.is_set():
                return
            status = await database.write(append_and_count, ANA, thread_id, f"{thread_id}.{n}", uid())
            assert status == "added", "the unit ran again although it had been committed"
            acknowledged[thread_id].append(f"{thread_id}.{n}")

    await asyncio.gather(*(write(thread_id) for thread_id in acknowledged))
    return acknowledged


async def check(database: PostgresDatabase, acknowledged: dict[str, list[str]]) -> None:
    for thread_id, ids in acknowledged.items():
        kept = await everything(database, thread_id)
        assert [message.id for message in kept] == ids
        assert [message.seq for message in kept] == list(range(1, len(ids) + 1))
        thread = await database.read(threads.find, ANA, thread_id)
        assert thread.metadata == {"count": len(ids)}
