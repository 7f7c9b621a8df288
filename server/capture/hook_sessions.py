"""The state of each session of a host: the position in its transcript, the memories shown to it, and the work of its hooks.

Each session has a JSON file, which holds no text of messages. If it is lost, the transcript is read again, and messages
keep their ids.
"""

import asyncio
import contextlib
import hashlib
import json
import os
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from cachetools import LRUCache

from layerlore.server.relay.hook_events import MOST_TOLD
from layerlore.server.relay.launch import hook_folder, socket_folders
from layerlore.server.relay.spool import SPOOL, erase_set_aside, list_set_aside, list_waiting
from layerlore.server.settings.settings import Settings
from layerlore.storage.core.records import Scope

FOLDER = "sessions"
KEPT_DAYS = 90
"""The file of a session is removed this long after its last event."""
_DAY_SECONDS = 86_400
_MOST_KEPT = 500


@dataclass(slots=True)
class Session:
    """The state of a session. Times are milliseconds since 1970.

    ``events``: by host, how often each event happened, and its last time. ``transcripts``: by the mark of a path, the
    position in the file. ``told``: marks of the lines that the model has seen. ``left_out``: the ids of calls that were
    left out and whose results are still to come. ``gone``: the model no longer sees messages up to this seq.
    ``thread_uid`` and ``last_seq``: the thread and its last seq. ``days``: by day, the captured messages, the texts shown
    and their tokens. ``erased``: when a process last erased the session.
    """

    session: str = ""
    agent: str = ""
    resource: str = ""
    events: dict[str, dict[str, list[int]]] = field(default_factory=dict)
    transcripts: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    gone: int = 0
    thread_uid: str = ""
    last_seq: int = 0
    messages: int = 0
    shown: int = 0
    tokens: int = 0
    days: dict[str, list[int]] = field(default_factory=dict)
    erased: int = 0

    def note_event(self, host: str, event: str, now: int) -> None:
        of_host = self.events.setdefault(host, {})
        of_host[event] = [of_host.get(event, [0, 0])[0] + 1, now]

    def note_captured(self, messages: int, now: int) -> None:
        self.messages += messages
        self._add_to_day(now, messages, 0, 0)

    def note_told(self, marks: Iterable[str]) -> None:
        """Note lines that the session's model has seen."""
        # The oldest marks are dropped, since the model has most likely lost those lines, too.
        self.told = [*self.told, *sorted(marks)][-MOST_TOLD:]

    def note_shown(self, tokens: int, now: int) -> None:
        self.shown += 1
        self.tokens += tokens
        self._add_to_day(now, 0, 1, tokens)

    def forget_erased(self, stored: "Session | None") -> None:
        """Forget what another process has erased since this state was read. The positions in transcripts stay."""
        if stored is None or stored.erased <= self.erased:
            return
        fresh = Session(self.session, self.agent, self.resource, transcripts=self.transcripts, erased=stored.erased)
        # Changed in place, because other tasks hold this object.
        for each in fields(fresh):
            setattr(self, each.name, getattr(fresh, each.name))

    def _add_to_day(self, now: int, *more: int) -> None:
        day = time.strftime("%Y-%m-%d", time.gmtime(now / 1000))
        self.days[day] = [a + b for a, b in zip(self.days.get(day, [0, 0, 0]), more, strict=True)]


_FIELDS = frozenset(each.name for each in fields(Session))


