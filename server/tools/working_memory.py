"""Tools about working memory."""

from typing import Annotated, Literal

from pydantic import Field, PlainValidator, WithJsonSchema

from layerlore.memory.documents.document_lines import ClearedDocument, DocumentAnswer, UpdatedDocument
from layerlore.server.tools.arguments import EMPTY_SAYS, UNLISTED
from layerlore.server.tools.declaration import OBJECT_OR_TEXT, Call, TextOrJson, ThreadId, tool
from layerlore.storage.core import records
from layerlore.storage.core.errors import InvalidInput

# The document's format decides whether text that looks like JSON is text or an object, so the value arrives as sent: the
# SDK reads no JSON in a string argument.
Content = Annotated[
    str,
    PlainValidator(lambda value: value),
    WithJsonSchema({**OBJECT_OR_TEXT, "description": "An object if the document is JSON."}),
]
Scope = Literal["thread", "resource"]

_NO_LINES = "the number of lines that are gone, not their text"

ExpectedVersion = Annotated[
    int | None, EMPTY_SAYS, UNLISTED, Field(description="Refuse if this is not the current version.")
]


@tool("Get working memory", "core", "read")
async def get_working_memory(
    call: Call,
    scope: Scope = "thread",
    thread_id: ThreadId = "",
    version: Annotated[int, UNLISTED, Field(ge=0, description="An earlier version.")] = 0,
    format: TextOrJson = "text",
) -> str | DocumentAnswer:
    """Read session memory, the short document of this conversation, or (scope=resource) the user profile, or the
    form to fill in."""
    from layerlore.memory.documents import working_memory

    owner, thread = _owner(call, scope), _thread(call, scope, thread_id, reads=True)
    document, kept = await working_memory.read_document(call.engine, owner, scope, thread, version=version)
    if format == "json":
        undo_ids = await working_memory.list_version_acts(call.engine, owner, scope, thread)
        return working_memory.render_json(document, kept, undo_ids)
    writable = "update_working_memory" in call.tools
    return working_memory.render_text(document, kept, writable=writable, now=call.engine.now())


@tool("Update working memory", "core", "write", answers=UpdatedDocument, reduced=_NO_LINES)
async def update_working_memory(
    call: Call,
    content: Content = "",
    scope: Scope = "thread",
    mode: Literal["replace", "append"] | None = None,
    expected_version: ExpectedVersion = None,
    replace_line: Annotated[str, Field(description="The line to change.")] = "",
    expires_at: Annotated[
        str, UNLISTED, Field(description="ISO 8601: after that the lines of content are not shown.")
    ] = "",
    thread_id: ThreadId = "",
) -> UpdatedDocument:
    """Keep what is read every time: facts about the user (scope=resource; added unless mode=replace),
    or the state of this conversation (replaced unless mode=append). JSON is merged; a form is sent back whole (mode=replace)."""
    from layerlore.memory.documents import working_memory

    thread, sent = _thread(call, scope, thread_id), call.sent(thread_id)
    if replace_line:
        if mode == "append":
            raise InvalidInput("replace_line: puts content in the place of a line; leave mode out")
        change = working_memory.replace_document_line(
            call.engine,
            _owner(call, scope),
            scope,
            thread,
            replace_line,
            content,
            expires_at=expires_at,
            expected_version=expected_version,
            sent=sent,
        )
    # An empty content is a value only if it was really sent.
    elif "content" in call.given:
        change = working_memory.update_document(
            call.engine,
            _owner(call, scope),
            scope,
            thread,
            content,
            mode=mode,
            expires_at=expires_at,
            expected_version=expected_version,
            sent=sent,
        )
    else:
        raise InvalidInput(
            "content: needed, the text or object to keep (undo brings a version back; clear_working_memory empties a "
            "document)"
        )
    try:
        return await change
    except working_memory.StoredDocumentInvalid:
        if call.may_read:
            raise
        # A caller that may not read only learns that the stored document does not fit.
        raise InvalidInput(
            "the document that this would make with what is stored is not allowed by its format or schema; what is "
            "wrong is shown to credentials with the right read; mode='replace' does not look at what is stored"
        ) from None


@tool("Clear working memory", "core", "forget", answers=ClearedDocument, idempotent=True, reduced=_NO_LINES)
async def clear_working_memory(
    call: Call, scope: Scope = "thread", thread_id: ThreadId = "", expected_version: ExpectedVersion = None
) -> ClearedDocument:
    """Empty session memory, or the user profile (scope=resource)."""
    from layerlore.memory.documents import working_memory

    return await working_memory.clear_document(
        call.engine,
        _owner(call, scope),
        scope,
        _thread(call, scope, thread_id, deletes=True),
        expected_version=expected_version,
        # A new conversation has no document yet; clearing it is allowed if it is the default one.
        may_be_new=not thread_id,
        sent=call.sent(thread_id),
    )


def _owner(call: Call, scope: str) -> records.Scope:
    """The scope of the document: the profile belongs to the person, also in a project."""
    if scope == "resource":
        return call.scope.of_person
    return call.scope


def _thread(call: Call, scope: Scope, thread_id: str, *, reads: bool = False, deletes: bool = False) -> str:
    """The thread of the document; "" for the profile."""
    if scope == "thread":
        return call.thread(thread_id, reads=reads, deletes=deletes)
    if thread_id:
        raise InvalidInput("thread_id: the user profile (scope='resource') belongs to no conversation; leave it out")
    return ""
