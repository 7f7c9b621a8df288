"""What masks stored content, called with arguments that name a thread of ANA's."""

from collections.abc import Awaitable, Callable
from typing import Any

from layerlore.storage.core.records import Scope
from layerlore.storage.core.transaction import Tx
from layerlore.storage.removal import masked_rows
from layerlore.storage.removal.masked_rows import Change

from .building import NOW, search_text
from .entry_calls import ID

Call = Callable[[Tx, Scope], Awaitable[Any]]


def redacting_calls(thread_uid: str) -> dict[str, Call]:
    """Every public function that takes a scope."""

    def put(of: str, uid: str, change: Change) -> Call:
        return lambda tx, who: masked_rows.put(tx, who, of, uid, [change], search_text=search_text, now=NOW)

    message = Change((thread_uid, 1), {"revision": 1}, {"name": "masked"}, 1)
    titled = Change((thread_uid,), {"title": "Old"}, {"title": "masked"}, 1)
    entry = Change((ID,), {"content": "apple pie"}, {"content": "masked pie"}, 1)
    attempt = Change((thread_uid, "k", 1), {"task_key": "k"}, {"task_key": "masked"}, 1)
    return {
        "masked_rows.page": lambda tx, who: masked_rows.page(tx, who, "messages", after=None, most=9),
        "masked_rows.page, continued": lambda tx, who: masked_rows.page(
            tx, who, "messages", after=(thread_uid, 0), most=9
        ),
        "masked_rows.page, of entries": lambda tx, who: masked_rows.page(tx, who, "entries", after=None, most=9),
        "masked_rows.put": put("messages", thread_uid, message),
        "masked_rows.put, of a thread": put("threads", thread_uid, titled),
        "masked_rows.put, of entries": put("entries", "", entry),
        "masked_rows.put, of attempts": put("attempts", thread_uid, attempt),
        "masked_rows.is_indexed_with": lambda tx, who: masked_rows.is_indexed_with(tx, who, thread_uid, 1, ["apple"]),
    }
