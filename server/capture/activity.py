"""What hooks did: of each host, of each day, and what still waits."""

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from layerlore.memory.rules.ages import DAY_MS
from layerlore.server.capture.sessions import Session, Sessions, erase_sessions
from layerlore.server.relay.launch import hook_folder, socket_folders
from layerlore.server.relay.spool import SPOOL, erase_set_aside, list_set_aside, list_waiting
from layerlore.server.settings.settings import Settings

LATELY_MS = 3 * DAY_MS
"""A host whose hooks did not fire for longer may have lost them. A weekend is no sign of that."""
# Parts of the names by which clients introduce themselves, in small letters and digits.
_CLIENTS: Mapping[str, str] = {
    "claudecode": "claude-code",
    "codex": "codex",
    "geminicli": "gemini-cli",
    "cursor": "cursor",
    "windsurf": "windsurf",
    "visualstudiocode": "vscode",
    "vscode": "vscode",
}


@dataclass(slots=True)
class HookActivity:
    """``last``: when its hooks fired last, in milliseconds since 1970, and ``event`` what that was. ``messages`` were kept;
    ``shown`` is how often its models were shown something, and ``tokens`` how much."""

    sessions: int = 0
    messages: int = 0
    shown: int = 0
    tokens: int = 0
    last: int = 0
    event: str = ""


@dataclass(frozen=True, slots=True)
class HookState:
    """``hosts``: what the hooks of each host did; ``days``: what those of each host did on each day, newest first.
    ``waiting``: how many events no server has stored yet, ``oldest`` when the first of them happened (milliseconds), and
    ``unfit`` how many cannot be stored. ``folder`` is where these are."""

    folder: Path
    hosts: dict[str, HookActivity] = field(default_factory=dict)
    days: dict[tuple[str, str], HookActivity] = field(default_factory=dict)
    waiting: int = 0
    oldest: int = 0
    unfit: int = 0


def read_hook_state(settings: Settings) -> HookState:
    """What is known of the hooks of a data folder and a database. Changes nothing."""
    hooks = hook_folder(str(settings.data_dir), settings.database.get_secret_value())
    waiting = list_waiting(hooks)
    hosts: defaultdict[str, HookActivity] = defaultdict(HookActivity)
    days: defaultdict[tuple[str, str], HookActivity] = defaultdict(HookActivity)
    for session in Sessions(hooks).list_all():
        for host in session.events:
            _add(hosts[host], [(session.messages, session.shown, session.tokens)])
            _note_last(hosts[host], session, host)
            for day, done in session.days.items():
                _add(days[day, host], [done])
    oldest = int(waiting[0].partition("-")[0]) // 1_000_000 if waiting and waiting[0][:20].isdigit() else 0
    ordered = dict(sorted(days.items(), key=lambda each: (each[0][0], each[0][1]), reverse=True))
    return HookState(Path(hooks) / SPOOL, dict(hosts), ordered, len(waiting), oldest, len(list_set_aside(hooks)))


def find_host_of(client: str) -> str:
    """The host, as its hooks name it, of a client that calls itself so; "" for one that has no hooks."""
    name = "".join(filter(str.isalnum, client.lower()))
    return next((host for part, host in _CLIENTS.items() if part in name), "")


def fired_lately(hooks: str, host: str) -> bool:
    """Whether hooks of the host kept messages of a session that went on within ``LATELY_MS``: those of the next are kept,
    too."""
    since = now_ms() - LATELY_MS
    for session in Sessions(hooks).list_newest(since // 1000):
        if session.messages and any(last >= since for _, last in session.events.get(host, {}).values()):
            return True
    return False


def erase_hook_files(settings: Settings, resource: str, agent: str | None, thread: str) -> None:
    """Erase what the data folder has beside the database: what is known of the sessions of a resource, events that could
    not be stored, since nobody can say whose they are, and the answers that a client kept, which are made again. Raises
    OSError.

    ``agent`` None: of all agents; ``thread`` empty: all sessions.
    """
    hooks = hook_folder(str(settings.data_dir), settings.database.get_secret_value())
    erase_sessions(hooks, resource, agent, thread)
    erase_set_aside(hooks)
    for folder in socket_folders(str(settings.data_dir)):
        for path in Path(folder).glob("*.answers*"):
            path.unlink(missing_ok=True)


def _add(activity: HookActivity, done: Iterable[Iterable[int]]) -> None:
    for messages, shown, tokens in done:
        activity.sessions += 1
        activity.messages += messages
        activity.shown += shown
        activity.tokens += tokens


def _note_last(activity: HookActivity, session: Session, host: str) -> None:
    for event, (_, last) in session.events[host].items():
        if last > activity.last:
            activity.last, activity.event = last, event


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000
