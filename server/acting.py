"""Runs actions for what is no call of a tool (a resource, a prompt, a completion), and tells its errors."""

import functools
import logging
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any, NoReturn, TypeVar

from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp.shared.exceptions import MCPError
from mcp.types import INTERNAL_ERROR, INVALID_PARAMS, RequestParams, Result
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from layerlore.server.access.principal import READ
from layerlore.server.permitting import admitted
from layerlore.server.process import Process
from layerlore.server.tool_server import checked
from layerlore.server.toolsets import DECLARATIONS
from layerlore.storage.errors import LayerloreError, NotFound, StorageUnavailable

log = logging.getLogger(__name__)

RESOURCE_NOT_FOUND = -32002
"""Until 2025-11-25; from 2026-07-28 on it is INVALID_PARAMS."""

_ParamsT = TypeVar("_ParamsT", bound=RequestParams)
_ResultT = TypeVar("_ResultT", bound=Result)
Answer = Callable[[ServerRequestContext[Process, Any], _ParamsT], Awaitable[_ResultT]]


async def act(ctx: ServerRequestContext[Process, Any], tool: str, arguments: dict[str, Any]) -> Any:
    """What the tool, one that only reads, would answer, listed or not. Raises LayerloreError, ToolError."""
    caller = await admitted(ctx, READ, ctx.method)
    values, given = checked(_declared(tool), arguments)
    runtime = await ctx.lifespan_context.runtime()
    return await runtime.act(tool, caller, values, given)


async def act_beside(ctx: ServerRequestContext[Process, Any], name: str, arguments: dict[str, Any]) -> Any:
    """What an action that serves no tool answers. Raises LayerloreError."""
    caller = await admitted(ctx, READ, ctx.method)
    runtime = await ctx.lifespan_context.runtime()
    return await runtime.act_beside(name, caller, arguments)


@cache
def _declared(name: str) -> Tool:
    return {each.signature.__name__: each for each in DECLARATIONS}[name].tool


def telling(answer: Answer[_ParamsT, _ResultT]) -> Answer[_ParamsT, _ResultT]:
    """The same, its errors as each era sends them: INVALID_PARAMS for what the caller can mend, with the URI that it
    named, if it did, and RESOURCE_NOT_FOUND for an unknown resource where the era has that; INTERNAL_ERROR for the rest.
    What is raised unexpectedly stays in the log."""

    @functools.wraps(answer)
    async def told(ctx: ServerRequestContext[Process, Any], params: _ParamsT) -> _ResultT:
        uri: str | None = getattr(params, "uri", None)
        try:
            return await answer(ctx, params)
        except MCPError:
            raise
        except StorageUnavailable as error:
            _refuse(ctx, INTERNAL_ERROR, str(error), uri, error)
        except NotFound as error:
            _refuse(ctx, _code_of_unknown(ctx), str(error), uri, error)
        except (LayerloreError, ToolError) as error:
            _refuse(ctx, INVALID_PARAMS, str(error), uri, error)
        except Exception as error:
            log.exception("%s failed unexpectedly", ctx.method)
            _refuse(ctx, INTERNAL_ERROR, f"{ctx.method} failed unexpectedly; the server's log says why", uri, error)

    return told


def _code_of_unknown(ctx: ServerRequestContext[Process, Any]) -> int:
    modern = ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
    return RESOURCE_NOT_FOUND if ctx.method.startswith("resources/") and not modern else INVALID_PARAMS


def _refuse(
    ctx: ServerRequestContext[Process, Any], code: int, text: str, uri: str | None, cause: Exception
) -> NoReturn:
    def told(raw: str) -> str:
        # Half of a surrogate pair, which a caller may have sent, could not be sent back.
        return ctx.lifespan_context.masked(raw).encode(errors="replace").decode()

    raise MCPError(code, told(text), None if uri is None else {"uri": told(uri)}) from cause
