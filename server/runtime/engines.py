"""Opens the engine that the settings describe, for a server or a command.

It does not import the SDK, which would cost a command half a second.
"""

import asyncio
import time
from dataclasses import replace
from pathlib import Path

import platformdirs
import uuid_utils

from layerlore.memory.embedding import choice
from layerlore.memory.embedding.service import EmbeddingService
from layerlore.memory.engine.engine import Engine
from layerlore.memory.parts.tokens import TokenCounter, load_counter
from layerlore.memory.rules.json_schema import check_schema
from layerlore.memory.secrets.redaction import Redactor, mask_without_key
from layerlore.memory.settings.context_settings import WindowSettings
from layerlore.memory.settings.note_settings import WorkingMemoryRules
from layerlore.memory.window.policy import WindowPolicy, WindowRules, read_policy
from layerlore.server.process.logs import mask_logs
from layerlore.server.settings.sections import shard_urls
from layerlore.server.settings.settings import Settings, SettingsError
from layerlore.storage.core.errors import LayerloreError
from layerlore.storage.core.installation import hmac_key
from layerlore.storage.core.transaction import Database
from layerlore.storage.drivers.dialect import OpenOptions, dialect_of
from layerlore.storage.index.vectors import dimension_of


def check_rules(settings: Settings, counter: TokenCounter) -> None:
    """Check the documents and the windows of the server and of each agent. Raises SettingsError."""
    # "" is the server itself, whose rules also hold for agents without a profile.
    for agent in ("", *settings.agents):
        of_agent = settings.for_agent(agent)
        _check_documents(of_agent.working_memory, _place(agent))
        window_rules(of_agent, counter, agent)


def _place(agent: str) -> str:
    if agent:
        return f"agents.{agent}."
    return ""


def _check_documents(rules: WorkingMemoryRules, place: str) -> None:
    for name, document in (("thread", rules.thread), ("resource", rules.resource)):
        where = f"{place}working_memory.{name}"
        size = len(document.template.encode())
        if size > rules.max_bytes:
            raise SettingsError(
                f"{where}.template: {size:,} bytes; {place}working_memory.max_bytes is {rules.max_bytes:,}"
            )
        if document.json_schema:
            try:
                check_schema(document.json_schema, f"{where}.json_schema")
            except LayerloreError as error:
                raise SettingsError(str(error)) from None


def window_rules(settings: Settings, counter: TokenCounter, agent: str = "") -> WindowRules:
    """The windows' policies, with their options and predefined messages checked. ``agent``: the agent that the settings
    belong to, "" for the server's own. Raises SettingsError."""
    return WindowRules(
        default=_policy(settings.window, f"{_place(agent)}window", settings, counter),
        named={name: _policy(each, f"windows.{name}", settings, counter) for name, each in settings.windows.items()},
    )


def _policy(given: WindowSettings, where: str, settings: Settings, counter: TokenCounter) -> WindowPolicy:
    # An empty prompt means the built-in one.
    options = {name: value for name, value in given.model_dump(exclude_unset=True).items() if value != ""}
    try:
        # As in the rest of the settings, the operator's texts are not searched for secrets.
        return read_policy(options, where, WindowPolicy(), counter, settings.limits, lambda parts: (parts, 0))
    except LayerloreError as error:
        raise SettingsError(str(error)) from None


async def close_engine(engine: Engine) -> None:
    """Close the database and the embedder."""
    # The database comes first, since an embedder's last batch may take a while.
    await engine.database.close()
    if engine.embedding is not None:
        await engine.embedding.close()


async def open_engine(settings: Settings) -> Engine:
    """Open the engine that the settings describe: with an open database and an unloaded embedder. Raises LayerloreError."""
    mask_logs(mask_without_key)
    check_rules(settings, TokenCounter(None))  # so that no database is created for wrong settings
    if settings.memory != "off":
        url = settings.database.get_secret_value()
    else:
        # Memory off still needs an engine for its answers, but must touch no file.
        url = "sqlite://:memory:"
    # The counter's tables load while the database opens.
    counting = asyncio.create_task(asyncio.to_thread(load_counter))
    options = OpenOptions(
        settings.database_file,
        synchronous=settings.sqlite.synchronous,
        readers=settings.sqlite.readers,
        pool_size=settings.postgres.pool_size,
        listen_url=settings.postgres.listen_url.get_secret_value(),
        idle_seconds=settings.postgres.idle_seconds,
        lock_seconds=settings.postgres.lock_seconds,
        shards=shard_urls(settings.shards) if settings.memory != "off" else {},
    )
    database = await dialect_of(url).open(url, options)
    try:
        key = await database.read_installation(hmac_key)
        embedding = await _embedding(settings, database)
        counter = await counting
    # BaseException, since the file must also be closed after a cancellation.
    except BaseException:
        await database.close()
        raise
    engine = Engine(
        database=database,
        tokens=counter,
        redactor=Redactor(key),
        hmac_key=key,
        limits=settings.limits,
        redaction=settings.redaction,
        deleted_days=settings.retention.deleted_days,
        now=lambda: time.time_ns() // 1_000_000,
        new_id=lambda: str(uuid_utils.uuid7()),
        working_memory=settings.working_memory,
        recall=settings.recall,
        observation=settings.observation,
        entries=settings.entries,
        titles=settings.title_rules,
        retention=settings.retention,
        context=settings.context,
        windows=window_rules(settings, counter),
        memory=settings.memory,
        embedding=embedding,
    )
    return replace(engine, agents={name: _with_rules(engine, settings, name) for name in settings.agents})


def _with_rules(engine: Engine, settings: Settings, agent: str) -> Engine:
    """The engine with the rules of an agent that has settings of its own."""
    own = settings.for_agent(agent)
    return replace(
        engine,
        working_memory=own.working_memory,
        recall=own.recall,
        entries=own.entries,
        context=own.context,
        windows=window_rules(own, engine.tokens, agent),
        memory=own.memory,
    )


def _embedder_folders(settings: Settings) -> list[Path]:
    """The folders where the built-in embedder may unpack its tables, best first: one for all data folders of a user, then
    the data folder. The user may delete the tables at any time."""
    shared = platformdirs.user_cache_path("layerlore", appauthor=False)
    # Without a home folder the path of the cache is relative.
    bases = [shared, settings.data_dir] if shared.is_absolute() else [settings.data_dir]
    return [base / "embedder" for base in bases]


async def _embedding(settings: Settings, database: Database) -> EmbeddingService | None:
    if settings.memory == "off":
        return None
    embedder = choice.make_embedder(settings.embedding, unpack_into=_embedder_folders(settings))
    if embedder is None:
        return None
    embedding = EmbeddingService(
        embedder,
        patience_ms=settings.embedding.query_patience_ms,
        load_patience_ms=settings.embedding.load_patience_ms,
    )
    # Known dimensions let a query be checked before the embedder is loaded.
    embedding.expect(await database.read_installation(dimension_of, embedder.name))
    return embedding
