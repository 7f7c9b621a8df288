"""The content of a working memory document, a JSON object or text, and its lines, so that they can be compared and removed
one by one. A JSON document's lines are its values, each with its path."""

import difflib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from layerlore.memory.rules.answers import Stored
from layerlore.memory.rules.json_schema import merge_json
from layerlore.memory.rules.validation import describe, load_json
from layerlore.memory.settings.note_settings import DocumentRules
from layerlore.storage.core import linear_re
from layerlore.storage.core.errors import InvalidInput
from layerlore.storage.core.json_text import to_json
from layerlore.storage.core.records import StoredJson

Gone = Callable[[str], bool]

_MOST_SHOWN = 3
# The marks before the words of a line: "- ", "* ", "1. ".
_BULLET = linear_re.compile(r"(?:[-*+•]|\d+[.)])\s+")


def list_lines(content: str, *, is_json: bool) -> list[str]:
    """List the lines of a document that can be shown and removed one by one."""
    if is_json:
        value = _parse_object(content)
    else:
        value = None
    if value is None:
        return [line.strip() for line in content.splitlines() if line.strip()]
    return [f"{path}: {_show_leaf(leaf)}" for path, leaf in _leaves(value, "")]


def remove_lines(content: str, gone: Gone, *, is_json: bool) -> str:
    """Remove the lines for which ``gone`` is true; "" if nothing is left. The text ends as it did before."""
    if is_json:
        value = _parse_object(content)
    else:
        value = None
    if value is None:
        kept = [line for line in content.splitlines(keepends=True) if not line.strip() or not gone(line.strip())]
        text = "".join(kept).rstrip("\r\n")
        # An editor or a file may depend on the last break, so it stays as it was.
        ending = content[len(content.rstrip("\r\n")) :]
        if text.strip():
            return text + ending
        return ""
    left = _prune(value, "", gone)
    if left:
        return to_json(left)
    return ""


def find_line(content: str, wanted: str, *, is_json: bool) -> str:
    """The one line of a document that is, or begins with, these words; of a JSON document ``path: value``, or a value. Raises
    InvalidInput if none exists, or more than one."""
    lines = list_lines(content, is_json=is_json)
    sought = wanted.strip()
    if is_json:
        values = {line: line.partition(": ")[2] for line in lines}
    else:
        values = {}
    # A whole line wins over beginnings, else "Tea" could not be named beside "Tea and milk".
    exact = [line for line in lines if sought in (line, _BULLET.sub("", line), values.get(line))]
    found = exact or [line for line in lines if line.startswith(sought) or _BULLET.sub("", line).startswith(sought)]
    if len(set(found)) == 1:
        return found[0]
    near = found[:_MOST_SHOWN] or difflib.get_close_matches(sought, lines, n=_MOST_SHOWN, cutoff=0.3)
    if near:
        shown = f": {'; '.join(map(repr, near))}"
    else:
        shown = ""
    if found:
        raise InvalidInput(f"replace_line: {len(found)} lines begin so, give one of them whole{shown}")
    if near:
        why = "; the closest are"
    else:
        why = ""
    raise InvalidInput(f"replace_line: no line is {wanted.strip()!r} or begins so{why}{shown}")


def replace_line(content: str, line: str, new: Any, *, is_json: bool) -> str:
    """The document with another line in the place of this one. ``new`` is text, of a JSON document any value."""
    if is_json:
        value = _parse_object(content)
    else:
        value = None
    if value is not None:
        return to_json(_exchange(value, "", line, new))
    made: list[str] = []
    replaced = False
    for each in content.splitlines(keepends=True):
        if replaced or each.strip() != line:
            made.append(each)
            continue
        replaced = True
        indent = each[: len(each) - len(each.lstrip())]
        ending = each[len(each.rstrip("\r\n")) :]
        bullet = _BULLET.match(line)
        # A new text without a bullet keeps that of the old line, so that the list stays a list.
        keeps = bullet is not None and not _BULLET.match(new)
        made.append(f"{indent}{bullet[0] if bullet and keeps else ''}{new}{ending}")
    return "".join(made)


def _exchange(value: Any, path: str, line: str, new: Any) -> Any:
    if not isinstance(value, dict | list):
        if f"{path}: {_show_leaf(value)}" == line:
            return new
        return value
    made = {key: _exchange(inner, inner_path, line, new) for key, inner_path, inner in _children(value, path)}
    if isinstance(value, dict):
        return made
    return list(made.values())


def _parse_object(content: str) -> Any:
    try:
        found = load_json(content, "content")
    except ValueError:
        return None
    if isinstance(found, dict):
        return found
    return None


def _children(value: dict[str, Any] | list[Any], path: str) -> Iterator[tuple[Any, str, Any]]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in pairs:
        yield key, f"{path}.{key}" if path else str(key), inner


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict | list):
        for _, inner_path, inner in _children(value, path):
            yield from _leaves(inner, inner_path)
    else:
        yield path, value


def _prune(value: Any, path: str, gone: Gone) -> Any:
    """The value without the leaves that are gone; None where nothing is left. Earlier empty lines stay."""
    if not isinstance(value, dict | list):
        if gone(f"{path}: {_show_leaf(value)}"):
            return None
        return value
    kept = [
        (key, left)
        for key, inner_path, inner in _children(value, path)
        # A null of the document's own stays: None means "gone" only for leaves that were removed.
        if (left := _prune(inner, inner_path, gone)) is not None or inner is None
    ]
    if not kept and value:
        return None
    if isinstance(value, dict):
        return dict(kept)
    return [left for _, left in kept]


