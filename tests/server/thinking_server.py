"""A server over HTTP whose background work asks the model of a given URL, and a client of it."""

import contextlib
import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

PATIENCE = 120.0  # seconds: only a hang takes so long

# A turn of 200 tokens is observed at once; what other kinds make of it is not looked at.
SMALL = {
    "EMBEDDING__EMBEDDER": "none",
    "LLM__MODEL": "openai/told",
    **{f"LLM__MODELS__{kind}": "none" for kind in ("PROFILE", "SESSION_MEMORY", "TITLE", "SUMMARY")},
    "LLM__MAX_ANSWER_TOKENS": "4096",
    "OBSERVATION__MESSAGE_TOKENS": "200",
    "OBSERVATION__BUFFER_SHARE": "1",
    "OBSERVATION__KEEP_SHARE": "0",
    "OBSERVATION__STAND_IN": "10",
}


class Thinking:
    """A server that runs, what it said so far, and its settings as variables."""

    def __init__(self, variables: dict[str, str]) -> None:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("LAYERLORE_", "OPENAI_"))}
        self.variables = kept | {f"LAYERLORE_{name}": value for name, value in variables.items()}
        command = [sys.executable, "-m", "layerlore.server", "serve", "--no-auth", "--port", "0"]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=self.variables,
        )
        self.said = ""
        self._listening: queue.Queue[str] = queue.Queue()
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()
        self.url = self._listening.get(timeout=PATIENCE)
        assert self.url, f"the server ended: {self.said}"

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said += line
            if found := re.search(r"listens on (http://\S+)/mcp", line):
                self._listening.put(found[1])
        self._listening.put("")

    def end(self) -> None:
        """Ends it as an operating system does."""
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(PATIENCE)
        finally:
            self.process.kill()
            self._reading.join(PATIENCE)
            self.process.stderr.close()  # type: ignore[union-attr]
        assert code == 0, self.said
        assert "Traceback" not in self.said, self.said

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator["Calls"]:
        async with (
            httpx2.AsyncClient(timeout=PATIENCE) as http,
            Client(streamable_http_client(self.url + "/mcp", http_client=http)) as client,
        ):
            yield Calls(client)

    def resume(self) -> int:
        """`layerlore jobs --resume`: how many jobs are due again."""
        command = [sys.executable, "-m", "layerlore.server", "jobs", "--resume", "--json"]
        ended = subprocess.run(
            command, env=self.variables, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        assert ended.returncode == 0, ended.stderr
        resumed: int = json.loads(ended.stdout)["resumed"]
        return resumed


class Calls:
    """What a client asks."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def call(self, tool: str, **arguments: Any) -> Any:
        with anyio.fail_after(PATIENCE):
            result = await self._client.call_tool(tool, arguments)
        assert not result.is_error, result.content
        return result.structured_content

    async def add(self, thread: str, messages: list[dict[str, Any]]) -> None:
        await self.call("add_messages", thread_id=thread, messages=messages)

    async def status(self) -> Any:
        return await self.call("memory_status")

    async def waiting(self, *kinds: str) -> int:
        """How many jobs of these kinds are not done."""
        found = (await self.status())["jobs"]["waiting"]
        return sum(row["jobs"] for row in found if row["kind"] in kinds)

    async def observations(self, thread: str) -> list[dict[str, Any]]:
        """As the resource gives them."""
        result = await self._client.read_resource(f"memory://threads/{thread}/observations")
        found: list[dict[str, Any]] = json.loads(result.contents[0].text)["observations"]  # type: ignore[union-attr]
        return found


@contextlib.contextmanager
def thinking(data_dir: Path, api_base: str, **settings: str) -> Iterator[Thinking]:
    """A server that runs until the end of the block; settings as variables without their prefix."""
    running = Thinking({**SMALL, "DATA_DIR": str(data_dir), "LLM__API_BASE": api_base, **settings})
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.end()
