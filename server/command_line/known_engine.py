"""The engine of a command, on an existing database. Importing it takes longer than importing the database alone."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from layerlore.memory.engine.engine import Engine
from layerlore.server.access.caller import make_terminal_caller
from layerlore.server.command_line.known_database import expect_database
from layerlore.server.runtime.engines import close_engine, open_engine
from layerlore.server.settings.settings import Settings
from layerlore.server.tools.declaration import Call, Declaration
from layerlore.storage.core.records import Json, Scope

_PATIENCE_MS = 20_000
"""Long enough to load the embedder, since a person prefers a full answer to a quick one."""

Plain = Callable[..., Awaitable[Any]]
"""A function that takes a Call first, as a tool does."""
Ask = Callable[..., Awaitable[Any]]
"""Calls a tool, or a function that takes a Call, with arguments by name. Returns its answer."""


@asynccontextmanager
async def open_known_memory(settings: Settings, *, off: str, absent: str) -> AsyncIterator[Engine]:
    """Open the engine, and close it afterwards. Raises InvalidInput, NotFound, StorageUnavailable or DatabaseTooNew."""
    await expect_database(settings, off=off, absent=absent)
    engine = await open_engine(settings)
    try:
        yield engine
    finally:
        await close_engine(engine)


@asynccontextmanager
async def calling(
    settings: Settings, scope: Scope, *, off: str, absent: str, by_meaning: bool = False
) -> AsyncIterator[Ask]:
    """Open the memory, and yield a function that calls tools as the person at this machine. ``by_meaning``: with the
    embedder, which takes a moment to load. Raises InvalidInput, NotFound, StorageUnavailable or DatabaseTooNew."""
    change: Json = {"query_patience_ms": _PATIENCE_MS, "load_patience_ms": _PATIENCE_MS}
    # The embedder takes seconds to load, and ids need no search.
    embedding = settings.embedding.model_copy(update=change if by_meaning else {"embedder": "none"})
    settings = settings.model_copy(update={"embedding": embedding})
    async with open_known_memory(settings, off=off, absent=absent) as engine:
        caller = make_terminal_caller(scope, settings.thread)

        async def ask(tool: Declaration | Plain, **arguments: Any) -> Any:
            engine_of_agent = engine.for_agent(scope.agent_id)
            if not isinstance(tool, Declaration):
                return await tool(Call("edit", engine_of_agent, settings, caller, frozenset()), **arguments)
            # A command checks its own options. The SDK, which checks the arguments of clients, takes half a second to load.
            call = Call(tool.name, engine_of_agent, settings, caller, frozenset(arguments))
            return await tool.function(call, **arguments)

        yield ask
