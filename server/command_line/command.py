"""The parts that all commands share: they read their settings, print JSON, and end with one line if they fail."""

import json
import os
import sys
from collections.abc import Callable
from typing import Any

from layerlore.server.process.logs import configure_logging
from layerlore.server.settings.settings import Settings, SettingsError, load_launched
from layerlore.storage.core.errors import LayerloreError


def run_command(act: Callable[[], int]) -> int:
    """Run a command. Returns its exit code; an error that the caller can correct becomes one line."""
    try:
        code = act()
        sys.stdout.flush()
    except SettingsError as error:
        return fail(str(error), 2)
    except BrokenPipeError:  # the reader of the output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except LayerloreError as error:
        return fail(str(error), 1)
    except OSError as error:
        return fail(f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error), 1)
    return code


def fail(why: str, code: int) -> int:
    """Say on standard error why a command failed. Returns the exit code."""
    sys.stderr.write(f"layerlore: {why}\n")
    return code


def print_json(answer: Any) -> None:
    """Print a result for programs."""
    sys.stdout.write(json.dumps(answer, ensure_ascii=False, indent=2) + "\n")


def read_settings(flags: dict[str, Any]) -> Settings:
    """The settings of a command."""
    settings = load_launched(flags)
    configure_logging(settings.log_level)
    return settings
