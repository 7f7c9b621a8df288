"""The composition root: opens what the settings name, and runs the tools' actions on it.

Loaded in a thread after the server began to answer: everything heavy is imported from here.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import anyio
import uuid_utils

from layerlore.memory import denying
from layerlore.memory.denials import Denial
from layerlore.memory.embedding import choosing
from layerlore.memory.embedding.service import Embedding
from layerlore.memory.engine import Engine
from layerlore.memory.entry_rules import EntryRules
from layerlore.memory.limits import Limits
from layerlore.memory.observing import ObservationRules
from layerlore.memory.recall_rules import RecallRules
from layerlore.memory.redaction import Redactor, mask_without_key
from layerlore.memory.tokens import TokenCounter, load_counter
from layerlore.server.access.principal import LOCAL_TENANT, Principal
from layerlore.server.actions.beside_tools import action_beside
from layerlore.server.actions.by_tool import action_of
from layerlore.server.actions.call import Call
from layerlore.server.actions.default_thread import DefaultThreads
from layerlore.server.caller import Caller
from layerlore.server.document_rules import working_memory_rules
from layerlore.server.late import load
from layerlore.server.logs import mask_logs
from layerlore.server.notifications import NotificationHub
from layerlore.server.queue_room import QueueRoom
from layerlore.server.settings import Settings
from layerlore.server.watching import Watcher
from layerlore.server.window_rules import window_rules
from layerlore.storage import api_keys
from layerlore.storage.database import open_database
from layerlore.storage.embedders import dimension_of
from layerlore.storage.installation import hmac_key
from layerlore.storage.records import ApiKey, Origin, Scope
from layerlore.storage.transaction import Database

if TYPE_CHECKING:
    from layerlore.extraction.worker import JobWorker

log = logging.getLogger(__name__)

LOAD_AFTER_SECONDS = 1.0
"""The first calls have the cores to themselves, and a process that serves only them never loads the embedder, unless a
query needs it: what such a process writes is embedded by the next that stays."""
_ANSWERED_SECONDS = 10.0


class Runtime:
    """An open engine, the actions on it, and what tells of its changes."""

    def __init__(self, engine: Engine, settings: Settings, watcher: Watcher) -> None:
        self.engine = engine
        self.settings = settings
        self.watcher = watcher
        self._worker: JobWorker | None = None
        self._room: QueueRoom | None = None
        self._defaults = DefaultThreads()
        self._under_way = 0
        self._answered = anyio.Event()

    async def worker(self) -> "JobWorker":
        """Who does the background work of this process, made when it is first asked for."""
        thinking = await load("layerlore.server.thinking")
        if self._worker is None:
            tokens = self.settings.rates.tenant_model_tokens_per_day
            self._worker = thinking.worker(self.engine, self.settings.llm, tenant_daily_tokens=tokens)
        return self._worker

    async def act(self, tool: str, caller: Caller, values: dict[str, Any], given: frozenset[str]) -> Any:
        """Run a tool's action. Raises LayerloreError, or a defect."""
        with self._counted():
            if tool == "add_messages" and not caller.principal.local:
                await self._check_room(caller.principal.tenant)
            action = await action_of(tool)
            call = Call(tool, self.engine, self.settings, caller, given, self._worker)
            return await self._defaults.told(call, await action(call, **values))

    async def act_beside(self, name: str, caller: Caller, values: dict[str, Any]) -> Any:
        """Run what serves a prompt or a completion. Raises LayerloreError, or a defect."""
        with self._counted():
            action = await action_beside(name)
            call = Call(name, self.engine, self.settings, caller, frozenset(values), self._worker)
            return await self._defaults.told(call, await action(call, **values))

    async def first_calls_answered(self) -> None:
        """Return when a while has passed and no call is under way; a call that takes long is not waited for."""
        await anyio.sleep(LOAD_AFTER_SECONDS)
        with anyio.move_on_after(_ANSWERED_SECONDS):
            while self._under_way:
                await self._answered.wait()

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
            self._answered.set()
            self._answered = anyio.Event()

    async def _check_room(self, tenant: str) -> None:
        if self._room is None:
            kinds = (await self.worker()).kinds
            self._room = self._room or QueueRoom(self.engine, lambda: kinds, self.settings.rates.tenant_jobs)
        await self._room.check(tenant)

    async def api_key(self, digest: str) -> ApiKey | None:
        """What is stored of the key with this digest, of any tenant that may be served. Raises StorageUnavailable."""
        key = await self.engine.database.read_installation(api_keys.by_digest, digest)
        if key is not None and key.tenant_id != LOCAL_TENANT and (unfit := self.engine.database.unfit):
            log.error("a key of another tenant is refused: %s, so that row-level security does not hold it", unfit)
            return None
        return key

    async def denied(
        self, principal: Principal, *, tool: str, client: str, error: Exception, resource: str = ""
    ) -> None:
        """Have the journal say that a call was refused; ``resource`` is the one that it named. Raises nothing.

        Where the principal may act for several agents, none is named: which one the caller meant is its own text.
        """
        agent = next(iter(principal.agents)) if principal.agents is not None and len(principal.agents) == 1 else ""
        scope = Scope(principal.tenant, agent, resource or principal.resource or "")
        origin = Origin(client, tool, principal.name)
        await denying.denied(self.engine, Denial(scope, origin, type(error).__name__))

    async def tell_denials(self) -> None:
        """Have the journal tell of refused calls that were only counted, until cancelled. Raises nothing."""
        await denying.keep_telling(self.engine)

    def masked(self, text: str) -> str:
        """A text that leaves the server beside the memory itself: an error."""
        return self.engine.derived_text(text)

    async def close(self) -> None:
        await denying.tell_rest(self.engine)
        await close_engine(self.engine)


