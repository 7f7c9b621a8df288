"""Working memory: the short document that an agent keeps current, of a thread or of whom it serves.

Upstream's append replaces the whole document where something in it does not parse; here that is an error and changes
nothing, and an append is made of what is stored, under the lock of its thread or resource.
"""

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from layerlore.memory.acceptance import check_json, check_text, json_bytes, load_json, shown
from layerlore.memory.ages import DAY_MS, iso
from layerlore.memory.document_rules import DocumentRules, DocumentScope
from layerlore.memory.engine import Engine, Sent
from layerlore.memory.json_merge import deeply_merged
from layerlore.memory.json_schema import check_against
from layerlore.storage import events, working_memory
from layerlore.storage.errors import InvalidInput, LimitExceeded, NotFound
from layerlore.storage.events import NewEvent
from layerlore.storage.json_text import to_json
from layerlore.storage.records import Json, Scope
from layerlore.storage.transaction import Tx
from layerlore.storage.working_memory import Change, Changed, Kept, Version

Mode = Literal["replace", "append"]

_LARGEST = 2**63 - 1


class StoredMisfits(InvalidInput):
    """What is stored, or was made with it, may not be the document; the text may hold some of it."""


@contextlib.contextmanager
def _of_stored() -> Iterator[None]:
    """What is wrong with a document meanwhile is raised as StoredMisfits; a size says nothing of what is stored."""
    try:
        yield
    except LimitExceeded:
        raise
    except InvalidInput as error:
        raise StoredMisfits(str(error)) from None


@dataclass(frozen=True, slots=True)
class Document:
    """A document as it is, or was in ``version``; with no ``changed`` nothing was written to it yet."""

    scope: DocumentScope
    thread_id: str
    rules: DocumentRules
    changed: Version | None = None

    @property
    def content(self) -> str:
        """As it is stored: text, or compact JSON. Empty: there is none."""
        return self.changed.content if self.changed else ""

    @property
    def version(self) -> int:
        return self.changed.version if self.changed else 0


async def current(engine: Engine, scope: Scope, of: DocumentScope, thread_id: str = "") -> Document:
    """The document of a thread, or with ``of="resource"`` the profile; of an unknown thread, one that is empty."""
    try:
        found = await engine.database.read(working_memory.current, scope, thread_id if of == "thread" else "")
    except NotFound:
        found = None
    return Document(of, thread_id, engine.working_memory.of(of), found)


async def read(
    engine: Engine, scope: Scope, of: DocumentScope, thread_id: str, *, version: int
) -> tuple[Document, Kept]:
    """The document, or with a ``version`` above 0 as it was then, and all versions that are kept: none of an unknown
    thread. Raises InvalidInput, NotFound for a version that is not kept."""
    if not 0 <= version <= _LARGEST:
        raise InvalidInput("version: 0 (the current one) and up are allowed")
    try:
        kept = await engine.database.read(
            working_memory.kept, scope, thread_id if of == "thread" else "", version=version
        )
    except NotFound:
        kept = Kept(None, None, ())
    if version and kept.asked is None:
        there = ", ".join(str(each.version) for each in kept.versions)
        raise NotFound(f"version {version} is not kept; kept: {there or 'none, nothing was written yet'}")
    return Document(of, thread_id, engine.working_memory.of(of), kept.asked or kept.newest), kept


def value_of(document: Document) -> Any:
    """The content as an answer has it: an object where the format is JSON, text elsewhere.

    What was written under another format, and is no JSON, stays text.
    """
    if document.rules.format == "json" and document.content:
        try:
            return load_json(document.content, "content")
        except ValueError:
            return document.content
    return document.content


def readable(document: Document) -> str:
    """The content as a model reads it: text, or indented JSON."""
    value = value_of(document)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)


async def update(
    engine: Engine,
    scope: Scope,
    of: DocumentScope,
    thread_id: str,
    content: Any,
    *,
    mode: Mode,
    expected_version: int | None,
    sent: Sent,
) -> Json:
    """Replace the document, or append to it: text after a blank line, JSON merged deeply.

    JSON content is an object, or text that holds one. Returns ``scope``, ``thread_id``, ``mode``, ``version``,
    ``bytes``, ``unchanged`` and ``masked`` where they say something. Raises InvalidInput, LimitExceeded, Conflict.
    """
    rules, most = engine.working_memory.of(of), engine.working_memory.max_bytes
    given = _entered(engine, rules, content)
    # What is too large is refused below, with the size of what it met, and never stored.
    masked, count = engine.masked(given) if _bytes(given) <= most else (given, 0)

    def rule(stored: str, _: str) -> str:
        _check_size("content", _bytes(given), stored, most)
        if mode != "append" or not stored:
            return _checked(masked, rules, stored, most)
        with _of_stored():
            return _checked(_appended(stored, masked), rules, stored, most)

    return await _write(engine, scope, of, thread_id, rule, mode, given, expected_version, count, sent)


async def restore(
    engine: Engine,
    scope: Scope,
    of: DocumentScope,
    thread_id: str,
    version: int,
    *,
    expected_version: int | None,
    sent: Sent,
) -> Json:
    """Make a kept version the document again, as a new version. Raises InvalidInput, NotFound, Conflict."""
    if not 1 <= version <= _LARGEST:
        raise InvalidInput(
            "restore_version: 1 and up are allowed; get_working_memory(format='json') lists the kept ones"
        )
    rules, most = engine.working_memory.of(of), engine.working_memory.max_bytes

    def rule(stored: str, was: str) -> str:
        if not was:
            raise InvalidInput(f"restore_version: version {version} is empty; clear_working_memory empties a document")
        if rules.format == "json":
            with _of_stored():
                _checked(_object(was, f"version {version}"), rules, stored, most)
            return was
        return _checked(was, rules, stored, most)

    return await _write(engine, scope, of, thread_id, rule, "restore", None, expected_version, 0, sent, version)


