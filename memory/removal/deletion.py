"""Deletion of messages and threads, retention rules, and the final erasure."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from itertools import groupby

from typing_extensions import TypedDict

from layerlore.memory.engine import journal_lines
from layerlore.memory.engine.engine import Engine, WriteRequest, make_undo_id, record_act
from layerlore.memory.removal.removal_answers import DeletedMessages, DeletedThread
from layerlore.memory.rules.ages import iso
from layerlore.memory.rules.validation import check_id
from layerlore.storage.core.errors import InvalidInput, NotFound
from layerlore.storage.core.records import ALL_ROLES, DAY_MS, Origin, Role, Scope, StoredJson
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import entry_curation, note_rows, working_memory
from layerlore.storage.messages import place_rows
from layerlore.storage.removal import deletions, retention
from layerlore.storage.removal.acts import RETENTION, ActPart
from layerlore.storage.removal.deletions import DeleteResult, Which
from layerlore.storage.removal.retention import OldMessage, TimePlace, Times
from layerlore.storage.threads import events
from layerlore.storage.threads.events import NewEvent

IDEMPOTENCY_HOURS = 24
_SHOWN_IDS = 100
_SERVER = Origin("maintenance", "erase_expired", "server")


async def delete_messages(
    engine: Engine,
    scope: Scope,
    thread_id: str,
    which: Which,
    *,
    ids: Sequence[str],
    roles: Sequence[Role],
    sent: WriteRequest,
) -> DeletedMessages:
    """Hide messages of a thread at once; they can be restored for ``deleted_days``. Raises NotFound, InvalidInput."""
    if (which == "ids") != bool(ids):
        raise InvalidInput("ids belongs to which='ids', which needs at least one" if ids else "which='ids' needs ids")
    for index, id_ in enumerate(ids):
        check_id(id_, f"ids[{index}]", engine.limits.id_chars)
    now, deletion_uid, undo_id = engine.now(), engine.new_id(), make_undo_id(engine)

    async def write(tx: Tx) -> DeletedMessages:
        deleted = await deletions.delete_messages(
            tx,
            scope,
            thread_id,
            which,
            ids=ids,
            roles=roles,
            deletion_uid=deletion_uid,
            erase=engine.deleted_days == 0,
            now=now,
            search_text=engine.search_text_of,
        )
        if deleted.messages:
            await record_deletion(tx, scope, deleted, sent.origin, now=now)
        return {
            "thread_id": thread_id,
            "deleted": len(deleted.messages),
            "ids": [message.id for message in deleted.messages[:_SHOWN_IDS]],
            **await _describe_undo(tx, engine, scope, deleted, undo_id, sent, now),
            "totals": {"messages": deleted.thread.message_count, "tokens": deleted.thread.token_count},
        }

    return await engine.write(scope, sent, [which, list(ids), list(roles)], now, write)


async def record_deletion(tx: Tx, scope: Scope, deleted: DeleteResult, origin: Origin, *, now: int) -> None:
    """Record in the logs which messages of a thread were deleted, and which documents fell back with them."""
    happened = [NewEvent("messages_deleted", {"seqs": [message.seq for message in deleted.messages]})]
    if "session_memory" in deleted.fell_back:
        happened.append(_make_fall_back("working_memory"))
    if "title" in deleted.fell_back:
        happened.append(NewEvent("thread_updated", {"changed": ["title"]}))
        updated = NewEvent("thread_updated", {"thread_id": deleted.thread.thread_id, "changed": ["title"]})
        uid = deleted.thread.thread_uid
        await events.record_of_resource(tx, scope, updated, thread_uid=uid, origin=origin, now=now)
    await events.record(tx, scope, deleted.thread, happened, origin=origin, now=now)
    if "profile" in deleted.fell_back:
        await events.record_of_resource(tx, scope, _make_fall_back("profile"), origin=origin, now=now)
    await record_entries(tx, scope, deleted.entries, origin, now=now)


async def record_entries(tx: Tx, scope: Scope, ids: Sequence[str], origin: Origin, *, now: int) -> None:
    """Record that entries are seen no more, or again, since what they rest on is: which ones, unless they are many."""
    if ids:
        which: StoredJson
        if len(ids) <= _SHOWN_IDS:
            which = {"ids": list(ids)}
        else:
            which = {"count": len(ids)}
        await events.record_of_resource(tx, scope, NewEvent("entries_changed", which), origin=origin, now=now)


def _make_fall_back(what: str) -> NewEvent:
    return NewEvent(f"{what}_updated", {"mode": "fall_back"})


async def delete_thread(engine: Engine, scope: Scope, thread_id: str, *, sent: WriteRequest) -> DeletedThread:
    """Hide a thread and everything that hangs on it; its name is free at once. Raises NotFound."""
    now, deletion_uid, undo_id = engine.now(), engine.new_id(), make_undo_id(engine)

    async def write(tx: Tx) -> DeletedThread:
        deleted = await deletions.delete_thread(
            tx, scope, thread_id, deletion_uid=deletion_uid, erase=engine.deleted_days == 0, now=now
        )
        # The profile may have fallen back, and its search text must be that of the version that is shown now.
        await note_rows.refresh_document(tx, scope, None, engine.search_text_of)
        erased = deleted.deletion_uid is None  # its name, too, so no event may name it
        gone = NewEvent("thread_deleted", {} if erased else {"thread_id": thread_id})
        if erased:
            uid = None
        else:
            uid = deleted.thread.thread_uid
        await events.record_of_resource(tx, scope, gone, thread_uid=uid, origin=sent.origin, now=now)
        if "profile" in deleted.fell_back:
            await events.record_of_resource(tx, scope, _make_fall_back("profile"), origin=sent.origin, now=now)
        await record_entries(tx, scope, deleted.entries, sent.origin, now=now)
        return {
            "thread_id": thread_id,
            "deleted_messages": deleted.thread.message_count,
            **await _describe_undo(tx, engine, scope, deleted, undo_id, sent, now),
        }

    return await engine.write(scope, sent, [], now, write)


class _Restorable(TypedDict, total=False):
    """How long a delete can be undone, and by which id; empty where nothing is stored."""

    restorable_until: str
    undo: str


async def _describe_undo(
    tx: Tx, engine: Engine, scope: Scope, deleted: DeleteResult, undo_id: str, sent: WriteRequest, now: int
) -> _Restorable:
    if deleted.deletion_uid is None:
        return {}
    part = ActPart("deletion", deleted.deletion_uid, deleted.thread.thread_uid)
    return {
        "restorable_until": iso(now + engine.deleted_days * DAY_MS),
        **await record_act(tx, engine, scope, undo_id, sent.origin.tool, [part], now),
    }


async def erase_expired(engine: Engine) -> int:
    """Erase for good what was deleted, or cleared, longer ago than ``deleted_days``. Returns how many that were."""
    now, erased, after = engine.now(), 0, retention.FIRST
    # Kept answers to repeated calls have a time of their own.
    times = Times(now - engine.deleted_days * DAY_MS, now - IDEMPOTENCY_HOURS * 3_600_000)
    before = times.deleted_before

    async def deletes(tx: Tx, scope: Scope) -> int:
        answered = times.answered_before
        return await deletions.erase_expired(tx, scope, deleted_before=before, answered_before=answered)

    async def documents(tx: Tx, scope: Scope) -> int:
        return await working_memory.erase_cleared(tx, scope, cleared_before=before)

    async def entries(tx: Tx, scope: Scope) -> int:
        return await entry_curation.erase_dropped(tx, scope, dropped_before=before)

    while scopes := await engine.database.read_installation(retention.erasable, times, after=after):
        for after in scopes:
            for what, erase in {"deletes": deletes, "documents": documents, "entries": entries}.items():
                # Each batch has its own transaction, so that other writers need not wait for the whole erasure.
                while batch := await engine.database.write(_erase_journaled, after, engine, what, erase, now):
                    erased += batch
    return erased


async def _erase_journaled(
    tx: Tx, scope: Scope, engine: Engine, what: str, erase: Callable[[Tx, Scope], Awaitable[int]], now: int
) -> int:
    """Erase, with a line in the journal if there was something. Returns how much was erased."""
    erased = await erase(tx, scope)
    await journal_lines.append_count(tx, scope, engine.hmac_key, _SERVER, what, erased, now)
    return erased


# Messages in one transaction: others that write wait for it.
_BATCH = 100
_SCOPES = 100
# This lies before every time that a message can have, also before 1970.
_RETENTION_ORIGIN = Origin("maintenance", RETENTION, "server")
_FIRST = TimePlace(-(2**62))


async def retain(engine: Engine) -> int:
    """Take away what the rules of retention leave no place for, of all scopes. Returns how many messages went.

    A scope in which that fails keeps none of the others from it. Raises ExceptionGroup in the end, with what failed.
    """
    if not engine.retention.deletes:
        return 0
    gone, after = 0, retention.FIRST
    failed: list[Exception] = []
    while scopes := await engine.database.read_installation(place_rows.scopes_after, after, _SCOPES):
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
        if newest:
            bounds += [newest]
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
    # With "keep", the messages that entries rest on stay as their evidence.
    going = [each for each in found if not (keeps and each.evidence)]
    gone = 0
    # A delete is an act of one thread, so each thread gets a transaction of its own.
    for thread_id, some in groupby(sorted(going, key=lambda each: each.thread_id), key=lambda each: each.thread_id):
        try:
            gone += await engine.database.write(_retire, scope, engine, thread_id, [each.id for each in some])
        except NotFound:
            continue  # another caller deleted them meanwhile; the next search finds what is left
    return gone


async def _retire(tx: Tx, scope: Scope, engine: Engine, thread_id: str, ids: list[str]) -> int:
    now = engine.now()
    deleted = await _delete(tx, scope, engine, thread_id, ids, now)
    number = len(deleted.messages)
    if number:
        await record_deletion(tx, scope, deleted, _RETENTION_ORIGIN, now=now)
        await _describe_undo(tx, engine, scope, deleted, make_undo_id(engine), WriteRequest(_RETENTION_ORIGIN), now)
        await retention.count(tx, scope, number)
        await journal_lines.append_count(tx, scope, engine.hmac_key, _RETENTION_ORIGIN, "deleted", number, now)
    return number


async def _delete(tx: Tx, scope: Scope, engine: Engine, thread_id: str, ids: list[str], now: int) -> DeleteResult:
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
