"""One message, cut to a number of tokens: texts first, with a mark that shows it; ids, names and roles stay."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from layerlore.memory.parts.fields import UNREAD_ARGUMENTS
from layerlore.memory.parts.parts import result_parts, text_part
from layerlore.memory.parts.tokens import CUT_MARK, TokenCounter
from layerlore.memory.window.omissions import image_note
from layerlore.storage.core.records import Json, Message, StoredJson

Weigh = Callable[[Message], Message]
"""Returns the message with the tokens that it takes where it will be shown."""

# Few texts have more characters to a token: of a long one, no more is counted.
_CHARS = 8
# A text that is cut a token shorter may become shorter by more than that: near the length that fits, each is tried.
_UNEVEN = 4


def shorten_message(message: Message, most: int, counter: TokenCounter, *, weigh: Weigh | None = None) -> Message:
    """Cut the message to at most ``most`` tokens; one that has no more is returned as it is.

    Reasoning goes first, as a whole: its signature does not survive a cut. Then images become notes, the first ones
    first, before a text is cut: so more room never shows less of a text. Then the longest texts are cut to one length:
    texts, tool results (other JSON becomes text) and the strings in a call's arguments. If no cut is enough, arguments
    become the beginning of their JSON, and the last parts are left out. Below 12 tokens, nothing but the mark may be
    left, which takes about 8.
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
    gone = _find_fewest(images, lambda count: counted(_replace_first_images(parts, count)).tokens <= most)
    noted = _replace_first_images(parts, gone)
    # As it is it has too many, and counting a long text takes most of the time.
    is_less = gone > 0 or len(parts) < len(message.parts)
    if noted and is_less and (whole := counted(noted)).tokens <= most:
        return whole
    for stage in (noted, [*map(_least_part, parts)]):
        smallest = least(stage)
        if stage and smallest.tokens <= most:
            return _fill(stage, smallest, most, cutter, counted)
    left_out = _find_fewest(len(stage), lambda count: least(_without_last(stage, count)).tokens <= most)
    return least(_without_last(stage, left_out))


def _find_fewest(most: int, enough: Callable[[int], bool]) -> int:
    """The smallest number that is enough, where more is never less so; ``most`` if none is."""
    low, high = 0, most
    while low < high:
        middle = (low + high) // 2
        if enough(middle):
            high = middle
        else:
            low = middle + 1
    return low


def _replace_first_images(parts: list[Json], count: int) -> list[Json]:
    """The parts with notes for the first ``count`` images."""
    noted: list[Json] = []
    for part in parts:
        gone = part["type"] == "image" and count > 0
        count -= gone
        noted.append(image_note(part) if gone else part)
    return noted


def _without_last(parts: list[Json], count: int) -> list[Json]:
    return [*parts[: len(parts) - count], text_part(CUT_MARK)]


def _least_part(part: Json) -> StoredJson:
    if part["type"] == "image":
        return image_note(part)
    if part["type"] != "tool_call" or not part["arguments"] or part["arguments"].keys() == {UNREAD_ARGUMENTS}:
        return part
    return {**part, "arguments": {UNREAD_ARGUMENTS: _compact(part["arguments"])}}


def _fill(
    parts: list[Json], least: Message, most: int, cutter: "_Cutter", counted: Callable[[list[Json]], Message]
) -> Message:
    """The parts with their texts cut as little as possible; ``least`` is what they are with all of them at the mark."""
    sizes = cutter.sizes(parts)
    rest = least.tokens - sum(min(size, cutter.mark) for size in sizes)
    longest = min(find_level(sizes, most - rest), most)
    while longest > cutter.mark:
        cut = counted(cutter.cut(parts, longest))
        if cut.tokens <= most:
            return cut
        too_long = sum(size >= longest for size in sizes)
        longest -= max(1, (cut.tokens - most) // max(1, too_long) - _UNEVEN)
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
        return [_map_texts(part, lambda text: self._text(text, longest)) for part in parts]

    def sizes(self, parts: list[Json]) -> list[int]:
        """The tokens of each text that can be cut; more than ``most`` are ``most`` + 1."""
        found: list[int] = []

        def measured(text: str) -> str:
            found.append(self._measured(text)[1])
            return text

        for part in parts:
            _map_texts(part, measured)
        return found

    def _measured(self, text: str) -> tuple[str, int]:
        """Measure a text: as much of it as can be needed, and its tokens."""
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


def _map_texts(part: Json, change: Callable[[str], str]) -> StoredJson:
    """The part with every text that can be cut changed."""
    match part["type"]:
        case "text":
            return {**part, "text": change(part["text"])}
        case "tool_call":
            return {**part, "arguments": _map_strings(part["arguments"], change)}
        case "tool_result":
            result = part["result"]
            inner = result_parts(result)
            if inner:
                return {**part, "result": [_map_texts(entry, change) for entry in inner]}
            if isinstance(result, str):
                return {**part, "result": change(result)}
            text = _compact(result)
            changed = change(text)
            return part if changed == text else {**part, "result": changed}
        case _:
            return part


def _map_strings(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {key: _map_strings(entry, change) for key, entry in value.items()}
    if isinstance(value, list):
        return [_map_strings(entry, change) for entry in value]
    return value


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def find_level(costs: Sequence[int], budget: int) -> int:
    """The highest level at which the costs fit into the budget when each is cut to it (water-filling).

    The small ones stay whole, the large ones become equal. Where all of them fit, it is the largest cost. It may be
    negative."""
    left, above = budget, len(costs)
    for cost in sorted(costs):
        if cost * above > left:
            return left // above
        left -= cost
        above -= 1
    return max(costs, default=budget)
