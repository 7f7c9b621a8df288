"""The parts of a message as they are stored, read quickly though images and files are large, or without their bytes.

In a light message stands, in place of the base64, where it is: ``@SEQ.PART``, or ``@SEQ.PART.INNER`` inside a tool's
result. Base64 has no character that JSON escapes, so it is cut out of the text before that is parsed.
"""

import json
from typing import Any

from layerlore.storage.core.records import Json, StoredJson

MEDIA = ("image", "file")

_KEY = '"data":"'
_LONG = 4096
# No stored text has it.
_MARK = "\x00"


def loads(text: str) -> list[Json]:
    """All of the parts."""
    cut, pieces = _without_long(text)
    parts: list[Json] = json.loads(cut)
    filled = 0
    for each in _media_in(parts):
        if isinstance(each.get("data"), str) and each["data"].startswith(_MARK):
            each["data"] = pieces[int(each["data"][1:])]
            filled += 1
    # Elsewhere, what is called data may be anybody's.
    return parts if filled == len(pieces) else json.loads(text)


def loads_light(text: str) -> list[Json]:
    """The parts, with something else where there was base64: for ``without_data``."""
    cut, pieces = _without_long(text)
    parts: list[Json] = json.loads(cut)
    if not pieces:
        return parts
    marked = sum(str(each.get("data", "")).startswith(_MARK) for each in _media_in(parts))
    return parts if marked == len(pieces) else json.loads(text)


def _without_long(text: str) -> tuple[str, list[str]]:
    """The text with a mark and a number for each long value of a key ``data``, and these."""
    kept: list[str] = []
    pieces: list[str] = []
    done = 0
    at = text.find(_KEY) if len(text) > _LONG else -1
    while at >= 0:
        begin = at + len(_KEY)
        end = text.find('"', begin)
        if end - begin > _LONG and text.find("\\", begin, end) < 0:
            kept.append(f"{text[done:begin]}\\u0000{len(pieces)}")
            pieces.append(text[begin:end])
            done = end
        at = text.find(_KEY, end)
    return "".join([*kept, text[done:]]), pieces


def _media_in(parts: list[Json]) -> list[Json]:
    found: list[Json] = []
    for part in parts:
        result: Any = part.get("result") if part["type"] == "tool_result" else None
        inside = result if isinstance(result, list) else [part]
        found += [each for each in inside if isinstance(each, dict) and each.get("type") in MEDIA]
    return found


def as_models_see(parts: list[Json]) -> list[Json]:
    """The parts, of each tool's result that alone which models are shown of it."""
    return [_seen(part) if "model_output" in part and part["type"] == "tool_result" else part for part in parts]


def _seen(part: Json) -> StoredJson:
    rest = {key: value for key, value in part.items() if key != "model_output"}
    return {**rest, "result": part["model_output"]}


def without_data(parts: list[Json], seq: int) -> list[Json]:
    """The parts, with a place where there was base64. Changes nothing that is given."""
    return [_light(part, f"@{seq}.{index}") for index, part in enumerate(parts)]


def _light(part: Json, place: str) -> StoredJson:
    if part["type"] in MEDIA:
        return {**part, "data": place} if "data" in part else part
    result: Any = part.get("result")
    if part["type"] != "tool_result" or not isinstance(result, list):
        return part
    return {**part, "result": [_inner(entry, f"{place}.{index}") for index, entry in enumerate(result)]}


def _inner(entry: Any, place: str) -> Any:
    media = isinstance(entry, dict) and entry.get("type") in MEDIA and isinstance(entry.get("data"), str)
    return {**entry, "data": place} if media else entry


def place_of(part: Json) -> str:
    """Where the base64 of a light image or file stands, as ``SEQ.PART`` or ``SEQ.PART.INNER``; "" if none is left out."""
    data = part.get("data", "")
    return data[1:] if isinstance(data, str) and data.startswith("@") else ""
