"""A thread's observations, for people and programs to read."""

from layerlore.memory.ages import iso
from layerlore.memory.engine import Engine
from layerlore.memory.pages import fitting
from layerlore.storage import observations, threads
from layerlore.storage.errors import NotFound
from layerlore.storage.observations import Observation
from layerlore.storage.records import Json, Scope, Thread
from layerlore.storage.transaction import Tx


async def observed(engine: Engine, scope: Scope, thread_id: str, before: int | None = None) -> Json:
    """The newest active observations, as many as an answer holds, of the first ``before`` if that is given, in their order: ``observations`` (with the trust of their sources, how many reflections
    they went through, and which model wrote them), ``observed_seq`` (they tell the thread up to there) and, where they
    are known, ``current_task`` and ``next_step``. ``next`` goes on with the older ones. Of an unknown thread nothing was observed yet."""
    try:
        thread, rows = await engine.database.read(_read, scope, thread_id)
    except NotFound:
        thread, rows = Thread("", thread_id, None), []
    wanted = rows[: max(0, before)] if before is not None else rows
    shown = fitting([_shown(row) for row in reversed(wanted)], engine.limits.answer_bytes)[::-1]
    left = len(wanted) - len(shown)
    hints = {"current_task": thread.current_task, "next_step": thread.next_step}
    return {
        "thread_id": thread_id,
        "observations": shown,
        **({"left_out": left, "next": {"before": left}} if left else {}),
        "observed_seq": thread.observed_seq,
        "tokens": sum(row.tokens for row in rows),
        **{name: hint for name, hint in hints.items() if hint},
    }


async def _read(tx: Tx, scope: Scope, thread_id: str) -> tuple[Thread, list[Observation]]:
    thread = await threads.find(tx, scope, thread_id)
    return thread, await observations.listed(tx, scope, thread.thread_uid, "active")


def _shown(row: Observation) -> Json:
    optional = {"refers_to": row.refers_to, "under": row.parent_id}
    return {
        "id": row.observation_id,
        "marker": row.marker,
        "text": row.text,
        "said_at": iso(row.said_at),
        **{name: value for name, value in optional.items() if value is not None},
        "from_seq": row.from_seq,
        "to_seq": row.to_seq,
        "trust": row.trust,
        "reflections": row.level,
        "model": row.model,
    }
