"""``layerlore serve --workers``: several processes on one port, in both protocol eras."""

import contextlib
import json
import os
import queue
import re
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import psutil
import pytest
from mcp import Client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from layerlore.server.http.http_worker import Channel, Frame, Kind

from ..shared_machine import wait_for_end

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.programs,
    pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning"),
    pytest.mark.skipif(sys.platform == "win32", reason="one process serves on Windows"),
]

PATIENCE = 120.0  # seconds: only a hang takes so long
WORKERS = 2
ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}},
}
PING = {"jsonrpc": "2.0", "id": 2, "method": "ping"}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "layerlore.server", "serve", "--port", "0", *arguments]


class Workers:
    """A server of several workers that listens, and what it said so far."""

    def __init__(self, data_dir: Path, *arguments: str) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("LAYERLORE_")}
        self.process = psutil.Popen(
            command("--no-auth", "--workers", str(WORKERS), "--data-dir", str(data_dir), *arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=kept | {"LAYERLORE_EMBEDDING__EMBEDDER": "none"},
        )
        self.said: list[str] = []
        self._lines: queue.Queue[str] = queue.Queue()
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()
        self.url = self.wait_for(r"listens on (http://\S+)/mcp")[1]

    def _read(self) -> None:
        for line in self.process.stderr:
            self._lines.put(line)
        self._lines.put("")

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Wait until it says so."""
        while line := self._lines.get(timeout=PATIENCE):
            self.said.append(line)
            if found := re.search(pattern, line):
                return found
        raise AssertionError(f"the server ended: {self.said}")

    @property
    def address(self) -> tuple[str, int]:
        url = httpx2.URL(self.url)
        assert url.port is not None
        return url.host, url.port

    def children(self) -> list[psutil.Process]:
        return self.process.children()

    async def post(self, body: Any, session: str = "", client: httpx2.AsyncClient | None = None) -> httpx2.Response:
        """One request on a connection of its own, or on one that the client keeps."""
        headers = ACCEPT | ({"Mcp-Session-Id": session} if session else {})
        async with contextlib.AsyncExitStack() as stack:
            client = client or await stack.enter_async_context(httpx2.AsyncClient(timeout=PATIENCE))
            return await client.post(f"{self.url}/mcp", json=body, headers=headers)

    async def session(self) -> str:
        """The id of a new session of the older protocol."""
        answer = await self.post(INITIALIZE)
        assert answer.status_code == 200, answer.text
        return answer.headers["mcp-session-id"]

    async def session_of(self, worker: int) -> str:
        """The id of a new session that this worker serves."""
        with anyio.fail_after(PATIENCE):
            while True:
                with contextlib.suppress(httpx2.TransportError):
                    session = await self.session()
                    if session.startswith(f"{worker}-"):
                        return session

    def end(self) -> None:
        self.process.terminate()
        try:
            code = self.process.wait(PATIENCE)
        finally:
            self.kill()
        assert code == 0, self.said
        assert "Traceback" not in "".join(self.said), self.said

    def kill(self) -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in (*self.children(), self.process):
                process.kill()
        self.process.wait(PATIENCE)
        self._reading.join(PATIENCE)
        while line := self._lines.get(timeout=PATIENCE):
            self.said.append(line)
        self.process.stderr.close()


@contextlib.contextmanager
def running(data_dir: Path) -> Iterator[Workers]:
    server = Workers(data_dir)
    try:
        yield server
    finally:
        if not server.process.stderr.closed:
            server.kill()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workers]:
    """A server that goes on."""
    with running(tmp_path_factory.mktemp("workers")) as server:
        yield server
        server.end()
        assert "".join(server.said).count("layerlore listens on") == 1


@pytest.fixture
def ending(tmp_path: Path) -> Iterator[Workers]:
    """A server that one test may end."""
    with running(tmp_path) as server:
        yield server


@contextlib.asynccontextmanager
async def connected(url: str, endpoint: str, mode: Any) -> AsyncIterator[Client]:
    """A client that keeps no connection, so that each request comes on a new one."""
    limits = httpx2.Limits(max_keepalive_connections=0)
    async with contextlib.AsyncExitStack() as stack:
        if endpoint == "sse":
            transport: Any = sse_client(f"{url}/sse")
        else:
            http = await stack.enter_async_context(httpx2.AsyncClient(limits=limits, timeout=PATIENCE))
            transport = streamable_http_client(f"{url}/mcp", http_client=http)
        yield await stack.enter_async_context(Client(transport, mode=mode, read_timeout_seconds=PATIENCE))


async def test_clients_of_both_eras_work_on_both_endpoints_whichever_worker_has_their_connection(
    served: Workers,
) -> None:
    await both_serve(served)
    with anyio.fail_after(PATIENCE):
        for endpoint, mode in (("mcp", "auto"), ("mcp", "legacy"), ("sse", "auto"), ("sse", "legacy")):
            async with contextlib.AsyncExitStack() as stack:
                # As many as the workers, twice: some of each worker's.
                clients = [
                    await stack.enter_async_context(connected(served.url, endpoint, mode)) for _ in range(2 * WORKERS)
                ]
                for number, client in enumerate(clients):
                    thread = f"{endpoint}-{mode}-{number}"
                    for text in ("one", "two", "three"):
                        said = {"thread_id": thread, "messages": [{"role": "user", "content": text}]}
                        assert not (await client.call_tool("add_messages", said)).is_error
                    page = await client.call_tool("get_messages", {"format": "json", "thread_id": thread})
                    assert "three" in json.dumps(page.structured_content)


async def both_serve(served: Workers) -> None:
    for worker in range(WORKERS):
        await served.session_of(worker)


async def test_news_reaches_a_client_of_either_era_whichever_worker_made_the_change(served: Workers) -> None:
    await both_serve(served)
    with anyio.fail_after(PATIENCE):
        async with contextlib.AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(connected(served.url, "mcp", "auto")) for _ in range(3)]
            listening = await stack.enter_async_context(
                clients[0].listen(resource_subscriptions=["memory://threads/a/messages"])
            )
            for number, client in enumerate(clients[1:] * WORKERS):
                said = {"thread_id": "a", "messages": [{"role": "user", "content": f"news {number}"}]}
                assert not (await client.call_tool("add_messages", said)).is_error
            assert (await anext(listening)).uri == "memory://threads/a/messages"


async def test_one_connection_carries_requests_of_sessions_of_several_workers_in_turn(served: Workers) -> None:
    sessions = [await served.session_of(worker) for worker in range(WORKERS)]
    limits = httpx2.Limits(max_connections=1)
    with anyio.fail_after(PATIENCE):
        async with httpx2.AsyncClient(limits=limits, timeout=PATIENCE) as client:
            for session in sessions * 5:
                answer = await served.post(PING, session, client)
                assert (answer.status_code, "result" in answer.text) == (200, True), answer.text


async def test_a_request_that_arrives_in_pieces_reaches_the_worker_of_its_session(served: Workers) -> None:
    sessions = [await served.session_of(worker) for worker in range(WORKERS)]
    for session in sessions * 2:
        body = json.dumps({**PING, "padding": "x" * 500_000}).encode()
        sent = request(served, session, body)
        with socket.create_connection(served.address, PATIENCE) as connection:
            for piece in (sent[:30], sent[30:100], sent[100:-1000], sent[-1000:]):
                connection.sendall(piece)
            assert connection.recv(12) == b"HTTP/1.1 200"


async def test_a_request_sent_before_the_answer_to_the_one_before_it_is_never_answered_by_the_wrong_worker(
    served: Workers,
) -> None:
    sessions = [await served.session_of(worker) for worker in range(WORKERS)]
    body = json.dumps(PING).encode()
    with socket.create_connection(served.address, PATIENCE) as connection:
        connection.sendall(b"".join(request(served, session, body) for session in sessions))
        answered = b""
        while piece := connection.recv(65536):
            answered += piece
            if answered.count(b"HTTP/1.1 ") == len(sessions):
                break
    assert b"HTTP/1.1 404" not in answered


def request(served: Workers, session: str, body: bytes) -> bytes:
    head = [f"POST /mcp HTTP/1.1\r\nHost: {served.address[0]}:{served.address[1]}\r\n"]
    head += [f"{name}: {value}\r\n" for name, value in ACCEPT.items()]
    head.append(f"Mcp-Session-Id: {session}\r\nContent-Length: {len(body)}\r\n\r\n")
    return "".join(head).encode() + body


async def test_a_worker_that_is_killed_is_replaced_and_only_its_own_sessions_are_over(served: Workers) -> None:
    sessions = [await served.session_of(worker) for worker in range(WORKERS)]
    killed = next(child for child in served.children() if child.cmdline()[-2] == "0")
    killed.kill()
    served.wait_for(r"worker 0 has ended \(SIGKILL\)")
    with anyio.fail_after(PATIENCE):
        assert (await served.post(PING, sessions[0])).status_code == 404
        assert (await served.post(PING, sessions[1])).status_code == 200
        await served.session_of(0)
        assert (await served.post(PING, sessions[0])).status_code == 404
    assert len(served.children()) == WORKERS


async def test_all_workers_end_in_order_when_the_server_is_told_to_end(ending: Workers) -> None:
    await both_serve(ending)
    children = ending.children()
    answers: list[bool] = []
    with anyio.fail_after(PATIENCE):
        async with contextlib.AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(connected(ending.url, "mcp", "auto")) for _ in range(2 * WORKERS)
            ]

            async def say(client: Client) -> None:
                said = {"thread_id": "a", "messages": [{"role": "user", "content": "one"}]}
                answers.append(not (await client.call_tool("add_messages", said)).is_error)

            for client in clients:
                await say(client)
            async with anyio.create_task_group() as tasks:
                for client in clients:
                    tasks.start_soon(say, client)
        assert answers == [True] * 4 * WORKERS
    ending.end()
    _, alive = psutil.wait_procs(children, PATIENCE)
    assert alive == []


async def test_workers_end_with_their_parent(ending: Workers) -> None:
    await both_serve(ending)
    children = ending.children()
    ending.process.kill()
    ending.process.wait(PATIENCE)
    for child in children:
        wait_for_end(child)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--host", "0.0.0.0", "--no-auth"], "without credentials only this machine may be served"),
        (["--database", "sqlite://:memory:"], "a database in memory belongs to one process"),
    ],
)
def test_what_cannot_be_served_is_refused_once(tmp_path: Path, arguments: list[str], why: str) -> None:
    ended = subprocess.run(
        command("--workers", "3", "--data-dir", str(tmp_path), *arguments),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (ended.returncode, ended.stderr.count(why)) == (2, 1), ended.stderr
    assert "listens" not in ended.stderr


def test_frames_and_their_files_arrive_whole_and_in_order() -> None:
    left, right = socket.socketpair()
    left.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    sender, receiver = Channel(left), Channel(right)
    pipes = [os.pipe() for _ in range(20)]
    for number, (_, write) in enumerate(pipes):
        sender.put(Frame(Kind.CLOSED))
        sender.put(Frame(Kind.PASSED, number, bytes([number]) * 3_000, write))
    found: list[Frame] = []
    while len(found) < 2 * len(pipes):
        sender.flush()
        taken = receiver.take()
        assert taken is not None
        found += taken
    assert not sender.waiting
    for number, ((read, _), frame) in enumerate(zip(pipes, found[1::2], strict=True)):
        assert (frame.kind, frame.worker, frame.text) == (Kind.PASSED, number, bytes([number]) * 3_000)
        os.write(frame.file, str(number).encode())
        os.close(frame.file)
        assert os.read(read, 10) == str(number).encode()
        assert os.read(read, 10) == b""  # nobody else has it open
        os.close(read)
    sender.close()
    assert receiver.take() is None
    receiver.close()


def test_a_channel_that_is_closed_closes_the_files_that_it_could_not_send() -> None:
    left, right = socket.socketpair()
    left.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    sender = Channel(left)
    read, write = os.pipe()
    while not sender.waiting:
        sender.put(Frame(Kind.CLOSED, text=b"x" * 60_000))
    sender.put(Frame(Kind.CONNECTION, file=write))
    sender.close()
    right.close()
    assert os.read(read, 1) == b""
    os.close(read)
