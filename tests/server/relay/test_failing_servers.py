"""A thin client and servers that fail: each request is answered, and the client ends when it should."""

import contextlib
import json
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import anyio
import pytest
from launch_environment import own_environment

from layerlore.server.local import server
from layerlore.server.process.lines import MAX_LINE_BYTES
from layerlore.server.process.shutdown import StopRequest
from layerlore.server.process.version import VERSION
from layerlore.server.relay import server_query
from layerlore.server.relay.channels import Listener, connect, listen, prepare_folder
from layerlore.server.relay.conversation import MOST_DEATHS, Conversation
from layerlore.server.relay.kept_answers import KeptAnswers
from layerlore.server.relay.launch import read_launch
from layerlore.server.settings.settings import load_settings

pytestmark = pytest.mark.programs

PATIENCE = 60.0
"""Seconds: only a hang takes so long."""
GREETING = {"version": VERSION, "pid": 1}


class Failing:
    """A server that tests play themselves, and a host's thin client that finds it."""

    def __init__(self, folder: str) -> None:
        self.environ = own_environment(
            LAYERLORE_DATA_DIR=str(Path(folder) / "data"),
            LAYERLORE_LOCAL__SHARE="true",
            LAYERLORE_EMBEDDING__EMBEDDER="none",
        )
        launch = read_launch({}, self.environ)
        assert launch is not None
        self.launch = launch
        prepare_folder(launch.base)
        self.listener: Listener = listen(launch.base)
        self.listener.socket.settimeout(PATIENCE)

    @contextlib.contextmanager
    def client(self) -> Iterator[subprocess.Popen[bytes]]:
        command = [sys.executable, "-m", "layerlore"]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, env=self.environ, stdin=pipe, stdout=pipe, stderr=pipe) as client:
            try:
                yield client
            finally:
                client.kill()

    @contextlib.contextmanager
    def serve(self, greeting: object = GREETING) -> Iterator[tuple[socket.socket, IO[bytes]]]:
        """The next connection, with its lines: the client's own greeting is read."""
        connection, _ = self.listener.socket.accept()
        with connection, connection.makefile("rb") as lines:
            connection.settimeout(PATIENCE)
            assert json.loads(lines.readline())["want"] == "session"
            connection.sendall(json.dumps(greeting).encode() + b"\n")
            yield connection, lines


@pytest.fixture
def failing() -> Iterator[Failing]:
    with tempfile.TemporaryDirectory(prefix="layerlore-") as folder:
        found = Failing(folder)
        yield found
        found.listener.socket.close()


def ask(client: subprocess.Popen[bytes], method: str, number: int | str, **params: Any) -> None:
    assert client.stdin
    client.stdin.write(request(method, number, **params) + b"\n")
    client.stdin.flush()


