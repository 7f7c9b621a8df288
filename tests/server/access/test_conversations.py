"""Which conversation a call means on every transport and in both protocol eras: a session's own, the one that the host
names, or a new one, and never one of anybody else's."""

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
async def test_without_a_session_a_call_begins_a_conversation_and_its_answer_says_how_to_go_on(
    tmp_path: Path, transport: str, mode: str
) -> None:
    async with sessions(tmp_path, transport, mode) as session, session() as client, session() as other:
        threads = []
        for one, text in zip((client, other), TURNS, strict=True):
            added = await answer(one, "add_messages", **says(text))
            assert added["note"] == "default thread; give it as thread_id to go on in it"
            threads.append(added["thread_id"])
        assert len(set(threads)) == 2
        # A model does as it is told, on whatever connection.
        await answer(other, "add_messages", **says("Thanks."), thread_id=threads[0])
        assert await said(client, thread_id=threads[0]) == [TURNS[0], "Thanks."]
        assert await said(client, thread_id=threads[1]) == [TURNS[1]]

        await answer(client, "plan", action="create", plan={"goal": "Make tea"}, thread_id=threads[0])
        for reads in ("get_context", "get_working_memory"):
            told = await text_of(other, reads)
            assert "nobody wrote to it yet; go on with thread_id=" in told
            assert "Make tea" not in told.partition("<open-work>")[0]
        assert "Default: a new one." in await about_thread_id(client)
        assert "begins a new conversation" in (client.instructions or "")
        assert "this session" not in (client.instructions or "")


async def test_a_call_that_is_sent_again_without_a_session_is_of_the_same_conversation(tmp_path: Path) -> None:
    meta: Any = {"layerlore/idempotency-key": "turn-1"}
    ways: list[dict[str, Any]] = [{"meta": meta}, {"idempotency_key": "turn-2"}]
    async with served(settings_in(tmp_path), Told(**PEOPLE)) as url, connected(url, "ana") as client:
        for way in ways:
            first, again = [await answer(client, "add_messages", **says(TURNS[0]), **way) for _ in range(2)]
            assert first["thread_id"] == again["thread_id"]
            assert await said(client, thread_id=first["thread_id"]) == [TURNS[0]]
        assert len((await answer(client, "list_threads"))["threads"]) == len(ways)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_over_http_a_host_names_its_conversation_with_each_call(tmp_path: Path, mode: str) -> None:
    of_codex: Any = {"sessionId": "01a22269", "threadId": "01a22269"}
    of_vscode: Any = {"vscode.conversationId": "chat-7"}
    async with served(settings_in(tmp_path), Told(**PEOPLE)) as url:
        for meta, thread in ((of_codex, "01a22269"), (of_vscode, "chat-7")):
            for text in TURNS:
                async with connected(url, "ana", mode) as client:
                    added = await answer(client, "add_messages", **says(text), meta=meta)
                    assert added["thread_id"] == thread
            async with connected(url, "ana", mode) as client:
                assert await said(client, thread_id=thread) == list(TURNS)


async def test_without_a_session_a_client_is_shown_the_opening_once(tmp_path: Path) -> None:
    async with served(settings_in(tmp_path), Told(**PEOPLE)) as url, connected(url, "ana") as client:
        await answer(client, "update_working_memory", scope="resource", content="Ana drinks tea.")
        first, second = [await text_of(client, "recall_memory", query="trains") for _ in range(2)]
    assert "Ana drinks tea." in first
    assert "Ana drinks tea." not in second


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
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_session_goes_on_with_the_conversation_of_the_one_before_it(
    tmp_path: Path, mode: str, endpoint: str
) -> None:
    before = {"Layerlore-Session": "one"}
    async with served(settings_in(tmp_path), Told(**PEOPLE)) as url:
        for text in TURNS:
            async with connected(url, "ana", mode, endpoint, **before) as client:
                added = await answer(client, "add_messages", ids=True, **says(text))
                assert (added["thread_id"], "note" in added) == ("one", True)
                assert "this session's own conversation" in (client.instructions or "")
        async with connected(url, "ana", mode, endpoint, **before, **{"Layerlore-Thread": "mine"}) as client:
            assert (await answer(client, "add_messages", ids=True, **says("named")))["thread_id"] == "mine"
        async with connected(url, "ben", mode, endpoint, **before) as client:
            assert await said(client) == []
        async with connected(url, "ana", mode, endpoint, **{"Layerlore-Session": "o" * 256}) as client:
            result = await client.call_tool("get_messages", {"format": "json"})
            assert "header Layerlore-Session: 256 characters" in result.content[0].text  # type: ignore[union-attr]


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
                added = await answer(client, "add_messages", ids=True, **says(f"I am {name}"))
                assert await said(client, thread_id=added["thread_id"]) == [f"I am {name}"]
        for name in PEOPLE:
            async with connected(url, name, mode, endpoint) as client:
                context = await text_of(client, "get_context")
                assert not [other for other in PEOPLE if f"I am {other}" in context]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_one_credential_for_many_resources_has_a_default_for_each(tmp_path: Path, mode: str) -> None:
    many = replace(ANA, name="key:many", resource=None)
    async with (
        served(settings_in(tmp_path), Told(many=many)) as url,
        connected(url, "many", mode, **{"Layerlore-Resource": "ana"}) as client,
    ):
        for_ben: Any = {"layerlore/resource": "ben"}
        thread = (await answer(client, "add_messages", ids=True, **says("for ana")))["thread_id"]
        assert (await answer(client, "get_messages", format="json", meta=for_ben, thread_id=thread))["messages"] == []
        await answer(client, "add_messages", ids=True, **says("for ben"), meta=for_ben, thread_id=thread)
        assert await said(client, thread_id=thread) == ["for ana"]


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
                assert ("Nothing can be stored" in (client.instructions or "")) == (name not in ("all", "write")), name
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
