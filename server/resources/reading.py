"""resources/read: runs the tool (or, where none serves, the action) that a resource is a view of."""

from collections.abc import Mapping
from typing import Any, cast

from mcp.server.context import ServerRequestContext
from mcp.types import ReadResourceRequestParams, ReadResourceResult

from layerlore.server.acting import act, act_beside
from layerlore.server.actions.answers import Answer
from layerlore.server.answering import resource_contents
from layerlore.server.memory_uri import Address, Kind, address_of
from layerlore.server.process import Process
from layerlore.server.resources.described import KINDS
from layerlore.storage.errors import InvalidInput
from layerlore.storage.records import Json

# Threads or runs in one resource.
_MOST_LISTED = 100
# In a resource that programs read: as much as the tool gives in one answer, since a URI cannot ask for more.
_MOST_TOKENS = 20_000
# Where a list of one holds what was asked for.
_ROWS: Mapping[Kind, str] = {"thread": "threads", "run": "runs"}


async def read_resource(
    ctx: ServerRequestContext[Process, Any], params: ReadResourceRequestParams
) -> ReadResourceResult:
    """One resource as one text. What a thread has not yet is empty. Raises LayerloreError, ToolError."""
    uri = str(params.uri)
    address = address_of(uri)
    if ctx.lifespan_context.settings.memory == "off" and address.kind != "status":
        raise InvalidInput("memory is switched off (memory = off); only memory://status can be read")
    answer = await _answer(ctx, address)
    most = ctx.lifespan_context.settings.limits.answer_bytes
    return ReadResourceResult(contents=resource_contents(uri, KINDS[address.kind].mime_type, answer, most))


async def _answer(ctx: ServerRequestContext[Process, Any], address: Address) -> str | Json | Answer:
    if address.kind == "observations":
        # No tool gives them by themselves: a model finds them in its context.
        observed: Json = await act_beside(ctx, "observations_of", {"thread_id": address.thread_id, **address.query})
        return observed
    tool, arguments = _call(address)
    answer: str | Json | Answer = await act(ctx, tool, arguments)
    rows = _ROWS.get(address.kind)
    if rows is None or isinstance(answer, str | Answer):
        return answer
    nothing = {"thread_id": address.thread_id, "messages": 0, "tokens": 0}
    return cast(Json, next(iter(answer[rows]), nothing))


def _call(address: Address) -> tuple[str, Json]:
    """The tool and the arguments that give a resource."""
    thread = {"thread_id": address.thread_id}
    match address.kind:
        case "profile":
            return "get_working_memory", {"scope": "resource"}
        case "threads":
            return "list_threads", {**address.query, "limit": _MOST_LISTED}
        case "status":
            return "memory_status", {}
        case "recall":
            return "recall_memory", {**address.query, "format": "json", "max_tokens": _MOST_TOKENS}
        case "thread":
            return "list_threads", thread
        case "messages":
            return "get_messages", {**thread, **address.query}
        case "session-memory":
            return "get_working_memory", {"scope": "thread", **thread}
        case "plan":
            return "plan", {"action": "review", "format": "json", **thread}
        case "runs":
            return "list_runs", {**thread, **address.query, "limit": _MOST_LISTED}
        case "events":
            return "list_events", {**thread, **address.query}
        case "run":
            return "list_runs", {"run_id": address.run_id}
        case "observations":
            raise AssertionError("no tool serves them")