async def open_runtime(settings: Settings, hub: NotificationHub) -> Runtime:
    """Open the database, migrate it, read the encoding. Raises LayerloreError."""
    # The action that most processes serve first is loaded while the database waits for its disk.
    loading = asyncio.create_task(action_of("add_messages"))
    engine = await open_engine(settings)
    await loading
    return Runtime(engine, settings, Watcher(engine.database, hub.interest, hub.tell))


async def close_engine(engine: Engine) -> None:
    """The database first: what an embedder is at may take its time, and nobody waits for it any more."""
    await engine.database.close()
    if engine.embedding is not None:
        await engine.embedding.close()


async def open_engine(settings: Settings) -> Engine:
    """The engine that the settings describe; its database is open, its embedder not loaded. Raises LayerloreError."""
    mask_logs(mask_without_key)
    rules = working_memory_rules(settings.working_memory)
    limits = Limits(**settings.limits.model_dump())
    window_rules(settings, limits, TokenCounter(None))  # a mistake is told before a database is made
    url = settings.database.get_secret_value() if settings.memory == "on" else "sqlite://:memory:"
    counting = asyncio.create_task(asyncio.to_thread(load_counter))
    database = await open_database(
        url,
        settings.database_file,
        synchronous=settings.sqlite.synchronous,
        readers=settings.sqlite.readers,
        pool_size=settings.postgres.pool_size,
        listen_url=settings.postgres.listen_url.get_secret_value(),
    )
    try:
        key = await database.read_installation(hmac_key)
        embedding = await _embedding(settings, database)
        counter = await counting
    except BaseException:
        await database.close()
        raise
    return Engine(
        database=database,
        tokens=counter,
        redactor=Redactor(key),
        hmac_key=key,
        limits=limits,
        redaction=settings.redaction,
        deleted_days=settings.retention.deleted_days,
        now=lambda: time.time_ns() // 1_000_000,
        new_id=lambda: str(uuid_utils.uuid7()),
        working_memory=rules,
        recall=RecallRules(**settings.recall.model_dump()),
        observation=ObservationRules(**settings.observation.model_dump()),
        entries=EntryRules(**settings.entries.model_dump()),
        windows=window_rules(settings, limits, counter),
        embedding=embedding,
    )


async def _embedding(settings: Settings, database: Database) -> Embedding | None:
    embedder = choosing.embedder(settings.embedding) if settings.memory == "on" else None
    if embedder is None:
        return None
    embedding = Embedding(embedder, patience_ms=settings.embedding.query_patience_ms)
    embedding.expect(await database.read_installation(dimension_of, embedder.name))
    return embedding
