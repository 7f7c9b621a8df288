"""Exchanges: a thread's messages in the order that providers want, with every tool call answered directly after it."""

import binascii
import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from layerlore.memory.parts.parts import (
    UNREAD_ARGUMENTS,
    caption_line,
    plain_text,
    result_parts,
    says_something,
    text_part,
)
from layerlore.memory.rules.validation import load_json
from layerlore.memory.text.quotation import escape_tags, neutralize_turns, neutralize_turns_json, quote_line, quote_text
from layerlore.storage.core import linear_re
from layerlore.storage.core.errors import LimitExceeded
from layerlore.storage.core.records import Json, Message, Role


@dataclass(frozen=True, slots=True)
class ContextLayout:
    """A context, what changes least first.

    ``stable``, ``recalled`` and ``volatile`` are rendered blocks: user profile, observations and summary; what is
    recalled for the turn; session memory, plan, previous attempts and open work. ``before`` is the window up to the
    newest user message, ``turn`` that message and what came after it; a thread in which no user has spoken has no turn.
    """

    predefined: tuple[Message, ...] = ()
    stable: tuple[str, ...] = ()
    before: tuple[Message, ...] = ()
    volatile: tuple[str, ...] = ()
    turn: tuple[Message, ...] = ()
    recalled: tuple[str, ...] = ()

    @property
    def stable_text(self) -> str:
        return "\n\n".join(filter(None, self.stable))


ProviderJson = dict[str, Any]
"""A message of a provider's API, or a part of one: that API names the keys."""

_IMAGE_STARTS = ((b"\x89PNG", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))
_IMAGE_TYPES = {
    "image/jpg": "image/jpeg",
    **{kind: kind for kind in ("image/png", "image/jpeg", "image/gif", "image/webp")},
}
_AUDIO_FORMATS = {
    **dict.fromkeys(("audio/wav", "audio/wave", "audio/x-wav", "audio/vnd.wave"), "wav"),
    **dict.fromkeys(("audio/mpeg", "audio/mp3"), "mp3"),
}
PDF = "application/pdf"
BEGAN_EARLIER = "[the conversation began earlier]"
"""Where a provider wants a user to speak first."""

# A name or a URL is cut to this in a note.
_NOTE_CHARS = 200
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def put_in_front(text: str, content: str | list[Json], make: Callable[[str], Json] = text_part) -> str | list[Json]:
    """A message's content with a text before it; ``make`` makes a block of the text where the content is blocks."""
    if isinstance(content, str):
        return f"{text}\n\n{content}"
    return [make(text), *content]


def find_image_type(part: Json) -> str | None:
    """The type of an image in base64, if it is one of the four that OpenAI and Anthropic take.

    The type by its first bytes outranks the type that the part names: both refuse an image whose type is stated
    wrongly.
    """
    start = _first_bytes(part)
    if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        return "image/webp"
    found = next((kind for magic, kind in _IMAGE_STARTS if start.startswith(magic)), None)
    return found or _IMAGE_TYPES.get(_stated(part, "mime_type"))


def is_pdf(part: Json) -> bool:
    """Whether a file is a PDF, by its first bytes, its type, its name or its URL."""
    stated = _stated(part, "content_type")
    if stated:
        return stated == PDF
    if "data" in part:
        return _first_bytes(part).startswith(b"%PDF-")
    return any(name.lower().endswith(".pdf") for name in (part.get("file_name", ""), find_path(part.get("url", ""))))


def find_audio_format(part: Json) -> str | None:
    """The name that OpenAI has for the format of a sound in base64: wav or mp3, else None."""
    if "data" in part:
        return _AUDIO_FORMATS.get(_stated(part, "content_type"))
    return None


def find_openai_file(part: Json) -> str | None:
    """The id under which OpenAI keeps a file: with another's it would refuse the request."""
    file_id = part.get("metadata", {}).get("file_id")
    if isinstance(file_id, str) and file_id.startswith("file-"):
        return file_id
    return None


