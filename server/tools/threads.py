"""Tools about threads."""

from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema

from layerlore.memory.messages.message_answers import TenantThreadPage, ThreadPage, UpdatedThread
from layerlore.memory.removal.removal_answers import DeletedThread
from layerlore.memory.rules import validation
from layerlore.server.access.caller import scope_of
from layerlore.server.tools.arguments import EMPTY_SAYS, UNLISTED, Moment, parse_since, parse_until
from layerlore.server.tools.declaration import OBJECT_OR_TEXT, Call, FreeObject, ThreadId, tool
from layerlore.storage.core.errors import InvalidInput
from layerlore.storage.core.records import SUBJECT_KEY

RawWindow = Annotated[
    Any,
    WithJsonSchema(
        {
            **OBJECT_OR_TEXT,
            "description": 'What models see: {"limit":"messages","max_messages":20}, or a profile\'s name; "" removes it.',
        }
    ),
    EMPTY_SAYS,
]


@tool("List threads", "threads", "read", answers=ThreadPage)
async def list_threads(
    call: Call,
    thread_id: str = "",
    metadata: FreeObject = {},  # noqa: B006
    order_by: Annotated[Literal["created_at", "updated_at", "title"], UNLISTED] = "updated_at",
    descending: Annotated[bool, UNLISTED] = True,
    limit: Annotated[int, Field(ge=1, le=100)] = 20,
    cursor: str = "",
) -> ThreadPage:
    """List conversations, those with this metadata, or one: title, metadata and counts. `next_cursor` continues."""
    from layerlore.memory.messages import threads

    # With an id this is a lookup, which also finds threads beyond the first page.
    if thread_id:
        return await threads.get_thread(call.engine, call.scope, call.thread(thread_id, reads=True))
    return await threads.list_threads(
        call.engine,
        call.scope,
        metadata=metadata,
        order_by=order_by,
        descending=descending,
        limit=limit,
        cursor=cursor,
    )


@tool(
    "Update thread",
    "threads",
    "write",
    answers=UpdatedThread,
    idempotent=True,
    reduced="no title, metadata or window",
)
async def update_thread(
    call: Call,
    thread_id: ThreadId = "",
    title: Annotated[str, Field(description='"" removes it.'), EMPTY_SAYS] = "",
    metadata: Annotated[FreeObject, Field(description="Merged in; null removes a key.")] = {},  # noqa: B006
    window: RawWindow = None,
    subject: Annotated[
        str,
        UNLISTED,
        EMPTY_SAYS,
        Field(description='Whom or what it is about: it is not shown what is about another. "" removes it.'),
    ] = "",
) -> UpdatedThread:
    """Set a conversation's title, metadata or window; it is made if absent. What is left out stays."""
    from layerlore.memory.messages import threads

    # An update of nothing would make an empty thread.
    if not call.given & {"title", "metadata", "window", "subject"}:
        raise InvalidInput("nothing to update: give a title, metadata, a window or a subject")
    if "subject" in call.given:
        # The subject is part of the metadata, where None removes a key.
        metadata = {**metadata, SUBJECT_KEY: validation.check_text(subject, SUBJECT_KEY).strip() or None}
    return await threads.update_thread(
        call.engine,
        call.scope,
        call.thread(thread_id),
        # None leaves a field as it is, and "" would remove it.
        title=title if "title" in call.given else None,
        metadata=metadata if call.given & {"metadata", "subject"} else None,
        window=window if "window" in call.given else None,
        sent=call.sent(thread_id),
    )


@tool("Delete thread", "threads", "forget", answers=DeletedThread, known_by=())
async def delete_thread(
    call: Call,
    thread_id: Annotated[str, Field(min_length=1)],
) -> DeletedThread:
    """Delete a conversation with all kept about it."""
    from layerlore.memory.removal import deletion

    thread = call.thread(thread_id, deletes=True)
    return await deletion.delete_thread(call.engine, call.scope, thread, sent=call.sent(thread_id))


@tool("List all conversations", "admin", "admin", answers=TenantThreadPage, reads=True, of_tenant=True)
async def list_all_threads(
    call: Call,
    agent: Annotated[str, Field(description="Only of this agent.")] = "",
    resource: Annotated[str, Field(description="Only of this user.")] = "",
    metadata: FreeObject = {},  # noqa: B006
    since: Annotated[Moment, Field(description="ISO 8601, of order_by.")] = "",
    until: Moment = "",
    order_by: Literal["updated_at", "created_at"] = "updated_at",
    descending: bool = True,
    limit: Annotated[int, Field(ge=1, le=100)] = 20,
    cursor: str = "",
) -> TenantThreadPage:
    """List the conversations of all users and agents, for the operator of this memory: owner, title, metadata and
    counts, never messages. The journal records each call. `next_cursor` continues."""
    from layerlore.memory.messages import tenants

    principal = call.caller.principal
    # For names outside the credential's grant this raises NotFound.
    granted = scope_of(principal, _named(call, agent, "agent"), _named(call, resource, "resource"), of_tenant=True)
    search = tenants.TenantSearch(
        agents=principal.agents,
        agent=granted.agent_id,
        resource=granted.resource_id,
        metadata=metadata,
        since=parse_since(since) if since else None,
        until=parse_until(until) if until else None,
        order_by=order_by,
        descending=descending,
        limit=limit,
        cursor=cursor,
    )
    return await tenants.list_tenant_threads(call.engine, principal.tenant, search, call.sent().origin)


def _named(call: Call, name: str, what: str) -> str:
    if name:
        return validation.check_id(name, what, call.engine.limits.id_chars)
    return ""
