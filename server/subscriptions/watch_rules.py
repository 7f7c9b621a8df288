"""The rules of watching: a caller that may read may watch any resource in its own scope."""

from layerlore.memory.rules.limits import Limits
from layerlore.memory.rules.validation import check_id
from layerlore.server.access.caller import RequestContext, caller_of, settings_of
from layerlore.server.access.permissions import permit
from layerlore.server.access.principal import READ
from layerlore.server.resources.uris import address_of
from layerlore.server.subscriptions.notifications import Rules
from layerlore.storage.core.errors import InvalidInput
from layerlore.storage.core.records import Scope


def scope_of(ctx: RequestContext) -> Scope:
    """Whose memory the request means. Raises InvalidInput, or NotFound for an agent or resource outside its grant."""
    return caller_of(ctx).scope


def check(ctx: RequestContext, uri: str) -> None:
    """A thread, run or entry may be watched before it is there, so that the answer does not show whether it is.

    Raises InvalidInput, LimitExceeded.
    """
    address, limits = address_of(uri), Limits()
    if settings_of(ctx).memory == "off" and address.kind != "status":
        raise InvalidInput("memory is switched off (memory = off); only memory://status can be watched")
    if address.thread_id:
        check_id(address.thread_id, "thread_id", limits.thread_id_chars)
    if address.run_id:
        check_id(address.run_id, "run_id", limits.id_chars)
    if address.entry_id:
        check_id(address.entry_id, "entry_id", limits.id_chars)


async def begin(ctx: RequestContext, scope: Scope) -> None:
    """Begin to watch a scope, once the database is open. Raises StorageUnavailable."""
    await ctx.lifespan_context.begin_watching(scope)


async def may_watch(ctx: RequestContext) -> None:
    """Return if the caller may watch. Raises NotPermitted."""
    await permit(ctx, READ, ctx.method)


RULES = Rules(scope_of, check, begin, may_watch)
