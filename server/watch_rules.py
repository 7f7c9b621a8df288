"""Who may watch what: whoever may read, any resource there is a place for, in their own scope."""

from typing import Any

from mcp.server.context import ServerRequestContext

from layerlore.memory.acceptance import check_id
from layerlore.memory.limits import Limits
from layerlore.server.access.principal import READ
from layerlore.server.caller import caller_of
from layerlore.server.memory_uri import address_of
from layerlore.server.notifications import Rules
from layerlore.server.permitting import permit
from layerlore.server.process import Process
from layerlore.storage.errors import InvalidInput
from layerlore.storage.records import Scope

Ctx = ServerRequestContext[Process, Any]


def scope_of(ctx: Ctx) -> Scope:
    """Raises InvalidInput or NotFound for a request that names agent, resource or thread as it may not."""
    return caller_of(ctx).scope


def check(ctx: Ctx, uri: str) -> None:
    """A thread or run may be watched before it is there, and so whether it is there is not told.

    Raises InvalidInput, LimitExceeded.
    """
    address, limits = address_of(uri), Limits()
    if ctx.lifespan_context.settings.memory == "off" and address.kind != "status":
        raise InvalidInput("memory is switched off (memory = off); only memory://status can be watched")
    if address.thread_id:
        check_id(address.thread_id, "thread_id", limits.thread_id_chars)
    if address.run_id:
        check_id(address.run_id, "run_id", limits.id_chars)


async def begin(ctx: Ctx, scope: Scope) -> None:
    """Waits until the database is open. Raises StorageUnavailable."""
    await ctx.lifespan_context.begin_watching(scope)


async def may_watch(ctx: Ctx) -> None:
    """Raises NotPermitted."""
    await permit(ctx, READ, ctx.method)


RULES = Rules(scope_of, check, begin, may_watch)
