"""Retention: messages that go by themselves, the oldest first, where the settings say so (seed 003: "oldest pruned first").

Nothing of it is silent: each batch has an event in its conversation's log and a line in the journal, and `memory_status`
counts what went.
"""

from collections.abc import AsyncIterator
from itertools import groupby

from layerlore.memory.engine import journal
from layerlore.memory.engine.engine import Engine
from layerlore.memory.removal.deletion import record_deletion
from layerlore.memory.rules.ages import DAY_MS
from layerlore.storage.core.errors import NotFound
from layerlore.storage.core.records import ALL_ROLES, Origin, Scope
from layerlore.storage.core.transaction import Tx
from layerlore.storage.messages import places
from layerlore.storage.removal import deletions, expiry, retention
from layerlore.storage.removal.deletions import Deleted
from layerlore.storage.removal.retention import OldMessage, TimePlace

# Messages in one transaction: others that write wait for it.
_BATCH = 100
_SCOPES = 100
_SERVER = Origin("maintenance", "retention", "server")
_FIRST = TimePlace(-(2**62))


async def retain(engine: Engine) -> int:
    """Take away what the rules of retention leave no place for, of all scopes. Returns how many messages went.

    A scope in which that fails keeps none of the others from it. Raises ExceptionGroup in the end, with what failed.
    """
    if not engine.retention.deletes:
        return 0
    gone, after = 0, expiry.FIRST
    failed: list[Exception] = []
    while scopes := await engine.database.read_installation(places.scopes_after, after, _SCOPES):
        for after in scopes:
            try:
                async for found in _list_batches(engine, after):
                    gone += await _take_away(engine, after, found)
            except Exception as error:  # noqa: BLE001 - raised below
                failed.append(error)
    if failed:
        raise ExceptionGroup(f"retention failed in {len(failed)} scopes; {gone} messages went from the others", failed)
    return gone


async def _list_batches(engine: Engine, scope: Scope) -> AsyncIterator[list[OldMessage]]:
    rules, read = engine.retention, engine.database.read
    bounds = []
    if rules.message_days:
        bounds.append(TimePlace(engine.now() - rules.message_days * DAY_MS))
    if rules.resource_messages:
        newest = await read(retention.find_newest, scope, rules.resource_messages)
        bounds += [newest] if newest else []
    for before in bounds:
        place = _FIRST
        while some := await read(retention.find_before, scope, before, place, _BATCH):
            place = some[-1].place
            yield some
    if rules.thread_messages:
        for thread in await read(retention.list_long, scope, rules.thread_messages):
            seq = 0
            while some := await read(retention.find_in_thread, scope, thread, seq, _BATCH):
                seq = some[-1].place.seq
                yield some


async def _take_away(engine: Engine, scope: Scope, found: list[OldMessage]) -> int:
    keeps = engine.retention.distilled == "keep"
    going = [each for each in found if not (keeps and each.evidence)]
    gone = 0
    for thread_id, some in groupby(sorted(going, key=lambda each: each.thread_id), key=lambda each: each.thread_id):
        try:
            gone += await engine.database.write(_retire, scope, engine, thread_id, [each.id for each in some])
        except NotFound:
            continue  # somebody else deleted them meanwhile; what is left is found the next time
    return gone


async def _retire(tx: Tx, scope: Scope, engine: Engine, thread_id: str, ids: list[str]) -> int:
    now = engine.now()
    deleted = await _delete(tx, scope, engine, thread_id, ids, now)
    number = len(deleted.messages)
    if number:
        await record_deletion(tx, scope, deleted, _SERVER, now=now)
        await retention.count(tx, scope, number)
        await journal.append_count(tx, scope, engine.hmac_key, _SERVER, "deleted", number, now)
    return number


async def _delete(tx: Tx, scope: Scope, engine: Engine, thread_id: str, ids: list[str], now: int) -> Deleted:
    uid = engine.new_id()
    if engine.retention.distilled == "keep":
        return await retention.erase_alone(
            tx, scope, thread_id, ids, deletion_uid=uid, now=now, search_text=engine.search_text_of
        )
    return await deletions.delete_messages(
        tx,
        scope,
        thread_id,
        "ids",
        ids=ids,
        roles=ALL_ROLES,
        deletion_uid=uid,
        erase=engine.deleted_days == 0,
        now=now,
        search_text=engine.search_text_of,
    )
