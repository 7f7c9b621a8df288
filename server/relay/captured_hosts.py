"""Which hosts have hooks that store their conversations: a file for each, as old as what shows it."""

import contextlib
import json
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


class CapturedRemotely:
    """The server over HTTP in whose memory hooks store: its URL, and the file with the key, "" if it needs none."""

    def __init__(self, url: str, key_file: str) -> None:
        self.url = url
        self.key_file = key_file


def note_captured(hooks: str, host: str, url: str = "", key_file: str = "") -> None:
    """Note that hooks of the host store its conversations: here, or in the memory of a server over HTTP. Raises OSError."""
    # Of folders that are made at once, only the last is closed.
    for each in (os.path.dirname(os.path.dirname(hooks)), os.path.dirname(hooks), hooks):
        os.makedirs(each, mode=0o700, exist_ok=True)
    path = os.path.join(hooks, _PREFIX + host)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(json.dumps({"url": url, "key_file": key_file}) if url else "")
    os.utime(path)


def find_remote_capture(hooks: str, host: str) -> CapturedRemotely | None:
    """The server in whose memory the host's hooks store; None if it is this machine's, or none is known."""
    try:
        with open(os.path.join(hooks, _PREFIX + host), encoding="utf-8") as file:
            kept = json.load(file)
        return CapturedRemotely(str(kept["url"]), str(kept["key_file"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def forget_captured(hooks: str, host: str) -> None:
    """Take the note back: the host has no hooks of ours any more."""
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(hooks, _PREFIX + host))


def is_captured(hooks: str, client: str, url: str = "") -> bool:
    """Whether hooks store the conversations of a client that calls itself so: they did lately, or were just installed.
    ``url``: in the memory of that server; "" for this machine's."""
    name = "".join(filter(str.isalnum, client.lower()))
    host = next((host for part, host in _CLIENTS.items() if part in name), "")
    if not host:
        return False
    remote = find_remote_capture(hooks, host)
    if url != (remote.url if remote else ""):
        return False
    try:
        noted = os.path.getmtime(os.path.join(hooks, _PREFIX + host))
    except OSError:
        return False
    return time.time() - noted < LATELY_SECONDS
