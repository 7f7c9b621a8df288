"""What the OpenAI chat shape has beyond ours, and what becomes of it.

- `image_url`, `file` and `input_audio` blocks: image and file parts. A `data:` URL is taken apart; what the provider
  keeps under a `file_id` is a file part with the metadata {"file_id": ...}.
- `refusal`, as a block or as a message's key: a text part, since it is what the assistant said.
- `audio` of an answer: its transcript as a text part and its base64 as a file part of type `audio/*`.
- `tool_calls`: tool call parts. The free text of a custom tool's call becomes the arguments {"_raw": text}.
- `function_call` and the role `function`, which have no ids: the id is "function:" and the function's name.
- `reasoning_content` (or `reasoning`), as several providers call it: a reasoning part, unless `thinking_blocks` say the
  same with their signatures.
"""

from typing import Any

from layerlore.memory.parts.canonical_shape import PASSED_OVER, Reader
from layerlore.memory.parts.fields import (
    UNREAD_ARGUMENTS,
    MediaSource,
    read_arguments,
    read_base64,
    read_call_id,
    read_list,
    read_object,
    read_optional_text,
    read_text,
    read_tool_name,
    read_url,
    read_written,
)
from layerlore.memory.parts.parts import (
    RESULT_PARTS,
    file_part,
    image_part,
    join_result,
    reasoning_part,
    text_part,
    tool_call_part,
    tool_result_part,
    with_model_output,
)
from layerlore.memory.rules.limits import Limits
from layerlore.memory.rules.validation import check_json, check_keys, describe, describe_choices
from layerlore.storage.core.errors import InvalidInput
from layerlore.storage.core.records import Json, StoredJson

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
    metadata = {"file_id": file_id} if file_id else None
    return [file_part(source._replace(content_type=content_type), place, name=name, metadata=metadata)]


def _file_source(value: Any, where: str) -> MediaSource:
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
    checked = None if name in (None, "") else read_tool_name(name, f"{where}.name", limits)
    failed, shown = message.get("status") == "error", join_result(said)
    kept = message.get("artifact")
    if kept is None:
        return tool_result_part(call_id, checked, shown, is_error=failed)
    check_json(kept, f"{where}.artifact", depth=limits.json_depth)
    part = tool_result_part(call_id, checked, kept, is_error=failed)
    return with_model_output(part, shown, f"{where}.content")


def read_reasoning(message: Json, where: str) -> list[Json]:
    """The reasoning that stands beside an answer as plain text."""
    key = "reasoning_content" if message.get("reasoning_content") else "reasoning"
    return [reasoning_part(read_optional_text(message.get(key), f"{where}.{key}") or "")]
