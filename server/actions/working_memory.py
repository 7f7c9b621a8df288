"""What the tools about working memory do."""

import contextlib
from collections.abc import Iterator
from typing import Any, Literal

from layerlore.memory import working_memory
from layerlore.memory.document_rules import DocumentScope
from layerlore.memory.engine import Sent
from layerlore.memory.working_memory import Mode, StoredMisfits
from layerlore.memory.working_memory_text import as_json, as_text
from layerlore.server.actions.call import Call
from layerlore.storage.errors import InvalidInput
from layerlore.storage.records import Json


async def get_working_memory(
    call: Call, scope: DocumentScope, thread_id: str, version: int, format: Literal["text", "json"]
) -> str | Json:
    document, kept = await working_memory.read(
        call.engine, call.scope, scope, _thread(call, scope, thread_id, reads=True), version=version
    )
    if format == "json":
        return as_json(document, kept)
    return as_text(document, kept, writable="update_working_memory" in call.tools)


async def update_working_memory(
    call: Call,
    content: Any,
    scope: DocumentScope,
    mode: Mode,
    expected_version: int | None,
    restore_version: int | None,
    thread_id: str,
) -> Json:
    thread, sent = _thread(call, scope, thread_id), call.sent(thread_id)
    with _told_of_stored(call):
        return await _updated(call, content, scope, mode, expected_version, restore_version, thread, sent)


@contextlib.contextmanager
def _told_of_stored(call: Call) -> Iterator[None]:
    """Those who may not read are told that something stored does not fit, and no more."""
    try:
        yield
    except StoredMisfits:
        if call.may_read:
            raise
        raise InvalidInput(
            "the document that this would make with what is stored is not allowed by its format or schema; what is "
            "wrong is told to credentials with the right read; mode='replace' does not look at what is stored"
        ) from None


async def _updated(
    call: Call,
    content: Any,
    scope: DocumentScope,
    mode: Mode,
    expected_version: int | None,
    restore_version: int | None,
    thread: str,
    sent: Sent,
) -> Json:
    if restore_version is not None:
        if call.given & {"content", "mode"}:
            raise InvalidInput("restore_version: brings a version back as it was; leave content and mode out")
        return await working_memory.restore(
            call.engine, call.scope, scope, thread, restore_version, expected_version=expected_version, sent=sent
        )
    if "content" not in call.given:
        raise InvalidInput(
            "content: needed, the text or object to keep (or restore_version, to bring a version back; "
            "clear_working_memory empties a document)"
        )
    return await working_memory.update(
        call.engine, call.scope, scope, thread, content, mode=mode, expected_version=expected_version, sent=sent
    )


async def clear_working_memory(call: Call, scope: DocumentScope, thread_id: str, expected_version: int | None) -> Json:
    return await working_memory.clear(
        call.engine,
        call.scope,
        scope,
        _thread(call, scope, thread_id),
        expected_version=expected_version,
        may_be_new=not thread_id,
        sent=call.sent(thread_id),
    )


def _thread(call: Call, scope: DocumentScope, thread_id: str, *, reads: bool = False) -> str:
    """The thread whose document is meant; none for the profile."""
    if scope == "thread":
        return call.thread(thread_id, reads=reads)
    if thread_id:
        raise InvalidInput("thread_id: the user profile (scope='resource') belongs to no conversation; leave it out")
    return ""
