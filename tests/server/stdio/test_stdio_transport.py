"""The sample server as a process on stdio: what a host does to it, and what it must never do to a host."""

import contextlib
import json
import os
import pty
import signal
import socket
import subprocess
import tty
from collections.abc import Iterator
from typing import Any

import anyio
import psutil
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.subscriptions import ResourceUpdated
from mcp.types import ResourceUpdatedNotification

pytestmark = [pytest.mark.anyio, pytest.mark.programs]

PATIENCE = 120.0  # seconds: only a hang takes so long
OLDER = "2025-11-25"
PING = b'{"jsonrpc":"2.0","id":"ping","method":"ping"}'
INITIALIZE = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
    b'"capabilities":{},"clientInfo":{"name":"test","version":"1"}}}\n'
)


def opening(mode: str) -> list[dict[str, Any]]:
    """What a client of the mode says first: in the newer protocol nothing."""
    return [json.loads(INITIALIZE), {"jsonrpc": "2.0", "method": "notifications/initialized"}] if mode == OLDER else []


def called(mode: str, number: int, tool: str, **arguments: Any) -> dict[str, Any]:
    meta = {
        "io.modelcontextprotocol/protocolVersion": mode,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    }
    params = {"name": tool, "arguments": arguments, **({} if mode == OLDER else {"_meta": meta})}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


def text_of(result: Any) -> str:
    return result.content[0].text


@contextlib.contextmanager
def official(sample: Any) -> Iterator[Any]:
    """The official client's transport to the sample."""
    command, *args = sample.command(transport="stdio")
    with sample.stderr_file.open("w") as stderr:
        yield stdio_client(StdioServerParameters(command=command, args=args, env=sample.env), errlog=stderr)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")
async def test_the_official_client_works_in_both_eras(sample: Any, mode: str) -> None:
    updated = anyio.Event()

    async def on_message(message: Any) -> None:
        if isinstance(message, ResourceUpdatedNotification):
            updated.set()

    with anyio.fail_after(PATIENCE), official(sample) as transport:
        async with Client(transport, mode=mode, message_handler=on_message) as client:
            assert "echo" in [tool.name for tool in (await client.list_tools()).tools]
            long = "ä\u2028\n" * 300_000
            assert text_of(await client.call_tool("echo", {"text": long})) == long
            if mode == "legacy":
                await client.subscribe_resource("memory://profile")
                await client.call_tool("touch", {"uri": "memory://profile"})
                await updated.wait()
            else:
                async with client.listen(resource_subscriptions=["memory://profile"]) as events:
                    await client.call_tool("touch", {"uri": "memory://profile"})
                    assert await anext(events) == ResourceUpdated(uri="memory://profile")
    assert sample.marks == ["entered", "left"]


async def test_a_client_that_gave_up_asking_for_the_newer_protocol_is_served_in_the_older(sample: Any) -> None:
    envelope = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    question = {"jsonrpc": "2.0", "id": "asked", "method": "server/discover", "params": {"_meta": envelope}}
    async with sample.lines() as client:
        # Both are there before the server reads: it took longer to start than the client waits.
        await client.send(json.dumps(question).encode() + b"\n" + INITIALIZE.strip())
        replies = {reply["id"]: reply for reply in (await client.receive(), await client.receive())}
        assert replies[1]["result"]["protocolVersion"] == "2025-11-25"
        assert "error" in replies["asked"]
        await client.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        sent = await client.request("tools/call", {"name": "echo", "arguments": {"text": "hello"}})
        reply = await client.receive()
        assert (reply["id"], reply["result"]["content"][0]["text"]) == (sent, "hello")


async def test_nothing_but_messages_reaches_stdout(sample: Any) -> None:
    async with sample.lines() as lines:
        await lines.initialize()
        await lines.call("noisy")
        await lines.process.stdin.aclose()
        assert await lines.rest() == b""
        assert await lines.ended() == 0
    for text in ("printed at import", "printed by a tool", "printed by a child", "left in the buffer"):
        assert text in sample.stderr


async def test_the_end_of_stdin_ends_the_server_and_a_call_in_flight(sample: Any) -> None:
    async with sample.lines() as lines:
        await lines.initialize()
        await lines.request(
            "tools/call", {"name": "slow", "arguments": {"seconds": 600}, "_meta": {"progressToken": 1}}
        )
        assert (await lines.receive())["method"] == "notifications/progress"
        await lines.process.stdin.aclose()
        assert await lines.ended() == 0
    assert sample.marks == ["entered", "left"]
    assert "Traceback" not in sample.stderr


