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
from mcp.types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    Implementation,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)

from layerlore.server.process.sdk_private import serve_alone
from layerlore.server.subscriptions.notifications import LIST, MAX_WATCHED_URIS, SEND_SECONDS, NotificationHub, Rules
from layerlore.storage.core.errors import NotFound, StorageUnavailable
from layerlore.storage.core.records import Scope

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")]

PATIENCE = 120.0  # seconds: only a hang takes so long
MINE, OTHER, SECRET = "memory://profile", "memory://other", "memory://secret"


ANA, BEN = Scope("local", "agent", "ana"), Scope("local", "agent", "ben")


class Open:
    """A process's part in telling errors: it masks nothing."""

    def mask(self, text: str) -> str:
        return text


def build(hub: NotificationHub, *, deliver: bool = True) -> MCPServer[Open]:
    @asynccontextmanager
    async def lifespan(_: MCPServer[Open]) -> AsyncIterator[Open]:
        async with anyio.create_task_group() as tasks:
            if deliver:
                tasks.start_soon(hub.run)
            yield Open()
            tasks.cancel_scope.cancel()

    mcp: MCPServer[Open] = MCPServer("watched", lifespan=lifespan, subscriptions=hub.bus, log_level="WARNING")
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


def all_but_secret(_: Any, uri: str) -> None:
    if uri == SECRET:
        raise NotFound(f"there is no resource {uri}")


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_what_the_caller_may_not_watch_is_refused_in_both_eras(mode: str) -> None:
    hub = NotificationHub(Rules(check=all_but_secret))
    async with Client(build(hub), mode=mode) as client:
        with pytest.raises(MCPError, match="no resource memory://secret") as refused:
            await watch(client, SECRET)
        # The older protocol has a code of its own for a resource that does not exist.
        assert refused.value.code == (-32002 if mode == "legacy" else INVALID_PARAMS)
        assert not hub.interest.scopes
        await watch(client, MINE)


async def watch(client: Client, uri: str) -> None:
    if client.protocol_version == "2026-07-28":
        async with client.listen(resource_subscriptions=[MINE, uri]):
            pass
    else:
        await client.subscribe_resource(uri)


async def test_a_client_may_watch_so_many_resources_and_no_more() -> None:
    hub = NotificationHub()
    async with Client(build(hub), mode="legacy") as client:
        for number in range(MAX_WATCHED_URIS):
            await client.subscribe_resource(f"memory://{number}")
        with pytest.raises(MCPError, match=f"{MAX_WATCHED_URIS} resources"):
            await client.subscribe_resource("memory://one-more")
        await client.subscribe_resource("memory://0")  # again is not more
        (scope,) = hub.interest.scopes
        assert len(hub.interest.uris(scope)) == MAX_WATCHED_URIS
    async with Client(build(hub), mode="auto") as client:
        with pytest.raises(MCPError, match=f"may listen to {MAX_WATCHED_URIS}"):
            async with client.listen(resource_subscriptions=[f"memory://{n}" for n in range(MAX_WATCHED_URIS + 1)]):
                pass


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


def scope_of_client(ctx: Any) -> Scope:
    return Scope("local", "agent", ctx.session.client_params.client_info.name)


def named(scope: Scope) -> Implementation:
    return Implementation(name=scope.resource_id, version="1")


async def test_news_of_a_scope_reaches_that_scope_only_in_both_eras(inbox: Inbox) -> None:
    hub = NotificationHub(Rules(scope_of=scope_of_client))
    # Of news that is the same a client hears once, so what goes to each scope differs.
    news: list[tuple[Scope, ServerEvent]] = [
        (ANA, ResourceUpdated(uri=MINE)),
        (ANA, ResourcesListChanged()),
        (BEN, ResourceUpdated(uri=OTHER)),
    ]
    async with (
        Client(build(hub), mode="legacy", message_handler=inbox, client_info=named(BEN)) as legacy,
        Client(build(hub, deliver=False), mode="auto", client_info=named(BEN)) as modern,
        modern.listen(resource_subscriptions=[MINE, OTHER], resources_list_changed=True) as events,
    ):
        await legacy.subscribe_resource(MINE)
        await legacy.subscribe_resource(OTHER)
        await legacy.list_resources()
        for scope, event in news:
            await hub.publish(scope, event)
        assert await inbox.next() == ("notifications/resources/updated", OTHER)
        with anyio.fail_after(PATIENCE):
            assert await anext(events) == ResourceUpdated(uri=OTHER)
        await hub.publish(BEN, ResourcesListChanged())
        assert await inbox.next() == ("notifications/resources/list_changed", "")
        with anyio.fail_after(PATIENCE):
            assert await anext(events) == ResourcesListChanged()
        # What is the same for all is for everybody.
        await hub.bus.publish(ResourceUpdated(uri=MINE))
        assert await inbox.next() == ("notifications/resources/updated", MINE)
        with anyio.fail_after(PATIENCE):
            assert await anext(events) == ResourceUpdated(uri=MINE)