def make_image_url(part: Json) -> str | None:
    """The URL of an image as OpenAI takes it: on the web, or with the image itself in it."""
    if "data" in part:
        kind = find_image_type(part)
        if kind:
            return f"data:{kind};base64,{part['data']}"
        return None
    given = str(part.get("url", ""))
    if given.lower().startswith(("https://", "http://")):
        return given
    return None


def is_base64(part: Json) -> bool:
    """Whether the `data` of an image or a file can be decoded: it was not checked inside a tool's result."""
    try:
        return bool(binascii.a2b_base64(part["data"], strict_mode=True))
    except ValueError:
        return False


def describe_media(part: Json) -> str:
    """An image or a file as a line of text: what kind of thing it is, its caption, and its name or its URL."""
    named = quote_line(part.get("file_name") or part.get("url", ""))
    if len(named) <= _NOTE_CHARS:
        shown = named
    else:
        shown = f"{named[:_NOTE_CHARS]}…"
    details = [quote_line(part.get("caption", "")), shown]
    if "part" in part:
        details += [quote_line(_stated(part, "mime_type") or _stated(part, "content_type"))[:_NOTE_CHARS]]
        if "sha256" in part:
            details += [f"{part['bytes']:,} bytes, sha256 {part['sha256']}"]
        details += [f"get_messages(part='{part['part']}') gives it"]
    stated = ", ".join(filter(None, details))
    if stated:
        return f"[{part['type']}: {stated}]"
    return f"[{part['type']}]"


def split_caption(part: Json) -> list[Json]:
    """An image with a caption as two parts, since no provider has a place for captions: its caption as text, and the
    image. Any other part stays as it is."""
    if part["type"] != "image" or "caption" not in part or part.keys().isdisjoint(("url", "data")):
        return [part]
    image = {key: value for key, value in part.items() if key != "caption"}
    return [text_part(caption_line(quote_line(part["caption"]))), image]


def _stated(part: Json, key: str) -> str:
    return str(part.get(key, "")).partition(";")[0].strip().lower()


def _first_bytes(part: Json) -> bytes:
    try:
        # The encoded length is a multiple of four, so a slice of 16 characters is whole groups.
        return binascii.a2b_base64(part.get("data", "")[:16])
    except ValueError:
        return b""


def find_path(url: str) -> str:
    """The path of a URL; "" if it cannot be read."""
    try:
        return urlsplit(url).path
    except ValueError:
        return ""


def tag_system(text: str) -> str:
    """A system message in the middle of a conversation, as a text among a user's: some providers have one place for
    systems, at the beginning."""
    return f"<system-message>\n{text}\n</system-message>"


def list_answer_texts(part: Json) -> list[str]:
    """The texts of a tool result, JSON compactly and a note for each image and file.

    A failure says so itself: "Error: " stands in front, if the tool did not say it already.
    """
    result = part["result"]
    inner = result_parts(result)
    if inner:
        texts = [
            entry["text"] if entry["type"] == "text" else describe_media(entry)
            for entry in filter(says_something, inner)
        ]
    else:
        texts = [result if isinstance(result, str) else dump_compact(result)]
    if part.get("is_error"):
        return _mark_error(texts)
    return texts


def _mark_error(texts: list[str]) -> list[str]:
    # A provider may refuse an empty text, and an empty error would read as success.
    if not texts or not texts[0].strip():
        return ["Error", *texts[1:]]
    said_already = texts[0].lstrip()[:5].lower() == "error"
    if said_already:
        return texts
    return [f"Error: {texts[0]}", *texts[1:]]


def render_arguments(arguments: Json) -> str:
    """Render arguments as JSON text; those that came as a text which is not a JSON object, as that text."""
    unread = arguments.get(UNREAD_ARGUMENTS)
    # A text that is an object would be read back as the arguments themselves, so it keeps its key.
    as_it_came = len(arguments) == 1 and isinstance(unread, str) and unread != "" and not _is_object(unread)
    if as_it_came:
        return str(unread)
    return dump_compact(arguments)


def _is_object(text: str) -> bool:
    try:
        return isinstance(load_json(text, "arguments"), dict)
    except ValueError:
        return False
    # It is too deep to be read here, and may still be an object for the provider.
    except LimitExceeded:
        return True


