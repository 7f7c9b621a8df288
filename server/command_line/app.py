"""The command line, for people.

Exit codes: 0 done, 1 failed, 2 a wrong command line or setting. Results go to standard output, and an error, in one
line, to standard error.
"""

import importlib
import inspect
import io
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from layerlore.server.command_line.options import Command, Group, run_command, with_options
from layerlore.server.command_line.suggestions import suggesting
from layerlore.server.process.version import VERSION
from layerlore.server.settings.launch import ALONE

_COMMANDS = "layerlore.server.command_line.commands"
_HELP: dict[str, Any] = {"help_option_names": ["-h", "--help"]}
# The options of a command that name a memory, where they are its own.
_OF_A_MEMORY = ("tenant", "agent", "resource")


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """Where a command is defined. Its module is imported when the command runs: importing all of them takes seconds.

    ``help`` is the first paragraph of the function's docstring, or that of a group; the list of commands shows it.
    ``functions``: one for a command, several for a group of commands. ``panel``: the heading that the list shows it under.
    """

    module: str
    functions: tuple[str, ...]
    help: str
    panel: str


ENTRIES: dict[str, LazyCommand] = {
    "demo": LazyCommand(
        "demo", ("demo",), "Show the memory at work in a temporary folder, and how to connect agents to it.", "Start"
    ),
    "doctor": LazyCommand(
        "doctor",
        ("doctor",),
        "Check everything that the memory needs, and say what is degraded and how to fix it. Changes nothing.",
        "Start",
    ),
    "install": LazyCommand(
        "install",
        ("install",),
        "Add this server to the configuration of hosts, such as claude-code or cursor; `all` adds it to each host that is here.",
        "Start",
    ),
    "uninstall": LazyCommand(
        "install",
        ("uninstall",),
        "Remove from hosts' files exactly what `install` wrote; without a host, from all. The memory stays.",
        "Start",
    ),
    "project": LazyCommand(
        "install",
        ("project",),
        "Show which project the current folder belongs to, as `--project auto` finds it.",
        "Start",
    ),
    "chat": LazyCommand("chat", ("chat",), "Chat with an agent that uses this memory over MCP, as hosts do.", "Start"),
    "show": LazyCommand(
        "show", ("show",), "Show what is remembered, and how to correct it. Changes nothing.", "Look and correct"
    ),
    "recall": LazyCommand("recall", ("recall",), "Show what an agent gets when it recalls this.", "Look and correct"),
    "explore": LazyCommand(
        "explore",
        ("explore",),
        "Show what is remembered in a browser, and correct it there. Ctrl-C ends it.",
        "Look and correct",
    ),
    "forget": LazyCommand(
        "forget",
        ("forget",),
        "Forget notes, or everything about something. It shows first what would go; undo brings it back.",
        "Look and correct",
    ),
    "edit": LazyCommand(
        "forget",
        ("edit",),
        "Correct what is remembered. It shows first what changes; undo brings back all but a title.",
        "Look and correct",
    ),
    "undo": LazyCommand(
        "forget",
        ("undo",),
        "Undo a deletion, a forgotten note, a replaced document or plan, or list what can be undone.",
        "Look and correct",
    ),
    "backup": LazyCommand(
        "backup",
        ("backup",),
        "Copy the whole memory into a file, even while servers run. `layerlore restore --from` puts it back.",
        "Copy, move and erase",
    ),
    "restore": LazyCommand(
        "backup",
        ("restore",),
        "Replace the whole memory with a backup; `undo` brings back deletions.",
        "Copy, move and erase",
    ),
    "export": LazyCommand(
        "export",
        ("export",),
        "Write everything that is remembered into a file, as lines of JSON (docs/moving.md).",
        "Copy, move and erase",
    ),
    "import": LazyCommand(
        "import_file",
        ("import_",),
        "Store what a file holds. It stores nothing twice, so it can be repeated, and says what it leaves out and why.",
        "Copy, move and erase",
    ),
    "erase": LazyCommand(
        "erase",
        ("erase",),
        "Erase everything stored about a person, or one conversation, for good. Prints a receipt.",
        "Copy, move and erase",
    ),
    "redact": LazyCommand(
        "erase",
        ("redact",),
        "Redact secrets that were stored before their pattern was known, or before redaction was on.",
        "Copy, move and erase",
    ),
    "serve": LazyCommand(
        "serve",
        ("serve",),
        "Serve MCP over HTTP: /mcp, /sse, /health and /ready on 127.0.0.1:8765.",
        "Serve and operate",
    ),
    "keys": LazyCommand(
        "keys",
        ("create", "list_", "revoke"),
        "Create, list and revoke the keys of agents on other machines.",
        "Serve and operate",
    ),
    "local": LazyCommand(
        "local",
        ("status", "stop"),
        "See or stop the server that the hosts of this machine share over stdio.",
        "Serve and operate",
    ),
    "tenants": LazyCommand(
        "tenants",
        ("list_", "move"),
        "Show which cluster each tenant is on, and move a tenant to another one.",
        "Serve and operate",
    ),
    "migrate": LazyCommand(
        "migrate", ("migrate",), "Update the database's tables, as every start does.", "Serve and operate"
    ),
    "reindex": LazyCommand(
        "reindex",
        ("reindex",),
        "Update the search index and the vectors, as servers do in the background.",
        "Serve and operate",
    ),
    "usage": LazyCommand(
        "usage",
        ("usage",),
        "Show the tokens and money that recorded steps and background work spent, or how much is stored.",
        "Serve and operate",
    ),
    "jobs": LazyCommand(
        "jobs",
        ("jobs",),
        "Show the background jobs that wait or failed, and which model does them.",
        "Serve and operate",
    ),
    "journal": LazyCommand(
        "journal",
        ("journal",),
        "Show who wrote to the memory of any tenant, and when, never what.",
        "Serve and operate",
    ),
    "bridge": LazyCommand(
        "bridge",
        ("bridge",),
        "Serve MCP over stdio for a host that cannot use HTTP itself, and pass everything on to a remote memory.",
        "Called by hosts",
    ),
    "hook": LazyCommand(
        "serve",
        ("hook",),
        "Hosts call this with an event on standard input: it stores what was said, and shows what is known about it.",
        "Called by hosts",
    ),
}
"""By name, in the order of the help."""


