"""resources/read: runs the tool (or, where none serves, the action) that a resource is a view of."""

import json
from collections.abc import Mapping
from typing import Any, cast

from mcp.server.context import ServerRequestContext
from mcp.types import ReadResourceRequestParams, ReadResourceResult, TextResourceContents

from memstrata.server.acting import act, act_beside
from memstrata.server.caller import caller_of
from memstrata.server.memory_uri import Address, Kind, address_of
from memstrata.server.process import Process
from memstrata.server.resources.described import KINDS
from memstrata.storage.errors import InvalidInput, NotFound
from memstrata.storage.records import Json

# Threads or runs in one resource.
_MOST_LISTED = 100
# In a resource that programs read: as much as the tool gives in one answer, since a URI cannot ask for more.
_MOST_TOKENS = 20_000
# Where a list of one holds what was asked for.
_ROWS: Mapping[Kind, str] = {"thread": "threads", "run": "runs"}


async def read_resource(
    ctx: ServerRequestContext[Process, Any], params: ReadResourceRequestParams
) -> ReadResourceResult:
    """One resource as one text. What the current thread has not yet is empty; any other thread that does not exist
    is an error. Raises MemstrataError, ToolError."""
    uri = str(params.uri)
    address = address_of(uri)
    if ctx.lifespan_context.settings.memory == "off" and address.kind != "status":
        raise InvalidInput("memory is switched off (memory = off); only memory://status can be read")
    answer = await _answer(ctx, address)
    text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False, separators=(",", ":"))
    content = TextResourceContents(uri=uri, mime_type=KINDS[address.kind].mime_type, text=text)
    return ReadResourceResult(contents=[content])


async def _answer(ctx: ServerRequestContext[Process, Any], address: Address) -> str | Json:
    current = bool(address.thread_id) and address.thread_id == caller_of(ctx).default_thread
    try:
        answer: str | Json = await _asked(ctx, address, current)
    except NotFound:
        if not current:
            raise
        answer = _nothing(address)
    rows = _ROWS.get(address.kind)
    if rows is None or isinstance(answer, str):
        return answer
    (row,) = answer[rows]
    return cast(Json, row)


async def _asked(ctx: ServerRequestContext[Process, Any], address: Address, current: bool) -> Any:
    if address.kind == "observations":
        # No tool gives them by themselves: a model finds them in its context.
        return await act_beside(ctx, "observations_of", {"thread_id": address.thread_id})
    tool, arguments = _call(address, current)
    return await act(ctx, tool, arguments)


def _call(address: Address, current: bool) -> tuple[str, Json]:
    """The tool and the arguments that give a resource. A call that names no thread means the current one, of which
    the tools that keep a document say what is there even if that is nothing."""
    thread = {} if current else {"thread_id": address.thread_id}
    match address.kind:
        case "profile":
            return "get_working_memory", {"scope": "resource"}
        case "threads":
            return "list_threads", {"limit": _MOST_LISTED}
        case "status":
            return "memory_status", {}
        case "recall":
            return "recall_memory", {**address.query, "format": "json", "max_tokens": _MOST_TOKENS}
        case "thread":
            return "list_threads", {"thread_id": address.thread_id}
        case "messages":
            return "get_messages", {**thread, **address.query}
        case "session-memory":
            return "get_working_memory", {"scope": "thread", **thread}
        case "plan":
            return "plan", {"action": "review", "format": "json", **thread}
        case "runs":
            # Without a thread it would list those of all.
            return "list_runs", {"thread_id": address.thread_id, "limit": _MOST_LISTED}
        case "events":
            return "list_events", {**thread, **address.query}
        case "run":
            return "list_runs", {"run_id": address.run_id}
        case "observations":
            raise AssertionError("no tool serves them")


def _nothing(address: Address) -> Json:
    """What a list of the current thread's has before anything was stored."""
    match address.kind:
        case "messages":
            return {"thread_id": address.thread_id, "messages": [], "total": 0}
        case "runs":
            return {"runs": []}
        case "events":
            return {"events": [], "next": 0, "last_seq": 0, "more": False}
        case "observations":
            return {"thread_id": address.thread_id, "observations": [], "observed_seq": 0, "tokens": 0}
        case _:
            return {"threads": [{"thread_id": address.thread_id, "messages": 0, "tokens": 0}]}
