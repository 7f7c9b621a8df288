"""``layerlore show``: what is remembered, in pages at a terminal, and how to mend it."""

import asyncio
import io
import json
import os
import pydoc
import shutil
import sys
from dataclasses import replace

from rich.console import Console

from layerlore.server.access.caller import Caller
from layerlore.server.access.credentials import local_principal
from layerlore.server.cli.engine import open_known_memory
from layerlore.server.cli.owner import describe_scope, scope_of
from layerlore.server.settings.settings import Settings
from layerlore.server.tools.call import Call
from layerlore.server.views.layout import lay_out
from layerlore.server.views.stored import Asked, read_view
from layerlore.storage.core.records import Json, Scope

_UNCUT = 10_000  # columns


def show(settings: Settings, tenant: str, asked: Asked, *, as_json: bool) -> int:
    """Print what a tenant's agent remembers about the resource of the settings. Returns the exit code.

    Raises InvalidInput, LimitExceeded, NotFound, StorageUnavailable or DatabaseTooNew.
    """
    asked.check()
    scope = scope_of(settings, tenant)
    found = asyncio.run(_read(settings, scope, asked))
    if as_json:
        sys.stdout.write(json.dumps(found, ensure_ascii=False, indent=2) + "\n")
        return 0
    terminal = sys.stdout.isatty()
    size = shutil.get_terminal_size(fallback=(_UNCUT, 0))  # the variable COLUMNS goes first
    written = io.StringIO()
    console = Console(
        file=written, width=size.columns, force_terminal=terminal, highlight=False, markup=False, emoji=False
    )
    whose = f"everybody of tenant {scope.tenant_id!r}" if asked.everybody else describe_scope(scope)
    console.print(f"What is remembered of {whose}:", style="dim")
    console.print(lay_out(asked.view, found))
    text = "\n".join(line.rstrip() for line in written.getvalue().splitlines()) + "\n"
    if terminal and text.count("\n") >= size.lines:
        os.environ.setdefault("LESS", "-R")  # shows colours
        pydoc.pager(text)
    else:
        sys.stdout.write(text)
    return 0


async def _read(settings: Settings, scope: Scope, asked: Asked) -> Json:
    # Nothing here is found by its meaning.
    embedding = settings.embedding.model_copy(update={"embedder": "none"})
    settings = settings.model_copy(update={"embedding": embedding})
    async with open_known_memory(settings, off="there is nothing to show", absent="nothing is remembered") as engine:
        person = replace(local_principal(scope.agent_id, scope.resource_id), tenant=scope.tenant_id)
        caller = Caller(person, scope, settings.thread, "", "command line")
        call = Call("show", engine.for_agent(scope.agent_id), settings, caller, frozenset())
        return await read_view(call, asked)
