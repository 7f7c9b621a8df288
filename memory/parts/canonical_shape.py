"""Our own parts as a caller sends them: the same keys as `memory.parts.parts` gives, checked and put in order."""

from collections.abc import Callable
from typing import Any

from layerlore.memory.parts.fields import (
    MediaSource,
    read_arguments,
    read_base64,
    read_call_id,
    read_flag,
    read_optional_text,
    read_size,
    read_tool_name,
    read_url,
    read_written,
)
from layerlore.memory.parts.parts import (
    NOTE_KEYS,
    PART_KEYS,
    custom_part,
    file_part,
    image_part,
    reasoning_part,
    text_part,
    tool_call_part,
    tool_result_part,
    with_model_output,
)
from layerlore.memory.rules.limits import Limits
from layerlore.memory.rules.validation import check_json, check_keys, check_metadata, describe, describe_choices
from layerlore.storage.core.errors import InvalidInput
from layerlore.storage.core.records import Json

Reader = Callable[[Json, str, Limits], list[Json]]
"""Turns one block of a known type, and the place it stands at, into parts."""

PASSED_OVER = (
    "annotations",
    "cache_control",
    "caller",
    "citations",
    "detail",
    "extra_content",
    "extras",
    "index",
    "logprobs",
    "prompt_cache_breakpoint",
    "providerMetadata",
    "providerOptions",
    "provider_specific_fields",
    "state",
)
"""What providers and SDKs write on a block for themselves: where a text was found, what to cache, how closely to look."""

_PROVIDERS = ("openai", "google")


def read_text_part(block: Json, where: str, _limits: Limits) -> list[Json]:
    check_keys(block, where, PART_KEYS["text"], (*PASSED_OVER, "id"))
    return [text_part(read_written(block.get("text"), f"{where}.text"))]


def read_reasoning_part(block: Json, where: str, _limits: Limits) -> list[Json]:
    check_keys(block, where, PART_KEYS["reasoning"], PASSED_OVER)
    text = read_optional_text(block.get("text"), f"{where}.text")
    signature = read_optional_text(block.get("signature"), f"{where}.signature")
    return [
        reasoning_part(
            text or "",
            signature,
            read_optional_text(block.get("data"), f"{where}.data"),
            item_id=read_optional_text(block.get("id"), f"{where}.id"),
            provider=_read_provider(block.get("provider"), f"{where}.provider"),
        )
    ]


def _read_provider(value: Any, where: str) -> str | None:
    if value not in (None, *_PROVIDERS):
        raise InvalidInput(f"{where}: unknown provider {describe(value)}; {describe_choices(value, _PROVIDERS)}")
    return None if value is None else str(value)


def read_image_part(block: Json, where: str, _limits: Limits) -> list[Json]:
    check_keys(block, where, PART_KEYS["image"], (*PASSED_OVER, *NOTE_KEYS))
    _refuse_note(block, where)
    mime_type = read_optional_text(block.get("mime_type"), f"{where}.mime_type")
    return [image_part(_source(block, where, mime_type), where)]


def read_file_part(block: Json, where: str, limits: Limits) -> list[Json]:
    check_keys(block, where, PART_KEYS["file"], (*PASSED_OVER, *NOTE_KEYS))
    _refuse_note(block, where)
    content_type = read_optional_text(block.get("content_type"), f"{where}.content_type")
    part = file_part(
        _source(block, where, content_type),
        where,
        name=read_optional_text(block.get("file_name"), f"{where}.file_name"),
        size=read_size(block.get("file_size"), f"{where}.file_size"),
        metadata=check_metadata(block.get("metadata"), f"{where}.metadata", limits),
    )
    return [part]


def _refuse_note(block: Json, where: str) -> None:
    if block.get("part") is not None and block.get("data") is None:
        raise InvalidInput(
            f"{where}: this is a note of an image or file: give its `data`, too, as get_messages(part=...) gives it"
        )


def _source(block: Json, where: str, content_type: str | None) -> MediaSource:
    at = read_url(block.get("url"), f"{where}.url")
    encoded = read_base64(block.get("data"), f"{where}.data")
    if at.encoded and encoded:
        raise InvalidInput(f"{where}: has both data and a data: URL; give one of them")
    return MediaSource(at.url, encoded or at.encoded, content_type or at.content_type)


def read_tool_call_part(block: Json, where: str, limits: Limits) -> list[Json]:
    check_keys(block, where, PART_KEYS["tool_call"], PASSED_OVER)
    call_id = read_call_id(block.get("id"), f"{where}.id", limits)
    name = read_tool_name(block.get("name"), f"{where}.name", limits)
    return [tool_call_part(call_id, name, read_arguments(block.get("arguments"), f"{where}.arguments", limits))]


def read_tool_result_part(block: Json, where: str, limits: Limits) -> list[Json]:
    check_keys(block, where, PART_KEYS["tool_result"], PASSED_OVER)
    call_id = read_call_id(block.get("tool_call_id"), f"{where}.tool_call_id", limits)
    name = None if block.get("name") in (None, "") else read_tool_name(block["name"], f"{where}.name", limits)
    if "result" not in block:
        raise InvalidInput(f"{where}.result: is missing; any JSON is allowed, null and the empty text too")
    check_json(block["result"], f"{where}.result", depth=limits.json_depth)
    is_error = read_flag(block.get("is_error"), f"{where}.is_error")
    part = tool_result_part(call_id, name, block["result"], is_error=is_error)
    if "model_output" not in block:
        return [part]
    check_json(block["model_output"], f"{where}.model_output", depth=limits.json_depth)
    return [with_model_output(part, block["model_output"], f"{where}.model_output")]


def read_custom_part(block: Json, where: str, limits: Limits) -> list[Json]:
    check_keys(block, where, PART_KEYS["custom"])
    if block.get("data") is None:
        raise InvalidInput(f"{where}.data: is missing; any JSON is allowed but null")
    check_json(block["data"], f"{where}.data", depth=limits.json_depth)
    return [custom_part(block["data"])]


CANONICAL_READERS: dict[str, Reader] = {
    "text": read_text_part,
    "reasoning": read_reasoning_part,
    "image": read_image_part,
    "file": read_file_part,
    "tool_call": read_tool_call_part,
    "tool_result": read_tool_result_part,
}
