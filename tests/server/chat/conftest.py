"""A reference agent in this process: its own client of a server, and a model behind a socket."""

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from fake_openai import FakeOpenAI, fake_openai
from mcp import Client

from layerlore.server.chat.agent import Agent
from layerlore.server.chat.memory import Memory
from layerlore.server.chat.model import LitellmModel
from layerlore.server.chat.tools import Tool, Toolbox
from layerlore.server.runtime.tool_server import build_server
from layerlore.server.settings.settings import load_settings

THREAD = "trip"

OpenAgent = Callable[..., AbstractAsyncContextManager[Agent]]
"""An agent with these tools; each has a client of its own, as a process would."""


@pytest.fixture
def provider() -> Iterator[FakeOpenAI]:
    with fake_openai() as fake:
        yield fake


@pytest.fixture
def open_agent(sqlite_url: str, provider: FakeOpenAI) -> OpenAgent:
    settings = load_settings(
        {"database": sqlite_url, "embedding": {"embedder": "none"}, "toolsets": "agent"}, environ={}
    )

    @contextlib.asynccontextmanager
    async def opened(*tools: Tool, **options: Any) -> AsyncIterator[Agent]:
        model = LitellmModel("openai/gpt-4o-mini", api_base=provider.url)
        async with contextlib.AsyncExitStack() as stack, Client(build_server(settings)) as client:
            stack.push_async_callback(model.close)
            yield Agent(Memory(client, THREAD), model, Toolbox(tools), **options)

    return opened
