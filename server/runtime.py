"""The composition root: opens what the settings name, and runs the tools' actions on it.

Loaded in a thread after the server began to answer: everything heavy is imported from here.
"""

import asyncio
import logging
import time
from typing import Any

import anyio
import uuid_utils

from memstrata.memory import denying
from memstrata.memory.deleting import erase_expired
from memstrata.memory.denials import Denial
from memstrata.memory.embedding import choosing
from memstrata.memory.embedding.service import Embedding
from memstrata.memory.engine import Engine
from memstrata.memory.entry_rules import EntryRules
from memstrata.memory.erasing import finish_erasures, rewrite_if_owed
from memstrata.memory.limits import Limits
from memstrata.memory.observing import ObservationRules
from memstrata.memory.recall_rules import RecallRules
from memstrata.memory.redaction import Redactor, mask_without_key
from memstrata.memory.reindexing import rebuild_old
from memstrata.memory.runs import expire_runs
from memstrata.memory.tokens import TokenCounter, load_counter
from memstrata.memory.vector_writing import VectorWriter
from memstrata.server.access.principal import LOCAL_TENANT, Principal
from memstrata.server.actions.beside_tools import BESIDE_TOOLS
from memstrata.server.actions.by_tool import ACTIONS
from memstrata.server.actions.call import Call
from memstrata.server.caller import Caller
from memstrata.server.document_rules import working_memory_rules
from memstrata.server.logs import mask_logs
from memstrata.server.notifications import NotificationHub
from memstrata.server.queue_room import QueueRoom
from memstrata.server.settings import Settings
from memstrata.server.several_tenants import one_tenant_only
from memstrata.server.thinking import worker
from memstrata.server.watching import Watcher
from memstrata.server.window_rules import window_rules
from memstrata.storage import api_keys
from memstrata.storage.database import open_database
from memstrata.storage.embedders import dimension_of
from memstrata.storage.errors import MemstrataError
from memstrata.storage.installation import hmac_key
from memstrata.storage.records import ApiKey, Origin, Scope
from memstrata.storage.transaction import Database

log = logging.getLogger(__name__)

LOAD_AFTER_SECONDS = 1.0
"""The first calls have the cores to themselves, and a process that serves only them never loads the embedder, unless a
query needs it: what such a process writes is embedded by the next that stays."""


class Runtime:
    """An open engine, the actions on it, and what tells of its changes."""

    def __init__(self, engine: Engine, settings: Settings, watcher: Watcher) -> None:
        self.engine = engine
        self.settings = settings
        self.watcher = watcher
        rates = settings.rates
        self.worker = worker(engine, settings.llm, tenant_daily_tokens=rates.tenant_model_tokens_per_day)
        self._room = QueueRoom(engine, lambda: self.worker.kinds, rates.tenant_jobs)

    async def act(self, tool: str, caller: Caller, values: dict[str, Any], given: frozenset[str]) -> Any:
        """Run a tool's action. Raises MemstrataError, or a defect."""
        if tool == "add_messages" and not caller.principal.local:
            await self._room.check(caller.principal.tenant)
        return await ACTIONS[tool](Call(tool, self.engine, self.settings, caller, given, self.worker), **values)

    async def act_beside(self, name: str, caller: Caller, values: dict[str, Any]) -> Any:
        """Run what serves a prompt or a completion. Raises MemstrataError, or a defect."""
        return await BESIDE_TOOLS[name](
            Call(name, self.engine, self.settings, caller, frozenset(values), self.worker), **values
        )

    async def api_key(self, digest: str) -> ApiKey | None:
        """What is stored of the key with this digest, of any tenant that may be served. Raises StorageUnavailable."""
        key = await self.engine.database.read_installation(api_keys.by_digest, digest)
        if key is not None and key.tenant_id != LOCAL_TENANT and (unfit := one_tenant_only(self.engine.database)):
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

    async def erase(self) -> None:
        """Erase what an interrupted erasure left, what was deleted long enough ago and runs that have expired, and, on
        SQLite, the bytes that erased rows left in the file."""
        rows = await finish_erasures(self.engine)
        if rows:
            log.info("finished an erasure that was interrupted: %d rows", rows)
        erased = await erase_expired(self.engine)
        if erased:
            log.info("erased %d deletes for good", erased)
        expired = await expire_runs(self.engine)
        if expired:
            log.info("removed %d runs whose checkpoints had expired", expired)
        await rewrite_if_owed(self.engine)

    async def keep_index(self) -> None:
        """Keep words and vectors of what is stored up to date, until cancelled. Raises nothing."""
        if self.settings.memory == "off":
            return
        if self.engine.embedding is None:
            await self._rebuild_old()
            return
        await anyio.sleep(LOAD_AFTER_SECONDS)
        self.engine.embedding.start()
        # It begins with all that lacks a vector, also what was written meanwhile.
        await VectorWriter(self.engine, self.engine.embedding, self.engine.new_id()).run()

    async def do_jobs(self) -> None:
        """Do background work, until cancelled. Raises nothing."""
        if self.settings.memory == "off":
            return
        await anyio.sleep(LOAD_AFTER_SECONDS)
        await self.worker.run()

    async def _rebuild_old(self) -> None:
        try:
            await rebuild_old(self.engine)
        except MemstrataError as error:
            log.warning("some messages are still indexed by older rules, until the next start: %s", error)
        except Exception:
            log.exception("some messages are still indexed by older rules, until the next start")

    async def close(self) -> None:
        await denying.tell_rest(self.engine)
        await close_engine(self.engine)


async def open_runtime(settings: Settings, hub: NotificationHub) -> Runtime:
    """Open the database, migrate it, load the encoding. Raises MemstrataError."""
    engine = await open_engine(settings)
    return Runtime(engine, settings, Watcher(engine.database, hub.interest, hub.tell))


async def close_engine(engine: Engine) -> None:
    """The database first: what an embedder is at may take its time, and nobody waits for it any more."""
    await engine.database.close()
    if engine.embedding is not None:
        await engine.embedding.close()


async def open_engine(settings: Settings) -> Engine:
    """The engine that the settings describe; its database is open, its embedder not loaded. Raises MemstrataError."""
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
