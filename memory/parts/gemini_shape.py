"""Gemini's contents: a role `user` or `model`, and `parts` that name no type; keys in camelCase or in snake_case.

- `text`: a text part, or with `thought` a reasoning part of the provider `google`.
- `thoughtSignature`: a reasoning part without text in front of what it signs.
- `inlineData`, `fileData`: image and file parts.
- `functionCall`, `functionResponse`: tool call and tool result parts. One without an id is "function:" and its name, and
  the second of that name in a content has ":2" behind it: responses stand in the order of their calls. The result of a
  response {"output": x} is x, {"error": x} is a failure, anything else is the result itself.
- `executableCode`, `codeExecutionResult`: a call of the tool code_execution and its result.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from layerlore.memory.parts.parts import (
    MediaSource,
    file_part,
    image_part,
    join_result,
    read_arguments,
    read_base64,
    read_call_id,
    read_object,
    read_optional_text,
    read_text,
    read_tool_name,
    read_written,
    reasoning_part,
    text_part,
    tool_call_part,
    tool_result_part,
)
from layerlore.memory.rules.limits import Limits
from layerlore.memory.rules.validation import check_json, check_keys, describe_choices
from layerlore.storage.core import linear_re
from layerlore.storage.core.errors import InvalidInput
from layerlore.storage.core.json_text import to_json
from layerlore.storage.core.records import Json, StoredJson

GOOGLE = "google"
CODE_TOOL = "code_execution"

_SNAKE = linear_re.compile(r"_([a-z])")
_SIGNED = ("thought", "thoughtSignature")
_PASSED_OVER = (
    "audioTranscription",
    "mediaProcessing",
    "mediaResolution",
    "partMetadata",
    "speechMetadata",
    "videoMetadata",
)
_OF_CALL = ("partialArgs", "willContinue", "scheduling")
_CALLS = ("functionCall", "functionResponse")


def is_gemini_part(block: Any) -> bool:
    """Whether an entry of `parts` is Gemini's: one that names no type, and has a key of theirs."""
    return isinstance(block, dict) and block.get("type") is None and _find_kind(_camel(block)) is not None


def name_calls(parts: Sequence[Any]) -> list[Any]:
    """The parts of a content, each call and each response with an id."""
    seen: Counter[tuple[str, str]] = Counter()
    named: list[Any] = []
    for part in parts:
        if is_gemini_part(part):
            block = _camel(part)
        else:
            block = part
        kind = next((key for key in _CALLS if isinstance(block, dict) and isinstance(block.get(key), dict)), None)
        if kind:
            name = block[kind].get("name")
        else:
            name = None
        if kind and isinstance(name, str) and not block[kind].get("id"):
            seen[kind, name] += 1
            times = seen[kind, name]
            if times == 1:
                call_id = f"function:{name}"
            else:
                call_id = f"function:{name}:{times}"
            block = {**block, kind: {**block[kind], "id": call_id}}
        named.append(block)
    return named


def read_gemini_part(raw: Json, where: str, limits: Limits) -> list[Json]:
    """The parts that a part of Gemini's becomes. Raises InvalidInput."""
    block = _camel(raw)
    kind = _find_kind(block)
    if kind is None:
        raise InvalidInput(f"{where}: the part has no type; {describe_choices(None, tuple(_READERS))}")
    check_keys(block, where, (kind, *_SIGNED), _PASSED_OVER)
    signature = read_optional_text(block.get("thoughtSignature"), f"{where}.thoughtSignature")
    if kind == "text":
        text = read_written(block["text"], f"{where}.text")
        if block.get("thought"):
            return [reasoning_part(text, signature, provider=GOOGLE)]
        said = [text_part(text)]
    else:
        said = _READERS[kind](read_object(block[kind], f"{where}.{kind}"), f"{where}.{kind}", limits)
    return [*([reasoning_part("", signature, provider=GOOGLE)] if signature else []), *said]


def _camel(block: Json) -> StoredJson:
    """The keys of a part, and of what it holds, as the API has them: the Python package writes them in snake_case."""
    found = {_SNAKE.sub(lambda match: match[1].upper(), key): value for key, value in block.items()}
    return {
        key: {_SNAKE.sub(lambda match: match[1].upper(), inner): entry for inner, entry in value.items()}
        if key in _READERS and isinstance(value, dict)
        else value
        for key, value in found.items()
    }


def _find_kind(block: Json) -> str | None:
    found = next((key for key in ("text", *_READERS) if block.get(key) is not None), None)
    if found is None and "text" in block:
        return "text"
    return found


