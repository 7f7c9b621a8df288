"""The question of a thread: its newest message from the user, and what came after it, which answers nothing yet."""

from collections.abc import Sequence

import numpy as np

from layerlore.memory.text.echoes import strip_echoes
from layerlore.storage.core.errors import NotFound
from layerlore.storage.core.index_rows import RowIdArray
from layerlore.storage.core.records import Json, Message, Scope, Thread
from layerlore.storage.core.transaction import Tx
from layerlore.storage.messages import indexed_rows, windows
from layerlore.storage.threads import threads

# If a message is longer than two of these, its beginning and its end are searched: there the question stands.
_ASKED_CHARS = 500


async def find_asking(tx: Tx, scope: Scope, thread_id: str) -> tuple[Thread, Message] | None:
    """The thread and its newest message that the user wrote; None if none exists."""
    try:
        thread = await threads.find(tx, scope, thread_id)
    except NotFound:
        return None
    asked = await windows.find_last_said(tx, scope, thread)
    if asked:
        return (thread, asked)
    return None


async def read_question(tx: Tx, scope: Scope, thread_id: str, most_bytes: int) -> list[str]:
    """The question in the user's newest message of the thread: its text, or the beginning and the end of a long one,
    each of at most ``most_bytes``; none without a question."""
    found = await find_asking(tx, scope, thread_id)
    if found:
        return split_question(found[1].parts, most_bytes)
    return []


async def read_asking_rows(tx: Tx, scope: Scope, thread_id: str) -> RowIdArray:
    """The rows of the index, ascending, of the user's newest message of the thread and of what came after it."""
    found = await find_asking(tx, scope, thread_id)
    if found is None:
        return np.empty(0, np.int64)
    thread, asked = found
    return await indexed_rows.row_ids_from(tx, scope, thread.thread_uid, asked.seq)


async def read_shown_notes(tx: Tx, scope: Scope, thread_id: str) -> RowIdArray:
    """The rows of the index, ascending, of the notes that a context of the thread shows whole."""
    try:
        if thread_id:
            uid = (await threads.find(tx, scope, thread_id)).thread_uid
        else:
            uid = ""
    except NotFound:
        uid = ""
    return await indexed_rows.shown_beside(tx, scope, uid)


def split_question(parts: Sequence[Json], most_bytes: int) -> list[str]:
    """The question of a message: what its author wrote, without our echoes; of a long one its beginning and its end."""
    text = strip_echoes("\n".join(part["text"] for part in parts if part["type"] == "text")).strip()
    if len(text) <= 2 * _ASKED_CHARS and len(text.encode()) <= most_bytes:
        if text:
            return [text]
        return []
    beginning = text[:_ASKED_CHARS].encode()[:most_bytes]
    end = text[-_ASKED_CHARS:].encode()[-most_bytes:]
    return [piece.decode(errors="ignore") for piece in (beginning, end)]
