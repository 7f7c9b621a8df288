"""Attempts: the iteration log (n8n's) of what was tried at a task, for the next agent that tries."""

from collections.abc import Sequence

from layerlore.memory.engine.engine import Engine, WriteRequest
from layerlore.memory.rules.answers import MaskedCount, order_keys, show_masked
from layerlore.memory.rules.validation import check_id, check_new_id, check_text
from layerlore.memory.text.quotation import quote_line
from layerlore.memory.work.work_answers import LoggedAttempt
from layerlore.storage.core.errors import InvalidInput, LimitExceeded
from layerlore.storage.core.records import Scope
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import note_rows
from layerlore.storage.threads import events
from layerlore.storage.threads.events import NewEvent
from layerlore.storage.work import steps
from layerlore.storage.work.steps import Attempt, AttemptPage, NewAttempt

TEXT_BYTES = 8 * 1024
# n8n's: this much of a result is shown.
RESULT_CHARS = 200


class _StoredAttempt(MaskedCount):
    """The answer without the task's key, which may hold text of the user and is not stored with it."""

    thread_id: str
    attempt: int


async def log_attempt(
    engine: Engine,
    scope: Scope,
    thread_id: str,
    *,
    task_key: str,
    action: str,
    result: str,
    error: str,
    diagnosis: str,
    fix_applied: str,
    sent: WriteRequest,
) -> LoggedAttempt:
    """Add an attempt to the log of a task; what is empty was not given. With an error the attempt has failed.

    Returns ``thread_id``, ``task_key``, ``attempt`` (its number, from 1) and ``masked``.

    Raises InvalidInput, LimitExceeded, Conflict.
    """
    texts = {"action": action, "result": result, "error": error, "diagnosis": diagnosis, "fix_applied": fix_applied}
    for name, text in texts.items():
        size = len(check_text(text, name).encode())
        if size > TEXT_BYTES:
            raise LimitExceeded(f"{name}: {size:,} bytes; at most {TEXT_BYTES:,} are allowed")
    if not action.strip():
        raise InvalidInput("action: must not be empty; say what was tried")
    if not (result.strip() or error.strip()):
        raise InvalidInput("result: must not be empty; say how it ended, here or in error")
    check_new_id(task_key, "task_key", engine.limits.id_chars)
    key, in_key = check_key(engine, task_key)
    kept, in_texts = engine.masked(texts)
    given = {name: text if text.strip() else None for name, text in kept.items()}
    # The result is a text even where only the error says something, so it may be empty but not null.
    tried = NewAttempt(**{**given, "task_key": key, "result": kept["result"]})
    now, new_uid, masked = engine.now(), engine.new_id(), in_key + in_texts

    async def write(tx: Tx) -> _StoredAttempt:
        thread, logged = await steps.log(tx, scope, thread_id, tried, new_uid=new_uid, now=now)
        happened = NewEvent("attempt_logged", {"attempt": logged.attempt})
        await events.record(tx, scope, thread, [happened], origin=sent.origin, now=now)
        await note_rows.refresh(tx, scope, thread.thread_uid, engine.search_text_of, ("attempt",))
        return {"thread_id": thread_id, "attempt": logged.attempt, **show_masked(masked)}

    answer = await engine.write(scope, sent, [task_key, *texts.values()], now, write)
    # The kept answer has no key of the task, since that may hold a user's text.
    logged: LoggedAttempt = {"task_key": key, **answer}
    return order_keys(LoggedAttempt, logged)


def check_key(engine: Engine, task_key: str) -> tuple[str, int]:
    """A task's key as it is stored, and how many secrets were masked in it. Raises InvalidInput, LimitExceeded."""
    key, masked = engine.masked(check_id(task_key, "task_key", engine.limits.id_chars))
    return str(key), masked


async def list_attempts(engine: Engine, scope: Scope, thread_id: str, *, task_key: str, limit: int) -> AttemptPage:
    """The newest attempts at a task, or (empty ``task_key``) at all tasks of the thread. Raises NotFound."""
    if task_key:
        key = check_key(engine, task_key)[0]
    else:
        key = ""
    return await engine.database.read(steps.read_attempts, scope, thread_id, task_key=key, limit=limit)


def render_attempts(logged: Sequence[Attempt]) -> list[str]:
    """A line for each attempt, as n8n's agents get them."""
    return [_line(attempt) for attempt in logged]


def _line(attempt: Attempt) -> str:
    result = quote_line(attempt.result)
    if len(result) <= RESULT_CHARS:
        shown = result
    else:
        shown = result[: RESULT_CHARS - 1] + "…"
    if attempt.error:
        ended = f"FAILED: {quote_line(attempt.error)}"
    else:
        ended = shown
    if attempt.diagnosis:
        diagnosis = f" | Diagnosis: {quote_line(attempt.diagnosis)}"
    else:
        diagnosis = ""
    if attempt.fix_applied:
        fix = f" | Fix applied: {quote_line(attempt.fix_applied)}"
    else:
        fix = ""
    return f"Attempt {attempt.attempt}: {quote_line(attempt.action)} → {ended}{diagnosis}{fix}"
