"""A working memory document as a model reads it, and as JSON."""

import json
from typing import Any

from layerlore.memory.ages import day, iso
from layerlore.memory.blocks import block
from layerlore.memory.quoting import Tag, escaped
from layerlore.memory.working_memory import Document, readable, value_of
from layerlore.storage.records import Json
from layerlore.storage.working_memory import Kept, Version

_TAGS: dict[str, Tag] = {"thread": "session-memory", "resource": "user-profile"}
_KEPT = {"thread": "What is kept in mind for this conversation", "resource": "What is remembered about the user"}
_HOW = "send it back filled in with update_working_memory"


def rendered(document: Document, *, form: bool = False, current: int = 0) -> str:
    """The document as a block; empty where nothing is kept.

    ``form``: an empty document with a template (or a schema) is shown as the form to fill in. ``current`` is the
    number of the current version, where the document is an earlier one.
    """
    tag = _TAGS[document.scope]
    if document.content:
        return block(tag, readable(document), _description(document, current))
    if not form:
        return ""
    if document.rules.template:
        return block(tag, document.rules.template, f"Nothing is kept yet. This is the form to fill in: {_HOW}.")
    if document.rules.schema is not None:
        shape = json.dumps(document.rules.schema, ensure_ascii=False, indent=2)
        return block(tag, shape, f"Nothing is kept yet. This is the JSON Schema of the object to keep: {_HOW}.")
    return ""


def _description(document: Document, current: int) -> str:
    assert document.changed is not None
    earlier = f", an earlier one: the current one is {current}" if current and current != document.version else ""
    thread = f" {escaped(document.thread_id)!r}" if document.thread_id else ""
    return f"{_KEPT[document.scope]}{thread} (version {document.version}{earlier}, {day(document.changed.created_at)})."


def as_text(document: Document, kept: Kept, *, writable: bool) -> str:
    """What get_working_memory answers. ``writable``: its reader has the tool that changes it."""
    text = rendered(document, form=writable and kept.asked is None, current=kept.newest.version if kept.newest else 0)
    if text:
        return text
    if kept.asked:
        return f"Version {kept.asked.version} is empty: it was cleared."
    what = "the user profile" if document.scope == "resource" else f"the session memory of {document.thread_id!r}"
    how = f" update_working_memory(content, scope={document.scope!r}) keeps something." if writable else ""
    return f"Nothing is kept in {what} yet.{how}"


def as_json(document: Document, kept: Kept) -> Json:
    """The same with everything there is to know. ``versions`` are newest first."""
    rules, changed = document.rules, document.changed
    return {
        "scope": document.scope,
        **({"thread_id": document.thread_id} if document.scope == "thread" else {}),
        "format": rules.format,
        "content": value_of(document),
        **(_told(changed) if changed else {"version": 0}),
        **({"template": rules.template} if rules.template else {}),
        **({"schema": rules.schema} if rules.schema is not None else {}),
        "versions": [_told(version) for version in kept.versions],
    }


def _told(version: Version) -> dict[str, Any]:
    return {
        "version": version.version,
        "change": version.change,
        "changed_at": iso(version.created_at),
        "changed_by": version.actor,
        "tool": version.tool,
    }
