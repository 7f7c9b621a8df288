"""LangChain's messages as those of the OpenAI chat shape: `type` is human, ai, tool or system.

A message may stand in `data` (``messages_to_dict``) or in `kwargs` (``dumpd``). `tool_calls` have `name`, `args` and `id`;
calls whose arguments are no JSON (`invalid_tool_calls`) are calls, too. Content blocks are LangChain's own, OpenAI's or
Anthropic's; a call that stands among them and in `tool_calls` is one call.
"""

from typing import Any

from layerlore.memory.parts.canonical_shape import PASSED_OVER, Reader
from layerlore.memory.parts.fields import (
    MediaSource,
    read_arguments,
    read_base64,
    read_call_id,
    read_list,
    read_object,
    read_optional_text,
    read_tool_name,
    read_url,
)
from layerlore.memory.parts.parts import file_part, image_part, reasoning_part, tool_call_part
from layerlore.memory.rules.limits import Limits
from layerlore.memory.rules.validation import check_keys
from layerlore.storage.core.records import Json

_ROLE_OF = {
    "human": "user",
    "HumanMessage": "user",
    "HumanMessageChunk": "user",
    "ai": "assistant",
    "AIMessage": "assistant",
    "AIMessageChunk": "assistant",
    "tool": "tool",
    "ToolMessage": "tool",
    "ToolMessageChunk": "tool",
    "system": "system",
    "SystemMessage": "system",
    "SystemMessageChunk": "system",
}
_BOOKKEEPING = (
    "additional_kwargs",
    "chunk_position",
    "example",
    "response_metadata",
    "tool_call_chunks",
    "usage_metadata",
)
_OF_BLOCK = (*PASSED_OVER, "extras", "source_type")


def find_langchain(raw: Json) -> Json | None:
    """The message in the OpenAI chat shape if it is one of LangChain's, else None."""
    if raw.get("lc") is not None and isinstance(raw.get("kwargs"), dict):
        names = raw.get("id")
        named = names[-1] if isinstance(names, list) and names else None
        raw = {"type": named, **raw["kwargs"]}
    elif isinstance(raw.get("data"), dict) and raw.get("role") is None and _role(raw):
        raw = {**raw["data"], "type": raw["type"]}
    role = _role(raw)
    if role is None or raw.get("role") is not None:
        return None
    found = {key: value for key, value in raw.items() if key not in ("type", *_BOOKKEEPING)}
    beside = raw.get("additional_kwargs")
    if isinstance(beside, dict) and beside.get("reasoning_content") and not found.get("reasoning_content"):
        found["reasoning_content"] = beside["reasoning_content"]
    return {"role": role, **found}


def _role(raw: Json) -> str | None:
    kind = raw.get("type")
    return _ROLE_OF.get(kind) if isinstance(kind, str) else None


def split_calls(raw: Json, where: str, limits: Limits) -> tuple[Json, list[Json]]:
    """The message without LangChain's own calls, and those as parts, but for the ones that its content holds."""
    held = (
        {
            block["id"]
            for block in raw["content"]
            if isinstance(block, dict) and isinstance(block.get("id"), str) and "name" in block
        }
        if isinstance(raw.get("content"), list)
        else set()
    )
    parts: list[Json] = []
    rest = dict(raw)
    for key in ("tool_calls", "invalid_tool_calls"):
        given = read_list(raw.get(key), f"{where}.{key}")
        if not given or not all(map(_is_own_call, given)):
            continue
        del rest[key]
        for index, call in enumerate(given):
            if not (isinstance(call.get("id"), str) and call["id"] in held):
                parts += read_chain_call(call, f"{where}.{key}[{index}]", limits)
    rest.pop("invalid_tool_calls", None)
    return rest, parts


def _is_own_call(call: Any) -> bool:
    if not isinstance(call, dict) or call.get("type") not in (None, "tool_call", "invalid_tool_call"):
        return False
    return "name" in call and not {"function", "custom"} & call.keys()


def read_chain_call(call: Json, where: str, limits: Limits) -> list[Json]:
    check_keys(call, where, ("type", "id", "name", "args", "error"), _OF_BLOCK)
    call_id = read_call_id(call.get("id"), f"{where}.id", limits)
    name = read_tool_name(call.get("name"), f"{where}.name", limits)
    return [tool_call_part(call_id, name, read_arguments(call.get("args"), f"{where}.args", limits))]


def read_chain_reasoning(block: Json, where: str, _limits: Limits) -> list[Json]:
    check_keys(block, where, ("type", "id", "reasoning", "signature"), _OF_BLOCK)
    text = read_optional_text(block.get("reasoning"), f"{where}.reasoning") or ""
    extras = block.get("extras") if isinstance(block.get("extras"), dict) else {}
    signature = block.get("signature") or (extras or {}).get("signature")
    return [reasoning_part(text, read_optional_text(signature, f"{where}.signature"))]


def read_chain_media(block: Json, where: str, _limits: Limits) -> list[Json]:
    """An image, a file, a sound or a film: at a `url`, in `base64` (or `data`), or under a `file_id`."""
    known = ("type", "id", "url", "base64", "data", "file_id", "mime_type", "filename", "metadata")
    check_keys(block, where, known, _OF_BLOCK)
    at = read_url(block.get("url"), f"{where}.url")
    key = "base64" if block.get("base64") is not None else "data"
    encoded = read_base64(block.get(key), f"{where}.{key}") or at.encoded
    stated = read_optional_text(block.get("mime_type"), f"{where}.mime_type") or at.content_type
    source = MediaSource(at.url, encoded, stated)
    if block["type"] == "image" and (at.url or encoded):
        return [image_part(source, where)]
    about = read_object(block.get("extras") or block.get("metadata") or {}, f"{where}.extras")
    given = block.get("filename") or about.get("filename") or about.get("name")
    name = read_optional_text(given, f"{where}.filename")
    file_id = read_optional_text(block.get("file_id"), f"{where}.file_id")
    if source.content_type is None and block["type"] in ("image", "audio", "video"):
        source = source._replace(content_type=f"{block['type']}/*")
    return [file_part(source, where, name=name, metadata={"file_id": file_id} if file_id else None)]


LANGCHAIN_READERS: dict[str, Reader] = {
    "invalid_tool_call": read_chain_call,
    "audio": read_chain_media,
    "video": read_chain_media,
}
LANGCHAIN_MEDIA_MARKS = ("base64", "source_type", "file_id")
