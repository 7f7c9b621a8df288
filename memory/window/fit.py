"""Which messages a budget of tokens has room for, how one message is cut to fit, and what is left out of messages: old tool
results, old images, and tool calls or results whose other half is missing."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from layerlore.memory.parts.parts import (
    UNREAD_ARGUMENTS,
    is_picture,
    join_result,
    result_parts,
    says_something,
    text_part,
)
from layerlore.memory.parts.tokens import CUT_MARK, TokenCounter
from layerlore.storage.core.records import Json, Message, StoredJson

URL_CHARS = 200
REACH = 100
"""How many messages before its result a call is searched for: one that lies further back usually has another's id."""
_Place = tuple[int, int]


def image_note(image: Json) -> StoredJson:
    """A text part that replaces an image, with its caption and the beginning of its URL if it has them."""
    url = image.get("url", "")
    if len(url) > URL_CHARS:
        url = url[:URL_CHARS] + "…"
    stated = ", ".join(filter(None, (image.get("caption"), url)))
    return text_part(f"[image left out: {stated}]" if stated else "[image left out]")


def replace_images(messages: Sequence[Message], most: int, counter: TokenCounter) -> list[Message]:
    """Replace all images but the newest ``most`` by notes; images in a tool's result count, too."""
    left = most
    kept: list[Message] = []
    # The newest images stay, so the loop begins with the newest message.
    for message in reversed(messages):
        if not any(map(_has_image, message.parts)):
            kept.append(message)
            continue
        parts, left = _replace_images(message.parts, left)
        kept.append(replace_parts(message, parts, counter))
    return kept[::-1]


def _has_image(part: Json) -> bool:
    # Most parts are texts, and every context looks at all of its window.
    return part["type"] != "text" and any(map(is_picture, (part, *result_parts(part.get("result")))))


def _replace_images(parts: Sequence[Json], left: int) -> tuple[list[Json], int]:
    """The parts with notes for all images but the last ``left``, and how many may still stay before them."""
    noted: list[Json] = []
    for part in reversed(parts):
        if not _has_image(part):
            noted.append(part)
        elif part["type"] == "tool_result":
            inner, left = _replace_images(part["result"], left)
            noted.append(part if inner == part["result"] else {**part, "result": join_result(inner)})
        else:
            noted.append(part if left > 0 else image_note(part))
            left -= 1
    return noted[::-1], left


def blank_results(messages: Sequence[Message], spare: int, counter: TokenCounter) -> list[Message]:
    """Empty every tool result but the newest ``spare``. The call, its arguments and its failure stay."""
    seen = 0
    kept: list[Message] = []
    for message in reversed(messages):
        parts: list[Json] = []
        for part in reversed(message.parts):
            if part["type"] == "tool_result":
                seen += 1
                parts.append({**part, "result": ""} if seen > spare else part)
            else:
                parts.append(part)
        kept.append(replace_parts(message, parts[::-1], counter))
    return kept[::-1]


def strip_orphans(messages: Sequence[Message], counter: TokenCounter) -> list[Message]:
    """Remove the calls that have no result in this run of messages, and the results that have no call before them.

    Providers refuse half of such a pair. A result belongs to the latest call of its id before it, as in
    ``storage.messages.tool_pairs``. Other parts stay; a message that is left with nothing to say goes.
    """
    gone = _find_orphans(messages)
    if not gone:
        return list(messages)
    touched = {place for place, _ in gone}
    kept: list[Message] = []
    for place, message in enumerate(messages):
        if place not in touched:
            kept.append(message)
            continue
        parts = [part for at, part in enumerate(message.parts) if (place, at) not in gone]
        if any(map(says_something, parts)):
            kept.append(replace_parts(message, parts, counter))
    return kept


def strip_runs(kept: Sequence[tuple[int, Message]], counter: TokenCounter, *, first: int = 0) -> list[Message]:
    """Remove the halves of pairs from messages with their places. A call and a result on the two sides of a gap are
    not a pair, even with the same id: some models count their calls anew in each turn. ``first``: the number of
    messages before the omission."""
    whole: list[Message] = []
    run: list[Message] = []
    before = -1
    for place, message in kept:
        skips = place != before + 1
        # Predefined messages have seqs up to 0, and are no part of the thread's own run.
        enters_thread = bool(run) and run[-1].seq <= 0 < message.seq
        passes_gap = bool(run) and place == first and message.seq != run[-1].seq + 1
        if run and (skips or enters_thread or passes_gap):
            whole += strip_orphans(run, counter)
            run = []
        run.append(message)
        before = place
    return whole + strip_orphans(run, counter)


def find_newest_run(messages: Sequence[Message], least: int) -> int:
    """The index from which on the newest ``least`` messages are whole when the halves of pairs are stripped, so with the
    calls that their results answer, as far as these lie at most REACH messages before; 0 if there are no more."""
    reach = REACH
    # A result may lie far behind its call, so the tail grows until enough of it is whole.
    while True:
        start = max(0, len(messages) - least - reach)
        tail = messages[start:]
        left = _find_left(tail)
        if len(left) >= least or not start:
            break
        reach *= 2
    if not least or len(left) < least:
        if least:
            return start
        return len(messages)
    needed = {*left[-least:]}
    calls = [call for call, result in find_pairs(tail) if result in needed]
    return start + min([left[-least], *calls])


