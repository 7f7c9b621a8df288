"""``layerlore jobs``: the background jobs that wait or failed, and how to retry them."""

import asyncio
import os
import sys
from typing import Annotated, Any

import typer

from layerlore.extraction.chat.chat_port import choose_models, describe_models
from layerlore.memory.rules.ages import iso
from layerlore.memory.text.quotation import join_lines
from layerlore.server.access.credentials import LOCAL_TENANT
from layerlore.server.command_line.known_engine import open_known_memory
from layerlore.server.command_line.options import AsJson, TenantOption, print_json, read_settings
from layerlore.server.command_line.owner import describe_scope, scope_of, scope_options
from layerlore.server.process.interpreter import shell_command
from layerlore.server.settings.settings import Settings
from layerlore.server.tools.background import resume_dead
from layerlore.storage.core.records import Json, Origin, Scope
from layerlore.storage.jobs import job_rows as stored
from layerlore.storage.jobs.job_rows import JobRow

_BY = Origin("command line", "jobs", "command:jobs")
_OF_RESOURCE = "(of all threads)"
_STATES = {
    "due": "due",
    "running": "running",
    "later": "due at {due}",
    "dead": "dead since {dead}, after {failures} failures: {error}",
}


def show_jobs(settings: Settings, tenant: str, *, resume: bool, as_json: bool) -> int:
    """Print the unfinished jobs of a tenant's agent and resource; with ``resume``, first make those due again that failed
    too often. Returns the exit code.

    Raises NotFound, StorageUnavailable, DatabaseTooNew or InvalidInput.
    """
    scope = scope_of(settings, tenant)
    resumed, rows = asyncio.run(_read_jobs(settings, scope, resume))
    if as_json:
        shown = {"jobs": [_as_json(row) for row in rows], **({"resumed": resumed} if resume else {})}
        print_json(shown)
        return 0
    if resume:
        sys.stdout.write(f"due again: {resumed} dead job{'' if resumed == 1 else 's'}\n")
    for row in rows:
        if row.thread_id is not None:
            thread = join_lines(row.thread_id)
        else:
            thread = _OF_RESOURCE
        sys.stdout.write(f"{row.kind:<15} {_state(row)}  {thread}\n")
    if not rows:
        sys.stdout.write(f"nothing waits for {describe_scope(scope)}\n")
    if any(row.state == "dead" for row in rows):
        sys.stdout.write(
            f"\n`{shell_command('jobs', '--resume', *scope_options(scope))}` makes the dead ones due again.\n"
        )
    sys.stdout.write(
        f"\nmodel: {describe_models(choose_models(settings.llm.model, settings.llm.by_kind, os.environ))}\n"
    )
    return 0


async def _read_jobs(settings: Settings, scope: Scope, resume: bool) -> tuple[int, list[JobRow]]:
    async with open_known_memory(settings, off="there are no jobs", absent="there are no jobs") as engine:
        now = engine.now()
        if resume:
            # Resumed in the same connection before the list, so that the list shows the new state.
            resumed = await resume_dead(engine, scope, _BY)
        else:
            resumed = 0
        return resumed, await engine.database.read(stored.list_waiting, scope, now)


def _state(row: JobRow) -> str:
    return _STATES[row.state].format(
        due=iso(row.due_at), dead=iso(row.dead_at or 0), failures=row.attempts, error=join_lines(row.error or "")
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


def jobs(
    flags: dict[str, Any],
    resume: Annotated[bool, typer.Option("--resume", help="Retry jobs that failed too often.")] = False,
    tenant: TenantOption = LOCAL_TENANT,
    as_json: AsJson = False,
) -> int:
    """Show the background jobs that wait or failed, and which model does them."""
    return show_jobs(read_settings(flags), tenant, resume=resume, as_json=as_json)
