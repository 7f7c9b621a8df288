"""The parts of a message in their canonical form, and what can be read from them.

    {"type": "text", "text"}
    {"type": "reasoning", "id"?, "text", "signature"?, "data"?, "provider"?}
    {"type": "image", "url"? or "data"?, "mime_type"?, "caption"?}
    {"type": "file", "url"?, "data"?, "file_name"?, "file_size"?, "content_type"?, "metadata"?}
    {"type": "tool_call", "id", "name", "arguments"}
    {"type": "tool_result", "tool_call_id", "name"?, "result", "model_output"?, "is_error"?}
    {"type": "custom", "data"}

`data` is base64, but in reasoning: there it is the provider's encrypted text (`text` is then empty), and `signature` is
what the provider wants back with the text; `provider` says whose these are (openai, google; without it Anthropic's), and
`id` is OpenAI's for it. An image has a `url` or `data`, and a `caption` in words if there is one; a caption alone describes
an image that is not stored. `file_size` is bytes. `result` is any JSON; if a tool answered with more than one text, it is a
list of text, image and file parts. `model_output` is what models are shown in its place (any JSON, without base64; seed
002's toModelOutput). `custom` is all of a message of the role custom: any JSON, of a user interface. Keys without a value
are left out and the order of keys is the one above, so that equal parts give equal JSON.
"""

import base64
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple
from urllib.parse import unquote, unquote_to_bytes

from layerlore.memory.rules.validation import (
    MOST_INTEGER,
    Limits,
    check_id,
    check_json,
    check_text,
    count_json_bytes,
    describe,
    load_json,
)
from layerlore.storage.core import linear_re
from layerlore.storage.core.errors import InvalidInput
from layerlore.storage.core.records import Json, StoredJson

UNREAD_ARGUMENTS = "_raw"
"""The only key of a tool call's arguments that are text and not a JSON object: {"_raw": the text}."""

_BASE64 = linear_re.compile(r"[A-Za-z0-9+/]+={0,2}")


class MediaSource(NamedTuple):
    """Where an image's or a file's bytes are: at `url`, or here as base64 (`encoded`)."""

    url: str | None = None
    encoded: str | None = None
    content_type: str | None = None


def read_text(value: Any, where: str) -> str:
    """Text, the empty one too. Raises InvalidInput for anything else, null included."""
    return check_text(value, where)


def read_written(value: Any, where: str) -> str:
    """The text of a block; the empty one for null, which some programs send in its place."""
    if value is None:
        return ""
    return check_text(value, where)


def read_optional_text(value: Any, where: str) -> str | None:
    """Text, or None for null and for the empty text."""
    if value is not None:
        return check_text(value, where) or None
    return None


def read_flag(value: Any, where: str) -> bool:
    """A boolean; null is false."""
    if value is None or isinstance(value, bool):
        return bool(value)
    raise InvalidInput(f"{where}: must be true or false, not {describe(value)}")


def read_size(value: Any, where: str) -> int | None:
    """A number of bytes."""
    if value is None:
        return None
    # A bool is an int in Python, and true is not a number of bytes.
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_INTEGER:
        if type(value) is int:
            what = "one outside that range"
        else:
            what = describe(value)
        raise InvalidInput(f"{where}: must be a whole number of bytes, 0 to 2^63 - 1, not {what}")
    return value


def read_object(value: Any, where: str) -> StoredJson:
    """A JSON object, its contents not yet checked."""
    if not isinstance(value, dict):
        raise InvalidInput(f"{where}: must be a JSON object, not {describe(value)}")
    return value


