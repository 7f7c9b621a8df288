"""Working memory: the short document that an agent keeps current, of a thread or of whom it serves.

Upstream's append replaces the whole document where something in it does not parse; here that is an error and changes
nothing, and an append is made of what is stored, under the lock of its thread or resource.

A change whose mode is left out replaces the document of a thread, and adds to the profile: what is known of a person is
more than what one conversation brings, so that a single note must not take its place.
"""

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, cast

from layerlore.memory.documents.denied_lines import (
    MarkedContent,
    NewerLine,
    list_newer,
    mark_denied,
    read_with_newer,
    render_newer,
)
from layerlore.memory.documents.document_lines import (
    AnyDocumentChange,
    ClearedDocument,
    DocumentAnswer,
    DroppedLines,
    ListedVersion,
    NewVersion,
    StoredDocumentChange,
    UpdatedDocument,
    VersionRow,
    add_note,
    append_content,
    find_line,
    list_dropped,
    list_lines,
    parse_object,
    remove_lines,
    replace_line,
)
from layerlore.memory.engine.engine import Engine, UndoId, WriteRequest, make_undo_id, record_act, undoable_since
from layerlore.memory.rules.ages import EXPIRY_SIGN, day, is_line_expired, iso, mark_lines
from layerlore.memory.rules.answers import order_keys, show_masked
from layerlore.memory.rules.json_schema import check_against
from layerlore.memory.rules.validation import (
    check_json,
    check_number,
    check_text,
    count_json_bytes,
    describe,
    load_json,
)
from layerlore.memory.settings.note_settings import DocumentRules, DocumentScope
from layerlore.memory.text.quotation import Tag, escape_tags, quote_line, wrap_block
from layerlore.storage.core.errors import InvalidInput, LimitExceeded, NotFound
from layerlore.storage.core.json_text import to_json
from layerlore.storage.core.records import DAY_MS, Origin, Scope, StoredJson
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import note_rows, working_memory
from layerlore.storage.derived.working_memory import Change, DocumentChange, DocumentHistory, Version
from layerlore.storage.removal import acts
from layerlore.storage.removal.acts import ActPart
from layerlore.storage.threads import events
from layerlore.storage.threads.events import NewEvent

Mode = Literal["replace", "append"]

MOST_DROPPED = 5
"""At most this many of the removed lines are shown, each with at most DROPPED_CHARS characters."""
DROPPED_CHARS = 120


class StoredDocumentInvalid(InvalidInput):
    """The stored content, or what was made with it, breaks the rules of the document; the message may quote it."""


@contextlib.contextmanager
def _blame_stored() -> Iterator[None]:
    """Raise an InvalidInput from inside as StoredDocumentInvalid. LimitExceeded passes: a size reveals nothing of what
    is stored."""
    try:
        yield
    # A LimitExceeded is an InvalidInput, too, so it must be let through first.
    except LimitExceeded:
        raise
    except InvalidInput as error:
        raise StoredDocumentInvalid(str(error)) from None


@dataclass(frozen=True)
class WorkingMemoryDocument:
    """A document as it is, or was in ``version``; with no ``changed`` nothing was written to it yet. ``newer``: later
    sentences and notes, read only for a document that is shown. ``seen_after``: the reader sees the messages after this
    seq, so that what they say stands in marks only."""

    scope: DocumentScope
    thread_id: str
    rules: DocumentRules
    changed: Version | None = None
    newer: tuple[NewerLine, ...] = ()
    seen_after: int | None = None

    @property
    def content(self) -> str:
        """The content as it is stored: text, or compact JSON. Empty if none exists."""
        if self.changed:
            return self.changed.content
        return ""

    @cached_property
    def marked(self) -> MarkedContent:
        """The content with the lines that newer words deny marked. A block that is fitted is rendered many times."""
        return mark_denied(self.content, self.newer, is_json=self.rules.format == "json")

    @property
    def version(self) -> int:
        if self.changed:
            return self.changed.version
        return 0


async def read_current(engine: Engine, scope: Scope, of: DocumentScope, thread_id: str = "") -> WorkingMemoryDocument:
    """Read the document of a thread, or with ``of="resource"`` the profile; an unknown thread has an empty one."""
    document, _ = await read_document(engine, scope, of, thread_id, version=0)
    return document


