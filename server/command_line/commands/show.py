"""``layerlore show``: what is remembered, in pages at a terminal, and how to mend it."""

import asyncio
import io
import os
import pydoc
import shutil
import sys
from typing import Annotated, Any, Literal

import typer
from rich.console import Console

from layerlore.server.access.caller import make_terminal_caller
from layerlore.server.access.credentials import LOCAL_TENANT
from layerlore.server.command_line.known_engine import open_known_memory
from layerlore.server.command_line.options import AsJson, TenantOption, print_json, read_settings
from layerlore.server.command_line.owner import describe_scope, scope_of
from layerlore.server.command_line.stored_views import ViewRequest, lay_out, read_view
from layerlore.server.settings.settings import Settings
from layerlore.server.tools.call import Call
from layerlore.storage.core.records import Json, Scope

_UNCUT = 10_000  # columns


def show_view(settings: Settings, tenant: str, request: ViewRequest, *, as_json: bool) -> int:
    """Print what a tenant's agent remembers about the resource of the settings. Returns the exit code.

    Raises InvalidInput, LimitExceeded, NotFound, StorageUnavailable or DatabaseTooNew.
    """
    request.check()
    scope = scope_of(settings, tenant)
    found = asyncio.run(_read(settings, scope, request))
    if as_json:
        print_json(found)
        return 0
    terminal = sys.stdout.isatty()
    # A pipe gets uncut lines, so that grep finds whole texts.
    size = shutil.get_terminal_size(fallback=(_UNCUT, 0))  # the variable COLUMNS goes first
    written = io.StringIO()
    console = Console(
        file=written, width=size.columns, force_terminal=terminal, highlight=False, markup=False, emoji=False
    )
    if request.everybody:
        whose = f"everybody of tenant {scope.tenant_id!r}"
    else:
        whose = describe_scope(scope)
    console.print(f"What is remembered of {whose}:", style="dim")
    console.print(lay_out(request.view, found))
    # Tables pad their lines with spaces, which would wrap in a narrow pager.
    text = "\n".join(line.rstrip() for line in written.getvalue().splitlines()) + "\n"
    if terminal and text.count("\n") >= size.lines:
        os.environ.setdefault("LESS", "-R")  # shows colours
        pydoc.pager(text)
    else:
        sys.stdout.write(text)
    return 0


async def _read(settings: Settings, scope: Scope, request: ViewRequest) -> Json:
    # Nothing here is found by its meaning.
    embedding = settings.embedding.model_copy(update={"embedder": "none"})
    settings = settings.model_copy(update={"embedding": embedding})
    async with open_known_memory(settings, off="there is nothing to show", absent="nothing is remembered") as engine:
        caller = make_terminal_caller(scope, settings.thread)
        call = Call("show", engine.for_agent(scope.agent_id), settings, caller, frozenset())
        return await read_view(call, request)


def show(
    flags: dict[str, Any],
    what: Annotated[
        Literal["all", "threads", "thread", "entries", "profile", "plan", "runs", "events"],
        typer.Argument(
            metavar="WHAT",
            help="threads, thread, entries, profile, plan, runs or events. Without it: how much there is of each.",
            show_default=False,
        ),
    ] = "all",
    conversation: Annotated[
        str, typer.Argument(metavar="ID", help="Of which conversation: of thread, plan, runs, events.")
    ] = "",
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="The most rows to show, the newest ones.")] = 50,
    everybody: Annotated[
        bool, typer.Option("--everybody", help="With threads: those of all agents and resources of the tenant.")
    ] = False,
    tenant: TenantOption = LOCAL_TENANT,
    as_json: AsJson = False,
) -> int:
    """Show what is remembered, and how to correct it. Changes nothing."""
    request = ViewRequest(what, conversation, limit, everybody)
    return show_view(read_settings(flags), tenant, request, as_json=as_json)
