"""When a turn has ended: then what was said in it is to be distilled, in the background."""

from collections.abc import Sequence

from layerlore.memory.engine import Engine
from layerlore.memory.summarising import may_trim, policy_of
from layerlore.storage import jobs
from layerlore.storage.jobs import Kind
from layerlore.storage.messages import Appended
from layerlore.storage.records import Draft, Scope, Thread
from layerlore.storage.transaction import Tx

DEBOUNCE_MS = 2_000
"""What is said within this time goes into the same work."""

_EACH_TURN: tuple[Kind, ...] = ("entries", "profile", "session_memory")


async def after_append(
    tx: Tx, engine: Engine, scope: Scope, appended: Appended, drafts: Sequence[Draft], *, now: int
) -> None:
    """Ask for the work that the end of a turn makes due, in the append's transaction and with one statement.

    A turn ends with an assistant's message after a user's. Whether what was there before is a user's is not looked up:
    work that finds nothing to do is done.
    """
    thread = appended.thread
    if not _ends_turn(appended, drafts):
        return
    kinds = [*_EACH_TURN, *_once(thread), *_of_window(engine, thread)]
    seq, due_at = thread.next_seq - 1, now + DEBOUNCE_MS
    await jobs.request_many(tx, scope, thread.thread_uid, [(kind, seq, due_at) for kind in kinds], now=now)


def _once(thread: Thread) -> list[Kind]:
    return ["title"] if thread.title is None and thread.title_by is None else []


def _of_window(engine: Engine, thread: Thread) -> list[Kind]:
    return ["summary"] if may_trim(policy_of(engine, thread), thread) else []


def _ends_turn(appended: Appended, drafts: Sequence[Draft]) -> bool:
    added = [
        (draft, stored.seq) for draft, stored in zip(drafts, appended.stored, strict=True) if stored.status == "added"
    ]
    asked = bool(added) and added[0][1] > 1
    for draft, _ in added:
        if draft.role == "user":
            asked = True
        elif asked and draft.role == "assistant" and _answers(draft):
            return True
    return False


def _answers(draft: Draft) -> bool:
    """Whether a message says something, and waits for no tool."""
    done = {part["tool_call_id"] for part in draft.parts if part["type"] == "tool_result"}
    waits = any(part["type"] == "tool_call" and part["id"] not in done for part in draft.parts)
    return not waits and any(part["type"] == "text" and part["text"].strip() for part in draft.parts)