async def read_document(
    engine: Engine, scope: Scope, of: DocumentScope, thread_id: str, *, version: int
) -> tuple[WorkingMemoryDocument, DocumentHistory]:
    """Read the document, or with a ``version`` above 0 as it was then, and all versions that are stored: none of an
    unknown thread.

    Raises InvalidInput, NotFound for a version that is not kept."""
    check_number(version, "version", 0, note="; 0 is the current one")
    newer: tuple[NewerLine, ...] = ()
    try:
        kept, newer = await engine.database.read(read_with_newer, scope, thread_id if of == "thread" else "", version)
    except NotFound:
        # A thread without messages may still be written to, so it reads as an empty document.
        kept = DocumentHistory(None, None, ())
    if version and kept.chosen is None:
        there = ", ".join(str(each.version) for each in kept.versions)
        raise NotFound(f"version {version} is not kept; kept: {there or 'none, nothing was written yet'}")
    rules = engine.working_memory.of(of)
    return WorkingMemoryDocument(of, thread_id, rules, kept.chosen or kept.newest, newer), kept


def parse_value(document: WorkingMemoryDocument) -> Any:
    """Parse the content as an answer has it: an object where the format is JSON, text elsewhere.

    A document of another format that is not JSON stays text.
    """
    if document.rules.format == "json" and document.content:
        try:
            return load_json(document.content, "content")
        except ValueError:
            return document.content
    return document.content


def render_readable(document: WorkingMemoryDocument) -> str:
    """The content as a model reads it: text with its marks, or indented JSON."""
    value = parse_value(document)
    if isinstance(value, str):
        return document.marked.text
    return json.dumps(value, ensure_ascii=False, indent=2)


async def update_document(
    engine: Engine,
    scope: Scope,
    of: DocumentScope,
    thread_id: str,
    content: Any,
    *,
    mode: Mode | None,
    expires_at: str = "",
    expected_version: int | None,
    sent: WriteRequest,
) -> UpdatedDocument:
    """Replace the document, or append to it: text on a new line, JSON merged deeply. No ``mode``: the document of
    a thread is replaced, and the profile gets what it lacks.

    JSON content is an object, or text that holds one. ``expires_at`` (ISO 8601): each line of a text is shown until then.
    Returns ``scope``, ``thread_id``, ``mode``, ``version``,
    ``bytes``, and ``unchanged``, ``masked``, ``dropped_lines`` (how many lines are gone), ``dropped`` (the first of
    them) and ``undo`` where they say something. Raises InvalidInput, LimitExceeded, Conflict.
    """
    rules, most = engine.working_memory.of(of), engine.working_memory.max_bytes
    how: Mode = mode or ("append" if of == "resource" else "replace")
    # Only without a mode may the server judge what the document lacks; "append" appends in any case.
    join = append_content if mode else add_note
    # Each line gets its own end, so that later lines of the document stay.
    given = _check_given(engine, rules, mark_lines(content, expires_at, engine.now()))
    # A document that is too large is refused below, with its size, and never stored.
    masked, count = engine.masked(given) if _bytes(given) <= most else (given, 0)

    def rule(stored: str, _: str) -> str:
        _check_size("content", _bytes(given), stored, most)
        if how != "append" or not stored:
            return _check_made(masked, rules, stored, most)
        with _blame_stored():
            return _check_made(join(stored, masked, rules), rules, stored, most)

    return await _write(engine, scope, of, thread_id, rule, how, given, expected_version, count, sent)


async def replace_document_line(
    engine: Engine,
    scope: Scope,
    of: DocumentScope,
    thread_id: str,
    line: str,
    content: Any,
    *,
    expires_at: str = "",
    expected_version: int | None,
    sent: WriteRequest,
) -> UpdatedDocument:
    """Change one line of the document and leave the others. ``line``: the whole line, or a beginning that no other one has;
    an empty ``content`` removes it.

    Returns what ``update_document`` returns. Raises InvalidInput, LimitExceeded, Conflict.
    """
    rules, most = engine.working_memory.of(of), engine.working_memory.max_bytes
    is_json = rules.format == "json"
    given = mark_lines(content, expires_at, engine.now())
    check_text(line, "replace_line")
    if isinstance(given, str):
        check_text(given, "content")
    elif not is_json:
        raise InvalidInput(f"content: one line of text, not {describe(given)}")
    else:
        # Checked as a value of an object, since that is where the line's value is stored.
        check_json({"content": given}, "content", depth=engine.limits.json_depth)
    masked, count = engine.masked(given)

    def rule(stored: str, _: str) -> str:
        if not stored:
            raise InvalidInput("replace_line: nothing is kept yet; leave it out to keep something")
        # Found under the lock: the line may have changed since the caller read it.
        found = find_line(stored, line, is_json=is_json)
        if given == "":
            made = remove_lines(stored, lambda each: each == found, is_json=is_json)
        else:
            made = replace_line(stored, found, masked, is_json=is_json)
        if not is_json or not made:
            return _check_made(made, rules, stored, most)
        with _blame_stored():
            return _check_made(parse_object(made, "the document"), rules, stored, most)

    return await _write(engine, scope, of, thread_id, rule, "replace", [line, given], expected_version, count, sent)


