"""Resources and prompts over HTTP: which conversation is the current one, in each protocol era."""

import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from layerlore.server.access.credentials import NoCredentials, local_principal
from layerlore.server.access.exposure import AllowedHeaders
from layerlore.server.access.gate import Gate
from layerlore.server.http.transport import build_app
from layerlore.server.resources.kinds import OF_A_THREAD
from layerlore.server.resources.requests import uri_of
from layerlore.server.runtime.tool_server import build_server
from layerlore.server.settings.settings import load_settings

from ..gated_server import ANA, Told, connected, served, settings_in

pytestmark = pytest.mark.anyio

HOST = "http://127.0.0.1:8765"
FIXED = ["memory://profile", "memory://entries", "memory://threads", "memory://status"]

Connect = Callable[..., AbstractAsyncContextManager[Client]]


@pytest.fixture
async def connect(tmp_path: Path) -> AsyncIterator[Connect]:
    """Opens a client of one server, without a socket between them."""
    given = {"database": f"sqlite:///{tmp_path}/memory.db", "embedding": {"embedder": "none"}}
    settings = load_settings(given, environ={})
    gate = Gate(NoCredentials(local_principal(settings.agent, settings.resource)))
    app = build_app(build_server(settings), allowed=AllowedHeaders(["127.0.0.1:*"]), gate=gate)

    @contextlib.asynccontextmanager
    async def opened(mode: str, **headers: str) -> AsyncIterator[Client]:
        transport = httpx2.ASGITransport(app)
        async with (
            httpx2.AsyncClient(transport=transport, headers=headers) as http,
            Client(streamable_http_client(f"{HOST}/mcp", http_client=http), mode=mode) as client,
        ):
            yield client

    async with app.router.lifespan_context(app):
        yield opened


async def uris(client: Client) -> list[str]:
    return [resource.uri for resource in (await client.list_resources()).resources]


async def test_without_a_session_there_is_no_current_conversation(connect: Connect) -> None:
    async with connect("auto") as client:
        assert await uris(client) == FIXED
        told = (await client.get_prompt("resume_work")).messages[0].content.text  # type: ignore[union-attr]
        assert "the conversation 'session-" in told
        assert "give it as thread_id to go on in it" in told


async def test_the_header_names_the_current_conversation(connect: Connect) -> None:
    async with connect("auto", **{"Layerlore-Thread": "mine"}) as client:
        assert await uris(client) == [*FIXED, *(uri_of(kind, "mine") for kind in OF_A_THREAD)]
        for kind in OF_A_THREAD:
            await client.read_resource(uri_of(kind, "mine"))


@pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")
async def test_a_session_has_a_conversation_of_its_own(connect: Connect) -> None:
    async with connect("legacy") as client:
        found = await uris(client)
        assert len(found) == len(FIXED) + len(OF_A_THREAD)
        assert found == await uris(client)
        for uri in found:
            await client.read_resource(uri)


@pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")
async def test_a_server_that_has_ended_leaves_the_answers_of_the_next_whole(connect: Connect, tmp_path: Path) -> None:
    async with served(settings_in(tmp_path), Told(ana=ANA)) as url, connected(url, "ana", "legacy") as client:
        await uris(client)
    async with connect("legacy") as client:
        assert len(await uris(client)) == len(FIXED) + len(OF_A_THREAD)
