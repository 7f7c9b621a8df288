"""Checks the hooks of each host for ``layerlore doctor``, since a hook that stops firing goes unnoticed."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TypedDict

from layerlore.memory.rules.ages import MINUTE_MS, age
from layerlore.memory.settings.context_settings import MemoryClosed
from layerlore.server.capture.hook_sessions import HookActivity, HookState, now_ms, read_hook_state
from layerlore.server.capture.remote_memory import RemoteAway, find_remote_thread, open_endpoint
from layerlore.server.command_line.options import print_json
from layerlore.server.command_line.suggestions import suggest
from layerlore.server.command_line.tables import Finding, print_table
from layerlore.server.hosts.catalog import BY_NAME, Places
from layerlore.server.hosts.hook_files import TRUST, find_hooks, find_switched_off, is_untrusted
from layerlore.server.process.safe_files import read_regular
from layerlore.server.relay.hook_events import HOOK_EVENTS, RemoteCapture, find_remote_capture
from layerlore.server.settings.settings import Settings
from layerlore.storage.core import linear_re
from layerlore.storage.core.records import DAY_MS

SECTION = "hooks"
SILENT_MS = DAY_MS
"""A host that was used this long after its hooks last fired has lost them."""
UNUSED_MS = 14 * DAY_MS
"""The same for a host without transcripts, whose use is unknown."""
# No thread has this name, so the server answers that it does not exist.
_ANY_THREAD = "doctor"
_MOST_BYTES = 64 * 1024 * 1024
_WAITING_MS = 60 * MINUTE_MS
# The folders and names of transcripts, which show when a host was last used.
_USED = {
    "claude-code": ("HOME/.claude/projects", "*/*.jsonl"),
    "codex": ("CODEX/sessions", "*/*/*/*.jsonl"),
    "gemini-cli": ("HOME/.gemini/tmp", "*/chats/*.json*"),
    "cursor": ("HOME/.cursor/projects", "*/agent-transcripts/**/*.jsonl"),
    "copilot-cli": ("COPILOT/session-state", "*/events.jsonl"),
}
_ENABLED_IN_CODEX = (
    r'\[plugins\."layerlore@[^"]*"\][^\n]*\n(?:[ \t]*(?:[^\s\[][^\n]*)?\n)*?[ \t]*enabled[ \t]*=[ \t]*true'
)
# Signs that our plugin, which has the same hooks, is installed and on.
_PLUGINS = {
    "claude-code": ("HOME/.claude/settings.json", r'"layerlore@[^"]*"\s*:\s*true'),
    "codex": ("CODEX/config.toml", _ENABLED_IN_CODEX),
    "gemini-cli": ("HOME/.gemini/extensions/layerlore/hooks/hooks.json", r"hook gemini-cli"),
}


def check_hooks(settings: Settings, places: Places | None = None) -> Iterator[Finding]:
    """The findings about the hooks of hosts that are installed, or whose hooks have fired. Changes nothing."""
    places, state = places or Places(), read_hook_state(settings)
    any_set_up = False
    remotes: dict[str, RemoteCapture] = {}
    for name in HOOK_EVENTS:
        host, own, plugin = BY_NAME[name], _is_set_up(name, places), _has_plugin(name, places)
        # The server finding below matters only where hooks are in use.
        any_set_up = any_set_up or own or plugin
        activity = state.hosts.get(name)
        if activity is not None or own or plugin:
            yield _check_host(name, own or plugin, activity, places)
            if own and (remote := find_remote_capture(str(state.folder.parent), name)):
                remotes[remote.url] = remote
            if own or plugin:
                for switched in find_switched_off(name, places):
                    mend = "change that setting, and restart it"
                    yield Finding(SECTION, host.title, f"no hook runs: {switched}", "degraded", mend)
            # Both call the same hooks, so the model would see each text twice.
            if own and plugin:
                mend = f"run `{suggest('uninstall', name)}`, or remove the plugin"
                yield Finding(SECTION, host.title, "its own file and our plugin both call the hooks", "degraded", mend)
        elif host.is_installed(places):
            install = suggest("install", name, "--capture")
            yield Finding(SECTION, host.title, f"it is installed and calls no hook; `{install}` sets them up")
    for remote in remotes.values():
        yield asyncio.run(_check_remote(settings, remote))
    yield from _check_spool(state)
    if any_set_up and (not settings.local.share or settings.memory == "off"):
        if settings.memory == "off":
            off = "memory is off"
        else:
            off = "no server is shared (local.share = false)"
        yield Finding(SECTION, "server", f"{off}: hooks keep and show nothing", "degraded", "set local.share = true")


def _check_host(name: str, set_up: bool, activity: HookActivity | None, places: Places) -> Finding:
    title, again = BY_NAME[name].title, suggest("install", name, "--capture")
    used, now = _find_used(name, places), now_ms()
    if activity is None and is_untrusted(name, places) and not _has_plugin(name, places):
        return Finding(SECTION, title, "they are set up, and it does not trust them yet", "degraded", TRUST)
    changed = _find_changed(name, places)
    # Without transcripts nothing shows whether it was used, so the limit is longer.
    if activity is None and (used <= changed if used else now <= changed + UNUSED_MS):
        return Finding(SECTION, title, "they are set up, and have not fired yet: it was not seen in use since")
    if activity is None:
        mend = f"restart it and begin a session; if nothing changes, run `{again}` and look at what it shows of hooks"
        return Finding(SECTION, title, "they are set up, and have never fired", "degraded", mend)
    each = activity.tokens // activity.sessions
    value = (
        f"last fired {_ago(activity.last, now)} ({activity.event}); {_count(activity.sessions, 'session')}, "
        f"{_count(activity.messages, 'message')} kept, {each:,} tokens shown a session"
    )
    mend = f"run `{again}`, and restart it"
    if not set_up:
        return Finding(SECTION, title, f"{value}; they are no longer set up", "degraded", mend)
    if used > activity.last + SILENT_MS:
        return Finding(SECTION, title, f"{value}; silent since, though it was used {_ago(used, now)}", "degraded", mend)
    # A host without transcripts may simply be unused, so the limit is longer.
    if not used and now > activity.last + UNUSED_MS:
        return Finding(SECTION, title, f"{value}; silent since", "degraded", f"if you used it since, {mend}")
    return Finding(SECTION, title, value)


async def _check_remote(settings: Settings, remote: RemoteCapture) -> Finding:
    """A finding about whether a server over HTTP accepts messages of hooks."""
    try:
        await find_remote_thread(open_endpoint(settings, remote.url, remote.key_file), _ANY_THREAD)
    except (RemoteAway, MemoryClosed) as error:
        mend = "nothing is lost: hooks send what is missing at the next event after it is mended"
        return Finding(SECTION, remote.url, str(error), "degraded", mend)
    return Finding(SECTION, remote.url, "hooks store there")


def _check_spool(state: HookState) -> Iterator[Finding]:
    if state.waiting:
        # A few waiting events are normal while no server runs.
        late = bool(state.oldest) and now_ms() > state.oldest + _WAITING_MS
        value = f"{_count(state.waiting, 'event')} that no server has stored yet"
        mend = f"start a host, or look into the server's log (`{suggest('local', 'status')}`)"
        yield Finding(SECTION, "waiting", value, "degraded" if late else "ok", mend if late else "")
    if state.unfit:
        mend = f"look at the files that end in .unfit in {state.folder}, report them, and remove them"
        yield Finding(SECTION, "set aside", f"{_count(state.unfit, 'event')} that cannot be read", "degraded", mend)


def _own_file(name: str, places: Places) -> Path:
    return places.find(find_hooks(name, ("layerlore",))[0][0].file)


def _is_set_up(name: str, places: Places) -> bool:
    """Whether the host's own file calls one of our hooks for it."""
    return _stands_in(_own_file(name, places), rf"\bhook\b[\s\",']+{linear_re.escape(name)}\b")


