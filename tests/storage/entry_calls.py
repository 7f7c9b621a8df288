"""The stores of entries, for the test that no scope meets another's: an entry of ANA's, and a call of every function."""

from collections.abc import Awaitable, Callable
from typing import Any

from layerlore.storage import (
    entries,
    entry_endings,
    forgetting,
    messages_behind,
    observations,
    resources,
    search_rows,
    thread_cursors,
)
from layerlore.storage.entries import Entry, NewEntry, Source
from layerlore.storage.observations import NewObservation
from layerlore.storage.records import Scope, Thread
from layerlore.storage.transaction import Tx

from .building import ANA, NOW, search_text

Call = Callable[[Tx, Scope], Awaitable[Any]]

ID, OTHER = "an entry", "another"
SILENT = {
    "entries.hide_unseen",
    "entries.index",
    "entries.insert_new",
    "entries.revive",
    "entries.show_seen",
    "thread_cursors.move, for entries",
    "entry_endings.erase_dropped",
    "entry_endings.erase_unsourced",
    "entry_endings.replaced",
    "entry_endings.sources_gone",
    "forgetting.keep_chosen",
    "resources.hold",
}
"""These answer nothing, or tell of what ANA has not."""


def _new(entry_id: str, content: str, *sources: Source) -> NewEntry:
    return NewEntry(entry_id, content, None, "extracted" if sources else "caller", "user", "m", "p", NOW, sources)


def _known(entry_id: str, content: str) -> Entry:
    hashed = entries.content_hash(content)
    return Entry(entry_id, content, hashed, None, "active", None, "caller", "user", "m", "p", NOW, NOW)


async def remembered(tx: Tx, scope: Scope, thread: Thread) -> None:
    """An entry of ANA's with a source, an observation, and what she chose to forget."""
    where = Source(thread.thread_uid, 1, 1, 0, 1, "user_assertion")
    await entries.insert_new(tx, ANA, _new(ID, "apple pie", where), now=NOW, search_text=search_text)
    noted = NewObservation("info", "apple pie", NOW, None, 1, 1, 3, "user", 1)
    await observations.add(tx, ANA, thread.thread_uid, [noted], status="active", model="m", prompt="p", now=NOW)
    await forgetting.keep_chosen(tx, ANA, "token", {"entries": [ID]}, now=NOW)
    await thread_cursors.move(tx, ANA, thread.thread_uid, "entries_seq", 2)


def entry_calls(uid: str) -> dict[str, Call]:
    """With arguments that name ANA's things."""
    thread, place = Thread(uid, "main", None), entries.place_of(ID)
    new, known = _new(OTHER, "plum pie"), _known(ID, "apple pie")
    return {
        "entries.as_messages": lambda tx, who: entries.as_messages(tx, who, [ID]),
        "entries.count": entries.count,
        "entries.drop": lambda tx, who: entries.drop(tx, who, [ID], now=NOW),
        "entries.erase": lambda tx, who: entries.erase(tx, who, [ID]),
        "entries.hide_unseen": lambda tx, who: entries.hide_unseen(tx, who, [ID]),
        "entries.index": lambda tx, who: entries.index(tx, who, [_known(OTHER, "plum")], search_text),
        "entries.index_anew": lambda tx, who: entries.index_anew(tx, who, ID, search_text),
        "entries.insert_new": lambda tx, who: entries.insert_new(tx, who, new, now=NOW, search_text=search_text),
        "entries.of_content": lambda tx, who: entries.of_content(tx, who, "apple pie"),
        "entries.revive": lambda tx, who: entries.revive(tx, who, known, new, now=NOW, search_text=search_text),
        "entries.seen": lambda tx, who: entries.seen(tx, who, [ID]),
        "entries.show_seen": lambda tx, who: entries.show_seen(tx, who, [ID], search_text),
        "entries.sourced_from": lambda tx, who: entries.sourced_from(tx, who, uid),
        "entries.sourced_from, some messages": lambda tx, who: entries.sourced_from(tx, who, uid, [1]),
        "entries.sources_of": lambda tx, who: entries.sources_of(tx, who, [ID]),
        "entries.supersede": lambda tx, who: entries.supersede(tx, who, [ID], OTHER, now=NOW),
        "thread_cursors.move, for entries": lambda tx, who: thread_cursors.move(tx, who, uid, "entries_seq", 9),
        "thread_cursors.read, for entries": lambda tx, who: thread_cursors.read(tx, who, uid, "entries_seq"),
        "messages_behind.spoken": lambda tx, who: messages_behind.spoken(tx, who, thread, after=0, upto=9, most=9),
        "messages_behind.spoken_before": lambda tx, who: messages_behind.spoken_before(tx, who, thread, upto=9, most=9),
        "entry_endings.erase_dropped": lambda tx, who: entry_endings.erase_dropped(tx, who, dropped_before=NOW * 2),
        "entry_endings.erase_unsourced": entry_endings.erase_unsourced,
        "entry_endings.replaced": lambda tx, who: entry_endings.replaced(tx, who, uid, same_text=[1], other_text=[2]),
        "entry_endings.sources_gone": lambda tx, who: entry_endings.sources_gone(tx, who, [ID], erased=True),
        "forgetting.chosen_by": lambda tx, who: forgetting.chosen_by(tx, who, "token"),
        "forgetting.keep_chosen": lambda tx, who: forgetting.keep_chosen(tx, who, "other", {}, now=NOW),
        "forgetting.noted": forgetting.noted,
        "forgetting.written": forgetting.written,
        "resources.hold": resources.hold,
        "search_rows.chunks_of": lambda tx, who: search_rows.chunks_of(tx, who, place, entries.SEQ),
        "search_rows.messages_of, of entries": lambda tx, who: search_rows.messages_of(tx, who, [(place, entries.SEQ)]),
    }
