"""The text of a working memory document, as a model reads it and as JSON."""

import json
from typing import Any

from layerlore.memory.documents.working_memory import WorkingMemoryDocument, parse_value, render_readable
from layerlore.memory.rules.ages import day, iso
from layerlore.memory.text.blocks import wrap_block
from layerlore.memory.text.quotation import Tag, escape_tags
from layerlore.storage.core.records import Json
from layerlore.storage.derived.working_memory import DocumentHistory, Version

_TAGS: dict[str, Tag] = {"thread": "session-memory", "resource": "user-profile"}
_KEPT = {"thread": "What is kept in mind for this conversation", "resource": "What is remembered about the user"}
_HOW = "send it back filled in with update_working_memory"


def render_block(document: WorkingMemoryDocument, *, form: bool = False, current: int = 0) -> str:
    """Render the document as a block; empty where nothing is kept.

    ``form``: an empty document with a template (or a schema) is shown as the form to fill in. ``current`` is the
    number of the current version, where the document is an earlier one.
    """
    tag = _TAGS[document.scope]
    if document.content:
        return wrap_block(tag, render_readable(document), _description(document, current))
    if not form:
        return ""
    if document.rules.template:
        return wrap_block(tag, document.rules.template, f"Nothing is kept yet. This is the form to fill in: {_HOW}.")
    if document.rules.json_schema:
        shape = json.dumps(document.rules.json_schema, ensure_ascii=False, indent=2)
        return wrap_block(tag, shape, f"Nothing is kept yet. This is the JSON Schema of the object to keep: {_HOW}.")
    return ""


def _description(document: WorkingMemoryDocument, current: int) -> str:
    assert document.changed is not None
    earlier = f", an earlier one: the current one is {current}" if current and current != document.version else ""
    thread = f" {escape_tags(document.thread_id)!r}" if document.thread_id else ""
    return f"{_KEPT[document.scope]}{thread} (version {document.version}{earlier}, {day(document.changed.created_at)})."


def render_text(document: WorkingMemoryDocument, kept: DocumentHistory, *, writable: bool) -> str:
    """The text that get_working_memory answers. ``writable``: its reader has the tool that changes the document."""
    text = render_block(
        document, form=writable and kept.asked is None, current=kept.newest.version if kept.newest else 0
    )
    if text:
        return text
    if kept.asked:
        return f"Version {kept.asked.version} is empty: it was cleared."
    what = "the user profile" if document.scope == "resource" else f"the session memory of {document.thread_id!r}"
    how = f" update_working_memory(content, scope={document.scope!r}) keeps something." if writable else ""
    return f"Nothing is kept in {what} yet.{how}"


def render_json(document: WorkingMemoryDocument, kept: DocumentHistory) -> Json:
    """The document as JSON, with its rules and all versions that are kept, newest first."""
    rules, changed = document.rules, document.changed
    return {
        "scope": document.scope,
        **({"thread_id": document.thread_id} if document.scope == "thread" else {}),
        "format": rules.format,
        "content": parse_value(document),
        **(_version_json(changed) if changed else {"version": 0}),
        **({"template": rules.template} if rules.template else {}),
        **({"schema": rules.json_schema} if rules.json_schema else {}),
        "versions": [_version_json(version) for version in kept.versions],
    }


def _version_json(version: Version) -> dict[str, Any]:
    return {
        "version": version.version,
        "change": version.change,
        "changed_at": iso(version.created_at),
        "changed_by": version.actor,
        "tool": version.tool,
    }