def _find_changed(name: str, places: Places) -> int:
    """When the file that sets the hooks up was last changed, in milliseconds since 1970."""
    if _is_set_up(name, places):
        return _read_time(_own_file(name, places))
    file, _ = _PLUGINS.get(name, ("", ""))
    return _read_time(places.find(file)) if file else 0


def _has_plugin(name: str, places: Places) -> bool:
    file, pattern = _PLUGINS.get(name, ("", ""))
    return bool(file) and _stands_in(places.find(file), pattern)


def _stands_in(path: Path, pattern: str) -> bool:
    try:
        text = read_regular(str(path), _MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return False
    # The user's file may have any size, so the search must take linear time.
    return linear_re.Pattern(pattern, 0).search(text) is not None


def _find_used(name: str, places: Places) -> int:
    """When the host last wrote a transcript, in milliseconds since 1970; 0 if that is unknown."""
    folder, pattern = _USED.get(name, ("", ""))
    if folder:
        return max((_read_time(path) for path in places.find(folder).glob(pattern)), default=0)
    return 0


def _read_time(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns // 1_000_000
    except OSError:
        return 0


def _ago(then: int, now: int) -> str:
    minutes = max(0, now - then) // MINUTE_MS
    if not minutes:
        return "just now"
    if minutes < 100:
        return f"{_count(minutes, 'minute')} ago"
    if minutes < 48 * 60:
        return f"{minutes // 60} hours ago"
    return age(then, now)


def _count(count: int, unit: str) -> str:
    return f"{count:,} {unit}{'' if count == 1 else 's'}"


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
        install = suggest("install", "all", "--capture")
        sys.stdout.write(f"no hook has kept or shown anything yet: `{install}` sets them up\n")
    return 0


class HookCounts(TypedDict):
    """The work of hooks: sessions, stored messages, the number of texts shown, and their tokens."""

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
