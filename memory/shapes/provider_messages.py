"""A context as the messages that Anthropic, Gemini and Vercel's AI SDK take: the opposite of ``memory.parts.provider_shapes``
and ``memory.parts.ai_sdk_shape``.

Anthropic takes system blocks and messages. The rules of the API (its reference, the request models in the `anthropic`
package, and its refusals): the first message is a user's; the results of a message's calls begin the next one, all
together; no id of a call twice; no text without a visible character; no white space at the end of what an assistant says
last; thinking only as it was signed, and never as the end of a message.

Gemini takes a system instruction and contents. The rules of the API (its reference, the types of the `google-genai`
package, and its refusals): the first content is a user's; the responses to a content's calls are the next content, all of
them and nothing else; a response is an object; no part is empty; what a thought signed stands in the part that it came
with.

The AI SDK, versions 5 to 7, turns its model messages into the request of whichever provider, so they keep to what all take:
the first message is a user's; every call is answered by the message after it; images and PDF files from users only;
systems speak at the beginning.
"""

from collections.abc import Iterable, Iterator, Sequence
from mimetypes import guess_type
from typing import Any, NamedTuple

from layerlore.memory.parts.parts import result_parts, text_part
from layerlore.memory.parts.provider_shapes import GOOGLE
from layerlore.memory.parts.responses_shape import OPENAI
from layerlore.memory.shapes.exchanges import (
    BEGAN_EARLIER,
    PDF,
    CallIds,
    ContextLayout,
    Exchange,
    ProviderJson,
    describe_media,
    find_audio_format,
    find_image_type,
    find_path,
    is_base64,
    is_pdf,
    join_spoken,
    list_answer_texts,
    list_spoken,
    make_exchanges,
    make_tool_name,
    put_in_front,
    split_caption,
    tag_system,
)
from layerlore.storage.core import linear_re
from layerlore.storage.core.records import Json

_ANTHROPIC_CALL_IDS = linear_re.compile(r"[a-zA-Z0-9_-]+")
_ANTHROPIC_TOOL_NAME_CHARS = 128
_TITLE_CHARS = 500
_THINKING = ("thinking", "redacted_thinking")


class _SpokenBlock(NamedTuple):
    """A content block and whose it is."""

    role: str
    block: ProviderJson


def render_anthropic(laid: ContextLayout) -> ProviderJson:
    """{"system": [text blocks], "messages": [...]}; `system` is left out where nothing is in it.

    Predefined messages of the role system and the stable blocks are `system`, everything else is `messages`. The
    recalled block stands in front of the newest user message's own content. So do the volatile blocks if it is the last
    message; else they stand at the very end. A cache breakpoint is on the last system block, on the last block before
    the turn, on what is recalled, and on the last block of the assistant's in the turn.
    """
    tale = make_exchanges(laid, CallIds(_ANTHROPIC_CALL_IDS))
    system = [block for block in map(_anthropic_text, (*tale.system_texts, *laid.stable)) if _is_visible(block)]
    before = [said for step in (*tale.examples, *tale.before) for said in _speak_exchange(step)]
    turn = [said for step in tale.turn for said in _speak_exchange(step)]
    in_front, at_end = (
        [_SpokenBlock("user", _anthropic_text(text)) for text in texts] for texts in (tale.in_front, tale.at_end)
    )
    _mark_last(system)
    _mark_last([said.block for said in before])
    if tale.recalled:
        _mark_last([said.block for said in in_front[:1]])
    # A result may be cut once it is answered, so a cache keeps what stands before it.
    last_answer = max((at for at, said in enumerate(turn) if said.role == "assistant"), default=-1)
    _mark_last([said.block for said in turn[: last_answer + 1]])
    messages = _merge_anthropic(_drop_last_thoughts([*before, *in_front, *turn, *at_end]))
    if messages and messages[0]["role"] != "user":
        messages.insert(0, {"role": "user", "content": [_anthropic_text(BEGAN_EARLIER)]})
    return {**({"system": system} if system else {}), "messages": messages}


def _mark_last(blocks: Sequence[ProviderJson]) -> None:
    """A breakpoint on the last block that may carry one."""
    for block in reversed(blocks):
        if block["type"] not in _THINKING:
            block["cache_control"] = {"type": "ephemeral"}
            return


def _drop_last_thoughts(thread: Sequence[_SpokenBlock]) -> list[_SpokenBlock]:
    """Drop the thinking at the end of what an assistant says at once: a message cannot end with it."""
    kept: list[_SpokenBlock] = []
    for said in reversed(thread):
        if said.block["type"] in _THINKING and (not kept or kept[-1].role == "user"):
            continue
        kept.append(said)
    return kept[::-1]


