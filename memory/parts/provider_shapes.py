"""The shapes of Anthropic and Gemini, and what becomes of their parts.

The content blocks of the Anthropic shape, and what becomes of them.

- `thinking`: a reasoning part with its signature; `redacted_thinking`: one with the encrypted text as `data`.
- `image` and `document` with a `source`: image and file parts. A file that the provider keeps under a `file_id` is a
  file part with the metadata {"file_id": ...}, of type `image/*` if it is an image.
- `document` with text inside and `search_result`: text parts, so that they can be searched, after a file part with the
  title, context and address if there are any.
- `tool_use`, `server_tool_use`: tool call parts; `mcp_tool_use` likewise, named mcp__SERVER__TOOL.
- `tool_result`, `mcp_tool_result`: a tool result part. Content that is text is the result itself, text with images or
  documents is a list of parts, and a list with anything else in it stays the JSON it is.
- The results of tools that the provider runs (`web_search_tool_result` and its like): a tool result part with the
  content as it is; `is_error` when the content's type says so.

Gemini's contents: a role `user` or `model`, and `parts` that name no type; keys in camelCase or in snake_case.

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

from layerlore.memory.parts.chat_shapes import PASSED_OVER, Reader, read_text_part
from layerlore.memory.parts.parts import (
    MediaSource,
    file_part,
    image_part,
    join_result,
    read_arguments,
    read_base64,
    read_call_id,
    read_flag,
    read_list,
    read_object,
    read_optional_text,
    read_text,
    read_tool_name,
    read_url,
    read_written,
    reasoning_part,
    text_part,
    tool_call_part,
    tool_result_part,
)
from layerlore.memory.rules.validation import Limits, check_json, check_keys, describe, describe_choices
from layerlore.storage.core import linear_re
from layerlore.storage.core.errors import InvalidInput
from layerlore.storage.core.json_text import to_json
from layerlore.storage.core.records import Json, StoredJson

_BINARY_SOURCES = ("base64", "url", "file")
_DOCUMENT_SOURCES = (*_BINARY_SOURCES, "text", "content")
_PROVIDER_RESULTS = (
    "advisor_tool_result",
    "bash_code_execution_tool_result",
    "code_execution_tool_result",
    "text_editor_code_execution_tool_result",
    "tool_search_tool_result",
    "web_fetch_tool_result",
    "web_search_tool_result",
)


def read_thinking_block(block: Json, where: str, _limits: Limits) -> list[Json]:
    check_keys(block, where, ("type", "thinking", "signature"), PASSED_OVER)
    text = read_optional_text(block.get("thinking"), f"{where}.thinking")
    return [reasoning_part(text or "", read_optional_text(block.get("signature"), f"{where}.signature"))]


def read_redacted_thinking_block(block: Json, where: str, _limits: Limits) -> list[Json]:
    check_keys(block, where, ("type", "data"), PASSED_OVER)
    return [reasoning_part("", encrypted=read_text(block.get("data"), f"{where}.data"))]


def read_image_block(block: Json, where: str, _limits: Limits) -> list[Json]:
    check_keys(block, where, ("type", "source"), PASSED_OVER)
    place = f"{where}.source"
    raw = _typed_source(block.get("source"), place, _BINARY_SOURCES)
    source, file_id = _binary_source(raw, place)
    # The file stays with the provider, so its id is all that can be stored.
    if file_id:
        return [file_part(MediaSource(content_type="image/*"), place, metadata={"file_id": file_id})]
    return [image_part(source, place)]


def read_document_block(block: Json, where: str, limits: Limits) -> list[Json]:
    check_keys(block, where, ("type", "source", "title", "context"), PASSED_OVER)
    title = read_optional_text(block.get("title"), f"{where}.title")
    context = read_optional_text(block.get("context"), f"{where}.context")
    if context:
        metadata = {"context": context}
    else:
        metadata = {}
    place = f"{where}.source"
    raw = _typed_source(block.get("source"), place, _DOCUMENT_SOURCES)
    if raw["type"] in _BINARY_SOURCES:
        source, file_id = _binary_source(raw, place)
        if file_id:
            metadata |= {"file_id": file_id}
        return [file_part(source, place, name=title, metadata=metadata)]
    # The title goes into a file part, where a search finds it by the name.
    if title or metadata:
        heading = [file_part(MediaSource(), where, name=title, metadata=metadata)]
    else:
        heading = []
    if raw["type"] == "text":
        check_keys(raw, place, ("type", "media_type", "data"))
        return [*heading, text_part(read_text(raw.get("data"), f"{place}.data"))]
    check_keys(raw, place, ("type", "content"))
    return [*heading, *_inner_blocks(raw.get("content"), f"{place}.content", limits, _QUOTED_READERS)]


def read_search_result_block(block: Json, where: str, limits: Limits) -> list[Json]:
    check_keys(block, where, ("type", "source", "title", "content"), PASSED_OVER)
    source = read_url(block.get("source"), f"{where}.source")
    title = read_optional_text(block.get("title"), f"{where}.title")
    if source.url or title:
        heading = [file_part(source, where, name=title)]
    else:
        heading = []
    return [*heading, *_inner_blocks(block.get("content"), f"{where}.content", limits, _QUOTED_READERS)]


def read_container_upload_block(block: Json, where: str, _limits: Limits) -> list[Json]:
    check_keys(block, where, ("type", "file_id"), PASSED_OVER)
    return [file_part(MediaSource(), where, metadata={"file_id": read_text(block.get("file_id"), f"{where}.file_id")})]


def _typed_source(raw: Any, where: str, allowed: tuple[str, ...]) -> StoredJson:
    source = read_object(raw, where)
    if source.get("type") not in allowed:
        kind = source.get("type")
        raise InvalidInput(f"{where}.type: unknown kind of source {describe(kind)}; {describe_choices(kind, allowed)}")
    return source


def _binary_source(raw: Json, where: str) -> tuple[MediaSource, str | None]:
    """Where the bytes are, or the id under which the provider keeps them."""
    if raw["type"] == "file":
        check_keys(raw, where, ("type", "file_id"))
        return MediaSource(), read_text(raw.get("file_id"), f"{where}.file_id")
    check_keys(raw, where, ("type", "media_type", "data" if raw["type"] == "base64" else "url"))
    media_type = read_optional_text(raw.get("media_type"), f"{where}.media_type")
    if raw["type"] == "base64":
        return MediaSource(None, read_base64(raw.get("data"), f"{where}.data"), media_type), None
    source = read_url(raw.get("url"), f"{where}.url")
    return source._replace(content_type=media_type or source.content_type), None


def read_tool_use_block(block: Json, where: str, limits: Limits) -> list[Json]:
    check_keys(block, where, ("type", "id", "name", "input"), PASSED_OVER)
    return [_tool_use(block, where, limits, read_tool_name(block.get("name"), f"{where}.name", limits))]


def read_mcp_tool_use_block(block: Json, where: str, limits: Limits) -> list[Json]:
    check_keys(block, where, ("type", "id", "name", "input", "server_name"), PASSED_OVER)
    name = read_tool_name(block.get("name"), f"{where}.name", limits)
    server = read_tool_name(block.get("server_name"), f"{where}.server_name", limits)
    # The same form as MCP hosts use, so that calls of one tool look alike wherever it runs.
    full_name = read_tool_name(f"mcp__{server}__{name}", f"{where}: the name with the server's", limits)
    return [_tool_use(block, where, limits, full_name)]


def _tool_use(block: Json, where: str, limits: Limits, name: str) -> StoredJson:
    call_id = read_call_id(block.get("id"), f"{where}.id", limits)
    return tool_call_part(call_id, name, read_arguments(block.get("input"), f"{where}.input", limits))


def read_tool_result_block(block: Json, where: str, limits: Limits) -> list[Json]:
    check_keys(block, where, ("type", "tool_use_id", "content", "is_error"), PASSED_OVER)
    call_id = read_call_id(block.get("tool_use_id"), f"{where}.tool_use_id", limits)
    is_error = read_flag(block.get("is_error"), f"{where}.is_error")
    content, place = block.get("content"), f"{where}.content"
    # As parts, a block of an unknown kind would be lost, so the whole list stays JSON.
    if isinstance(content, list) and not all(_is_answer_block(entry) for entry in content):
        check_json(content, place, depth=limits.json_depth)
        return [tool_result_part(call_id, None, content, is_error=is_error)]
    answer = join_result(_inner_blocks(content, place, limits, _ANSWER_READERS))
    return [tool_result_part(call_id, None, answer, is_error=is_error)]


def read_provider_result_block(block: Json, where: str, limits: Limits) -> list[Json]:
    check_keys(block, where, ("type", "tool_use_id", "content"), PASSED_OVER)
    call_id = read_call_id(block.get("tool_use_id"), f"{where}.tool_use_id", limits)
    content = block.get("content")
    check_json(content, f"{where}.content", depth=limits.json_depth)
    if isinstance(content, dict):
        kind = content.get("type")
    else:
        kind = None
    # These results have no is_error; an error shows only in the type of their content.
    return [tool_result_part(call_id, None, content, is_error=isinstance(kind, str) and kind.endswith("_error"))]


def _is_answer_block(entry: Any) -> bool:
    return isinstance(entry, str) or (isinstance(entry, dict) and entry.get("type") in tuple(_ANSWER_READERS))


def _inner_blocks(raw: Any, where: str, limits: Limits, readers: dict[str, Reader]) -> list[Json]:
    if isinstance(raw, str):
        return [text_part(read_text(raw, where))]
    parts: list[Json] = []
    for index, entry in enumerate(read_list(raw, where)):
        place = f"{where}[{index}]"
        if isinstance(entry, str):
            parts.append(text_part(read_text(entry, place)))
            continue
        block = read_object(entry, place)
        kind = block.get("type")
        if not isinstance(kind, str) or kind not in readers:
            raise InvalidInput(f"{place}: unknown part type {describe(kind)}; {describe_choices(kind, tuple(readers))}")
        parts += readers[kind](block, place, limits)
    return parts


_QUOTED_READERS: dict[str, Reader] = {"text": read_text_part, "image": read_image_block}
_ANSWER_READERS: dict[str, Reader] = {
    **_QUOTED_READERS,
    "document": read_document_block,
    "search_result": read_search_result_block,
}
ANTHROPIC_READERS: dict[str, Reader] = {
    "document": read_document_block,
    "search_result": read_search_result_block,
    "container_upload": read_container_upload_block,
    "thinking": read_thinking_block,
    "redacted_thinking": read_redacted_thinking_block,
    "tool_use": read_tool_use_block,
    "server_tool_use": read_tool_use_block,
    "mcp_tool_use": read_mcp_tool_use_block,
    "mcp_tool_result": read_tool_result_block,
    **dict.fromkeys(_PROVIDER_RESULTS, read_provider_result_block),
}


GOOGLE = "google"
CODE_TOOL = "code_execution"

_SNAKE = linear_re.compile(r"_([a-z])")
_PASSED_OVER = (
    "audioTranscription",
    "mediaProcessing",
    "mediaResolution",
    "partMetadata",
    "speechMetadata",
    "videoMetadata",
)
_OF_CALL = ("partialArgs", "willContinue", "scheduling")


def is_gemini_part(block: Any) -> bool:
    """Whether an entry of `parts` is Gemini's: one that names no type, and has a key of theirs."""
    return isinstance(block, dict) and block.get("type") is None and _find_kind(_camel(block)) is not None


