"""The store of notes in the index, for the test that no scope meets another's: ANA's notes, and a call of every
function."""

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from layerlore.storage.core.records import Scope, Thread
from layerlore.storage.core.scopes import PROFILE_PLACE, note_place, note_places
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import note_rows, working_memory
from layerlore.storage.messages import indexed_rows

from .building import ANA, search_text

Call = Callable[[Tx, Scope], Awaitable[Any]]

SILENT = {"note_rows.refresh", "note_rows.refresh_document"}
"""All notes of ANA's are indexed."""


async def noted(tx: Tx, scope: Scope, thread: Thread) -> None:
    """All notes of ANA's in the index."""
    await note_rows.refresh(tx, ANA, thread.thread_uid, search_text)
    await note_rows.refresh_document(tx, ANA, None, search_text)


def _seq(kind: str, text: str) -> int:
    """Where the index has a line of a document."""
    return 2**30 + int.from_bytes(hashlib.sha256(f"{kind}\0\0{text}".encode()).digest()[:4], "big") % 2**30


def note_calls(thread: Thread) -> dict[str, Call]:
    """With arguments that name ANA's things."""
    uid = thread.thread_uid
    keys = [(note_place("session_memory", uid), _seq("session_memory", "old"))]
    return {
        "note_rows.read_place": lambda tx, who: note_rows.read_place(tx, who, "session_memory", uid),
        "note_rows.read_place, of attempts": lambda tx, who: note_rows.read_place(tx, who, "attempt", uid),
        "note_rows.read_place, of a plan": lambda tx, who: note_rows.read_place(tx, who, "plan", uid),
        "note_rows.read_place, of observations": lambda tx, who: note_rows.read_place(tx, who, "observation", uid),
        "note_rows.read_place, of the profile": lambda tx, who: note_rows.read_place(tx, who, "profile", ""),
        "note_rows.refresh": lambda tx, who: note_rows.refresh(tx, who, uid, search_text),
        "note_rows.refresh, anew": lambda tx, who: note_rows.refresh(tx, who, uid, search_text, anew=True),
        "note_rows.refresh_document": lambda tx, who: note_rows.refresh_document(tx, who, replace(thread), search_text),
        "note_rows.as_messages": lambda tx, who: note_rows.as_messages(tx, who, keys),
        "note_rows.stand_in": lambda tx, who: note_rows.stand_in(tx, who, uid),
        "note_rows.has_any": note_rows.has_any,
        "note_rows.rows_at": lambda tx, who: note_rows.rows_at(tx, who, [PROFILE_PLACE, *note_places(uid)]),
        "indexed_rows.shown_beside": lambda tx, who: indexed_rows.shown_beside(tx, who, uid),
        "indexed_rows.index_notes": lambda tx, who: indexed_rows.index_notes(tx, who, uid, search_text),
        "indexed_rows.messages_of, of notes": lambda tx, who: indexed_rows.messages_of(tx, who, keys),
        "working_memory.read_newest_of": lambda tx, who: working_memory.read_newest_of(tx, who, uid),
    }
