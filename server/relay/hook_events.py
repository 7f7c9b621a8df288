"""Which events of each host call ``layerlore hook HOST EVENT``, and what the host reads as the answer.

Read in the hosts' own documentation. An event has the name that its host gives it.
"""

import json
from collections.abc import Mapping
from typing import NamedTuple

COMMAND = "hook"
SECONDS = 10
"""How long a host should let a hook take: the command itself gives up earlier."""


class HookEvent(NamedTuple):
    """An event of a host. ``shows``: its answer can show something to the model. ``matcher``: what a host that filters its
    events by one should be given; "" for all."""

    name: str
    shows: bool = False
    matcher: str = ""


HOOK_EVENTS: Mapping[str, tuple[HookEvent, ...]] = {
    "claude-code": (
        HookEvent("SessionStart", shows=True),
        HookEvent("UserPromptSubmit", shows=True),
        HookEvent("PreCompact"),
        HookEvent("Stop"),
        HookEvent("SessionEnd"),
    ),
    "cursor": (
        HookEvent("sessionStart", shows=True),
        HookEvent("beforeSubmitPrompt"),
        HookEvent("afterAgentResponse"),
        HookEvent("preCompact"),
        HookEvent("stop"),
        HookEvent("sessionEnd"),
    ),
    "codex": (
        HookEvent("SessionStart", shows=True),
        HookEvent("UserPromptSubmit", shows=True),
        HookEvent("PreCompact"),
        HookEvent("Stop"),
    ),
    "gemini-cli": (
        HookEvent("SessionStart", shows=True),
        HookEvent("BeforeAgent", shows=True),
        HookEvent("PreCompress"),
        HookEvent("AfterAgent"),
        HookEvent("SessionEnd"),
    ),
    "vscode": (
        HookEvent("SessionStart", shows=True),
        HookEvent("UserPromptSubmit", shows=True),
        HookEvent("PreCompact"),
        HookEvent("Stop"),
    ),
    "windsurf": (
        HookEvent("pre_user_prompt"),
        HookEvent("post_cascade_response"),
    ),
}
"""By the names that ``layerlore install`` has for the hosts, in the order in which they happen."""


def hook_arguments(host: str, event: str) -> tuple[str, ...]:
    """What follows the program in the command of a hook."""
    return COMMAND, host, event


def find_event(host: str, name: str) -> HookEvent | None:
    """The event of that name; None for one that calls no hook of ours."""
    return next((event for event in HOOK_EVENTS.get(host, ()) if event.name == name), None)


def render_answer(host: str, event: str, text: str) -> str:
    """What the host reads on standard output, one JSON object that lets it go on. ``text``: for the model; "" for nothing."""
    if host == "windsurf":  # shows what it reads to the person, and nothing to the model
        return ""
    if host == "cursor":
        answer: dict[str, object] = {"continue": True} if event == "beforeSubmitPrompt" else {}
        return json.dumps({**answer, **({"additional_context": text} if text else {})})
    if not text:
        return "{}"
    return json.dumps({"hookSpecificOutput": {"hookEventName": event, "additionalContext": text}})
