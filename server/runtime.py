"""The composition root: opens what the settings name, and runs the tools' actions on it.

Loaded in a thread after the server began to answer: everything heavy is imported from here.
"""

import asyncio
import logging
import time
from typing import Any

import anyio
import uuid_utils

from memstrata.memory.deleting import erase_expired
from memstrata.memory.embedding import choosing
from memstrata.memory.embedding.service import Embedding
from memstrata.memory.engine import Engine
from memstrata.memory.entry_rules import EntryRules
from memstrata.memory.limits import Limits
from memstrata.memory.observing import ObservationRules
from memstrata.memory.recall_rules import RecallRules
from memstrata.memory.redaction import Redactor, mask_without_key
from memstrata.memory.reindexing import rebuild_old
from memstrata.memory.runs import expire_runs
from memstrata.memory.tokens import TokenCounter, load_counter
from memstrata.memory.vector_writing import VectorWriter
from memstrata.server.actions.beside_tools import BESIDE_TOOLS
from memstrata.server.actions.by_tool import ACTIONS
from memstrata.server.actions.call import Call
from memstrata.server.caller import Caller
from memstrata.server.document_rules import working_memory_rules
from memstrata.server.logs import mask_logs
from memstrata.server.notifications import NotificationHub
from memstrata.server.settings import Settings
from memstrata.server.thinking import worker
from memstrata.server.watching import Watcher
from memstrata.server.window_rules import window_rules
from memstrata.storage.database import open_database
from memstrata.storage.embedders import dimension_of
from memstrata.storage.errors import MemstrataError
from memstrata.storage.installation import hmac_key, rewrite_owed, rewritten
from memstrata.storage.sqlite_database import SqliteDatabase
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
        self.worker = worker(engine, settings.llm)

    async def act(self, tool: str, caller: Caller, values: dict[str, Any], given: frozenset[str]) -> Any:
        """Run a tool's action. Raises MemstrataError, or a defect."""
        return await ACTIONS[tool](Call(tool, self.engine, self.settings, caller, given, self.worker), **values)

    async def act_beside(self, name: str, caller: Caller, values: dict[str, Any]) -> Any:
        """Run what serves a prompt or a completion. Raises MemstrataError, or a defect."""
        return await BESIDE_TOOLS[name](
            Call(name, self.engine, self.settings, caller, frozenset(values), self.worker), **values
        )

    def masked(self, text: str) -> str:
        """A text that leaves the server beside the memory itself: an error."""
        return self.engine.derived_text(text)

    async def erase(self) -> None:
        """Erase what was deleted long enough ago and runs that have expired, and, on SQLite, the bytes that erased
        rows left in the file."""
        erased = await erase_expired(self.engine)
        if erased:
            log.info("erased %d deletes for good", erased)
        expired = await expire_runs(self.engine)
        if expired:
            log.info("removed %d runs whose checkpoints had expired", expired)
        database = self.engine.database
        if isinstance(database, SqliteDatabase) and await database.read(rewrite_owed) and await database.rewrite():
            await database.write(rewritten)

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
        key = await database.read(hmac_key)
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
    embedding.expect(await database.read(dimension_of, embedder.name))
    return embedding
