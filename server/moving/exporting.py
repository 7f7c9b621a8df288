"""``layerlore export``: the memory as lines of JSON, in a new file or on standard output."""

import asyncio
import io
import sys
from pathlib import Path
from typing import TextIO

from layerlore.memory.engine.engine import Engine
from layerlore.memory.moving.exports import list_scopes, write_lines
from layerlore.memory.moving.line_forms import RECORD
from layerlore.server.cli.engine import open_known_memory
from layerlore.server.cli.owner import describe_scope, scope_of
from layerlore.server.moving.progress import show_progress
from layerlore.server.process.safe_files import find_top, is_there, replacing
from layerlore.server.process.version import VERSION
from layerlore.server.settings.settings import Settings
from layerlore.storage.core.errors import Conflict
from layerlore.storage.core.json_text import to_json
from layerlore.storage.core.records import Scope
from layerlore.storage.moving import shown_rows

STANDARD_OUTPUT = "-"


def export(settings: Settings, tenant: str, file: str, *, everyone: bool) -> int:
    """Write the memory of the agent and resource of the settings (``everyone``: of all of the tenant) into a new file.
    Returns the exit code.

    Raises Conflict for a file that exists, InvalidInput, NotFound, StorageUnavailable, DatabaseTooNew or OSError.
    """
    scope = scope_of(settings, tenant)
    if file == STANDARD_OUTPUT:
        asyncio.run(_export(settings, scope, everyone, sys.stdout))
        return 0
    target = Path(file).expanduser().absolute()
    if is_there(str(target)):
        raise Conflict(f"{target} exists, and an export never replaces a file: name another one")
    # Only a whole export has the name that was requested, and no other user may read it.
    with replacing(str(target), top=find_top(str(target)), mode=0o600, new=True) as written:
        out = io.TextIOWrapper(written, encoding="utf-8", newline="\n", write_through=True)
        lines = asyncio.run(_export(settings, scope, everyone, out))
        out.detach()
    whose = f"all agents and resources of tenant {tenant!r}" if everyone else describe_scope(scope)
    sys.stdout.write(f"exported {whose} to {target}: {lines:,} lines, {target.stat().st_size:,} bytes\n")
    return 0


async def _export(settings: Settings, scope: Scope, everyone: bool, out: TextIO) -> int:
    """Returns how many lines there are."""
    async with open_known_memory(settings, off="nothing can be exported", absent="nothing is stored") as engine:
        scopes = await list_scopes(engine, scope.tenant_id) if everyone else [scope]
        return await _write(engine, scopes, out)


async def _write(engine: Engine, scopes: list[Scope], out: TextIO) -> int:
    total = 0
    for scope in scopes:
        total += (await engine.database.read(shown_rows.count, scope))[1]
    lines = messages = 0
    with show_progress("export", total) as came:
        async for some in write_lines(engine, scopes, f"layerlore {VERSION}"):
            await asyncio.to_thread(out.write, "".join(f"{to_json(line)}\n" for line in some))
            lines += len(some)
            messages += sum(line[RECORD] == "message" for line in some)
            came(messages, f"{messages:,} of {total:,} messages")
    return lines
