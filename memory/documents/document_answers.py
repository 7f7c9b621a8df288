"""Working memory as answers show it. This module imports nothing heavy: the list of tools needs it."""

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from layerlore.memory.rules.answer_keys import Stored


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


class DocumentAnswer(TypedDict):
    """A document with its rules and its versions; without any change it has version 0."""

    scope: Literal["thread", "resource"]
    thread_id: NotRequired[str]
    format: str
    content: Any
    version: int
    change: NotRequired[str]
    changed_at: NotRequired[str]
    changed_by: NotRequired[str]
    tool: NotRequired[str]
    template: NotRequired[str]
    schema: NotRequired[dict[str, Any]]
    versions: list[ListedVersion]