def find_calls(messages: Sequence[Message]) -> dict[int, int]:
    """By the place of a message with results, the place of the first message whose calls they answer, as far as it lies
    at most REACH messages before."""
    first: dict[int, int] = {}
    for call, result in find_pairs(messages):
        if result - call <= REACH:
            first[result] = min(call, first.get(result, call))
    return first


def holds_newest(messages: Sequence[Message], least: int) -> bool:
    """Whether the newest ``least`` messages and the calls that they need are among these, whatever lies before them."""
    left = _find_left(messages)
    if len(left) < least:
        return False
    waiting = any(
        messages[place].parts[at]["type"] == "tool_result"
        for place, at in _find_orphans(messages)
        if place >= left[-least]
    )
    # The call of such a result may lie up to REACH messages further back.
    return not waiting or len(messages) >= least + REACH


def _find_left(messages: Sequence[Message]) -> list[int]:
    """The places of the messages that ``strip_orphans`` leaves."""
    gone = _find_orphans(messages)
    touched = {place for place, _ in gone}
    return [
        place
        for place, message in enumerate(messages)
        if place not in touched
        or any(says_something(part) for at, part in enumerate(message.parts) if (place, at) not in gone)
    ]


def find_pairs(messages: Sequence[Message]) -> list[tuple[int, int]]:
    """The places of each call and of each of its results."""
    latest: dict[str, int] = {}
    found: list[tuple[int, int]] = []
    for place, message in enumerate(messages):
        for part in message.parts:
            if part["type"] == "tool_call":
                latest[part["id"]] = place
            elif part["type"] == "tool_result" and part["tool_call_id"] in latest:
                found.append((latest[part["tool_call_id"]], place))
    return found


def _find_orphans(messages: Sequence[Message]) -> set[_Place]:
    """Where the halves of pairs are that are alone: message and part, counted from 0."""
    latest: dict[str, _Place] = {}
    alone: set[_Place] = set()
    for place, message in enumerate(messages):
        for at, part in enumerate(message.parts):
            if part["type"] == "tool_call":
                latest[part["id"]] = (place, at)
                alone.add((place, at))
            elif part["type"] == "tool_result":
                call = latest.get(part["tool_call_id"])
                if call is None:
                    alone.add((place, at))
                else:
                    alone.discard(call)
    return alone


def replace_parts(message: Message, parts: list[Json], counter: TokenCounter) -> Message:
    """The message with these parts, its tokens counted again; the message itself if the parts are its own."""
    # Counting tokens is slow, so an unchanged message keeps its count.
    if parts == message.parts:
        return message
    return Message(
        message.thread_id,
        message.seq,
        message.id,
        message.role,
        message.name,
        parts,
        message.metadata,
        counter.parts(parts),
        counter.name,
        message.created_at,
        message.said_at,
        message.revision,
    )


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

    images = sum(map(is_picture, parts))
    gone = _find_fewest(images, lambda count: counted(_replace_first_images(parts, count)).tokens <= most)
    noted = _replace_first_images(parts, gone)
    # As it is it has too many, and counting a long text takes most of the time.
    is_less = gone > 0 or len(parts) < len(message.parts)
    if noted and is_less and (whole := counted(noted)).tokens <= most:
        return whole
    # Arguments become one text only if cutting their strings is not enough.
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
        gone = is_picture(part) and count > 0
        count -= gone
        noted.append(image_note(part) if gone else part)
    return noted


def _without_last(parts: list[Json], count: int) -> list[Json]:
    return [*parts[: len(parts) - count], text_part(CUT_MARK)]


def _least_part(part: Json) -> StoredJson:
    if is_picture(part):
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
        # All texts that are cut share the excess, so the next guess is close.
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
            # The beginning is too short to prove that the text is too long.
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
        case "image" if "caption" in part:
            return {**part, "caption": change(part["caption"])}
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
    newest_user = find_newest_from_user(messages)
    wanted = {*newest, *([] if newest_user is None else [newest_user])}
    users = [place for place in wanted if is_from_user(messages[place])]
    whole = newest if keep_newest and not hard else ()
    sizes, free = _share_among_required(costs, wanted, users, budget, whole, FEWEST + overhead, reserve)
    room = budget - sum(sizes.values()) - free
    # Older messages come in only if every required one is whole.
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
        # The others keep some room, however long the user's message is.
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
    """Cut the messages to one size: first each gets ``fewest``, in the order of the places. The first one without room
    is left out, and so are all after it; ``always`` keeps the very first in any case. The reserve is the last."""
    left = room
    sizes: dict[int, int] = {}
    for place in places:
        least = min(fewest, costs[place])
        if least > left and (sizes or not always):
            return sizes, 0
        sizes[place] = min(least, left)
        left -= least
    highest = find_level([*(costs[place] for place in places), reserve], room)
    # One size would leave each too little to be understood.
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
        # Everything fits but the first messages, which share what is left.
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
