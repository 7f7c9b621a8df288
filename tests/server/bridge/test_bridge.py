"""``layerlore bridge`` as a process between a host on its standard input and output and a server over HTTP."""

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest
from fake_issuer import serving as serving_tls
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client

from ..command_line.test_command_line import loaded_by
from ..conftest import INITIALIZE, Cli, Lines, Sample
from ..gated_server import ANA, LISTEN, Told, answer, refused, served, settings_in
from ..subscribing import MAIN, PATIENCE, PROFILE, subscriber

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning"), pytest.mark.programs]

ERAS = ["modern", "legacy"]
ANYBODY = replace(ANA, name="key:any", agents=None, resource=None)
KEY = {"LAYERLORE_BRIDGE__KEY": "ana"}
HELLO = [{"role": "user", "content": "the ferry leaves at nine"}]
MODERN_META = LISTEN["params"]["_meta"]


def command(url: str, *options: str) -> list[str]:
    return [sys.executable, "-m", "layerlore.server", "bridge", url, *options]


def launched(url: str, *options: str, **variables: str) -> Any:
    """The bridge as the transport of an official client, which launches it as a host does."""
    program, *arguments = command(url, *options)
    return stdio_client(StdioServerParameters(command=program, args=arguments, env=variables or KEY))


class Bridged(Lines):
    """The bridge, and whoever speaks to it in lines."""

    async def started(self) -> None:
        """What is no message, it answers itself, as soon as it can."""
        await self.send(b'{"jsonrpc": "2.0", "id": 0, "method": ')
        reply = await self.receive()
        assert (reply["id"], reply["error"]["code"]) == (0, -32700)

    async def end(self) -> str:
        """What it says on standard error in all, once its standard input ended; it has to end by itself."""
        assert self.process.stdin is not None
        assert self.process.stderr is not None
        await self.process.stdin.aclose()
        assert await self.ended() == 0
        said = b""
        with contextlib.suppress(anyio.EndOfStream):
            while True:
                said += await self.process.stderr.receive()
        return said.decode()


@contextlib.asynccontextmanager
async def bridged(url: str, *options: str, **variables: str) -> AsyncIterator[Bridged]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LAYERLORE_")}
    process = await anyio.open_process(
        command(url, *options), stdin=subprocess.PIPE, stderr=subprocess.PIPE, env={**kept, **(variables or KEY)}
    )
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(process.aclose)
        stack.callback(lambda: process.returncode is None and process.kill())
        yield Bridged(process)


@pytest.mark.parametrize("era", ERAS)
async def test_everything_passes_through_in_both_eras(tmp_path: Path, era: str) -> None:
    async with (
        served(settings_in(tmp_path), Told(ana=ANA)) as url,
        subscriber(launched(f"{url}/mcp"), era, [PROFILE]) as host,
    ):
        assert host.client.server_info.name == "layerlore"
        assert "recall_memory" in {tool.name for tool in (await host.client.list_tools()).tools}
        await host.call("add_messages", thread_id="main", messages=HELLO)
        page = await host.call("get_messages", format="json", thread_id="main")
        assert page["messages"][0]["parts"][0]["text"] == HELLO[0]["content"]
        read = await host.client.read_resource(MAIN["messages"])
        assert HELLO[0]["content"] in read.contents[0].text  # type: ignore[union-attr]
        with pytest.raises(MCPError, match="memory://nothing"):
            await host.client.read_resource("memory://nothing")
        await host.call("update_working_memory", scope="resource", content="likes tea")
        assert PROFILE in await host.until(PROFILE)


async def test_the_launch_says_for_whom_where_the_key_leaves_it_open(tmp_path: Path) -> None:
    names = ("--agent", "h☃", "--resource", "Zoë", "--thread", "today")
    async with served(settings_in(tmp_path), Told(ana=ANYBODY)) as url:
        async with Client(launched(url, *names), mode="legacy") as client:
            await answer(client, "add_messages", messages=HELLO)
        variables = {**KEY, "LAYERLORE_AGENT": "h☃", "LAYERLORE_RESOURCE": "Zoë"}
        async with Client(launched(url, **variables)) as client:
            listed = await answer(client, "list_threads")
            assert [thread["thread_id"] for thread in listed["threads"]] == ["today"]
        async with Client(launched(url, "--agent", "h☃", "--resource", "Ben")) as client:
            assert (await answer(client, "list_threads"))["threads"] == []
        async with Client(launched(url)) as client:
            assert "Layerlore-Agent" in await refused(client, "list_threads")


