"""The commands that a command suggests. Each acts on the same memory as the command that suggests it."""

import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

from layerlore.server.access.credentials import LOCAL_TENANT
from layerlore.server.process.program import NAME, shell_command
from layerlore.server.settings.launch import FLAGS
from layerlore.storage.core import linear_re

_given: ContextVar[Mapping[str, Any]] = ContextVar("given", default=MappingProxyType({}))

# The commands about one memory, which take --tenant.
_OF_ONE_MEMORY = ("show", "recall", "forget", "edit", "undo", "export", "import", "erase", "jobs", "usage")
# These name the owner by options of their own, or are about everybody.
_WITHOUT_OWNER = ("erase", "redact", "keys", "restore")
_OWNER = ("agent", "resource", "project", "thread")
_COMMAND = linear_re.compile(r"`([^`\n]+)`")


@contextmanager
def suggesting(given: Mapping[str, Any]) -> Iterator[None]:
    """While a command runs, let its suggestions name the same memory. ``given``: its launch options by their settings, and
    ``tenant``, as the user gave them."""
    token = _given.set(given)
    try:
        yield
    finally:
        _given.reset(token)


def suggest(command: str, *arguments: str) -> str:
    """A command to type in a shell, with the options that the user gave to the one that runs."""
    given = _given.get()
    launch: list[str] = []
    for flag, setting in FLAGS.items():
        value = given.get(setting)
        if value is None or (command in _WITHOUT_OWNER and setting in _OWNER):
            continue
        launch += [flag, _show(setting, str(value))]
    tenant = given.get("tenant") or LOCAL_TENANT
    if tenant != LOCAL_TENANT and command in _OF_ONE_MEMORY:
        of_tenant = ["--tenant", tenant]
    else:
        of_tenant = []
    # In front of the command, where no option of its own has the same name.
    return shell_command(*launch, command, *arguments, *of_tenant)


def _show(setting: str, value: str) -> str:
    # The URL of a server may hold a password, which is not printed again.
    if setting == "database" and value.partition("://")[0] not in ("", "sqlite"):
        return "URL"
    return value


def complete(text: str) -> str:
    """A text of ours, with each command in it (`layerlore doctor`) as ``suggest`` writes it."""
    return _COMMAND.sub(lambda found: f"`{_complete_command(found[1])}`", text)


def _complete_command(command: str) -> str:
    for program in (NAME, shell_command()):
        rest = command.removeprefix(f"{program} ")
        if rest != command:
            break
    else:
        return command
    try:
        name, *arguments = shlex.split(rest)
    except ValueError:
        return command
    # A command that begins with an option has those of the memory already.
    if name.startswith("-") or "--tenant" in arguments:
        return command
    return suggest(name, *arguments)