def request(method: str, number: int | str, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode()


def hear(client: subprocess.Popen[bytes]) -> Any:
    assert client.stdout
    return json.loads(client.stdout.readline())


def test_a_request_that_ends_every_server_is_answered_with_an_error(failing: Failing) -> None:
    with failing.client() as client:
        ask(client, "tools/call", 'a "ü" 1')
        for _ in range(MOST_DEATHS):
            with failing.serve() as (_, lines):
                assert b"tools/call" in lines.readline()
        answer = hear(client)
        assert answer["id"] == 'a "ü" 1'
        assert f"ended {MOST_DEATHS} times" in answer["error"]["message"]


def test_a_server_that_refuses_a_host_ends_its_client_which_still_has_a_host(failing: Failing) -> None:
    with failing.client() as client:
        with failing.serve({"error": "no such tools"}):
            assert client.wait(PATIENCE) == 2
        assert client.stderr
        assert b"no such tools" in client.stderr.read()


def test_who_waits_for_a_server_that_cannot_start_hears_why(tmp_path: Path) -> None:
    base = str(tmp_path / "l" / "name")
    prepare_folder(base)
    listener = listen(base)
    connection, _ = connect(base)
    with connection, listener.socket:
        connection.sendall(b"{}\n")
        assert server.serve(base, {"redaction": "some", "data_dir": str(tmp_path)}, listener) == 2
        assert "redaction" in json.loads(connection.recv(4096))["error"]
    with pytest.raises(OSError, match="No such file"):
        connect(base)


@pytest.mark.parametrize("greeting", [["HTTP/1.1 400"], {}, 7])
def test_where_something_else_answers_the_host_gets_a_server_of_its_own(failing: Failing, greeting: object) -> None:
    with failing.client() as client:
        ask(client, "server/discover", 1)
        for _ in range(3):
            with failing.serve(greeting):
                pass
        assert hear(client)["id"] == 1


def test_a_server_that_sends_before_it_reads_gets_the_requests_of_the_one_before(failing: Failing) -> None:
    news = b'{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"%s"}}\n' % (b"n" * 1000)
    with failing.client() as client:
        ask(client, "tools/call", 1, text="t" * (MAX_LINE_BYTES - 1000))
        with failing.serve() as (_, lines):
            lines.readline()
        with failing.serve() as (connection, lines):
            connection.sendall(b'{"jsonrpc":"2.0","method":"notifications/message"}\n')
            assert hear(client)["method"] == "notifications/message"
            for _ in range(2000):
                connection.sendall(news)
                assert hear(client)["method"] == "notifications/message"
            assert b"tools/call" in lines.readline()
            connection.sendall(b'{"jsonrpc":"2.0","id":1,"result":{}}\n')
            assert hear(client)["id"] == 1


@pytest.mark.anyio
async def test_one_connection_that_cannot_be_accepted_keeps_nobody_else_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = load_settings(
        {"data_dir": str(tmp_path)}, environ={"LAYERLORE_EMBEDDING__EMBEDDER": "none", "HOME": str(tmp_path)}
    )
    base = str(tmp_path / "l" / "name")
    prepare_folder(base)
    listener, stop, seen = listen(base), StopRequest(), 0

    def gone(connection: socket.socket) -> None:
        nonlocal seen
        seen += 1
        if seen == 1:
            raise OSError("the other end has gone")

    monkeypatch.setattr(server, "check_peer", gone)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.LocalServer(base, {}, settings, listener, stop).run)
        with anyio.fail_after(PATIENCE):
            with pytest.raises((OSError, ValueError), match=r"reset|pipe|Expecting value"):
                await anyio.to_thread.run_sync(server_query.ask, base, "status")
            told = await anyio.to_thread.run_sync(server_query.ask, base, "status")
        stop.ask()
    assert told["hosts"] == 0


@pytest.fixture
def conversation(failing: Failing) -> Conversation:
    return Conversation(KeptAnswers(failing.launch, cold=True))


@pytest.fixture
def take(conversation: Conversation) -> Callable[..., None]:
    def take(method: str, number: int | str, **params: Any) -> None:
        conversation.take(request(method, number, **params), connected=True, served=True)

    return take


def methods(lines: list[bytes]) -> list[str]:
    return [json.loads(line.partition(b" ")[2])["method"] for line in lines]


def test_what_was_given_up_is_not_sent_again_and_streams_always_are(
    conversation: Conversation, take: Callable[..., None]
) -> None:
    take("tools/call", 1)
    take("subscriptions/listen", 2)
    for _ in range(MOST_DEATHS - 1):
        assert conversation.lose() == []
        assert methods(conversation.replay()) == ["tools/call", "subscriptions/listen"]
    take("ping", 3)
    assert [json.loads(line)["id"] for line in conversation.lose()] == [1]
    assert methods(conversation.replay()) == ["subscriptions/listen", "ping"]


def test_the_handshake_comes_before_the_question_that_it_follows(
    conversation: Conversation, take: Callable[..., None]
) -> None:
    take("server/discover", 1)
    take("initialize", 2)
    assert methods(conversation.replay()) == ["initialize", "server/discover"]


@pytest.mark.parametrize("number", ["\ud800", True])
def test_a_request_whose_answer_cannot_name_it_is_not_waited_for(
    conversation: Conversation, take: Callable[..., None], number: Any
) -> None:
    take("ping", number)
    assert not conversation.waits


def test_a_stream_that_goes_on_tells_what_may_have_been_missed(
    conversation: Conversation, take: Callable[..., None]
) -> None:
    take("subscriptions/listen", "l")
    heard = {"resourceSubscriptions": ["memory://profile"], "resourcesListChanged": True}
    acknowledged = {
        "jsonrpc": "2.0",
        "method": "notifications/subscriptions/acknowledged",
        "params": {"notifications": heard, "_meta": {"io.modelcontextprotocol/subscriptionId": "l"}},
    }
    line = json.dumps(acknowledged, separators=(",", ":")).encode() + b"\n"
    assert conversation.hear(line) == line
    news = [json.loads(each) for each in conversation.hear(line).splitlines()]
    assert [each["method"] for each in news] == [
        "notifications/resources/updated",
        "notifications/resources/list_changed",
    ]
    assert news[0]["params"]["uri"] == "memory://profile"
    assert all(each["params"]["_meta"] == acknowledged["params"]["_meta"] for each in news)  # type: ignore[index]
