"""What the server takes from inside the SDK: where, and that it is still there."""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeGuard

import pytest
from mcp import Client
from mcp.server.mcpserver import Context, MCPServer

import layerlore.server
from layerlore.server.process.sdk_private import connection_of
from layerlore.server.tools.toolsets import DECLARATIONS

SERVER = Path(layerlore.server.__file__).parent
PROVISIONAL = {"ListenHandler", "serve_dual_era_loop", "middleware"}
OF_THE_LANGUAGE = {"os._exit"}


def _is_of_itself(node: ast.AST) -> TypeGuard[ast.Attribute]:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}


def private_names(tree: ast.AST) -> Iterator[str]:
    """Names that begin with an underscore and are not of the module's own objects, and provisional ones of the SDK."""
    given = {node.attr for node in ast.walk(tree) if _is_of_itself(node) and isinstance(node.ctx, ast.Store)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            private = node.attr.startswith("_") and not node.attr.startswith("__")
            own = _is_of_itself(node) or node.attr in given
            if (private and not own and ast.unparse(node) not in OF_THE_LANGUAGE) or node.attr in PROVISIONAL:
                yield ast.unparse(node)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in {"mcp", "mcp_types"}:
            names = [alias.name for alias in node.names]
            yield from (name for name in [*(node.module or "").split("."), *names] if name.startswith("_"))
            yield from PROVISIONAL.intersection(names)


def test_no_other_module_touches_private_names() -> None:
    modules = {path: path.read_text(encoding="utf-8") for path in SERVER.rglob("*.py") if path.name != "sdk_private.py"}
    assert len(modules) > 50
    found = {str(path.relative_to(SERVER)): list(private_names(ast.parse(text))) for path, text in modules.items()}
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize(
    "text",
    [
        "mcp._lowlevel_server",
        "self.mcp._x",
        "mcp.middleware.append(f)",
        "from mcp.shared._stream_protocols import ReadStream",
        "from mcp.server.runner import serve_dual_era_loop",
    ],
)
def test_the_check_sees_private_names(text: str) -> None:
    assert list(private_names(ast.parse(text)))


@pytest.mark.anyio
@pytest.mark.parametrize(("mode", "connections"), [("legacy", 1), ("auto", 2)])
async def test_a_session_is_one_connection_in_the_handshake_era_only(mode: str, connections: int) -> None:
    mcp: MCPServer[Any] = MCPServer("sessions", log_level="WARNING")
    seen: list[Any] = []

    @mcp.tool()
    async def look(ctx: Context[Any, Any]) -> str:
        seen.append(connection_of(ctx.session))
        return "ok"

    async with Client(mcp, mode=mode) as client:
        for _ in range(2):
            await client.call_tool("look", {})
    assert len(set(map(id, seen))) == connections


def test_no_tool_has_arguments_that_headers_repeat_since_the_server_does_not_look_for_them() -> None:
    listed = [declaration.tool.parameters for declaration in DECLARATIONS]
    assert len(listed) > 20
    assert "x-mcp-header" not in json.dumps(listed)


TRACED = """
import sys
import anyio
from mcp import Client
from opentelemetry import trace
from opentelemetry.trace import NoOpTracer, TracerProvider
from layerlore.server.runtime.tool_server import build_server
from layerlore.server.settings.settings import load_settings

class Recorded(TracerProvider):
    def get_tracer(self, *args, **kwargs):
        return Tracer()

class Tracer(NoOpTracer):
    def start_as_current_span(self, name, *args, **kwargs):
        spans.append(name)
        return super().start_as_current_span(name, *args, **kwargs)

async def call():
    environ = {"LAYERLORE_DATABASE": "sqlite://:memory:", "LAYERLORE_EMBEDDING__EMBEDDER": "none"}
    async with Client(build_server(load_settings(environ=environ))) as client:
        assert not (await client.call_tool("list_threads", {})).is_error

spans = []
if sys.argv[1] == "recorded":
    trace.set_tracer_provider(Recorded())
anyio.run(call)
assert ("tools/call list_threads" in spans) == (sys.argv[1] == "recorded"), spans
"""


@pytest.mark.programs
@pytest.mark.parametrize("who", ["recorded", "by nobody"])
def test_a_call_is_traced_where_somebody_records_traces(who: str) -> None:
    command = [sys.executable, "-c", TRACED, who]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
