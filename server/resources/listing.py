"""resources/list and resources/templates/list."""

from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.types import ListResourcesResult, ListResourceTemplatesResult, PaginatedRequestParams, Resource

from layerlore.memory.acceptance import check_id
from layerlore.memory.limits import Limits
from layerlore.server.acting import act
from layerlore.server.caller import caller_of, principal_of
from layerlore.server.memory_uri import OF_A_THREAD
from layerlore.server.process import Process
from layerlore.server.resources.described import (
    of_current_thread,
    of_listed_thread,
    of_nobody_in_particular,
    templates,
)
from layerlore.storage.errors import InvalidInput

PAGE = 50
# The templates change with the server's version only.
_HOUR_MS = 3_600_000


async def list_resources(
    ctx: ServerRequestContext[Process, Any], params: PaginatedRequestParams
) -> ListResourcesResult:
    """What there is always and what the current thread has, then every thread of the caller, newest update first; nothing for
    those who may not read."""
    if "read" not in principal_of(ctx).rights:
        return ListResourcesResult(resources=[])
    if ctx.lifespan_context.settings.memory == "off":
        return ListResourcesResult(resources=[of_nobody_in_particular("status")])
    cursor = params.cursor or ""
    try:
        page = await act(ctx, "list_threads", {"limit": PAGE, "cursor": cursor})
    except InvalidInput as error:
        if not str(error).startswith("cursor"):
            raise
        raise InvalidInput(
            "cursor: not one that resources/list gave; leave it out to begin at the first page"
        ) from error
    threads = [of_listed_thread(row) for row in page["threads"]]
    return ListResourcesResult(
        resources=threads if cursor else [*_always(ctx), *threads], next_cursor=page.get("next_cursor")
    )


def _always(ctx: ServerRequestContext[Process, Any]) -> list[Resource]:
    fixed = [of_nobody_in_particular(kind) for kind in ("profile", "threads", "status")]
    own = check_id(caller_of(ctx).default_thread, "thread_id", Limits().thread_id_chars)
    return fixed + [of_current_thread(kind, own) for kind in OF_A_THREAD]


async def list_templates(
    ctx: ServerRequestContext[Process, Any], _: PaginatedRequestParams
) -> ListResourceTemplatesResult:
    """The same for all who may read."""
    on = ctx.lifespan_context.settings.memory == "on" and "read" in principal_of(ctx).rights
    return ListResourceTemplatesResult(
        resource_templates=templates() if on else [], ttl_ms=_HOUR_MS, cache_scope="private"
    )