def _show_leaf(leaf: Any) -> str:
    if isinstance(leaf, str):
        return leaf
    return json.dumps(leaf, ensure_ascii=False)


def list_dropped(before: str, after: str, *, is_json: bool) -> list[str]:
    """List the lines of a document that a change of it took out, in their order. A line that was moved is still there."""
    # Counted, since a line may stand twice in a document and once after the change.
    there = Counter(list_lines(after, is_json=is_json))
    dropped = []
    for line in list_lines(before, is_json=is_json):
        if there[line]:
            there[line] -= 1
        else:
            dropped.append(line)
    return dropped


def parse_object(content: Any, where: str) -> StoredJson:
    """Check that a value is a JSON object, or a text that holds one."""
    found = content
    if isinstance(content, str):
        try:
            found = load_json(content, where)
        except ValueError as error:
            raise InvalidInput(f"{where}: this document is a JSON object, and that is no JSON ({error})") from None
    if not isinstance(found, dict):
        raise InvalidInput(f"{where}: this document is a JSON object; send one, not {describe(found)}")
    return found


def add_note(stored: str, note: str | StoredJson, rules: DocumentRules) -> str | StoredJson:
    """Append what the document lacks. Text that it has already changes nothing, and text that has all of it takes its
    place; text that has most of it is the document written anew, which an append would double. Raises InvalidInput."""
    if not isinstance(note, str):
        return append_content(stored, note, rules)
    there, given = list_lines(stored, is_json=False), list_lines(note, is_json=False)
    if any(there[at : at + len(given)] == given for at in range(len(there))):
        return stored
    lacking = list_dropped(stored, note, is_json=False)
    if not lacking:
        return note
    repeated = len(there) - len(lacking)
    # Labels of the form alone are repeated by every document, however much of it is new.
    if _holds_form(given, rules) or (repeated > 1 and 2 * repeated >= len(there)):
        raise InvalidInput(
            f"content: repeats {repeated} of the {len(there)} lines of this document, which it would have twice, and "
            "lacks the others; nothing was changed: send the whole document with mode='replace', or only what is new"
        )
    return append_content(stored, note, rules)


def _holds_form(lines: list[str], rules: DocumentRules) -> bool:
    """Whether lines are the form that the document is made of, filled in or not."""
    form = list_lines(rules.template, is_json=False)
    return bool(form) and all(any(line.startswith(label) for line in lines) for label in form)


def append_content(stored: str, more: str | StoredJson, _: DocumentRules) -> str | StoredJson:
    """Append text on a new line; merge JSON deeply. Raises InvalidInput."""
    if isinstance(more, str):
        # Without a blank line, which each append would add: a caller that wants one sends it.
        return stored.rstrip() + "\n" + more
    try:
        merged: StoredJson = merge_json(parse_object(stored, "stored"), more)
    except InvalidInput:
        raise InvalidInput(
            "mode='append': what is stored is no JSON object, since it was written under another format; nothing was "
            "changed: read it with get_working_memory and send the whole document with mode='replace'"
        ) from None
    return merged


class ChangedDocument(TypedDict):
    scope: Literal["thread", "resource"]
    thread_id: NotRequired[str]
    mode: Literal["replace", "append", "restore", "clear"]
    version: int
    bytes: int
    unchanged: NotRequired[bool]
    dropped_lines: NotRequired[int]
    dropped: NotRequired[Stored[list[str]]]
    undo: NotRequired[str]


class UpdatedDocument(ChangedDocument):
    masked: NotRequired[int]


class ClearedDocument(ChangedDocument):
    restorable_until: NotRequired[str]


class NewVersion(TypedDict):
    version: int
    bytes: int
    unchanged: NotRequired[bool]
    restorable_until: NotRequired[str]


class DroppedLines(TypedDict, total=False):
    dropped_lines: int
    was: int


class AnyDocumentChange(ChangedDocument):
    """The answer of any change."""

    restorable_until: NotRequired[str]
    masked: NotRequired[int]


class StoredDocumentChange(TypedDict):
    """The answer of a change, as a repeated request gets it: ``was`` is the version that has the dropped lines."""

    scope: Literal["thread", "resource"]
    thread_id: NotRequired[str]
    mode: Literal["replace", "append", "restore", "clear"]
    version: int
    bytes: int
    unchanged: NotRequired[bool]
    restorable_until: NotRequired[str]
    dropped_lines: NotRequired[int]
    was: NotRequired[int]
    undo: NotRequired[str]
    masked: NotRequired[int]


class VersionRow(TypedDict):
    version: int
    change: str
    changed_at: str
    changed_by: str
    tool: str


class ListedVersion(VersionRow):
    """A version in the list of all, with the act whose undo brings it back."""

    undo: NotRequired[str]


class NewerRow(TypedDict):
    """A sentence or a note that is newer than the document, and the line of the document that it denies."""

    said_at: str
    by: str
    text: str
    denies: NotRequired[str]


class DocumentAnswer(TypedDict):
    """A document with its rules and its versions; without any change it has version 0."""

    scope: Literal["thread", "resource"]
    thread_id: NotRequired[str]
    format: str
    content: Any
    newer: NotRequired[list[NewerRow]]
    version: int
    change: NotRequired[str]
    changed_at: NotRequired[str]
    changed_by: NotRequired[str]
    tool: NotRequired[str]
    template: NotRequired[str]
    schema: NotRequired[dict[str, Any]]
    versions: list[ListedVersion]
