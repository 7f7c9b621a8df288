"""``layerlore jobs``: the background work that waits or failed, and how to have it tried again."""

import asyncio
import json
import sys

from layerlore.extraction.chat.automatic import told
from layerlore.memory import journaling
from layerlore.memory.ages import iso
from layerlore.memory.engine import Engine
from layerlore.memory.journaling import Wrote
from layerlore.memory.quoting import one_line
from layerlore.server.commands.stored import stored_memory
from layerlore.server.commands.whose import named, options, scope_of
from layerlore.server.program import shell_command
from layerlore.server.settings import Settings
from layerlore.server.thinking import chosen_models
from layerlore.storage import jobs as stored
from layerlore.storage.jobs import JobRow
from layerlore.storage.records import Json, Origin, Scope
from layerlore.storage.transaction import Tx

_BY = Origin("command line", "jobs", "command:jobs")
_OF_RESOURCE = "(of all threads)"
_STATES = {
    "due": "due",
    "running": "running",
    "later": "due at {due}",
    "dead": "dead since {dead}, after {failures} failures: {error}",
}


def jobs(settings: Settings, tenant: str, *, resume: bool, as_json: bool) -> int:
    """Print the jobs of a tenant's agent and resource that are not done; with ``resume``, first make those due again that failed too
    often. Returns the exit code.

    Raises NotFound, StorageUnavailable, DatabaseTooNew or InvalidInput.
    """
    scope = scope_of(settings, tenant)
    resumed, rows = asyncio.run(_looked(settings, scope, resume))
    if as_json:
        shown = {"jobs": [_as_json(row) for row in rows], **({"resumed": resumed} if resume else {})}
        sys.stdout.write(json.dumps(shown, ensure_ascii=False, indent=2) + "\n")
        return 0
    if resume:
        sys.stdout.write(f"due again: {resumed} dead job{'' if resumed == 1 else 's'}\n")
    for row in rows:
        thread = one_line(row.thread_id) if row.thread_id is not None else _OF_RESOURCE
        sys.stdout.write(f"{row.kind:<15} {_state(row)}  {thread}\n")
    if not rows:
        sys.stdout.write(f"nothing waits for {named(scope)}\n")
    if any(row.state == "dead" for row in rows):
        sys.stdout.write(f"\n`{shell_command('jobs', '--resume', *options(scope))}` makes the dead ones due again.\n")
    sys.stdout.write(f"\nmodel: {told(chosen_models(settings.llm))}\n")
    return 0


async def _looked(settings: Settings, scope: Scope, resume: bool) -> tuple[int, list[JobRow]]:
    async with stored_memory(settings, off="there are no jobs", absent="there are no jobs") as engine:
        now = engine.now()
        resumed = await _resume(engine, scope, now) if resume else 0
        return resumed, await engine.database.read(stored.waiting, scope, now)


async def _resume(engine: Engine, scope: Scope, now: int) -> int:
    async def again(tx: Tx) -> tuple[int, Wrote]:
        resumed = await stored.resume(tx, scope, None, now)
        return resumed, Wrote("done", {"jobs": resumed})

    return await journaling.write(engine.database, engine.hmac_key, scope, _BY, now, again)


def _state(row: JobRow) -> str:
    return _STATES[row.state].format(
        due=iso(row.due_at), dead=iso(row.dead_at or 0), failures=row.attempts, error=one_line(row.error or "")
    )


def _as_json(row: JobRow) -> Json:
    optional = {
        "thread_id": row.thread_id,
        "dead_since": iso(row.dead_at) if row.dead_at is not None else None,
        "error": row.error,
    }
    return {
        "kind": row.kind,
        "state": row.state,
        "due_at": iso(row.due_at),
        "failures": row.attempts,
        **{name: value for name, value in optional.items() if value is not None},
    }
