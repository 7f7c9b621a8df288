"""The hub with in-memory clients of both protocol eras."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError
from mcp.server.mcpserver import MCPServer
from mcp.server.subscriptions import (
    PromptsListChanged,
    ResourcesListChanged,
    ResourceUpdated,
    ServerEvent,
    ToolsListChanged,
)
from mcp.shared.message import SessionMessage
from mcp.types import JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from memstrata.server.notifications import MAX_WAITING_EVENTS, MAX_WATCHED_URIS, SEND_SECONDS, NotificationHub
from memstrata.server.sdk_private import serve_alone

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")]

PATIENCE = 10.0
MINE, OTHER, SECRET = "memory://profile", "memory://other", "memory://secret"


def build(hub: NotificationHub, *, deliver: bool = True) -> MCPServer[None]:
    @asynccontextmanager
    async def lifespan(_: MCPServer[None]) -> AsyncIterator[None]:
        async with anyio.create_task_group() as tasks:
            if deliver:
                tasks.start_soon(hub.run)
            yield
            tasks.cancel_scope.cancel()

    mcp: MCPServer[None] = MCPServer("watched", lifespan=lifespan, subscriptions=hub.bus, log_level="WARNING")
    hub.install(mcp)
    return mcp


class Inbox:
    """What a client of the handshake era was told, in order: method and URI."""

    def __init__(self) -> None:
        self.send, self.receive = anyio.create_memory_object_stream[tuple[str, str]](100)

    async def __call__(self, message: Any) -> None:
        self.send.send_nowait((message.method, getattr(message.params, "uri", "")))

    async def next(self) -> tuple[str, str]:
        with anyio.fail_after(PATIENCE):
            return await self.receive.receive()


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    inbox = Inbox()
    yield inbox
    inbox.send.close()
    inbox.receive.close()


async def test_a_handshake_client_is_told_of_what_it_subscribed_to_and_of_every_list(inbox: Inbox) -> None:
    hub = NotificationHub()
    async with Client(build(hub), mode="legacy", message_handler=inbox) as client:
        await client.subscribe_resource(MINE)
        events: list[ServerEvent] = [
            ResourceUpdated(uri=OTHER),
            ResourceUpdated(uri=MINE),
            ToolsListChanged(),
            PromptsListChanged(),
            ResourcesListChanged(),
        ]
        for event in events:
            await hub.bus.publish(event)
        assert [await inbox.next() for _ in range(4)] == [
            ("notifications/resources/updated", MINE),
            ("notifications/tools/list_changed", ""),
            ("notifications/prompts/list_changed", ""),
            ("notifications/resources/list_changed", ""),
        ]
        await client.unsubscribe_resource(MINE)
        await hub.bus.publish(ResourceUpdated(uri=MINE))
        await hub.bus.publish(ToolsListChanged())
        assert await inbox.next() == ("notifications/tools/list_changed", "")


async def test_a_modern_client_is_told_of_what_its_listen_stream_names() -> None:
    hub = NotificationHub()
    async with (
        Client(build(hub), mode="auto") as client,
        client.listen(resource_subscriptions=[MINE], tools_list_changed=True) as events,
    ):
        for event in (ResourceUpdated(uri=OTHER), ResourceUpdated(uri=MINE), PromptsListChanged()):
            await hub.bus.publish(event)
        await hub.bus.publish(ToolsListChanged())
        with anyio.fail_after(PATIENCE):
            assert [await anext(events), await anext(events)] == [ResourceUpdated(uri=MINE), ToolsListChanged()]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_subscriptions_and_changing_lists_are_announced(mode: str) -> None:
    async with Client(build(NotificationHub()), mode=mode) as client:
        capabilities = client.server_capabilities
        assert capabilities.resources is not None
        assert capabilities.tools is not None
        assert capabilities.prompts is not None
        assert (capabilities.resources.subscribe, capabilities.resources.list_changed) == (True, True)
        assert (capabilities.tools.list_changed, capabilities.prompts.list_changed) == (True, True)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_what_the_caller_may_not_watch_is_refused_in_both_eras(mode: str) -> None:
    hub = NotificationHub(may_watch=lambda ctx, uri: uri != SECRET)
    async with Client(build(hub), mode=mode) as client:
        with pytest.raises(MCPError, match="no resource memory://secret"):
            await watch(client, SECRET)
        await watch(client, MINE)


async def watch(client: Client, uri: str) -> None:
    if client.protocol_version == "2026-07-28":
        async with client.listen(resource_subscriptions=[MINE, uri]):
            pass
    else:
        await client.subscribe_resource(uri)


async def test_a_client_may_watch_so_many_resources_and_no_more() -> None:
    async with Client(build(NotificationHub()), mode="legacy") as client:
        for number in range(MAX_WATCHED_URIS):
            await client.subscribe_resource(f"memory://{number}")
        with pytest.raises(MCPError, match=f"{MAX_WATCHED_URIS} resources"):
            await client.subscribe_resource("memory://one-more")


async def test_a_client_that_has_left_is_forgotten() -> None:
    hub = NotificationHub()
    mcp = build(hub)
    async with Client(mcp, mode="legacy") as client:
        await client.subscribe_resource(MINE)
        assert hub.connections == 1
    assert hub.connections == 0
    async with Client(mcp, mode="auto") as client:
        await client.list_tools()
        assert hub.connections == 0


async def test_news_beyond_what_may_wait_is_dropped_and_publishing_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    hub = NotificationHub()
    with anyio.fail_after(PATIENCE):
        for _ in range(MAX_WAITING_EVENTS + 1):
            await hub.bus.publish(ToolsListChanged())
    assert [record.getMessage() for record in caplog.records] == [
        f"dropped news for clients: {MAX_WAITING_EVENTS} events are waiting"
    ]


class Mute:
    """A handshake client that sends and, after its subscription is confirmed, never reads again."""

    def __init__(self) -> None:
        self._to_server, self.messages = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        self.replies, self._from_server = anyio.create_memory_object_stream[SessionMessage](0)

    async def request(self, method: str, params: dict[str, Any]) -> None:
        await self._to_server.send(SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=1, method=method, params=params)))
        reply = await self._from_server.receive()
        assert isinstance(reply.message, JSONRPCResponse)

    async def subscribe(self, uri: str) -> None:
        info = {"name": "mute", "version": "1"}
        await self.request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info})
        note = JSONRPCNotification(jsonrpc="2.0", method="notifications/initialized")
        await self._to_server.send(SessionMessage(note))
        await self.request("resources/subscribe", {"uri": uri})

    async def read(self) -> Any:
        return (await self._from_server.receive()).message

    async def aclose(self) -> None:
        await self._to_server.aclose()
        await self._from_server.aclose()


@asynccontextmanager
async def mute_client(mcp: MCPServer[None]) -> AsyncIterator[Mute]:
    mute = Mute()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve_alone, mcp, mute.messages, mute.replies)
        with anyio.fail_after(PATIENCE):
            await mute.subscribe(MINE)
        yield mute
        await mute.aclose()


async def test_a_client_that_does_not_read_holds_up_the_others_once_and_gets_news_again_when_it_asks(
    inbox: Inbox,
) -> None:
    hub = NotificationHub()
    # The hub is shared, as over HTTP; one of the two lifespans delivers.
    async with Client(build(hub), mode="legacy", message_handler=inbox) as client:
        await client.subscribe_resource(MINE)
        async with mute_client(build(hub, deliver=False)) as mute:
            for _ in range(3):
                await hub.bus.publish(ResourceUpdated(uri=MINE))
            with anyio.fail_after(2 * SEND_SECONDS):
                for _ in range(3):
                    assert await inbox.next() == ("notifications/resources/updated", MINE)
            with anyio.fail_after(PATIENCE):
                await mute.request("ping", {})
                await hub.bus.publish(ResourceUpdated(uri=MINE))
                assert (await mute.read()).method == "notifications/resources/updated"
