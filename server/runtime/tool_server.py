"""The MCP server: the SDK's, with calls checked, run, recorded and answered in our own way."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Literal

import anyio
from mcp.server.apps import APP_MIME_TYPE, EXTENSION_ID
from mcp.server.caching import CacheHint
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.extension import Extension
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolResult,
    CompleteRequestParams,
    ErrorData,
    GetPromptRequestParams,
    InputRequiredResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
)
from mcp.types import Tool as ListedTool

from layerlore.server.access.caller import (
    Default,
    Lifespan,
    RequestContext,
    admit,
    caller_of,
    client_of,
    default_of,
    is_captured_elsewhere,
    is_for_page,
    principal_of,
    settings_of,
)
from layerlore.server.access.protocol_errors import convert_errors
from layerlore.server.limits.room import CALL_METHODS, TooMuch, refusal_result
from layerlore.server.process.logs import LoggedRequest, logged_request
from layerlore.server.process.sdk_private import (
    add_middleware,
    expect_no_argument_headers,
    is_tool_error,
    serve_method,
    trace_quietly,
)
from layerlore.server.process.shutdown import StopRequest
from layerlore.server.process.version import VERSION
from layerlore.server.prompts.prompts import complete, get_prompt, list_prompts
from layerlore.server.relay.hook_events import SHOW_METHOD, STORE_METHOD
from layerlore.server.resources.requests import list_resources, list_templates, make_result, read_resource
from layerlore.server.runtime.process import Process
from layerlore.server.settings.settings import Settings
from layerlore.server.subscriptions.notifications import RULES, NotificationHub
from layerlore.server.tools.arguments import check_arguments, quote_name, suggest_name
from layerlore.server.tools.declaration import Declaration
from layerlore.server.tools.explorer import show_to_page
from layerlore.server.tools.hooks import ShowParams, StoreParams, answer_show, answer_store
from layerlore.server.tools.toolsets import (
    ALL_TOOLS,
    OFF,
    choose_declared,
    choose_declared_for_pages,
    choose_for_pages,
    choose_tools,
    list_callable,
    list_writers,
    name_current,
    write_instructions,
)
from layerlore.storage.core import metrics
from layerlore.storage.core.errors import LayerloreError, StorageBusy, StorageUnavailable
from layerlore.storage.core.traces import find_trace_id, span

log = logging.getLogger(__name__)


UNKNOWN = "unknown"
TRACE_ID_META = "layerlore/trace_id"
_ID_CHARS = 64

Outcome = Literal["ok", "error", "refused", "unavailable", "failed", "cancelled"]
"""``error``: the caller can correct it. ``refused``: a limit is exceeded. ``unavailable``: the database is away. ``failed``: a
defect."""


@dataclass(slots=True)
class _CallOutcome:
    outcome: Outcome | None = None


_ended: ContextVar[_CallOutcome | None] = ContextVar("_ended", default=None)


@contextmanager
def noted_errors() -> Iterator[None]:
    """Record the outcome of a failing call, since its answer does not show whether the caller can correct it."""
    try:
        yield
    except Exception as error:
        if (ended := _ended.get()) is not None:
            ended.outcome = _outcome_of(error)
        raise


def _outcome_of(error: BaseException) -> Outcome:
    match error:
        case asyncio.CancelledError():
            return "cancelled"
        case MCPError() if error.__cause__ is not None:
            return _outcome_of(error.__cause__)
        case MCPError(error=ErrorData(code=code)) if code == INTERNAL_ERROR:
            return "failed"
        case TooMuch():
            return "refused"
        case StorageUnavailable():
            return "unavailable"
        case LayerloreError() | ToolError() | MCPError():
            return "error"
    return "failed"


class CallRecords:
    """Middleware of the MCP server that records each call. ``names``: the tools; other names are unchecked text of callers."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = frozenset(names)

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if ctx.request_id is None or ctx.method not in CALL_METHODS:
            return await call_next(ctx)
        tool = self._name(ctx)
        request = LoggedRequest(str(ctx.request_id)[:_ID_CHARS], principal_of(ctx).tenant, tool)
        ended = _CallOutcome()
        marks = logged_request.set(request), _ended.set(ended)
        began = perf_counter()
        try:
            result = await call_next(ctx)
            if is_tool_error(result):
                ended.outcome = ended.outcome or "error"
                _add_trace_id(result)
            else:
                ended.outcome = "ok"
            return result
        except BaseException as error:
            ended.outcome = ended.outcome or _outcome_of(error)
            raise
        finally:
            _record(tool, ended.outcome or "failed", perf_counter() - began)
            logged_request.reset(marks[0])
            _ended.reset(marks[1])

    def _name(self, ctx: ServerRequestContext[Any, Any]) -> str:
        if ctx.method != "tools/call":
            return ctx.method
        tool = (ctx.params or {}).get("name")
        if isinstance(tool, str) and tool in self._names:
            return tool
        return UNKNOWN


