"""The options that commands share, their form in the help, and how commands run, fail and print."""

import inspect
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from layerlore.memory.rules.ages import MINUTE_MS
from layerlore.memory.rules.time_zones import set_zone
from layerlore.server.command_line.suggestions import complete
from layerlore.server.process.logs import configure_logging
from layerlore.server.settings.launch import FLAGS
from layerlore.server.settings.settings import Settings, SettingsError, load_launched, load_served
from layerlore.storage.core.errors import LayerloreError
from layerlore.storage.core.records import DAY_MS

TenantOption = Annotated[str, typer.Option("--tenant", help="The tenant; local is this machine's own.")]
"""For commands about one memory. --agent and --resource name the rest of its owner."""
TenantFilter = Annotated[str | None, typer.Option("--tenant", help="Only this tenant.", show_default=False)]
AgentFilter = Annotated[str | None, typer.Option("--agent", help="Only this agent.", show_default=False)]
ResourceFilter = Annotated[str | None, typer.Option("--resource", help="Only this resource.", show_default=False)]
"""For commands that concern all memories unless these options narrow them."""

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def _option(flag: str, setting: str) -> inspect.Parameter:
    text: str | None = "A TOML file with settings; see the complete files in configs/."
    if setting != "config":
        # The first sentence; the settings files and docs/settings.md have the rest.
        text = (Settings.model_fields[setting].description or "").partition(". ")[0].rstrip(".") + "."
    annotation = Annotated[str | None, typer.Option(flag, help=text, show_default=False, rich_help_panel="Launch")]
    return inspect.Parameter(setting, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


_OPTIONS = {setting: _option(flag, setting) for flag, setting in FLAGS.items()}


def with_options(function: Callable[..., Any], own: list[inspect.Parameter]) -> Callable[..., Any]:
    """Give ``function`` a signature for typer: the context, its own parameters, and the launch options that it does not
    replace by its own."""
    names = {parameter.name for parameter in own}
    context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    parameters = [context, *own, *(option for setting, option in _OPTIONS.items() if setting not in names)]
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return function


def _without_types(parameters: list[Any]) -> list[Any]:
    # Typer shows BOOLEAN as the value of a flag, which suggests that one must follow.
    for each in parameters:
        if isinstance(each, TyperOption) and each.is_flag:
            each.metavar = ""
    return parameters


class Command(TyperCommand):
    """A command whose help shows no type for flags, which take no value."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))


class Group(TyperGroup):
    """A group of commands whose help shows no type for flags."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))


_UNIT_MS = {"m": MINUTE_MS, "h": 60 * MINUTE_MS, "d": DAY_MS}


def parse_length(given: str, *, digits: int) -> int | None:
    """Read a length of time (365d, 12h, 30m) as milliseconds; None if it is invalid or has more digits."""
    count, unit = given[:-1], given[-1:]
    # int also accepts digits of other alphabets.
    valid = unit in _UNIT_MS and count.isascii() and count.isdigit() and len(count) <= digits
    if valid:
        return int(count) * _UNIT_MS[unit]
    return None


def run_command(act: Callable[[], int]) -> int:
    """Run a command. Returns its exit code; an error that the caller can correct becomes one line."""
    try:
        code = act()
        # Flushed here, since a broken pipe may only show when the buffer is written.
        sys.stdout.flush()
    except SettingsError as error:
        return fail(str(error), 2)
    except BrokenPipeError:  # the reader of the output has closed it
        # Python flushes once more at its end, and would print a traceback for the closed pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except LayerloreError as error:
        return fail(str(error), 1)
    except OSError as error:
        return fail(f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error), 1)
    return code


def fail(why: str, code: int) -> int:
    """Print on standard error why a command failed. Returns the exit code."""
    sys.stderr.write(f"layerlore: {complete(why)}\n")
    return code


def report_away(away: Sequence[str]) -> int:
    """Print on standard error which clusters were left out. Returns the exit code."""
    for reason in away:
        fail(f"left out: {reason}", 1)
    return 1 if away else 0


def print_json(answer: Any) -> None:
    """Print a result for programs."""
    sys.stdout.write(json.dumps(answer, ensure_ascii=False, indent=2) + "\n")


def read_settings(flags: dict[str, Any], *, serves: bool = False) -> Settings:
    """The settings of a command; ``serves``: of one that serves agents."""
    if serves:
        settings = load_served(flags)
    else:
        settings = load_launched(flags)
    configure_logging(settings.log_level)
    set_zone(settings.zone)
    return settings
