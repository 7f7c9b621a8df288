"""Which conversation a call means on every transport and in both protocol eras: a session's own, or the one that all who
come without a session share, and never one of anybody else's."""

import contextlib
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from launch_environment import own_environment
from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters, stdio_client

from layerlore.server.access.credentials import RIGHTS
from layerlore.server.runtime.tool_server import build_server
from layerlore.server.tools.toolsets import ALL_TOOLS

from ..gated_server import ANA, BEN, EVE, PATIENCE, Told, answer, connected, served, settings_in

pytestmark = [pytest.mark.anyio, pytest.mark.programs, pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")]

COACH = replace(ANA, name="key:coach", agents=frozenset({"coach"}))
PEOPLE = {"ana": ANA, "ben": BEN, "eve": EVE, "coach": COACH}
# What an agent does in one conversation, as calls that name no thread.
TURNS = ("I take my tea with milk.", "And no sugar.")
Session = Callable[[], AbstractAsyncContextManager[Client]]


def says(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


async def text_of(client: Client, tool: str, **arguments: Any) -> str:
    with anyio.fail_after(PATIENCE):
        result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    told: str = result.content[0].text  # type: ignore[union-attr]
    return told


async def said(client: Client, **arguments: Any) -> list[str]:
    page = await answer(client, "get_messages", format="json", **arguments)
    return [each["parts"][0]["text"] for each in page["messages"]]


def on_stdio(folder: Path, mode: str, *flags: str) -> AbstractAsyncContextManager[Client]:
    """A client of a process of its own."""
    kept = own_environment()
    arguments = ["-m", "layerlore.server", "--data-dir", str(folder), *flags]
    parameters = StdioServerParameters(
        command=sys.executable, args=arguments, env=kept | {"LAYERLORE_EMBEDDING__EMBEDDER": "none"}
    )
    return Client(stdio_client(parameters), mode=mode)  # type: ignore[arg-type]


@contextlib.asynccontextmanager
async def sessions(folder: Path, transport: str, mode: str) -> AsyncIterator[Session]:
    """Opens a session with one memory, as often as it is asked to."""
    if transport == "stdio":
        yield lambda: on_stdio(folder, mode)
        return
    async with served(settings_in(folder), Told(**PEOPLE)) as url:
        yield lambda: connected(url, "ana", mode, transport)


# On stdio a session is a process in either era.
WITH_A_SESSION = [("stdio", "auto"), ("mcp", "legacy"), ("sse", "legacy")]
WITHOUT = [("mcp", "auto"), ("sse", "auto")]


@pytest.mark.parametrize(("transport", "mode"), WITH_A_SESSION)
async def test_a_session_has_one_conversation_of_its_own_and_says_so(tmp_path: Path, transport: str, mode: str) -> None:
    async with sessions(tmp_path, transport, mode) as session:
        own = set()
        for _ in range(2):
            async with session() as client:
                for text in TURNS:
                    added = await answer(client, "add_messages", ids=True, **says(text))
                    own.add(added["thread_id"])
                    assert added["note"] == "default thread; thread_id chooses another"
                assert await said(client) == list(TURNS)
                assert "this session's" in await about_thread_id(client)
                assert "this session's own conversation" in (client.instructions or "")
        assert len(own) == 2


@pytest.mark.parametrize(("transport", "mode"), WITHOUT)
async def test_without_a_session_a_conversation_is_whole_whoever_opens_how_many_connections(
    tmp_path: Path, transport: str, mode: str
) -> None:
    async with sessions(tmp_path, transport, mode) as session:
        for text in TURNS:
            async with session() as client:
                added = await answer(client, "add_messages", ids=True, **says(text))
                assert (added["thread_id"], added["note"]) == ("main", "default thread; thread_id chooses another")
        async with session() as client:
            context = await text_of(client, "get_context")
            assert all(text in context for text in TURNS)
            assert context.endswith("[default thread main; thread_id chooses another]")
            await text_of(client, "plan", action="create", plan={"goal": "Make tea"})
            assert "Make tea" in await text_of(client, "plan", action="review")
            assert "Make tea" in str((await client.get_prompt("resume_work")).messages)
            assert TURNS[0] in str((await client.get_prompt("load_memory")).messages)
            assert "Default: 'main'." in await about_thread_id(client)
            told = client.instructions or ""
            assert "share the conversation 'main'" in told
            assert "this session" not in told


async def about_thread_id(client: Client) -> str:
    """What the schemas and the prompts say of it: all the same."""
    tools = [tool for tool in (await client.list_tools()).tools if tool.name in ("add_messages", "get_context", "plan")]
    prompts = [each for prompt in (await client.list_prompts()).prompts for each in prompt.arguments or ()]
    told = {tool.input_schema["properties"]["thread_id"]["description"].partition("Default: ")[2] for tool in tools}
    told |= {(each.description or "").partition("Default: ")[2] for each in prompts if each.name == "thread_id"}
    (same,) = told
    return f"Default: {same}"


@pytest.mark.parametrize("transport", ["mcp", "sse"])
async def test_an_adapter_that_opens_a_session_for_each_call_is_told_where_to_go_on(
    tmp_path: Path, transport: str
) -> None:
    """As LangChain's and llama-index's do: it adds in one session and asks for the context in the next."""
    async with sessions(tmp_path, transport, "legacy") as session:
        async with session() as client:
            thread = (await answer(client, "add_messages", ids=True, **says(TURNS[0])))["thread_id"]
        async with session() as client:
            context = await text_of(client, "get_context")
        assert TURNS[0] not in context
        go_on = f"go on with thread_id='{thread}' if this is the conversation of 1 minute ago"
        assert go_on in context
        async with session() as client:
            assert (await client.get_prompt("load_memory")).messages[0].content.text.count(go_on) == 1  # type: ignore[union-attr]
        # A model does as it is told.
        for text in TURNS[1:]:
            async with session() as client:
                added = await answer(client, "add_messages", ids=True, **says(text), thread_id=thread)
                assert "note" not in added
        async with session() as client:
            assert await said(client, thread_id=thread) == list(TURNS)
            assert len((await answer(client, "list_threads"))["threads"]) == 1


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_conversation_that_is_named_at_launch_is_whole_over_sessions(tmp_path: Path, mode: str) -> None:
    launched = settings_in(tmp_path, thread="mine")
    for text in TURNS:
        async with Client(build_server(launched), mode=mode) as client:  # type: ignore[arg-type]
            added = await answer(client, "add_messages", ids=True, **says(text))
            assert (added["thread_id"], "note" in added) == ("mine", False)
            assert await about_thread_id(client) == "Default: the one set."
            assert "this connection's conversation is set" in (client.instructions or "")
    async with on_stdio(tmp_path, mode, "--thread", "mine") as client:
        assert await said(client) == list(TURNS)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_conversation_that_is_named_by_header_is_whole_over_sessions(tmp_path: Path, mode: str) -> None:
    async with served(settings_in(tmp_path), Told(**PEOPLE)) as url:
        for endpoint in ("mcp", "sse"):
            async with connected(url, "ana", mode, endpoint, **{"Layerlore-Thread": "mine"}) as client:
                added = await answer(client, "add_messages", ids=True, **says(endpoint))
                assert (added["thread_id"], "note" in added) == ("mine", False)
                assert await about_thread_id(client) == "Default: the one set."
                assert "this connection's conversation is set" in (client.instructions or "")
                assert "default thread" not in await text_of(client, "get_context")


@pytest.mark.parametrize("endpoint", ["mcp", "sse"])
async def test_a_session_goes_on_with_the_conversation_of_the_one_before_it(tmp_path: Path, endpoint: str) -> None:
    before = {"Layerlore-Session": "one"}
    async with served(settings_in(tmp_path), Told(**PEOPLE)) as url:
        for text in TURNS:
            async with connected(url, "ana", "legacy", endpoint, **before) as client:
                added = await answer(client, "add_messages", ids=True, **says(text))
                assert (added["thread_id"], "note" in added) == ("session-one", True)
        async with connected(url, "ana", "legacy", endpoint, **before, **{"Layerlore-Thread": "mine"}) as client:
            assert (await answer(client, "add_messages", ids=True, **says("named")))["thread_id"] == "mine"
        async with connected(url, "ben", "legacy", endpoint, **before) as client:
            assert await said(client) == []
        async with connected(url, "ana", "legacy", endpoint, **{"Layerlore-Session": "o" * 255}) as client:
            result = await client.call_tool("get_messages", {"format": "json"})
            assert "header Layerlore-Session: 263 characters" in result.content[0].text  # type: ignore[union-attr]
        # There are no sessions any more.
        async with connected(url, "ana", "auto", "mcp", **before) as client:
            assert (await answer(client, "get_messages", format="json"))["thread_id"] == "main"


@pytest.mark.parametrize("endpoint", ["mcp", "sse"])
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_no_default_is_shared_between_resources_agents_or_tenants(
    tmp_path: Path, mode: str, endpoint: str
) -> None:
    async with served(settings_in(tmp_path), Told(**PEOPLE)) as url:
        for name in PEOPLE:
            async with connected(url, name, mode, endpoint) as client:
                empty = await answer(client, "get_messages", format="json")
                assert (empty["messages"], empty["total"]) == ([], 0)
                assert "go on with" not in empty["note"]
                await answer(client, "add_messages", ids=True, **says(f"I am {name}"))
                assert await said(client) == [f"I am {name}"]
        for name in PEOPLE:
            async with connected(url, name, mode, endpoint) as client:
                context = await text_of(client, "get_context")
                assert [other for other in PEOPLE if f"I am {other}" in context] == [name] * (mode == "auto")


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_one_credential_for_many_resources_has_a_default_for_each(tmp_path: Path, mode: str) -> None:
    many = replace(ANA, name="key:many", resource=None)
    async with (
        served(settings_in(tmp_path), Told(many=many)) as url,
        connected(url, "many", mode, **{"Layerlore-Resource": "ana"}) as client,
    ):
        for_ben: Any = {"layerlore/resource": "ben"}
        await answer(client, "add_messages", ids=True, **says("for ana"))
        assert (await answer(client, "get_messages", format="json", meta=for_ben))["messages"] == []
        await answer(client, "add_messages", ids=True, **says("for ben"), meta=for_ben)
        assert await said(client) == ["for ana"]


@pytest.mark.parametrize("endpoint", ["mcp", "sse"])
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_instructions_name_only_what_the_credential_may_call(
    tmp_path: Path, mode: str, endpoint: str
) -> None:
    people = {right: replace(ANA, name=f"key:{right}", rights=frozenset({right})) for right in RIGHTS}
    async with served(settings_in(tmp_path), Told(all=ANA, **people)) as url:
        named = {}
        for name in ("all", *people):
            async with connected(url, name, mode, endpoint) as client:
                words = set((client.instructions or "").replace("(", " ").replace(",", " ").replace(".", " ").split())
                listed = {tool.name for tool in (await client.list_tools()).tools}
                named[name] = words & ALL_TOOLS
                assert named[name] <= listed, name
        assert {"recall_memory", "add_messages", "delete_thread"} & named["all"]
        assert "recall_memory" in named["read"]
        assert "add_messages" in named["write"]


@pytest.mark.parametrize("endpoint", ["mcp", "sse"])
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_an_unknown_tool_and_an_unknown_resource_are_the_errors_of_the_protocol(
    tmp_path: Path, mode: str, endpoint: str
) -> None:
    async with served(settings_in(tmp_path), Told(**PEOPLE)) as url, connected(url, "ana", mode, endpoint) as client:
        with pytest.raises(MCPError) as raised:
            await client.call_tool("no_such_tool", {})
        assert raised.value.error.code == -32602
        for uri in ("memory://nothing", "memory://threads/a/nothing", "memory://runs/nothing"):
            with pytest.raises(MCPError) as raised:
                await client.read_resource(uri)
            assert raised.value.error.code == (-32602 if mode == "auto" else -32002), uri
            assert raised.value.error.data == {"uri": uri}
        with pytest.raises(MCPError) as raised:
            await client.get_prompt("nothing")
        assert raised.value.error.code == -32602
