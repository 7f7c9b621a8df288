"""What erases for good, called with arguments that name things of ANA's."""

from collections.abc import Awaitable, Callable
from typing import Any

from layerlore.storage import erasable, erasing, idempotency, resources
from layerlore.storage.idempotency import Request
from layerlore.storage.records import Scope
from layerlore.storage.transaction import Tx

from .building import NOW

Call = Callable[[Tx, Scope], Awaitable[Any]]
# One finds what is marked only, and nothing here is; the other answers nothing.
SILENT = {"erasing.purge", "idempotency.keep"}


def erasing_calls(thread_uid: str) -> dict[str, Call]:
    """Every public function that takes a scope."""
    return {
        "erasable.answers_naming": lambda tx, who: erasable.answers_naming(tx, who, "old", [thread_uid]),
        "erasable.count": erasable.count,
        "erasable.count_threads": lambda tx, who: erasable.count_threads(tx, who, "main", [thread_uid]),
        "erasable.named": lambda tx, who: erasable.named(tx, who, "main"),
        "erasing.hide": erasing.hide,
        "erasing.hide_threads": lambda tx, who: erasing.hide_threads(tx, who, "main", now=NOW),
        "erasing.purge": erasing.purge,
        "idempotency.keep": lambda tx, who: idempotency.keep(tx, who, Request("k", "body"), NOW, {"thread_id": "new"}),
        "idempotency.kept": lambda tx, who: idempotency.kept(tx, who, Request("k", "body")),
        "resources.lock": resources.lock,
        "resources.still_known": lambda tx, who: resources.still_known(tx, who, thread_uid),
    }
