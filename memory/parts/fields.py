"""The fields that parts are made of, each read from what a caller sent and checked where it stands."""

import base64
from typing import Any, NamedTuple
from urllib.parse import unquote, unquote_to_bytes

from layerlore.memory.rules.limits import Limits
from layerlore.memory.rules.validation import check_id, check_json, check_text, describe, load_json
from layerlore.storage.core import linear_re
from layerlore.storage.core.errors import InvalidInput
from layerlore.storage.core.records import StoredJson

UNREAD_ARGUMENTS = "_raw"
"""The only key of a tool call's arguments that are text and not a JSON object: {"_raw": the text}."""

_INT64_MAX = 2**63 - 1
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
    return "" if value is None else check_text(value, where)


def read_optional_text(value: Any, where: str) -> str | None:
    """Text, or None for null and for the empty text."""
    return (check_text(value, where) or None) if value is not None else None


def read_flag(value: Any, where: str) -> bool:
    """A boolean; null is false."""
    if value is None or isinstance(value, bool):
        return bool(value)
    raise InvalidInput(f"{where}: must be true or false, not {describe(value)}")


def read_size(value: Any, where: str) -> int | None:
    """A number of bytes."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _INT64_MAX:
        what = "one outside that range" if type(value) is int else describe(value)
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

    It is no key of ours, and some routers hang kilobytes of the provider's state on it, so only the limit of the
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
        arguments = read if isinstance(read, dict) else {UNREAD_ARGUMENTS: value}
    else:
        arguments = read_object(value, where)
    check_json(arguments, where, depth=limits.json_depth)
    return arguments


def read_base64(value: Any, where: str) -> str | None:
    """Base64 (RFC 4648 section 4, padded) without its line breaks, or None for null and for the empty text."""
    text = read_optional_text(value, where)
    if text is None:
        return None
    packed = "".join(text.split())
    if packed and (len(packed) % 4 or not _BASE64.fullmatch(packed)):
        raise InvalidInput(
            f"{where}: is not base64; allowed are A-Z, a-z, 0-9, + and /, in groups of four, the last padded with ="
        )
    return packed or None


def read_url(value: Any, where: str) -> MediaSource:
    """A URL, which is never fetched; one that holds the bytes itself (data:, RFC 2397) is taken apart."""
    url = read_optional_text(value, where)
    if url is None or url[:5].lower() != "data:":
        return MediaSource(url=url)
    header, comma, body = url[5:].partition(",")
    if not comma:
        raise InvalidInput(f"{where}: a data: URL must look like 'data:image/png;base64,...'; it has no comma")
    if header.lower().endswith(";base64"):
        content_type, encoded = header[: -len(";base64")], read_base64(unquote(body), where)
    else:
        content_type, encoded = header, base64.b64encode(unquote_to_bytes(body)).decode("ascii")
    if not encoded:
        raise InvalidInput(f"{where}: a data: URL must hold at least one byte")
    return MediaSource(encoded=encoded, content_type=content_type or None)