def _merge_anthropic(thread: Iterable[_SpokenBlock]) -> list[ProviderJson]:
    messages: list[ProviderJson] = []
    for role, block in thread:
        if not messages or messages[-1]["role"] != role:
            messages.append({"role": role, "content": []})
        messages[-1]["content"].append(block)
    return messages


def _speak_exchange(step: Exchange) -> Iterator[_SpokenBlock]:
    if step.role == "system":
        spoken = join_spoken(step)
        if spoken.strip():
            yield _SpokenBlock("user", _anthropic_text(tag_system(spoken)))
        return
    named = step.name
    for part in step.said:
        block = _anthropic_block(part, step.role)
        if block is None or not _is_visible(block):
            continue
        # The API has no field for a speaker, so the first text names the speaker.
        if named and block["type"] == "text":
            block["text"], named = f"{named}: {block['text']}", None
        yield _SpokenBlock(step.role, block)
    for call in step.calls:
        name = make_tool_name(call["name"], _ANTHROPIC_TOOL_NAME_CHARS)
        yield _SpokenBlock(
            "assistant", {"type": "tool_use", "id": call["id"], "name": name, "input": call["arguments"]}
        )
    for result in step.results:
        yield _SpokenBlock("user", _anthropic_answer(result))


def _anthropic_text(text: str) -> ProviderJson:
    return {"type": "text", "text": text}


def _is_visible(block: ProviderJson) -> bool:
    return block["type"] != "text" or bool(block["text"].strip())


def _anthropic_block(part: Json, role: str) -> ProviderJson | None:
    """The block that says a part; none for a thought that is not signed, or not by Anthropic."""
    match part["type"]:
        case "text":
            # An assistant's last text may not end with white space.
            return _anthropic_text(part["text"].rstrip() if role == "assistant" else part["text"])
        # Anthropic refuses a thought with another provider's signature.
        case "reasoning" if "provider" in part:
            return None
        case "reasoning" if "data" in part:
            return {"type": "redacted_thinking", "data": part["data"]}
        case "reasoning" if "signature" in part:
            return {"type": "thinking", "thinking": part["text"], "signature": part["signature"]}
        case "reasoning":
            return None
        case _:
            return (_anthropic_media(part) if role == "user" else None) or _anthropic_text(describe_media(part))


def _anthropic_media(part: Json) -> ProviderJson | None:
    """An image or a document block, if the API takes such a thing."""
    if part["type"] == "image":
        source = _anthropic_source(part, find_image_type(part))
        return source and {"type": "image", "source": source}
    if is_pdf(part):
        source = _anthropic_source(part, PDF)
    else:
        source = None
    if part.get("file_name"):
        title = {"title": part["file_name"][:_TITLE_CHARS]}
    else:
        title = {}
    return source and {"type": "document", "source": source, **title}


def _anthropic_source(part: Json, media_type: str | None) -> ProviderJson | None:
    if "data" in part:
        if media_type:
            return {"type": "base64", "media_type": media_type, "data": part["data"]}
        return None
    url = part.get("url", "")
    if url.lower().startswith("https://"):
        return {"type": "url", "url": url}
    return None


def _anthropic_answer(part: Json) -> ProviderJson:
    """The block of a tool's result. A failure is text only, and never empty."""
    failed = bool(part.get("is_error"))
    if failed:
        inner = []
    else:
        inner = [each for entry in result_parts(part["result"]) for each in split_caption(entry)]
    answer: ProviderJson = {"type": "tool_result", "tool_use_id": part["tool_call_id"]}
    if any(entry["type"] != "text" for entry in inner):
        content = [block for entry in inner if _is_visible(block := _inner_block(entry))]
    else:
        content = [block for text in list_answer_texts(part) if _is_visible(block := _anthropic_text(text))]
    if len(content) == 1 and content[0]["type"] == "text":
        answer["content"] = content[0]["text"]
    elif content:
        answer["content"] = content
    if failed:
        return {**answer, "is_error": True}
    return answer


def _inner_block(part: Json) -> ProviderJson:
    if part["type"] == "text":
        return _anthropic_text(part["text"])
    # The data inside a tool's result was not checked when it was stored.
    sound = "data" not in part or is_base64(part)
    return (_anthropic_media(part) if sound else None) or _anthropic_text(describe_media(part))


_GEMINI_CALL_IDS = linear_re.compile(r".{1,255}", linear_re.DOTALL)
_GEMINI_TOOL_NAME_CHARS = 64
# Other providers also take GIF images; Gemini refuses them.
_IMAGES = ("image/png", "image/jpeg", "image/webp")


