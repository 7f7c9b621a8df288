"""What a check of the installation found."""

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

State = Literal["ok", "degraded", "failed"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One fact. If it is degraded or failed, ``mend`` says how to fix it."""

    section: str
    name: str
    value: str
    state: State = "ok"
    mend: str = ""


def expect(section: str, name: str, holds: bool, *, yes: str, no: str, mend: str, state: State = "degraded") -> Finding:
    """A finding with the value ``yes`` if something holds, else ``no`` with the state and how to fix it."""
    if holds:
        return Finding(section, name, yes)
    return Finding(section, name, no, state, mend)


def check_mode(section: str, name: str, value: str, path: Path, *, closed: Literal["rwx", "w"], risk: str) -> Finding:
    """A file or folder and its mode: degraded if other users have that access. ``risk``: what they could do."""
    if os.name != "posix":
        return Finding(section, name, value)
    mode = stat.S_IMODE(path.stat().st_mode)
    shown = f"{value}, mode {mode:04o}"
    is_closed = not mode & (0o077 if closed == "rwx" else 0o022)
    mend = f"other users of this machine {risk}; run chmod go-{closed} {path}"
    return expect(section, name, is_closed, yes=shown, no=shown, mend=mend)
