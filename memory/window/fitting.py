"""Which messages a budget of tokens has room for, and which of them must be cut for it."""

from bisect import bisect_left
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from layerlore.memory.tokens import TokenCounter
from layerlore.memory.window.cutting import Weigh, shortened
from layerlore.memory.window.levels import level
from layerlore.storage.records import Message

FEWEST = 24
"""Of fewer tokens than these nothing can be understood: what has no room for them is left out."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """What fits, in order, and the seqs of the messages that were cut for it."""

    messages: tuple[Message, ...]
    shortened: tuple[int, ...]


def fitted(
    messages: Sequence[Message],
    budget: int,
    counter: TokenCounter,
    *,
    keep_newest: int = 0,
    keep_first: int = 0,
    hard: bool = True,
    overhead: int = 0,
    weigh: Weigh | None = None,
) -> Fitted:
    """As much of the messages as fits into ``budget`` tokens, where each costs its own and ``overhead``. With a larger
    budget no message of a smaller one is missing.

    1. The newest message, the newest of the user's and the newest ``keep_newest`` are in. If they do not fit, the
       largest are cut to the same size; below FEWEST tokens each, the oldest of them go, but never the user's. With
       ``hard`` off, the newest ``keep_newest`` are whole whatever the budget.
    2. The first ``keep_first`` get a share each of half the room that is left, and more only if all others fit.
    3. Older messages follow from the newest on, up to the first that does not fit. If at least half of the budget is
       left for that one, it is cut.

    ``weigh`` gives a message that was cut its tokens, where they are not just those of its parts.
    """
    costs = [message.tokens + overhead for message in messages]
    if not messages or sum(costs) <= budget:
        return Fitted(tuple(messages), ())
    newest = range(max(0, len(costs) - keep_newest), len(costs))
    asked = newest_from_user(messages)
    wanted = {*newest, len(costs) - 1, *([] if asked is None else [asked])}
    sizes = _musts(costs, sorted(wanted), budget, asked, [] if hard else newest, FEWEST + overhead)
    room = budget - sum(sizes.values())
    if room > 0 and all(sizes.get(place) == costs[place] for place in wanted):
        sizes |= _others(costs, sizes, budget, room, min(keep_first, len(costs)), FEWEST + overhead)
    kept = [
        (messages[place], shortened(messages[place], size - overhead, counter, weigh=weigh))
        for place, size in sorted(sizes.items())
    ]
    return Fitted(
        tuple(cut for _, cut in kept), tuple(message.seq for message, cut in kept if cut.parts != message.parts)
    )


def newest_from_user(messages: Sequence[Message]) -> int | None:
    """The place of the thread's newest message that the user wrote: predefined ones (seq <= 0) are nobody's, and what
    holds nothing but tool results says nothing."""
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        if message.seq > 0 and message.role == "user" and any(part["type"] != "tool_result" for part in message.parts):
            return place
    return None


def _musts(
    costs: Sequence[int], wanted: Sequence[int], budget: int, asked: int | None, whole: Collection[int], fewest: int
) -> dict[int, int]:
    """What each of those that must be in may cost."""
    sizes = {place: costs[place] for place in whole}
    room = budget - sum(sizes.values())
    sharing = [place for place in wanted if place not in sizes]
    if sizes and sharing:  # the user's message alone, however little room the others leave
        room = max(room, fewest)

    def without_oldest(count: int) -> list[int]:
        gone = {*[place for place in sharing if place != asked][:count]}
        return [place for place in sharing if place not in gone]

    def is_enough(count: int) -> bool:
        shared = [costs[place] for place in without_oldest(count)]
        return level(shared, room) >= min(fewest, max(shared))

    # With one less, each gets more: what is enough stays enough.
    sharing = without_oldest(bisect_left(range(max(0, len(sharing) - 1)), True, key=is_enough))
    highest = level([costs[place] for place in sharing], room)
    return sizes | {place: min(costs[place], highest) for place in sharing}


def _others(
    costs: Sequence[int], musts: Collection[int], budget: int, room: int, keep_first: int, fewest: int
) -> dict[int, int]:
    """What each of the others may cost. ``room`` is counted in parts of a token, so that the shares of the first grow
    evenly with the budget and no older message falls out when they do."""
    parts = max(1, 2 * keep_first)
    first = [place for place in range(keep_first) if place not in musts]
    share, room = room, room * parts
    room -= sum(min(costs[place] * parts, share) for place in first)
    sizes = {place: min(costs[place], share // parts) for place in first}
    for place in range(len(costs) - 1, keep_first - 1, -1):
        if place in musts:
            continue
        if costs[place] * parts > room:
            if 2 * room >= budget * parts and room // parts >= fewest:
                sizes[place] = room // parts
            break
        sizes[place] = costs[place]
        room -= costs[place] * parts
    else:
        left = share - sum(size for place, size in sizes.items() if place >= keep_first)
        highest = level([costs[place] for place in first], left)
        sizes |= {place: min(costs[place], highest) for place in first}
    return {place: size for place, size in sizes.items() if size >= min(fewest, costs[place])}


def aligned(messages: Sequence[Message], budget: int, before: int, grid: int, *, overhead: int = 0) -> int:
    """The place of the first of the newest messages that are to be shown: the longest run that fits ``budget`` and
    begins where the thread's tokens, summed from its beginning (``before`` are those before ``messages``), reach a
    multiple of ``grid``. So the run begins at the same message while the thread grows by about ``grid`` tokens.

    0 where the thread as a whole fits. Where no such place is within the budget: the longest run that fits, and be it
    too long, the newest message.
    """
    total = sum(message.tokens for message in messages)
    if before == 0 and total + overhead * len(messages) <= budget:
        return 0
    longest = len(messages) - 1
    begins: int | None = None
    start, left = before + total, budget
    for place in range(len(messages) - 1, -1, -1):
        tokens = messages[place].tokens
        left -= tokens + overhead
        if left < 0:
            break
        longest = place
        start -= tokens
        ends_before = messages[place - 1].tokens if place else 1
        if start // grid > (start - ends_before) // grid:
            begins = place
    return max(0, longest if begins is None else begins)
