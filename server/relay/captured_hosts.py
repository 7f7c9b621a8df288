"""Which hosts have hooks that store their conversations: a file for each, as old as what shows it."""

import contextlib
import os
import time
from collections.abc import Mapping

_PREFIX = "captured-"
LATELY_SECONDS = 3 * 24 * 3600
"""A host whose hooks stored nothing for longer may have lost them. A weekend is no sign of that."""
# Parts of the names by which clients introduce themselves, in small letters and digits.
_CLIENTS: Mapping[str, str] = {
    "claudecode": "claude-code",
    "codex": "codex",
    "geminicli": "gemini-cli",
    "copilotcli": "copilot-cli",
    "cursor": "cursor",
    "windsurf": "windsurf",
    "visualstudiocode": "vscode",
    "vscode": "vscode",
}


def note_captured(hooks: str, host: str) -> None:
    """Note that hooks of the host store its conversations. Raises OSError."""
    # Of folders that are made at once, only the last is closed.
    for each in (os.path.dirname(os.path.dirname(hooks)), os.path.dirname(hooks), hooks):
        os.makedirs(each, mode=0o700, exist_ok=True)
    path = os.path.join(hooks, _PREFIX + host)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
    os.utime(path)


def forget_captured(hooks: str, host: str) -> None:
    """Take the note back: the host has no hooks of ours any more."""
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(hooks, _PREFIX + host))


def is_captured(hooks: str, client: str) -> bool:
    """Whether hooks store the conversations of a client that calls itself so: they did lately, or were just installed."""
    name = "".join(filter(str.isalnum, client.lower()))
    host = next((host for part, host in _CLIENTS.items() if part in name), "")
    if not host:
        return False
    try:
        noted = os.path.getmtime(os.path.join(hooks, _PREFIX + host))
    except OSError:
        return False
    return time.time() - noted < LATELY_SECONDS
