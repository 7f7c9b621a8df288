"""The events for which each host calls ``layerlore hook HOST EVENT``, the answers that hosts read, and notes of the hosts
whose hooks store conversations: a file for each host, touched whenever its hooks store something.

The events and their names come from the hosts' own documentation.
"""

import contextlib
import json
import os
import time
from collections.abc import Mapping

COMMAND = "hook"
MEMORY_FILES = "memory_files"
MEMORY_FILES_FLAG = "--memory-files"
"""A hook with this flag keeps the host's own memory files in step."""
REMOTE_FLAGS = {"--http": "url", "--key-file": "key_file"}
"""Flags of a hook that uses a server over HTTP: its URL, and a file with the key, so that no command shows the key."""
STORE_METHOD = "layerlore/hooks/store"
SHOW_METHOD = "layerlore/hooks/show"
"""The methods of a server over HTTP that hooks call."""
MOST_TOLD = 5_000
"""A session remembers at most this many marks of lines that its model has seen."""
SECONDS = 10
"""How long a host should let a hook take: the command itself gives up earlier."""


class HookEvent:
    """An event of a host. ``moment``: start, prompt, reply, compaction, stop or end. ``shows``: the answer can show text to
    the model."""

    __slots__ = ("moment", "name", "shows")

    def __init__(self, name: str, moment: str, *, shows: bool = False) -> None:
        self.name = name
        self.moment = moment
        self.shows = shows


HOOK_EVENTS: Mapping[str, tuple[HookEvent, ...]] = {
    "claude-code": (
        HookEvent("SessionStart", "start", shows=True),
        HookEvent("UserPromptSubmit", "prompt", shows=True),
        HookEvent("PreCompact", "compaction"),
        HookEvent("Stop", "stop"),
        HookEvent("SessionEnd", "end"),
    ),
    "cursor": (
        HookEvent("sessionStart", "start", shows=True),
        HookEvent("beforeSubmitPrompt", "prompt"),
        HookEvent("afterAgentResponse", "reply"),
        HookEvent("preCompact", "compaction"),
        HookEvent("stop", "stop"),
        HookEvent("sessionEnd", "end"),
    ),
    "codex": (
        HookEvent("SessionStart", "start", shows=True),
        HookEvent("UserPromptSubmit", "prompt", shows=True),
        HookEvent("PreCompact", "compaction"),
        HookEvent("Stop", "stop"),
    ),
    "gemini-cli": (
        HookEvent("SessionStart", "start", shows=True),
        HookEvent("BeforeAgent", "prompt", shows=True),
        HookEvent("PreCompress", "compaction"),
        HookEvent("AfterAgent", "stop"),
        HookEvent("SessionEnd", "end"),
    ),
    "vscode": (
        HookEvent("SessionStart", "start", shows=True),
        HookEvent("UserPromptSubmit", "prompt"),
        HookEvent("PreCompact", "compaction"),
        HookEvent("Stop", "stop"),
    ),
    "copilot-cli": (
        HookEvent("sessionStart", "start", shows=True),
        HookEvent("userPromptSubmitted", "prompt", shows=True),
        HookEvent("preCompact", "compaction"),
        HookEvent("agentStop", "stop"),
        HookEvent("sessionEnd", "end"),
    ),
    "windsurf": (
        HookEvent("pre_user_prompt", "prompt"),
        HookEvent("post_cascade_response", "reply"),
    ),
}
"""The events of each host, by its name in ``layerlore install``, in the order in which they happen."""

ONE_AT_A_TIME = ("claude-code", "gemini-cli", "copilot-cli")
"""Hosts with one conversation in a process: the conversation of a hook is that of the process's calls. Editors have
several, and Codex names its conversation in each call."""


def hook_arguments(host: str, event: str) -> tuple[str, ...]:
    """The arguments of the program in a hook's command."""
    return COMMAND, host, event


def find_event(host: str, name: str) -> HookEvent | None:
    """The event of that name; None if no hook of ours handles it."""
    return next((event for event in HOOK_EVENTS.get(host, ()) if event.name == name), None)


def render_answer(host: str, event: str, text: str) -> str:
    """The output of a hook: one JSON object that lets the host continue. ``text``: for the model; "" for nothing."""
    if host == "windsurf":  # it shows the output to the person, never to the model
        return ""
    if host == "cursor":
        answer: dict[str, object] = {}
        if event == "beforeSubmitPrompt":
            answer["continue"] = True
        if text:
            answer["additional_context"] = text
        return json.dumps(answer)
    if not text:
        return "{}"
    if host == "copilot-cli":
        return json.dumps({"additionalContext": text})
    return json.dumps({"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}})


_PREFIX = "captured-"
LATELY_SECONDS = 3 * 24 * 3600
"""A host whose hooks have stored nothing for this long may have lost them. It is longer than a weekend."""
# Parts of the clients' own names, in small letters and digits.
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


class RemoteCapture:
    """The server over HTTP that hooks store in: its URL, and the file with the key, "" if it needs none."""

    def __init__(self, url: str, key_file: str) -> None:
        self.url = url
        self.key_file = key_file


def note_captured(hooks: str, host: str, url: str = "", key_file: str = "") -> None:
    """Note that hooks of the host store its conversations: here, or on a server over HTTP. Raises OSError."""
    # Made one by one, since os.makedirs gives the mode only to the last folder.
    for each in (os.path.dirname(os.path.dirname(hooks)), os.path.dirname(hooks), hooks):
        os.makedirs(each, mode=0o700, exist_ok=True)
    path = os.path.join(hooks, _PREFIX + host)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(json.dumps({"url": url, "key_file": key_file}) if url else "")
    os.utime(path)


def find_remote_capture(hooks: str, host: str) -> RemoteCapture | None:
    """The server over HTTP that the host's hooks store in; None if they store on this machine, or not at all."""
    try:
        with open(os.path.join(hooks, _PREFIX + host), encoding="utf-8") as file:
            kept = json.load(file)
        return RemoteCapture(str(kept["url"]), str(kept["key_file"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def forget_captured(hooks: str, host: str) -> None:
    """Remove the note, since the host has no hooks of ours any more."""
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(hooks, _PREFIX + host))


def is_captured(hooks: str, client: str, url: str = "") -> bool:
    """Whether hooks store the conversations of the client of that name: they stored something lately, or are new. ``url``:
    of the server that they store in; "" for this machine."""
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