@pytest.mark.parametrize("mode", [OLDER, "2026-07-28"])
async def test_what_was_asked_before_the_end_of_stdin_is_answered(sample: Any, mode: str) -> None:
    request = [*opening(mode), *(called(mode, number, "echo", text=f"number {number}") for number in (2, 3, 4))]
    request.append(called(mode, 5, "slow", seconds=0.3))
    (sample.folder / "in").write_bytes(b"".join(json.dumps(each).encode() + b"\n" for each in request))
    with (sample.folder / "in").open("rb") as stdin:
        async with sample.lines(stdin=stdin, answer_seconds=PATIENCE) as lines:
            answers = {
                each["id"]: each for line in (await lines.rest()).splitlines() if "id" in (each := json.loads(line))
            }
            assert await lines.ended() == 0
    assert all("result" in answer for answer in answers.values()), answers
    assert [answers[number]["result"]["content"][0]["text"] for number in (2, 3, 4, 5)] == [
        *("number 2", "number 3", "number 4"),
        "done",
    ]
    assert sample.marks == ["entered", "left"]


async def test_a_host_that_closes_both_ends_the_server_and_a_call_in_flight(sample: Any) -> None:
    async with sample.lines() as lines:
        await lines.initialize()
        await lines.request(
            "tools/call", {"name": "slow", "arguments": {"seconds": 600}, "_meta": {"progressToken": 1}}
        )
        await lines.receive()
        await lines.process.stdout.aclose()
        await lines.process.stdin.aclose()
        assert await lines.ended() == 0
    assert sample.marks == ["entered", "left"]


async def test_stdin_may_end_before_anything_was_said(sample: Any) -> None:
    async with sample.lines(stdin=subprocess.DEVNULL) as lines:
        assert await lines.rest() == b""
        assert await lines.ended() == 0
    assert sample.marks == ["entered", "left"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_the_server_while_stdin_is_open(sample: Any, number: signal.Signals) -> None:
    async with sample.lines() as lines:
        await lines.initialize()
        await lines.request(
            "tools/call", {"name": "slow", "arguments": {"seconds": 600}, "_meta": {"progressToken": 1}}
        )
        await lines.receive()
        lines.process.send_signal(number)
        assert await lines.ended() == 0
    assert sample.marks == ["entered", "left"]
    assert "Traceback" not in sample.stderr


async def test_a_signal_right_after_the_end_of_stdin_does_not_cut_the_clean_up(sample: Any) -> None:
    async with sample.lines() as lines:
        await lines.initialize()
        await lines.process.stdin.aclose()
        lines.process.terminate()
        lines.process.terminate()
        assert await lines.ended() == 0
    assert sample.marks == ["entered", "left"]


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="nothing tells of the end of somebody else's child")
async def test_the_death_of_the_parent_ends_the_server_while_stdin_is_held_open(sample: Any) -> None:
    # The shell stays the sample's parent, since it has one more command to run.
    command = ["/bin/sh", "-c", '"$@"; true', "sh", *sample.command(transport="stdio")]
    with sample.stderr_file.open("wb") as stderr:
        shell = await anyio.open_process(command, stdin=subprocess.PIPE, stderr=stderr, env=sample.env)
    async with shell:
        assert shell.stdin is not None
        assert shell.stdout is not None
        await shell.stdin.send(INITIALIZE)
        with anyio.fail_after(PATIENCE):
            await shell.stdout.receive()
        [server] = psutil.Process(shell.pid).children()
        exit_seen = os.pidfd_open(server.pid)
        shell.kill()
        try:
            with anyio.fail_after(PATIENCE):
                await anyio.wait_readable(exit_seen)
        finally:
            os.close(exit_seen)
    assert sample.marks == ["entered", "left"]


async def test_a_host_that_closes_stdout_during_an_answer_ends_the_server_quietly(sample: Any) -> None:
    read_fd, stdout = os.pipe()
    with os.fdopen(read_fd, "rb", buffering=0) as received:
        async with sample.lines(stdout=stdout) as lines:
            os.close(stdout)
            await lines.send(INITIALIZE)
            # More than a pipe holds, so that the server is still writing when the host goes.
            await lines.request("tools/call", {"name": "echo", "arguments": {"text": "x" * 1_000_000}})
            with anyio.fail_after(PATIENCE):
                seen = b""
                while seen.count(b"\n") < 1 or seen.endswith(b"\n"):  # into the second answer
                    await anyio.wait_readable(received)
                    seen += received.read(1000)
            received.close()
            assert await lines.ended() == 0
    assert sample.marks == ["entered", "left"]
    assert sample.stderr == "printed at import\n"


async def test_the_server_can_be_ended_from_inside_with_an_exit_code(sample: Any) -> None:
    async with sample.lines() as lines:
        await lines.initialize()
        await lines.request("tools/call", {"name": "end", "arguments": {"exit_code": 3}})
        assert await lines.ended() == 3
    assert sample.marks == ["entered", "left"]


