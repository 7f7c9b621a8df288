"""Parts of messages as providers take them: what an image or a file is, the note for one they would refuse, and tool
answers as texts."""

import binascii
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from layerlore.memory.parts.fields import UNREAD_ARGUMENTS
from layerlore.memory.parts.parts import result_parts, says_something, text_part
from layerlore.memory.rules.validation import load_json
from layerlore.memory.text.quotation import quote_line
from layerlore.storage.core.errors import LimitExceeded
from layerlore.storage.core.records import Json

ProviderJson = dict[str, Any]
"""A message of a provider's API, or a part of one: that API names the keys."""

_IMAGE_STARTS = ((b"\x89PNG", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))
_IMAGE_TYPES = {
    "image/jpg": "image/jpeg",
    **{kind: kind for kind in ("image/png", "image/jpeg", "image/gif", "image/webp")},
}
_AUDIO_FORMATS = {
    **dict.fromkeys(("audio/wav", "audio/wave", "audio/x-wav", "audio/vnd.wave"), "wav"),
    **dict.fromkeys(("audio/mpeg", "audio/mp3"), "mp3"),
}
PDF = "application/pdf"
BEGAN_EARLIER = "[the conversation began earlier]"
"""Where a provider wants a user to speak first."""

# A name or a URL is cut to this in a note.
_NOTE_CHARS = 200
_FILE_ID = "file-"
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def put_in_front(text: str, content: str | list[Json], make: Callable[[str], Json] = text_part) -> str | list[Json]:
    """A message's content with a text before it; ``make`` makes a block of the text where the content is blocks."""
    return f"{text}\n\n{content}" if isinstance(content, str) else [make(text), *content]


def find_image_type(part: Json) -> str | None:
    """The type of an image in base64, if it is one of the four that OpenAI and Anthropic take.

    What its first bytes say comes before what the part says: both refuse an image whose type is stated wrongly.
    """
    start = _first_bytes(part)
    if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        return "image/webp"
    found = next((kind for magic, kind in _IMAGE_STARTS if start.startswith(magic)), None)
    return found or _IMAGE_TYPES.get(_stated(part, "mime_type"))


def is_pdf(part: Json) -> bool:
    """Whether a file is a PDF, by its first bytes, its type, its name or its URL."""
    stated = _stated(part, "content_type")
    if stated:
        return stated == PDF
    if "data" in part:
        return _first_bytes(part).startswith(b"%PDF-")
    return any(name.lower().endswith(".pdf") for name in (part.get("file_name", ""), _path(part.get("url", ""))))


def find_audio_format(part: Json) -> str | None:
    """The name that OpenAI has for the format of a sound in base64: wav or mp3, else None."""
    return _AUDIO_FORMATS.get(_stated(part, "content_type")) if "data" in part else None


def find_openai_file(part: Json) -> str | None:
    """The id under which OpenAI keeps a file: with another's it would refuse the request."""
    file_id = part.get("metadata", {}).get("file_id")
    return file_id if isinstance(file_id, str) and file_id.startswith(_FILE_ID) else None


def make_image_url(part: Json) -> str | None:
    """The URL of an image as OpenAI takes it: on the web, or with the image itself in it."""
    if "data" in part:
        kind = find_image_type(part)
        return f"data:{kind};base64,{part['data']}" if kind else None
    given = str(part.get("url", ""))
    return given if given.lower().startswith(("https://", "http://")) else None


def is_base64(part: Json) -> bool:
    """Whether the `data` of an image or a file can be decoded: inside a tool's result nobody checked it."""
    try:
        return bool(binascii.a2b_base64(part["data"], strict_mode=True))
    except ValueError:
        return False


def describe_media(part: Json) -> str:
    """An image or a file as a line of text: what kind of thing it is, and its name or its URL."""
    named = quote_line(part.get("file_name") or part.get("url", ""))
    shown = named if len(named) <= _NOTE_CHARS else f"{named[:_NOTE_CHARS]}…"
    details = [shown] if shown else []
    if "part" in part:
        details += [quote_line(_stated(part, "mime_type") or _stated(part, "content_type"))[:_NOTE_CHARS]]
        details += [f"{part['bytes']:,} bytes, sha256 {part['sha256']}"] if "sha256" in part else []
        details += [f"get_messages(part='{part['part']}') gives it"]
    return f"[{part['type']}: {', '.join(filter(None, details))}]" if details else f"[{part['type']}]"


def _stated(part: Json, key: str) -> str:
    return str(part.get(key, "")).partition(";")[0].strip().lower()


def _first_bytes(part: Json) -> bytes:
    try:
        # The encoded length is a multiple of four, so a slice of 16 characters is whole groups.
        return binascii.a2b_base64(part.get("data", "")[:16])
    except ValueError:
        return b""


def _path(url: str) -> str:
    try:
        return urlsplit(url).path
    except ValueError:
        return ""


def tag_system(text: str) -> str:
    """What a system said in the middle of a conversation, as a text among a user's: some providers have one place for
    systems, at the beginning."""
    return f"<system-message>\n{text}\n</system-message>"


def list_answer_texts(part: Json) -> list[str]:
    """The texts of a tool result, JSON compactly and a note for each image and file.

    A failure says so itself: "Error: " stands in front, if the tool did not say it already.
    """
    result = part["result"]
    inner = result_parts(result)
    if inner:
        texts = [
            entry["text"] if entry["type"] == "text" else describe_media(entry)
            for entry in filter(says_something, inner)
        ]
    else:
        texts = [result if isinstance(result, str) else dump_compact(result)]
    return _mark_error(texts) if part.get("is_error") else texts


def _mark_error(texts: list[str]) -> list[str]:
    if not texts or not texts[0].strip():
        return ["Error", *texts[1:]]
    said_already = texts[0].lstrip()[:5].lower() == "error"
    return texts if said_already else [f"Error: {texts[0]}", *texts[1:]]


def render_arguments(arguments: Json) -> str:
    """Render arguments as JSON text; those that came as a text which is no JSON object, as that text."""
    unread = arguments.get(UNREAD_ARGUMENTS)
    as_it_came = len(arguments) == 1 and isinstance(unread, str) and unread != "" and not _is_object(unread)
    return str(unread) if as_it_came else dump_compact(arguments)


def _is_object(text: str) -> bool:
    try:
        return isinstance(load_json(text, "arguments"), dict)
    except ValueError:
        return False
    except LimitExceeded:
        return True


def dump_compact(value: Any) -> str:
    """JSON text without spaces, its characters as they are."""
    return _ENCODER.encode(value)
