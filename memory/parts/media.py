"""Images and files of a message as notes, and one at a time as they are."""

import binascii
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from layerlore.memory.parts.parts import MEDIA, result_parts
from layerlore.storage.core import linear_re
from layerlore.storage.core.records import Json, StoredJson

ANY_TYPE = "application/octet-stream"
# Base64 in a text, also in lines: long enough that it is never a word, a path or a key.
LEAST_BASE64 = 1000
_CODED = "[A-Za-z0-9+/_-]"
_BASE64 = linear_re.compile(
    rf"(?<!{_CODED}){_CODED}{{60,}}(?:\r?\n{_CODED}{{60,}})*"
    rf"(?:\r?\n{_CODED}{{1,76}}={{1,2}}|\r?\n(?:{_CODED}{{4}}){{5,}}|={{0,2}})(?!{_CODED})"
)
# Encoded bytes of that length have all three kinds. A run without one of them is a hex dump or a line of dashes.
_KINDS = tuple(linear_re.compile(kind) for kind in ("[A-Z]", "[a-z]", "[0-9]"))
# A multiple of four characters, which stand for whole bytes.
_PIECE = 128 * 1024


@dataclass(frozen=True, slots=True)
class Media:
    """One image or file: base64, its media type, and where it stands (``SEQ.PART`` or ``SEQ.PART.INNER``)."""

    place: str
    kind: str
    media_type: str
    data: str


def replace_media(parts: list[Json], seq: int) -> list[Json]:
    """Replace each image and file that is stored in base64 by a note: ``bytes``, ``sha256``, and the ``part`` to ask
    for."""
    return [_replace_part(part, f"{seq}.{index}") for index, part in enumerate(parts)]


def _replace_part(part: Json, place: str) -> StoredJson:
    if part["type"] in MEDIA:
        # Data that is not base64, as a tool may answer, cannot be read by its place: it is shown, as other text.
        if "data" in part:
            read = _measure(part["data"])
        else:
            read = None
        if read:
            return _note(part, place, *read)
        return part
    inner = result_parts(part.get("result"))
    if not any("data" in each for each in inner):
        return part
    return {**part, "result": [_replace_part(each, f"{place}.{index}") for index, each in enumerate(inner)]}


def replace_base64(value: Any) -> Any:
    """Replace base64 that stands in the texts of JSON, as tools answer with it in shapes of their own, by a note of its
    size. Signed or encrypted content of a provider stays, since it is sent back."""
    if isinstance(value, str):
        if len(value) >= LEAST_BASE64:
            return _BASE64.sub(_note_text, value)
        return value
    if isinstance(value, list):
        return [replace_base64(each) for each in value]
    if not isinstance(value, dict) or value.get("type") == "reasoning":
        return value
    return {key: replace_base64(each) for key, each in value.items()}


def _note_text(found: linear_re.Match) -> str:
    text = found[0]
    if len(text) < LEAST_BASE64 or not all(kind.search(text) for kind in _KINDS):
        return text
    # Four characters stand for three bytes; padding and line ends stand for none.
    length = len("".join(text.split()).rstrip("="))
    return f"[base64, {length * 3 // 4:,} bytes]"


def make_media_note(part: Json, place: str) -> StoredJson:
    """A note for an image or a file: its fields without the bytes, and their number, their SHA-256 and their place."""
    content = part["data"].encode()
    # A tool may answer with data that is not base64: then its text is measured.
    return _note(part, place, *(_measure(part["data"]) or (len(content), hashlib.sha256(content).hexdigest())))


def _note(part: Json, place: str, size: int, digest: str) -> StoredJson:
    rest = {name: value for name, value in part.items() if name != "data"}
    return {**rest, "bytes": size, "sha256": digest, "part": place}


def _measure(data: str) -> tuple[int, str] | None:
    """How many bytes base64 stands for, and their SHA-256; None if the text is not base64. In pieces, since others
    wait while one is decoded."""
    size, digest = 0, hashlib.sha256()
    try:
        for begin in range(0, len(data), _PIECE):
            # The lenient mode drops foreign characters, and would take any text for base64.
            content = binascii.a2b_base64(data[begin : begin + _PIECE], strict_mode=True)
            size += len(content)
            digest.update(content)
    except ValueError:
        return None
    return size, digest.hexdigest()


def list_media(parts: list[Json], seq: int) -> Iterator[tuple[str, Json]]:
    """The images and files that are stored here, by their places."""
    for index, part in enumerate(parts):
        inside: list[Any]
        if part["type"] in MEDIA:
            inside = [part]
        else:
            inside = result_parts(part.get("result"))
        for number, each in enumerate(inside):
            if "data" in each:
                yield f"{seq}.{index}" if each is part else f"{seq}.{index}.{number}", each


def find_media(parts: list[Json], seq: int, place: str) -> Media | None:
    """The image or file at a place, if there is one that can be decoded."""
    part = next((each for found, each in list_media(parts, seq) if found == place), None)
    if part is None:
        return None
    try:
        binascii.a2b_base64(part["data"], strict_mode=True)
    except ValueError:
        return None
    # A media type may carry parameters ("text/plain; charset=utf-8"), and only the type itself counts.
    stated = str(part.get("mime_type") or part.get("content_type") or "")
    media_type = stated.partition(";")[0].strip().lower()
    return Media(place, part["type"], media_type or ANY_TYPE, part["data"])
