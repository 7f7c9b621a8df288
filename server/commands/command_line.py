"""The command line, for people.

Exit codes: 0 done, 1 failed, 2 a wrong command line or setting. Results go to standard output, and an error, in one
line, to standard error.
"""

import inspect
import io
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from layerlore.server.cli.options import Command, Group, with_options
from layerlore.server.commands import chatting, hosting, keys, local, looking, moving, removal, serving, upkeep
from layerlore.server.commands.running import run_command
from layerlore.server.process.version import VERSION
from layerlore.server.settings.launch import ALONE

COMMANDS: tuple[Callable[..., int], ...] = (
    serving.serve,
    serving.demo,
    chatting.chat,
    serving.doctor,
    hosting.install,
    hosting.uninstall,
    hosting.project,
    looking.show,
    looking.recall,
    serving.explore,
    upkeep.reindex,
    upkeep.migrate,
    upkeep.backup,
    moving.export,
    moving.import_,
    removal.forget,
    removal.edit,
    removal.undo,
    removal.restore,
    removal.erase,
    removal.redact,
    looking.usage,
    looking.jobs,
    looking.journal,
    serving.bridge,
    serving.hook,
)
"""In the order of the help."""
GROUPS: dict[str, tuple[str, tuple[Callable[..., int], ...]]] = {
    "local": (
        "See or stop the server that the hosts of this machine share over stdio.",
        (local.status, local.stop),
    ),
    "keys": (
        "Create, list and revoke the keys of agents on other machines.",
        (keys.create, keys.list_, keys.revoke),
    ),
}


def run() -> int:
    """Parse sys.argv and run the command. Returns the exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a path may hold what the terminal cannot show
    try:
        app()
    except SystemExit as ended:
        if isinstance(ended.code, int):
            return ended.code
        return int(ended.code is not None)
    return 0


def _show_version(asked: bool) -> None:
    if asked:
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
        given = {name: values.pop(name) for name in list(values) if name not in names}
        flags = {**ctx.obj, **{name: value for name, value in given.items() if value is not None}}
        raise typer.Exit(run_command(lambda: function(flags, **values)))

    register = group.command(name=function.__name__.rstrip("_"), cls=Command, help=function.__doc__)
    register(with_options(call, own))


def _build() -> typer.Typer:
    app = typer.Typer(
        name="layerlore",
        cls=Group,
        help="A memory server for agents.\n\nWithout a command it serves MCP on standard input and output, which is how hosts "
        "launch it. Each option is also a setting in the TOML file and an environment variable LAYERLORE_NAME.",
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    own = [inspect.signature(_launch).parameters[name] for name in ("version", "alone")]
    app.callback()(with_options(_launch, own))
    for function in COMMANDS:
        _register(app, function)
    for name, (text, functions) in GROUPS.items():
        group = typer.Typer(cls=Group, no_args_is_help=True, help=text)
        group.callback()(with_options(_group_launch, []))
        app.add_typer(group, name=name)
        for function in functions:
            _register(group, function)
    return app


app = _build()
