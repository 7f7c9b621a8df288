"""``layerlore export``: the memory as lines of JSON, in a new file or on standard output."""

import asyncio
import io
import sys
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from layerlore.memory.engine.engine import Engine
from layerlore.memory.moving.exports import list_scopes, write_lines
from layerlore.memory.moving.line_forms import RECORD
from layerlore.server.access.credentials import LOCAL_TENANT
from layerlore.server.command_line.known_engine import open_known_memory
from layerlore.server.command_line.options import TenantOption, fail, read_settings
from layerlore.server.command_line.owner import describe_scope, scope_of
from layerlore.server.command_line.sharing import STANDARD_OUTPUT, export_project
from layerlore.server.command_line.tables import show_progress
from layerlore.server.process.safe_files import find_top, is_there, replacing
from layerlore.server.process.version import VERSION
from layerlore.server.settings.settings import Settings
from layerlore.storage.core.errors import Conflict
from layerlore.storage.core.json_text import to_json
from layerlore.storage.core.records import Scope
from layerlore.storage.moving import shown_rows


def run_export(settings: Settings, tenant: str, file: str, *, everyone: bool) -> int:
    """Write the memory of the agent and resource of the settings (``everyone``: of all of the tenant) into a new file.
    Returns the exit code.

    Raises Conflict for a file that exists, InvalidInput, NotFound, StorageUnavailable, DatabaseTooNew or OSError.
    """
    scope = scope_of(settings, tenant)
    if file == STANDARD_OUTPUT:
        asyncio.run(_export(settings, scope, everyone, sys.stdout))
        return 0
    target = Path(file).expanduser().absolute()
    # Checked early for a clear message; the write below refuses an existing file as well.
    if is_there(str(target)):
        raise Conflict(f"{target} exists, and an export never replaces a file: name another one")
    # The file only gets its name when it is complete, and other users may not read it.
    with replacing(str(target), top=find_top(str(target)), mode=0o600, new=True) as written:
        out = io.TextIOWrapper(written, encoding="utf-8", newline="\n", write_through=True)
        lines = asyncio.run(_export(settings, scope, everyone, out))
        # Detached, so that the wrapper does not close the file: the outer block still has to sync and rename it.
        out.detach()
    if everyone:
        whose = f"all agents and resources of tenant {tenant!r}"
    else:
        whose = describe_scope(scope)
    sys.stdout.write(f"exported {whose} to {target}: {lines:,} lines, {target.stat().st_size:,} bytes\n")
    return 0


async def _export(settings: Settings, scope: Scope, everyone: bool, out: TextIO) -> int:
    """Write the lines. Returns their number."""
    async with open_known_memory(settings, off="nothing can be exported", absent="nothing is stored") as engine:
        scopes = await list_scopes(engine, scope.tenant_id) if everyone else [scope]
        return await _write(engine, scopes, out)


async def _write(engine: Engine, scopes: list[Scope], out: TextIO) -> int:
    total = 0
    for scope in scopes:
        # The total is only for the bar: more may be added while the export runs.
        total += (await engine.database.read(shown_rows.count, scope))[1]
    lines = messages = 0
    with show_progress("export", total) as came:
        async for some in write_lines(engine, scopes, f"layerlore {VERSION}"):
            # A slow disk or a pipe must not block the loop, which also reads the database.
            await asyncio.to_thread(out.write, "".join(f"{to_json(line)}\n" for line in some))
            lines += len(some)
            messages += sum(line[RECORD] == "message" for line in some)
            came(messages, f"{messages:,} of {total:,} messages")
    return lines


Project = Annotated[
    str,
    typer.Option(
        help="What a project shares through git (docs/sharing.md): its name, or auto for that of this folder.",
        show_default=False,
    ),
]


def export(
    flags: dict[str, Any],
    file: Annotated[
        str,
        typer.Argument(
            help="The new file; - is standard output. An existing file is never replaced. With --project: the file, or its "
            "folder, that is brought up to date."
        ),
    ],
    project: Project = "",
    everyone: Annotated[
        bool, typer.Option("--everyone", help="All agents and resources of the tenant, not only the configured ones.")
    ] = False,
    tenant: TenantOption = LOCAL_TENANT,
) -> int:
    """Write everything that is remembered into a file, as lines of JSON (docs/moving.md)."""
    if project:
        if everyone:
            return fail("export takes --project or --everyone, not both", 2)
        return export_project(read_settings(flags), tenant, file, project)
    return run_export(read_settings(flags), tenant, file, everyone=everyone)
