"""A context as OpenAI's chat messages, and as the input items of its Responses API."""

from collections.abc import Iterable, Iterator

from layerlore.memory.parts.parts import result_parts, says_something, text_part
from layerlore.memory.parts.responses_shape import OPENAI
from layerlore.memory.shapes.exchanges import (
    PDF,
    CallIds,
    ContextLayout,
    Exchange,
    ProviderJson,
    describe_media,
    find_audio_format,
    find_openai_file,
    is_base64,
    is_pdf,
    list_answer_texts,
    list_spoken,
    make_exchanges,
    make_image_url,
    make_tool_name,
    put_in_front,
    render_arguments,
    split_caption,
)
from layerlore.storage.core import linear_re
from layerlore.storage.core.records import Json

# OpenAI takes ids of calls up to 40 characters in chat messages, and names of tools up to 64.
_CALL_IDS = linear_re.compile(r".{1,40}", linear_re.DOTALL)
_TOOL_NAME_CHARS = 64
_SPEAKERS = linear_re.compile(r"[a-zA-Z0-9_-]{1,64}")


def render_openai(laid: ContextLayout) -> list[ProviderJson]:
    """Messages for `chat.completions`: predefined messages, one system message with the stable blocks, the thread.

    The recalled block stands in front of the newest user message's own words. So do the volatile blocks if it is the
    last message, so that it stays the last thing said; else they stand in a user message of their own at the end: all
    that a prompt cache can keep stands before them.
    """
    tale = make_exchanges(laid, CallIds(_CALL_IDS))
    messages = [message for step in tale.predefined for message in _messages(step)]
    if laid.stable_text:
        messages.append({"role": "system", "content": laid.stable_text})
    messages += [message for step in tale.before for message in _messages(step)]
    turn = [message for step in tale.turn for message in _messages(step)]
    if tale.in_front:
        turn[0]["content"] = put_in_front("\n\n".join(tale.in_front), turn[0]["content"])
    if tale.at_end:
        turn.append({"role": "user", "content": "\n\n".join(tale.at_end)})
    return [*messages, *turn]


def _messages(step: Exchange) -> list[ProviderJson]:
    """The message that a step is, and one for each result; nothing if all it held was reasoning."""
    blocks = [_block(part, step) for part in step.said if part["type"] != "reasoning"]
    if not blocks and not step.calls:
        return []
    message: ProviderJson = {"role": step.role}
    # The API takes few characters in a name; any other name goes into the text.
    if step.name and _SPEAKERS.fullmatch(step.name):
        message["name"] = step.name
    elif step.name:
        _name_speaker(step.name, blocks)
    message["content"] = _content(blocks)
    if step.calls:
        message["tool_calls"] = [_call(part) for part in step.calls]
    return [message, *({"role": "tool", **_answer(part)} for part in step.results)]


def _name_speaker(name: str, blocks: list[ProviderJson]) -> None:
    for index, block in enumerate(blocks):
        if block["type"] == "text":
            blocks[index] = text_part(f"{name}: {block['text']}")
            return


def _content(blocks: list[ProviderJson]) -> str | list[ProviderJson] | None:
    if len(blocks) == 1 and blocks[0]["type"] == "text":
        return str(blocks[0]["text"])
    return blocks or None


def _block(part: Json, step: Exchange) -> ProviderJson:
    if part["type"] == "text":
        return text_part(part["text"])
    shown = None
    # Only a user's message may hold media. Elsewhere a note stands for them.
    if step.role == "user":
        if part["type"] == "image":
            shown = _image(part)
        else:
            shown = _file(part)
    return shown or text_part(describe_media(part))


def _image(part: Json) -> ProviderJson | None:
    url = make_image_url(part)
    if url:
        return {"type": "image_url", "image_url": {"url": url}}
    return None


def _file(part: Json) -> ProviderJson | None:
    sound = find_audio_format(part)
    if sound:
        return {"type": "input_audio", "input_audio": {"data": part["data"], "format": sound}}
    file_id = find_openai_file(part)
    if file_id:
        return {"type": "file", "file": {"file_id": file_id}}
    if "data" in part and is_pdf(part):
        named = part.get("file_name", "file.pdf")
        return {"type": "file", "file": {"file_data": f"data:{PDF};base64,{part['data']}", "filename": named}}
    return None


def _call(part: Json) -> ProviderJson:
    function = {
        "name": make_tool_name(part["name"], _TOOL_NAME_CHARS),
        "arguments": render_arguments(part["arguments"]),
    }
    return {"id": part["id"], "type": "function", "function": function}


def _answer(part: Json) -> ProviderJson:
    blocks = [text_part(text) for text in list_answer_texts(part)]
    return {"tool_call_id": part["tool_call_id"], "content": _content(blocks) or ""}


# The Responses API takes longer ids than chat messages do.
_ITEM_CALL_IDS = linear_re.compile(r".{1,64}", linear_re.DOTALL)