def name_calls(parts: Sequence[Any]) -> list[Any]:
    """The parts of a content, each call and each response with an id."""
    seen: Counter[tuple[str, str]] = Counter()
    named: list[Any] = []
    for part in parts:
        block = _camel(part) if is_gemini_part(part) else part
        kind = None
        if isinstance(block, dict):
            kind = next((key for key in ("functionCall", "functionResponse") if isinstance(block.get(key), dict)), None)
        # Gemini pairs calls and responses by name and order, but our parts need an id on both.
        if kind and isinstance(name := block[kind].get("name"), str) and not block[kind].get("id"):
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
    check_keys(block, where, (kind, "thought", "thoughtSignature"), _PASSED_OVER)
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
    # Only one level is renamed, so that the arguments of a call keep their names.
    return {
        key: {_SNAKE.sub(lambda match: match[1].upper(), inner): entry for inner, entry in value.items()}
        if key in _READERS and isinstance(value, dict)
        else value
        for key, value in found.items()
    }


def _find_kind(block: Json) -> str | None:
    found = next((key for key in ("text", *_READERS) if block.get(key) is not None), None)
    # A part whose only key is an empty or null "text" is still a text.
    if found is None and "text" in block:
        return "text"
    return found


def _data(raw: Any, where: str) -> str | None:
    """Base64, in either alphabet, with its padding or without."""
    text = read_optional_text(raw, where)
    if text is None:
        return None
    # The Python package writes the URL-safe alphabet, and may leave out the padding.
    text = "".join(text.split()).replace("-", "+").replace("_", "/")
    return read_base64(text + "=" * (-len(text) % 4), where)


def _media(blob: Json, where: str, source: MediaSource) -> StoredJson:
    name = read_optional_text(blob.get("displayName"), f"{where}.displayName")
    # An image part has no key for a name, so a named image becomes a file.
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
        if isinstance(result, str):
            said = [text_part(result)]
        else:
            said = [] if result in (None, {}) else [text_part(to_json(given))]
        result = join_result([*said, *media])
    return [tool_result_part(call_id, name, result, is_error=failed)]


def _shown(part: Json, where: str, limits: Limits) -> list[Json]:
    """An image or a file beside a response."""
    if not {"inlineData", "fileData"} & part.keys():
        raise InvalidInput(f"{where}: allowed beside a response: inlineData, fileData")
    return read_gemini_part(part, where, limits)


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
    # Without an id, the tool's name ties a result to the latest run.
    return f"function:{CODE_TOOL}"


_READERS: dict[str, Callable[[Json, str, Limits], list[Json]]] = {
    "inlineData": _inline_data,
    "fileData": _file_data,
    "functionCall": _function_call,
    "functionResponse": _function_response,
    "executableCode": _code,
    "codeExecutionResult": _code_result,
}
