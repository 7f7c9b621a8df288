"""Tools about working memory."""

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field, PlainValidator, WithJsonSchema
from typing_extensions import TypedDict

from layerlore.server.tools.declaring import OBJECT_OR_TEXT, Declaration, ThreadId, annotations
from layerlore.server.tools.leaving_out import EMPTY_SAYS


def _as_sent(value: Any) -> Any:
    return value


# Whether text that looks like JSON is meant as text depends on the document's format. Of an argument that is declared
# as a string the SDK reads none as JSON; an object comes as it is.
Content = Annotated[
    str,
    PlainValidator(_as_sent),
    WithJsonSchema({**OBJECT_OR_TEXT, "description": "An object if the document is JSON."}),
]
Scope = Literal["thread", "resource"]

ExpectedVersion = Annotated[int | None, EMPTY_SAYS]


class ChangedDocument(TypedDict):
    scope: Literal["thread", "resource"]
    thread_id: NotRequired[str]
    mode: Literal["replace", "append", "restore", "clear"]
    version: int
    bytes: int
    unchanged: NotRequired[bool]


class UpdatedDocument(ChangedDocument):
    masked: NotRequired[int]


class ClearedDocument(ChangedDocument):
    restorable_until: NotRequired[str]


def get_working_memory(
    scope: Scope = "thread",
    thread_id: ThreadId = "",
    version: Annotated[int, Field(ge=0)] = 0,
    format: Literal["text", "json"] = "text",
) -> str:
    """Read session memory, the short document of this conversation, or (scope=resource) the user profile; the form
    to fill in if it is empty. format=json has its versions."""


def update_working_memory(
    content: Content = "",
    scope: Scope = "thread",
    mode: Literal["replace", "append"] = "replace",
    expected_version: ExpectedVersion = None,
    restore_version: int | None = None,
    thread_id: ThreadId = "",
) -> UpdatedDocument:
    """Keep what must not be forgotten: facts about the user (scope=resource), or the state of this conversation.
    Replaces the whole document; mode=append adds to it (JSON is merged deeply). expected_version refuses if it has
    changed since; restore_version alone brings a kept version back."""


def clear_working_memory(
    scope: Scope = "thread", thread_id: ThreadId = "", expected_version: ExpectedVersion = None
) -> ClearedDocument:
    """Empty the document, or the user profile (scope=resource); restorable for a while."""


WRITERS = (
    Declaration(update_working_memory, "Update working memory", "core", "write", annotations()),
    Declaration(
        clear_working_memory, "Clear working memory", "core", "forget", annotations(destructive=True, idempotent=True)
    ),
)
TOOLS = (
    Declaration(
        get_working_memory,
        "Get working memory",
        "core",
        "read",
        annotations(read_only=True, idempotent=True),
        text=True,
    ),
    *WRITERS,
)
