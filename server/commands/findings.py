"""What ``layerlore doctor`` found."""

import os
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

State = Literal["ok", "degraded", "failed"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One fact; where it is degraded or failed, ``mend`` says what to do."""

    section: str
    name: str
    value: str
    state: State = "ok"
    mend: str = ""


def wanted(section: str, name: str, holds: bool, *, yes: str, no: str, mend: str, state: State = "degraded") -> Finding:
    """``yes`` if what is wanted holds, ``no`` with the state and how to mend it if not."""
    return Finding(section, name, yes) if holds else Finding(section, name, no, state, mend)


def on_disk(section: str, name: str, value: str, path: Path, *, closed: Literal["rwx", "w"], risk: str) -> Finding:
    """A file or folder and its mode: degraded if it is not closed to other users for that, with what they can do."""
    if os.name != "posix":
        return Finding(section, name, value)
    mode = stat.S_IMODE(path.stat().st_mode)
    shown = f"{value}, mode {mode:04o}"
    is_closed = not mode & (0o077 if closed == "rwx" else 0o022)
    mend = f"other users of this machine {risk}: chmod go-{closed} {path}"
    return wanted(section, name, is_closed, yes=shown, no=shown, mend=mend)
