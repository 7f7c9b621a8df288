"""Blocks of Vercel's AI SDK (versions 4 to 7: model messages and UI messages), and of agents built on it (seed 002).

- `tool-call`: a tool call part; with an `output` or an `error` of its own (seed 002) its result behind it.
- `tool-result`: a tool result part, of `output` ({"type": "text" | "json" | "content" | "error-...", "value"}) or `result`; with both, the result is
  stored and models get the output (toModelOutput).
- `reasoning` with options of a provider: a reasoning part; OpenAI's, Google's and Anthropic's keep what they want back.
- `image` and `file` with `mediaType` (or `mimeType`): image and file parts.
- Of UI messages: `tool-NAME` and `dynamic-tool` are a call and what came of it; where a step starts and what was cited is
  passed over.
"""

from typing import Any

from layerlore.memory.parts.chat_shapes import PASSED_OVER, Reader
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
    with_model_output,
)
from layerlore.memory.parts.provider_shapes import GOOGLE
from layerlore.memory.parts.responses_shape import OPENAI
from layerlore.memory.rules.validation import Limits, check_json, check_keys, describe, describe_choices
from layerlore.storage.core.errors import InvalidInput
from layerlore.storage.core.records import Json, StoredJson

OPTIONS = ("providerOptions", "providerMetadata", "callProviderMetadata", "resultProviderMetadata")
_BESIDE = (
    *PASSED_OVER,
    *OPTIONS,
    "activatedSkillIds",
    "approval",
    "canceled",
    "dynamic",
    "experimental_content",
    "preliminary",
    "providerExecuted",
    "state",
    "suspension",
    "title",
    "toolMetadata",
)
_OUTPUTS = ("text", "json", "content", "error-text", "error-json", "execution-denied")


def _options(block: Json, where: str, provider: str) -> StoredJson:
    """The content of a block for one provider alone."""
    for key in OPTIONS:
        given = block.get(key)
        if given is not None and isinstance(found := read_object(given, f"{where}.{key}").get(provider), dict):
            return found
    return {}


def _find_text(options: Json, key: str, where: str) -> str | None:
    return read_optional_text(options.get(key), f"{where}: {key}")


def read_reasoning_block(block: Json, where: str, _limits: Limits) -> list[Json]:
    check_keys(block, where, ("type", "text", "signature"), _BESIDE)
    text = read_optional_text(block.get("text"), f"{where}.text") or ""
    of_openai, of_google = _options(block, where, OPENAI), _options(block, where, GOOGLE)
    if of_openai:
        data = _find_text(of_openai, "reasoningEncryptedContent", where)
        item_id = _find_text(of_openai, "itemId", where)
        return [reasoning_part(text, encrypted=data, item_id=item_id, provider=OPENAI)]
    if of_google:
        return [reasoning_part(text, _find_text(of_google, "thoughtSignature", where), provider=GOOGLE)]
    of_anthropic = _options(block, where, "anthropic")
    signature = read_optional_text(block.get("signature"), f"{where}.signature")
    signature = signature or _find_text(of_anthropic, "signature", where)
    return [reasoning_part(text, signature, _find_text(of_anthropic, "redactedData", where))]


def read_redacted_block(block: Json, where: str, _limits: Limits) -> list[Json]:
    check_keys(block, where, ("type", "data"), _BESIDE)
    return [reasoning_part("", encrypted=read_text(block.get("data"), f"{where}.data"))]


def read_sdk_image_block(block: Json, where: str, _limits: Limits) -> list[Json]:
    check_keys(block, where, ("type", "image", "mediaType", "mimeType"), _BESIDE)
    return [_media(block, "image", where, "image/*")]


def read_sdk_file_block(block: Json, where: str, _limits: Limits) -> list[Json]:
    check_keys(block, where, ("type", "data", "url", "filename", "mediaType", "mimeType", "fileRef"), _BESIDE)
    if block.get("fileRef") is not None:
        reference = read_object(block["fileRef"], f"{where}.fileRef")
        file_id = read_text(reference.get("id"), f"{where}.fileRef.id")
        name = read_optional_text(reference.get("fileName"), f"{where}.fileRef.fileName")
        stated = _media_type(block, where)
        return [file_part(MediaSource(content_type=stated), where, name=name, metadata={"file_id": file_id})]
    return [_media(block, "url" if block.get("data") is None else "data", where)]


def _media_type(block: Json, where: str) -> str | None:
    if block.get("mediaType") is not None:
        key = "mediaType"
    else:
        key = "mimeType"
    return read_optional_text(block.get(key), f"{where}.{key}")


def _media(block: Json, key: str, where: str, kind: str = "") -> StoredJson:
    stated, place = _media_type(block, where), f"{where}.{key}"
    text = read_text(block.get(key), place)
    # Under one key the SDK sends a URL or bare base64, and only a URL has a colon near its beginning.
    if ":" in text[:40]:
        source = read_url(text, place)
    else:
        source = MediaSource(encoded=read_base64(text, place))
    # "image/*" is the SDK's guess; a data: URL names the real type.
    source = source._replace(content_type=source.content_type if stated in (None, "image/*") else stated)
    if kind or (stated or source.content_type or "").startswith("image/"):
        return image_part(source, place)
    return file_part(source, place, name=read_optional_text(block.get("filename"), f"{where}.filename"))


