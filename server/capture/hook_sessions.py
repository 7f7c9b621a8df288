"""The state of each session of a host: how far its transcript is read, the memories that it was shown, and the work of
its hooks.

A file of JSON for each session. It holds no text of messages. If it is lost, the transcript is read again, and
messages keep their ids.
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
"""How long the file of a session is kept after its last event."""
_DAY_SECONDS = 86_400
_MOST_KEPT = 500


@dataclass(slots=True)
class Session:
    """Times are milliseconds since 1970. ``events``: of each host how often each
    event happened, and when last. ``transcripts``: how far
    each file is read, by the mark of its path. ``told``: marks of the lines that its model was shown. ``left_out``: calls that were left out whose
    results are still to come. ``gone``: up to this seq the host's model sees the messages no more. ``thread_uid`` and
    ``last_seq``: which thread it was, and the last seq in it. ``days``: what was
    captured and shown on each. ``erased``: when the session was erased last, by any process."""

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
        """Note lines that the session's model has before it."""
        # The oldest marks go first, since the model has most likely lost those lines too.
        self.told = [*self.told, *sorted(marks)][-MOST_TOLD:]

    def note_shown(self, tokens: int, now: int) -> None:
        self.shown += 1
        self.tokens += tokens
        self._add_to_day(now, 0, 1, tokens)

    # An erase in another process must win over the state that this process still has in memory.
    def forget_erased(self, stored: "Session | None") -> None:
        """Forget what another process has erased since this was read. How far the transcripts are read stays."""
        if stored is None or stored.erased <= self.erased:
            return
        fresh = Session(
            self.session,
            self.agent,
            self.resource,
            transcripts=self.transcripts,
            erased=stored.erased,
        )
        # In place, because other tasks hold this very object.
        for each in fields(fresh):
            setattr(self, each.name, getattr(fresh, each.name))

    def _add_to_day(self, now: int, *more: int) -> None:
        day = time.strftime("%Y-%m-%d", time.gmtime(now / 1000))
        self.days[day] = [a + b for a, b in zip(self.days.get(day, [0, 0, 0]), more, strict=True)]


_FIELDS = frozenset(each.name for each in fields(Session))


class Sessions:
    """The files of the sessions of one folder of hooks. Those that were used last stay in memory, so that all who
    work on one at a time have the same object."""

    def __init__(self, hooks: str) -> None:
        self._folder = Path(hooks) / FOLDER
        self._kept = LRUCache[tuple[Scope, str], Session](_MOST_KEPT)
        self._writing = asyncio.Lock()

    async def read(self, scope: Scope, session: str) -> Session:
        """The state of a session; a new one for a session that has no file yet."""
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
        """Raises OSError."""
        path = self._path(scope, session.session)
        async with self._writing:
            # Between the read above and this write an erase may have happened; its names must not come back.
            session.forget_erased(await asyncio.to_thread(_read, path))
            await asyncio.to_thread(_write, path, json.dumps(asdict(session)))

    def list_all(self) -> Iterator[Session]:
        """All sessions that are known, in no order."""
        for path in self._folder.glob("*.json"):
            if (found := _read(path)) is not None:
                yield found

    def drop_old(self) -> None:
        """Remove the files of sessions that have been idle for long."""
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
    """Erase what is known of the sessions of a resource. ``agent`` None: of all agents; ``thread`` empty: all sessions.

    How far each transcript was read stays, without names: else the next event of the session would store again what was
    erased. The time stays, too: a server that has the session in memory forgets it then. Raises OSError.
    """
    now = time.time_ns() // 1_000_000
    for part in Path(hooks, FOLDER).glob("*.part"):  # of a process that was killed while it wrote
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
    """Earlier versions kept the path itself, which has a separator or an ending; a mark has neither."""
    if set(name) & set("/\\."):
        return mark_path(name)
    return name


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # The process id keeps two processes from writing into one part file.
    part = path.with_name(f"{path.stem}-{os.getpid()}.part")
    # Readable by the owner only from the first byte on; a later chmod would leave a gap.
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
        # A broken file counts as none: the transcript is read again, and message ids prevent doubles.
        return None


@dataclass(slots=True)
class HookActivity:
    """``last``: when its hooks fired last, in milliseconds since 1970, and ``event`` what that was. ``messages`` were
    stored; ``shown`` is how often its models were shown something, and ``tokens`` how much."""

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
    """The state of the hooks of a data folder and a database. Changes nothing."""
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
    # The name of a waiting event begins with its time in nanoseconds.
    if waiting and waiting[0][:20].isdigit():
        oldest = int(waiting[0].partition("-")[0]) // 1_000_000
    else:
        oldest = 0
    ordered = dict(sorted(days.items(), key=lambda each: (each[0][0], each[0][1]), reverse=True))
    return HookState(Path(hooks) / SPOOL, dict(hosts), ordered, len(waiting), oldest, len(list_set_aside(hooks)))


def erase_hook_files(settings: Settings, resource: str, agent: str | None, thread: str) -> None:
    """Erase what the data folder has beside the database: what is known of the sessions of a resource, events that could
    not be stored, since their owner is unknown, and the answers that a client kept, which are made again. Raises
    OSError.

    ``agent`` None: of all agents; ``thread`` empty: all sessions.
    """
    hooks = hook_folder(str(settings.data_dir), settings.database.get_secret_value())
    erase_sessions(hooks, resource, agent, thread)
    erase_set_aside(hooks)
    for folder in socket_folders(str(settings.data_dir)):
        # The pattern ends in a star for the part files of a client that was killed while it wrote.
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
