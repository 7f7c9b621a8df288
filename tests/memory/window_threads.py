"""Threads for the tests of the window: written by hand, and drawn by Hypothesis."""

from collections.abc import Iterable, Sequence
from typing import Any

from hypothesis import strategies as st

from layerlore.memory.parts.parts import (
    MediaSource,
    image_part,
    is_picture,
    reasoning_part,
    result_parts,
    text_part,
    tool_call_part,
    tool_result_part,
)
from layerlore.memory.parts.tokens import CUT_MARK, TokenCounter, load_counter
from layerlore.memory.window.policy import WindowPolicy, check_policy
from layerlore.storage.core.json_text import to_json
from layerlore.storage.core.records import Json, Message, Role

EXACT = load_counter()
ROUGH = TokenCounter(None)
COUNTERS = st.sampled_from([EXACT, ROUGH])


def message(seq: int, role: Role, *parts: Json | str, counter: TokenCounter = ROUGH) -> Message:
    whole = [text_part(part) if isinstance(part, str) else part for part in parts]
    return Message("t", seq, f"m{seq}", role, None, whole, {}, counter.parts(whole), counter.name, 0, 0, 1)


def spoken(*texts: str) -> list[Message]:
    """The user and the assistant in turn."""
    return [message(at, "user" if at % 2 else "assistant", text) for at, text in enumerate(texts, 1)]


def image(name: str = "", caption: str | None = None) -> Json:
    source = MediaSource(url=f"https://example.com/{name}.png") if name else MediaSource(encoded="iVBORw0K")
    return image_part(source, "image", caption)


def described(caption: str) -> Json:
    """An image of which only the caption is stored."""
    return image_part(MediaSource(), "image", caption)


def seqs(messages: Iterable[Message]) -> list[int]:
    return [each.seq for each in messages]


def every_part(messages: Iterable[Message]) -> set[tuple[int, str]]:
    """Each part by its message; one that was cut is another part."""
    return {(each.seq, repr(part)) for each in messages for part in each.parts}


def shows_no_less(more: Message, less: Message) -> bool:
    """Whether the message shows as much as the other of each text that the other shows, the arguments of calls aside,
    and as many images."""
    if more.parts == less.parts:
        return True
    if sum(map(is_picture, less.parts)) > sum(map(is_picture, more.parts)):
        return False
    shown = [text for part in more.parts for text in _said(part)]
    begun = [text.removesuffix(CUT_MARK) for part in less.parts for text in _said(part)]
    return all(
        not text or text.startswith("[image left out") or any(whole.startswith(text) for whole in shown)
        for text in begun
    )


def _said(part: Json) -> list[str]:
    if part["type"] == "text":
        return [part["text"]]
    if "caption" in part:
        return [part["caption"]]
    if part["type"] != "tool_result":
        return []
    inner = result_parts(part["result"])
    if inner:
        return [text for each in inner for text in _said(each)]
    return [part["result"] if isinstance(part["result"], str) else to_json(part["result"])]


def cost(messages: Iterable[Message], overhead: int = 0) -> int:
    return sum(each.tokens + overhead for each in messages)


def newest_user_seq(messages: Sequence[Message]) -> int | None:
    said = [
        each.seq
        for each in messages
        if each.role == "user" and {part["type"] for part in each.parts} != {"tool_result"}
    ]
    return said[-1] if said else None