def check_content(engine: Engine, of: DocumentScope, content: str) -> None:
    """Check that an earlier content can be the document again. Raises StoredDocumentInvalid if the format, the schema or
    the limit has changed since."""
    rules, most = engine.working_memory.of(of), engine.working_memory.max_bytes
    try:
        made = parse_object(content, "content") if rules.format == "json" else content
        _check_made(made, rules, "", most)
    except InvalidInput as error:
        raise StoredDocumentInvalid(str(error)) from None


async def clear_document(
    engine: Engine,
    scope: Scope,
    of: DocumentScope,
    thread_id: str,
    *,
    expected_version: int | None,
    may_be_new: bool,
    sent: WriteRequest,
) -> ClearedDocument:
    """Empty the document, as a new version. Those before can be restored for ``deleted_days``; 0 erases them at once.

    ``may_be_new``: in an unknown thread there is nothing to empty, elsewhere it is an error. Returns what
    ``update_document`` returns, and ``restorable_until``. Raises InvalidInput, NotFound, Conflict.
    """
    try:
        return await _write(engine, scope, of, thread_id, lambda *_: "", "clear", None, expected_version, 0, sent)
    except NotFound:
        # A caller that expects a version believes that there is something to empty.
        if not may_be_new or expected_version:
            raise
        return {"scope": of, "thread_id": thread_id, "mode": "clear", "version": 0, "bytes": 0, "unchanged": True}


async def _write(
    engine: Engine,
    scope: Scope,
    of: DocumentScope,
    thread_id: str,
    rule: working_memory.Rule,
    how: Change,
    given: Any,
    expected_version: int | None,
    masked: int,
    sent: WriteRequest,
) -> AnyDocumentChange:
    check_number(expected_version, "expected_version", 0, note="; 0 means that nothing was written yet")
    now, new_uid, undo_id = engine.now(), engine.new_id(), make_undo_id(engine)

    async def write(tx: Tx) -> StoredDocumentChange:
        changed = await working_memory.change(
            tx,
            scope,
            thread_id if of == "thread" else "",
            rule,
            how=how,
            expected_version=expected_version,
            erase=how == "clear" and engine.deleted_days == 0,
            origin=sent.origin,
            new_uid=new_uid,
            now=now,
        )
        # An unchanged document gets no event and no new index: a repeated write costs nothing.
        if changed.after is not changed.before:
            await record_change(tx, scope, changed, how, sent.origin, now=now)
            await note_rows.refresh_document(tx, scope, changed.thread, engine.search_text_of)
        dropped = _count_dropped(engine, of, changed)
        undoable = await record_document_act(tx, engine, scope, changed, undo_id, sent.origin.tool, now)
        if "was" not in dropped:
            # Only an answer that reports a loss names its undo. The list of acts has every change.
            undoable = {}
        answer: StoredDocumentChange = {
            "scope": of,
            "mode": how,
            # Numbers only: this answer is stored for repeated requests, and may hold no text.
            **_show_change(engine, changed, how, now),
            **dropped,
            **undoable,
            **show_masked(masked),
        }
        if of == "thread":
            answer["thread_id"] = thread_id
        return order_keys(StoredDocumentChange, answer)

    answer = await engine.write(scope, sent, [of, how, given, expected_version, None], now, write)
    return await _show_dropped(engine, scope, of, thread_id, answer)


async def record_change(
    tx: Tx, scope: Scope, changed: DocumentChange, how: Change, origin: Origin, *, now: int
) -> None:
    """Record in the log that a document has a new version."""
    assert changed.after is not None
    of: DocumentScope = "thread" if changed.thread else "resource"
    name = ("working_memory_" if changed.thread else "profile_") + ("cleared" if how == "clear" else "updated")
    happened = NewEvent(name, {"scope": of, "version": changed.after.version, "mode": how})
    if changed.thread:
        await events.record(tx, scope, changed.thread, [happened], origin=origin, now=now)
    else:
        await events.record_of_resource(tx, scope, happened, origin=origin, now=now)


