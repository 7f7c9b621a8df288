"""The stores of entries, for the test that no scope meets another's: an entry of ANA's, and a call of every function."""

from collections.abc import Awaitable, Callable
from typing import Any

from layerlore.storage.core import scopes
from layerlore.storage.core.records import Scope, Thread
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import entries, entry_curation, observations
from layerlore.storage.derived.entries import Entry, EntrySource, NewEntry
from layerlore.storage.derived.observations import NewObservation
from layerlore.storage.messages import indexed_rows, message_pages
from layerlore.storage.removal import forget_candidates
from layerlore.storage.threads import threads

from .building import ANA, NOW, search_text

Call = Callable[[Tx, Scope], Awaitable[Any]]

ID, OTHER = "an entry", "another"
SILENT = {
    "entry_curation.mark_contradicted",
    "entry_curation.find_contradicted",
    "entry_curation.read_replaced",
    "entries.hide_unseen",
    "entries.index",
    "entries.insert_new",
    "entries.revive",
    "entries.show_seen",
    "threads.move_cursor, for entries",
    "entry_curation.erase_dropped",
    "entries.erase_unsourced",
    "entries.follow_replaced",
    "entries.drop_sources",
    "entry_curation.inherit_pin",
    "entry_curation.list_wrong",
    "entry_curation.mark_wrong",
    "entry_curation.accept",
    "entry_curation.pin",
    "entry_curation.unmark_wrong",
    "forget_candidates.keep_chosen",
    "scopes.hold",
}
"""These answer nothing, or tell of what ANA has not."""


def _new(entry_id: str, content: str, *sources: EntrySource) -> NewEntry:
    return NewEntry(
        entry_id, content, "preference", "extracted" if sources else "caller", "user", "m", "p", NOW, sources
    )


def _known(entry_id: str, content: str) -> Entry:
    hashed = entries.content_hash(content)
    return Entry(entry_id, content, hashed, None, "active", None, "caller", "user", "m", "p", NOW, NOW)


async def remembered(tx: Tx, scope: Scope, thread: Thread) -> None:
    """An entry of ANA's with a source, an observation, and what she chose to forget."""
    where = EntrySource(thread.thread_uid, 1, 1, 0, 1, "user_assertion")
    await entries.insert_new(tx, ANA, _new(ID, "apple pie", where), now=NOW, search_text=search_text)
    await entry_curation.pin(tx, ANA, ID, at=NOW)
    noted = NewObservation("info", "apple pie", NOW, None, 1, 1, 3, "user", 1)
    await observations.add(tx, ANA, thread.thread_uid, [noted], status="active", model="m", prompt="p", now=NOW)
    await forget_candidates.keep_chosen(tx, ANA, "token", {"entries": [ID]}, now=NOW)
    await threads.move_cursor(tx, ANA, thread.thread_uid, "entries_seq", 2)