def dump_compact(value: Any) -> str:
    """JSON text without spaces, its characters as they are."""
    return _ENCODER.encode(value)


_REFUSED = linear_re.compile(r"[^a-zA-Z0-9_-]")


def make_tool_name(name: str, most: int) -> str:
    """The name, or one of at most ``most`` (12 or more) letters, digits, _ and - that is made of it: what can stay, and
    a digest, so that no two names become one."""
    if len(name) <= most and not _REFUSED.search(name):
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:10]
    # The underscore and the digest take 11 characters.
    return f"{_REFUSED.sub('_', name)[: most - 11]}_{digest}"


class CallIds:
    """The ids of one request's calls, each given once.

    An id that the API takes stays as it is. One that it would refuse, or that an earlier call had (some models count
    their calls anew in each turn, and Anthropic refuses an id that comes twice), is replaced by a digest of it and of
    how often it was replaced before, so that the same messages give the same ids whatever stands after them.
    """

    def __init__(self, allowed: linear_re.Pattern) -> None:
        self._allowed = allowed
        self._replaced: Counter[str] = Counter()
        self._given: set[str] = set()

    def make_fresh(self, call_id: str) -> str:
        """The id for the next call, whose own id is ``call_id``."""
        if self._allowed.fullmatch(call_id):
            found = call_id
        else:
            found = self._make(call_id)
        while found in self._given:
            found = self._make(call_id)
        self._given.add(found)
        return found

    def _make(self, call_id: str) -> str:
        self._replaced[call_id] += 1
        digest = hashlib.sha256(f"{self._replaced[call_id]} {call_id}".encode()).hexdigest()
        return f"call_{digest[:24]}"


@dataclass(frozen=True, slots=True)
class Exchange:
    """Consecutive messages of one speaker, and the answers of its tools.

    ``parts`` are text, reasoning (an assistant's only), image and file parts, and after them the calls; ``results``
    answer the calls, in their order and under their ids. ``at`` is the index of the message that it is from.
    """

    role: Role
    name: str | None
    parts: tuple[Json, ...]
    results: tuple[Json, ...]
    at: int

    @property
    def calls(self) -> tuple[Json, ...]:
        return self.parts[len(self.parts) - len(self.results) :]

    @property
    def said(self) -> tuple[Json, ...]:
        return self.parts[: len(self.parts) - len(self.results)]


@dataclass(frozen=True, slots=True)
class ContextExchanges:
    """The messages of a context as exchanges. A result that came after the newest user message goes to its call, so it
    may have left the turn."""

    predefined: tuple[Exchange, ...]
    before: tuple[Exchange, ...]
    turn: tuple[Exchange, ...]
    recalled: str
    volatile: str

    @property
    def ends_with_question(self) -> bool:
        """Whether nothing follows the newest user message."""
        return len(self.turn) == 1 and self.turn[0].role == "user"

    @property
    def system_texts(self) -> Iterator[str]:
        """The text of predefined system messages, for a provider with a place of its own for it."""
        return (join_spoken(step) for step in self.predefined if step.role == "system")

    @property
    def examples(self) -> Iterator[Exchange]:
        """The other predefined messages."""
        return (step for step in self.predefined if step.role != "system")

    @property
    def in_front(self) -> list[str]:
        """The texts in front of the newest user message. The recalled block stays there until the next one, so that a
        prompt cache keeps it through the turn; the volatile part stands there only if nothing follows the message."""
        if not self._begins_with_question:
            return []
        if self.ends_with_question:
            texts = [self.recalled, self.volatile]
        else:
            texts = [self.recalled]
        return [*filter(None, texts)]

    @property
    def at_end(self) -> list[str]:
        """The texts behind all messages: those that are not in front of the newest user message."""
        if self.ends_with_question:
            return []
        if self._begins_with_question:
            texts = [self.volatile]
        else:
            texts = [self.recalled, self.volatile]
        return [*filter(None, texts)]

    @property
    def _begins_with_question(self) -> bool:
        return bool(self.turn) and self.turn[0].role == "user"


