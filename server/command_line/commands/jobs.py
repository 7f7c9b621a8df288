"""``layerlore jobs``: shows the background jobs that wait or failed, and retries them."""

import asyncio
import os
import sys
from datetime import timedelta
from typing import Annotated, Any

import typer

from layerlore.extraction.chat.chat_port import choose_models, describe_models
from layerlore.memory.rules.ages import iso
from layerlore.memory.text.quotation import join_lines
from layerlore.server.access.credentials import LOCAL_TENANT
from layerlore.server.command_line.known_engine import open_known_memory
from layerlore.server.command_line.options import AsJson, TenantOption, print_json, read_settings, report_away
from layerlore.server.command_line.owner import describe_scope, scope_of
from layerlore.server.command_line.suggestions import suggest
from layerlore.server.command_line.tables import print_table
from layerlore.server.settings.settings import Settings
from layerlore.server.tools.background import count_jobs, present_count, resume_dead
from layerlore.storage.core.errors import InvalidInput
from layerlore.storage.core.installation import ClusterAnswers, read_each
from layerlore.storage.core.records import Json, Origin, Scope, Tenant
from layerlore.storage.jobs import job_rows as stored
from layerlore.storage.jobs.backlog import JobCount, add_counts, count_all
from layerlore.storage.jobs.job_rows import JobRow

_BY = Origin("command line", "jobs", "command:jobs")
_OF_RESOURCE = "(of all threads)"
_STATES = {
    "due": "due",
    "running": "running",
    "later": "due at {due}",
    "dead": "dead since {dead}",
}
_HEADINGS = ("kind", "state", "jobs", "failed", "due for")
_NUMBERS = _HEADINGS[2:]


def show_jobs(settings: Settings, tenant: str, *, resume: bool, as_json: bool) -> int:
    """Print the unfinished jobs of a tenant's agent and resource, each failed one on its line. ``resume``: first make the
    dead jobs due again. Returns the exit code.

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
    # Jobs without a failure are only counted, since a new store without a model has dozens of them.
    for waiting in count_jobs([row for row in rows if not _has_failed(row)]):
        sys.stdout.write(f"{waiting['kind']:<15} {waiting['jobs']:,} {waiting['state']}\n")
    for row in rows:
        if _has_failed(row):
            thread = _OF_RESOURCE if row.thread_id is None else join_lines(row.thread_id)
            sys.stdout.write(f"{row.kind:<15} {_state(row)}  {thread}\n")
    if not rows:
        sys.stdout.write(f"nothing waits for {describe_scope(scope)}\n")
    if any(row.state == "dead" for row in rows):
        sys.stdout.write(f"\n`{suggest('jobs', '--resume')}` makes the dead ones due again.\n")
    sys.stdout.write(
        f"\nmodel: {describe_models(choose_models(settings.llm.model, settings.llm.by_kind, os.environ))}\n"
    )
    return 0


async def _read_jobs(settings: Settings, scope: Scope, resume: bool) -> tuple[int, list[JobRow]]:
    async with open_known_memory(settings, off="there are no jobs", absent="there are no jobs") as engine:
        now = engine.now()
        # Resumed before the list is read, so that the list shows the new state.
        resumed = await resume_dead(engine, scope, _BY) if resume else 0
        return resumed, await engine.database.read(stored.list_waiting, scope, now)


def show_all_jobs(settings: Settings, *, as_json: bool) -> int:
    """Print the number of unfinished jobs of all tenants, by kind and state. Returns the exit code.

    Raises NotFound, StorageUnavailable, DatabaseTooNew or InvalidInput.
    """
    found, now = asyncio.run(_count_all(settings))
    counts = add_counts(found.there)
    if as_json:
        print_json({"jobs": [present_count(each, now) for each in counts]})
    elif counts:
        print_table(_HEADINGS, [_row(each, now) for each in counts], numbers=_NUMBERS)
    else:
        sys.stdout.write("no job of any tenant waits\n")
    return report_away(found.away)


async def _count_all(settings: Settings) -> tuple[ClusterAnswers[list[JobCount]], int]:
    async with open_known_memory(settings, off="there are no jobs", absent="there are no jobs") as engine:
        now = engine.now()
        return await read_each(engine.database, count_all, Tenant(LOCAL_TENANT), now=now), now


def _row(count: JobCount, now: int) -> list[str]:
    seconds = (now - count.due_at) // 1000
    # A job that is due later has no age.
    age = str(timedelta(seconds=seconds)) if seconds >= 0 else ""
    return [count.kind, count.state, f"{count.jobs:,}", f"{count.failed:,}", age]


def _state(row: JobRow) -> str:
    state = _STATES[row.state].format(due=iso(row.due_at), dead=iso(row.dead_at or 0))
    return f"{state}, after {row.attempts} failures: {join_lines(row.error or '')}"


def _has_failed(row: JobRow) -> bool:
    return row.state == "dead" or row.attempts > 0


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
    all_tenants: Annotated[
        bool, typer.Option("--all-tenants", help="Instead, count the jobs of all tenants by kind and state.")
    ] = False,
    tenant: TenantOption = LOCAL_TENANT,
    as_json: AsJson = False,
) -> int:
    """Show the background jobs that wait or failed, and which model does them."""
    if all_tenants and resume:
        raise InvalidInput(
            "--all-tenants only counts; --resume is for the memory that --tenant, --agent and --resource name"
        )
    if all_tenants:
        return show_all_jobs(read_settings(flags), as_json=as_json)
    return show_jobs(read_settings(flags), tenant, resume=resume, as_json=as_json)