def read_sdk_call_block(block: Json, where: str, limits: Limits) -> list[Json]:
    check_keys(block, where, ("type", "toolCallId", "toolName", "input", "args", "output", "error"), _BESIDE)
    name = read_tool_name(block.get("toolName"), f"{where}.toolName", limits)
    if block.get("input") is None:
        key = "args"
    else:
        key = "input"
    return _call(block, name, key, where, limits)


def _call(block: Json, name: str, key: str, where: str, limits: Limits) -> list[Json]:
    """A call, what signs it, and its result where it has one."""
    call_id = read_call_id(block.get("toolCallId"), f"{where}.toolCallId", limits)
    given = block.get(key)
    # The SDK allows any JSON as input. Our arguments are an object, so other JSON goes under the key of unread text.
    if isinstance(given, dict | str | None):
        arguments = given
    else:
        arguments = {"_raw": given}
    # Gemini wants the signature of a call back, so it is stored as reasoning in front of the call.
    signature = _find_text(_options(block, where, GOOGLE), "thoughtSignature", where)
    if signature:
        parts = [reasoning_part("", signature, provider=GOOGLE)]
    else:
        parts = []
    parts.append(tool_call_part(call_id, name, read_arguments(arguments, f"{where}.{key}", limits)))
    if block.get("error") is None:
        error = block.get("errorText")
    else:
        error = block["error"]
    if error is not None:
        check_json(error, f"{where}: error", depth=limits.json_depth)
        parts.append(tool_result_part(call_id, name, error, is_error=True))
    # In any other state the output is preliminary or missing.
    elif "output" in block and block.get("state") in (None, "resolved", "output-available"):
        check_json(block["output"], f"{where}.output", depth=limits.json_depth)
        parts.append(tool_result_part(call_id, name, block["output"]))
    return parts


def read_sdk_result_block(block: Json, where: str, limits: Limits) -> list[Json]:
    check_keys(block, where, ("type", "toolCallId", "toolName", "output", "result", "isError", "input"), _BESIDE)
    call_id = read_call_id(block.get("toolCallId"), f"{where}.toolCallId", limits)
    name = read_tool_name(block.get("toolName"), f"{where}.toolName", limits)
    if "result" in block:
        check_json(block["result"], f"{where}.result", depth=limits.json_depth)
        is_error = read_flag(block.get("isError"), f"{where}.isError")
        part = tool_result_part(call_id, name, block["result"], is_error=is_error)
        if block.get("output") is None:
            return [part]
        shown, _ = _read_output(block["output"], f"{where}.output", limits)
        return [with_model_output(part, shown, f"{where}.output")]
    result, is_error = _read_output(block.get("output"), f"{where}.output", limits)
    return [tool_result_part(call_id, name, result, is_error=is_error)]


def _read_output(raw: Any, where: str, limits: Limits) -> tuple[Any, bool]:
    """The kind of a result, and whether it is a failure."""
    output = read_object(raw, where)
    kind = output.get("type")
    if kind not in _OUTPUTS:
        raise InvalidInput(f"{where}.type: unknown type of output {describe(kind)}; {describe_choices(kind, _OUTPUTS)}")
    if kind == "execution-denied":
        # A model that reads the thread needs to learn of the refusal, also where the user gave no reason.
        return read_optional_text(output.get("reason"), f"{where}.reason") or "The user did not allow this.", True
    if kind == "content":
        entries = read_list(output.get("value"), f"{where}.value")
        return join_result(
            [_content_part(each, f"{where}.value[{at}]", limits) for at, each in enumerate(entries)]
        ), False
    check_json(output.get("value"), f"{where}.value", depth=limits.json_depth)
    return output.get("value"), kind.startswith("error")


def _content_part(raw: Any, where: str, limits: Limits) -> StoredJson:
    entry = read_object(raw, where)
    if entry.get("type") == "text":
        return text_part(read_written(entry.get("text"), f"{where}.text"))
    key = next((key for key in ("data", "url") if entry.get(key) is not None), None)
    if key is not None:
        return _media(entry, key, where, "image" if str(entry.get("type")).startswith("image") else "")
    kept = {name: value for name, value in entry.items() if name not in OPTIONS}
    check_json(kept, where, depth=limits.json_depth)
    return file_part(MediaSource(), where, metadata=kept)


def read_dynamic_tool_block(block: Json, where: str, limits: Limits) -> list[Json]:
    check_keys(block, where, ("type", "toolCallId", "toolName", "input", "output", "errorText", "rawInput"), _BESIDE)
    return _call(block, read_tool_name(block.get("toolName"), f"{where}.toolName", limits), "input", where, limits)


def read_ui_tool_block(block: Json, where: str, limits: Limits) -> list[Json]:
    """A part of a UI message whose type is `tool-` and the tool's name."""
    check_keys(block, where, ("type", "toolCallId", "input", "output", "errorText", "rawInput"), _BESIDE)
    name = read_tool_name(block["type"].removeprefix("tool-"), f"{where}.type", limits)
    return _call(block, name, "input", where, limits)


def pass_over(_block: Json, _where: str, _limits: Limits) -> list[Json]:
    return []


AI_SDK_READERS: dict[str, Reader] = {
    "tool-call": read_sdk_call_block,
    "tool-result": read_sdk_result_block,
    "redacted-reasoning": read_redacted_block,
    "reasoning-file": read_sdk_file_block,
    "dynamic-tool": read_dynamic_tool_block,
}
AI_SDK_PASSED_OVER: dict[str, Reader] = dict.fromkeys(
    ("step-start", "source-url", "source-document", "source", "tool-approval-request", "tool-approval-response"),
    pass_over,
)
AI_SDK_MARKS = ("mediaType", "mimeType")
