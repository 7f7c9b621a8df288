"""Settings of hosts that keep our hooks from running: a hook that never runs goes unnoticed."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from layerlore.server.hosts.catalog import Places
from layerlore.server.hosts.hook_files import HookFile
from layerlore.server.hosts.host_file import HostFile, HostFileRefused


@dataclass(frozen=True, slots=True)
class _Switch:
    """A setting of a host that switches all hooks off with one value."""

    file: HookFile
    keys: tuple[str, ...]
    off: bool


_CODEX = HookFile("CODEX/config.toml", ".codex/config.toml", "toml")
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
    """What switches the hooks of a host off: the setting and its file. ``project``: a folder whose files count, too."""
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
