"""A context as the system instruction and the contents that Gemini takes: the opposite of ``memory.parts.gemini_shape``.

The rules of the API (its reference, the types of the `google-genai` package, and its refusals): the first content is a
user's; the responses to a content's calls are the next content, all of them and nothing else; a response is an object; no
part is empty; what a thought signed stands in the part that it came with.
"""

from collections.abc import Iterable, Iterator
from mimetypes import guess_type
from typing import Any
from urllib.parse import urlsplit

from layerlore.memory.parts.gemini_shape import GOOGLE
from layerlore.memory.parts.parts import result_parts
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
    is_pdf,
    join_spoken,
    list_answer_texts,
    list_spoken,
    make_exchanges,
    make_tool_name,
    tag_system,
)
from layerlore.storage.core import linear_re
from layerlore.storage.core.records import Json

_CALL_IDS = linear_re.compile(r".{1,255}", linear_re.DOTALL)
_TOOL_NAME_CHARS = 64
_IMAGES = ("image/png", "image/jpeg", "image/webp")
_URLS = ("https://", "gs://")


def render_gemini(laid: ContextLayout) -> ProviderJson:
    """{"systemInstruction": {"parts"}, "contents": [...]}; the first is left out where nothing is in it.

    Predefined messages of the role system and the stable blocks are the system instruction. The volatile blocks stand
    in front of the newest user message's own parts if it is the last message, and else at the very end.
    """
    tale = make_exchanges(laid, CallIds(_CALL_IDS))
    system = [{"text": text} for text in (*tale.system_texts, *laid.stable) if text.strip()]
    before = [content for step in (*tale.examples, *tale.before) for content in _contents(step)]
    turn = [content for step in tale.turn for content in _contents(step)]
    if laid.volatile_text.strip():
        volatile = [_content("user", [{"text": laid.volatile_text}])]
    else:
        volatile = []
    contents = _merge(tale.place_volatile(before, volatile, turn))
    if contents and (contents[0]["role"] != "user" or _answers(contents[0])):
        contents.insert(0, _content("user", [{"text": BEGAN_EARLIER}]))
    return {**({"systemInstruction": {"parts": system}} if system else {}), "contents": contents}


def _content(role: str, parts: list[ProviderJson]) -> ProviderJson:
    return {"role": role, "parts": parts}


def _answers(content: ProviderJson) -> bool:
    return any("functionResponse" in part for part in content["parts"])


def _merge(thread: Iterable[ProviderJson]) -> list[ProviderJson]:
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


def _contents(step: Exchange) -> Iterator[ProviderJson]:
    if step.role == "system":
        spoken = join_spoken(step)
        if spoken.strip():
            yield _content("user", [{"text": tag_system(spoken)}])
        return
    parts = [*_sign((*list_spoken(step), *step.calls), step.role)]
    if parts:
        yield _content("model" if step.role == "assistant" else "user", parts)
    if step.results:
        names = {call["id"]: _tool_name(call["name"]) for call in step.calls}
        yield _content("user", [_response(part, names[part["tool_call_id"]]) for part in step.results])


def _sign(said: Iterable[ProviderJson], role: str) -> Iterator[ProviderJson]:
    """The spoken parts, each with the signature that stood in front of it. Thoughts themselves are left out."""
    signature = None
    for part in said:
        if part["type"] == "reasoning":
            if part.get("provider") == GOOGLE:
                signature = part.get("signature")
            else:
                signature = None
            continue
        made = _part(part, role)
        if made is not None:
            yield {**made, "thoughtSignature": signature} if signature else made
            signature = None


def _part(part: Json, role: str) -> ProviderJson | None:
    if part["type"] == "text":
        if part["text"].strip():
            return {"text": part["text"]}
        return None
    if part["type"] == "tool_call":
        return {"functionCall": {"id": part["id"], "name": _tool_name(part["name"]), "args": part["arguments"]}}
    return (_media(part) if role == "user" else None) or {"text": describe_media(part)}


def _tool_name(name: str) -> str:
    """A name of theirs begins with a letter or an underscore."""
    made = make_tool_name(name, _TOOL_NAME_CHARS)
    if made[0].isalpha() or made[0] == "_":
        return made
    return make_tool_name(f"_ {name}", _TOOL_NAME_CHARS)


def _media(part: Json) -> ProviderJson | None:
    kind = _find_type(part)
    if kind is None:
        return None
    if "data" in part:
        return {"inlineData": {"mimeType": kind, "data": part["data"]}}
    url = part.get("url", "")
    if url.lower().startswith(_URLS):
        return {"fileData": {"mimeType": kind, "fileUri": url}}
    return None


def _find_type(part: Json) -> str | None:
    """The type of an image, a PDF file or a sound that Gemini takes."""
    if part["type"] == "image":
        found = find_image_type(part) or guess_type(_path(part.get("url", "")))[0]
        if found in _IMAGES:
            return found
        return None
    if is_pdf(part):
        return PDF
    sound = find_audio_format(part)
    if sound:
        return f"audio/{sound}"
    return None


def _path(url: str) -> str:
    try:
        return urlsplit(url).path
    except ValueError:
        return ""


def _response(part: Json, name: str) -> ProviderJson:
    """A tool's answer: its object, or {"output": ...}; {"error": ...} where it failed."""
    result: Any = part["result"]
    if result_parts(result) or part.get("is_error"):
        result = "\n".join(list_answer_texts(part))
    if part.get("is_error"):
        response: ProviderJson = {"error": result}
    elif isinstance(result, dict) and result.keys() not in ({"output"}, {"error"}):
        response = result
    else:
        response = {"output": result}
    return {"functionResponse": {"id": part["tool_call_id"], "name": name, "response": response}}