async def test_a_lifespan_that_fails_ends_the_server_with_its_own_error(sample: Any) -> None:
    async with sample.lines(fail=True) as lines:
        await lines.send(PING)
        assert await lines.ended() == 1
    assert "RuntimeError: the lifespan failed" in sample.stderr
    assert "ExceptionGroup" not in sample.stderr


async def test_a_call_that_nothing_can_cancel_does_not_hold_up_the_exit(sample: Any) -> None:
    async with sample.lines() as lines:
        await lines.initialize()
        await lines.request("tools/call", {"name": "stuck", "arguments": {"seconds": 600}})
        with anyio.fail_after(PATIENCE):
            while sample.marks != ["entered", "stuck"]:
                await lines.request("ping", {})
                await lines.receive()
        await lines.process.stdin.aclose()
        assert await lines.ended() == 1


async def test_files_serve_as_stdin_and_stdout(sample: Any) -> None:
    request, answered = sample.folder / "in", sample.folder / "out"
    request.write_bytes(INITIALIZE + b"[]\n")
    with request.open("rb") as stdin, answered.open("wb") as stdout:
        async with sample.lines(stdin=stdin, stdout=stdout) as lines:
            assert await lines.ended() == 0
    by_id = {message["id"]: message for message in map(json.loads, answered.read_text().splitlines())}
    assert by_id[1]["result"]["serverInfo"]["name"] == "sample"
    assert by_id[None]["error"]["code"] == -32600
    assert sample.marks == ["entered", "left"]


async def test_a_terminal_serves_and_an_interrupt_ends_the_server(sample: Any) -> None:
    host, terminal = pty.openpty()
    tty.setraw(terminal)
    try:
        async with sample.lines(stdin=terminal, stdout=terminal) as lines:
            os.write(host, PING + b"\n")
            with anyio.fail_after(PATIENCE):
                answer = await anyio.to_thread.run_sync(os.read, host, 1000)
            assert json.loads(answer)["id"] == "ping"
            lines.process.send_signal(signal.SIGINT)  # its thread is still blocked in a read
            assert await lines.ended() == 0
    finally:
        os.close(host)
        os.close(terminal)
    assert sample.marks == ["entered", "left"]


@pytest.mark.parametrize("sockets", [1, 2])
async def test_sockets_serve_as_stdin_and_stdout(sample: Any, sockets: int) -> None:
    pairs = [socket.socketpair() for _ in range(sockets)]
    ours = [await anyio.abc.SocketStream.from_socket(pair[0]) for pair in pairs]
    async with sample.lines(stdin=pairs[0][1], stdout=pairs[-1][1]) as lines:
        for _, theirs in pairs:
            theirs.close()
        for _ in range(3):
            with anyio.fail_after(PATIENCE):
                await ours[0].send(PING + b"\n")
                assert json.loads(await ours[-1].receive())["id"] == "ping"
        await ours[0].send_eof()
        assert await lines.ended() == 0
        for stream in ours:
            await stream.aclose()
    assert sample.marks == ["entered", "left"]


async def test_every_line_that_is_no_message_is_answered_and_the_next_one_works(sample: Any) -> None:
    bad: list[tuple[bytes, int, Any]] = [
        (b'{"jsonrpc":"2.0","id":"a","method":"pi', -32700, "a"),
        (b"hello", -32700, None),
        (b"[]", -32600, None),
        (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600, None),
        (b'{"jsonrpc":"2.0","id":7,"method":"ping","params":{"a":"\xff"}}', -32700, 7),
        (
            b'{"jsonrpc":"2.0","id":8,"method":"ping","params":{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
            -32700,
            8,
        ),
        (b'{"jsonrpc":"2.0","id":9,"method":"ping","params":{"a":"' + b"x" * 5_000_000 + b'"}}', -32600, 9),
        (b'{"method":"ping","params":{"a":"' + b"x" * 5_000_000 + b'"},"jsonrpc":"2.0","id":10}', -32600, 10),
    ]
    async with sample.lines() as lines:
        await lines.initialize()
        for line, code, request_id in bad:
            await lines.send(line)
            refusal = await lines.receive()
            assert (refusal["error"]["code"], refusal["id"]) == (code, request_id)
            await lines.send(b"")
            await lines.send(PING)
            assert await lines.receive() == {"jsonrpc": "2.0", "id": "ping", "result": {}}
        server = psutil.Process(lines.process.pid)
        assert server.memory_info().rss < 250e6


async def test_a_result_that_json_cannot_hold_is_an_error_and_not_the_end(sample: Any) -> None:
    async with sample.lines() as lines:
        await lines.initialize()
        assert (await lines.call("unwritable"))["error"]["code"] == -32603
        assert "result" in await lines.call("echo", text="still there")