def render_gemini(laid: ContextLayout) -> ProviderJson:
    """{"systemInstruction": {"parts"}, "contents": [...]}; the first is left out where nothing is in it.

    Predefined messages of the role system and the stable blocks are the system instruction. The recalled block stands
    in front of the newest user message's own parts. So do the volatile blocks if it is the last message; else they
    stand at the very end.
    """
    tale = make_exchanges(laid, CallIds(_GEMINI_CALL_IDS))
    system = [{"text": text} for text in (*tale.system_texts, *laid.stable) if text.strip()]
    before = [content for step in (*tale.examples, *tale.before) for content in _gemini_contents(step)]
    turn = [content for step in tale.turn for content in _gemini_contents(step)]
    in_front, at_end = (
        [_gemini_content("user", [{"text": text}]) for text in texts] for texts in (tale.in_front, tale.at_end)
    )
    contents = _merge_gemini([*before, *in_front, *turn, *at_end])
    # Gemini wants words of a user first; responses to calls do not count as such.
    if contents and (contents[0]["role"] != "user" or _answers(contents[0])):
        contents.insert(0, _gemini_content("user", [{"text": BEGAN_EARLIER}]))
    return {**({"systemInstruction": {"parts": system}} if system else {}), "contents": contents}


def _gemini_content(role: str, parts: list[ProviderJson]) -> ProviderJson:
    return {"role": role, "parts": parts}


def _answers(content: ProviderJson) -> bool:
    return any("functionResponse" in part for part in content["parts"])


def _merge_gemini(thread: Iterable[ProviderJson]) -> list[ProviderJson]:
    """Consecutive messages of one speaker are one content; responses stay alone."""
    contents: list[ProviderJson] = []
    for content in thread:
        if contents:
            last = contents[-1]
        else:
            last = None
        if last and last["role"] == content["role"] and not _answers(last) and not _answers(content):
            last["parts"] = [*last["parts"], *content["parts"]]
        else:
            contents.append(content)
    return contents


def _gemini_contents(step: Exchange) -> Iterator[ProviderJson]:
    if step.role == "system":
        spoken = join_spoken(step)
        if spoken.strip():
            yield _gemini_content("user", [{"text": tag_system(spoken)}])
        return
    parts = [*_sign_gemini((*list_spoken(step), *step.calls), step.role)]
    if parts:
        yield _gemini_content("model" if step.role == "assistant" else "user", parts)
    if step.results:
        names = {call["id"]: _gemini_tool_name(call["name"]) for call in step.calls}
        yield _gemini_content("user", [_gemini_response(part, names[part["tool_call_id"]]) for part in step.results])


def _sign_gemini(said: Iterable[ProviderJson], role: str) -> Iterator[ProviderJson]:
    """The spoken parts, each with the signature that stood in front of it. Thoughts themselves are left out."""
    signature = None
    for part in said:
        if part["type"] == "reasoning":
            # Gemini refuses a signature of another provider.
            if part.get("provider") == GOOGLE:
                signature = part.get("signature")
            else:
                signature = None
            continue
        made = _gemini_part(part, role)
        if made is not None:
            yield {**made, "thoughtSignature": signature} if signature else made
            # A signature belongs to the next part alone.
            signature = None


def _gemini_part(part: Json, role: str) -> ProviderJson | None:
    if part["type"] == "text":
        if part["text"].strip():
            return {"text": part["text"]}
        return None
    if part["type"] == "tool_call":
        return {"functionCall": {"id": part["id"], "name": _gemini_tool_name(part["name"]), "args": part["arguments"]}}
    return (_gemini_media(part) if role == "user" else None) or {"text": describe_media(part)}


def _gemini_tool_name(name: str) -> str:
    """A name of theirs begins with a letter or an underscore."""
    made = make_tool_name(name, _GEMINI_TOOL_NAME_CHARS)
    if made[0].isalpha() or made[0] == "_":
        return made
    # The space forces a digest, so that the new name cannot equal another tool's.
    return make_tool_name(f"_ {name}", _GEMINI_TOOL_NAME_CHARS)


def _gemini_media(part: Json) -> ProviderJson | None:
    kind = _find_type(part)
    if kind is None:
        return None
    if "data" in part:
        return {"inlineData": {"mimeType": kind, "data": part["data"]}}
    url = part.get("url", "")
    if url.lower().startswith(("https://", "gs://")):
        return {"fileData": {"mimeType": kind, "fileUri": url}}
    return None


def _find_type(part: Json) -> str | None:
    """The type of an image, a PDF file or a sound that Gemini takes."""
    if part["type"] == "image":
        found = find_image_type(part) or guess_type(find_path(part.get("url", "")))[0]
        if found in _IMAGES:
            return found
        return None
    if is_pdf(part):
        return PDF
    sound = find_audio_format(part)
    if sound:
        return f"audio/{sound}"
    return None