def read_list(value: Any, where: str) -> list[Any]:
    """A list, its contents not yet checked; null is the empty one."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise InvalidInput(f"{where}: must be a list, not {describe(value)}")
    return value


def read_tool_name(value: Any, where: str, limits: Limits) -> str:
    return check_id(value, where, limits.name_chars)


def read_call_id(value: Any, where: str, limits: Limits) -> str:
    """The id that ties a tool's result to its call.

    It is not a key of ours, and some routers hang kilobytes of the provider's state on it, so only the limit of the
    message's text holds for it.
    """
    return check_id(value, where, limits.message_text_bytes)


def read_arguments(value: Any, where: str, limits: Limits) -> StoredJson:
    """A tool call's arguments: a JSON object, or its JSON text.

    Models write broken JSON, and it must not be lost: text that is not a JSON object becomes {"_raw": text}. The empty
    text and null mean no arguments.
    """
    if value is None or value == "":
        return {}
    if isinstance(value, str):
        check_text(value, where)
        try:
            read = load_json(value, where)
        except ValueError:
            read = None
        if isinstance(read, dict):
            arguments = read
        else:
            arguments = {UNREAD_ARGUMENTS: value}
    else:
        arguments = read_object(value, where)
    # Arguments parsed from a text keep the same limit of depth as those sent as an object.
    check_json(arguments, where, depth=limits.json_depth)
    return arguments


def read_base64(value: Any, where: str) -> str | None:
    """Base64 (RFC 4648 section 4, padded) without its line breaks, or None for null and for the empty text."""
    text = read_optional_text(value, where)
    if text is None:
        return None
    # Some programs break base64 into lines. The stored form has none, so that equal bytes give equal JSON.
    packed = "".join(text.split())
    if packed and (len(packed) % 4 or not _BASE64.fullmatch(packed)):
        raise InvalidInput(
            f"{where}: is not base64; allowed are A-Z, a-z, 0-9, + and /, in groups of four, the last padded with ="
        )
    return packed or None


def read_url(value: Any, where: str) -> MediaSource:
    """A URL, which is never fetched; one that holds the bytes itself (data:, RFC 2397) is split."""
    url = read_optional_text(value, where)
    if url is None or url[:5].lower() != "data:":
        return MediaSource(url=url)
    header, comma, body = url[5:].partition(",")
    if not comma:
        raise InvalidInput(f"{where}: a data: URL must look like 'data:image/png;base64,...'; it has no comma")
    if header.lower().endswith(";base64"):
        # The body is percent-encoded like the rest of a URL, so + and / may arrive as %2B and %2F.
        content_type, encoded = header[: -len(";base64")], read_base64(unquote(body), where)
    else:
        content_type, encoded = header, base64.b64encode(unquote_to_bytes(body)).decode("ascii")
    if not encoded:
        raise InvalidInput(f"{where}: a data: URL must hold at least one byte")
    return MediaSource(encoded=encoded, content_type=content_type or None)


PART_KEYS: dict[str, tuple[str, ...]] = {
    "text": ("type", "text"),
    "reasoning": ("type", "id", "text", "signature", "data", "provider"),
    "image": ("type", "url", "data", "mime_type", "caption"),
    "file": ("type", "url", "data", "file_name", "file_size", "content_type", "metadata"),
    "tool_call": ("type", "id", "name", "arguments"),
    "tool_result": ("type", "tool_call_id", "name", "result", "model_output", "is_error"),
    "custom": ("type", "data"),
}
MEDIA = ("image", "file")
RESULT_PARTS = ("text", "image", "file")
"""The parts that a tool's result may hold besides plain JSON."""

NOTE_KEYS = ("bytes", "sha256", "part")
"""The keys that a note of an image or a file has instead of its data: see ``memory.parts.media``."""

# The ``part`` of a note, as memory.parts.media writes it: SEQ.PART or SEQ.PART.INNER.
_PLACE = linear_re.compile(r"[0-9]+\.[0-9]+(\.[0-9]+)?")
# A string of 256 or more such characters is encoded data, and of no use to a search by words.
_ENCODED = linear_re.compile(r"[A-Za-z0-9+/_=-]{256,}")


def text_part(text: str) -> StoredJson:
    return {"type": "text", "text": text}


def reasoning_part(
    text: str,
    signature: str | None = None,
    encrypted: str | None = None,
    *,
    item_id: str | None = None,
    provider: str | None = None,
) -> StoredJson:
    secret = _without_none(signature=signature, data=encrypted, provider=provider)
    return {"type": "reasoning", **_without_none(id=item_id), "text": text, **secret}