async def record_document_act(
    tx: Tx, engine: Engine, scope: Scope, changed: DocumentChange, undo_id: str, by: str, now: int
) -> UndoId:
    """Record an act for a change, so that its undo brings the version before it back. ``by`` is the tool. The first
    version of a document has none before it."""
    before, after = changed.before, changed.after
    # Undo restores the version before, so without one nothing can be undone.
    if before is None or after is None or after is before:
        return {}
    uid = changed.thread.thread_uid if changed.thread else None
    part = ActPart("document", "", uid, before.version, after.version)
    return await record_act(tx, engine, scope, undo_id, by, [part], now)


def _show_change(engine: Engine, changed: DocumentChange, how: Change, now: int) -> NewVersion:
    after = changed.after
    shown: NewVersion = {
        "version": after.version if after else 0,
        "bytes": len(after.content.encode()) if after else 0,
    }
    if after is changed.before:
        shown["unchanged"] = True
    elif how == "clear" and engine.deleted_days:
        shown["restorable_until"] = iso(now + engine.deleted_days * DAY_MS)
    return shown


def _count_dropped(engine: Engine, of: DocumentScope, changed: DocumentChange) -> DroppedLines:
    """How many lines a change took out, and the version that has them, unless it was erased."""
    before, after = changed.before, changed.after
    if before is None or after is None:
        return {}
    is_json = engine.working_memory.of(of).format == "json"
    dropped = list_dropped(before.content, after.content, is_json=is_json)
    if not dropped:
        return {}
    if after.change == "clear" and engine.deleted_days == 0:
        return {"dropped_lines": len(dropped)}
    return {"dropped_lines": len(dropped), "was": before.version}


async def _show_dropped(
    engine: Engine, scope: Scope, of: DocumentScope, thread_id: str, answer: StoredDocumentChange
) -> AnyDocumentChange:
    """The answer with the first lines that the change took out, and the call that undoes it. They are read here, since
    no text is stored in the answer of a request that may be sent again."""
    shown = cast("AnyDocumentChange", {name: value for name, value in answer.items() if name != "was"})
    was = answer.get("was")
    if was is None:
        return shown
    thread = thread_id if of == "thread" else ""
    try:
        # A repeated request may come after the version was erased: then no lines are shown.
        contents = await engine.database.read(working_memory.read_contents, scope, thread, [was, answer["version"]])
    except NotFound:
        return shown
    if len(contents) == 2:
        is_json = engine.working_memory.of(of).format == "json"
        lines = list_dropped(contents[was], contents[answer["version"]], is_json=is_json)
        shown["dropped"] = [_shorten(quote_line(line)) for line in lines[:MOST_DROPPED]]
    return shown


def _shorten(line: str) -> str:
    if len(line) <= DROPPED_CHARS:
        return line
    return line[: DROPPED_CHARS - 1] + "…"


def check_storable(engine: Engine, of: DocumentScope, content: Any) -> str:
    """Check content that a model wrote in the background, and return it as it is stored: within the format, the schema
    and the limit, with secrets masked unless redaction is off.

    Raises InvalidInput, LimitExceeded."""
    rules, most = engine.working_memory.of(of), engine.working_memory.max_bytes
    given = _check_given(engine, rules, content)
    _check_size("content", _bytes(given), "", most)
    # A model's text is made from messages, so "derived" masks it, too.
    masked = given if engine.redaction == "off" else engine.redactor.json(given)[0]
    return _check_made(masked, rules, "", most)


def _check_given(engine: Engine, rules: DocumentRules, content: Any) -> str | StoredJson:
    """Check content that a caller sent, and return it in this document's format."""
    if rules.format == "json":
        given = parse_object(content, "content")
        check_json(given, "content", depth=engine.limits.json_depth)
        return given
    if not isinstance(content, str):
        kind = "free text" if rules.format == "text" else "Markdown"
        raise InvalidInput(f"content: this document is {kind}: send it as a string, not {describe(content)}")
    if not check_text(content, "content"):
        raise InvalidInput("content: must not be empty; clear_working_memory empties a document")
    return content


def _check_made(made: str | StoredJson, rules: DocumentRules, stored: str, most: int) -> str:
    """Check content against the limit and the schema, and return it as it is stored."""
    _check_size("the document", _bytes(made), stored, most)
    if isinstance(made, str):
        return made
    if rules.json_schema:
        check_against(made, rules.json_schema, "content")
    return to_json(made)


def _check_size(what: str, size: int, stored: str, most: int) -> None:
    if size > most:
        raise LimitExceeded(
            f"{what} would have {size:,} bytes; at most {most:,} are allowed, and "
            f"{len(stored.encode()):,} are stored now: "
            "nothing was changed; send a shorter one with mode='replace'"
        )


