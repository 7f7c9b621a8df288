"""The content blocks of the Anthropic shape, and what becomes of them.

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
"""

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
    reasoning_part,
    text_part,
    tool_call_part,
    tool_result_part,
)
from layerlore.memory.rules.limits import Limits
from layerlore.memory.rules.validation import check_json, check_keys, describe, describe_choices
from layerlore.storage.core.errors import InvalidInput
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
