"""Writing down what a call did, so that it can be undone within ``retention.deleted_days``."""

import base64
import hashlib
from collections.abc import Sequence

from typing_extensions import TypedDict

from layerlore.memory.engine.engine import Engine
from layerlore.memory.rules.ages import DAY_MS
from layerlore.storage.core.records import Scope
from layerlore.storage.core.transaction import Tx
from layerlore.storage.removal import acts
from layerlore.storage.removal.acts import ActPart

PREFIX = "u_"


class UndoId(TypedDict, total=False):
    """The id that undoes a call; left out where nothing of it can be undone."""

    undo: str


def make_undo_id(engine: Engine) -> str:
    """A new id, short enough for a person to type: ``u_`` and eight letters and digits."""
    return PREFIX + base64.b32encode(hashlib.sha256(engine.new_id().encode()).digest()[:5]).decode().lower()


def undoable_since(engine: Engine, now: int) -> int:
    """The time (milliseconds since 1970) before which nothing can be undone any more."""
    return now - engine.deleted_days * DAY_MS


async def record_act(
    tx: Tx, engine: Engine, scope: Scope, undo_id: str, tool: str, parts: Sequence[ActPart], now: int
) -> UndoId:
    """Write down what a call did. Returns what its answer says of it: ``undo``, or nothing where nothing is stored."""
    if not parts or engine.deleted_days == 0:
        return {}
    kept_since = undoable_since(engine, now)
    await acts.record(tx, scope, undo_id, tool, parts, now=now, kept_since=kept_since)
    return {"undo": undo_id}
