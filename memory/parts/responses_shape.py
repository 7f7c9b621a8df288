"""Items of OpenAI's Responses API (the `input` of a request, the `output` of a response), and what becomes of each.

- `message`, or no type: a message as in the other shapes, with the content parts `input_text`, `output_text`,
  `input_image` and `input_file` beside those.
- `reasoning`: a reasoning part of the provider `openai`, with its id and its encrypted content as `data`.
- `function_call`, `custom_tool_call`: a tool call part. `..._output`: a tool result part.
- Tools that the provider runs (`web_search_call`, `mcp_call`, ...): a tool call part and its result in one message. The
  name is the type without `_call` (of an MCP server's tool mcp__SERVER__TOOL), the arguments are what the item says.

- What says nothing (`mcp_list_tools`, `compaction`, ...): a message of the role custom.

An item is a message of its own; its `id` is the message's.
"""

from typing import Any

from layerlore.memory.parts.chat_shapes import PASSED_OVER, Reader
from layerlore.memory.parts.parts import (
    UNREAD_ARGUMENTS,
    MediaSource,
    file_part,
    image_part,
    join_result,
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
    reasoning_part,
    text_part,
    tool_call_part,
    tool_result_part,
)
from layerlore.memory.rules.validation import Limits, check_json, check_keys, describe, describe_choices
from layerlore.storage.core.errors import InvalidInput
from layerlore.storage.core.records import Json, Role, StoredJson

OPENAI = "openai"

# The client runs these, and their results come back as items of their own.
_CLIENTS_CALLS = (
    "function_call",
    "custom_tool_call",
    "computer_call",
    "local_shell_call",
    "shell_call",
    "apply_patch_call",
    "tool_search_call",
)
_OUTPUTS = (*(f"{kind}_output" for kind in _CLIENTS_CALLS if kind != "tool_search_call"), "tool_search_output")
_ANSWER_KEYS = {
    "web_search_call": "results",
    "file_search_call": "results",
    "code_interpreter_call": "outputs",
    "image_generation_call": "result",
    "mcp_call": "output",
}
"""Tools that the provider runs, and the key of an item that holds their answer."""
RESPONSES_ITEMS = ("reasoning", *_CLIENTS_CALLS, *_OUTPUTS, *_ANSWER_KEYS)
"""The types of items that become messages, besides `message`."""

_OF_MESSAGE = ("type", "id", "created_at", "said_at", "metadata")
_BOOKKEEPING = ("agent", "caller", "created_by", "namespace", "phase", "pending_safety_checks", "status")
_NO_ARGUMENTS = {*_OF_MESSAGE, *_BOOKKEEPING, "call_id", "error", "name", "output", "outputs", "result", "results"}


def read_item(item: Json, where: str, limits: Limits) -> tuple[Role, list[Json]]:
    """The role and the parts of an item of one of RESPONSES_ITEMS. Raises InvalidInput."""
    kind = item["type"]
    if kind == "reasoning":
        return "assistant", [_reasoning(item, where)]
    if kind in _OUTPUTS:
        return "tool", [_output(item, where, limits)]
    return "assistant", _call(item, kind, where, limits)


def _reasoning(item: Json, where: str) -> StoredJson:
    check_keys(item, where, (*_OF_MESSAGE, "summary", "content", "encrypted_content"), _BOOKKEEPING)
    texts = []
    # OpenAI gives only a summary; open models behind the same API give the reasoning itself as content.
    for key in ("summary", "content"):
        for index, entry in enumerate(read_list(item.get(key), f"{where}.{key}")):
            place = f"{where}.{key}[{index}]"
            texts.append(read_written(read_object(entry, place).get("text"), f"{place}.text"))
    return reasoning_part(
        "\n\n".join(filter(None, texts)),
        encrypted=read_optional_text(item.get("encrypted_content"), f"{where}.encrypted_content"),
        item_id=read_optional_text(item.get("id"), f"{where}.id"),
        provider=OPENAI,
    )


def _call(item: Json, kind: str, where: str, limits: Limits) -> list[Json]:
    call_id = _call_id(item, where, limits)
    call = tool_call_part(call_id, _name(item, kind, where, limits), _arguments(item, kind, where, limits))
    if kind not in _ANSWER_KEYS:
        return [call]
    result = _answer(item, kind, where, limits)
    return [call, tool_result_part(call_id, None, result, is_error=bool(item.get("error")))]


def _call_id(item: Json, where: str, limits: Limits) -> str:
    # Items of the provider's own tools have no call_id.
    if item.get("call_id") is None and item.get("id") is not None:
        key = "id"
    else:
        key = "call_id"
    return read_call_id(item.get(key), f"{where}.{key}", limits)


def _name(item: Json, kind: str, where: str, limits: Limits) -> str:
    if kind in ("function_call", "custom_tool_call", "mcp_call"):
        name = read_tool_name(item.get("name"), f"{where}.name", limits)
        if kind != "mcp_call":
            return name
        server = read_tool_name(item.get("server_label"), f"{where}.server_label", limits)
        return read_tool_name(f"mcp__{server}__{name}", f"{where}: the name with the server's", limits)
    return kind.removesuffix("_call")


