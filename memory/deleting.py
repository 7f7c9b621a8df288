"""Deleting and undoing it."""

from collections.abc import Sequence

from memstrata.memory.acceptance import check_id
from memstrata.memory.ages import DAY_MS, iso
from memstrata.memory.engine import Engine
from memstrata.storage import deletions, restoration
from memstrata.storage.deletions import Deleted, Which
from memstrata.storage.errors import InvalidInput
from memstrata.storage.idempotency import once
from memstrata.storage.records import Json, Role, Scope
from memstrata.storage.restoration import Deletion
from memstrata.storage.transaction import Tx

IDEMPOTENCY_HOURS = 24
_SHOWN_IDS = 100


async def delete_messages(
    engine: Engine,
    scope: Scope,
    thread_id: str,
    which: Which,
    *,
    ids: Sequence[str],
    roles: Sequence[Role],
    key: str,
    sent_thread: str,
) -> Json:
    """Hide messages of a thread at once; they can be restored for ``deleted_days``. ``key`` is the idempotency key,
    or empty, ``sent_thread`` the thread as the caller named it, if at all. Raises NotFound, InvalidInput."""
    if (which == "ids") != bool(ids):
        raise InvalidInput("ids belongs to which='ids', which needs at least one" if ids else "which='ids' needs ids")
    for index, id_ in enumerate(ids):
        check_id(id_, f"ids[{index}]", engine.limits.id_chars)
    request = engine.request(key, "delete_messages", [sent_thread, which, list(ids), list(roles)])
    now, deletion_uid = engine.now(), engine.new_id()

    async def write(tx: Tx) -> Json:
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
        return {
            "thread_id": thread_id,
            "deleted": len(deleted.messages),
            "ids": [message.id for message in deleted.messages[:_SHOWN_IDS]],
            **_undo(engine, deleted, now),
            "totals": {"messages": deleted.thread.message_count, "tokens": deleted.thread.token_count},
        }

    answer, _ = await engine.database.write(once, scope, request, now, write)
    return answer


async def delete_thread(engine: Engine, scope: Scope, thread_id: str, *, key: str) -> Json:
    """Hide a thread and everything that hangs on it; its name is free at once. ``key`` is the idempotency key, or
    empty. Raises NotFound."""
    request = engine.request(key, "delete_thread", [thread_id])
    now, deletion_uid = engine.now(), engine.new_id()

    async def write(tx: Tx) -> Json:
        deleted = await deletions.delete_thread(
            tx, scope, thread_id, deletion_uid=deletion_uid, erase=engine.deleted_days == 0, now=now
        )
        return {
            "thread_id": thread_id,
            "deleted_messages": deleted.thread.message_count,
            **_undo(engine, deleted, now),
        }

    answer, _ = await engine.database.write(once, scope, request, now, write)
    return answer


def _undo(engine: Engine, deleted: Deleted, now: int) -> Json:
    if deleted.deletion_uid is None:
        return {}
    return {"deletion": deleted.deletion_uid, "restorable_until": iso(now + engine.deleted_days * DAY_MS)}


async def deletions_to_undo(engine: Engine, scope: Scope) -> list[Deletion]:
    """The deletes that can still be undone, newest first."""
    return await engine.database.read(restoration.listed, scope)


async def restore(engine: Engine, scope: Scope, deletion_uid: str) -> Deletion:
    """Undo a delete. Raises NotFound, Conflict."""
    return await engine.database.write(
        restoration.restore, scope, deletion_uid, now=engine.now(), search_text=engine.search_text_of
    )


async def erase_expired(engine: Engine) -> int:
    """Erase for good what was deleted longer ago than ``deleted_days``. Returns how many deletes that were."""
    now, erased = engine.now(), 0
    while True:
        batch = await engine.database.write(
            restoration.erase_expired,
            deleted_before=now - engine.deleted_days * DAY_MS,
            answered_before=now - IDEMPOTENCY_HOURS * 3_600_000,
        )
        erased += batch
        if batch == 0:
            return erased