_IDS = st.sampled_from(["call_0", "call_1", "call_2", "call_3"])
_TEXTS = st.one_of(
    st.text('ab <é字🜁\n"… ', max_size=40),
    st.sampled_from(["word " * 30, "a longer text, with some more words in it. " * 20, "字" * 200, "x" * 3000]),
)
_CAPTIONS = _TEXTS.filter(bool)
_IMAGES = st.one_of(
    st.builds(image, st.sampled_from(["", "cat", "a" * 300]), st.none() | _CAPTIONS), _CAPTIONS.map(described)
)
_RESULTS: st.SearchStrategy[Any] = st.one_of(
    _TEXTS,
    st.just({"rows": [{"n": number} for number in range(50)]}),
    st.lists(st.one_of(_IMAGES, _TEXTS.filter(bool).map(text_part)), min_size=2, max_size=3),
)
_ARGUMENTS = st.dictionaries(
    st.sampled_from(["q", "path", "deep"]), st.one_of(_TEXTS, st.lists(st.integers(0, 9))), max_size=2
)
_REASONING = st.builds(reasoning_part, _TEXTS.filter(bool), st.sampled_from([None, "signature"]))
_SAID = _TEXTS.filter(bool).map(text_part)
_CALLS = st.builds(tool_call_part, _IDS, st.sampled_from(["search", "read_file"]), _ARGUMENTS)
_ANSWERS = st.builds(
    lambda id_, result, wrong: tool_result_part(id_, None, result, is_error=wrong), _IDS, _RESULTS, st.booleans()
)


def _answered(calls: list[Json], result: Any) -> list[tuple[Role, list[Json]]]:
    """Parallel calls, and their results in a message each."""
    return [("assistant", calls), *(("tool", [tool_result_part(call["id"], None, result)]) for call in calls)]


_TURNS: st.SearchStrategy[list[tuple[Role, list[Json]]]] = st.one_of(
    st.lists(st.one_of(_SAID, _IMAGES), min_size=1, max_size=3).map(lambda parts: [("user", parts)]),
    st.lists(st.one_of(_REASONING, _SAID, _CALLS), min_size=1, max_size=3).map(lambda parts: [("assistant", parts)]),
    st.lists(_ANSWERS, min_size=1, max_size=3).map(lambda parts: [("tool", parts)]),
    st.builds(lambda answer, said: [("user", [answer, said])], _ANSWERS, _SAID),
    st.builds(_answered, st.lists(_CALLS, min_size=1, max_size=3), _RESULTS),
    st.builds(lambda said: [("system", [said])], _SAID),
)


@st.composite
def threads(draw: st.DrawFn, counter: TokenCounter = ROUGH, most: int = 14) -> list[Message]:
    """Threads of every kind: parallel calls, orphans, ids that are used again, images, long texts, deleted messages."""
    turns = draw(st.lists(_TURNS, max_size=most))
    gone = draw(st.sets(st.integers(1, most), max_size=2))
    entries = [entry for turn in turns for entry in turn]
    return [
        message(seq, role, *parts, counter=counter) for seq, (role, parts) in enumerate(entries, 1) if seq not in gone
    ]


@st.composite
def policies(draw: st.DrawFn, **fixed: Any) -> WindowPolicy:
    """Small policies, so that threads of a few messages are trimmed."""
    limit = fixed.get("limit", draw(st.sampled_from(["observed", "messages", "tokens"])))
    small = st.integers(1, 8)
    target = draw(small)
    given = {
        "limit": limit,
        "last_messages": draw(small),
        "trim": draw(st.sampled_from(["continuous", "threshold"])) if limit == "messages" else "continuous",
        "max_messages": draw(small),
        "target": target,
        "threshold": target + draw(small),
        "max_tokens": draw(st.integers(1, 1500)),
        "min_messages": draw(st.sampled_from([0, 0, 1, 3])),
        "drop": draw(st.sampled_from(["oldest", "middle"])),
        "keep_first": draw(st.integers(0, 3)),
        "blank_tool_results": draw(st.booleans()),
        "spare_tool_results": draw(st.integers(0, 2)),
        "max_images": draw(st.integers(0, 2)),
        "predefined": tuple(draw(predefined())),
        **fixed,
    }
    given["keep_first"] = min(given["keep_first"], given["max_messages"], given["target"])
    return check_policy(WindowPolicy(**given))


@st.composite
def predefined(draw: st.DrawFn) -> list[Message]:
    """What `read_policy` makes of predefined messages."""
    given = [each for each in draw(threads(most=3)) if each.role != "tool"][:3] if draw(st.booleans()) else []
    return [
        Message(
            "",
            at + 1 - len(given),
            f"predefined-{at + 1}",
            each.role,
            None,
            each.parts,
            {},
            each.tokens,
            each.encoding,
            0,
            0,
            1,
        )
        for at, each in enumerate(given)
    ]