def image_part(source: MediaSource, where: str, caption: str | None = None) -> StoredJson:
    """Raises InvalidInput for an image that is both at a URL and in base64, and for one without either or a caption."""
    if source.url is not None and source.encoded is not None:
        raise InvalidInput(f"{where}: an image needs a URL or base64 data, and not both")
    if source.url is None and source.encoded is None and caption is None:
        raise InvalidInput(f"{where}: an image needs a URL or base64 data, or a caption that describes it")
    given = _without_none(url=source.url, data=source.encoded, mime_type=source.content_type, caption=caption)
    return {"type": "image", **given}


def file_part(
    source: MediaSource, where: str, *, name: str | None = None, size: int | None = None, metadata: Json | None = None
) -> StoredJson:
    """Raises InvalidInput if nothing says which file it is."""
    if not (source.url or source.encoded or name or metadata):
        raise InvalidInput(f"{where}: a file needs at least one of: url, data, file_name, metadata")
    given = _without_none(
        url=source.url, data=source.encoded, file_name=name, file_size=size, content_type=source.content_type
    )
    return {"type": "file", **given, **({"metadata": metadata} if metadata else {})}


def tool_call_part(call_id: str, name: str, arguments: Json) -> StoredJson:
    return {"type": "tool_call", "id": call_id, "name": name, "arguments": arguments}


def tool_result_part(call_id: str, name: str | None, result: Any, *, is_error: bool = False) -> StoredJson:
    if is_error:
        flag = {"is_error": True}
    else:
        flag = {}
    return {"type": "tool_result", "tool_call_id": call_id, **_without_none(name=name), "result": result, **flag}


def custom_part(data: Any) -> StoredJson:
    return {"type": "custom", "data": data}


def with_model_output(part: Json, shown: Any, where: str) -> StoredJson:
    """A tool result with what models are shown of it. Raises InvalidInput for base64 in that."""
    # Limits and notes of media cover only ``result``: base64 here would be counted and shown as text.
    if any(map(media_bytes, result_parts(shown))):
        raise InvalidInput(f"{where}: what models are shown of a result holds no base64; give its images by URL")
    if part.get("is_error"):
        flag = {"is_error": True}
    else:
        flag = {}
    # The order of keys is part of the stored form, so is_error goes behind model_output.
    rest = {key: value for key, value in part.items() if key != "is_error"}
    return {**rest, "model_output": shown, **flag}


def _without_none(**values: Any) -> StoredJson:
    return {key: value for key, value in values.items() if value is not None}


def says_something(part: Json) -> bool:
    """False for text and reasoning without a character: what a provider sends where it has nothing to say."""
    return part["type"] not in ("text", "reasoning") or any(
        part.get(key) for key in ("text", "signature", "data", "id")
    )


def join_result(parts: list[Json]) -> Any:
    """The `result` of a tool that answered with these parts: its text if that is all there is, else the parts."""
    said = [part for part in parts if says_something(part)]
    if not said:
        return ""
    if len(said) == 1 and said[0]["type"] == "text":
        return said[0]["text"]
    return said


def result_parts(result: Any) -> list[Json]:
    """The parts that a tool's result is made of; none if it is other JSON."""
    if isinstance(result, list) and all(_is_result_part(entry) for entry in result):
        return result
    return []


def _is_result_part(entry: Any) -> bool:
    # Other JSON may have a "type" as well. It stays JSON unless every key is one of ours.
    if (
        not isinstance(entry, dict)
        or entry.get("type") not in RESULT_PARTS
        or not entry.keys() <= {*PART_KEYS[entry["type"]], *(NOTE_KEYS if _is_note(entry) else ())}
    ):
        return False
    strings = ("text", "url", "data", "mime_type", "caption", "file_name", "content_type")
    if not all(isinstance(entry[key], str) for key in strings if key in entry):
        return False
    return {
        "text": "text" in entry,
        "image": "url" in entry or "data" in entry or "caption" in entry or _is_note(entry),
        "file": len(entry) > 1,
    }[entry["type"]]


def _is_note(entry: Json) -> bool:
    return isinstance(entry.get("part"), str) and _PLACE.fullmatch(entry["part"]) is not None


def is_picture(part: Json) -> bool:
    """Whether a part is an image that is stored or at a URL, or a note of one, and not a caption alone."""
    return part["type"] == "image" and not part.keys().isdisjoint(("url", "data", "part"))


def caption_line(caption: str) -> str:
    """How a caption stands in a text."""
    return f"[image: {caption}]"


