"""What reads scopes for an export and puts them for an import, for the test that no scope meets another's: a call of every
function."""

from collections.abc import Awaitable, Callable
from typing import Any

from layerlore.storage.core.records import Scope
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived.entries import Entry, content_hash
from layerlore.storage.moving import moved_entries, moved_rows, moved_threads, shown_rows
from layerlore.storage.moving.moved_entries import MovedEntry, SharedRow
from layerlore.storage.moving.moved_rows import ATTEMPT, PROFILE, RUN, SUMMARY
from layerlore.storage.moving.moved_threads import COUNTERS, CURSORS, MovedMessage, MovedThread

from .building import NOW, draft, search_text
from .entry_calls import ID

Call = Callable[[Tx, Scope], Awaitable[Any]]

SILENT = {
    "moved_threads.put_times",
    "moved_threads.put_state",
    "moved_entries.rename",
    "moved_threads.put_erased",
    "moved_entries.put_lines",
    "moved_entries.add_entry",
    "moved_entries.change_entry",
    "moved_entries.read_lines",
    "moved_entries.read_quotes",
    "moved_entries.list_of_actor",  # the entries here are the user's word
}
"""These answer nothing, or the same to everybody."""

_DESCRIBED = {"title": "Tea", "title_by": None, "metadata": "{}", "window_policy": None}
_STATE = {**dict.fromkeys((*COUNTERS, *CURSORS), 1), "current_task": None, "next_step": None, "updated_at": NOW}
_ENTRY = Entry(ID, "apple pie", content_hash("apple pie"), None, "active", None, "caller", "user", "m", "p", NOW, NOW)


def moving_calls(uid: str) -> dict[str, Call]:
    """With arguments that name ANA's things."""
    thread = MovedThread(uid, "main", NOW, NOW, _DESCRIBED)
    said = [MovedMessage(draft("apple", id="b"), 3, NOW, 1)]
    summary = {
        "upto_seq": 1,
        "from_seq": 1,
        "text": "plum",
        "tokens": 1,
        "model": "m",
        "prompt": "p",
        "created_at": NOW,
    }
    version = {"version": 1, "content": "plum", "change": "replace", "actor": "a", "tool": "t", "created_at": NOW}
    return {
        "shown_rows.count": shown_rows.count,
        "shown_rows.list_uids": shown_rows.list_uids,
        "shown_rows.read_thread": lambda tx, who: shown_rows.read_thread(tx, who, uid),
        "shown_rows.read_messages": lambda tx, who: shown_rows.read_messages(tx, who, uid, "main", after=0, most=9),
        "shown_rows.list_erased": lambda tx, who: shown_rows.list_erased(tx, who, uid),
        "shown_rows.read_page": lambda tx, who: shown_rows.read_page(tx, who, ATTEMPT, uid, after=None, most=9),
        "shown_rows.read_page, of runs": lambda tx, who: shown_rows.read_page(tx, who, RUN, uid, after=None, most=9),
        "shown_rows.read_page, of a profile": lambda tx, who: shown_rows.read_page(
            tx, who, PROFILE, "", after=None, most=9
        ),
        "shown_rows.names_of": lambda tx, who: shown_rows.names_of(tx, who, [uid]),
        "shown_rows.document_runs": lambda tx, who: shown_rows.document_runs(tx, who, "", [1]),
        "shown_rows.read_entries": lambda tx, who: shown_rows.read_entries(tx, who, after=None, most=9),
        "moved_threads.put_thread": lambda tx, who: moved_threads.put_thread(tx, who, thread, "merge", new_uid="new"),
        "moved_threads.put_times": lambda tx, who: moved_threads.put_times(tx, who, uid, first=1, last=2, before=None),
        "moved_threads.put_state": lambda tx, who: moved_threads.put_state(tx, who, uid, _STATE, cursors=True, now=NOW),
        "moved_threads.put_erased": lambda tx, who: moved_threads.put_erased(tx, who, uid, []),
        "moved_threads.put_messages": lambda tx, who: moved_threads.put_messages(
            tx, who, uid, said, "merge", now=NOW, search_text=search_text
        ),
        "moved_rows.put_rows": lambda tx, who: _put_rows(tx, who, uid),
        "moved_rows.put_notes": lambda tx, who: _put_notes(tx, who, uid, summary),
        "moved_rows.put_versions": lambda tx, who: moved_rows.put_versions(tx, who, PROFILE, "", [version], [], "skip"),
        "moved_rows.put_resource_events": lambda tx, who: moved_rows.put_resource_events(
            tx,
            who,
            [
                {
                    **dict.fromkeys(("type", "actor", "tool"), "x"),
                    "payload": "{}",
                    "created_at": NOW,
                    "seq": 1,
                    "thread_uid": None,
                }
            ],
            2,
        ),
        "moved_entries.put_entries": lambda tx, who: moved_entries.put_entries(
            tx, who, [MovedEntry(_ENTRY, ())], "skip", new_ids={ID: "new"}, search_text=search_text
        ),
        "moved_entries.read_lines": moved_entries.read_lines,
        "moved_entries.list_of_actor": lambda tx, who: moved_entries.list_of_actor(tx, who, "an actor"),
        "moved_entries.put_lines": lambda tx, who: moved_entries.put_lines(tx, who, [SharedRow(ID, ID, 1, "{}")]),
        "moved_entries.read_entries": moved_entries.read_entries,
        "moved_entries.read_quotes": lambda tx, who: moved_entries.read_quotes(tx, who, [ID]),
        "moved_entries.add_entry": _add_shared,
        "moved_entries.change_entry": lambda tx, who: moved_entries.change_entry(
            tx, who, _ENTRY, search_text=search_text
        ),
        "moved_entries.rename": lambda tx, who: moved_entries.rename(tx, who, {ID: "new"}),
    }


async def _add_shared(tx: Tx, who: Scope) -> Any:
    """To a scope that has none: its content would be there twice."""
    if not await moved_entries.read_entries(tx, who):
        await moved_entries.add_entry(tx, who, _ENTRY, search_text=search_text)


async def _put_rows(tx: Tx, who: Scope, uid: str) -> Any:
    """Of a thread that is the caller's own, or nobody's: a row hangs on it."""
    if await shown_rows.read_thread(tx, who, uid) is None:
        return None
    row = {
        **dict.fromkeys(("action", "result"), "try"),
        **dict.fromkeys(("error", "diagnosis", "fix_applied")),
        "task_key": "k",
        "attempt": 1,
        "created_at": NOW,
    }
    return await moved_rows.put_rows(tx, who, ATTEMPT, uid, [row])


async def _put_notes(tx: Tx, who: Scope, uid: str, summary: dict[str, Any]) -> Any:
    if await shown_rows.read_thread(tx, who, uid) is None:
        return None
    return await moved_rows.put_notes(tx, who, uid, {SUMMARY: [summary]})
