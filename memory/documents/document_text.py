"""The text of a working memory document, as a model reads it and as JSON."""

import json
from dataclasses import replace

from layerlore.memory.documents.document_answers import DocumentAnswer, VersionRow
from layerlore.memory.documents.document_lines import list_lines, remove_lines
from layerlore.memory.documents.working_memory import WorkingMemoryDocument, parse_value, render_readable
from layerlore.memory.rules.ages import day, iso
from layerlore.memory.rules.answer_keys import order_keys
from layerlore.memory.rules.expiry import EXPIRY_SIGN, is_line_expired
from layerlore.memory.text.blocks import wrap_block
from layerlore.memory.text.quotation import Tag, escape_tags
from layerlore.storage.derived.working_memory import DocumentHistory, Version

_TAGS: dict[str, Tag] = {"thread": "session-memory", "resource": "user-profile"}
_KEPT = {"thread": "What is kept in mind for this conversation", "resource": "What is remembered about the user"}
_HOW = "send it back filled in with update_working_memory"


def drop_expired_lines(document: WorkingMemoryDocument, now: int) -> WorkingMemoryDocument:
    """The document without the lines that have expired, as contexts show it."""
    if document.changed is None or EXPIRY_SIGN not in document.content:
        return document
    is_json = document.rules.format == "json"
    left = remove_lines(document.content, lambda line: is_line_expired(line, now), is_json=is_json)
    return replace(document, changed=replace(document.changed, content=left))


def render_block(
    document: WorkingMemoryDocument, *, text: str | None = None, form: bool = False, current: int = 0
) -> str:
    """Render the document as a block; empty where nothing is kept.

    ``text`` is shown in place of the content, if it is given. ``form``: an empty document with a template (or a schema) is shown as the form to fill in. ``current`` is the
    number of the current version, where the document is an earlier one.
    """
    tag = _TAGS[document.scope]
    if text:
        return wrap_block(tag, text, _description(document, current))
    if document.content and text is None:
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


def render_text(document: WorkingMemoryDocument, kept: DocumentHistory, *, writable: bool, now: int = 0) -> str:
    """The text that get_working_memory answers. ``writable``: its reader has the tool that changes the document. ``now``: of
    the current version the lines that have expired by then are counted, and not shown."""
    shown = drop_expired_lines(document, now) if kept.asked is None else document
    current = kept.newest.version if kept.newest else 0
    text = render_block(shown, form=writable and kept.asked is None and not document.content, current=current)
    is_json = document.rules.format == "json"
    expired = len(list_lines(document.content, is_json=is_json)) - len(list_lines(shown.content, is_json=is_json))
    if expired:
        lines = "1 line has" if expired == 1 else f"{expired} lines have"
        return f"{text}\n{lines} expired; get_working_memory(format='json') shows all.".lstrip()
    if text:
        return text
    if kept.asked:
        return f"Version {kept.asked.version} is empty: it was cleared."
    what = "the user profile" if document.scope == "resource" else f"the session memory of {document.thread_id!r}"
    how = f" update_working_memory(content, scope={document.scope!r}) keeps something." if writable else ""
    return f"Nothing is kept in {what} yet.{how}"


def render_json(document: WorkingMemoryDocument, kept: DocumentHistory) -> DocumentAnswer:
    """The document as JSON, with its rules and all versions that are kept, newest first."""
    rules, changed = document.rules, document.changed
    answer: DocumentAnswer = {
        "scope": document.scope,
        "format": rules.format,
        "content": parse_value(document),
        "version": 0,
        "versions": [_show_version(version) for version in kept.versions],
    }
    if document.scope == "thread":
        answer["thread_id"] = document.thread_id
    if changed:
        answer = {**answer, **_show_version(changed)}
    if rules.template:
        answer["template"] = rules.template
    if rules.json_schema:
        answer["schema"] = rules.json_schema
    return order_keys(DocumentAnswer, answer)


def _show_version(version: Version) -> VersionRow:
    return {
        "version": version.version,
        "change": version.change,
        "changed_at": iso(version.created_at),
        "changed_by": version.actor,
        "tool": version.tool,
    }
