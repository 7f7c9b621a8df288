"""Which messages a budget of tokens has room for, and how one message is cut to fit."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from layerlore.memory.parts.parts import UNREAD_ARGUMENTS, result_parts, text_part
from layerlore.memory.parts.tokens import CUT_MARK, TokenCounter
from layerlore.memory.window.omissions import REACH, find_calls, find_newest_run, image_note
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
        if weigh:
            return weigh(changed)
        return changed

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
    """Cuts texts of one message. Earlier counts are remembered: the same texts are cut again and again."""

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
            if changed == text:
                return part
            return {**part, "result": changed}
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


FEWEST = 24
"""The fewest tokens of a message that can be understood: a message without room for them is left out."""


@dataclass(frozen=True, slots=True)
class FittedMessages:
    """The messages that fit, in order, and the seqs of those that were cut for it."""

    messages: tuple[Message, ...]
    shortened: tuple[int, ...]


def fit_messages(
    messages: Sequence[Message],
    budget: int,
    counter: TokenCounter,
    *,
    keep_newest: int = 0,
    keep_first: int = 0,
    hard: bool = True,
    overhead: int = 0,
    reserve: int = 0,
    is_part: bool = False,
    weigh: Weigh | None = None,
) -> FittedMessages:
    """Choose as much of the messages as fits into ``budget`` tokens, where each costs its own and ``overhead``. A
    larger budget never loses a message that a smaller one holds, nor shows less of one.

    1. The newest message, the newest of the user's and the newest ``keep_newest`` are in, with the calls that their
       results answer. If they do not fit, the user's are cut to one size within three quarters of the budget (within
       half, until the others have FEWEST tokens each), and the others to one size in the rest; those that would have
       less than FEWEST tokens go, the oldest first. With ``hard`` off, the newest ``keep_newest`` are whole whatever
       the budget.
    2. The first ``keep_first`` get a share each of half the room that is left, and more only if all others fit.
    3. Older messages follow from the newest on, results together with their calls. The first that do not fit are the
       last, and are cut to the room that is left, if that is FEWEST tokens for each.

    Where not all fit, or the messages are only a part of what there is, ``reserve`` tokens stay free: they have a share
    as one of the others of 1. ``weigh`` gives a message that was cut its tokens, where they are not just those of its
    parts.
    """
    costs = [message.tokens + overhead for message in messages]
    if not messages or sum(costs) + (reserve if is_part else 0) <= budget:
        return FittedMessages(tuple(messages), ())
    newest = range(find_newest_run(messages, max(1, keep_newest)), len(costs))
    asked = find_newest_from_user(messages)
    wanted = {*newest, *([] if asked is None else [asked])}
    users = [place for place in wanted if is_from_user(messages[place])]
    whole = newest if keep_newest and not hard else ()
    sizes, free = _share_among_required(costs, wanted, users, budget, whole, FEWEST + overhead, reserve)
    room = budget - sum(sizes.values()) - free
    if room > 0 and free == reserve and all(sizes.get(place) == costs[place] for place in wanted):
        calls = find_calls(messages)
        sizes |= _share_among_others(costs, sizes, room, min(keep_first, len(costs)), FEWEST + overhead, calls)
    kept = [
        (messages[place], shorten_message(messages[place], size - overhead, counter, weigh=weigh))
        for place, size in sorted(sizes.items())
    ]
    return FittedMessages(
        tuple(cut for _, cut in kept), tuple(message.seq for message, cut in kept if cut.parts != message.parts)
    )


def find_newest_from_user(messages: Sequence[Message]) -> int | None:
    """The index of the newest of the messages that is the user's."""
    return next((place for place in range(len(messages) - 1, -1, -1) if is_from_user(messages[place])), None)


def is_from_user(message: Message) -> bool:
    """Whether the user wrote it: predefined messages (seq <= 0) have no speaker, and a message with nothing but tool
    results says nothing."""
    return message.seq > 0 and message.role == "user" and any(part["type"] != "tool_result" for part in message.parts)


