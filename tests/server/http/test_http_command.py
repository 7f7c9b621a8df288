"""``layerlore serve`` as a process: its routes, its key, whom it refuses, and which thread a call means."""

import contextlib
import os
import queue
import re
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from layerlore.server.access import exposure
from layerlore.server.access.exposure import is_loopback
from layerlore.server.command_line.commands.serve import serve_process
from layerlore.server.settings.local_key import KeyUnusable, key_file, read_key, read_or_make_key
from layerlore.server.settings.settings import Settings
from layerlore.storage.drivers.sqlite import driver

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning"), pytest.mark.programs]

PATIENCE = 120.0  # seconds: only a hang takes so long
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
ACCEPT = {"accept": "application/json, text/event-stream"}
ROUTES = [
    ("POST", "/mcp"),
    ("GET", "/mcp"),
    ("GET", "/sse"),
    ("POST", "/messages/"),
    ("GET", "/health"),
    ("GET", "/ready"),
]
HELLO = {"messages": [{"role": "user", "content": "hello"}], "ids": True}


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "layerlore.server", "serve", *arguments]


def environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LAYERLORE_")}
    return kept | {"LAYERLORE_EMBEDDING__EMBEDDER": "none"}


class ServedClients:
    """A server that listens, and what it said so far."""

    def __init__(self, data_dir: Path, *arguments: str, **variables: str) -> None:
        self.data_dir = data_dir
        self.process = subprocess.Popen(
            command("--port", "0", "--data-dir", str(data_dir), *arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=environment() | variables,
        )
        self.said = ""
        self._lines: queue.Queue[str] = queue.Queue()
        self._reading = threading.Thread(target=self._read)
        self._reading.start()
        found = None
        while found is None:
            line = self._lines.get(timeout=PATIENCE)
            assert line, f"the server ended: {self.said}"
            self.said += line
            found = re.search(r"listens on (http://\S+)/mcp", line)
        self.url = found[1]

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self._lines.put(line)
        self._lines.put("")

    @property
    def key(self) -> str:
        return (self.data_dir / "http-key").read_text().strip()

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"} if (self.data_dir / "http-key").exists() else {}

    @contextlib.asynccontextmanager
    async def client(self, endpoint: str = "mcp", mode: str = "auto", **headers: str) -> AsyncIterator[Client]:
        sent = {**self.headers, **headers}
        async with httpx2.AsyncClient(headers=sent, timeout=PATIENCE) as http:
            transport = (
                streamable_http_client(self.url + "/mcp", http_client=http)
                if endpoint == "mcp"
                else sse_client(self.url + "/sse", headers=sent)
            )
            async with Client(transport, mode=mode) as client:
                yield client

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self._reading.join(PATIENCE)
            self.process.stderr.close()  # type: ignore[union-attr]
            while not self._lines.empty():
                self.said += self._lines.get()


@contextlib.contextmanager
def serving(data_dir: Path, *arguments: str, **variables: str) -> Iterator[ServedClients]:
    served = ServedClients(data_dir, *arguments, **variables)
    try:
        yield served
    finally:
        code = served.end()
    assert code == 0, served.said
    assert "Traceback" not in served.said


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedClients]:
    """A server behind its key, for all tests that do not care whose messages are in it."""
    with serving(tmp_path_factory.mktemp("served") / "data", "--agent", "tester") as running:
        yield running


async def structure(client: Client, tool: str, arguments: dict[str, Any], **options: Any) -> dict[str, Any]:
    with anyio.fail_after(PATIENCE):
        result = await client.call_tool(tool, arguments, **options)
    assert not result.is_error, result.content
    assert result.structured_content is not None
    return result.structured_content


@pytest.mark.parametrize("endpoint", ["mcp", "sse"])
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_with_the_key_works_in_both_eras_on_both_endpoints(
    served: ServedClients, endpoint: str, mode: str
) -> None:
    async with served.client(endpoint, mode) as client:
        assert client.protocol_version == ("2026-07-28" if mode == "auto" else "2025-11-25")
        thread = f"{endpoint}-{mode}"
        added = await structure(client, "add_messages", {**HELLO, "thread_id": thread})
        assert (added["thread_id"], added["totals"]["messages"]) == (thread, 1)
        page = await structure(client, "get_messages", {"format": "json", "thread_id": thread})
        assert page["messages"][0]["parts"] == [{"type": "text", "text": "hello"}]
        status = await structure(client, "memory_status", {})
        assert status["scope"] == {"agent": "tester", "resource": "default"}


