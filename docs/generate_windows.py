"""Prints docs/windows.md: what each option of a window's policy means, and what it does to one sample thread."""

import sys
from typing import Any

from sample_thread import sample_thread

from layerlore.memory.parts.parts import plain_text
from layerlore.memory.parts.tokens import load_counter
from layerlore.memory.rules.validation import Limits
from layerlore.memory.settings.context_settings import SUMMARY_PROMPT, WindowSettings
from layerlore.memory.window.policy import NAMES, WindowPolicy, read_policy
from layerlore.memory.window.view import Window, build_window
from layerlore.storage.core.records import Message

COUNTER = load_counter()

HEAD = """\
# Windows

Made by `make docs` by running each policy; a test holds it equal.

The window is the part of a thread's messages that goes to the model. It is a view: other messages stay in the thread. The
server's policy is `[window]`; `[windows.NAME]` are named profiles; a thread has its own with `update_thread(window=...)`: a
profile's name, or an object of the options below.

For every policy:

- The user's newest message is always in.
- A tool call and its result are in together or not at all, and a window never starts with a result.
- Predefined messages come first and count toward the limit. They are dropped as the oldest. Keep them few.
- If a budget has no room for all that must be in, the user's messages get up to three quarters of it.
- The newest message that does not fit is cut to the remaining room, with the mark `… [cut]`. Reasoning goes first, images
  become notes, then the longest texts are cut; ids, names and roles stay.
- A larger budget never shows less.

## Options
"""

CACHES = """\
## Prompt caches

A provider's prompt cache keeps the beginning of a request. Continuous trimming moves the window's start in every turn. Where a
prompt cache matters, use `observed`, or `trim="threshold"`, which keep the start for many turns.

## A sample thread

| | role | tokens | |
|---|---|---|---|
"""

ROWS: list[tuple[dict[str, Any], int]] = [
    ({"limit": "messages", "max_messages": 20}, 15),
    ({"limit": "messages", "max_messages": 7}, 15),
    ({"limit": "messages", "max_messages": 3}, 14),
    ({"limit": "messages", "max_messages": 11}, 15),
    ({"limit": "messages", "trim": "threshold", "threshold": 13, "target": 6}, 11),
    ({"limit": "messages", "trim": "threshold", "threshold": 13, "target": 6}, 13),
    ({"limit": "messages", "trim": "threshold", "threshold": 13, "target": 6}, 15),
    ({"limit": "messages", "max_messages": 6, "drop": "middle"}, 15),
    ({"limit": "messages", "max_messages": 8, "drop": "middle", "keep_first": 4}, 15),
    ({"limit": "tokens", "max_tokens": 90}, 15),
    ({"limit": "tokens", "max_tokens": 90, "drop": "middle", "keep_first": 1}, 15),
    ({"limit": "tokens", "max_tokens": 60, "min_messages": 5}, 15),
    ({"limit": "tokens", "max_tokens": 250}, 7),
    ({"limit": "tokens", "max_tokens": 1300, "max_images": 1}, 15),
    ({"limit": "tokens", "max_tokens": 1300, "max_images": 0}, 15),
    ({"limit": "messages", "blank_tool_results": True}, 15),
    ({"limit": "messages", "blank_tool_results": True, "spare_tool_results": 1}, 15),
    ({"limit": "messages", "max_images": 2}, 15),
    ({"limit": "messages", "max_images": 1}, 15),
    ({"limit": "messages", "max_images": 0}, 15),
    ({"limit": "messages", "max_messages": 9, "predefined": "EXAMPLES"}, 7),
    ({"limit": "messages", "max_messages": 9, "predefined": "EXAMPLES"}, 8),
    ({"limit": "messages", "max_messages": 6, "drop": "middle", "predefined": "EXAMPLES"}, 15),
    ({"limit": "observed", "last_messages": 5}, 15),
    ({"limit": "observed", "last_messages": 5, "predefined": "EXAMPLES"}, 15),
]

EXAMPLES = [
    {"role": "user", "content": "How do I get from Faro to Lagos?"},
    {"role": "assistant", "content": "By train, 1 h 40 min."},
]


def policy(given: dict[str, Any]) -> WindowPolicy:
    whole = {**given, "predefined": EXAMPLES} if "predefined" in given else given
    return read_policy(whole, "window", WindowPolicy(), COUNTER, Limits(), lambda parts: (parts, 0))


def options() -> str:
    lines = ["| option | default | |", "|---|---|---|"]
    for name in NAMES:
        default = getattr(WindowPolicy(), name)
        spelled = {"predefined": "none", "summary_prompt": f"“{SUMMARY_PROMPT}”"}.get(name, str(default).lower())
        lines.append(f"| `{name}` | {spelled} | {WindowSettings.model_fields[name].description} |")
    return "\n".join(lines)


def spelled(given: dict[str, Any]) -> str:
    return " ".join(
        f"`{name}={value if name != 'predefined' else '[P1, P2]'}`".replace("True", "true")
        for name, value in given.items()
    )


def called(message: Message) -> str:
    return f"#{message.seq}" if message.seq > 0 else f"P{message.id.removeprefix('predefined-')}"


def sample_row(message: Message) -> str:
    text = " ".join(plain_text(message.parts).split()).replace("|", "\\|")
    return (
        f"| {called(message)} | {message.role} | {message.tokens} | {text if len(text) <= 90 else text[:90] + ' …'} |"
    )


def result_row(given: dict[str, Any], length: int) -> str:
    thread = sample_thread(COUNTER)[:length]
    window = build_window(thread, policy(given), COUNTER)
    when = f"#{length}"
    done = "; ".join(changes(thread, window)) or "–"
    tokens = sum(message.tokens for message in window.messages)
    return f"| {spelled(given)} | {when} | {' '.join(map(called, window.messages))} | {tokens} | {done} |"


def changes(thread: list[Message], window: Window) -> list[str]:
    """What was done to the messages that are in, and to those that are not for want of their other half."""
    found: list[str] = []
    stored = {message.seq: message for message in thread}
    inside = {message.seq: message for message in window.messages}
    for message in window.messages:
        whole = stored.get(message.seq, message)
        if message.seq in window.shortened:
            found.append(f"{called(message)} cut from {whole.tokens} tokens to {message.tokens}")
        elif len(message.parts) < len(whole.parts):
            found.append(f"{called(message)} without its call")
        else:
            for before, after in zip(whole.parts, message.parts, strict=True):
                if before != after:
                    what = "result blank" if after["type"] == "tool_result" else "a note for the image"
                    found.append(f"{called(message)}: {what}")
    for message in thread:
        if message.role == "tool" and message.seq not in inside and message.seq + 1 in inside:
            found.append(f"{called(message)} left with its call")
    return found


def main() -> None:
    thread = [sample_row(message) for message in sample_thread(COUNTER)]
    rows = [result_row(*row) for row in ROWS]
    sys.stdout.write(
        f"{HEAD}\n{options()}\n\nCombinations that exclude each other are refused when they are set.\n\n{CACHES}"
        + "\n".join(thread)
        + "\n\n## What each policy shows of it\n\n"
        "The second column names the thread's newest message. P1 and P2 are predefined: a\n"
        "question and its answer. Images count 765 tokens.\n\n"
        "| policy | newest | window | tokens | what was done |\n|---|---|---|---|---|\n" + "\n".join(rows) + "\n"
    )


if __name__ == "__main__":
    main()