def _gemini_response(part: Json, name: str) -> ProviderJson:
    """A tool's answer: its object, or {"output": ...}; {"error": ...} where it failed."""
    result: Any = part["result"]
    if result_parts(result) or part.get("is_error"):
        result = "\n".join(list_answer_texts(part))
    if part.get("is_error"):
        response: ProviderJson = {"error": result}
    # A result that looks like a wrapper is wrapped once more, so that reading it back gives the same.
    elif isinstance(result, dict) and result.keys() not in ({"output"}, {"error"}):
        response = result
    else:
        response = {"output": result}
    return {"functionResponse": {"id": part["tool_call_id"], "name": name, "response": response}}


_AI_SDK_CALL_IDS = linear_re.compile(r"[a-zA-Z0-9_-]{1,40}")
_AI_SDK_TOOL_NAME_CHARS = 64


def render_ai_sdk(laid: ContextLayout) -> ProviderJson:
    """{"system": text, "messages": [...]}; `system` is left out where nothing is in it.

    Predefined messages of the role system and the stable blocks are `system`. The recalled block stands in front of the
    newest user message's own content. So do the volatile blocks if it is the last message; else they stand in a user
    message at the end.
    """
    tale = make_exchanges(laid, CallIds(_AI_SDK_CALL_IDS))
    system = "\n\n".join(text for text in (*tale.system_texts, *laid.stable) if text.strip())
    before = [message for step in (*tale.examples, *tale.before) for message in _ai_sdk_messages(step)]
    turn = [message for step in tale.turn for message in _ai_sdk_messages(step)]
    in_front, at_end = ("\n\n".join(texts) for texts in (tale.in_front, tale.at_end))
    if in_front and turn and turn[0]["role"] == "user":
        turn[0]["content"] = put_in_front(in_front, turn[0]["content"])
    elif in_front:
        # The user's message had nothing that can be said.
        before.append({"role": "user", "content": in_front})
    messages = [*before, *turn]
    if at_end:
        messages.append({"role": "user", "content": at_end})
    if messages and messages[0]["role"] != "user":
        messages.insert(0, {"role": "user", "content": BEGAN_EARLIER})
    return {**({"system": system} if system else {}), "messages": messages}


def _ai_sdk_messages(step: Exchange) -> Iterator[ProviderJson]:
    if step.role == "system":
        spoken = join_spoken(step)
        if spoken.strip():
            yield {"role": "user", "content": tag_system(spoken)}
        return
    content = [*_sign_ai_sdk(step)]
    # Providers refuse a message of reasoning alone.
    if any(part["type"] != "reasoning" for part in content):
        alone = len(content) == 1 and content[0].keys() == {"type", "text"}
        yield {"role": step.role, "content": content[0]["text"] if alone else content}
    if step.results:
        names = {call["id"]: make_tool_name(call["name"], _AI_SDK_TOOL_NAME_CHARS) for call in step.calls}
        yield {"role": "tool", "content": [_ai_sdk_result(part, names[part["tool_call_id"]]) for part in step.results]}


def _sign_ai_sdk(step: Exchange) -> Iterator[ProviderJson]:
    """The parts of a step. A part signed by Google carries the signature itself; OpenAI and Anthropic put theirs into
    a thought."""
    signature = None
    for part in (*list_spoken(step), *step.calls):
        if part["type"] == "reasoning" and part.get("provider") == GOOGLE:
            signature = part.get("signature")
            continue
        made = _ai_sdk_part(part, step.role)
        if made is None:
            continue
        if signature and part["type"] != "reasoning":
            made, signature = {**made, "providerOptions": {GOOGLE: {"thoughtSignature": signature}}}, None
        yield made


def _ai_sdk_part(part: Json, role: str) -> ProviderJson | None:
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
            name = make_tool_name(part["name"], _AI_SDK_TOOL_NAME_CHARS)
            return {"type": "tool-call", "toolCallId": part["id"], "toolName": name, "input": part["arguments"]}
        case _:
            return (_ai_sdk_media(part) if role == "user" else None) or text_part(describe_media(part))


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


def _ai_sdk_media(part: Json) -> ProviderJson | None:
    url = part.get("url", "")
    source = part.get("data") or (url if url.lower().startswith("https://") else None)
    if not source:
        return None
    if part["type"] == "image":
        kind = find_image_type(part)
        # A provider refuses bytes that are no image of a known type.
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


def _ai_sdk_result(part: Json, name: str) -> ProviderJson:
    """A tool's answer: text as text, JSON as JSON, a note for each image and file."""
    result = part["result"]
    if part.get("is_error"):
        output: ProviderJson = {"type": "error-text", "value": "\n".join(list_answer_texts(part))}
    elif isinstance(result, str) or result_parts(result):
        output = {"type": "text", "value": "\n".join(list_answer_texts(part))}
    else:
        output = {"type": "json", "value": result}
    return {"type": "tool-result", "toolCallId": part["tool_call_id"], "toolName": name, "output": output}