def run() -> int:
    """Parse sys.argv and run the command. Returns the exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a path may hold what the terminal cannot show
    try:
        app()
    # Typer ends with SystemExit also after success, and a text as its code means failure.
    except SystemExit as ended:
        if isinstance(ended.code, int):
            return ended.code
        return int(ended.code is not None)
    return 0


def _show_version(wanted: bool) -> None:
    if wanted:
        sys.stdout.write(f"layerlore {VERSION}\n")
        raise typer.Exit


def _launch(
    ctx: typer.Context,
    *,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version and exit.")
    ] = False,
    alone: Annotated[
        bool, typer.Option(ALONE, help="Launched by a host: a server of its own, not the one that hosts share.")
    ] = False,
    **options: str | None,
) -> None:
    ctx.obj = {name: value for name, value in options.items() if value is not None}


def _group_launch(ctx: typer.Context, **options: str | None) -> None:
    ctx.obj = {**ctx.obj, **{name: value for name, value in options.items() if value is not None}}


def _register(group: typer.Typer, function: Callable[..., int]) -> None:
    """Register a command: ``function(flags, **own)``, where ``flags`` are the launch options given before or after it.

    Its own parameters are keyword-only. It returns the exit code. A function that would hide a name of Python's ends in
    an underscore.
    """
    parameters = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
    own = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
    names = {parameter.name for parameter in own}

    def call(ctx: typer.Context, **values: Any) -> None:
        # Launch options may stand before or after the command; the ones after it win.
        given = {name: values.pop(name) for name in list(values) if name not in names}
        flags = {**ctx.obj, **{name: value for name, value in given.items() if value is not None}}
        own = {name: values[name] for name in _OF_A_MEMORY if isinstance(values.get(name), str)}
        with suggesting({**flags, **own}):
            code = run_command(lambda: function(flags, **values))
        raise typer.Exit(code)

    register = group.command(name=function.__name__.rstrip("_"), cls=Command, help=function.__doc__)
    register(with_options(call, own))


def load_command(name: str) -> TyperCommand | TyperGroup:
    """Import a command, or a group with its commands."""
    entry = ENTRIES[name]
    module = importlib.import_module(f"{_COMMANDS}.{entry.module}")
    app = typer.Typer(cls=Group, no_args_is_help=True, help=entry.help, add_completion=False, context_settings=_HELP)
    # In a group the options may also stand between its name and the command's.
    if len(entry.functions) > 1:
        app.callback()(with_options(_group_launch, []))
    for function in entry.functions:
        _register(app, getattr(module, function))
    command = typer.main.get_command(app)
    assert isinstance(command, TyperCommand | TyperGroup)
    command.name = name
    return command


class LazyGroup(Group):
    """The commands of ENTRIES. The list of commands needs no module; the command that runs is imported."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands = {
            name: TyperCommand(name, help=each.help, rich_markup_mode=None, rich_help_panel=each.panel)
            for name, each in ENTRIES.items()
        }

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        if command is None or command.name is None:
            return name, command, rest
        return name, load_command(command.name), rest


def load_all() -> TyperGroup:
    """The command line with all of its commands imported: for documents, and for those who check them."""
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    group.commands = {name: load_command(name) for name in ENTRIES}
    return group


def _build() -> typer.Typer:
    app = typer.Typer(
        name="layerlore",
        cls=LazyGroup,
        help="A memory server for agents.\n\nWithout a command it serves MCP on standard input and output, which is how hosts "
        "launch it. Each option is also a setting in the TOML file and an environment variable LAYERLORE_NAME.",
        add_completion=False,
        # Typer's tracebacks show local variables, which may hold keys.
        pretty_exceptions_enable=False,
        context_settings=_HELP,
    )
    own = [inspect.signature(_launch).parameters[name] for name in ("version", "alone")]
    app.callback()(with_options(_launch, own))
    return app


app = _build()
