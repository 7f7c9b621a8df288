"""A context as the list of messages that OpenAI's chat completions take: the opposite of ``memory.parts.openai_shape``.

What the API asks for (its reference, and the request models in the `openai` package): a message of the role `tool` for
every call directly after the message that made it; images, PDF files and sounds from users only; ids of calls of at
most 40 characters. Reasoning is left out, as the API has no place for it.
"""

from layerlore.memory.parts.parts import text_part
from layerlore.memory.shapes.exchanges import CallIds, Exchange, make_exchanges, make_tool_name
from layerlore.memory.shapes.layout import ContextLayout
from layerlore.memory.shapes.provider_parts import (
    PDF,
    ProviderJson,
    describe_media,
    find_audio_format,
    find_openai_file,
    is_pdf,
    list_answer_texts,
    make_image_url,
    put_in_front,
    render_arguments,
)
from layerlore.storage.core import linear_re
from layerlore.storage.core.records import Json

_CALL_IDS = linear_re.compile(r".{1,40}", linear_re.DOTALL)
_TOOL_NAME_CHARS = 64
_SPEAKERS = linear_re.compile(r"[a-zA-Z0-9_-]{1,64}")


def render_openai(laid: ContextLayout) -> list[ProviderJson]:
    """Messages for `chat.completions`: predefined messages, one system message with the stable blocks, the thread.

    The volatile blocks stand in front of the newest user message's own words if it is the last message, so that it
    stays the last thing said, and else in a user message of their own at the end: all that a prompt cache can keep
    stands before them.
    """
    tale = make_exchanges(laid, CallIds(_CALL_IDS))
    messages = [message for step in tale.predefined for message in _messages(step)]
    if laid.stable_text:
        messages.append({"role": "system", "content": laid.stable_text})
    messages += [message for step in (*tale.before, *tale.turn) for message in _messages(step)]
    if laid.volatile_text and tale.ends_with_question:
        messages[-1]["content"] = put_in_front(laid.volatile_text, messages[-1]["content"])
    elif laid.volatile_text:
        messages.append({"role": "user", "content": laid.volatile_text})
    return messages


def _messages(step: Exchange) -> list[ProviderJson]:
    """The message that a step is, and one for each result; nothing if all it held was reasoning."""
    blocks = [_block(part, step) for part in step.said if part["type"] != "reasoning"]
    if not blocks and not step.calls:
        return []
    message: ProviderJson = {"role": step.role}
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
    if step.role == "user":
        shown = _image(part) if part["type"] == "image" else _file(part)
    return shown or text_part(describe_media(part))


def _image(part: Json) -> ProviderJson | None:
    url = make_image_url(part)
    return {"type": "image_url", "image_url": {"url": url}} if url else None


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
