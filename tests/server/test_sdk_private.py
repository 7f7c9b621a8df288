"""What the server takes from inside the SDK: where, and that it is still there."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.server.mcpserver import Context, MCPServer

from layerlore.server import sdk_private
from layerlore.server.sdk_private import connection_of

SERVER = Path(sdk_private.__file__).parent
MODULES = [path for path in sorted(SERVER.rglob("*.py")) if path.name != "sdk_private.py"]
PROVISIONAL = {"ListenHandler", "serve_dual_era_loop", "middleware"}
OF_THE_LANGUAGE = {"os._exit"}


def private_names(tree: ast.AST) -> Iterator[str]:
    """Names of others' that begin with an underscore, and provisional ones of the SDK."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            private = node.attr.startswith("_") and not node.attr.startswith("__")
            own = isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}
            if (private and not own and ast.unparse(node) not in OF_THE_LANGUAGE) or node.attr in PROVISIONAL:
                yield ast.unparse(node)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in {"mcp", "mcp_types"}:
            names = [alias.name for alias in node.names]
            yield from (name for name in [*(node.module or "").split("."), *names] if name.startswith("_"))
            yield from PROVISIONAL.intersection(names)


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(SERVER)))
def test_no_other_module_touches_private_names(module: Path) -> None:
    assert list(private_names(ast.parse(module.read_text()))) == []


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
