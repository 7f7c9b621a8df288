"""Ids of messages that were erased for good, as hashes that say nothing without the thread: who sends its whole list
again does not bring back what was deleted.

So are the ids of tool calls whose other half was erased, since they went from the message that held the half.
"""

import hashlib
from collections.abc import Collection

from sqlalchemy import bindparam, insert, select

from layerlore.storage.core.records import Scope
from layerlore.storage.core.scopes import in_thread, of_thread
from layerlore.storage.core.statements import any_of
from layerlore.storage.core.tables import erased_ids, messages
from layerlore.storage.core.transaction import Tx

_KEEP = insert(erased_ids).values(
    **{name: bindparam(name) for name in ("tenant_id", "agent_id", "resource_id", "thread_uid", "id_hash")}
)
_FIND = select(erased_ids.c.id_hash).where(in_thread(erased_ids), any_of(erased_ids.c.id_hash, "hashes"))
_HIDDEN_BY = select(messages.c.id).where(in_thread(messages), messages.c.deletion_uid == bindparam("deletion_uid"))


async def keep(tx: Tx, scope: Scope, thread_uid: str, deletion_uid: str, calls: Collection[str]) -> None:
    """Keep the ids of the messages that a delete hid, which are to be erased, and those of calls."""
    of = of_thread(scope, thread_uid)
    ids = await tx.scalars(_HIDDEN_BY, **of, deletion_uid=deletion_uid)
    new = {_hash(thread_uid, id_) for id_ in ids} | {_hash(thread_uid, call, "call") for call in calls}
    new -= {*await tx.scalars(_FIND, **of, hashes=sorted(new))}
    if new:
        await tx.many(_KEEP, [{**of, "id_hash": hashed} for hashed in sorted(new)])


async def find(tx: Tx, scope: Scope, thread_uid: str, ids: Collection[str]) -> set[str]:
    """Which of these ids were those of messages that are erased."""
    return await _find(tx, scope, thread_uid, {_hash(thread_uid, id_): id_ for id_ in ids})


async def find_calls(tx: Tx, scope: Scope, thread_uid: str, ids: Collection[str]) -> set[str]:
    """Which of these ids were those of calls that lost their other half to an erasure."""
    return await _find(tx, scope, thread_uid, {_hash(thread_uid, id_, "call"): id_ for id_ in ids})


async def _find(tx: Tx, scope: Scope, thread_uid: str, by_hash: dict[str, str]) -> set[str]:
    if not by_hash:
        return set()
    found = await tx.scalars(_FIND, **of_thread(scope, thread_uid), hashes=sorted(by_hash))
    return {by_hash[hashed] for hashed in found}


def hash_of_message(thread_uid: str, id_: str) -> str:
    """How the id of a message is kept that was erased."""
    return _hash(thread_uid, id_)


def _hash(thread_uid: str, id_: str, kind: str = "message") -> str:
    return hashlib.sha256("\0".join((thread_uid, kind, id_)).encode()).hexdigest()
