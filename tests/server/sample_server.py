"""A plain MCP server on our transports, for the tests beside it to run as a program: `sample_server.py OPTIONS_AS_JSON`.

It appends what happens to it to the file named by the option `marks`.
"""

import sys

from layerlore.server.process.standard_streams import claim_stdio

if __name__ == "__main__" and '"stdio"' in sys.argv[1]:
    FDS = claim_stdio()

import json
import logging
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.subscriptions import ResourceUpdated
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from layerlore.server.access.credentials import LocalKey, NoCredentials, local_principal
from layerlore.server.access.exposure import AllowedHeaders
from layerlore.server.access.gate import Gate
from layerlore.server.http.transport import serve_http
from layerlore.server.process.shutdown import StopRequest
from layerlore.server.stdio.stdio_transport import run_stdio
from layerlore.server.subscriptions.notifications import NotificationHub

LOCAL = AllowedHeaders(hosts=["127.0.0.1:*"], origins=["http://127.0.0.1:*"])
PERSON = local_principal("default", "default")


def build(options: dict[str, Any], stop: StopRequest) -> MCPServer[None]:
    hub = NotificationHub()

    def mark(text: str) -> None:
        with Path(options["marks"]).open("a") as marks:
            marks.write(text + "\n")

    @asynccontextmanager
    async def lifespan(server: MCPServer[None]) -> AsyncIterator[None]:
        mark("entered")
        if options.get("fail"):
            raise RuntimeError("the lifespan failed")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hub.run)
            try:
                yield
            finally:
                await anyio.lowlevel.checkpoint()  # not while cancelled
                mark("left")
                tasks.cancel_scope.cancel()

    mcp = MCPServer("sample", lifespan=lifespan, subscriptions=hub.bus, log_level="WARNING")
    hub.install(mcp)

    @mcp.tool()
    async def echo(text: str) -> str:
        return text

    @mcp.tool()
    async def slow(seconds: float, ctx: Context[Any, Any]) -> str:
        """Says that it has begun by a progress notification."""
        await ctx.report_progress(0, 1)
        await anyio.sleep(seconds)
        return "done"

    @mcp.tool()
    def stuck(seconds: float) -> str:
        """Runs in a thread, so nothing can cancel it."""
        mark("stuck")
        time.sleep(seconds)
        return "done"

    @mcp.tool()
    async def noisy() -> str:
        print("printed by a tool", flush=True)
        subprocess.run(["echo", "printed by a child"], check=True)
        sys.stdout.write("left in the buffer")
        return "ok"

    @mcp.tool(structured_output=False)
    async def unwritable() -> str:
        return "\ud800"

    @mcp.tool()
    async def touch(uri: str) -> str:
        await hub.bus.publish(ResourceUpdated(uri=uri))
        return "ok"

    @mcp.tool()
    async def end(exit_code: int) -> str:
        stop.ask(exit_code)
        return "ok"

    @mcp.custom_route("/health", methods=["GET", "POST"])
    async def health(request: Request) -> Response:
        return JSONResponse({"status": "ok"})

    return mcp


def main() -> int:
    options = json.loads(sys.argv[1])
    logging.basicConfig(level="WARNING", format="%(levelname)s %(message)s")
    stop = StopRequest()
    mcp = build(options, stop)
    if options["transport"] == "stdio":
        return run_stdio(mcp, FDS, stop=stop, answer_seconds=options.get("answer_seconds", 0.2))
    key = options.get("key")
    return serve_http(
        mcp,
        "127.0.0.1",
        options.get("port", 0),
        LOCAL,
        Gate(LocalKey(key, PERSON) if key else NoCredentials(PERSON)),
        on_listening=lambda host, port: print(host, port, flush=True),
        stop=stop,
        drain_seconds=options.get("drain_seconds", 5.0),
        max_body_bytes=100_000,
    )


if __name__ == "__main__":
    print("printed at import")
    sys.exit(main())
