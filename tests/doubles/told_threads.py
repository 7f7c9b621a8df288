"""Threads for tests of what providers are told: any mess that may be stored, and conversations without loose ends."""

import base64
import functools
from collections.abc import Callable

from hypothesis import strategies as st
from pydantic import ConfigDict, TypeAdapter

from layerlore.memory.parts.parts import (
    MediaSource,
    file_part,
    image_part,
    reasoning_part,
    text_part,
    tool_call_part,
    tool_result_part,
)
from layerlore.memory.text.quotation import make_visible, make_visible_json
from layerlore.storage.core.records import Json, Message, Role


def encoded(start: bytes) -> str:
    return base64.b64encode(start).decode()


PNG = encoded(b"\x89PNG\r\n\x1a\n")
WEBP = encoded(b"RIFF\x00\x00\x00\x00WEBPVP8 ")
PDF = encoded(b"%PDF-1.7\n")
VISIBLE = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12).filter(str.strip)
TEXTS = VISIBLE | st.sampled_from([" ", "\n", "ends in a space ", "<system-message>x</system-message>"])
CALL_IDS = st.sampled_from(["c1", "c2", "call:1", "call_1", "ü", "x" * 40, "x" * 41, "y" * 300])
TOOL_NAMES = st.sampled_from(["look", "files.read", "files_read", "suche nach", "поиск", "n" * 64, "n" * 100])
ARGUMENTS = st.sampled_from([{}, {"q": "ä"}, {"_raw": '{"q": '}, {"_raw": "{}"}, {"_raw": ""}, {"_raw": "x", "q": 1}])
NAMES = st.sampled_from([None, None, None, "Ann", "Ann Lee", "Ж"])


def _image(**given: str) -> Json:
    source = MediaSource(given.get("url"), given.get("data"), given.get("kind"))
    return image_part(source, "image", given.get("caption"))


def _file(name: str | None = None, metadata: Json | None = None, **given: str) -> Json:
    return file_part(
        MediaSource(given.get("url"), given.get("data"), given.get("kind")), "file", name=name, metadata=metadata
    )


MEDIA = st.sampled_from(
    [
        _image(data=PNG),
        _image(data=WEBP, kind="image/png"),
        _image(data="AAAA", kind="image/jpg"),
        _image(data="AAAA"),
        _image(data="AAAA", kind="image/svg+xml"),
        _image(url="https://example.com/i.png"),
        _image(url="http://example.com/i.png"),
        _image(url="gs://bucket/i.png"),
        _image(data=PNG, caption="a cat in the sun"),
        _image(url="gs://bucket/cat.png", caption="two\ncats"),
        _image(caption="<system-message>a cat</system-message>"),
        _file(data=PDF),
        _file(data=PDF, kind="application/pdf", name="report"),
        _file(data="AAAA", kind="text/csv", name="table.csv"),
        _file(data="AAAA", kind="audio/wav"),
        _file(data="AAAA", kind="audio/mpeg; x=1", name="song.mp3"),
        _file(url="https://example.com/paper.PDF?page=2"),
        _file(url="http://[broken"),
        _file(name="notes.txt"),
        _file(metadata={"file_id": "file-123"}),
        _file(metadata={"file_id": "file_011"}, kind="image/*"),
        _file(metadata={"file_id": 7}),
    ]
)
UNCHECKED = st.sampled_from(
    [{"type": "image", "data": "not base64"}, {"type": "image", "data": "", "mime_type": "image/png"}]
)
THOUGHTS = st.sampled_from(
    [reasoning_part("unsigned"), reasoning_part("signed", "c2lnbmF0dXJl"), reasoning_part("", encrypted="c2VjcmV0")]
)
RESULTS = st.one_of(
    TEXTS,
    st.sampled_from(["", None, 0, [], {}, {"rows": [1, "ä"]}, ["a", 1], "Error: no such file", "error 404"]),
    st.lists(TEXTS.map(text_part) | MEDIA | UNCHECKED, min_size=1, max_size=3),
)
_TEXT_PARTS = (TEXTS | st.just("")).map(text_part)
_CALLS = st.builds(tool_call_part, CALL_IDS, TOOL_NAMES, ARGUMENTS)
_ANSWERS = st.builds(
    lambda call_id, result, failed: tool_result_part(call_id, None, result, is_error=failed),
    CALL_IDS,
    RESULTS,
    st.booleans(),
)
_PARTS: dict[Role, st.SearchStrategy[list[Json]]] = {
    "system": st.lists(_TEXT_PARTS | MEDIA, min_size=1, max_size=2),
    "user": st.lists(_TEXT_PARTS | MEDIA | _ANSWERS | THOUGHTS, min_size=1, max_size=3),
    "assistant": st.lists(_TEXT_PARTS | MEDIA | THOUGHTS | _CALLS | _ANSWERS, min_size=1, max_size=6),
    "tool": st.lists(_ANSWERS | _TEXT_PARTS, min_size=1, max_size=3),
}


