"""Permissions: the one place that checks whether a principal has the rights for a request."""

import contextlib
from collections.abc import Collection

from layerlore.server.access.caller import Caller, RequestContext, caller_of, client_of, principal_of
from layerlore.server.access.principal import RIGHTS, Right
from layerlore.storage.core.errors import LayerloreError, NotFound


class NotPermitted(LayerloreError):
    """The credential lacks a right; the text says which, and which it has."""


async def admit(ctx: RequestContext, needed: Collection[Right], what: str, *, of_tenant: bool = False) -> Caller:
    """Check the rights of a request, and return its caller. ``what`` is the name of a tool or a method; ``of_tenant``: it
    is about the whole tenant, and the request need not say for which agent and resource.

    Raises NotPermitted, InvalidInput, LimitExceeded, or NotFound for an agent or resource outside the grant.
    """
    await permit(ctx, needed, what)
    try:
        return caller_of(ctx, of_tenant=of_tenant)
    except NotFound as error:
        await record_refusal(ctx, what, error)
        raise


async def permit(ctx: RequestContext, needed: Collection[Right], what: str) -> None:
    """Check that the principal of the request has all these rights. Raises NotPermitted."""
    rights = principal_of(ctx).rights
    if missing := set(needed) - rights:
        every = f"right{'s' if len(needed) > 1 else ''} {join_rights(needed)}"
        lacks = f" and lacks {join_rights(missing)}" if len(needed) > len(missing) else ""
        error = NotPermitted(f"{what} needs the {every}; this credential has {join_rights(rights)}{lacks}")
        await record_refusal(ctx, what, error)
        raise error


async def record_refusal(ctx: RequestContext, what: str, error: Exception) -> None:
    """Record in the journal that a call was refused. Raises nothing."""
    with contextlib.suppress(LayerloreError):
        await ctx.lifespan_context.record_refusal(principal_of(ctx), tool=what, client=client_of(ctx), error=error)


def join_rights(rights: Collection[Right]) -> str:
    """The rights in words: ``read, write and forget``."""
    *most, last = [str(right) for right in RIGHTS if right in rights] or ["none"]
    return f"{', '.join(most)} and {last}" if most else last