async def test_without_the_key_only_the_health_routes_answer(served: ServedClients) -> None:
    async with httpx2.AsyncClient(base_url=served.url, headers=ACCEPT, timeout=PATIENCE) as client:
        for credentials in ({}, {"Authorization": "Bearer ll_wrong"}, {"X-API-Key": "ll_wrong"}):
            for method, path in ROUTES:
                answer = await client.request(
                    method, path, headers=credentials, json=PING if method == "POST" else None
                )
                assert (answer.status_code == 401) == (path not in ("/health", "/ready")), (method, path, credentials)
        assert (await client.get("/health")).json() == {"status": "ok"}


async def test_the_key_may_come_as_x_api_key(served: ServedClients) -> None:
    async with httpx2.AsyncClient(base_url=served.url, headers=ACCEPT, timeout=PATIENCE) as client:
        answer = await client.post("/messages/", headers={"X-API-Key": served.key}, json=PING)
        assert (answer.status_code, answer.text) == (400, "session_id is required")
    async with (
        httpx2.AsyncClient(headers={"X-API-Key": served.key}, timeout=PATIENCE) as http,
        Client(streamable_http_client(served.url + "/mcp", http_client=http)) as client,
    ):
        await structure(client, "memory_status", {})


async def test_a_foreign_host_or_origin_is_refused_on_every_route(served: ServedClients) -> None:
    async with httpx2.AsyncClient(base_url=served.url, headers=ACCEPT | served.headers, timeout=PATIENCE) as client:
        for method, path in ROUTES:
            for headers, status in (({"Host": "evil.example"}, 421), ({"Origin": "http://evil.example"}, 403)):
                answer = await client.request(method, path, headers=headers)
                assert answer.status_code == status, (method, path, headers)
        for headers in ({"Origin": "http://localhost:5173"}, {"Host": "localhost:1"}, {"Host": "[::1]:8765"}):
            assert (await client.get("/health", headers=headers)).status_code == 200


async def test_clients_without_a_session_never_share_a_thread_unless_they_name_it(served: ServedClients) -> None:
    threads = []
    for endpoint in ("mcp", "sse"):
        async with served.client(endpoint) as client:
            added = await structure(client, "add_messages", HELLO)
            assert added["totals"]["messages"] == 1
            assert "give it as thread_id to go on in it" in added["note"]
            threads.append(added["thread_id"])
    assert threads[0] != threads[1]


async def test_the_thread_may_come_in_the_meta_or_a_header_and_an_argument_counts_most(served: ServedClients) -> None:
    in_meta: Any = {"layerlore/thread": "from-meta"}
    async with served.client() as client:
        assert (await structure(client, "add_messages", HELLO, meta=in_meta))["thread_id"] == "from-meta"
    async with served.client(**{"Layerlore-Thread": "from-header"}) as client:
        assert (await structure(client, "add_messages", HELLO))["thread_id"] == "from-header"
        assert (await structure(client, "add_messages", HELLO, meta=in_meta))["thread_id"] == "from-meta"
        named = {**HELLO, "thread_id": "from-argument"}
        assert (await structure(client, "add_messages", named, meta=in_meta))["thread_id"] == "from-argument"


@pytest.mark.parametrize("endpoint", ["mcp", "sse"])
async def test_a_session_of_an_older_client_has_one_new_thread_of_its_own(served: ServedClients, endpoint: str) -> None:
    threads = []
    for _ in range(2):
        async with served.client(endpoint, "legacy") as client:
            first = await structure(client, "add_messages", HELLO)
            again = await structure(client, "add_messages", HELLO)
            assert first["thread_id"] == again["thread_id"]
            assert again["totals"]["messages"] == 2
            threads.append(first["thread_id"])
    assert threads[0] != threads[1]


