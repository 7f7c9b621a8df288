"""The shared server's side of hooks: it stores their events, and answers with text for the model."""

import asyncio
import contextlib
import json
import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from layerlore.memory.engine.engine import Engine
from layerlore.memory.rules.time_zones import use_zone
from layerlore.memory.settings.context_settings import MemoryClosed
from layerlore.server.access.credentials import LOCAL_TENANT
from layerlore.server.capture.event_capture import Capture, run_apart
from layerlore.server.capture.hook_memory import HookMemory, LocalMemory
from layerlore.server.capture.hook_sessions import Sessions
from layerlore.server.capture.host_events import CurrentConversations, HookCall, read_call
from layerlore.server.capture.memory_files import MemoryFiles
from layerlore.server.capture.message_cleanup import IgnoredPaths
from layerlore.server.capture.remote_memory import RemoteMemory, RemoteUnreachable, open_endpoint
from layerlore.server.relay import spool
from layerlore.server.relay.hook_events import HOOK_EVENTS, note_captured
from layerlore.server.settings.settings import Settings
from layerlore.storage.core.errors import InvalidInput, LayerloreError, LimitExceeded
from layerlore.storage.core.records import Json, Scope

log = logging.getLogger(__name__)

MOST_FAILURES = 2
"""Servers set an event aside after it has failed this often."""
MOST_BEGUN = 10
"""They also set it aside after this many attempts during which a server ended."""
EVENT_SECONDS = 120.0
"""Storing one event may take this long. Then it counts as failed, and the next event has its turn. A thread cannot be
stopped, so a hanging one stays. Files are opened without waiting and matched in linear time, so only a drive that does not
answer hangs; a process for each event would cost more."""
# A session that starts from one of these sources has lost the lines that its model has seen.
_FORGETFUL = ("compact", "clear")


@dataclass(frozen=True, slots=True)
class _Open:
    """An event with its settings, its memory and the ignored paths. ``scope`` identifies the memory for its sessions."""

    call: HookCall
    engine: Engine
    settings: Settings
    memory: HookMemory
    scope: Scope
    ignored: IgnoredPaths