def entry_calls(uid: str) -> dict[str, Call]:
    """With arguments that name ANA's things."""
    thread, place = Thread(uid, "main", None), entries.place_of(ID)
    new, known = _new(OTHER, "plum pie"), _known(ID, "apple pie")
    return {
        "entries.as_messages": lambda tx, who: entries.as_messages(tx, who, [ID]),
        "entries.count": entries.count,
        "entries.drop": lambda tx, who: entries.drop(tx, who, [ID], now=NOW),
        "entry_curation.restore_dropped": lambda tx, who: entry_curation.restore_dropped(
            tx, who, [ID], search_text=search_text
        ),
        "entry_curation.restore_superseded": lambda tx, who: entry_curation.restore_superseded(
            tx, who, [ID], OTHER, search_text=search_text
        ),
        "entry_curation.read_standing": lambda tx, who: entry_curation.read_standing(tx, who, [ID]),
        "entries.erase": lambda tx, who: entries.erase(tx, who, [ID]),
        "entries.hide_unseen": lambda tx, who: entries.hide_unseen(tx, who, [ID]),
        "entries.index": lambda tx, who: entries.index(tx, who, [_known(OTHER, "plum")], search_text),
        "entries.index_anew": lambda tx, who: entries.index_anew(tx, who, ID, search_text),
        "entries.insert_new": lambda tx, who: entries.insert_new(tx, who, new, now=NOW, search_text=search_text),
        "entry_curation.mark_contradicted": lambda tx, who: entry_curation.mark_contradicted(tx, who, [ID], OTHER),
        "entry_curation.find_contradicted": lambda tx, who: entry_curation.find_contradicted(tx, who, [ID]),
        "entries.of_content": lambda tx, who: entries.of_content(tx, who, "apple pie"),
        "entries.revive": lambda tx, who: entries.revive(tx, who, known, new, now=NOW, search_text=search_text),
        "entries.read_seen": lambda tx, who: entries.read_seen(tx, who, [ID]),
        "entry_curation.read_named": lambda tx, who: entry_curation.read_named(tx, who, [ID]),
        "entries.show_seen": lambda tx, who: entries.show_seen(tx, who, [ID], search_text),
        "entries.sourced_from": lambda tx, who: entries.sourced_from(tx, who, uid),
        "entries.sourced_from, some messages": lambda tx, who: entries.sourced_from(tx, who, uid, [1]),
        "entries.sources_of": lambda tx, who: entries.sources_of(tx, who, [ID]),
        "entry_curation.find_standing": lambda tx, who: entry_curation.find_standing(tx, who, ID),
        "entry_curation.read_markable": lambda tx, who: entry_curation.read_markable(tx, who, ID),
        "entry_curation.accept": lambda tx, who: entry_curation.accept(tx, who, ID),
        "entry_curation.pin": lambda tx, who: entry_curation.pin(tx, who, ID, at=NOW),
        "entry_curation.read_pinned": entry_curation.read_pinned,
        "entry_curation.inherit_pin": lambda tx, who: entry_curation.inherit_pin(tx, who, OTHER, [ID], now=NOW),
        "entry_curation.mark_wrong": lambda tx, who: entry_curation.mark_wrong(tx, who, ID, now=NOW),
        "entry_curation.unmark_wrong": lambda tx, who: entry_curation.unmark_wrong(
            tx, who, ID, search_text=search_text
        ),
        "entry_curation.list_wrong": entry_curation.list_wrong,
        "entry_curation.read_preferences": lambda tx, who: entry_curation.read_preferences(tx, who, most=9),
        "entry_curation.read_page": lambda tx, who: entry_curation.read_page(tx, who, before=None, limit=9),
        "entry_curation.read_replaced": lambda tx, who: entry_curation.read_replaced(tx, who, [OTHER]),
        "entries.supersede": lambda tx, who: entries.supersede(tx, who, [ID], OTHER, now=NOW),
        "threads.move_cursor, for entries": lambda tx, who: threads.move_cursor(tx, who, uid, "entries_seq", 9),
        "threads.read_cursor, for entries": lambda tx, who: threads.read_cursor(tx, who, uid, "entries_seq"),
        "message_pages.read_newest_of_users": lambda tx, who: message_pages.read_newest_of_users(
            tx, who, thread, after=0, created_after=0, most=9
        ),
        "message_pages.read_spoken": lambda tx, who: message_pages.read_spoken(
            tx, who, thread, after=0, upto=9, most=9
        ),
        "message_pages.read_spoken_before": lambda tx, who: message_pages.read_spoken_before(
            tx, who, thread, upto=9, most=9
        ),
        "entry_curation.erase_dropped": lambda tx, who: entry_curation.erase_dropped(tx, who, dropped_before=NOW * 2),
        "entries.erase_unsourced": entries.erase_unsourced,
        "entries.follow_replaced": lambda tx, who: entries.follow_replaced(tx, who, uid, same_text=[1], other_text=[2]),
        "entries.drop_sources": lambda tx, who: entries.drop_sources(tx, who, [ID], erased=True),
        "forget_candidates.chosen_by": lambda tx, who: forget_candidates.chosen_by(tx, who, "token"),
        "forget_candidates.keep_chosen": lambda tx, who: forget_candidates.keep_chosen(tx, who, "other", {}, now=NOW),
        "forget_candidates.list_notes": forget_candidates.list_notes,
        "forget_candidates.list_documents": forget_candidates.list_documents,
        "forget_candidates.list_kept_places": lambda tx, who: forget_candidates.list_kept_places(tx, who, most=9),
        "scopes.hold": scopes.hold,
        "indexed_rows.chunks_of": lambda tx, who: indexed_rows.chunks_of(tx, who, place, entries.SEQ),
        "indexed_rows.messages_of, of entries": lambda tx, who: indexed_rows.messages_of(
            tx, who, [(place, entries.SEQ)]
        ),
    }