async def clear(
    engine: Engine,
    scope: Scope,
    of: DocumentScope,
    thread_id: str,
    *,
    expected_version: int | None,
    may_be_new: bool,
    sent: Sent,
) -> Json:
    """Empty the document, as a new version. Those before can be restored for ``deleted_days``; 0 erases them at once.

    ``may_be_new``: in an unknown thread there is nothing to empty, elsewhere it is an error. Returns what ``update``
    returns, and ``restorable_until``. Raises InvalidInput, NotFound, Conflict.
    """
    try:
        return await _write(engine, scope, of, thread_id, lambda *_: "", "clear", None, expected_version, 0, sent)
    except NotFound:
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
    sent: Sent,
    restore_version: int | None = None,
) -> Json:
    if expected_version is not None and not 0 <= expected_version <= _LARGEST:
        raise InvalidInput("expected_version: 0 (nothing was written yet) and up are allowed")
    now, new_uid = engine.now(), engine.new_id()

    async def write(tx: Tx) -> Json:
        changed = await working_memory.change(
            tx,
            scope,
            thread_id if of == "thread" else "",
            rule,
            how=how,
            expected_version=expected_version,
            restore_version=restore_version,
            erase=how == "clear" and engine.deleted_days == 0,
            origin=sent.origin,
            new_uid=new_uid,
            now=now,
        )
        if changed.after is not changed.before:
            await _record(tx, scope, of, changed, how, sent, now)
        return {
            "scope": of,
            **({"thread_id": thread_id} if of == "thread" else {}),
            "mode": how,
            **_told(engine, changed, how, now),
            **({"masked": masked} if masked else {}),
        }

    return await engine.write(scope, sent, [of, how, given, expected_version, restore_version], now, write)


async def _record(tx: Tx, scope: Scope, of: DocumentScope, changed: Changed, how: Change, sent: Sent, now: int) -> None:
    assert changed.after is not None
    name = ("working_memory_" if changed.thread else "profile_") + ("cleared" if how == "clear" else "updated")
    happened = NewEvent(name, {"scope": of, "version": changed.after.version, "mode": how})
    if changed.thread:
        await events.record(tx, scope, changed.thread, [happened], origin=sent.origin, now=now)
    else:
        await events.record_of_resource(tx, scope, happened, origin=sent.origin, now=now)


def _told(engine: Engine, changed: Changed, how: Change, now: int) -> Json:
    after = changed.after
    told: Json = {"version": after.version if after else 0, "bytes": len(after.content.encode()) if after else 0}
    if after is changed.before:
        return {**told, "unchanged": True}
    if how == "clear" and engine.deleted_days:
        told["restorable_until"] = iso(now + engine.deleted_days * DAY_MS)
    return told


def storable(engine: Engine, of: DocumentScope, content: Any) -> str:
    """Content that a model wrote in the background, as it is stored in the place of the document: what the format,
    the schema and the limit take, with secrets masked unless redaction is off. Raises InvalidInput, LimitExceeded."""
    rules, most = engine.working_memory.of(of), engine.working_memory.max_bytes
    given = _entered(engine, rules, content)
    _check_size("content", _bytes(given), "", most)
    masked = given if engine.redaction == "off" else engine.redactor.json(given)[0]
    return _checked(masked, rules, "", most)


def _entered(engine: Engine, rules: DocumentRules, content: Any) -> str | Json:
    """What was sent as content, as this document's format takes it."""
    if rules.format == "json":
        given = _object(content, "content")
        check_json(given, "content", depth=engine.limits.json_depth)
        return given
    if not isinstance(content, str):
        kind = "free text" if rules.format == "text" else "Markdown"
        raise InvalidInput(f"content: this document is {kind}: send it as a string, not {shown(content)}")
    if not check_text(content, "content"):
        raise InvalidInput("content: is empty; clear_working_memory empties a document")
    return content


def _object(content: Any, where: str) -> Json:
    """A JSON object, or what a text holds that is one."""
    found = content
    if isinstance(content, str):
        try:
            found = load_json(content, where)
        except ValueError as error:
            raise InvalidInput(f"{where}: this document is a JSON object, and that is no JSON ({error})") from None
    if not isinstance(found, dict):
        raise InvalidInput(f"{where}: this document is a JSON object; send one, not {shown(found)}")
    return found


def _appended(stored: str, more: str | Json) -> str | Json:
    if isinstance(more, str):
        return stored.rstrip("\n") + "\n\n" + more
    try:
        merged: Json = deeply_merged(_object(stored, "stored"), more)
    except InvalidInput:
        raise InvalidInput(
            "mode='append': what is stored is no JSON object, since it was written under another format; nothing was "
            "changed: read it with get_working_memory and send the whole document with mode='replace'"
        ) from None
    return merged


def _checked(made: str | Json, rules: DocumentRules, stored: str, most: int) -> str:
    """The content as it is stored, if it may be."""
    _check_size("the document", _bytes(made), stored, most)
    if isinstance(made, str):
        return made
    if rules.schema is not None:
        check_against(made, rules.schema, "content")
    return to_json(made)


def _check_size(what: str, size: int, stored: str, most: int) -> None:
    if size > most:
        raise LimitExceeded(
            f"{what} would have {size:,} bytes; {most:,} are allowed, and {len(stored.encode()):,} are stored now: "
            "nothing was changed; send a shorter one with mode='replace'"
        )


def _bytes(content: str | Json) -> int:
    return len(content.encode()) if isinstance(content, str) else json_bytes(content)