async def test_a_key_that_is_refused_is_an_error_for_each_request_and_one_line(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("llk_SECRET\n")
    async with (
        served(settings_in(tmp_path), Told(ana=ANA)) as url,
        bridged(url, "--key-file", str(file), LAYERLORE_LOG_LEVEL="warning") as bridge,
    ):
        for method, params in (("server/discover", {"_meta": MODERN_META}), ("initialize", INITIALIZE)):
            sent = await bridge.request(method, params)
            reply = await bridge.receive()
            assert reply["id"] == sent
            assert reply["error"]["message"].startswith("127.0.0.1 answered HTTP 401: the credential is malformed")
        said = await bridge.end()
    assert re.fullmatch(r"layerlore: 127\.0\.0\.1 answered HTTP 401: [^\n]*\n", said)
    assert "SECRET" not in said


async def test_what_the_server_says_for_people_is_passed_on(tmp_path: Path) -> None:
    async with served(settings_in(tmp_path), Told(ana=replace(ANA, rights=frozenset()))) as url:
        async with bridged(url) as bridge:
            await bridge.request("initialize", INITIALIZE)
            assert "HTTP 403: the credential has none of the rights" in (await bridge.receive())["error"]["message"]
        async with bridged(f"{url}/nowhere") as bridge:
            await bridge.request("tools/list", {"_meta": MODERN_META})
            assert "HTTP 404" in (await bridge.receive())["error"]["message"]


@pytest.mark.parametrize("era", ERAS)
async def test_a_server_that_comes_back_serves_on_and_until_then_each_request_is_told(sample: Sample, era: str) -> None:
    async def call(bridge: Bridged, text: str) -> Any:
        meta = {"_meta": MODERN_META} if era == "modern" else {}
        params = {"name": "echo", "arguments": {"text": text}, **meta}
        id_ = await bridge.request("tools/call", params)
        reply = await bridge.receive()
        assert reply["id"] == id_
        return reply

    async with contextlib.AsyncExitStack() as stack:
        async with sample.http(key="ana") as server:
            url, port = server.url, urlsplit(server.url).port
            bridge = await stack.enter_async_context(bridged(url))
            if era == "legacy":
                await bridge.initialize()
            assert (await call(bridge, "one"))["result"]["structuredContent"] == {"result": "one"}
        for text in ("two", "three"):
            assert "127.0.0.1 cannot be reached: ConnectError" in (await call(bridge, text))["error"]["message"]
        async with sample.http(key="ana", port=port):
            assert (await call(bridge, "four"))["result"]["structuredContent"] == {"result": "four"}
            said = await bridge.end()
    assert said.count("\n") == 1, said


@pytest.mark.parametrize(("era", "options"), [("legacy", ()), ("legacy", ("--thread", "today")), ("modern", ())])
async def test_a_conversation_goes_on_after_its_server_was_started_anew(
    tmp_path: Path, era: str, options: tuple[str, ...]
) -> None:
    async def add(bridge: Bridged) -> Any:
        meta = {"_meta": MODERN_META} if era == "modern" else {}
        await bridge.request(
            "tools/call", {"name": "add_messages", "arguments": {"messages": HELLO, "ids": True}, **meta}
        )
        return (await bridge.receive())["result"]["structuredContent"]

    credentials = Told(ana=ANA)
    async with contextlib.AsyncExitStack() as stack:
        async with served(settings_in(tmp_path), credentials) as url:
            bridge = await stack.enter_async_context(bridged(url, *options))
            other = await stack.enter_async_context(bridged(url, *options))
            if era == "legacy":
                await bridge.initialize()
                await other.initialize()
            before, beside = await add(bridge), await add(other)
        async with served(settings_in(tmp_path), credentials, port=urlsplit(url).port or 0):
            after = await add(bridge)
    assert after["thread_id"] == before["thread_id"]
    assert ("note" in after) == ("note" in before) == (not options)
    # Another host has a conversation of its own, where nothing is named.
    assert (beside["thread_id"] != before["thread_id"]) == (not options)


async def test_it_names_the_conversation_that_its_host_was_opened_in(tmp_path: Path) -> None:
    of_host = {**KEY, "CLAUDE_CODE_SESSION_ID": "71546d0c"}
    async with served(settings_in(tmp_path), Told(ana=ANA)) as url:
        for mode in ("auto", "legacy"):
            async with Client(launched(url, **of_host), mode=mode) as client:  # type: ignore[arg-type]
                assert (await answer(client, "add_messages", messages=HELLO))["thread_id"] == "71546d0c"


async def test_a_session_hears_of_changes_again_once_its_server_is_back(sample: Sample) -> None:
    async def hears(bridge: Bridged) -> None:
        await bridge.request("resources/subscribe", {"uri": "memory://x"})
        with anyio.fail_after(PATIENCE):
            while (await bridge.receive()).get("method") != "notifications/resources/updated":
                await bridge.request("tools/call", {"name": "touch", "arguments": {"uri": "memory://x"}})

    async with contextlib.AsyncExitStack() as stack:
        async with sample.http(key="ana") as server:
            url, port = server.url, urlsplit(server.url).port
            bridge = await stack.enter_async_context(bridged(url))
            await bridge.initialize()
            await hears(bridge)
        async with sample.http(key="ana", port=port):
            await hears(bridge)


async def test_a_request_whose_server_ends_is_answered(sample: Sample) -> None:
    async with sample.http(key="ana") as server, bridged(server.url) as bridge:
        sent = await bridge.request("subscriptions/listen", LISTEN["params"])
        assert (await bridge.receive())["method"] == "notifications/subscriptions/acknowledged"
        server.process.kill()
        reply = await bridge.receive()
        assert (reply["id"], "127.0.0.1" in reply["error"]["message"]) == (sent, True)


@pytest.mark.parametrize("era", ERAS)
async def test_a_cancelled_request_is_ended_and_never_answered(sample: Sample, era: str) -> None:
    meta = {"_meta": MODERN_META} if era == "modern" else {}
    slow = {"name": "slow", "arguments": {"seconds": 600}, **meta}
    async with sample.http(key="ana", drain_seconds=600.0) as server, bridged(server.url) as bridge:
        if era == "legacy":
            await bridge.initialize()
        sent = await bridge.request("tools/call", {**slow, "_meta": {**meta.get("_meta", {}), "progressToken": "p"}})
        assert (await bridge.receive())["method"] == "notifications/progress"
        await bridge.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": sent}})
        echo = await bridge.request("tools/call", {"name": "echo", "arguments": {"text": "x"}, **meta})
        replies = [await bridge.receive()]
        while replies[-1].get("id") != echo:
            replies.append(await bridge.receive())
        assert not [reply for reply in replies if reply.get("id") == sent]
        # A call that still ran would keep the server from ending for ten minutes.
        server.process.terminate()
        assert await server.ended() == 0


async def test_requests_that_are_piped_in_are_answered_before_it_ends(tmp_path: Path) -> None:
    first = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE}
    begun = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    lists = [{"jsonrpc": "2.0", "id": id_, "method": "tools/list"} for id_ in (2, "three")]
    async with served(settings_in(tmp_path), Told(ana=ANA)) as url, bridged(url) as bridge:
        await bridge.started()
        await bridge.send(b"\n".join(json.dumps(message).encode() for message in (first, begun, *lists)))
        said = await bridge.end()
        replies = [json.loads(line) for line in (await bridge.rest()).splitlines()]
    assert {reply["id"] for reply in replies if "result" in reply} == {1, 2, "three"}
    assert said == ""