def _bytes(content: str | StoredJson) -> int:
    if isinstance(content, str):
        return len(content.encode())
    return count_json_bytes(content)


_TAGS: dict[str, Tag] = {"thread": "session-memory", "resource": "user-profile"}
_KEPT = {"thread": "What is kept in mind for this conversation", "resource": "What is remembered about the user"}
_HOW = "send it back filled in with update_working_memory"


def drop_expired_lines(document: WorkingMemoryDocument, now: int) -> WorkingMemoryDocument:
    """The document without the lines that have expired, as contexts show it."""
    # Few documents have lines that expire, and the sign is found without parsing.
    if document.changed is None or EXPIRY_SIGN not in document.content:
        return document
    is_json = document.rules.format == "json"
    left = remove_lines(document.content, lambda line: is_line_expired(line, now), is_json=is_json)
    return replace(document, changed=replace(document.changed, content=left))


def render_block(
    document: WorkingMemoryDocument, *, text: str | None = None, form: bool = False, current: int = 0
) -> str:
    """Render the document as a block; empty where nothing is stored.

    ``text`` replaces the content, if it is set. ``form``: an empty document with a template (or a
    schema) is shown as the form to fill in. ``current`` is the number of the current version, where the document is an
    earlier one.
    """
    tag = _TAGS[document.scope]
    if text is None and document.content:
        text = render_readable(document)
    if text:
        newer = render_newer(document.marked.others, document.seen_after)
        shown = "\n\n".join(filter(None, [text, newer]))
        return wrap_block(tag, shown, _description(document, current))
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
    # A version that the caller names is shown as it was, with the lines that have expired.
    shown = drop_expired_lines(document, now) if kept.chosen is None else document
    current = kept.newest.version if kept.newest else 0
    text = render_block(shown, form=writable and kept.chosen is None and not document.content, current=current)
    is_json = document.rules.format == "json"
    # Named in the answer, else a reader would take the hidden lines for deleted ones.
    expired = len(list_lines(document.content, is_json=is_json)) - len(list_lines(shown.content, is_json=is_json))
    if expired:
        lines = "1 line has" if expired == 1 else f"{expired} lines have"
        return f"{text}\n{lines} expired; get_working_memory(format='json') shows all.".lstrip()
    if text:
        return text
    if kept.chosen:
        return f"Version {kept.chosen.version} is empty: it was cleared."
    what = "the user profile" if document.scope == "resource" else f"the session memory of {document.thread_id!r}"
    how = f" update_working_memory(content, scope={document.scope!r}) keeps something." if writable else ""
    return f"Nothing is kept in {what} yet.{how}"


async def list_version_acts(engine: Engine, scope: Scope, of: DocumentScope, thread_id: str) -> dict[int, str]:
    """By the number of an earlier version, the id of the act whose undo brings it back."""
    since = undoable_since(engine, engine.now())
    return await engine.database.read(acts.list_version_acts, scope, thread_id if of == "thread" else "", since=since)


def render_json(
    document: WorkingMemoryDocument, kept: DocumentHistory, undo_ids: Mapping[int, str] | None = None
) -> DocumentAnswer:
    """The document as JSON, with its rules and all versions that are stored, newest first. ``undo_ids``: by the number of
    a version the act whose undo brings it back."""
    rules, changed = document.rules, document.changed
    answer: DocumentAnswer = {
        "scope": document.scope,
        "format": rules.format,
        "content": parse_value(document),
        "version": 0,
        "versions": [_list_version(version, undo_ids or {}) for version in kept.versions],
    }
    if document.scope == "thread":
        answer["thread_id"] = document.thread_id
    if document.newer:
        answer["newer"] = list_newer(document.marked)
    if changed:
        answer = {**answer, **_show_version(changed)}
    if rules.template:
        answer["template"] = rules.template
    if rules.json_schema:
        answer["schema"] = rules.json_schema
    return order_keys(DocumentAnswer, answer)


def _list_version(version: Version, undo_ids: Mapping[int, str]) -> ListedVersion:
    row: ListedVersion = {**_show_version(version)}
    if version.version in undo_ids:
        row["undo"] = undo_ids[version.version]
    return row


def _show_version(version: Version) -> VersionRow:
    return {
        "version": version.version,
        "change": version.change,
        "changed_at": iso(version.created_at),
        "changed_by": version.actor,
        "tool": version.tool,
    }
