"""Images and files of a message as notes, and one at a time as they are."""

import binascii
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from layerlore.memory.parts import MEDIA, result_parts
from layerlore.storage.records import Json

ANY_TYPE = "application/octet-stream"
# A multiple of four characters, which stand for whole bytes.
_PIECE = 128 * 1024


@dataclass(frozen=True, slots=True)
class Media:
    """One image or file: base64, its media type, and where it stands (``SEQ.PART`` or ``SEQ.PART.INNER``)."""

    place: str
    kind: str
    media_type: str
    data: str


def noted(parts: list[Json], seq: int) -> list[Json]:
    """The parts with a note for each image and file that is stored here in base64: ``bytes``, ``sha256``, and the ``part``
    to ask for."""
    return [_noted(part, f"{seq}.{index}") for index, part in enumerate(parts)]


def _noted(part: Json, place: str) -> Json:
    if part["type"] in MEDIA:
        # What is no base64, as a tool may have answered, cannot be asked for by its place: it is shown, as other text.
        read = _measured(part["data"]) if "data" in part else None
        return _note(part, place, *read) if read else part
    inner = result_parts(part.get("result"))
    if not any("data" in each for each in inner):
        return part
    return {**part, "result": [_noted(each, f"{place}.{index}") for index, each in enumerate(inner)]}


def note(part: Json, place: str) -> Json:
    """An image or a file without its bytes: how many those are, their hash, and where they stand."""
    content = part["data"].encode()
    return _note(part, place, *(_measured(part["data"]) or (len(content), hashlib.sha256(content).hexdigest())))


def _note(part: Json, place: str, size: int, digest: str) -> Json:
    rest = {name: value for name, value in part.items() if name != "data"}
    return {**rest, "bytes": size, "sha256": digest, "part": place}


def _measured(data: str) -> tuple[int, str] | None:
    """How many bytes base64 stands for, and their SHA-256; None if it is none. In pieces, since others wait while one is
    decoded."""
    size, digest = 0, hashlib.sha256()
    try:
        for begin in range(0, len(data), _PIECE):
            content = binascii.a2b_base64(data[begin : begin + _PIECE], strict_mode=True)
            size += len(content)
            digest.update(content)
    except ValueError:
        return None
    return size, digest.hexdigest()


def media_in(parts: list[Json], seq: int) -> Iterator[tuple[str, Json]]:
    """The images and files that are stored here, by their places."""
    for index, part in enumerate(parts):
        inside: list[Any] = [part] if part["type"] in MEDIA else result_parts(part.get("result"))
        for number, each in enumerate(inside):
            if "data" in each:
                yield f"{seq}.{index}" if each is part else f"{seq}.{index}.{number}", each


def media_at(parts: list[Json], seq: int, place: str) -> Media | None:
    """The image or file at a place, if there is one that can be decoded."""
    part = next((each for found, each in media_in(parts, seq) if found == place), None)
    if part is None:
        return None
    try:
        binascii.a2b_base64(part["data"], strict_mode=True)
    except ValueError:
        return None
    named = str(part.get("mime_type") or part.get("content_type") or "").partition(";")[0].strip().lower()
    return Media(place, part["type"], named or ANY_TYPE, part["data"])
