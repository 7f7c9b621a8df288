"""The content of another program's file: conversations, and notes."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from layerlore.memory.parts.parts import text_part
from layerlore.memory.rules.ages import parse_expiry
from layerlore.memory.rules.validation import parse_time
from layerlore.storage.core.errors import InvalidInput
from layerlore.storage.core.records import Json

IMAGE = "[image]"
"""Stands for an image, which the exports hold in files of their own, if at all."""


@dataclass(frozen=True, slots=True)
class ForeignConversation:
    """Messages in the shape that add_messages takes, each with an id that is the same whenever the file is read. They may
    be given in several pieces. ``resource``: their speaker, if the file names several people."""

    thread_id: str
    title: str
    messages: list[Json]
    metadata: Json = field(default_factory=dict)
    resource: str = ""


@dataclass(frozen=True, slots=True)
class ForeignNote:
    """Something to remember on its own. ``about`` begins each piece of a text that is too long for one entry; ``at`` is in
    milliseconds, and so is ``expires_at``."""

    text: str
    at: int
    about: str = ""
    resource: str = ""
    expires_at: int | None = None


@dataclass(frozen=True, slots=True)
class Unread:
    """Something that cannot be read."""

    where: str
    why: str


Foreign = Iterator[ForeignConversation | ForeignNote | Unread]


def find_files(path: Path, pattern: str) -> Iterator[Path | Unread]:
    """The path itself if it is a file; else the files below it that match, in order. A link in a folder is not followed,
    since it may lead out of the folder."""
    if path.is_file():
        yield path
        return
    for found in sorted(path.rglob(pattern)):
        if found.is_symlink():
            yield Unread(str(found), "it is a link; import the file that it leads to by its own name")
        else:
            yield found


def clean(value: Any) -> Any:
    """A JSON value with what no database stores taken out of its texts."""
    if isinstance(value, str):
        return value.replace("\0", "").encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [clean(each) for each in value]
    if isinstance(value, dict):
        return {clean(key): clean(each) for key, each in value.items()}
    return value


def as_object(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def as_text(value: Any) -> str:
    return clean(value).strip() if isinstance(value, str) else ""


def read_ms(value: Any) -> int | None:
    """A time as milliseconds: from ISO 8601, or from seconds or milliseconds since 1970. None for anything else."""
    try:
        return parse_time(value, "time")
    except InvalidInput:
        return None


def read_expiry(value: Any) -> int | None:
    """When something expires, in milliseconds: a date alone counts whole. None for anything else."""
    try:
        return parse_expiry(value, "time") if isinstance(value, str) else read_ms(value)
    except InvalidInput:
        return None


def say(id_: str, role: str, texts: list[str], at: int | None, **more: Any) -> list[Json]:
    """A message of texts; none if they are empty."""
    parts = [text_part(text) for text in texts if text]
    return [{"id": id_, "role": role, "parts": parts, "created_at": at, **more}] if parts else []
