"""A client of either era that is told of changes, in the same words."""

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import anyio
from mcp import Client
from mcp.client.subscriptions import ResourceUpdated

from layerlore.server.resources.kinds import OF_A_THREAD
from layerlore.server.resources.requests import uri_of

PATIENCE = 120.0  # seconds: only a hang takes so long
MAIN = {kind: uri_of(kind, "main") for kind in ("thread", *OF_A_THREAD)}
PROFILE, THREADS, STATUS, ENTRIES = (f"memory://{name}" for name in ("profile", "threads", "status", "entries"))
LIST = "the list"
"""What a subscriber is told when the list of resources changed."""


class Subscriber:
    """A client, and the URIs that it is told of, in order."""

    def __init__(self, client: Client, told: Any) -> None:
        self.client = client
        self._told = told

    async def next(self) -> str:
        with anyio.fail_after(PATIENCE):
            told: str = await self._told.receive()
        return told

    async def until(self, *uris: str) -> list[str]:
        """What is told until all of the URIs were."""
        missing, told = set(uris), []
        while missing:
            told.append(await self.next())
            missing.discard(told[-1])
        return told

    @property
    def waiting(self) -> int:
        """How much was told and not read yet."""
        count: int = self._told.statistics().current_buffer_used
        return count

    async def call(self, tool: str, **arguments: Any) -> Any:
        with anyio.fail_after(PATIENCE):
            result = await self.client.call_tool(tool, arguments)
        assert not result.is_error, result.content
        return result.structured_content

    async def say(self, thread_id: str, words: str = "hello") -> None:
        await self.call("add_messages", thread_id=thread_id, messages=[{"role": "user", "content": words}])


@contextlib.asynccontextmanager
async def subscriber(
    server: Any, era: str, uris: Sequence[str] = (), *, lists: bool = False
) -> AsyncIterator[Subscriber]:
    """Connected to a server or over a transport, and subscribed; ``lists``: to the list of resources, too."""
    heard, told = anyio.create_memory_object_stream[str](10_000)

    async def take(message: Any) -> None:
        match getattr(message, "method", ""):
            case "notifications/resources/updated":
                heard.send_nowait(message.params.uri)
            case "notifications/resources/list_changed":
                heard.send_nowait(LIST)

    async def follow(events: Any) -> None:
        async for event in events:
            heard.send_nowait(event.uri if isinstance(event, ResourceUpdated) else LIST)

    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(heard)
        stack.enter_context(told)
        # What comes on a listen stream goes to both.
        options: dict[str, Any] = {"mode": "auto"} if era == "modern" else {"mode": "legacy", "message_handler": take}
        client = await stack.enter_async_context(Client(server, **options))
        if era == "modern" and (uris or lists):
            listening = client.listen(resource_subscriptions=uris, resources_list_changed=lists)
            events = await stack.enter_async_context(listening)
            tasks = await stack.enter_async_context(anyio.create_task_group())
            tasks.start_soon(follow, events)
            stack.callback(tasks.cancel_scope.cancel)
        elif era == "legacy":
            for uri in uris:
                await client.subscribe_resource(uri)
            if lists:
                await client.list_resources()
        yield Subscriber(client, told)
