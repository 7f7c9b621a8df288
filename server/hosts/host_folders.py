"""Where hosts keep their files, on each platform."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Platform = Literal["linux", "darwin", "win32"]


def _everywhere(variable: str, usual: str) -> dict[Platform, tuple[tuple[str, ...], str]]:
    names = (variable,) if variable else ()
    return {"linux": (names, usual), "darwin": (names, usual), "win32": (names, usual)}


def _read_platform() -> Platform:
    found: dict[str, Platform] = {"darwin": "darwin", "win32": "win32"}
    return found.get(sys.platform, "linux")


# The folders with which a path in the catalog may begin: the variables that move it, and where it is without them.
_ROOTS: dict[str, dict[Platform, tuple[tuple[str, ...], str]]] = {
    "HOME": _everywhere("", ""),
    "CONFIG": {
        "linux": (("XDG_CONFIG_HOME",), ".config"),
        "darwin": (("XDG_CONFIG_HOME",), ".config"),
        "win32": (("APPDATA",), "AppData/Roaming"),
    },
    "APPS": {
        "linux": (("XDG_CONFIG_HOME",), ".config"),
        "darwin": ((), "Library/Application Support"),
        "win32": (("APPDATA",), "AppData/Roaming"),
    },
    "LOCAL": {
        "linux": ((), ".local/share"),
        "darwin": ((), "Library/Application Support"),
        "win32": (("LOCALAPPDATA",), "AppData/Local"),
    },
    "CODEX": _everywhere("CODEX_HOME", ".codex"),
    "CLINE": _everywhere("CLINE_DIR", ".cline"),
}


@dataclass(frozen=True, slots=True)
class Places:
    """One person's folders. Tests give each platform's; a run takes what the process has."""

    platform: Platform = field(default_factory=_read_platform)
    home: Path = field(default_factory=Path.home)
    variables: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    def find(self, written: str) -> Path:
        """The path that ``ROOT/rest`` stands for, such as ``APPS/Claude/claude_desktop_config.json``."""
        root, _, rest = written.partition("/")
        names, usual = _ROOTS[root][self.platform]
        given = next((self.variables[name] for name in names if self.variables.get(name)), "")
        if given:
            base = Path(given)
        else:
            base = self.home / usual
        return base / rest
