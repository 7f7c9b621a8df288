"""The stores of observations, for the test that no scope meets another's: observations of ANA's, and a call of every
function."""

from collections.abc import Awaitable, Callable
from typing import Any

from layerlore.storage.core.records import Scope, Thread
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import observations
from layerlore.storage.derived.observations import Cursor, Gap, NewObservation
from layerlore.storage.messages import message_pages
from layerlore.storage.threads import threads

from .building import ANA, NOW

Call = Callable[[Tx, Scope], Awaitable[Any]]

SILENT = {
    "observations.changed",
    "observations.close",
    "observations.buffer",
    "observations.discard",
    "observations.put_away",
}
"""These answer nothing."""

_NOTE = NewObservation("info", "apple", NOW, None, 1, 1, 3, "user", 1)


async def observed(tx: Tx, scope: Scope, thread: Thread) -> None:
    """A note of ANA's that is shown, one that was made ahead, and a gap."""
    for status, batch in (("active", 1), ("buffered", 2)):
        made = [NewObservation("info", status, NOW, None, batch, batch, 3, "user", batch)]
        await observations.add(tx, ANA, thread.thread_uid, made, status=status, model="m", prompt="p", now=NOW)  # type: ignore[arg-type]
    await observations.buffer(tx, ANA, thread, Cursor(2), current_task="tea", next_step=None)
    held = await threads.lock_uid(tx, ANA, thread.thread_uid)
    assert held is not None
    await observations.activate(tx, ANA, held, keep=0)
    await observations.changed(tx, ANA, thread.thread_uid, [1], now=NOW)
    last = [NewObservation("info", "ahead", NOW, None, 3, 3, 3, "user", 3)]
    await observations.add(tx, ANA, thread.thread_uid, last, status="buffered", model="m", prompt="p", now=NOW)


def observation_calls(uid: str) -> dict[str, Call]:
    """With arguments that name ANA's things."""
    thread = Thread(uid, "main", None, buffered_seq=3)
    return {
        "observations.changed": lambda tx, who: observations.changed(tx, who, uid, [1, 2], now=NOW),
        "observations.close": lambda tx, who: observations.close(tx, who, uid, Gap(1, 1, 2), 2, now=NOW),
        "observations.gaps": lambda tx, who: observations.gaps(tx, who, uid),
        "observations.activate": lambda tx, who: observations.activate(tx, who, thread, keep=0),
        "observations.active_tokens": lambda tx, who: observations.active_tokens(tx, who, uid),
        "observations.add": lambda tx, who: observations.add(
            tx, who, uid, [_NOTE], status="active", model="m", prompt="p", now=NOW
        ),
        "observations.buffer": lambda tx, who: observations.buffer(
            tx, who, thread, Cursor(4), current_task=None, next_step=None
        ),
        "observations.discard": lambda tx, who: observations.discard(tx, who, thread, 0),
        "observations.read": lambda tx, who: observations.read(tx, who, uid, "active", "buffered"),
        "observations.newest": lambda tx, who: observations.newest(tx, who, uid, upto=9, most=9),
        "observations.state": lambda tx, who: observations.state(tx, who, uid),
        "observations.put_away": lambda tx, who: observations.put_away(tx, who, uid, {1: None, 2: 1}),
        "observations.sizes": lambda tx, who: observations.sizes(tx, who, uid, after=0, upto=9),
        "message_pages.read_between": lambda tx, who: message_pages.read_between(
            tx, who, thread, after=0, upto=9, most=9
        ),
        "threads.find_uid": lambda tx, who: threads.find_uid(tx, who, uid),
    }
