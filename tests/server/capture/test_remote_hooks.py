"""Hooks of a host whose memory is on a server over HTTP: they store there, and show what that server remembers."""

import contextlib
import json
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import Implementation

from layerlore.server.command_line.hook_check import check_hooks
from layerlore.server.hosts.catalog import Places
from layerlore.server.relay.spool import list_waiting
from layerlore.server.settings.settings import Settings

from ..conftest import Cli
from ..http.test_http_command import ServedClients, command, environment, serving
from ..shared_machine import PATIENCE
from ..transcripts import claude
from .test_hooks import HookedMachine

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning"), pytest.mark.programs]

GATE = "The gate code of the boathouse is 4711."
QUESTION = "What is the gate code of the boathouse?"


class Laptop(HookedMachine):
    """A machine whose hooks belong to the memory of a server."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.home = folder
        self.key_file = folder / "server.key"
        self.url = ""

    def use(self, url: str, key: str) -> None:
        self.url = f"{url}/mcp"
        self.key_file.write_text(f"{key}\n")

    def fire(self, event: str, session: str, **given: Any) -> str:
        """Call a hook of Claude Code. Returns what its model is shown."""
        remote = ("--http", self.url, "--key-file", str(self.key_file))
        answer = self.hook("claude-code", event, session, *remote, **given)
        return str(answer.get("hookSpecificOutput", {}).get("additionalContext", ""))

    async def settle(self) -> None:
        with anyio.fail_after(PATIENCE):
            while list_waiting(self.hooks):
                await anyio.sleep(0.01)

    async def wait_for_log(self, text: str) -> None:
        """Wait until the log of the shared server has a text."""
        with anyio.fail_after(PATIENCE):
            while not any(text in log.read_text() for log in self.folder.glob("local/*.log")):
                await anyio.sleep(0.01)


@pytest.fixture
def laptop() -> Iterator[Laptop]:
    with tempfile.TemporaryDirectory(prefix="layerlore-") as folder:
        machine = Laptop(Path(folder))
        yield machine
        machine.stop()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedClients]:
    # This server masks nothing, so that a masked secret was masked before it was sent.
    with serving(tmp_path_factory.mktemp("served") / "data", LAYERLORE_REDACTION="off") as running:
        yield running


async def read_texts(served: ServedClients, thread: str, **headers: str) -> list[str]:
    async with served.client(**headers) as client:
        answer = await client.call_tool("get_messages", {"format": "json", "thread_id": thread})
    assert answer.structured_content is not None
    return [part["text"] for each in answer.structured_content["messages"] for part in each["parts"]]


async def test_a_session_is_stored_at_the_server_and_shown_to_the_next_one(
    laptop: Laptop, served: ServedClients
) -> None:
    laptop.use(served.url, served.key)
    laptop.write("first", claude(1, "user", GATE), claude(2, "assistant", [{"type": "text", "text": "I note it."}]))
    laptop.fire("Stop", "first")
    await laptop.settle()
    assert await read_texts(served, "first") == [GATE, "I note it."]
    # Fired again, without anything new.
    laptop.fire("SessionEnd", "first")
    await laptop.settle()
    assert await read_texts(served, "first") == [GATE, "I note it."]
    assert GATE in laptop.fire("UserPromptSubmit", "second", prompt=QUESTION)
    assert GATE not in laptop.fire("UserPromptSubmit", "second", prompt=QUESTION)
    assert "first" not in await list_threads_here(laptop)


async def list_threads_here(laptop: Laptop) -> str:
    """The conversations in the memory of the machine itself."""
    async with laptop.host(mode="auto") as client:
        return str((await client.call_tool("list_threads", {})).content)


async def test_the_memory_is_that_of_the_key_and_its_named_user(laptop: Laptop, tmp_path: Path) -> None:
    data = tmp_path / "data"
    made = subprocess.run(
        [*command()[:-1], "keys", "create", "--tenant", "acme", "--any-resource", "--data-dir", str(data)],
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    key = made.stdout.split()[0]
    with serving(data) as server:
        laptop.use(server.url, key)
        laptop.write("zoe", claude(1, "user", GATE))
        remote = ("--http", laptop.url, "--key-file", str(laptop.key_file), "--resource", "Zoë")
        laptop.hook("claude-code", "Stop", "zoe", *remote)
        await laptop.settle()
        headers = {"Authorization": f"Bearer {key}", "Layerlore-Resource": "Zoë".encode()}
        assert await read_texts(server, "zoe", **headers) == [GATE]  # type: ignore[arg-type]
        laptop.write("nobody", claude(1, "user", GATE))
        laptop.fire("Stop", "nobody")
        await laptop.wait_for_log("resource: needed")
        assert len(list_waiting(laptop.hooks)) == 1


async def test_secrets_are_masked_before_they_are_sent(laptop: Laptop, served: ServedClients) -> None:
    laptop.use(served.url, served.key)
    secret = "ghp_" + "a1B2c3D4e5F6" * 3
    laptop.write("secret", claude(1, "user", f"My token is {secret} today. <private>Not this.</private>"))
    laptop.fire("Stop", "secret")
    await laptop.settle()
    (text,) = await read_texts(served, "secret")
    assert secret not in text
    assert "[masked:" in text
    assert "Not this" not in text


async def test_a_text_that_was_cut_inside_a_character_is_sent(laptop: Laptop, served: ServedClients) -> None:
    laptop.use(served.url, served.key)
    laptop.write("cut", claude(1, "user", "The bell \ud83d"), claude(2, "user", "The rope."))
    laptop.fire("Stop", "cut")
    await laptop.settle()
    assert (await read_texts(served, "cut"))[-1] == "The rope."


async def test_a_server_that_is_away_gets_everything_once_it_is_back(laptop: Laptop, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    with serving(tmp_path / "data", "--port", port) as server:
        laptop.use(server.url, server.key)
        laptop.write("s", claude(1, "user", "The first message."))
        laptop.fire("Stop", "s")
        await laptop.settle()
    laptop.write("s", claude(2, "user", "The second message."))
    assert laptop.fire("UserPromptSubmit", "s", prompt="anything") == ""
    await laptop.wait_for_log("cannot be reached")
    assert list_waiting(laptop.hooks)
    with serving(tmp_path / "data", "--port", port) as server:
        laptop.write("s", claude(3, "user", "The third message."))
        laptop.fire("Stop", "s")
        await laptop.settle()
        assert await read_texts(server, "s") == ["The first message.", "The second message.", "The third message."]


async def test_install_sets_both_up_and_uninstall_leaves_every_file_as_it_was(
    laptop: Laptop, served: ServedClients, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    laptop.use(served.url, served.key)
    variables = laptop.environment(HOME=str(laptop.home))
    for name in ("HOME", "LAYERLORE_DATA_DIR"):
        monkeypatch.setenv(name, variables[name])
    settings = laptop.home / ".claude" / "settings.json"
    settings.parent.mkdir()
    before = '{\n    "theme": "dark"}\r\n'
    settings.write_bytes(before.encode())
    install = ("install", "claude-code", "--capture", "--http", laptop.url, "--key-file", str(laptop.key_file))
    code, told, error = cli(*install)
    assert (code, error) == (0, ""), told
    assert served.key not in settings.read_text() + (laptop.home / ".claude.json").read_text()

    hooks = json.loads(settings.read_text())["hooks"]
    stop = hooks["Stop"][0]["hooks"][0]
    transcript = laptop.write("installed", claude(1, "user", "The oars are in the shed."))
    given = {"session_id": "installed", "transcript_path": str(transcript), "cwd": str(laptop.project)}
    subprocess.run(
        [stop["command"], *stop["args"]],
        input=json.dumps({**given, "hook_event_name": "Stop"}),
        env=variables,
        text=True,
        check=True,
    )
    await laptop.settle()
    assert await read_texts(served, "installed") == ["The oars are in the shed."]

    assert await anyio.to_thread.run_sync(find_remote_finding, laptop) == ("ok", "hooks store there")
    assert cli("uninstall", "claude-code")[0] == 0
    assert settings.read_bytes() == before.encode()
    assert not (laptop.home / ".claude.json").exists()


def find_remote_finding(laptop: Laptop) -> tuple[str, str]:
    """What `doctor` says of the server."""
    found = check_hooks(Settings(data_dir=laptop.folder), Places("linux", laptop.home, {}))
    return next((each.state, each.value) for each in found if each.name == laptop.url)


async def test_doctor_says_that_a_server_is_too_old_or_refuses_the_key(
    laptop: Laptop, served: ServedClients, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in laptop.environment(HOME=str(laptop.home)).items():
        if name in ("HOME", "LAYERLORE_DATA_DIR"):
            monkeypatch.setenv(name, value)
    laptop.use(served.url, "ll_wrong")
    install = ("install", "claude-code", "--capture", "--key-file", str(laptop.key_file), "--http")
    assert cli(*install, laptop.url)[0] == 0
    state, value = await anyio.to_thread.run_sync(find_remote_finding, laptop)
    assert (state, "does not accept the key" in value) == ("degraded", True)
    with old_server() as url:
        laptop.use(url, "ll_any")
        assert cli(*install, laptop.url)[0] == 0
        state, value = await anyio.to_thread.run_sync(find_remote_finding, laptop)
    assert (state, "too old for hooks" in value) == ("degraded", True)
    state, value = await anyio.to_thread.run_sync(find_remote_finding, laptop)
    assert (state, "cannot be reached" in value) == ("degraded", True)


@contextlib.contextmanager
def old_server() -> Iterator[str]:
    """A server that knows no method of hooks."""

    class Old(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.dumps({"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "Method not found"}})
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(404)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Old)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


async def test_the_model_of_a_host_with_such_hooks_is_not_asked_to_store_messages(
    laptop: Laptop, served: ServedClients
) -> None:
    laptop.use(served.url, served.key)
    assert "call add_messages once" in await read_instructions(laptop)
    laptop.write("talk", claude(1, "user", "The mast is oak."))
    laptop.fire("Stop", "talk")
    await laptop.settle()
    for mode in ("auto", "legacy"):
        assert "This host stores its conversations by itself" in await read_instructions(laptop, mode)
    # The memory of the machine itself has no hooks.
    async with laptop.host(mode="auto", client_info=Implementation(name="claude-code", version="2.1")) as client:
        assert "call add_messages once" in (client.instructions or "")


async def test_a_server_without_keys_is_told_of_the_hooks_by_a_header(
    laptop: Laptop, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in laptop.environment(HOME=str(laptop.home)).items():
        if name in ("HOME", "LAYERLORE_DATA_DIR"):
            monkeypatch.setenv(name, value)
    with serving(tmp_path / "data", "--no-auth") as server:
        code, told, error = cli("install", "claude-code", "--capture", "--http", server.url)
        assert (code, error) == (0, ""), told
        entry = json.loads((laptop.home / ".claude.json").read_text())["mcpServers"]["layerlore"]
        named = Implementation(name="claude-code", version="2.1")
        async with httpx2.AsyncClient(headers=entry["headers"], timeout=PATIENCE) as http:
            transport = streamable_http_client(entry["url"], http_client=http)
            async with Client(transport, client_info=named) as client:
                assert "This host stores its conversations by itself" in (client.instructions or "")
        laptop.url = entry["url"]
        assert await anyio.to_thread.run_sync(find_remote_finding, laptop) == ("ok", "hooks store there")


async def read_instructions(laptop: Laptop, mode: str = "auto") -> str:
    parameters = StdioServerParameters(
        command=command()[0],
        args=["-m", "layerlore", "bridge", laptop.url, "--key-file", str(laptop.key_file)],
        env=laptop.environment(),
    )
    named = Implementation(name="claude-code", version="2.1")
    async with Client(stdio_client(parameters), mode=mode, client_info=named) as client:  # type: ignore[arg-type]
        return client.instructions or ""
