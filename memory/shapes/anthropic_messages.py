"""A context as the system blocks and the messages that Anthropic's API takes: the opposite of
``memory.parts.anthropic_shape``.

The rules of the API (its reference, the request models in the `anthropic` package, and its refusals): the first
message is a user's; the results of a message's calls begin the next one, all together; no id of a call twice; no text
without a visible character; no white space at the end of what an assistant says last; thinking only as it was signed,
and never as the end of a message.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from layerlore.memory.parts.parts import result_parts
from layerlore.memory.shapes.exchanges import (
    BEGAN_EARLIER,
    PDF,
    CallIds,
    ContextLayout,
    Exchange,
    ProviderJson,
    describe_media,
    find_image_type,
    is_base64,
    is_pdf,
    join_spoken,
    list_answer_texts,
    make_exchanges,
    make_tool_name,
    tag_system,
)
from layerlore.storage.core import linear_re
from layerlore.storage.core.records import Json

_CALL_IDS = linear_re.compile(r"[a-zA-Z0-9_-]+")
_TOOL_NAME_CHARS = 128
_TITLE_CHARS = 500
_THINKING = ("thinking", "redacted_thinking")


class _SpokenBlock(NamedTuple):
    """A content block and whose it is."""

    role: str
    block: ProviderJson


def render_anthropic(laid: ContextLayout) -> ProviderJson:
    """{"system": [text blocks], "messages": [...]}; `system` is left out where nothing is in it.

    Predefined messages of the role system and the stable blocks are `system`, everything else is `messages`. The
    volatile blocks stand in front of the newest user message's own content if it is the last message, and else at the
    very end. A cache breakpoint is on the last system block, on the last block before the turn, and, where messages
    follow the newest user message, on the last one before the volatile blocks.
    """
    tale = make_exchanges(laid, CallIds(_CALL_IDS))
    system = [block for block in map(_text, (*tale.system_texts, *laid.stable)) if _is_visible(block)]
    before = [said for step in (*tale.examples, *tale.before) for said in _speak_exchange(step)]
    turn = [said for step in tale.turn for said in _speak_exchange(step)]
    recalled = _text(laid.volatile_text)
    if _is_visible(recalled):
        volatile = [_SpokenBlock("user", recalled)]
    else:
        volatile = []
    _mark_last(system)
    _mark_last([said.block for said in before])
    if not tale.ends_with_question:
        _mark_last([said.block for said in turn])
    messages = _merge(_drop_last_thoughts(tale.place_volatile(before, volatile, turn)))
    if messages and messages[0]["role"] != "user":
        messages.insert(0, {"role": "user", "content": [_text(BEGAN_EARLIER)]})
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


def _merge(thread: Iterable[_SpokenBlock]) -> list[ProviderJson]:
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
            yield _SpokenBlock("user", _text(tag_system(spoken)))
        return
    named = step.name
    for part in step.said:
        block = _block(part, step.role)
        if block is None or not _is_visible(block):
            continue
        if named and block["type"] == "text":
            block["text"], named = f"{named}: {block['text']}", None
        yield _SpokenBlock(step.role, block)
    for call in step.calls:
        name = make_tool_name(call["name"], _TOOL_NAME_CHARS)
        yield _SpokenBlock(
            "assistant", {"type": "tool_use", "id": call["id"], "name": name, "input": call["arguments"]}
        )
    for result in step.results:
        yield _SpokenBlock("user", _answer(result))


def _text(text: str) -> ProviderJson:
    return {"type": "text", "text": text}


def _is_visible(block: ProviderJson) -> bool:
    return block["type"] != "text" or bool(block["text"].strip())


def _block(part: Json, role: str) -> ProviderJson | None:
    """The block that says a part; none for a thought that is not signed, or not by Anthropic."""
    match part["type"]:
        case "text":
            # An assistant's last text may not end with white space.
            return _text(part["text"].rstrip() if role == "assistant" else part["text"])
        case "reasoning" if "provider" in part:
            return None
        case "reasoning" if "data" in part:
            return {"type": "redacted_thinking", "data": part["data"]}
        case "reasoning" if "signature" in part:
            return {"type": "thinking", "thinking": part["text"], "signature": part["signature"]}
        case "reasoning":
            return None
        case _:
            return (_media(part) if role == "user" else None) or _text(describe_media(part))


def _media(part: Json) -> ProviderJson | None:
    """An image or a document block, if the API takes such a thing."""
    if part["type"] == "image":
        source = _source(part, find_image_type(part))
        return source and {"type": "image", "source": source}
    if is_pdf(part):
        source = _source(part, PDF)
    else:
        source = None
    if part.get("file_name"):
        title = {"title": part["file_name"][:_TITLE_CHARS]}
    else:
        title = {}
    return source and {"type": "document", "source": source, **title}


def _source(part: Json, media_type: str | None) -> ProviderJson | None:
    if "data" in part:
        if media_type:
            return {"type": "base64", "media_type": media_type, "data": part["data"]}
        return None
    url = part.get("url", "")
    if url.lower().startswith("https://"):
        return {"type": "url", "url": url}
    return None


def _answer(part: Json) -> ProviderJson:
    """The block of a tool's result. A failure is text only, and never empty."""
    failed = bool(part.get("is_error"))
    if failed:
        inner = []
    else:
        inner = result_parts(part["result"])
    answer: ProviderJson = {"type": "tool_result", "tool_use_id": part["tool_call_id"]}
    if any(entry["type"] != "text" for entry in inner):
        content = [block for entry in inner if _is_visible(block := _inner_block(entry))]
    else:
        content = [block for text in list_answer_texts(part) if _is_visible(block := _text(text))]
    if len(content) == 1 and content[0]["type"] == "text":
        answer["content"] = content[0]["text"]
    elif content:
        answer["content"] = content
    if failed:
        return {**answer, "is_error": True}
    return answer


def _inner_block(part: Json) -> ProviderJson:
    if part["type"] == "text":
        return _text(part["text"])
    sound = "data" not in part or is_base64(part)
    return (_media(part) if sound else None) or _text(describe_media(part))
