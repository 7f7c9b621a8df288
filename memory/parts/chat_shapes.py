"""Messages in the OpenAI chat shape, in LangChain's, and in our own."""

from collections.abc import Callable
from typing import Any

from layerlore.memory.parts.parts import (
    NOTE_KEYS,
    PART_KEYS,
    RESULT_PARTS,
    UNREAD_ARGUMENTS,
    MediaSource,
    custom_part,
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
    read_size,
    read_text,
    read_tool_name,
    read_url,
    read_written,
    reasoning_part,
    text_part,
    tool_call_part,
    tool_result_part,
    with_model_output,
)
from layerlore.memory.rules.validation import Limits, check_json, check_keys, check_metadata, describe, describe_choices
from layerlore.storage.core.errors import InvalidInput
from layerlore.storage.core.records import Json, StoredJson

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
"""The keys that providers and SDKs write on a block for themselves: where a text was found, what to cache, the detail
of an image."""

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
    if value is None:
        return None
    return str(value)


def read_image_part(block: Json, where: str, _limits: Limits) -> list[Json]:
    check_keys(block, where, PART_KEYS["image"], (*PASSED_OVER, *NOTE_KEYS))
    _refuse_note(block, where)
    mime_type = read_optional_text(block.get("mime_type"), f"{where}.mime_type")
    caption = read_optional_text(block.get("caption"), f"{where}.caption")
    return [image_part(_source(block, where, mime_type), where, caption)]


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
    # A note comes from get_messages. Stored without its data, it would replace an image by its description.
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
    # Some programs send "" for a name that they do not know.
    if block.get("name") in (None, ""):
        name = None
    else:
        name = read_tool_name(block["name"], f"{where}.name", limits)
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

# OpenAI names a format. Only that of mp3 is not the second half of its media type.
_AUDIO_TYPES = {"mp3": "audio/mpeg"}
_CALL_KINDS = ("function", "custom")


def read_image_url_block(block: Json, where: str, _limits: Limits) -> list[Json]:
    check_keys(block, where, ("type", "image_url"), PASSED_OVER)
    image, place = block.get("image_url"), f"{where}.image_url"
    if isinstance(image, dict):
        check_keys(image, place, ("url", "format"), PASSED_OVER)
        source = read_url(image.get("url"), f"{place}.url")
        content_type = source.content_type or read_optional_text(image.get("format"), f"{place}.format")
        return [image_part(source._replace(content_type=content_type), place)]
    return [image_part(read_url(image, place), place)]


def read_input_audio_block(block: Json, where: str, _limits: Limits) -> list[Json]:
    check_keys(block, where, ("type", "input_audio"), PASSED_OVER)
    place = f"{where}.input_audio"
    audio = read_object(block.get("input_audio"), place)
    check_keys(audio, place, ("data", "format"))
    kind = read_text(audio.get("format"), f"{place}.format")
    content_type = _AUDIO_TYPES.get(kind, f"audio/{kind}")
    return [file_part(MediaSource(None, read_base64(audio.get("data"), f"{place}.data"), content_type), place)]


def read_openai_file_block(block: Json, where: str, _limits: Limits) -> list[Json]:
    check_keys(block, where, ("type", "file"), PASSED_OVER)
    place = f"{where}.file"
    file = read_object(block["file"], place)
    check_keys(file, place, ("file_data", "file_id", "filename", "format"), PASSED_OVER)
    name = read_optional_text(file.get("filename"), f"{place}.filename")
    file_id = read_optional_text(file.get("file_id"), f"{place}.file_id")
    source = _file_source(file.get("file_data"), f"{place}.file_data")
    content_type = source.content_type or read_optional_text(file.get("format"), f"{place}.format")
    if file_id:
        metadata = {"file_id": file_id}
    else:
        metadata = None
    return [file_part(source._replace(content_type=content_type), place, name=name, metadata=metadata)]


def _file_source(value: Any, where: str) -> MediaSource:
    # Both forms occur here: a data: URL and bare base64.
    text = read_optional_text(value, where)
    if text is not None and text[:5].lower() == "data:":
        return read_url(text, where)
    return MediaSource(encoded=read_base64(text, where))


def read_refusal_block(block: Json, where: str, _limits: Limits) -> list[Json]:
    check_keys(block, where, ("type", "refusal"), PASSED_OVER)
    return [text_part(read_written(block.get("refusal"), f"{where}.refusal"))]


