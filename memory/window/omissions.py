"""Omissions from messages: old tool results, old images, and tool calls or results whose other half is missing."""

from collections.abc import Sequence

from layerlore.memory.parts.parts import join_result, result_parts, says_something, text_part
from layerlore.memory.parts.tokens import TokenCounter
from layerlore.storage.core.records import Json, Message, StoredJson

URL_CHARS = 200
REACH = 100
"""How far before its result a call is looked for: one that lies further back has another's id, as a rule."""
_Place = tuple[int, int]


def image_note(image: Json) -> StoredJson:
    """A text part that replaces an image, with the beginning of the image's URL if it has one."""
    url = image.get("url")
    if not url:
        return text_part("[image left out]")
    return text_part(f"[image left out: {url if len(url) <= URL_CHARS else url[:URL_CHARS] + '…'}]")


def replace_images(messages: Sequence[Message], most: int, counter: TokenCounter) -> list[Message]:
    """Replace all images but the newest ``most`` by notes; images in a tool's result count, too."""
    left = most
    kept: list[Message] = []
    for message in reversed(messages):
        if not any(map(_has_image, message.parts)):
            kept.append(message)
            continue
        parts, left = _replace_images(message.parts, left)
        kept.append(replace_parts(message, parts, counter))
    return kept[::-1]


def _has_image(part: Json) -> bool:
    if part["type"] != "tool_result":
        return bool(part["type"] == "image")
    return any(inner["type"] == "image" for inner in result_parts(part.get("result")))


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
