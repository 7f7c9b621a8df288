"""The composition root: opens the memory that the settings describe, and runs the tools on it.

It imports everything heavy, so it is loaded in a thread after the server has begun to answer.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import anyio
from cachetools import LRUCache

from layerlore.memory.engine import journal_lines
from layerlore.memory.engine.engine import Denial, Engine, keep_reporting_denials, report_counted_denials, report_denial
from layerlore.memory.engine.journal_lines import make_line
from layerlore.memory.engine.status_answers import ProcessState
from layerlore.memory.rules.ages import MINUTE_MS, minutes_ago
from layerlore.memory.rules.time_zones import use_zone
from layerlore.memory.settings.context_settings import MemoryClosed
from layerlore.memory.text.quotation import escape_tags
from layerlore.memory.usage.call_counts import WRITE_SECONDS, estimate_shown
from layerlore.server.access.caller import UNKNOWN_CLIENT, Caller
from layerlore.server.access.credentials import LOCAL_TENANT, Principal, Right
from layerlore.server.access.openings import Openings
from layerlore.server.limits.room import TooMuch
from layerlore.server.process.late_imports import load_for
from layerlore.server.runtime.engines import close_engine, open_engine
from layerlore.server.settings.settings import Settings
from layerlore.server.subscriptions.notifications import NotificationHub
from layerlore.server.subscriptions.watcher import Watcher
from layerlore.server.tools.curation import memory_status
from layerlore.server.tools.declaration import Action, AnswerWithMedia, Call
from layerlore.server.tools.explorer import explore_memories
from layerlore.server.tools.hooks import store_messages
from layerlore.server.tools.messages import add_messages
from layerlore.server.tools.threads import list_all_threads
from layerlore.server.tools.toolsets import OF_PAGES, list_callable, list_writers
from layerlore.storage.audit import api_keys
from layerlore.storage.core.errors import StorageUnavailable
from layerlore.storage.core.records import ApiKey, Json, Origin, Scope, Tenant
from layerlore.storage.core.traces import annotate
from layerlore.storage.jobs import job_rows
from layerlore.storage.jobs.job_rows import Kind
from layerlore.storage.threads import threads

if TYPE_CHECKING:
    from layerlore.extraction.jobs.worker import JobWorker


FRESH_MS = 5_000
"""A count is valid this long, and a fifth of it once it exceeds half the limit."""
MOST_TENANTS = 1000


class QueueRoom:
    """Refuses writes of a tenant with ``most`` due jobs of the kinds that a worker does by itself; 0: any number.

    The jobs are not counted at each write, so a tenant may exceed the limit between two counts. Jobs that wait for their
    time, for a host's model or for the next day's budget do not count.
    """

    def __init__(self, engine: Engine, kinds: Callable[[], Collection[Kind]], most: int) -> None:
        self._engine = engine
        self._kinds = kinds
        self._most = most
        # By tenant: the jobs at the last count, and until when the count is valid.
        self._counts = LRUCache[str, tuple[int, int]](MOST_TENANTS)

    async def check(self, tenant_id: str) -> None:
        """Raises TooMuch if the tenant has too many due jobs, StorageUnavailable."""
        if not self._most:
            return
        now = self._engine.now()
        count, until = self._counts.get(tenant_id, (0, 0))
        if now >= until:
            # Meanwhile other requests use the old count, so that only one request counts.
            self._counts[tenant_id] = count, now + FRESH_MS
            count = await self._engine.database.read(
                job_rows.count_due, Tenant(tenant_id), self._kinds(), most=self._most, now=now
            )
            # Near the limit the count must be fresh, or it would be exceeded by much.
            until = now + (FRESH_MS if count < self._most / 2 else FRESH_MS // 5)
            self._counts[tenant_id] = count, until
        if count >= self._most:
            allowed = f"{self._most:,} are allowed to be due; nothing was stored"
            raise TooMuch("background jobs of your tenant", allowed, (until - now) / 1000)


RECENT_MS = 30 * MINUTE_MS
"""The hint only offers a conversation that changed within this time."""
_CHOOSE = "thread_id chooses another"
_GO_ON = "give it as thread_id to go on in it"
_MOST_KNOWN = 10_000


class DefaultThreads:
    """Adds the name of a default thread to answers. It remembers stored threads, so that a thread in use needs no
    lookup."""

    def __init__(self) -> None:
        self._known: set[tuple[Scope, str]] = set()

    async def add_note(self, answer: Any, call: Call) -> Any:
        """The answer; if the call used a default thread, with a note about it. A text gets one more line, the first of
        several texts gets that line, and a structure gets ``thread_id`` and ``note``."""
        # Only the answer of a call that used a default thread needs to name it.
        thread = call.default_use.thread_id
        if not thread:
            return answer
        is_new = call.caller.default == "new"
        hint = await self._hint(call, thread)
        how = hint or (_GO_ON if is_new else _CHOOSE)
        if isinstance(answer, AnswerWithMedia):
            return replace(answer, structure=await self.add_note(answer.structure, call))
        # If the thread is new, the model must learn how to continue it, or it would begin a new one with each message.
        if isinstance(answer, dict) and call.default_use.brief and not is_new:
            return {**answer, "thread_id": thread}
        if isinstance(answer, dict):
            note = f"default thread{', nobody wrote to it yet' if hint else ''}; {how}"
            # The note comes last, so that a model reads it after the answer.
            return {"thread_id": thread, **answer, "note": note}
        line = f"[default thread {thread}{', nobody wrote to it yet' if hint else ''}; {how}]"
        if isinstance(answer, str):
            return f"{answer}\n{line}"
        first, *rest = answer
        return [f"{first}\n{line}", *rest]

    async def _hint(self, call: Call, thread: str) -> str:
        """How to continue another recent conversation; "" if there is none, or if this one has begun."""
        known, now = (call.scope, thread), call.engine.now()
        # A write creates the thread, so only a read needs the lookup.
        if call.default_use.reads and known not in self._known:
            # Without the client's name it is unknown whose conversation it was, so the caller gets no hint.
            client = call.caller.client if call.caller.client != UNKNOWN_CLIENT else ""
            found = await call.engine.database.read(
                threads.find_elsewhere, call.scope, thread, client, since=now - RECENT_MS
            )
            if not found.there:
                shown, age = escape_tags(repr(found.thread_id)), minutes_ago(found.updated_at, now)
                if found.thread_id:
                    return f"go on with thread_id={shown} if this is the conversation of {age}"
                return ""
        # The set is a cache, so clearing it costs one lookup for each thread.
        if len(self._known) >= _MOST_KNOWN:
            self._known.clear()
        self._known.add(known)
        return ""


log = logging.getLogger(__name__)

LOAD_AFTER_SECONDS = 1.0
"""Background work begins this long after the start, so that the first calls have the cores to themselves. A process that
ends before never loads the embedder unless a query needs it; a later process embeds its texts."""
_ANSWERED_SECONDS = 10.0
_JOURNALED = list_writers() | {list_all_threads.name, explore_memories.name}
"""Tools that write their own lines in the journal."""
_ADDING = (add_messages.function, store_messages)
_OF_PAGES = frozenset(each.name for each in OF_PAGES)
_LAST_WRITE_SECONDS = 2.0


@dataclass(slots=True)
class _MeasuredCall:
    """A call under way: whether it has failed, and the tokens of its answer to a model."""

    failed: bool = True
    tokens: int = 0


class Runtime:
    """An open engine, calls on it, and the watcher of its changes."""

    def __init__(self, engine: Engine, settings: Settings, watcher: Watcher) -> None:
        self.engine = engine
        self.settings = settings
        self.watcher = watcher
        self.describe: Callable[[], ProcessState] = lambda: {"pid": os.getpid(), "shared": False}
        self._worker: JobWorker | None = None
        self._room: QueueRoom | None = None
        self._defaults = DefaultThreads()
        self._openings = Openings()
        self._tools: dict[tuple[frozenset[Right] | str | bool, ...], frozenset[str]] = {}
        self._under_way = 0
        self._answered: anyio.Event | None = None

    async def worker(self) -> "JobWorker":
        """The worker of this process, made at its first use."""
        await load_for(_make_worker)
        if self._worker is None:
            self._worker = _make_worker(self.engine, self.settings)
        return self._worker

    async def worker_of(self, engine: Engine) -> "JobWorker":
        """The worker of this process; for the engine of another cluster a new worker."""
        if engine is self.engine:
            return await self.worker()
        await load_for(_make_worker)
        return _make_worker(engine, self.settings)

    async def act(
        self, name: str, function: Action, caller: Caller, values: Json, given: frozenset[str], settings: Settings
    ) -> Any:
        """Run the function of a tool, a resource or a prompt, with the settings of its connection. Raises LayerloreError, or
        a defect."""
        with use_zone(caller.zone), self._counted(), self._measured(name, caller) as measured:
            # Only messages create many background jobs, and only other tenants have a limit on them.
            if function in _ADDING and not caller.principal.local:
                await self._check_room(caller.principal.tenant)
            # Imports happen in a thread before the call, so that no other call waits for them.
            await load_for(function)
            agent = caller.scope.agent_id
            engine, settings = self.engine.for_agent(agent), settings.for_agent(agent)
            # An operator may read a memory that is switched off.
            if settings.memory == "off" and function is not memory_status.function and not caller.operates:
                raise MemoryClosed(settings.describe_closed(agent))
            tools = self._tools_for(settings, caller.principal.rights)
            annotate("gen_ai.memory.store.id", journal_lines.resource_mark(engine.hmac_key, caller.scope.resource_id))
            call = Call(
                name, engine, settings, caller, given, self._worker, tools, self.describe, openings=self._openings
            )
            answer = await function(call, **values)
            # Set at the end, so that a call that raises stays marked as failed.
            measured.failed, measured.tokens = False, estimate_shown(name, answer)
            if caller.operates and name not in _JOURNALED:
                # An operator reads other people's memories, so the journal records each read.
                line = make_line(engine.hmac_key, caller.scope, call.sent().origin, "done", engine.now())
                await journal_lines.append(engine.database, caller.scope, line)
            return await self._defaults.add_note(answer, call)

    def _tools_for(self, settings: Settings, rights: frozenset[Right]) -> frozenset[str]:
        key = (rights, settings.memory, settings.working_memory.read_only, settings.entries.enabled, *settings.toolsets)
        if key not in self._tools:
            self._tools[key] = list_callable(settings, rights)
        return self._tools[key]

    async def first_calls_answered(self) -> None:
        """Return after LOAD_AFTER_SECONDS, as soon as no call is under way. A call that takes too long does not delay it."""
        await anyio.sleep(LOAD_AFTER_SECONDS)
        with anyio.move_on_after(_ANSWERED_SECONDS):
            while self._under_way:
                self._answered = anyio.Event()
                await self._answered.wait()

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
            if self._answered is not None:
                self._answered.set()

    @contextlib.contextmanager
    def _measured(self, name: str, caller: Caller) -> Iterator[_MeasuredCall]:
        """Count a call and its duration, unless a page makes it."""
        measured, began = _MeasuredCall(), perf_counter()
        try:
            yield measured
        finally:
            # A page makes many calls at once, which would hide those of models.
            if not caller.by_page and name not in _OF_PAGES:
                took, now = (perf_counter() - began) * 1000, self.engine.now()
                self.engine.counts.count_call(
                    caller.scope, name, now, took, failed=measured.failed, tokens=measured.tokens
                )

    async def _check_room(self, tenant: str) -> None:
        if self._room is None:
            kinds = (await self.worker()).kinds
            self._room = self._room or QueueRoom(self.engine, lambda: kinds, self.settings.rates.tenant_jobs)
        await self._room.check(tenant)

    async def api_key(self, digest: str) -> ApiKey | None:
        """The stored key with this digest, if its tenant may be served. Raises StorageUnavailable."""
        key = await self.engine.database.read_installation(api_keys.by_digest, digest)
        # The serving role could bypass row-level security, so only this machine's own tenant may be served.
        if key is not None and key.tenant_id != LOCAL_TENANT and (unfit := self.engine.database.unfit):
            log.error("a key of another tenant is refused: %s, so that row-level security does not hold it", unfit)
            return None
        return key

    async def record_refusal(
        self, principal: Principal, *, tool: str, client: str, error: Exception, resource: str = ""
    ) -> None:
        """Record a refused call in the journal. ``resource``: the one that the call named. Raises nothing.

        If the principal may act for several agents, the line names none, since the caller's choice is unchecked text.
        """
        if principal.agents is not None and len(principal.agents) == 1:
            agent = next(iter(principal.agents))
        else:
            agent = ""
        scope = Scope(principal.tenant, agent, resource or principal.resource or "")
        origin = Origin(client, tool, principal.name)
        await report_denial(self.engine, Denial(scope, origin, type(error).__name__))

    async def report_denials(self) -> None:
        """Report refused calls that were only counted to the journal, until cancelled. Raises nothing."""
        await keep_reporting_denials(self.engine)

    async def keep_counts(self) -> None:
        """Write the counts of calls once a minute, until cancelled. Raises nothing."""
        while True:
            await anyio.sleep(WRITE_SECONDS)
            await self._write_counts()

    async def _write_counts(self) -> None:
        try:
            await self.engine.counts.write(self.engine.database, self.engine.now())
        except StorageUnavailable as error:
            log.debug("the counts of calls could not be written yet: %s", error)
        except Exception:
            log.exception("the counts of calls could not be written")

    def mask(self, text: str) -> str:
        """The text of an error with its secrets masked."""
        return self.engine.derived_text(text)

    async def close(self) -> None:
        # Written while the database is still open, so that the counts of the last minute are not lost.
        await report_counted_denials(self.engine)
        with anyio.move_on_after(_LAST_WRITE_SECONDS):
            await self._write_counts()
        await close_engine(self.engine)


def _make_worker(engine: Engine, settings: Settings) -> "JobWorker":
    from layerlore.extraction.jobs.registry import make_worker

    return make_worker(engine, settings.llm, tenant_daily_tokens=settings.rates.tenant_model_tokens_per_day)


async def open_runtime(settings: Settings, hub: NotificationHub) -> Runtime:
    """Open the database, migrate it, read the encoding. Raises LayerloreError."""
    # The modules of the usual first call are loaded while the database waits for its disk.
    loading = asyncio.create_task(load_for(add_messages.function))
    engine = await open_engine(settings)
    await loading
    return Runtime(engine, settings, Watcher(engine.database, hub.interest, hub.publish))