def _arguments(item: Json, kind: str, where: str, limits: Limits) -> StoredJson:
    if kind == "custom_tool_call":
        check_keys(item, where, (*_OF_MESSAGE, "call_id", "name", "input"), _BOOKKEEPING)
        return {UNREAD_ARGUMENTS: read_text(item.get("input"), f"{where}.input")}
    if kind in ("function_call", "mcp_call"):
        beside = ("call_id", "name", "arguments", "server_label", "output", "error", "approval_request_id")
        check_keys(item, where, (*_OF_MESSAGE, *beside), _BOOKKEEPING)
        return read_arguments(item.get("arguments"), f"{where}.arguments", limits)
    # These items have no key for arguments, so all that describes the call counts as its arguments.
    found = {key: value for key, value in item.items() if key not in _NO_ARGUMENTS and value is not None}
    check_json(found, where, depth=limits.json_depth)
    return found


def _answer(item: Json, kind: str, where: str, limits: Limits) -> Any:
    """The answer of a provider's tool: that, what went wrong, or how it ended."""
    if item.get("error") is not None:
        check_json(item["error"], f"{where}.error", depth=limits.json_depth)
        return item["error"]
    key = _ANSWER_KEYS[kind]
    # The provider sends results only if the request included them; the status is what remains.
    if item.get(key) is None:
        return read_optional_text(item.get("status"), f"{where}.status") or ""
    if kind == "image_generation_call":
        place = f"{where}.{key}"
        return [image_part(MediaSource(encoded=read_base64(item[key], place)), place)]
    check_json(item[key], f"{where}.{key}", depth=limits.json_depth)
    return item[key]


def _output(item: Json, where: str, limits: Limits) -> StoredJson:
    known = ("call_id", "output", "name", "tools", "acknowledged_safety_checks", "execution", "max_output_length")
    check_keys(item, where, (*_OF_MESSAGE, *known), _BOOKKEEPING)
    if item.get("name") in (None, ""):
        name = None
    else:
        name = read_tool_name(item["name"], f"{where}.name", limits)
    if item["type"] == "tool_search_output":
        key = "tools"
    else:
        key = "output"
    return tool_result_part(_call_id(item, where, limits), name, _outcome(item.get(key), f"{where}.{key}", limits))


def _outcome(raw: Any, where: str, limits: Limits) -> Any:
    if isinstance(raw, dict) and raw.get("type") == "computer_screenshot":
        return join_result(read_input_image_block({**raw, "type": "input_image"}, where, limits))
    if isinstance(raw, list) and all(isinstance(each, dict) and _is_known(each.get("type")) for each in raw):
        blocks = [RESPONSES_READERS[each["type"]](each, f"{where}[{index}]", limits) for index, each in enumerate(raw)]
        return join_result([part for block in blocks for part in block])
    check_json(raw, where, depth=limits.json_depth)
    return raw


def _is_known(kind: Any) -> bool:
    return isinstance(kind, str) and kind in RESPONSES_READERS


def read_written_text_block(block: Json, where: str, _limits: Limits) -> list[Json]:
    check_keys(block, where, ("type", "text"), PASSED_OVER)
    return [text_part(read_written(block.get("text"), f"{where}.text"))]


def read_input_image_block(block: Json, where: str, _limits: Limits) -> list[Json]:
    check_keys(block, where, ("type", "image_url", "file_id"), PASSED_OVER)
    if block.get("image_url") is None and block.get("file_id") is not None:
        file_id = read_text(block["file_id"], f"{where}.file_id")
        # The provider keeps the file, and knows its exact type.
        return [file_part(MediaSource(content_type="image/*"), where, metadata={"file_id": file_id})]
    return [image_part(read_url(block.get("image_url"), f"{where}.image_url"), where)]


def read_input_file_block(block: Json, where: str, _limits: Limits) -> list[Json]:
    check_keys(block, where, ("type", "file_data", "file_id", "file_url", "filename"), PASSED_OVER)
    file_id = read_optional_text(block.get("file_id"), f"{where}.file_id")
    data = read_optional_text(block.get("file_data"), f"{where}.file_data")
    if data is None:
        source = read_url(block.get("file_url"), f"{where}.file_url")
    elif data[:5].lower() == "data:":
        source = read_url(data, f"{where}.file_data")
    else:
        source = MediaSource(encoded=read_base64(data, f"{where}.file_data"))
    name = read_optional_text(block.get("filename"), f"{where}.filename")
    return [file_part(source, where, name=name, metadata={"file_id": file_id} if file_id else None)]


RESPONSES_READERS: dict[str, Reader] = {
    "input_text": read_written_text_block,
    "output_text": read_written_text_block,
    "input_image": read_input_image_block,
    "input_file": read_input_file_block,
}

OPAQUE_ITEMS = (
    "additional_tools",
    "compaction",
    "compaction_trigger",
    "mcp_approval_request",
    "mcp_approval_response",
    "mcp_list_tools",
    "program",
    "program_output",
)
"""Items that say nothing: kept as they are for the program that sent them, as messages of the role custom."""


def refuse_item(kind: Any, where: str) -> None:
    """Raises InvalidInput: an object whose type is that of no message."""
    if kind == "item_reference":
        raise InvalidInput(f"{where}.type: {kind} holds nothing that was said; send what it stands for")
    allowed = ("message", "custom", *RESPONSES_ITEMS)
    raise InvalidInput(
        f"{where}.type: unknown type of message {describe(kind)}; {describe_choices(kind, allowed)}, or no type"
    )
