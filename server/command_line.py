"""The command line, for people: ``memstrata serve``, ``demo``, ``doctor``, ``recall``, ``reindex``, ``migrate``,
``restore``, ``usage``, ``jobs``.

Exit codes: 0 done, 1 failed, 2 a wrong command line or setting. What a command finds goes to standard output; what
is wrong, one line of it, to standard error.
"""

import importlib
import inspect
import io
import os
import sys
from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated, Any, Literal

import typer

from memstrata.server.launch import FLAGS
from memstrata.server.logs import configure_logging
from memstrata.server.settings import Settings, SettingsError, load_settings
from memstrata.storage.errors import MemstrataError

app = typer.Typer(
    name="memstrata",
    help="A memory server for agents.\n\nWithout a command it serves MCP on standard input and output, as the options "
    "say: hosts launch it so. Each option is also a setting of the TOML file and a variable MEMSTRATA_NAME.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def run() -> int:
    """Parse sys.argv and run the command. Returns the exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a path may hold what the terminal cannot show
    try:
        app()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return 0


def _option(flag: str, setting: str) -> inspect.Parameter:
    text: str | None = "A TOML file with settings; configs/ has complete ones."
    if setting != "config":
        text = Settings.model_fields[setting].description
    annotation = Annotated[str | None, typer.Option(flag, help=text, show_default=False, rich_help_panel="Launch")]
    return inspect.Parameter(setting, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


_OPTIONS = {setting: _option(flag, setting) for flag, setting in FLAGS.items()}


def _with_options(function: Callable[..., Any], own: list[inspect.Parameter]) -> Callable[..., Any]:
    """``function``, to be called with the context, its own parameters and the launch options that it has not itself."""
    names = {parameter.name for parameter in own}
    context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    parameters = [context, *own, *(option for setting, option in _OPTIONS.items() if setting not in names)]
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return function


def _command(function: Callable[..., int]) -> Callable[..., int]:
    """Register a command: ``function(flags, **own)``, where ``flags`` are the launch options given before or after it.

    Its own parameters are keyword-only. It returns the exit code; errors that are the caller's to mend become a line.
    """
    own = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in _own_parameters(function)]

    def called(ctx: typer.Context, **values: Any) -> None:
        given = {name: values.pop(name) for name in list(values) if name not in names}
        flags = {**ctx.obj, **{name: value for name, value in given.items() if value is not None}}
        raise typer.Exit(_told(lambda: function(flags, **values)))

    names = {parameter.name for parameter in own}
    app.command(name=function.__name__, help=function.__doc__)(_with_options(called, own))
    return function


def _own_parameters(function: Callable[..., int]) -> list[inspect.Parameter]:
    return list(inspect.signature(function, eval_str=True).parameters.values())[1:]


def _told(act: Callable[[], int]) -> int:
    try:
        code = act()
        sys.stdout.flush()
    except SettingsError as error:
        return _failed(str(error), 2)
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except MemstrataError as error:
        return _failed(str(error), 1)
    except OSError as error:
        return _failed(f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error), 1)
    return code


def _failed(why: str, code: int) -> int:
    sys.stderr.write(f"memstrata: {why}\n")
    return code


def _settings(flags: dict[str, Any]) -> Settings:
    settings = load_settings(
        {name: value for name, value in flags.items() if name != "config"}, config=flags.get("config")
    )
    configure_logging(settings.log_level)
    return settings


def _module(name: str) -> Any:
    """What is behind a command, loaded when it is called: ``--help`` and ``--version`` need none of it."""
    return importlib.import_module(f"memstrata.server.{name}")


def _show_version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"memstrata {version('memstrata')}\n")
        raise typer.Exit


def _launch(
    ctx: typer.Context,
    *,
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version and exit.")
    ] = False,
    **options: str | None,
) -> None:
    ctx.obj = {name: value for name, value in options.items() if value is not None}


app.callback()(_with_options(_launch, [inspect.signature(_launch).parameters["version"]]))


@_command
def serve(
    flags: dict[str, Any],
    host: Annotated[str | None, typer.Option(help="Address to listen on, of this machine only.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 0 takes a free one.")] = None,
    no_auth: Annotated[bool, typer.Option("--no-auth", help="Ask for no key.")] = False,
) -> int:
    """Serve MCP over HTTP: /mcp, /sse, /health and /ready on 127.0.0.1:8765."""
    http: dict[str, Any] = {"host": host, "port": port, "auth": False if no_auth else None}
    given = {name: value for name, value in http.items() if value is not None}
    served: int = _module("http_command").serve(_settings({**flags, "http": given}))
    return served


@_command
def demo(flags: dict[str, Any]) -> int:
    """Show the memory at work, in a temporary folder, and how to connect agents to it."""
    shown: int = _module("commands.demo").demo(_settings(flags))
    return shown


@_command
def doctor(
    flags: dict[str, Any],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> int:
    """Look at everything that memory needs, and say what will degrade and how to mend it. Changes nothing."""
    found: int = _module("commands.doctor").doctor(_settings(flags), as_json=as_json)
    return found


@_command
def recall(
    flags: dict[str, Any],
    question: Annotated[str, typer.Argument(help="What to look for.", show_default=False)],
    explain: Annotated[bool, typer.Option("--explain", help="With what made each hit's score.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=50, help="How many hits at most.")] = 5,
    thread: Annotated[str, typer.Option(help="Only this conversation.", show_default=False)] = "",
    format: Annotated[Literal["text", "json"], typer.Option(help="How to print it.")] = "text",
) -> int:
    """Show what an agent that asks this is told."""
    shown: int = _module("commands.recall").recall(
        _settings(flags), question, limit=limit, thread_id=thread, explain=explain, as_json=format == "json"
    )
    return shown


@_command
def reindex(
    flags: dict[str, Any],
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Index every message anew.")] = False,
) -> int:
    """Bring the search index and the vectors up to date, as servers do in the background."""
    indexed: int = _module("commands.reindex").reindex(_settings(flags), rebuild=rebuild)
    return indexed


@_command
def migrate(flags: dict[str, Any]) -> int:
    """Bring the database's tables up to date, as every start does by itself."""
    migrated: int = _module("commands.migrate").migrate(_settings(flags))
    return migrated


@_command
def restore(
    flags: dict[str, Any],
    deletion: Annotated[str | None, typer.Argument(help="Which delete to undo; left out: list them.")] = None,
    thread: Annotated[str | None, typer.Option(help="Undo the newest delete of this thread.")] = None,
) -> int:
    """Undo a delete, or list those that can be undone."""
    if deletion is not None and thread is not None:
        return _failed("restore takes a delete or --thread, not both", 2)
    restored: int = _module("commands.restore").restore(_settings(flags), deletion, thread)
    return restored


@_command
def usage(
    flags: dict[str, Any],
    by: Annotated[
        Literal["thread", "resource", "agent"],
        typer.Option(help="The threads of this resource, the resources of this agent, or all agents."),
    ] = "thread",
    format: Annotated[Literal["text", "json"], typer.Option(help="How to print it.")] = "text",
) -> int:
    """Show tokens and money that recorded steps and background work spent."""
    shown: int = _module("commands.usage").usage(_settings(flags), by, as_json=format == "json")
    return shown


@_command
def jobs(
    flags: dict[str, Any],
    resume: Annotated[bool, typer.Option("--resume", help="Try again what failed too often.")] = False,
    format: Annotated[Literal["text", "json"], typer.Option(help="How to print it.")] = "text",
) -> int:
    """Show the background work that waits or failed, and which model does it."""
    shown: int = _module("commands.jobs").jobs(_settings(flags), resume=resume, as_json=format == "json")
    return shown