class HookService:
    """Serves the hooks of a folder. ``settings_for``: returns the settings of an event's launch; ``conversations``: gets the
    current conversation of each host."""

    def __init__(
        self,
        engine: Engine,
        hooks: str,
        settings_for: Callable[[Json], Settings],
        conversations: CurrentConversations,
    ) -> None:
        self._engine = engine
        self._hooks = hooks
        self._settings_for = settings_for
        self._conversations = conversations
        self._sessions = Sessions(hooks)
        self._memory_files = MemoryFiles()
        # One answer of a session at a time, so that two hooks for one event do not show the same lines.
        self._answering: defaultdict[tuple[Scope, str], asyncio.Lock] = defaultdict(asyncio.Lock)
        self._draining = asyncio.Lock()
        # The servers over HTTP that were away since the last drain began. One attempt is enough for all events.
        self._away: set[str] = set()

    async def answer(self, name: str, show: Callable[[str], Awaitable[bool]]) -> None:
        """Show the model text at the event of that name, if there is any. ``show`` returns whether the host took it. Raises
        LayerloreError, OSError, ValueError."""
        opened = await self._open(name)
        call, rules = opened.call, opened.settings.capture
        # Noted before the answer, since the host's model may call tools right after it.
        self._conversations.note(call)
        # Most events show nothing, so the checks that need no database come first.
        if not (call.event.shows and call.session and rules.tokens) or opened.ignored.is_everything:
            return
        if opened.engine.memory == "off":
            return
        if call.by_subagent and not rules.subagents:
            return
        # The lock is per session: two sessions of a host must not wait for each other.
        async with self._answering[opened.scope, call.session]:
            session = await self._sessions.read(opened.scope, call.session)
            # The host dropped its context, so earlier lines may be shown again.
            if call.event.moment == "start" and call.source in _FORGETFUL:
                session.told = []
            left = min(rules.tokens, rules.session_tokens - session.tokens)
            if left <= 0:
                return
            with use_zone(opened.settings.zone):
                found = await opened.memory.show(
                    call.host,
                    call.session,
                    call.prompt if call.event.moment == "prompt" else "",
                    max_tokens=left,
                    told=session.told,
                    gone=session.gone,
                )
            # Marked as shown only after the host took them. Otherwise a hook that timed out would hide them for good.
            if found.text and await show(found.text):
                session.note_told(found.marks)
                session.note_shown(found.tokens, self._engine.now())
                opened.memory.count_shown(call.host, found.tokens)
            await self._sessions.write(session, opened.scope)

    async def drain(self) -> None:
        """Store all waiting events, oldest first. Those that cannot be stored now keep waiting. Raises nothing."""
        # Two drains at once would store one event twice and count its tries twice.
        async with self._draining:
            # Events that arrive meanwhile get their turn, but each drain tries a failing event only once.
            tried: set[str] = set()
            self._away.clear()
            while waiting := [name for name in await self._list_waiting() if name not in tried]:
                for name in waiting:
                    tried.add(name)
                    await self._store(name)
            await asyncio.to_thread(self._clean_up)

    def _clean_up(self) -> None:
        spool.drop_abandoned(self._hooks)
        with contextlib.suppress(OSError):
            self._sessions.drop_old()

    async def _list_waiting(self) -> list[str]:
        return await asyncio.to_thread(spool.list_waiting, self._hooks)

    async def _store(self, name: str) -> None:
        # The attempt is counted before the work; otherwise an event that kills the process would be tried forever.
        tries = await asyncio.to_thread(spool.begin_try, self._hooks, name)
        if tries.failed >= MOST_FAILURES or tries.begun > MOST_BEGUN:
            await asyncio.to_thread(self._set_aside, name)
            return
        try:
            async with asyncio.timeout(EVENT_SECONDS):
                await self._store_open(await self._open(name))
        except FileNotFoundError:
            return  # another server was quicker
        except TimeoutError:
            log.warning("what a hook handed over took longer than %.0f seconds: %s", EVENT_SECONDS, name)
            await asyncio.to_thread(self._note_failure, name)
            return
        except (InvalidInput, ValueError, RecursionError):
            log.warning("what a hook handed over cannot be read: %s is set aside", name)
            await asyncio.to_thread(self._set_aside, name)
            return
        # The database or the server over HTTP is away, which is not the event's fault, so its tries do not count.
        except (LayerloreError, OSError) as error:
            log.warning("what a hook handed over waits: %s", error)
            await asyncio.to_thread(spool.forget_tries, self._hooks, name)
            return
        except Exception:
            log.exception("what a hook handed over cannot be stored")
            await asyncio.to_thread(self._note_failure, name)
            return
        # Dropped only after the store, so that no event is lost.
        await asyncio.to_thread(spool.drop, self._hooks, name)

    def _note_failure(self, name: str) -> None:
        if spool.note_failure(self._hooks, name).failed >= MOST_FAILURES:
            self._set_aside(name)

    def _set_aside(self, name: str) -> None:
        """Set an event aside, with its secrets masked. Raises nothing: an event that cannot be set aside keeps waiting."""
        try:
            spool.set_aside(self._hooks, name, self._mask)
        except OSError as error:
            log.warning("an event of a hook cannot be set aside: %s", error)

    def _mask(self, text: str) -> str:
        """Mask the secrets of an event as JSON, where names of fields count, too; as text if it is not JSON."""
        redactor = self._engine.redactor
        try:
            masked, _ = redactor.json(json.loads(text))
            return json.dumps(masked)
        except (ValueError, RecursionError, LimitExceeded):
            return redactor.text(text)[0]

    async def _store_open(self, opened: _Open) -> None:
        call = opened.call
        if opened.engine.memory != "on":
            return
        if call.url in self._away:
            raise RemoteUnreachable(f"{call.url} is away")
        session = await self._sessions.read(opened.scope, call.session)
        session.note_event(call.host, call.event.name, self._engine.now())
        if call.session and not opened.ignored.is_everything:
            capture = Capture(opened.memory, opened.settings.capture, opened.scope, self._sessions, session)
            try:
                await capture.store(call, opened.ignored)
            except RemoteUnreachable:
                self._away.add(call.url)
                raise
            # As with a local memory that is off, the position in the transcript stays and nothing is tried again.
            except MemoryClosed as closed:
                log.info("a hook stores nothing: %s", closed)
                return
            if session.messages:
                await asyncio.to_thread(note_captured, self._hooks, call.host, call.url, call.key_file)
            if call.memory_files and not call.by_subagent and _is_rest(call):
                await self._memory_files.keep_in_step(opened.engine, opened.scope, call)
        await self._sessions.write(session, opened.scope)

    async def _open(self, name: str) -> _Open:
        return await run_apart(lambda: self._read(name))

    def _read(self, name: str) -> _Open:
        handed = spool.read_event(self._hooks, name)
        call = read_call(name, handed)
        settings = self._settings_for(handed)
        scope = settings.scope_in(LOCAL_TENANT)
        engine = self._engine.for_agent(settings.agent)
        memory: HookMemory = LocalMemory(engine, scope, "local")
        if call.url:
            memory = RemoteMemory(open_endpoint(settings, call.url, call.key_file), engine)
            # The server has its own position in each transcript, so a session captured here is read again for it.
            scope = replace(scope, resource_id=f"{scope.resource_id} at {call.url}")
        return _Open(call, engine, settings, memory, scope, IgnoredPaths(call.folder))


def _is_rest(call: HookCall) -> bool:
    """Whether a session starts or ends. A host without an end event ends it at each stop."""
    says_end = any(event.moment == "end" for event in HOOK_EVENTS[call.host])
    return call.event.moment in ("start", "end" if says_end else "stop")
