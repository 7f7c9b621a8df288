"""What hides and undoes what was made from messages, for the test that no scope meets another's: a call of every
function."""

from collections.abc import Awaitable, Callable
from typing import Any

from layerlore.storage import derivations, job_setbacks, observation_sources, orphans, sources_there
from layerlore.storage.derivations import Document, Standing
from layerlore.storage.document_sources import DocumentSource
from layerlore.storage.records import Scope, Thread
from layerlore.storage.transaction import Tx
from layerlore.storage.working_memory import Version

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
    "job_setbacks.fence_off",
    "job_setbacks.set_back",
    "observation_sources.erase",
    "orphans.erase",
    "sources_there.erase",
    "sources_there.erase_of_thread",
    "sources_there.take_over",
}
"""These answer nothing, or tell of what ANA has not."""


def derivation_calls(uid: str, deletion_uid: str) -> dict[str, Call]:
    """With arguments that name ANA's things."""
    thread = Thread(uid, "main", None)
    stood = Standing(None, Document(Version(1, "replace", "", "", NOW, "apple"), [DocumentSource(uid, 1, 1)]))
    return {
        "derivations.come_back": lambda tx, who: derivations.come_back(tx, who, thread, [1], now=NOW),
        "derivations.do_again": lambda tx, who: derivations.do_again(tx, who, [(uid, "session_memory", 1)], now=NOW),
        "derivations.drop": lambda tx, who: derivations.drop(tx, who, thread, [1]),
        "derivations.drop_title": lambda tx, who: derivations.drop_title(tx, who, thread, [1, 2]),
        "derivations.fallen": lambda tx, who: derivations.fallen(tx, who, thread, stood),
        "derivations.replaced": lambda tx, who: derivations.replaced(tx, who, thread, [1], now=NOW),
        "derivations.standing": lambda tx, who: derivations.standing(tx, who, thread, [1]),
        "derivations.thread_came_back": lambda tx, who: derivations.thread_came_back(tx, who, thread, since=0, now=NOW),
        "job_setbacks.fence_off": lambda tx, who: job_setbacks.fence_off(tx, who, now=NOW),
        "job_setbacks.set_back": lambda tx, who: job_setbacks.set_back(tx, who, uid, "observe", 0, due_at=NOW, now=NOW),
        "observation_sources.erase": lambda tx, who: observation_sources.erase(tx, who, uid, [1, 2]),
        "orphans.erase": lambda tx, who: orphans.erase(tx, who, uid, deletion_uid),
        "sources_there.deleted_within": lambda tx, who: sources_there.deleted_within(tx, who, uid, 1, 9),
        "sources_there.erase": lambda tx, who: sources_there.erase(tx, who, uid, deletion_uid),
        "sources_there.erase_of_thread": lambda tx, who: sources_there.erase_of_thread(tx, who, uid),
        "sources_there.take_over": lambda tx, who: sources_there.take_over(tx, who, "", 3, of_version=1),
    }
