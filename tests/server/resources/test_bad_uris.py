"""URIs that name no resource, in every request that takes one: each is refused clearly, and none leads anywhere."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp.types import INVALID_PARAMS, ResourceTemplateReference

from layerlore.server.resources.requests import parse
from layerlore.server.runtime.tool_server import build_server
from layerlore.server.settings.settings import load_settings

from ..bad_uris import URIS

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")]

CANARY = "heliotrope-7781"
NOT_FOUND = -32002
# One of these says what would have been right.
CLEAR = (
    *(
        "there is no resource ",
        "a thread has no resource ",
        "there is no thread ",
        "there is no run ",
        "unknown query ",
    ),
    *("there is no template ", "is not percent-encoded UTF-8", "is allowed", "are allowed", "allowed: ", "must be "),
    *("comes twice; once is allowed", "Input should be ", "give a question"),
)
BELOW = ("Traceback", 'File "', "SELECT", "sqlite3", "asyncpg", "failed unexpectedly", "root:", CANARY)


@contextlib.asynccontextmanager
async def connected(database_url: str, **flags: str) -> AsyncIterator[Client]:
    flags = {"database": database_url, "embedding": {"embedder": "none"}, **flags}  # type: ignore[dict-item]
    async with Client(build_server(load_settings(flags, environ={})), mode="legacy") as client:
        yield client


@pytest.fixture
async def client(database_url: str) -> AsyncIterator[Client]:
    """A client whose neighbours, another resource and another agent, have what must never be seen."""
    message = {"role": "user", "content": f"{CANARY} tea"}
    for other in ({"agent": "other-agent"}, {"resource": "other-resource"}):
        async with connected(database_url, **other) as neighbour:
            for thread in ("other", "..", "*", "../other", "{thread_id}"):
                await neighbour.call_tool("add_messages", {"messages": [message], "thread_id": thread})
            await neighbour.call_tool("update_working_memory", {"content": CANARY, "scope": "resource"})
    async with connected(database_url) as own:
        own_message = {"role": "user", "content": "tea"}
        await own.call_tool("add_messages", {"messages": [own_message], "thread_id": "main"})
        yield own


async def refused(ask: Callable[[str], Awaitable[Any]], uri: str) -> None:
    with pytest.raises(MCPError) as error:
        await ask(uri)
    told = str(error.value)
    assert error.value.error.code in (INVALID_PARAMS, NOT_FOUND), (uri[:80], told)
    assert any(clear in told for clear in CLEAR), (uri[:80], told)
    assert not [found for found in BELOW if found in told], (uri[:80], told)
    assert len(told) < 2000, uri[:80]


def test_there_are_two_hundred_of_them() -> None:
    assert len(URIS) >= 200


async def test_none_that_is_no_address_can_be_read_and_behind_the_others_nothing_is(client: Client) -> None:
    """A thread with an odd name is one that nobody wrote to yet; a run must be there."""
    read = 0
    for uri in URIS:
        try:
            (content,) = (await client.read_resource(uri)).contents
        except MCPError:
            await refused(client.read_resource, uri)
        else:
            assert (address := parse(uri)), uri[:80]
            assert address.thread_id, uri[:80]
            assert CANARY not in content.text  # type: ignore[union-attr]
            read += 1
    assert 0 < read < 40


async def test_none_that_is_no_address_can_be_subscribed_to(client: Client) -> None:
    """What may come to exist, a thread with an odd name, may be waited for; nothing else."""
    taken = 0
    for uri in URIS:
        if parse(uri) is None:
            await refused(client.subscribe_resource, uri)
        else:
            with contextlib.suppress(MCPError):
                await client.subscribe_resource(uri)
                taken += 1
    assert 0 < taken < 40


async def test_none_that_is_no_template_can_be_completed(client: Client) -> None:
    templates = {each.uri_template for each in (await client.list_resource_templates()).resource_templates}

    async def complete(uri: str) -> Any:
        name = {"name": "thread_id", "value": ""}
        return await client.complete(ResourceTemplateReference(type="ref/resource", uri=uri), name)

    for uri in URIS:
        if uri not in templates:
            await refused(complete, uri)


async def test_what_they_hold_completes_to_nothing_of_anybody_elses(client: Client) -> None:
    ref = ResourceTemplateReference(type="ref/resource", uri="memory://threads/{thread_id}")
    for uri in (*URIS, "", "o", "other", ".", "%", "_", "*"):
        found = []
        with contextlib.suppress(MCPError):  # NUL, which no id has
            found = (await client.complete(ref, {"name": "thread_id", "value": uri})).completion.values
        assert set(found) <= {"main"}, uri[:80]
    assert (await client.complete(ref, {"name": "thread_id", "value": ""})).completion.values == ["main"]
