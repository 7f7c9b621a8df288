"""What is recorded of each call: a line in the log, and the numbers that an operator scrapes."""

import asyncio
import logging
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Literal

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError
from mcp.types import INTERNAL_ERROR, CallToolResult, ErrorData

from layerlore.server.access.caller import principal_of
from layerlore.server.limits.room import CALL_METHODS, TooMuch
from layerlore.server.process.logs import LoggedRequest, logged_request
from layerlore.server.process.sdk_private import is_tool_error
from layerlore.storage.core import metrics
from layerlore.storage.core.errors import LayerloreError, StorageUnavailable
from layerlore.storage.core.traces import find_trace_id

log = logging.getLogger(__name__)

UNKNOWN = "unknown"
TRACE_ID_META = "layerlore/trace_id"
_ID_CHARS = 64

Outcome = Literal["ok", "error", "refused", "unavailable", "failed", "cancelled"]
"""``error``: the caller can mend it. ``refused``: a limit. ``unavailable``: the database. ``failed``: a defect."""


@dataclass(slots=True)
class _Ended:
    outcome: Outcome | None = None


_ended: ContextVar[_Ended | None] = ContextVar("_ended", default=None)


@contextmanager
def noted_errors() -> Iterator[None]:
    """Record why the current call fails: its answer does not say whether the caller can mend that."""
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
    """Middleware of the MCP server that records each call. ``names``: of the tools, since others are texts of callers."""

    def __init__(self, names: Collection[str]) -> None:
        self._names = frozenset(names)

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        if ctx.request_id is None or ctx.method not in CALL_METHODS:
            return await call_next(ctx)
        tool = self._name(ctx)
        request = LoggedRequest(str(ctx.request_id)[:_ID_CHARS], principal_of(ctx).tenant, tool)
        ended = _Ended()
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
    """Name the trace in an error, so that its reader can say which one it was."""
    trace_id = find_trace_id()
    if trace_id and isinstance(result, CallToolResult):
        result.meta = {**(result.meta or {}), TRACE_ID_META: trace_id}
    elif trace_id and isinstance(result, dict):
        result["_meta"] = {**(result.get("_meta") or {}), TRACE_ID_META: trace_id}


def _record(tool: str, outcome: Outcome, seconds: float) -> None:
    metrics.CALLS.add(tool, outcome)
    metrics.CALL_SECONDS.observe(seconds, tool)
    log.info("%s: %s", tool, outcome, extra={"outcome": outcome, "seconds": round(seconds, 6)})