def make_exchanges(laid: ContextLayout, ids: CallIds) -> ContextExchanges:
    """The messages of a context, each call with an id that ``ids`` gave."""
    predefined = tuple(split_exchanges(laid.predefined, ids))
    thread = tuple(split_exchanges((*laid.before, *laid.turn), ids))
    # An exchange belongs to the turn if its message does, wherever its results stood.
    cut = sum(step.at < len(laid.before) for step in thread)
    return ContextExchanges(predefined, thread[:cut], thread[cut:], _join(laid.recalled), _join(laid.volatile))


def _join(blocks: Iterable[str]) -> str:
    return "\n\n".join(filter(str.strip, blocks))


def split_exchanges(messages: Sequence[Message], ids: CallIds) -> Iterator[Exchange]:
    """The messages in order, but for results: each moves up to its call, the latest of its id before it.

    A message with text after a call is split there. A call without a result, a result without
    a call, and every result of a call but the first become texts, since no provider takes them.
    """
    answers = _find_answers(messages)
    moved = set(answers.values())
    for at, message in enumerate(messages):
        role: Role
        if message.role == "tool":
            role = "user"
        else:
            role = message.role
        name = message.name and quote_line(message.name)
        said: list[Json] = []
        calls: list[Json] = []
        results: list[Json] = []
        for index, part in enumerate(message.parts):
            answer = answers.get((at, index))
            if answer is not None:
                call_id = ids.make_fresh(part["id"])
                calls.append({**part, "id": call_id})
                found = messages[answer[0]].parts[answer[1]]
                # A result may hold signs of a chat template, which would end the tool's turn.
                results.append({**found, "result": neutralize_turns_json(found["result"]), "tool_call_id": call_id})
                continue
            # Providers take calls only at the end of a message, so text behind a call begins another.
            if calls:
                yield Exchange(role, name, (*said, *calls), tuple(results), at)
                said, calls, results = [], [], []
            if (at, index) not in moved:
                said += _make_sayable(part, role)
        if said or calls:
            yield Exchange(role, name, (*said, *calls), tuple(results), at)


_Place = tuple[int, int]


def join_spoken(step: Exchange) -> str:
    """All of a step in one text, with notes for all other parts."""
    text = "\n".join(part["text"] if part["type"] == "text" else describe_media(part) for part in step.said)
    if step.name:
        return f"{step.name}: {text}"
    return text


def list_spoken(step: Exchange) -> list[Json]:
    """The content of a step, its speaker named in the first text: where a provider has no place for names."""
    if not step.name:
        return [*step.said]
    first = next((at for at, part in enumerate(step.said) if part["type"] == "text"), None)
    return [text_part(f"{step.name}: {part['text']}") if at == first else part for at, part in enumerate(step.said)]


def _find_answers(messages: Iterable[Message]) -> dict[_Place, _Place]:
    """Where each call's result is: index of the message, index of the part."""
    answers: dict[_Place, _Place] = {}
    latest: dict[str, _Place] = {}
    for at, message in enumerate(messages):
        for index, part in enumerate(message.parts):
            if part["type"] == "tool_call":
                latest[part["id"]] = (at, index)
            elif part["type"] == "tool_result" and part["tool_call_id"] in latest:
                # A provider takes one result for each call, so the first counts.
                answers.setdefault(latest[part["tool_call_id"]], (at, index))
    return answers


def _make_sayable(part: Json, role: Role) -> list[Json]:
    # Ours are blocks in what systems and users say; the author of an assistant's words or a tool's result follows from
    # its place.
    if role == "assistant":
        shown = neutralize_turns
    else:
        shown = escape_tags
    if part["type"] in ("tool_call", "tool_result"):
        return [text_part(plain_text([part], quote_text))]
    silent = not says_something(part) or (part["type"] == "reasoning" and role != "assistant")
    if part["type"] == "text":
        text = shown(part["text"])
        if text:
            return [text_part(text)]
        return []
    if silent:
        return []
    # Only a user's images are sent as images. For any other, a note stands, which has the caption.
    if role == "user":
        return split_caption(part)
    return [part]
