"""The command line, for people: ``memstrata serve``, ``demo``, ``doctor``, ``migrate``, ``restore``."""

from importlib.metadata import version
from typing import Annotated, Any

import typer

from memstrata.server import http_command
from memstrata.server.launch import FLAGS
from memstrata.server.settings import Settings, SettingsError, load_settings

app = typer.Typer(
    help="A memory server for agents. Without a command it serves MCP on stdin and stdout: hosts launch it so.",
    add_completion=False,
    no_args_is_help=False,
    pretty_exceptions_enable=False,
)


def run() -> int:
    """Parse sys.argv, run the command, and return the exit code."""
    result = app(standalone_mode=False)
    return result if isinstance(result, int) else 0
