"""One message, cut to a number of tokens: texts first, with a mark that shows it; ids, names and roles stay."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from layerlore.memory.part_fields import UNREAD_ARGUMENTS
from layerlore.memory.parts import result_parts, text_part
from layerlore.memory.reading import CUT_MARK
from layerlore.memory.tokens import TokenCounter
from layerlore.memory.window.images import image_note
from layerlore.memory.window.levels import level
from layerlore.storage.records import Json, Message

Weigh = Callable[[Message], Message]
"""Gives a message the tokens that it takes where it is going to be shown."""

# Few texts have more characters to a token: of a long one, no more is counted.
_CHARS = 8


def shortened(message: Message, most: int, counter: TokenCounter, *, weigh: Weigh | None = None) -> Message:
    """The message in at most ``most`` tokens; itself if it has no more.

    Reasoning goes first, as a whole: its signature does not survive a cut. Then the longest texts are cut to one
    length: texts, tool results (other JSON becomes text) and the strings in a call's arguments. If no cut is enough,
    images become notes, arguments become the beginning of their JSON, and the last parts are left out. Below 12
    tokens, nothing but the mark may be left, which takes about 8.
    """
    if message.tokens <= most:
        return message

    def counted(parts: list[Json]) -> Message:
        changed = replace(message, parts=parts, tokens=counter.parts(parts), encoding=counter.name)
        return weigh(changed) if weigh else changed

    cutter = _Cutter(counter, most)
    parts = [part for part in message.parts if part["type"] != "reasoning"]

    def least(given: list[Json]) -> Message:
        return counted(cutter.cut(given, cutter.mark))

    images = sum(part["type"] == "image" for part in parts)
    gone = _fewest(images, lambda count: least(_noted(parts, count)).tokens <= most)
    for stage in (_noted(parts, gone), [*map(_least_part, parts)]):
        smallest = least(stage)
        if stage and smallest.tokens <= most:
            return _filled(stage, smallest, most, cutter, counted)
    left_out = _fewest(len(stage), lambda count: least(_without_last(stage, count)).tokens <= most)
    return least(_without_last(stage, left_out))


def _fewest(most: int, enough: Callable[[int], bool]) -> int:
    """The smallest number that is enough, where more is never less so; ``most`` if none is."""
    low, high = 0, most
    while low < high:
        middle = (low + high) // 2
        if enough(middle):
            high = middle
        else:
            low = middle + 1
    return low


def _noted(parts: list[Json], count: int) -> list[Json]:
    """The parts with notes for the first ``count`` images."""
    noted: list[Json] = []
    for part in parts:
        gone = part["type"] == "image" and count > 0
        count -= gone
        noted.append(image_note(part) if gone else part)
    return noted


def _without_last(parts: list[Json], count: int) -> list[Json]:
    return [*parts[: len(parts) - count], text_part(CUT_MARK)]


def _least_part(part: Json) -> Json:
    if part["type"] == "image":
        return image_note(part)
    if part["type"] != "tool_call" or not part["arguments"] or part["arguments"].keys() == {UNREAD_ARGUMENTS}:
        return part
    return {**part, "arguments": {UNREAD_ARGUMENTS: _compact(part["arguments"])}}


def _filled(
    parts: list[Json], least: Message, most: int, cutter: "_Cutter", counted: Callable[[list[Json]], Message]
) -> Message:
    """The parts with their texts cut as little as possible; ``least`` is what they are with all of them at the mark."""
    sizes = cutter.sizes(parts)
    rest = least.tokens - sum(min(size, cutter.mark) for size in sizes)
    longest = min(level(sizes, most - rest), most)
    while longest > cutter.mark:
        cut = counted(cutter.cut(parts, longest))
        if cut.tokens <= most:
            return cut
        too_long = sum(size >= longest for size in sizes)
        longest -= max(1, (cut.tokens - most) // max(1, too_long))
    return least


class _Cutter:
    """Cuts texts of one message. What was counted once is remembered: the same texts are cut again and again."""

    def __init__(self, counter: TokenCounter, most: int) -> None:
        self._counter = counter
        self._most = max(most, 1)
        self._known: dict[str, tuple[str, int]] = {}
        self.mark = counter.text(CUT_MARK)

    def cut(self, parts: list[Json], longest: int) -> list[Json]:
        """The parts with no text of more than ``longest`` tokens."""
        return [_mapped(part, lambda text: self._text(text, longest)) for part in parts]

    def sizes(self, parts: list[Json]) -> list[int]:
        """The tokens of each text that can be cut; more than ``most`` are ``most`` + 1."""
        found: list[int] = []

        def measured(text: str) -> str:
            found.append(self._measured(text)[1])
            return text

        for part in parts:
            _mapped(part, measured)
        return found

    def _measured(self, text: str) -> tuple[str, int]:
        """As much of a text as can be needed, and its tokens."""
        if text not in self._known:
            beginning = text[: self._most * _CHARS]
            size = self._counter.text(beginning)
            if size <= self._most and len(beginning) < len(text):
                beginning, size = text, self._counter.text(text)
            self._known[text] = (beginning, min(size, self._most + 1))
        return self._known[text]

    def _text(self, text: str, longest: int) -> str:
        beginning, size = self._measured(text)
        if size <= longest:
            return text
        if longest <= self.mark:
            return CUT_MARK
        kept = self._counter.cut(beginning, longest - self.mark)
        return kept.rstrip() + CUT_MARK


def _mapped(part: Json, change: Callable[[str], str]) -> Json:
    """The part with every text that can be cut changed."""
    match part["type"]:
        case "text":
            return {**part, "text": change(part["text"])}
        case "tool_call":
            return {**part, "arguments": _mapped_strings(part["arguments"], change)}
        case "tool_result":
            result = part["result"]
            inner = result_parts(result)
            if inner:
                return {**part, "result": [_mapped(entry, change) for entry in inner]}
            if isinstance(result, str):
                return {**part, "result": change(result)}
            text = _compact(result)
            changed = change(text)
            return part if changed == text else {**part, "result": changed}
        case _:
            return part


def _mapped_strings(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _mapped_strings(entry, change) for key, entry in value.items()}
    if isinstance(value, list):
        return [_mapped_strings(entry, change) for entry in value]
    return value


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