def _data(raw: Any, where: str) -> str | None:
    """Base64, in either alphabet, with its padding or without."""
    text = read_optional_text(raw, where)
    if text is None:
        return None
    text = "".join(text.split()).replace("-", "+").replace("_", "/")
    return read_base64(text + "=" * (-len(text) % 4), where)


def _media(blob: Json, where: str, source: MediaSource) -> StoredJson:
    name = read_optional_text(blob.get("displayName"), f"{where}.displayName")
    if (source.content_type or "").lower().startswith("image/") and name is None:
        return image_part(source, where)
    return file_part(source, where, name=name)


def _inline_data(blob: Json, where: str, _limits: Limits) -> list[Json]:
    check_keys(blob, where, ("data", "mimeType", "displayName"))
    mime_type = read_optional_text(blob.get("mimeType"), f"{where}.mimeType")
    return [_media(blob, where, MediaSource(None, _data(blob.get("data"), f"{where}.data"), mime_type))]


def _file_data(blob: Json, where: str, _limits: Limits) -> list[Json]:
    check_keys(blob, where, ("fileUri", "mimeType", "displayName"))
    mime_type = read_optional_text(blob.get("mimeType"), f"{where}.mimeType")
    return [_media(blob, where, MediaSource(read_text(blob.get("fileUri"), f"{where}.fileUri"), None, mime_type))]


def _function_call(call: Json, where: str, limits: Limits) -> list[Json]:
    check_keys(call, where, ("id", "name", "args"), _OF_CALL)
    name = read_tool_name(call.get("name"), f"{where}.name", limits)
    call_id = read_call_id(call.get("id"), f"{where}.id", limits)
    return [tool_call_part(call_id, name, read_arguments(call.get("args"), f"{where}.args", limits))]


def _function_response(response: Json, where: str, limits: Limits) -> list[Json]:
    check_keys(response, where, ("id", "name", "response", "parts"), _OF_CALL)
    name = read_tool_name(response.get("name"), f"{where}.name", limits)
    call_id = read_call_id(response.get("id"), f"{where}.id", limits)
    given = response.get("response")
    check_json(given, f"{where}.response", depth=limits.json_depth)
    failed = isinstance(given, dict) and given.keys() == {"error"}
    wrapped = isinstance(given, dict) and given.keys() in ({"output"}, {"error"})
    if wrapped and isinstance(given, dict):
        result = next(iter(given.values()))
    else:
        result = given
    if response.get("parts"):
        shown = [part for part in name_calls(response["parts"]) if isinstance(part, dict)]
        media = [part for index, each in enumerate(shown) for part in _shown(each, f"{where}.parts[{index}]", limits)]
        said = [text_part(result)] if isinstance(result, str) else [] if result in (None, {}) else [_as_text(given)]
        result = join_result([*said, *media])
    return [tool_result_part(call_id, name, result, is_error=failed)]


def _shown(part: Json, where: str, limits: Limits) -> list[Json]:
    """An image or a file beside a response."""
    if not {"inlineData", "fileData"} & part.keys():
        raise InvalidInput(f"{where}: allowed beside a response: inlineData, fileData")
    return read_gemini_part(part, where, limits)


def _as_text(value: Any) -> StoredJson:
    return text_part(to_json(value))


def _code(code: Json, where: str, limits: Limits) -> list[Json]:
    check_json(code, where, depth=limits.json_depth)
    arguments = {key: value for key, value in code.items() if key != "id" and value is not None}
    return [tool_call_part(_code_id(code, where, limits), CODE_TOOL, arguments)]


def _code_result(result: Json, where: str, limits: Limits) -> list[Json]:
    check_json(result, where, depth=limits.json_depth)
    found = {key: value for key, value in result.items() if key != "id" and value is not None}
    failed = found.get("outcome") not in (None, "OUTCOME_OK", "OUTCOME_UNSPECIFIED")
    return [tool_result_part(_code_id(result, where, limits), CODE_TOOL, found, is_error=failed)]


def _code_id(block: Json, where: str, limits: Limits) -> str:
    if block.get("id"):
        return read_call_id(block["id"], f"{where}.id", limits)
    return f"function:{CODE_TOOL}"


_READERS: dict[str, Callable[[Json, str, Limits], list[Json]]] = {
    "inlineData": _inline_data,
    "fileData": _file_data,
    "functionCall": _function_call,
    "functionResponse": _function_response,
    "executableCode": _code,
    "codeExecutionResult": _code_result,
}