def _add_trace_id(result: HandlerResult) -> None:
    """Name the trace in an error, so that its reader can report it."""
    trace_id = find_trace_id()
    if trace_id and isinstance(result, CallToolResult):
        result.meta = {**(result.meta or {}), TRACE_ID_META: trace_id}
    elif trace_id and isinstance(result, dict):
        result["_meta"] = {**(result.get("_meta") or {}), TRACE_ID_META: trace_id}


def _record(tool: str, outcome: Outcome, seconds: float) -> None:
    metrics.CALLS.add(tool, outcome)
    metrics.CALL_SECONDS.observe(seconds, tool)
    log.info("%s: %s", tool, outcome, extra={"outcome": outcome, "seconds": round(seconds, 6)})


class ToolServer(MCPServer[Lifespan]):
    """An MCPServer whose tools are declarations; the process behind it runs their functions.

    It refuses a call with an unknown argument. Its errors are ToolErrors that a model can act on; unexpected exceptions
    only go to the log. ``for_pages``: the tools that only pages have.
    """

    def __init__(
        self, name: str, declarations: Sequence[Declaration], for_pages: Sequence[Declaration] = (), **options: Any
    ) -> None:
        self._listed = [each.name for each in declarations]
        self._for_pages = [each.name for each in for_pages if each.name not in self._listed]
        self._declarations = {each.name: each for each in (*declarations, *for_pages)}
        self._declared: dict[str, Tool] = {name: each.tool for name, each in self._declarations.items()}
        super().__init__(name, tools=list(self._declared.values()), **options)
        expect_no_argument_headers(self)
        trace_quietly(self, self._declarations)
        add_middleware(self, CallRecords(self._declarations))

    async def list_permitted(self, ctx: RequestContext, _: PaginatedRequestParams) -> ListToolsResult:
        """The listed tools that the caller's rights allow."""
        rights = principal_of(ctx).rights
        by_name = {tool.name: tool for tool in await self.list_tools()}
        # The list depends on the request: an agent may have settings of its own, and a page gets more tools.
        listed, beside = self._chosen(ctx)
        offered = [self._declarations[name] for name in (*listed, *beside)]
        hidden = frozenset(beside)
        shown = [
            show_to_page(tool) if tool.name in hidden else tool
            for tool in (each.show(by_name[each.name]) for each in offered if each.open_to(rights))
        ]
        return ListToolsResult(tools=_described_for(shown, default_of(ctx)))

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[Lifespan, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        """Check, run and answer one call. Raises ToolError for a failed call, and MCPError for an unknown tool, which is a
        protocol error in both eras."""
        assert context is not None
        process = context.request_context.lifespan_context
        offered = self._offered(context.request_context)
        if name not in offered:
            # If the memory's mode removes the tool, the error says so instead of "there is no such tool".
            self._refuse_closed(context.request_context, name)
            near = suggest_name(name, offered)
            raise MCPError(INVALID_PARAMS, process.mask(f"there is no tool {quote_name(name)}{near}"))
        try:
            with noted_errors():
                answer = await self._act(process, name, arguments, context)
            return make_result(answer, process.settings.limits.answer_bytes)
        except (TooMuch, StorageBusy) as refused:
            if isinstance(refused, TooMuch):
                metrics.REFUSED.add(refused.what)
            return refusal_result(refused)
        except LayerloreError as error:
            raise ToolError(process.mask(str(error))) from error
        except ToolError as error:
            # The cause stays, but the text is masked, since it may quote the caller.
            raise ToolError(process.mask(str(error))) from error.__cause__
        except Exception as error:
            # The SDK would answer with the exception's own text, which may hold SQL or stored content.
            log.exception("%s failed unexpectedly", name)
            raise ToolError(f"{name} failed unexpectedly; the server's log says why") from error

    def _offered(self, ctx: RequestContext) -> list[str]:
        """The names of the tools for the agent or the page of a request, regardless of its rights."""
        listed, beside = self._chosen(ctx)
        return [*listed, *beside]

    def _chosen(self, ctx: RequestContext) -> tuple[list[str], list[str]]:
        """The names of the listed tools, and of the further ones for a page if the request is a page's."""
        page = is_for_page(ctx)
        if not ctx.lifespan_context.settings.agents:
            return self._listed, self._for_pages if page else []
        settings = settings_of(ctx)
        if page:
            beside = choose_for_pages(settings)
        else:
            beside = []
        return [each.name for each in choose_tools(settings)], [each.name for each in beside]

    def _refuse_closed(self, ctx: RequestContext, name: str) -> None:
        """Raises ToolError for a tool that the mode of the agent's memory removes."""
        settings = settings_of(ctx)
        if settings.memory == "on" or name not in ALL_TOOLS:
            return
        if settings.memory == "off" or name in list_writers():
            agent = ""
            with contextlib.suppress(LayerloreError):  # a call that names no agent
                agent = caller_of(ctx).scope.agent_id
            raise ToolError(f"{name} cannot be called: {settings.describe_closed(agent)}")

    async def _act(
        self, process: Lifespan, name: str, arguments: dict[str, Any], context: Context[Lifespan, Any]
    ) -> Any:
        declaration = self._declarations[name]
        needs = declaration.needs(arguments)
        caller = await admit(context.request_context, needs, name, of_tenant=declaration.of_tenant)
        settings = process.settings.for_agent(caller.scope.agent_id)
        # Some tools both read and write, so the arguments decide whether the call is allowed.
        if settings.memory == "read-only" and declaration.changes(arguments):
            raise ToolError(f"{name} cannot be called so: {settings.describe_closed(caller.scope.agent_id)}")
        values, given = check_arguments(self._declared[name], arguments)
        with span(operation := _operation(declaration, arguments), {"gen_ai.operation.name": operation}):
            answer = await process.act(name, declaration.function, caller, values, given)
        return declaration.hide_stored(answer, caller.principal.rights)


def _operation(declaration: Declaration, arguments: dict[str, Any]) -> str:
    """The operation of a call in OpenTelemetry's conventions for generative AI."""
    if not declaration.changes(arguments):
        return "search_memory"
    if "forget" in declaration.needs(arguments):
        return "delete_memory"
    if declaration.hints.is_idempotent:
        return "update_memory"
    return "upsert_memory"


def _described_for(tools: Sequence[ListedTool], default: Default) -> list[ListedTool]:
    """The tools, with texts that say what thread_id means on the connection."""

    def described(tool: ListedTool) -> ListedTool:
        properties = tool.input_schema.get("properties", {})
        schema = properties.get("thread_id", {})
        # Only texts about the thread differ between connections.
        if "description" not in schema:
            return tool
        named = {**schema, "description": name_current(schema["description"], default)}
        takes = {**tool.input_schema, "properties": {**properties, "thread_id": named}}
        return tool.model_copy(update={"input_schema": takes})

    return [described(tool) for tool in tools]


# The lists change with the server's version and the caller's rights only.
_HOUR_MS = 3_600_000
# By these methods a client of each era asks for the server's description.
_ASKING = ("initialize", "server/discover")
CACHE_HINTS: dict[Any, CacheHint] = {
    "tools/list": CacheHint(ttl_ms=_HOUR_MS, scope="private"),
    "prompts/list": CacheHint(ttl_ms=_HOUR_MS, scope="private"),
}


class Pages(Extension):
    """Announces to clients that this server has a page."""

    identifier = EXTENSION_ID

    def settings(self) -> dict[str, list[str]]:
        return {"mimeTypes": [APP_MIME_TYPE]}


def build_server(settings: Settings, *, stop: StopRequest | None = None, **options: Any) -> ToolServer:
    """A server of both eras, with one lifespan for all its connections. ``stop``: requested if the server cannot start."""
    hub = NotificationHub(RULES)

    @contextlib.asynccontextmanager
    async def lifespan(_: MCPServer[Lifespan]) -> AsyncIterator[Lifespan]:
        # The hub outlives the process inside, so that the last news still reaches the clients.
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(hub.run)
            try:
                async with Process(settings, hub, stop).running() as process:
                    yield process
            finally:
                tasks.cancel_scope.cancel()

    return assemble_server(settings, hub, lifespan=lifespan, **options)


def assemble_server(settings: Settings, hub: NotificationHub, **options: Any) -> ToolServer:
    """A server with the tools that the settings choose and the news of the hub. Without a lifespan, the code that serves a
    connection provides its value."""
    server = ToolServer(
        "layerlore",
        choose_declared(settings),
        choose_declared_for_pages(settings),
        title="Memory",
        version=VERSION,
        description="Long-term memory for agents",
        subscriptions=hub.bus,
        extensions=[Pages()],
        cache_hints=CACHE_HINTS,
        log_level="WARNING",
        **options,
    )
    hub.install(server)
    _serve_methods(server)
    return server


def _serve_methods(mcp: ToolServer) -> None:
    """Register the methods of the memory: tools, resources and their templates, completion, prompts and hooks."""
    serve_method(mcp, "tools/list", PaginatedRequestParams, convert_errors(mcp.list_permitted))
    serve_method(mcp, "resources/list", PaginatedRequestParams, convert_errors(list_resources))
    serve_method(mcp, "resources/templates/list", PaginatedRequestParams, convert_errors(list_templates))
    serve_method(mcp, "resources/read", ReadResourceRequestParams, convert_errors(read_resource))
    serve_method(mcp, "completion/complete", CompleteRequestParams, convert_errors(complete))
    serve_method(mcp, "prompts/list", PaginatedRequestParams, convert_errors(list_prompts))
    serve_method(mcp, "prompts/get", GetPromptRequestParams, convert_errors(get_prompt))
    serve_method(mcp, STORE_METHOD, StoreParams, convert_errors(answer_store))
    serve_method(mcp, SHOW_METHOD, ShowParams, convert_errors(answer_show))
    add_middleware(mcp, _instruct)


async def _instruct(ctx: RequestContext, call_next: CallNext) -> HandlerResult:
    """Add instructions to the server's description, according to the caller's rights and connection."""
    # The SDK makes the answer; only the instructions are added.
    result = await call_next(ctx)
    if ctx.method not in _ASKING or not isinstance(result, dict):
        return result
    settings = settings_of(ctx)
    if settings.memory == "off":
        return {**result, "instructions": OFF}
    rights = principal_of(ctx).rights
    tools = list_callable(settings, rights)
    writable = settings.memory == "on" and "write" in rights
    # With hooks the model must not store the messages a second time.
    captured = is_captured_elsewhere(ctx) or await ctx.lifespan_context.is_captured(_name_client(ctx))
    words = write_instructions(tools, default_of(ctx), writable=writable, captured=captured)
    return {**result, "instructions": words}


def _name_client(ctx: RequestContext) -> str:
    """The client's own name. During ``initialize`` the session does not know it yet, so the request has it."""
    given = (ctx.params or {}).get("clientInfo")
    if isinstance(given, dict):
        return str(given.get("name", ""))
    return client_of(ctx)
