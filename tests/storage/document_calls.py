"""The stores of what is made of turns, for the test that no scope meets another's: rows of ANA's, and a call of every
function."""

from collections.abc import Awaitable, Callable
from typing import Any

from layerlore.storage import document_sources, session_notes, summaries, thread_cursors, titles
from layerlore.storage.document_sources import DocumentSource
from layerlore.storage.records import Scope, Thread
from layerlore.storage.session_notes import NewNote
from layerlore.storage.summaries import Summary
from layerlore.storage.transaction import Tx

from .building import ANA, NOW

Call = Callable[[Tx, Scope], Awaitable[Any]]

TABLES = ("session_notes", "document_sources", "summaries")
SILENT = {"thread_cursors.move", "session_notes.add", "summaries.add", "document_sources.record", "titles.put"}
"""These answer nothing, or the same to everybody, or nothing to ANA, whose thread has a title."""

_NOTE = NewNote("state", "apple")
_SUMMARY = Summary(1, 1, "apple", 1, "m", "p", NOW)


async def distilled(tx: Tx, scope: Scope, thread: Thread) -> None:
    """A note of ANA's that waits, a summary, cursors, and what her profile was made from."""
    uid = thread.thread_uid
    await session_notes.add(tx, ANA, uid, [_NOTE], from_seq=1, to_seq=1, model="m", prompt="p", now=NOW)
    await summaries.add(tx, ANA, uid, _SUMMARY)
    await document_sources.record(tx, ANA, "", 1, [DocumentSource(uid, 1, 1)])
    await thread_cursors.move(tx, ANA, uid, "profile_seq", 2)


def document_calls(uid: str) -> dict[str, Call]:
    """With arguments that name ANA's things."""
    other = Summary(2, 1, "plum", 1, "m", "p", NOW)
    return {
        "thread_cursors.move": lambda tx, who: thread_cursors.move(tx, who, uid, "profile_seq", 9),
        "thread_cursors.read": lambda tx, who: thread_cursors.read(tx, who, uid, "profile_seq"),
        "document_sources.of_version": lambda tx, who: document_sources.of_version(tx, who, "", 1),
        "document_sources.record": lambda tx, who: document_sources.record(tx, who, "", 2, [DocumentSource(uid, 1, 1)]),
        "session_notes.add": lambda tx, who: session_notes.add(
            tx, who, uid, [_NOTE], from_seq=1, to_seq=1, model="m", prompt="p", now=NOW
        ),
        "session_notes.queued": lambda tx, who: session_notes.queued(tx, who, uid),
        "session_notes.take_out": lambda tx, who: session_notes.take_out(tx, who, uid, [1]),
        "summaries.add": lambda tx, who: summaries.add(tx, who, uid, other),
        "summaries.newest": lambda tx, who: summaries.newest(tx, who, uid, before=9),
        "titles.put": lambda tx, who: titles.put(tx, who, uid, "Apples", by="m"),
    }