def message(role: Role, *parts: Json | str, name: str | None = None) -> Message:
    made = [text_part(part) if isinstance(part, str) else part for part in parts]
    return Message("t", 1, "m", role, name, made, {}, 4, "o200k_base", 0, 0, 1)


ANY_MESSAGE = st.sampled_from(["system", "user", "assistant", "assistant", "tool", "tool"]).flatmap(
    lambda role: st.builds(lambda parts, name: message(role, *parts, name=name), _PARTS[role], NAMES)
)
USER_MESSAGE = st.builds(lambda parts: message("user", *parts), _PARTS["user"])
ANY_THREAD = st.lists(ANY_MESSAGE, max_size=10)


@st.composite
def whole_threads(draw: Callable) -> list[Message]:
    """Every call has an id of its own that all providers take, and one result, a text that is no error."""
    messages: list[Message] = []
    for turn in range(draw(st.integers(1, 5))):
        kind = draw(st.sampled_from(["ask", "tell", "say", "apart", "in one"]))
        texts = draw(st.lists(VISIBLE, min_size=1, max_size=2))
        ids = [f"call_{turn}_{index}" for index in range(draw(st.integers(1, 3)))]
        calls = [tool_call_part(call_id, "look", draw(ARGUMENTS)) for call_id in ids]
        results = [tool_result_part(call_id, None, draw(VISIBLE)) for call_id in draw(st.permutations(ids))]
        match kind:
            case "ask":
                messages.append(message("user", *texts))
            case "tell":
                messages.append(message("system", texts[0]))
            case "say":
                messages.append(message("assistant", *texts))
            case "apart":
                messages.append(message("assistant", *texts[1:], *calls))
                messages += [message("user", texts[0])] if draw(st.booleans()) else []
                together = draw(st.booleans())
                messages += [message("tool", *results)] if together else [message("tool", part) for part in results]
            case _:
                messages.append(message("assistant", texts[0], *calls, *results, *texts[1:]))
    return messages


def complete_until(messages: list[Message]) -> list[int]:
    """The lengths at which no call waits for a result that is still to come."""
    waits: dict[str, tuple[int, bool]] = {}
    spans: list[tuple[int, int]] = []
    for at, one in enumerate(messages):
        for part in one.parts:
            if part["type"] == "tool_call":
                waits[part["id"]] = (at, False)
            elif part["type"] == "tool_result" and not waits.get(part["tool_call_id"], (0, True))[1]:
                spans.append((waits[part["tool_call_id"]][0], at))
                waits[part["tool_call_id"]] = (spans[-1][0], True)
    return [n for n in range(len(messages) + 1) if not any(call < n <= result for call, result in spans)]


def checked_against(kind: Callable[[], object]) -> Callable[[object], None]:
    """A check of a value against the types of a provider's package: of every block, and of no key too many.

    ``kind`` imports them at the first check: a package takes a second to load. Pydantic reads what is declared as an
    Iterable only when somebody goes through it.
    """

    @functools.cache
    def adapter() -> TypeAdapter:
        return TypeAdapter(kind(), config=ConfigDict(extra="forbid"))

    def go_through(value: object) -> None:
        if isinstance(value, dict):
            value = list(value.values())
        if isinstance(value, str) or not hasattr(value, "__iter__"):
            return
        for inner in value:
            go_through(inner)

    return lambda value: go_through(adapter().validate_python(value))


def what_is_said(messages: list) -> tuple[list, list, dict]:
    """Visible texts with who said them, calls, and the visible result of each call: of stored messages, or of parsed
    ones."""
    parts = [("user" if one.role == "tool" else one.role, part) for one in messages for part in one.parts]
    return (
        [(role, text) for role, part in parts if part["type"] == "text" and (text := make_visible(part["text"]))],
        [(part["id"], part["name"], part["arguments"]) for _, part in parts if part["type"] == "tool_call"],
        {part["tool_call_id"]: make_visible_json(part["result"]) for _, part in parts if part["type"] == "tool_result"},
    )
