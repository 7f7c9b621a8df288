"""Images: the newest stay, the others become a note."""

from collections.abc import Sequence

from layerlore.memory.parts import result_of, result_parts, text_part
from layerlore.memory.tokens import TokenCounter
from layerlore.memory.window.changing import with_parts
from layerlore.storage.records import Json, Message

URL_CHARS = 200


def image_note(image: Json) -> Json:
    """What stands in an image's place: a text part, with the beginning of its URL if it has one."""
    url = image.get("url")
    if not url:
        return text_part("[image left out]")
    return text_part(f"[image left out: {url if len(url) <= URL_CHARS else url[:URL_CHARS] + '…'}]")


def without_images(messages: Sequence[Message], most: int, counter: TokenCounter) -> list[Message]:
    """The messages with notes for all images but the newest ``most``; images in a tool's result count, too."""
    left = most
    kept: list[Message] = []
    for message in reversed(messages):
        if not any(map(_has_image, message.parts)):
            kept.append(message)
            continue
        parts, left = _noted(message.parts, left)
        kept.append(with_parts(message, parts, counter))
    return kept[::-1]


def _has_image(part: Json) -> bool:
    return part["type"] == "image" or any(inner["type"] == "image" for inner in result_parts(part.get("result")))


def _noted(parts: Sequence[Json], left: int) -> tuple[list[Json], int]:
    """The parts with notes for all images but the last ``left``, and how many may still stay before them."""
    noted: list[Json] = []
    for part in reversed(parts):
        if not _has_image(part):
            noted.append(part)
        elif part["type"] == "tool_result":
            inner, left = _noted(part["result"], left)
            noted.append(part if inner == part["result"] else {**part, "result": result_of(inner)})
        else:
            noted.append(part if left > 0 else image_note(part))
            left -= 1
    return noted[::-1], left
