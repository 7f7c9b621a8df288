"""A context as the system text and the model messages of Vercel's AI SDK, versions 5 to 7: the opposite of
``memory.parts.ai_sdk_shape``.

The SDK turns them into the request of whichever provider, so they keep to what all take: the first message is a user's;
every call is answered by the message after it; images and PDF files from users only; systems speak at the beginning.
"""

from collections.abc import Iterator

from layerlore.memory.parts.gemini_shape import GOOGLE
from layerlore.memory.parts.parts import result_parts, text_part
from layerlore.memory.parts.responses_shape import OPENAI
from layerlore.memory.shapes.exchanges import (
    BEGAN_EARLIER,
    PDF,
    CallIds,
    ContextLayout,
    Exchange,
    ProviderJson,
    describe_media,
    find_image_type,
    is_pdf,
    join_spoken,
    list_answer_texts,
    list_spoken,
    make_exchanges,
    make_tool_name,
    put_in_front,
    tag_system,
)
from layerlore.storage.core import linear_re
from layerlore.storage.core.records import Json

_CALL_IDS = linear_re.compile(r"[a-zA-Z0-9_-]{1,40}")
_TOOL_NAME_CHARS = 64


def render_ai_sdk(laid: ContextLayout) -> ProviderJson:
    """{"system": text, "messages": [...]}; `system` is left out where nothing is in it.

    Predefined messages of the role system and the stable blocks are `system`. The volatile blocks stand in front of the
    newest user message's own content if it is the last message, and else in a user message at the end.
    """
    tale = make_exchanges(laid, CallIds(_CALL_IDS))
    system = "\n\n".join(text for text in (*tale.system_texts, *laid.stable) if text.strip())
    before = [message for step in (*tale.examples, *tale.before) for message in _messages(step)]
    turn = [message for step in tale.turn for message in _messages(step)]
    messages = [*before, *turn]
    if laid.volatile_text and tale.ends_with_question and turn:
        turn[-1]["content"] = put_in_front(laid.volatile_text, turn[-1]["content"])
    elif laid.volatile_text:
        messages.append({"role": "user", "content": laid.volatile_text})
    if messages and messages[0]["role"] != "user":
        messages.insert(0, {"role": "user", "content": BEGAN_EARLIER})
    return {**({"system": system} if system else {}), "messages": messages}


def _messages(step: Exchange) -> Iterator[ProviderJson]:
    if step.role == "system":
        spoken = join_spoken(step)
        if spoken.strip():
            yield {"role": "user", "content": tag_system(spoken)}
        return
    content = [*_sign(step)]
    if any(part["type"] != "reasoning" for part in content):
        alone = len(content) == 1 and content[0].keys() == {"type", "text"}
        yield {"role": step.role, "content": content[0]["text"] if alone else content}
    if step.results:
        names = {call["id"]: make_tool_name(call["name"], _TOOL_NAME_CHARS) for call in step.calls}
        yield {"role": "tool", "content": [_result(part, names[part["tool_call_id"]]) for part in step.results]}


def _sign(step: Exchange) -> Iterator[ProviderJson]:
    """The parts of a step. A part signed by Google carries the signature itself; OpenAI and Anthropic put theirs into
    a thought."""
    signature = None
    for part in (*list_spoken(step), *step.calls):
        if part["type"] == "reasoning" and part.get("provider") == GOOGLE:
            signature = part.get("signature")
            continue
        made = _part(part, step.role)
        if made is None:
            continue
        if signature and part["type"] != "reasoning":
            made, signature = {**made, "providerOptions": {GOOGLE: {"thoughtSignature": signature}}}, None
        yield made


def _part(part: Json, role: str) -> ProviderJson | None:
    match part["type"]:
        case "text":
            if part["text"].strip():
                return text_part(part["text"])
            return None
        case "reasoning":
            options = _thought_options(part)
            if options:
                return {"type": "reasoning", "text": part["text"], "providerOptions": options}
            return None
        case "tool_call":
            name = make_tool_name(part["name"], _TOOL_NAME_CHARS)
            return {"type": "tool-call", "toolCallId": part["id"], "toolName": name, "input": part["arguments"]}
        case _:
            return (_media(part) if role == "user" else None) or text_part(describe_media(part))


def _thought_options(part: Json) -> ProviderJson | None:
    """The fields that a provider wants back with a thought; none if it would refuse the thought."""
    if part.get("provider") == OPENAI:
        kept = {"itemId": part.get("id"), "reasoningEncryptedContent": part.get("data")}
        if all(kept.values()):
            return {OPENAI: kept}
        return None
    if "data" in part:
        return {"anthropic": {"redactedData": part["data"]}}
    if "signature" in part:
        return {"anthropic": {"signature": part["signature"]}}
    return None


def _media(part: Json) -> ProviderJson | None:
    url = part.get("url", "")
    source = part.get("data") or (url if url.lower().startswith("https://") else None)
    if not source:
        return None
    if part["type"] == "image":
        kind = find_image_type(part)
        if "data" in part and kind is None:
            return None
        return {"type": "file", "data": source, "mediaType": kind or "image/*"}
    if not is_pdf(part):
        return None
    if part.get("file_name"):
        named = {"filename": part["file_name"]}
    else:
        named = {}
    return {"type": "file", "data": source, "mediaType": PDF, **named}


def _result(part: Json, name: str) -> ProviderJson:
    """A tool's answer: text as text, JSON as JSON, a note for each image and file."""
    result = part["result"]
    if part.get("is_error"):
        output: ProviderJson = {"type": "error-text", "value": "\n".join(list_answer_texts(part))}
    elif isinstance(result, str) or result_parts(result):
        output = {"type": "text", "value": "\n".join(list_answer_texts(part))}
    else:
        output = {"type": "json", "value": result}
    return {"type": "tool-result", "toolCallId": part["tool_call_id"], "toolName": name, "output": output}
