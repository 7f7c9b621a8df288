"""What erases for good, called with arguments that name things of ANA's."""

from collections.abc import Awaitable, Callable
from typing import Any

from layerlore.storage.audit import idempotency
from layerlore.storage.audit.idempotency import Request
from layerlore.storage.core import resource_lock
from layerlore.storage.core.records import Scope
from layerlore.storage.core.transaction import Tx
from layerlore.storage.removal import erasable_rows, erasure, retention
from layerlore.storage.removal.retention import LongThread, TimePlace

from .building import NOW, search_text

Call = Callable[[Tx, Scope], Awaitable[Any]]
# They find what is marked or was counted only, and nothing here is, or answer nothing.
SILENT = {"erasure.purge", "idempotency.keep", "retention.count", "retention.read_count"}


def erasing_calls(thread_uid: str) -> dict[str, Call]:
    """Every public function that takes a scope."""
    return {
        "erasable_rows.answers_naming": lambda tx, who: erasable_rows.answers_naming(tx, who, "old", [thread_uid]),
        "erasable_rows.count": erasable_rows.count,
        "erasable_rows.count_threads": lambda tx, who: erasable_rows.count_threads(tx, who, "main", [thread_uid]),
        "erasable_rows.find_named": lambda tx, who: erasable_rows.find_named(tx, who, "main"),
        "erasure.hide": erasure.hide,
        "erasure.hide_threads": lambda tx, who: erasure.hide_threads(tx, who, "main", now=NOW),
        "erasure.purge": erasure.purge,
        "idempotency.keep": lambda tx, who: idempotency.keep(tx, who, Request("k", "body"), NOW, {"thread_id": "new"}),
        "idempotency.find_kept": lambda tx, who: idempotency.find_kept(tx, who, Request("k", "body")),
        "resource_lock.lock": resource_lock.lock,
        "retention.find_newest": lambda tx, who: retention.find_newest(tx, who, 1),
        "retention.find_before": lambda tx, who: retention.find_before(tx, who, TimePlace(NOW * 9), TimePlace(-NOW), 9),
        "retention.list_long": lambda tx, who: retention.list_long(tx, who, 1),
        "retention.find_in_thread": lambda tx, who: retention.find_in_thread(tx, who, LongThread(thread_uid, 99), 0, 9),
        "retention.erase_alone": lambda tx, who: retention.erase_alone(
            tx, who, "main", ["a"], deletion_uid="d", now=NOW, search_text=search_text
        ),
        "retention.count": lambda tx, who: retention.count(tx, who, 1),
        "retention.read_count": retention.read_count,
        "resource_lock.still_known": lambda tx, who: resource_lock.still_known(tx, who, thread_uid),
    }