def media_bytes(part: Json) -> int:
    """The base64 in an image, a file, or a tool's result, in bytes as stored."""
    if part["type"] in MEDIA:
        return len(part.get("data", ""))
    return sum(media_bytes(inner) for inner in result_parts(part.get("result")))


def part_text_bytes(part: Json) -> int:
    """All of a part but its base64, in bytes of UTF-8: strings as they are, everything else as compact JSON."""
    # Base64 has a limit of its own (message_media_bytes), so it does not count as text.
    own_media = ("data",) if part["type"] in MEDIA else ()
    fields = (value for key, value in part.items() if key != "type" and key not in own_media)
    size = sum(len(value.encode()) if isinstance(value, str) else count_json_bytes(value) for value in fields)
    if part["type"] in MEDIA:
        return size
    return size - media_bytes(part)


def part_texts(part: Json) -> Iterator[str]:
    """The text of this part that a model reads, for counting tokens: no base64, no signatures, no ids.

    Images and files that are only base64 or a URL yield nothing: what they cost is not in their text.
    """
    match part["type"]:
        case "text" | "reasoning":
            yield part["text"]
        case "image":
            if "caption" in part:
                yield caption_line(part["caption"])
        case "file":
            if "file_name" in part:
                yield part["file_name"]
        case "tool_call":
            yield part["name"]
            yield _compact(part["arguments"])
        case "tool_result":
            result = part["result"]
            inner = result_parts(result)
            for nested in inner:
                yield from part_texts(nested)
            if not inner:
                yield result if isinstance(result, str) else _compact(result)


def searchable_text(parts: Iterable[Json]) -> str:
    """The texts by which a search should find a message, a line each: texts, captions of images, file names, the names
    and argument strings of tool calls, the texts of tool results. No reasoning, no base64, no keys."""
    return "\n".join(text for part in parts for text in _list_searchable(part) if text)


def _list_searchable(part: Json) -> Iterator[str]:
    match part["type"]:
        case "text":
            yield part["text"]
        case "image":
            yield part.get("caption", "")
        case "file":
            yield part.get("file_name", "")
        case "tool_call":
            yield part["name"]
            yield from _strings(part["arguments"])
        case "tool_result":
            result = part["result"]
            inner = result_parts(result)
            for nested in inner:
                yield from _list_searchable(nested)
            if not inner:
                yield from _strings(result)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        if not _ENCODED.fullmatch(value):
            yield value
    elif isinstance(value, list | dict):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _strings(inner)


def plain_text(parts: Iterable[Json], quote: Callable[[str], str] = str) -> str:
    """A message for people to read: its texts, and a placeholder in brackets for everything else, with the size of what
    is a note. ``quote`` is applied to each text from outside (``quotation.quote_text`` where a model reads it)."""
    return "\n".join(_render_part(part, quote) for part in parts)


def _render_part(part: Json, quote: Callable[[str], str]) -> str:
    match part["type"]:
        case "text":
            return quote(str(part["text"]))
        case "image" if "caption" in part:
            return caption_line(f"{quote(part['caption'])}{_size(part)}")
        case "file":
            name = part.get("file_name") or part.get("url")
            if name:
                return f"[file: {quote(name)}{_size(part)}]"
            return f"[file{_size(part)}]"
        case "tool_call":
            return f"[tool call {quote(part['name'])}({quote(_compact(part['arguments']))})]"
        case "tool_result":
            # The tool made this shorter form for models. The whole result may be far longer.
            result = part["model_output"] if "model_output" in part else part["result"]
            inner = result_parts(result)
            text = plain_text(inner, quote) if inner else quote(result if isinstance(result, str) else _compact(result))
            title = "tool error" if part.get("is_error") else "tool result"
            if "name" in part:
                return f"[{title} {quote(part['name'])}: {text}]"
            return f"[{title}: {text}]"
        case "custom":
            return f"[custom: {quote(_compact(part['data']))}]"
        case kind:
            return f"[{kind}{_size(part)}]"


def _size(part: Json) -> str:
    """How large an image or a file is, where a note stands for it."""
    size = part.get("bytes")
    if isinstance(size, int):
        return f", {size:,} bytes"
    return ""


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