async def test_the_key_is_written_once_for_its_owner_only_and_shown_nowhere(tmp_path: Path) -> None:
    keys = []
    for _ in range(2):
        with serving(tmp_path / "new" / "data") as running:
            keys.append(running.key)
            async with running.client() as client:
                await structure(client, "memory_status", {})
        assert str(running.data_dir / "http-key") in running.said
        assert running.key not in running.said
    assert keys[0] == keys[1]
    assert re.fullmatch(r"ll_[\w-]{43}", keys[0])
    assert stat.S_IMODE(key_file(tmp_path / "new" / "data").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "new" / "data").stat().st_mode) == 0o700


async def test_no_auth_asks_for_no_key_and_writes_none(tmp_path: Path) -> None:
    with serving(tmp_path, "--no-auth", "--thread", "launched") as running:
        async with running.client() as client:
            assert (await structure(client, "add_messages", HELLO))["thread_id"] == "launched"
        async with httpx2.AsyncClient(base_url=running.url, timeout=PATIENCE) as client:
            assert (await client.get("/health", headers={"Host": "evil.example"})).status_code == 421
            assert (await client.get("/ready")).json() == {"status": "ready"}
    assert not key_file(tmp_path).exists()


async def test_the_server_is_healthy_at_once_and_ready_when_its_database_is_open(tmp_path: Path) -> None:
    with contextlib.closing(driver.driver.connect(tmp_path / "memory.db", isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with serving(tmp_path) as running:
            async with httpx2.AsyncClient(base_url=running.url, timeout=PATIENCE) as client:
                assert (await client.get("/health")).status_code == 200
                answer = await client.get("/ready")
                assert (answer.status_code, answer.json()) == (503, {"status": "starting"})
                other.execute("ROLLBACK")
                async with running.client() as mcp:
                    await structure(mcp, "memory_status", {})
                answer = await client.get("/ready")
                assert (answer.status_code, answer.json()) == (200, {"status": "ready"})


async def test_a_server_that_is_ended_while_it_opens_its_database_ends_in_time_and_closes_it(tmp_path: Path) -> None:
    with serving(tmp_path) as running:
        running.process.send_signal(signal.SIGTERM)
        running.process.wait(PATIENCE)
    assert {file.name for file in tmp_path.iterdir()} <= {"http-key", "memory.db"}


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*arguments),
        env=environment() | variables,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


async def test_an_address_that_others_can_reach_is_refused_with_exit_code_2(tmp_path: Path) -> None:
    ended = run("--data-dir", str(tmp_path / "none"), "--no-auth", LAYERLORE_HTTP__HOST="0.0.0.0")
    assert ended.returncode == 2
    assert "leave out --no-auth" in ended.stderr
    assert ended.stderr.count("\n") == 1
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("host", ["::", "127.9.9.9", "192.168.1.5", "example.com", "localhost.example.com", ""])
async def test_no_other_name_passes_for_loopback(host: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert serve_process(Settings(http={"host": host}), lambda: exposure.ServedClients(False)) == 2
    assert "http.host may be 127.0.0.1, ::1, localhost" in capsys.readouterr().err
    assert all(is_loopback(own) for own in ("127.0.0.1", "::1", "localhost"))


async def test_a_port_in_use_is_one_line_and_exit_code_1(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = run("--port", str(port), "--data-dir", str(tmp_path))
    assert ended.returncode == 1
    told = f"layerlore: cannot listen on 127.0.0.1 port {port}: Address already in use; --port chooses another port\n"
    assert ended.stderr == told


async def test_a_key_file_without_a_key_is_refused_and_named(tmp_path: Path) -> None:
    key_file(tmp_path).write_text("short\n")
    ended = run("--data-dir", str(tmp_path))
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"layerlore: {key_file(tmp_path)} holds no usable key")
    assert ended.stderr.count("\n") == 1
    for unfit in ("", "clé-clé-clé-clé-clé-clé", "two words two words two words"):
        key_file(tmp_path).write_text(unfit, encoding="utf-8")
        with pytest.raises(KeyUnusable):
            read_or_make_key(tmp_path)


async def test_servers_that_start_together_have_the_same_key(tmp_path: Path) -> None:
    together = threading.Barrier(8)

    def start(_: int) -> str:
        together.wait(PATIENCE)
        return read_or_make_key(tmp_path)

    assert read_key(tmp_path) is None
    with ThreadPoolExecutor(8) as starts:
        assert set(starts.map(start, range(8))) == {read_key(tmp_path)}