OPENAI_READERS: dict[str, Reader] = {
    "image_url": read_image_url_block,
    "input_audio": read_input_audio_block,
    "refusal": read_refusal_block,
}

ANSWER_KEYS = ("refusal", "audio", "tool_calls", "function_call")


def read_answer(message: Json, where: str, limits: Limits) -> list[Json]:
    """The parts that an assistant's message carries outside its content, under `ANSWER_KEYS`."""
    parts: list[Json] = []
    refusal = read_optional_text(message.get("refusal"), f"{where}.refusal")
    if refusal:
        parts.append(text_part(refusal))
    if message.get("audio") is not None:
        parts += _audio_answer(message["audio"], f"{where}.audio")
    for index, call in enumerate(read_list(message.get("tool_calls"), f"{where}.tool_calls")):
        parts.append(_tool_call(call, f"{where}.tool_calls[{index}]", limits))
    if message.get("function_call") is not None:
        parts.append(_function_call(message["function_call"], f"{where}.function_call", limits))
    return parts


def _audio_answer(raw: Any, where: str) -> list[Json]:
    audio = read_object(raw, where)
    check_keys(audio, where, ("id", "data", "transcript", "expires_at"))
    audio_id = read_optional_text(audio.get("id"), f"{where}.id")
    # The answer does not name its format, since the request chose it.
    source = MediaSource(None, read_base64(audio.get("data"), f"{where}.data"), "audio/*")
    file = file_part(source, where, metadata={"file_id": audio_id} if audio_id else None)
    return [text_part(read_optional_text(audio.get("transcript"), f"{where}.transcript") or ""), file]


def _tool_call(raw: Any, where: str, limits: Limits) -> StoredJson:
    call = read_object(raw, where)
    kind = call.get("type") or "function"
    if kind not in _CALL_KINDS:
        raise InvalidInput(
            f"{where}.type: unknown kind of call {describe(kind)}; {describe_choices(kind, _CALL_KINDS)}"
        )
    check_keys(call, where, ("id", "type", kind), PASSED_OVER)
    call_id = read_call_id(call.get("id"), f"{where}.id", limits)
    place = f"{where}.{kind}"
    target = read_object(call.get(kind), place)
    if kind == "custom":
        check_keys(target, place, ("name", "input"))
        # A custom tool takes free text instead of JSON.
        arguments: Json = {UNREAD_ARGUMENTS: read_text(target.get("input"), f"{place}.input")}
    else:
        check_keys(target, place, ("name", "arguments"), PASSED_OVER)
        arguments = read_arguments(target.get("arguments"), f"{place}.arguments", limits)
    return tool_call_part(call_id, read_tool_name(target.get("name"), f"{place}.name", limits), arguments)


def _function_call(raw: Any, where: str, limits: Limits) -> StoredJson:
    call = read_object(raw, where)
    check_keys(call, where, ("name", "arguments"))
    name = read_tool_name(call.get("name"), f"{where}.name", limits)
    return tool_call_part(_function_id(name), name, read_arguments(call.get("arguments"), f"{where}.arguments", limits))


def _function_id(name: str) -> str:
    # The older function_call has no id: the name ties an answer to the latest call of that function.
    return f"function:{name}"


def read_tool_message(message: Json, said: list[Json], where: str, limits: Limits) -> StoredJson:
    """The tool result that a message of the role `tool` (with `tool_call_id`) or `function` (with `name`) stands for.

    `said` are the parts of its content: one text becomes the result itself, anything more the list of parts. With an
    `artifact` (LangChain's word) that is the result, and the content is what models see of it.
    """
    for part in said:
        if part["type"] not in RESULT_PARTS:
            raise InvalidInput(
                f"{where}.content: a tool's answer holds {', '.join(RESULT_PARTS)} parts, not {part['type']}"
            )
    name = message.get("name")
    if message["role"] == "function":
        name = read_tool_name(name, f"{where}.name", limits)
        return tool_result_part(_function_id(name), name, join_result(said))
    call_id = read_call_id(message["tool_call_id"], f"{where}.tool_call_id", limits)
    if name in (None, ""):
        checked = None
    else:
        checked = read_tool_name(name, f"{where}.name", limits)
    # LangChain marks a failed tool in ``status``, and puts what only programs read into ``artifact``.
    failed, shown = message.get("status") == "error", join_result(said)
    kept = message.get("artifact")
    if kept is None:
        return tool_result_part(call_id, checked, shown, is_error=failed)
    check_json(kept, f"{where}.artifact", depth=limits.json_depth)
    part = tool_result_part(call_id, checked, kept, is_error=failed)
    return with_model_output(part, shown, f"{where}.content")


