"""Tools about working memory."""

from typing import Annotated, Any, Literal, NotRequired

from pydantic import Field, PlainValidator, WithJsonSchema
from typing_extensions import TypedDict

from memstrata.server.tools.declaring import Declaration, MaybeInt, ThreadId, annotations


def _as_sent(value: Any) -> Any:
    return value


# Whether text that looks like JSON is meant as text depends on the document's format. Of an argument that is declared
# as a string the SDK reads none as JSON; an object comes as it is.
Content = Annotated[
    str, PlainValidator(_as_sent), WithJsonSchema({"description": "Text; an object if the document is JSON."})
]
Scope = Annotated[
    Literal["thread", "resource"], Field(description="thread: of this conversation; resource: the user profile.")
]


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
    version: Annotated[int, Field(ge=0, description="An earlier one; 0: current.")] = 0,
    format: Literal["text", "json"] = "text",
) -> str:
    """Read the short document kept for this conversation, or what you know about the user, or the form to fill in if
    it is empty. format=json has its versions."""


def update_working_memory(
    content: Content = "",
    scope: Scope = "thread",
    mode: Annotated[
        Literal["replace", "append"], Field(description="append adds to the text; JSON is merged deeply.")
    ] = "replace",
    expected_version: MaybeInt = None,
    restore_version: MaybeInt = None,
    thread_id: ThreadId = "",
) -> UpdatedDocument:
    """Keep what must not be forgotten: facts about the user (scope=resource), or the state of this conversation.
    Replaces the whole document unless mode=append. expected_version refuses if it has changed since you read it;
    restore_version, without content, brings a kept version back."""


def clear_working_memory(
    scope: Scope = "thread", thread_id: ThreadId = "", expected_version: MaybeInt = None
) -> ClearedDocument:
    """Empty the document. Its earlier versions can be restored for a while."""


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
