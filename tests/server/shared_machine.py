"""A data folder, the hosts on it, and the server that they share."""

import contextlib
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import psutil
from launch_environment import own_environment
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from layerlore.server.relay.server_query import ask, find_servers

PATIENCE = 90.0
"""Seconds: only a hang takes so long."""


def wait_for_end(process: psutil.Process) -> None:
    """Wait until a process that is no child of the tests has ended. Its entry may stay until the init process removes it,
    which some containers do only once a second."""
    until = time.monotonic() + PATIENCE
    with contextlib.suppress(psutil.NoSuchProcess):
        while process.status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < until, f"process {process.pid} has not ended"
            time.sleep(0.01)


class Machine:
    """A data folder, the hosts on it, and the server that they share."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def environment(self, **variables: str) -> dict[str, str]:
        shared = {"LAYERLORE_LOCAL__SHARE": "true", "LAYERLORE_EMBEDDING__EMBEDDER": "none"}
        return own_environment(LAYERLORE_DATA_DIR=str(self.folder), **shared, **variables)

    @contextlib.asynccontextmanager
    async def host(self, *flags: str, mode: str = "legacy", **options: Any) -> AsyncIterator[Client]:
        parameters = StdioServerParameters(
            command=sys.executable,
            args=["-m", "layerlore", *flags],
            env=self.environment(**options.pop("variables", {})),
        )
        async with Client(stdio_client(parameters), mode=mode, **options) as client:  # type: ignore[arg-type]
            yield client

    def servers(self) -> list[dict[str, Any]]:
        return [told for _, told in find_servers(str(self.folder))]

    def server(self) -> int:
        (told,) = self.servers()
        return int(told["pid"])

    async def kill(self) -> None:
        with anyio.fail_after(PATIENCE):
            while not self.servers():
                await anyio.sleep(0.01)
        process = psutil.Process(self.server())
        process.kill()
        wait_for_end(process)

    def stop(self) -> None:
        for base, told in list(find_servers(str(self.folder))):
            with contextlib.suppress(OSError, ValueError, psutil.NoSuchProcess):
                process = psutil.Process(int(str(told["pid"])))
                ask(base, "stop")
                wait_for_end(process)
