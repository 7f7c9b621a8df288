"""Which events of each host call ``layerlore hook HOST EVENT``, what the host reads as the answer, and which hosts have such
hooks: a file for each, as old as what shows it.

The events are read in the hosts' own documentation. An event has the name that its host gives it.
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
"""With these a hook's memory is that of a server over HTTP: its URL, and the file with the key, which no command shows."""
STORE_METHOD = "layerlore/hooks/store"
SHOW_METHOD = "layerlore/hooks/show"
"""The methods of such a server that hooks call."""
MOST_TOLD = 5_000
"""The marks that are kept of the lines that a session's model was shown."""
SECONDS = 10
"""How long a host should let a hook take: the command itself gives up earlier."""


class HookEvent:
    """An event of a host. ``moment``: what it is, start, prompt, reply, compaction, stop or end. ``shows``: its answer can
    show something to the model."""

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
"""By the names that ``layerlore install`` has for the hosts, in the order in which they happen."""


ONE_AT_A_TIME = ("claude-code", "gemini-cli", "copilot-cli")
"""Hosts with one conversation in a process, so that a hook's is that of the process' calls. Editors have several, and Codex names
its conversation with each call."""


def hook_arguments(host: str, event: str) -> tuple[str, ...]:
    """The arguments of the program in a hook's command."""
    return COMMAND, host, event


def find_event(host: str, name: str) -> HookEvent | None:
    """The event of that name; None for one that calls no hook of ours."""
    return next((event for event in HOOK_EVENTS.get(host, ()) if event.name == name), None)


def render_answer(host: str, event: str, text: str) -> str:
    """The output for the host, one JSON object that lets it go on. ``text``: for the model; "" for nothing."""
    if host == "windsurf":  # shows what it reads to the person, and nothing to the model
        return ""
    if host == "cursor":
        answer: dict[str, object]
        if event == "beforeSubmitPrompt":
            answer = {"continue": True}
        else:
            answer = {}
        return json.dumps({**answer, **({"additional_context": text} if text else {})})
    if not text:
        return "{}"
    if host == "copilot-cli":
        return json.dumps({"additionalContext": text})
    return json.dumps({"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}})


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
