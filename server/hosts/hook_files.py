"""The hosts' files with hooks, and the form of our hooks in them, from the hosts' documentation."""

import os
import shlex
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from layerlore.server.hosts.catalog import Format, Places
from layerlore.server.hosts.host_file import HostChange, HostFile, HostFileRefused
from layerlore.server.relay.hook_events import HOOK_EVENTS, SECONDS, hook_arguments
from layerlore.storage.core.records import Json

Write = Callable[[tuple[str, ...]], Json]
"""Makes an item of the host's list of hooks from a command."""


@dataclass(frozen=True, slots=True)
class HookFile:
    """A host's file that concerns its hooks. ``file`` and ``project`` are as in ``server.hosts.catalog``."""

    file: str
    project: str
    format: Format = "json"


@dataclass(frozen=True, slots=True)
class _Hooks:
    """A host's file with a list of hooks for each event under ``hooks``, the form of a hook, and further values that hooks
    need, with their files."""

    file: HookFile
    write: Write
    also: tuple[tuple[HookFile, tuple[str, ...], object], ...] = ()


def find_hooks(
    host: str, program: tuple[str, ...], options: tuple[str, ...] = ()
) -> list[tuple[HookFile, list[HostChange]]]:
    """The changes of a host's files that make it call our hooks; none for a host without hooks. ``program``: the first words
    of the command; ``options``: launch options."""
    if host not in _HOOKS:
        return []
    kept = _HOOKS[host]
    lists = [
        HostChange(
            ("hooks", event.name), [kept.write((*program, *hook_arguments(host, event.name), *options))], "append"
        )
        for event in HOOK_EVENTS[host]
    ]
    files = {kept.file: lists}
    for file, keys, value in kept.also:
        files.setdefault(file, []).append(HostChange(keys, value, "default"))
    return list(files.items())


def _claude(command: tuple[str, ...]) -> Json:
    hook = {"type": "command", "command": command[0], "args": list(command[1:]), "timeout": SECONDS}
    return {"hooks": [hook]}


def _codex(command: tuple[str, ...]) -> Json:
    both = {"command": shlex.join(command), "commandWindows": subprocess.list2cmdline(command)}
    return {"hooks": [{"type": "command", **both, "timeout": SECONDS}]}


def _gemini(command: tuple[str, ...]) -> Json:
    named = {"name": "layerlore", "type": "command", "command": _join(command), "timeout": SECONDS * 1000}
    return {"hooks": [named]}


def _flat(command: tuple[str, ...]) -> Json:
    return {"command": _join(command), "timeout": SECONDS}


def _vscode(command: tuple[str, ...]) -> Json:
    return {"type": "command", "command": _join(command), "timeout": SECONDS}


def _copilot(command: tuple[str, ...]) -> Json:
    quoted = " ".join("'" + word.replace("'", "''") + "'" for word in command)
    both = {"bash": shlex.join(command), "powershell": f"& {quoted}"}
    return {"type": "command", **both, "timeoutSec": SECONDS}


def _windsurf(command: tuple[str, ...]) -> Json:
    return {"command": _join(command), "show_output": False}


def _join(command: tuple[str, ...]) -> str:
    """The command as one string for the shell of this platform, which the host runs it with."""
    if Places().platform == "win32":
        return subprocess.list2cmdline(command)
    return shlex.join(command)


_CURSOR = HookFile("HOME/.cursor/hooks.json", ".cursor/hooks.json")
_CODEX = HookFile("CODEX/config.toml", ".codex/config.toml", "toml")
_HOOKS: Mapping[str, _Hooks] = {
    "claude-code": _Hooks(HookFile("HOME/.claude/settings.json", ".claude/settings.json"), _claude),
    "cursor": _Hooks(_CURSOR, _flat, also=((_CURSOR, ("version",), 1),)),
    "codex": _Hooks(
        HookFile("CODEX/hooks.json", ".codex/hooks.json"), _codex, also=((_CODEX, ("features", "hooks"), True),)
    ),
    "gemini-cli": _Hooks(HookFile("HOME/.gemini/settings.json", ".gemini/settings.json"), _gemini),
    "vscode": _Hooks(HookFile("HOME/.copilot/hooks/layerlore.json", ".github/hooks/layerlore.json"), _vscode),
    # Not in the folder of VS Code's hooks, which both would run.
    "copilot-cli": _Hooks(HookFile("COPILOT/settings.json", ".github/copilot/settings.json"), _copilot),
    "windsurf": _Hooks(HookFile("HOME/.codeium/windsurf/hooks.json", ""), _windsurf),
}


@dataclass(frozen=True, slots=True)
class _Switch:
    """A setting of a host that switches all hooks off with one value."""

    file: HookFile
    keys: tuple[str, ...]
    off: bool


_GEMINI = HookFile("HOME/.gemini/settings.json", ".gemini/settings.json")
_SWITCHES: dict[str, tuple[_Switch, ...]] = {
    "claude-code": (
        _Switch(HookFile("HOME/.claude/settings.json", ".claude/settings.json"), ("disableAllHooks",), True),
        _Switch(HookFile("", ".claude/settings.local.json"), ("disableAllHooks",), True),
    ),
    "codex": (
        _Switch(_CODEX, ("features", "hooks"), False),
        # Its name in earlier versions.
        _Switch(_CODEX, ("features", "codex_hooks"), False),
    ),
    "gemini-cli": (_Switch(_GEMINI, ("hooksConfig", "enabled"), False),),
    "copilot-cli": (
        _Switch(HookFile("COPILOT/settings.json", ".github/copilot/settings.json"), ("disableAllHooks",), True),
        _Switch(HookFile("", ".github/copilot/settings.local.json"), ("disableAllHooks",), True),
    ),
}
TRUST = "open /hooks in it, and trust them"
_STATE = ("hooks", "state")


def find_switched_off(host: str, places: Places, project: Path | None = None) -> Iterator[str]:
    """The settings that switch off the hooks of a host, each with its file. ``project``: a folder whose files count, too."""
    for switch in _SWITCHES.get(host, ()):
        paths = [places.find(switch.file.file)] if switch.file.file else []
        if project is not None:
            paths.append(project / switch.file.project)
        for path in paths:
            if _read(HostFile(path, switch.file.format, project), switch.keys) is switch.off:
                yield f"{'.'.join(switch.keys)} = {str(switch.off).lower()} in {path}"


def is_untrusted(host: str, places: Places, project: Path | None = None) -> bool:
    """Whether a host runs hooks only after its user has trusted them, and none of this file is trusted yet."""
    if host != "codex":
        return False
    folder = places.find("CODEX")
    file = folder / "hooks.json"
    if project is not None:
        file = project / ".codex" / "hooks.json"
    trusted = _read(HostFile(folder / "config.toml", "toml"), _STATE)
    if not isinstance(trusted, dict):
        return True
    # Each hook has an entry: the path of its file, the event, and its place there.
    names = {str(file), os.path.realpath(file)}
    return not any(
        name.rsplit(":", 3)[0] in names and isinstance(entry, dict) and entry.get("trusted_hash")
        for name, entry in trusted.items()
    )


def _read(file: HostFile, keys: tuple[str, ...]) -> object:
    """The value in a host's file; None if it has none or cannot be read."""
    try:
        return file.find(file.read(), keys)
    except HostFileRefused:
        return None
