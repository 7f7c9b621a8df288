"""Tools about the messages of a thread."""

import asyncio
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema

from layerlore.memory.messages.message_answers import AddedMessages, MessagePage
from layerlore.memory.removal.removal_answers import DeletedMessages
from layerlore.memory.rules.validation import check_number
from layerlore.server.tools.arguments import EMPTY_SAYS, UNLISTED, Moment, parse_since, parse_until
from layerlore.server.tools.declaration import AnswerWithMedia, Call, TextOrJson, ThreadId, tool
from layerlore.storage.core.errors import InvalidInput

RawMessages = Annotated[
    Any,
    WithJsonSchema(
        {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "role": {"type": "string", "enum": ["system", "user", "assistant", "tool"]},
                    "content": {
                        "anyOf": [
                            {"type": "string"},
                            {
                                "type": "array",
                                "items": {
                                    "type": "object",
                                    "properties": {"type": {"type": "string"}, "text": {"type": "string"}},
                                },
                            },
                        ]
                    },
                },
                "required": ["role"],
            },
        }
    ),
]


PageDetail = Annotated[
    Literal["low", "normal", "high"],
    UNLISTED,
    Field(description="low: the beginning of each message; high: with images and files as they are, in format=json."),
]


@tool("Add messages", "core", "write", answers=AddedMessages)
async def add_messages(
    call: Call,
    messages: RawMessages,
    thread_id: ThreadId = "",
    replace: bool = False,
    idempotency_key: Annotated[str, UNLISTED, Field(description="A call with a known key is done once.")] = "",
    ids: Annotated[
        bool, UNLISTED, Field(description="Answers with the id and seq of each message, and the thread's totals.")
    ] = False,
) -> AddedMessages:
    """Store messages of a conversation, in order; later conversations find them by searching. Takes every provider's
    shape, with tool calls and images; optional: id, name, created_at, metadata, files. A known id is left as it is, or
    rewritten with replace=true; a deleted one is skipped."""
    from layerlore.memory.messages import addition

    if messages is None:
        raise InvalidInput("messages: is missing; give a list of messages, or one message")
    thread = call.thread(thread_id, key=idempotency_key)
    sent = call.sent(thread_id, key=idempotency_key)
    added = await addition.add_messages(call.engine, call.scope, thread, messages, replace=replace, sent=sent)
    # Programs ask for ids; a model needs only the counts.
    if ids:
        return added
    call.default_use.brief = True
    return addition.count_added(added)


@tool("Get messages", "core", "read", largest_answer=200_000)
async def get_messages(
    call: Call,
    thread_id: ThreadId = "",
    limit: Annotated[int, Field(ge=1, le=200)] = 50,
    offset: Annotated[int | None, EMPTY_SAYS] = None,
    before: int | None = None,
    after: Annotated[int | None, EMPTY_SAYS] = None,
    since: Annotated[Moment, Field(description="ISO 8601")] = "",
    until: Moment = "",
    roles: list[str] = [],  # noqa: B006 - a default in a schema, never changed
    max_tokens: int | None = None,
    part: str = "",
    detail: PageDetail = "normal",
    turn: Annotated[str, UNLISTED, Field(description="The page that ends with this turn, and its sets.")] = "",
    format: TextOrJson = "text",
) -> str | MessagePage | AnswerWithMedia:
    """Read a conversation: the newest messages, those from offset on (0: the oldest), or before or after a seq. since
    or until without thread_id reads all conversations. The last line says how to go on. part gives an image, a file
    or the rest of a long message."""
    from layerlore.memory.messages import reader

    for name, value, least in (
        ("offset", offset, 0),
        ("before", before, 0),
        ("after", after, 0),
        ("max_tokens", max_tokens, 1),
    ):
        check_number(value, name, least)
    if part:
        # A part is one place in one message, so a range would be ignored silently.
        if call.given & {"offset", "before", "after", "since", "until", "max_tokens"} or roles:
            raise InvalidInput(
                "part: names a place in one message; leave offset, before, after, since, until, roles and max_tokens out"
            )
        thread = call.thread(thread_id, reads=True)
        found, media = await reader.get_part(call.engine, call.scope, thread, part, detail)
        shown = reader.render_page(found) if format == "text" else found
        if media:
            return AnswerWithMedia(shown, media, thread)
        return shown
    begins, ends = parse_since(since) if since else None, parse_until(until) if until else None
    if begins is not None and ends is not None and begins > ends:
        raise InvalidInput(f"since ({since}) is after until ({until})")
    request = reader.PageRequest(
        limit,
        offset,
        before,
        after,
        reader.check_roles(roles),
        detail,
        max_tokens,
        begins,
        ends,
        as_text=format == "text",
    )
    if turn:
        if detail == "low" or call.given & {"offset", "before", "after", "since", "until", "part"} or roles:
            raise InvalidInput(
                "turn: takes thread_id, limit, max_tokens and detail=normal or high beside it, nothing else"
            )
        page = await reader.get_turn(call.engine, call.scope, call.thread(thread_id, reads=True), turn, request)
    # A time range without a conversation means all of them, as for "yesterday".
    elif (since or until) and not thread_id:
        page = await reader.get_messages_of_all(call.engine, call.scope, request)
    else:
        thread = call.thread(thread_id, reads=True)
        page = await reader.get_messages(
            call.engine, call.scope, thread, replace(request, reserved=call.reserved_tokens)
        )
    if format == "text":
        # In a thread, because rendering a long page takes a while.
        return await asyncio.to_thread(reader.render_page, page)
    return page


@tool("Delete messages", "core", "forget", answers=DeletedMessages)
async def delete_messages(
    call: Call,
    which: Literal["last_turn", "all", "ids"],
    ids: list[str] = [],  # noqa: B006 - a default in a schema, never changed
    roles: list[str] = [],  # noqa: B006 - a default in a schema, never changed
    thread_id: ThreadId = "",
) -> DeletedMessages:
    """Delete the last turn (what the user said last, and all after it), the messages with these ids or numbers ("#14"), or
    all (needs thread_id)."""
    from layerlore.memory.messages import reader
    from layerlore.memory.removal import deletion

    # A caller can easily mean the default thread by mistake, and would lose all of it.
    if which == "all" and not thread_id:
        raise InvalidInput("which='all' empties a conversation: say which one with thread_id")
    return await deletion.delete_messages(
        call.engine,
        call.scope,
        call.thread(thread_id, deletes=True),
        which,
        ids=ids,
        roles=reader.check_roles(roles),
        sent=call.sent(thread_id),
    )