def _share_among_required(
    costs: Sequence[int],
    wanted: Collection[int],
    users: Collection[int],
    budget: int,
    whole: Collection[int],
    fewest: int,
    reserve: int,
) -> tuple[dict[int, int], int]:
    """The tokens for each required message, by its index, and the free rest of the reserve. A token more
    goes to the same place whatever follows, so that none gets less of a larger budget."""
    sizes = {place: costs[place] for place in whole}
    room = budget - sum(sizes.values())
    said = sorted((place for place in users if place not in sizes), reverse=True)
    others = sorted((place for place in wanted if place not in sizes and place not in users), reverse=True)
    if sizes and said:  # the user's message alone, however little room the others leave
        room = max(room, fewest)
    least = sum(min(fewest, costs[place]) for place in others)
    most = sum(costs[place] for place in others) + reserve
    for_users = sum(costs[place] for place in said)
    if said:
        for_others = max(room - for_users, min(least, room // 2), min(most, room // 4))
    else:
        for_others = room
    shared, _ = _share_evenly(costs, said, room - for_others, fewest, 0, always=True)
    sizes |= shared
    shared, free = _share_evenly(costs, others, max(0, for_others), fewest, reserve, always=not said)
    return sizes | shared, free


def _share_evenly(
    costs: Sequence[int], places: Sequence[int], room: int, fewest: int, reserve: int, *, always: bool
) -> tuple[dict[int, int], int]:
    """Cut the messages to one size: first each gets ``fewest``, in the order of the places. Where there is no room for
    one, it is left out and all after it; the first is in even so, if ``always``. The reserve is the last."""
    left = room
    sizes: dict[int, int] = {}
    for place in places:
        least = min(fewest, costs[place])
        if least > left and (sizes or not always):
            return sizes, 0
        sizes[place] = min(least, left)
        left -= least
    highest = find_level([*(costs[place] for place in places), reserve], room)
    if highest < min(fewest, max(sizes.values(), default=0)):
        return sizes, max(0, min(reserve, left))
    return {place: min(costs[place], highest) for place in places}, min(reserve, highest)


def _share_among_others(
    costs: Sequence[int], musts: Collection[int], room: int, keep_first: int, fewest: int, calls: Mapping[int, int]
) -> dict[int, int]:
    """The tokens for each of the other messages, by its index. ``room`` is counted in parts of a token, so that the
    shares of the first grow evenly with the budget and no older message falls out when they do.

    A result is in with the message that ``calls`` names for it, else it would be stripped and its room lost."""
    parts = max(1, 2 * keep_first)
    first = [place for place in range(keep_first) if place not in musts]
    share, room = room, room * parts
    room -= sum(min(costs[place] * parts, share) for place in first)
    sizes = {place: min(costs[place], share // parts) for place in first}
    end = len(costs)
    while end > keep_first:
        begin = max(keep_first, _find_group(end - 1, calls))
        group = [place for place in range(begin, end) if place not in musts]
        end = begin
        needed = sum(costs[place] for place in group)
        if needed * parts > room:
            if sum(min(fewest, costs[place]) for place in group) * parts <= room:
                highest = find_level([costs[place] for place in group], room // parts)
                sizes |= {place: min(costs[place], highest) for place in group}
            break
        sizes |= {place: costs[place] for place in group}
        room -= needed * parts
    else:
        left = share - sum(size for place, size in sizes.items() if place >= keep_first)
        highest = find_level([costs[place] for place in first], left)
        sizes |= {place: min(costs[place], highest) for place in first}
    return {place: size for place, size in sizes.items() if size >= min(fewest, costs[place])}


def _find_group(place: int, calls: Mapping[int, int]) -> int:
    """The index where the messages begin that are in with this one or not at all: those from its calls on."""
    begin = each = place
    while each >= begin and place - begin <= REACH:
        begin = min(begin, calls.get(each, each))
        each -= 1
    return begin
