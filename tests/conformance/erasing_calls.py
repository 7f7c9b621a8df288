"""What erases for good, called with arguments that name things of ANA's."""

from collections.abc import Awaitable, Callable
from typing import Any

from layerlore.storage.audit import idempotency
from layerlore.storage.audit.idempotency import Request
from layerlore.storage.core import scopes
from layerlore.storage.core.records import Scope, Thread
from layerlore.storage.core.transaction import Tx
from layerlore.storage.removal import acts, deletions, erasure, retention
from layerlore.storage.removal.acts import Act, ActPart
from layerlore.storage.removal.retention import LongThread, TimePlace

from .building import ANA, NOW, search_text

Call = Callable[[Tx, Scope], Awaitable[Any]]
# They find what is marked or was counted only, and nothing here is, or answer nothing.
SILENT = {
    *("erasure.purge", "idempotency.keep", "retention.count", "retention.read_count"),
    *("acts.record", "acts.mark_undone", "acts.mark_restored", "deletions.hold"),
    "working_memory.show_forgotten",
}
_PARTS = (
    ActPart("deletion", "a delete"),
    ActPart("dropped", "e1"),
    ActPart("document", before_version=1, after_version=2),
)
_ACT = Act("u_old", "forget", NOW, False, _PARTS, (0, 1, 2))


async def acted(tx: Tx, scope: Scope, thread: Thread) -> None:
    """An act of ANA's that can be undone."""
    await acts.record(tx, ANA, "u_old", "forget", _PARTS, now=NOW, kept_since=0)


def erasing_calls(thread_uid: str) -> dict[str, Call]:
    """Every public function that takes a scope."""
    return {
        "acts.record": lambda tx, who: acts.record(tx, who, "u_new", "forget", _PARTS, now=NOW, kept_since=NOW * 2),
        "acts.read": lambda tx, who: acts.read(tx, who, "u_old", since=0),
        "acts.lock": lambda tx, who: acts.lock(tx, who, "u_old", since=0),
        "acts.list_open": lambda tx, who: acts.list_open(tx, who, since=0, most=9),
        "acts.list_version_acts": lambda tx, who: acts.list_version_acts(tx, who, "", since=0),
        "acts.mark_undone": lambda tx, who: acts.mark_undone(tx, who, _ACT, (), now=NOW),
        "acts.mark_restored": lambda tx, who: acts.mark_restored(tx, who, "a delete", now=NOW),
        "deletions.hold": lambda tx, who: deletions.hold(tx, who, ["a delete"]),
        "erasure.answers_naming": lambda tx, who: erasure.answers_naming(tx, who, "old", [thread_uid]),
        "erasure.count": erasure.count,
        "erasure.count_threads": lambda tx, who: erasure.count_threads(tx, who, "main", [thread_uid]),
        "erasure.find_named": lambda tx, who: erasure.find_named(tx, who, "main"),
        "erasure.hide": erasure.hide,
        "erasure.hide_threads": lambda tx, who: erasure.hide_threads(tx, who, "main", now=NOW),
        "erasure.purge": erasure.purge,
        "idempotency.keep": lambda tx, who: idempotency.keep(tx, who, Request("k", "body"), NOW, {"thread_id": "new"}),
        "idempotency.find_kept": lambda tx, who: idempotency.find_kept(tx, who, Request("k", "body")),
        "scopes.lock": scopes.lock,
        "retention.find_newest": lambda tx, who: retention.find_newest(tx, who, 1),
        "retention.find_before": lambda tx, who: retention.find_before(tx, who, TimePlace(NOW * 9), TimePlace(-NOW), 9),
        "retention.list_long": lambda tx, who: retention.list_long(tx, who, 1),
        "retention.find_in_thread": lambda tx, who: retention.find_in_thread(tx, who, LongThread(thread_uid, 99), 0, 9),
        "retention.erase_alone": lambda tx, who: retention.erase_alone(
            tx, who, "main", ["a"], deletion_uid="d", now=NOW, search_text=search_text
        ),
        "retention.count": lambda tx, who: retention.count(tx, who, 1),
        "retention.read_count": retention.read_count,
        "scopes.still_known": lambda tx, who: scopes.still_known(tx, who, thread_uid),
    }
