"""The images and files of a context: the newest as they are, as many as an answer has room for, the others as notes."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from layerlore.memory.media import media_in, note
from layerlore.memory.parts import MEDIA, media_bytes
from layerlore.memory.reading import READ_BYTES
from layerlore.storage import windows
from layerlore.storage.light_parts import place_of
from layerlore.storage.records import Json, Message, Scope, Thread
from layerlore.storage.transaction import Tx


async def filled(tx: Tx, scope: Scope, thread: Thread, window: Sequence[Message], most: int) -> tuple[Message, ...]:
    """The messages with their images and files, or notes in their place. ``most`` is bytes of base64."""
    seqs = [message.seq for message in window if any(_places(message.parts))]
    if not seqs:
        return tuple(window)
    asked = {place for message in window for place in _places(message.parts)}
    found: dict[str, Json] = {}
    left, to_read = most, READ_BYTES

    def take(message: Message) -> bool:
        nonlocal left, to_read
        for place, part in reversed([*media_in(message.parts, message.seq)]):
            if place not in asked:
                continue
            fits = len(part["data"]) <= left
            left -= len(part["data"]) if fits else 0
            found[place] = part if fits else note(part, place)
        to_read -= sum(map(media_bytes, message.parts))
        return to_read > 0

    await windows.whole(tx, scope, thread, seqs, take)
    return tuple(
        replace(message, parts=[_part(part, found) for part in message.parts]) if message.seq in seqs else message
        for message in window
    )


def _places(parts: Sequence[Any]) -> list[str]:
    """Where the images and files stood that were left out."""
    inside = [each for part in parts for each in _inner(part)]
    return [place for each in inside if (place := place_of(each))]


def _inner(part: Json) -> list[Json]:
    if part["type"] in MEDIA:
        return [part]
    result = part.get("result")
    entries = result if part["type"] == "tool_result" and isinstance(result, list) else []
    return [each for each in entries if isinstance(each, dict) and each.get("type") in MEDIA]


def _part(part: Json, found: dict[str, Json]) -> Json:
    if part["type"] in MEDIA:
        return _media(part, found)
    if not _inner(part):
        return part
    inner = [_media(each, found) if each in _inner(part) else each for each in part["result"]]
    return {**part, "result": inner}


def _media(part: Json, found: dict[str, Json]) -> Json:
    place = place_of(part)
    if not place:
        return part
    # What was not read any more has no size in its note.
    rest = {name: value for name, value in part.items() if name != "data"}
    return found.get(place, {**rest, "part": place})