async def test_it_ends_with_its_input_though_the_server_never_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        async with bridged(f"http://127.0.0.1:{silent.getsockname()[1]}/mcp") as bridge:
            await bridge.started()
            await bridge.request("initialize", INITIALIZE)
            await bridge.request("tools/list", {"_meta": MODERN_META})
            assert await bridge.end() == ""


async def test_only_a_server_that_an_authority_vouches_for_gets_the_key(tmp_path: Path) -> None:
    with serving_tls(tmp_path) as other:
        for options, told in (
            ((), "CERTIFICATE_VERIFY_FAILED"),
            (("--ca-file", str(other.ca_file)), "127.0.0.1 answered HTTP 404"),
        ):
            async with bridged(other.url, *options) as bridge:
                await bridge.request("initialize", INITIALIZE)
                assert told in (await bridge.receive())["error"]["message"]


@pytest.mark.parametrize(
    "url",
    [
        "http://mem.example.com/mcp",
        "http://10.0.0.1:8765/mcp",
        "https://user:SECRET@mem.example.com/mcp",
        "https://mem.example.com/mcp?key=SECRET",
        "https://mem.example.com/mcp#SECRET",
        "ftp://localhost/mcp",
        "mem.example.com",
        "https://",
    ],
)
def test_a_url_that_would_give_the_key_away_is_refused(cli: Cli, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("LAYERLORE_BRIDGE__KEY", "SECRET")
    code, out, err = cli("bridge", url)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "http:// only to 127.0.0.1, ::1 or localhost" in err
    assert "SECRET" not in err


def test_a_key_is_needed_and_is_never_repeated(cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refusal(*options: str) -> str:
        code, out, err = cli("bridge", "https://mem.example.com", *options)
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "SECRET" not in err
        return err

    assert "--key-file FILE, or the variable LAYERLORE_BRIDGE__KEY" in refusal()
    assert "cannot be read: No such file or directory" in refusal("--key-file", str(tmp_path / "none"))
    (tmp_path / "two words").write_text("SECRET one")
    assert "one word of printable ASCII" in refusal("--key-file", str(tmp_path / "two words"))
    (tmp_path / "empty").write_text("\n")
    assert "a key is missing" in refusal("--key-file", str(tmp_path / "empty"))
    monkeypatch.setenv("LAYERLORE_BRIDGE__KEY", "SECRET")
    assert "one of them is allowed" in refusal("--key-file", str(tmp_path / "empty"))
    assert "bridge.ca_file: must name a PEM file" in refusal("--ca-file", str(tmp_path / "empty"))


def test_it_is_not_loaded_by_the_server_that_hosts_launch() -> None:
    loaded = loaded_by("import layerlore.server.__main__, layerlore.server.stdio.stdio_transport")
    assert not loaded & {"layerlore.server.bridge.remote_server"}