def render_responses(laid: ContextLayout) -> list[ProviderJson]:
    """Items for `input`: predefined messages, one system message with the stable blocks, the thread.

    The recalled and the volatile blocks stand where ``render_openai`` has them.
    """
    tale = make_exchanges(laid, CallIds(_ITEM_CALL_IDS))
    items = [item for step in tale.predefined for item in _items(step)]
    if laid.stable_text:
        items.append(_message("system", laid.stable_text))
    items += [item for step in tale.before for item in _items(step)]
    turn = [item for step in tale.turn for item in _items(step)]
    if tale.in_front:
        turn[0]["content"] = put_in_front("\n\n".join(tale.in_front), turn[0]["content"], _input_text)
    items = _drop_last_thoughts([*items, *turn])
    if tale.at_end:
        items.append(_message("user", "\n\n".join(tale.at_end)))
    return items


def _drop_last_thoughts(items: Iterable[ProviderJson]) -> list[ProviderJson]:
    """Drop the reasoning that nothing of the assistant's follows: the API refuses it alone."""
    kept: list[ProviderJson] = []
    for item in reversed([*items]):
        if item["type"] == "reasoning" and not (kept and _is_assistants(kept[-1])):
            continue
        kept.append(item)
    return kept[::-1]


def _is_assistants(item: ProviderJson) -> bool:
    return item["type"] in ("reasoning", "function_call") or item.get("role") == "assistant"


def _message(role: str, content: str | list[ProviderJson]) -> ProviderJson:
    return {"type": "message", "role": role, "content": content}


def _items(step: Exchange) -> Iterator[ProviderJson]:
    spoken = list_spoken(step)
    if step.role == "assistant":
        for part in spoken:
            item = _said(part)
            if item is not None:
                yield item
    elif spoken:
        yield _message(step.role, _make_item_content([_make_item_block(part, step.role) for part in spoken]))
    for call in step.calls:
        name = make_tool_name(call["name"], _TOOL_NAME_CHARS)
        arguments = render_arguments(call["arguments"])
        yield {"type": "function_call", "call_id": call["id"], "name": name, "arguments": arguments}
    for result in step.results:
        yield {"type": "function_call_output", "call_id": result["tool_call_id"], "output": _output(result)}


def _said(part: Json) -> ProviderJson | None:
    """The text of an assistant, and its thoughts if OpenAI can read them again."""
    if part["type"] != "reasoning":
        return _message("assistant", part["text"] if part["type"] == "text" else describe_media(part))
    # The API refuses a thought without its id and its encrypted content.
    if part.get("provider") != OPENAI or not {"id", "data"} <= part.keys():
        return None
    # The key ``summary`` is required, also without a text.
    if part["text"]:
        summary = [{"type": "summary_text", "text": part["text"]}]
    else:
        summary = []
    return {"type": "reasoning", "id": part["id"], "summary": summary, "encrypted_content": part["data"]}


def _make_item_content(blocks: list[ProviderJson]) -> str | list[ProviderJson]:
    if len(blocks) == 1 and blocks[0]["type"] == "input_text":
        return str(blocks[0]["text"])
    return blocks


def _input_text(text: str) -> ProviderJson:
    return {"type": "input_text", "text": text}


def _make_item_block(part: Json, role: str) -> ProviderJson:
    if part["type"] == "text":
        return _input_text(part["text"])
    return (_media(part) if role == "user" else None) or _input_text(describe_media(part))


def _media(part: Json) -> ProviderJson | None:
    if part["type"] == "image":
        url = make_image_url(part)
        if url:
            return {"type": "input_image", "detail": "auto", "image_url": url}
        return None
    file_id = find_openai_file(part)
    if file_id:
        return {"type": "input_file", "file_id": file_id}
    if not is_pdf(part):
        return None
    if "data" in part:
        data = f"data:{PDF};base64,{part['data']}"
        return {"type": "input_file", "file_data": data, "filename": part.get("file_name") or "file.pdf"}
    url = part.get("url", "")
    if url.lower().startswith("https://"):
        return {"type": "input_file", "file_url": url}
    return None


def _output(part: Json) -> str | list[ProviderJson]:
    """The answer of a tool, with images and files, unless it failed."""
    if part.get("is_error"):
        inner = []
    else:
        said = filter(says_something, result_parts(part["result"]))
        inner = [each for entry in said for each in split_caption(entry)]
    if all(entry["type"] == "text" for entry in inner):
        return _make_item_content([_input_text(text) for text in list_answer_texts(part)]) or ""
    blocks = [_input_text(entry["text"]) if entry["type"] == "text" else _shown(entry) for entry in inner]
    return _make_item_content(blocks)


def _shown(part: Json) -> ProviderJson:
    # Nobody checked what is inside a tool's result.
    sound = "data" not in part or is_base64(part)
    return (_media(part) if sound else None) or _input_text(describe_media(part))
