"""The stores of what is made of turns, for the test that no scope meets another's: rows of ANA's, and a call of every
function."""

from collections.abc import Awaitable, Callable
from typing import Any

from layerlore.storage.core.records import Scope, Thread
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import session_notes, working_memory
from layerlore.storage.derived.session_notes import NewNote, Summary
from layerlore.storage.derived.working_memory import DocumentSource
from layerlore.storage.threads import threads

from .building import ANA, NOW

Call = Callable[[Tx, Scope], Awaitable[Any]]

TABLES = ("session_notes", "document_sources", "summaries")
SILENT = {
    "threads.move_cursor",
    "session_notes.add",
    "session_notes.add_summary",
    "working_memory.record_sources",
    "threads.put_title",
}
"""These answer nothing, or the same to everybody, or nothing to ANA, whose thread has a title."""

_NOTE = NewNote("state", "apple")
_SUMMARY = Summary(1, 1, "apple", 1, "m", "p", NOW)


async def distilled(tx: Tx, scope: Scope, thread: Thread) -> None:
    """A note of ANA's that waits, a summary, cursors, and what her profile was made from."""
    uid = thread.thread_uid
    await session_notes.add(tx, ANA, uid, [_NOTE], from_seq=1, to_seq=1, model="m", prompt="p", now=NOW)
    await session_notes.add_summary(tx, ANA, uid, _SUMMARY)
    await working_memory.record_sources(tx, ANA, "", 1, [DocumentSource(uid, 1, 1)])
    await threads.move_cursor(tx, ANA, uid, "profile_seq", 2)


def document_calls(uid: str) -> dict[str, Call]:
    """With arguments that name ANA's things."""
    other = Summary(2, 1, "plum", 1, "m", "p", NOW)
    return {
        "threads.move_cursor": lambda tx, who: threads.move_cursor(tx, who, uid, "profile_seq", 9),
        "threads.read_cursor": lambda tx, who: threads.read_cursor(tx, who, uid, "profile_seq"),
        "working_memory.sources_of_version": lambda tx, who: working_memory.sources_of_version(tx, who, "", 1),
        "working_memory.record_sources": lambda tx, who: working_memory.record_sources(
            tx, who, "", 2, [DocumentSource(uid, 1, 1)]
        ),
        "session_notes.add": lambda tx, who: session_notes.add(
            tx, who, uid, [_NOTE], from_seq=1, to_seq=1, model="m", prompt="p", now=NOW
        ),
        "session_notes.queued": lambda tx, who: session_notes.queued(tx, who, uid),
        "session_notes.take_out": lambda tx, who: session_notes.take_out(tx, who, uid, [1]),
        "session_notes.add_summary": lambda tx, who: session_notes.add_summary(tx, who, uid, other),
        "session_notes.newest": lambda tx, who: session_notes.newest(tx, who, uid, before=9),
        "threads.put_title": lambda tx, who: threads.put_title(tx, who, uid, "Apples", by="m"),
    }
