"""Whether a principal may do what it asks for: the one place where a right is missed."""

import contextlib
from collections.abc import Collection
from typing import Any

from mcp.server.context import ServerRequestContext

from layerlore.server.access.principal import RIGHTS, Right
from layerlore.server.caller import Caller, caller_of, client_of, principal_of
from layerlore.server.process import Process
from layerlore.storage.errors import LayerloreError, NotFound


class NotPermitted(LayerloreError):
    """The credential lacks a right; the text says which, and which it has."""


async def admitted(ctx: ServerRequestContext[Process, Any], needed: Collection[Right], what: str) -> Caller:
    """Who calls, and whose memory it means, once it may; ``what`` is a tool's or a method's name.

    Raises NotPermitted, InvalidInput, LimitExceeded, or NotFound for what is outside its grant.
    """
    await permit(ctx, needed, what)
    try:
        return caller_of(ctx)
    except NotFound as error:
        await note_refusal(ctx, what, error)
        raise


async def permit(ctx: ServerRequestContext[Process, Any], needed: Collection[Right], what: str) -> None:
    """Return if whoever sent the request has all these rights. Raises NotPermitted."""
    rights = principal_of(ctx).rights
    if missing := set(needed) - rights:
        every = f"right{'s' if len(needed) > 1 else ''} {told(needed)}"
        lacks = f" and lacks {told(missing)}" if len(needed) > len(missing) else ""
        error = NotPermitted(f"{what} needs the {every}; this credential has {told(rights)}{lacks}")
        await note_refusal(ctx, what, error)
        raise error


async def note_refusal(ctx: ServerRequestContext[Process, Any], what: str, error: Exception) -> None:
    """Have the journal say that a call was refused. Raises nothing."""
    with contextlib.suppress(LayerloreError):
        runtime = await ctx.lifespan_context.runtime()
        await runtime.denied(principal_of(ctx), tool=what, client=client_of(ctx), error=error)


def told(rights: Collection[Right]) -> str:
    """``read, write and forget``."""
    *most, last = [str(right) for right in RIGHTS if right in rights] or ["none"]
    return f"{', '.join(most)} and {last}" if most else last
