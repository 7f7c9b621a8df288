"""``layerlore usage --hooks``: what hosts' hooks kept, and what they showed to models, on each day."""

import sys
from typing import TypedDict

from layerlore.server.capture.hook_sessions import HookActivity, read_hook_state
from layerlore.server.command_line.command import print_json
from layerlore.server.command_line.tables import print_table
from layerlore.server.settings.settings import Settings

_NUMBERS = ("sessions", "messages kept", "times shown", "tokens shown", "a session")


def show_hooks(settings: Settings, *, as_json: bool) -> int:
    """Print a line for each day and host, newest first. Returns 0."""
    state = read_hook_state(settings)
    if as_json:
        days = [{"day": day, "host": host, **_as_json(done)} for (day, host), done in state.days.items()]
        hosts = {host: {**_as_json(done), "last": done.last, "event": done.event} for host, done in state.hosts.items()}
        shown = {"days": days, "hosts": hosts, "waiting": state.waiting, "unfit": state.unfit}
        print_json(shown)
    elif state.days:
        rows = [[day, host, *_numbers(done)] for (day, host), done in state.days.items()]
        whole = HookActivity()
        for done in state.hosts.values():
            whole.sessions += done.sessions
            whole.messages += done.messages
            whole.shown += done.shown
            whole.tokens += done.tokens
        print_table(("day", "host", *_NUMBERS), rows, numbers=_NUMBERS, total=["all", "", *_numbers(whole)])
    else:
        sys.stdout.write("no hook has kept or shown anything yet: `layerlore install --capture` sets them up\n")
    return 0


class HookCounts(TypedDict):
    """What hooks did: sessions, messages that they stored, times that they showed something, and its tokens."""

    sessions: int
    messages: int
    shown: int
    tokens: int


def _as_json(done: HookActivity) -> HookCounts:
    return {"sessions": done.sessions, "messages": done.messages, "shown": done.shown, "tokens": done.tokens}


def _numbers(done: HookActivity) -> list[str]:
    if done.sessions:
        each = done.tokens // done.sessions
    else:
        each = 0
    return [f"{number:,}" for number in (done.sessions, done.messages, done.shown, done.tokens, each)]
