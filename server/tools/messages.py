"""Tools about the messages of a thread."""

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field, WithJsonSchema
from typing_extensions import TypedDict

from layerlore.server.tools.declaring import Declaration, ThreadId, annotations
from layerlore.server.tools.leaving_out import EMPTY_SAYS
from layerlore.server.tools.stored_content import Stored

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


class Totals(TypedDict):
    messages: int
    tokens: int


class StoredMessage(TypedDict):
    id: str
    seq: int
    status: Literal["added", "unchanged", "replaced"]


class AddedMessages(TypedDict):
    thread_id: str
    messages: list[StoredMessage]
    masked: NotRequired[int]
    totals: Totals


class Next(TypedDict):
    before: NotRequired[int]
    after: NotRequired[int]
    offset: NotRequired[int]
    part: NotRequired[str]


class MessagePage(TypedDict):
    thread_id: str
    messages: Stored[list[dict[str, Any]]]
    total: int
    next: NotRequired[Next]
    cut: NotRequired[str]


class DeletedMessages(TypedDict):
    thread_id: str
    deleted: int
    ids: list[str]
    restored: NotRequired[int]
    deletion: NotRequired[str]
    restorable_until: NotRequired[str]
    totals: Totals


def add_messages(
    messages: RawMessages, thread_id: ThreadId = "", replace: bool = False, idempotency_key: str = ""
) -> AddedMessages:
    """Store messages of a conversation, in order, all or none. Takes OpenAI and Anthropic shapes, tool calls and
    images included; optional: id, name, created_at, metadata, files. An id sent again is kept as it is,
    or rewritten with replace=true."""


def get_messages(
    thread_id: ThreadId = "",
    limit: Annotated[int, Field(ge=1, le=200)] = 50,
    offset: Annotated[int | None, EMPTY_SAYS] = None,
    before: int | None = None,
    after: Annotated[int | None, EMPTY_SAYS] = None,
    roles: list[str] = [],  # noqa: B006 - a default in a schema, never changed
    detail: Literal["high", "low"] = "high",
    max_tokens: int | None = None,
    part: str = "",
) -> MessagePage:
    """Read a conversation in order: the newest messages; from the oldest on with offset; or before or after a seq.
    `next` continues. Media are notes; part gives one."""


def delete_messages(
    which: Literal["last_turn", "all", "ids", "undo"],
    ids: list[str] = [],  # noqa: B006 - a default in a schema, never changed
    roles: list[str] = [],  # noqa: B006 - a default in a schema, never changed
    thread_id: ThreadId = "",
) -> DeletedMessages:
    """Delete the last turn (from the latest user message on), the messages with these ids, or all (needs
    thread_id). undo restores the newest delete, or ids=[deletion]."""


TOOLS = (
    Declaration(add_messages, "Add messages", "core", "write", annotations(idempotent=False)),
    Declaration(
        get_messages,
        "Get messages",
        "core",
        "read",
        annotations(read_only=True, idempotent=True),
        largest_answer=200_000,
    ),
    Declaration(delete_messages, "Delete messages", "core", "forget", annotations(destructive=True)),
)
