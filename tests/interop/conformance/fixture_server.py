"""Our server as it is served over HTTP, with the suite's fixtures beside its own tools: `fixture_server.py FOLDER`.

What is of a fixture goes to the fixtures, everything else where it always goes; transport, guards, limits and sessions are
the product's own. The suite can send no credential, so everybody is let in.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fixtures import build_fixtures
from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import MCPServer
from mcp.types import PromptReference

from layerlore.server.access.credentials import NoCredentials, local_principal
from layerlore.server.access.exposure import allowed
from layerlore.server.http.transport import serve_http
from layerlore.server.limits.throttle import make_gate
from layerlore.server.process.logs import configure_logging
from layerlore.server.process.sdk_private import lowlevel_server, serve_method
from layerlore.server.process.shutdown import StopRequest
from layerlore.server.runtime.tool_server import build_server
from layerlore.server.settings.settings import load_settings

FIXTURE_TOOLS = ("test_", "json_schema_")
WATCHED, STANDS_FOR_IT = "test://watched-resource", "memory://profile"
LISTS = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resource_templates",
    "prompts/list": "prompts",
}
IS_FIXTURE: dict[str, Callable[[Any], bool]] = {
    "tools/call": lambda params: params.name.startswith(FIXTURE_TOOLS),
    "prompts/get": lambda params: params.name.startswith("test_"),
    "resources/read": lambda params: str(params.uri).startswith("test://"),
    "completion/complete": lambda params: (
        isinstance(params.ref, PromptReference) and params.ref.name.startswith("test_")
    ),
}


def add_fixtures(ours: MCPServer[Any]) -> None:
    fixtures = build_fixtures(ours._subscriptions)
    for method, field in LISTS.items():
        _join(ours, fixtures, method, field)
    for method, is_fixture in IS_FIXTURE.items():
        _divide(ours, fixtures, method, is_fixture)
    for method in ("resources/subscribe", "resources/unsubscribe"):
        _rename_watched(ours, method)
    schema_of = lowlevel_server(ours).get_tool_input_schema
    assert schema_of is not None
    lowlevel_server(ours).get_tool_input_schema = lambda name: schema_of(name) or fixtures._tool_input_schema(name)


def _entry(server: MCPServer[Any], method: str) -> Any:
    entry = lowlevel_server(server).get_request_handler(method)
    assert entry is not None, method
    return entry


def _join(ours: MCPServer[Any], fixtures: MCPServer[Any], method: str, field: str) -> None:
    first, second = _entry(ours, method), _entry(fixtures, method)

    async def listed(ctx: ServerRequestContext[Any, Any], params: Any) -> Any:
        answer, added = await first.handler(ctx, params), await second.handler(ctx, params)
        return answer.model_copy(update={field: [*getattr(answer, field), *getattr(added, field)]})

    serve_method(ours, method, first.params_type, listed)


def _divide(ours: MCPServer[Any], fixtures: MCPServer[Any], method: str, is_fixture: Callable[[Any], bool]) -> None:
    first, second = _entry(ours, method), _entry(fixtures, method)

    async def answered(ctx: ServerRequestContext[Any, Any], params: Any) -> Any:
        return await (second if is_fixture(params) else first).handler(ctx, params)

    serve_method(ours, method, first.params_type, answered)


def _rename_watched(ours: MCPServer[Any], method: str) -> None:
    """The suite watches a resource of its own; one that we have stands for it."""
    entry = _entry(ours, method)

    async def answered(ctx: ServerRequestContext[Any, Any], params: Any) -> Any:
        uri = STANDS_FOR_IT if str(params.uri) == WATCHED else params.uri
        return await entry.handler(ctx, params.model_copy(update={"uri": uri}))

    serve_method(ours, method, entry.params_type, answered)


def main() -> int:
    folder = Path(sys.argv[1])
    settings = load_settings(
        {"data_dir": str(folder), "toolsets": "all", "embedding": {"embedder": "none"}}, environ={}
    )
    configure_logging("error")
    stop = StopRequest()
    server = build_server(settings, stop=stop)
    add_fixtures(server)
    person = local_principal(settings.agent, settings.resource)
    return serve_http(
        server,
        "127.0.0.1",
        0,
        allowed(settings),
        make_gate(server, settings.rates_to_hold, NoCredentials(person)),
        on_listening=lambda _, port: print(f"listens on {port}", file=sys.stderr, flush=True),
        stop=stop,
    )


if __name__ == "__main__":
    sys.exit(main())