async def test_a_client_of_the_handshake_era_hears_of_the_list_once_it_has_asked_for_it(inbox: Inbox) -> None:
    hub = NotificationHub(Rules(scope_of=lambda ctx: ANA))
    async with Client(build(hub), mode="legacy", message_handler=inbox) as client:
        assert not hub.interest.scopes
        await hub.publish(ANA, ResourcesListChanged())
        await client.list_resources()
        assert set(hub.interest.uris(ANA)) == {LIST}
        await client.list_resources()
        await hub.publish(ANA, ToolsListChanged())
        await hub.publish(ANA, ResourcesListChanged())
        assert [await inbox.next(), await inbox.next()] == [
            ("notifications/tools/list_changed", ""),
            ("notifications/resources/list_changed", ""),
        ]
    assert not hub.interest.scopes


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_interest_lasts_from_before_the_answer_until_the_client_stops_or_leaves(mode: str) -> None:
    begun: list[set[str]] = []

    async def begin(_: Any, scope: Scope) -> None:
        begun.append(set(hub.interest.uris(scope)))

    hub = NotificationHub(Rules(scope_of=lambda ctx: ANA, begin=begin))
    async with Client(build(hub), mode=mode) as client:
        if mode == "auto":
            async with client.listen(resource_subscriptions=[MINE, OTHER]):
                assert set(hub.interest.uris(ANA)) == {MINE, OTHER}
            with anyio.fail_after(PATIENCE):
                await hub.interest.until(watched=False)
            async with client.listen(tools_list_changed=True):
                assert not hub.interest.scopes
            assert begun == [{MINE, OTHER}]
            return
        await client.subscribe_resource(MINE)
        await client.subscribe_resource(OTHER)
        await client.subscribe_resource(OTHER)
        assert begun == [{MINE}, {MINE, OTHER}, {MINE, OTHER}]
        await client.unsubscribe_resource(OTHER)
        await client.unsubscribe_resource(OTHER)
        assert set(hub.interest.uris(ANA)) == {MINE}
    assert not hub.interest.scopes


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_subscription_that_cannot_begin_is_an_error_and_leaves_nothing_behind(mode: str) -> None:
    failing = True

    async def begin(_: Any, scope: Scope) -> None:
        if failing:
            raise StorageUnavailable("the database is away")

    hub = NotificationHub(Rules(begin=begin))
    async with Client(build(hub), mode=mode) as client:
        with pytest.raises(MCPError, match="the database is away") as refused:
            await watch(client, MINE)
        assert refused.value.code == INTERNAL_ERROR
        if mode == "legacy":
            assert (await client.list_resources()).resources == []
        assert not hub.interest.scopes
        failing = False
        await watch(client, MINE)


async def test_the_same_news_waits_once_for_a_client(inbox: Inbox) -> None:
    hub = NotificationHub()
    mcp = build(hub, deliver=False)
    async with Client(mcp, mode="legacy", message_handler=inbox) as client, anyio.create_task_group() as tasks:
        await client.subscribe_resource(MINE)
        for _ in range(1000):
            await hub.bus.publish(ResourceUpdated(uri=MINE))
        await hub.bus.publish(ToolsListChanged())
        tasks.start_soon(hub.run)
        assert [await inbox.next(), await inbox.next()] == [
            ("notifications/resources/updated", MINE),
            ("notifications/tools/list_changed", ""),
        ]
        tasks.cancel_scope.cancel()


async def test_news_that_waits_is_not_told_to_who_has_unsubscribed_meanwhile(inbox: Inbox) -> None:
    hub = NotificationHub()
    mcp = build(hub, deliver=False)
    async with Client(mcp, mode="legacy", message_handler=inbox) as client, anyio.create_task_group() as tasks:
        await client.subscribe_resource(MINE)
        await hub.bus.publish(ResourceUpdated(uri=MINE))
        await client.unsubscribe_resource(MINE)
        await hub.bus.publish(ToolsListChanged())
        tasks.start_soon(hub.run)
        assert await inbox.next() == ("notifications/tools/list_changed", "")
        tasks.cancel_scope.cancel()


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
async def mute_client(mcp: MCPServer[Open]) -> AsyncIterator[Mute]:
    mute = Mute()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve_alone, mcp, mute.messages, mute.replies)
        with anyio.fail_after(PATIENCE):
            await mute.subscribe(MINE)
        yield mute
        await mute.aclose()


async def test_a_client_that_does_not_read_holds_up_the_others_once_and_gets_its_news_when_it_asks(
    inbox: Inbox,
) -> None:
    hub = NotificationHub()
    news: list[ServerEvent] = [ResourceUpdated(uri=MINE), ToolsListChanged(), PromptsListChanged()]
    # The hub is shared, as over HTTP; one of the two lifespans delivers.
    async with Client(build(hub), mode="legacy", message_handler=inbox) as client:
        await client.subscribe_resource(MINE)
        async with mute_client(build(hub, deliver=False)) as mute:
            with anyio.fail_after(2 * SEND_SECONDS):
                for event in news:
                    await hub.bus.publish(event)
                    await inbox.next()
            with anyio.fail_after(PATIENCE):
                await mute.request("ping", {})
                waited = {(await mute.read()).method for _ in news}
            assert waited == {
                "notifications/resources/updated",
                "notifications/tools/list_changed",
                "notifications/prompts/list_changed",
            }