def read_reasoning(message: Json, where: str) -> list[Json]:
    """The reasoning that stands beside an answer as plain text."""
    # DeepSeek and LiteLLM write reasoning_content, OpenRouter writes reasoning.
    if message.get("reasoning_content"):
        key = "reasoning_content"
    else:
        key = "reasoning"
    return [reasoning_part(read_optional_text(message.get(key), f"{where}.{key}") or "")]


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
    # LangChain's serialised constructor: {"lc": 1, "id": [..., "AIMessage"], "kwargs": {...}}.
    if raw.get("lc") is not None and isinstance(raw.get("kwargs"), dict):
        names = raw.get("id")
        if isinstance(names, list) and names:
            named = names[-1]
        else:
            named = None
        raw = {"type": named, **raw["kwargs"]}
    # The form of LangChain's message_to_dict: {"type": "human", "data": {...}}.
    elif isinstance(raw.get("data"), dict) and raw.get("role") is None and _role(raw):
        raw = {**raw["data"], "type": raw["type"]}
    role = _role(raw)
    if role is None or raw.get("role") is not None:
        return None
    found = {key: value for key, value in raw.items() if key not in ("type", *_BOOKKEEPING)}
    # LangChain's DeepSeek adapter keeps the reasoning in additional_kwargs.
    beside = raw.get("additional_kwargs")
    if isinstance(beside, dict) and beside.get("reasoning_content") and not found.get("reasoning_content"):
        found["reasoning_content"] = beside["reasoning_content"]
    return {"role": role, **found}


def _role(raw: Json) -> str | None:
    kind = raw.get("type")
    if isinstance(kind, str):
        return _ROLE_OF.get(kind)
    return None


def split_calls(raw: Json, where: str, limits: Limits) -> tuple[Json, list[Json]]:
    """The message without LangChain's own calls, and those as parts, but for the ones that its content holds."""
    # Content blocks of Anthropic's shape hold the same calls again. Without this check each would be stored twice.
    if isinstance(raw.get("content"), list):
        held = {
            block["id"]
            for block in raw["content"]
            if isinstance(block, dict) and isinstance(block.get("id"), str) and "name" in block
        }
    else:
        held = set()
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
    if isinstance(block.get("extras"), dict):
        extras = block.get("extras")
    else:
        extras = {}
    signature = block.get("signature") or (extras or {}).get("signature")
    return [reasoning_part(text, read_optional_text(signature, f"{where}.signature"))]


def read_chain_media(block: Json, where: str, _limits: Limits) -> list[Json]:
    """An image, a file, a sound or a film: at a `url`, in `base64` (or `data`), or under a `file_id`."""
    known = ("type", "id", "url", "base64", "data", "file_id", "mime_type", "filename", "metadata")
    check_keys(block, where, known, _OF_BLOCK)
    at = read_url(block.get("url"), f"{where}.url")
    if block.get("base64") is not None:
        key = "base64"
    else:
        key = "data"
    encoded = read_base64(block.get(key), f"{where}.{key}") or at.encoded
    stated = read_optional_text(block.get("mime_type"), f"{where}.mime_type") or at.content_type
    source = MediaSource(at.url, encoded, stated)
    if block["type"] == "image" and (at.url or encoded):
        return [image_part(source, where)]
    about = read_object(block.get("extras") or block.get("metadata") or {}, f"{where}.extras")
    given = block.get("filename") or about.get("filename") or about.get("name")
    name = read_optional_text(given, f"{where}.filename")
    file_id = read_optional_text(block.get("file_id"), f"{where}.file_id")
    # A file part does not name its kind otherwise, so a wildcard keeps it.
    if source.content_type is None and block["type"] in ("image", "audio", "video"):
        source = source._replace(content_type=f"{block['type']}/*")
    return [file_part(source, where, name=name, metadata={"file_id": file_id} if file_id else None)]


LANGCHAIN_READERS: dict[str, Reader] = {
    "invalid_tool_call": read_chain_call,
    "audio": read_chain_media,
    "video": read_chain_media,
}
LANGCHAIN_MEDIA_MARKS = ("base64", "source_type", "file_id")
