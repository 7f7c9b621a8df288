"""What reads messages of several threads, the calls that their results answer, and documents by version, for the test
that no scope meets another's: a call of every function."""

from collections.abc import Awaitable, Callable
from typing import Any

from layerlore.storage.core.records import ROLES, Message, Scope
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import working_memory
from layerlore.storage.messages import indexed_rows, message_pages, windows
from layerlore.storage.threads import threads

from .building import NOW, tool_result

Call = Callable[[Tx, Scope], Awaitable[Any]]

_RESULT = Message("main", 2, "t", "tool", None, [tool_result("c1")], {}, 3, "o200k_base", NOW, NOW, 1)


def reading_calls(uid: str) -> dict[str, Call]:
    """With arguments that name ANA's things."""
    places = [(uid, seq) for seq in (1, 2, 3)]
    return {
        "message_pages.attach": lambda tx, who: message_pages.attach(tx, who, uid, [_RESULT]),
        "message_pages.attach_everywhere": lambda tx, who: message_pages.attach_everywhere(
            tx, who, {(uid, 2): _RESULT}
        ),
        "message_pages.of_next": lambda tx, who: message_pages.of_next(tx, who, "main", ["c1"]),
        "threads.read_at": lambda tx, who: threads.read_at(tx, who, 0, 9),
        "threads.search_at": lambda tx, who: threads.search_at(tx, who, lambda *_: True, 0, 9),
        "windows.count_by_kind": windows.count_by_kind,
        "windows.count_by_day": lambda tx, who: windows.count_by_day(tx, who, since=0),
        "indexed_rows.messages_to_index": lambda tx, who: indexed_rows.messages_to_index(tx, who, places),
        "indexed_rows.row_ids_from": lambda tx, who: indexed_rows.row_ids_from(tx, who, uid, 1),
        "message_pages.fill_of_all": _read_of_all,
        "message_pages.fill_of_all, of a time": lambda tx, who: _read_of_all(tx, who, since=NOW - 1, until=NOW + 1),
        "working_memory.read_contents": lambda tx, who: working_memory.read_contents(tx, who, "main", [1]),
        "working_memory.read_contents, of the resource": lambda tx, who: working_memory.read_contents(tx, who, "", [1]),
    }


async def _read_of_all(tx: Tx, who: Scope, **times: int) -> tuple[list[Message], int]:
    filled, total = await message_pages.fill_of_all(tx, who, message_pages.Light, roles=ROLES, limit=9, **times)
    return filled.messages, total
