"""What hides and undoes what was made from messages, for the test that no scope meets another's: a call of every
function."""

from collections.abc import Awaitable, Callable
from typing import Any

from layerlore.storage.core.records import Scope, Thread
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import derivations, observations, working_memory
from layerlore.storage.derived.derivations import Document, RestingDocuments
from layerlore.storage.derived.working_memory import DocumentSource, Version
from layerlore.storage.jobs import job_rows
from layerlore.storage.messages import orphans

from .building import NOW

Call = Callable[[Tx, Scope], Awaitable[Any]]

SILENT = {
    "derivations.come_back",
    "derivations.do_again",
    "derivations.drop_title",
    "derivations.fallen",
    "derivations.replaced",
    "derivations.standing",
    "derivations.thread_came_back",
    "job_rows.fence_off",
    "job_rows.set_back",
    "observations.erase",
    "orphans.erase",
    "working_memory.erase",
    "working_memory.erase_of_thread",
    "working_memory.take_over",
}
"""These answer nothing, or tell of what ANA has not."""


def derivation_calls(uid: str, deletion_uid: str) -> dict[str, Call]:
    """With arguments that name ANA's things."""
    thread = Thread(uid, "main", None)
    stood = RestingDocuments(None, Document(Version(1, "replace", "", "", NOW, "apple"), [DocumentSource(uid, 1, 1)]))
    return {
        "derivations.come_back": lambda tx, who: derivations.come_back(tx, who, thread, [1], now=NOW),
        "derivations.do_again": lambda tx, who: derivations.do_again(tx, who, [(uid, "session_memory", 1)], now=NOW),
        "derivations.drop": lambda tx, who: derivations.drop(tx, who, thread, [1]),
        "derivations.drop_title": lambda tx, who: derivations.drop_title(tx, who, thread, [1, 2]),
        "derivations.fallen": lambda tx, who: derivations.fallen(tx, who, thread, stood),
        "derivations.replaced": lambda tx, who: derivations.replaced(tx, who, thread, [1], now=NOW),
        "derivations.standing": lambda tx, who: derivations.standing(tx, who, thread, [1]),
        "derivations.thread_came_back": lambda tx, who: derivations.thread_came_back(tx, who, thread, since=0, now=NOW),
        "job_rows.fence_off": lambda tx, who: job_rows.fence_off(tx, who, now=NOW),
        "job_rows.set_back": lambda tx, who: job_rows.set_back(tx, who, uid, "observe", 0, due_at=NOW, now=NOW),
        "observations.erase": lambda tx, who: observations.erase(tx, who, uid, [1, 2]),
        "orphans.erase": lambda tx, who: orphans.erase(tx, who, uid, deletion_uid),
        "working_memory.deleted_within": lambda tx, who: working_memory.deleted_within(tx, who, uid, 1, 9),
        "working_memory.erase": lambda tx, who: working_memory.erase(tx, who, uid, deletion_uid),
        "working_memory.erase_of_thread": lambda tx, who: working_memory.erase_of_thread(tx, who, uid),
        "working_memory.take_over": lambda tx, who: working_memory.take_over(tx, who, "", 3, of_version=1),
    }