class Sessions:
    """The session files of one folder of hooks. Recently used sessions stay in memory, so that all tasks share one object
    for a session."""

    def __init__(self, hooks: str) -> None:
        self._folder = Path(hooks) / FOLDER
        self._kept = LRUCache[tuple[Scope, str], Session](_MOST_KEPT)
        self._writing = asyncio.Lock()

    async def read(self, scope: Scope, session: str) -> Session:
        """The state of a session; a new one if the session has no file yet."""
        # The file is read even for a cached session: another process may have erased it.
        stored = await asyncio.to_thread(_read, self._path(scope, session))
        kept = self._kept.get((scope, session))
        if kept is None:
            kept = stored or Session()
            kept.session, kept.agent, kept.resource = session, scope.agent_id, scope.resource_id
            self._kept[scope, session] = kept
        else:
            kept.forget_erased(stored)
        return kept

    async def write(self, session: Session, scope: Scope) -> None:
        """Write the state of a session. Raises OSError."""
        path = self._path(scope, session.session)
        async with self._writing:
            # Another process may have erased the session since it was read; erased names must not come back.
            session.forget_erased(await asyncio.to_thread(_read, path))
            await asyncio.to_thread(_write, path, json.dumps(asdict(session)))

    def list_all(self) -> Iterator[Session]:
        """All sessions with a file, in no order."""
        for path in self._folder.glob("*.json"):
            if (found := _read(path)) is not None:
                yield found

    def drop_old(self) -> None:
        """Remove the files of sessions that have been idle for KEPT_DAYS."""
        oldest = time.time() - KEPT_DAYS * _DAY_SECONDS
        for path in self._folder.glob("*.json"):
            with contextlib.suppress(OSError):
                if path.stat().st_mtime < oldest:
                    path.unlink()

    def _path(self, scope: Scope, session: str) -> Path:
        named = json.dumps([scope.agent_id, scope.resource_id, session])
        digest = hashlib.blake2b(named.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
        return self._folder / f"{digest}.json"


def mark_path(path: str) -> str:
    """The mark of a transcript, which does not reveal its path."""
    return hashlib.blake2b(path.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def erase_sessions(hooks: str, resource: str, agent: str | None, thread: str) -> None:
    """Erase the state of a resource's sessions. ``agent`` None: of all agents; ``thread`` empty: all sessions.

    The positions in the transcripts stay, without names, so that the next event of the session does not store the erased
    messages again. The time of the erasure stays, too: servers with the session in memory then forget it. Raises OSError.
    """
    now = time.time_ns() // 1_000_000
    for part in Path(hooks, FOLDER).glob("*.part"):  # left by a process that was killed while it wrote
        part.unlink(missing_ok=True)
    for path in Path(hooks, FOLDER).glob("*.json"):
        found = _read(path)
        if found is None or found.resource != resource or agent not in (None, found.agent):
            continue
        if thread and found.session != thread:
            continue
        transcripts = {_as_mark(name): cursor for name, cursor in found.transcripts.items()}
        _write(path, json.dumps({"transcripts": transcripts, "erased": now}))


def _as_mark(name: str) -> str:
    # Earlier versions used the path itself, which has a separator or an ending; a mark has neither.
    if set(name) & set("/\\."):
        return mark_path(name)
    return name


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # The process id keeps two processes from writing into one part file.
    part = path.with_name(f"{path.stem}-{os.getpid()}.part")
    # Closed to other users from the first byte on; a later chmod would leave a gap.
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    # A rename is atomic, so a reader sees the old file or the new one, never half of one.
    part.replace(path)


def _read(path: Path) -> Session | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        # Unknown fields are dropped: a newer version may have written the file.
        return Session(**{name: value for name, value in found.items() if name in _FIELDS})
    except (OSError, ValueError, RecursionError, TypeError, AttributeError):
        # A broken file counts as absent: the transcript is read again, and message ids prevent doubles.
        return None


@dataclass(slots=True)
class HookActivity:
    """The work of a host's hooks. ``messages``: the stored messages; ``shown``: the number of texts shown to models, and
    ``tokens`` their size; ``last``: the time of the last event in milliseconds since 1970, and ``event`` its name."""

    sessions: int = 0
    messages: int = 0
    shown: int = 0
    tokens: int = 0
    last: int = 0
    event: str = ""


@dataclass(frozen=True, slots=True)
class HookState:
    """The work of all hooks: by host, and by day and host, the newest day first. ``waiting``: the number of events that no
    server has stored yet, and ``oldest`` the time of the first one in milliseconds. ``unfit``: the number of events that
    cannot be stored. ``folder``: the folder of these events."""

    folder: Path
    hosts: dict[str, HookActivity] = field(default_factory=dict)
    days: dict[tuple[str, str], HookActivity] = field(default_factory=dict)
    waiting: int = 0
    oldest: int = 0
    unfit: int = 0


def read_hook_state(settings: Settings) -> HookState:
    """The state of the hooks of a data folder and a database. Changes nothing."""
    hooks = hook_folder(str(settings.data_dir), settings.database.get_secret_value())
    waiting = list_waiting(hooks)
    hosts: defaultdict[str, HookActivity] = defaultdict(HookActivity)
    days: defaultdict[tuple[str, str], HookActivity] = defaultdict(HookActivity)
    for session in Sessions(hooks).list_all():
        for host in session.events:
            _add(hosts[host], session.messages, session.shown, session.tokens)
            for event, (_, last) in session.events[host].items():
                if last > hosts[host].last:
                    hosts[host].last, hosts[host].event = last, event
            for day, done in session.days.items():
                _add(days[day, host], *done)
    oldest = 0
    # The name of a waiting event begins with its time in nanoseconds.
    if waiting and waiting[0][:20].isdigit():
        oldest = int(waiting[0].partition("-")[0]) // 1_000_000
    ordered = dict(sorted(days.items(), key=lambda each: (each[0][0], each[0][1]), reverse=True))
    return HookState(Path(hooks) / SPOOL, dict(hosts), ordered, len(waiting), oldest, len(list_set_aside(hooks)))


def erase_hook_files(settings: Settings, resource: str, agent: str | None, thread: str) -> None:
    """Erase a resource's data in the data folder beside the database: the state of its sessions, all events that could not
    be stored, since their owner is unknown, and the stored answers for clients, which are made again. Raises OSError.

    ``agent`` None: of all agents; ``thread`` empty: all sessions.
    """
    hooks = hook_folder(str(settings.data_dir), settings.database.get_secret_value())
    erase_sessions(hooks, resource, agent, thread)
    erase_set_aside(hooks)
    for folder in socket_folders(str(settings.data_dir)):
        # The pattern ends in a star for the part files of a client that was killed while it wrote.
        for path in Path(folder).glob("*.answers*"):
            path.unlink(missing_ok=True)


def _add(activity: HookActivity, messages: int, shown: int, tokens: int) -> None:
    activity.sessions += 1
    activity.messages += messages
    activity.shown += shown
    activity.tokens += tokens


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000
