"""The window beside a prompt cache: it moves in steps, and cuts a message in the same way until it moves.

A cache keeps the beginning of a request. So the place where the window begins, and the cut of each message in it, depend
on the messages before that place and on the room; what comes behind changes neither."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from layerlore.memory.parts.tokens import TokenCounter
from layerlore.memory.window.fit import (
    FittedMessages,
    Weigh,
    find_level,
    find_newest_from_user,
    find_pairs,
    shorten_message,
)
from layerlore.storage.core.records import Message

# Shares of the room, so that with more room each message is shown at least as far.
_TOOL_SHARE = 32
"""A message with calls or results that the model has answered has at most this part of the room."""
_TALK_SHARE = 8
"""Any other message has at most this part, and all that the model has not answered have it together."""
_OLD_SHARE = 0.25
"""The share of a full window that a step leaves."""
_ASKED_SHARE = 0.75
"""The user's newest message may take this share of the window."""
_FEWEST = 40
"""The fewest tokens that a message is cut to."""


def count_tool_limit(room: int) -> int:
    """The most tokens of an answered message with calls or results."""
    return room // _TOOL_SHARE


@dataclass(frozen=True, slots=True)
class SteadyWindow:
    """A window by the seqs of its messages: it ``begins`` at one and had its last step at ``stepped``. ``sizes`` has the
    most tokens of each message in it."""

    begins: int
    stepped: int
    sizes: dict[int, int]


def find_unit_starts(run: Sequence[Message]) -> list[int]:
    """The places where a run may begin: no tool call before them has its result behind them."""
    spanned = [0] * (len(run) + 1)
    for call, result in find_pairs(run):
        spanned[call + 1] += 1
        spanned[result + 1] -= 1
    return [place for place, inside in enumerate(accumulate(spanned[:-1])) if not inside]


def choose_landmark(run: Sequence[Message], starts: Sequence[int], first: int, last: int) -> int:
    """The place among ``starts[first : last + 1]`` that stays chosen longest while both ends move on.

    It is the one whose seq passes the highest power of 2 since the start before it. Between two that pass the same one
    lies a start that passes a higher one, so there is one such place, and it moves forward only."""

    def count_bits(at: int) -> int:
        seq = run[starts[at]].seq
        before = run[starts[at - 1]].seq if at else seq - 1
        return (seq ^ before).bit_length()

    return starts[max(range(first, last + 1), key=count_bits)]


def find_settled_start(run: Sequence[Message], budget: int, *, floor: int, overhead: int) -> int:
    """The seq of a message where the newest of the run begin that fit ``budget``, which stays the same while the thread
    grows by some of the budget, and with a larger budget is as early or earlier.

    From there on, at least half of the budget and the newest ``floor`` messages are in, as far as they fit. Behind the
    last message where none fits."""
    if not run:
        return 0
    starts = find_unit_starts(run)
    costs = _count_from(run, [message.tokens + overhead for message in run])
    first = next((at for at, place in enumerate(starts) if costs[place] <= budget), len(starts))
    if first == len(starts):
        return run[-1].seq + 1
    half = next((at for at, place in enumerate(starts) if costs[place] <= budget // 2), len(starts))
    newest = bisect_left(starts, max(0, len(run) - floor) + 1)
    last = max(first, min(half, newest) - 1)
    return run[choose_landmark(run, starts, first, last)].seq


def _count_from(run: Sequence[Message], costs: Sequence[int]) -> list[int]:
    """The cost of all messages from each place on, with the user's newest, which is shown wherever it stands."""
    newest_user = find_newest_from_user(run)
    from_here = [*accumulate(reversed(costs))][::-1]
    if newest_user is None:
        return from_here
    lone = costs[newest_user]
    return [cost + (lone if place > newest_user else 0) for place, cost in enumerate(from_here)]


def choose_steady(run: Sequence[Message], room: int, budget: int, *, floor: int, overhead: int) -> SteadyWindow | None:
    """The window of at most ``budget`` tokens of a context's ``room``; None where that is too little for steps.

    The messages since the last step are cut to their limits. Before them stand at least ``floor`` messages, cut harder
    if they must be. So at every moment the newest ``floor`` are in."""
    limits = [room // (_TOOL_SHARE if _has_tool_parts(message) else _TALK_SHARE) for message in run]
    sizes = [min(message.tokens, limit) for message, limit in zip(run, limits, strict=True)]
    reserve = _count_reserve(run, room)
    unanswered = _count_unanswered(run, sizes, reserve)
    newest_user = find_newest_from_user(run)
    left = budget - reserve
    if newest_user is not None:
        asked = max(sizes[newest_user], min(run[newest_user].tokens, int(left * _ASKED_SHARE)))
        left -= asked - sizes[newest_user]
        unanswered[newest_user] = asked
    # The room varies a little with the blocks beside the messages, and the window should not.
    step = max(1, room // _TOOL_SHARE)
    left = left // step * step
    old = int(left * _OLD_SHARE)
    starts = find_unit_starts(run)
    costs = _count_from(run, [size + overhead for size in sizes])
    first = next((at for at, place in enumerate(starts) if costs[place] <= left - old), len(starts))
    if first == len(starts):
        return None
    stepped = choose_landmark(run, starts, first, len(starts) - 1)
    begins, level = _find_old(sizes[:stepped], starts, old, floor, overhead)
    old_sizes = [min(size, level) for size in sizes[:stepped]]
    final = {**dict(enumerate([*old_sizes, *sizes[stepped:]])), **unanswered}
    shown = {run[place].seq: size for place, size in final.items() if place >= begins or place == newest_user}
    return SteadyWindow(run[begins].seq, run[stepped].seq, shown)


def _has_tool_parts(message: Message) -> bool:
    return any(part["type"] in ("tool_call", "tool_result") for part in message.parts)


def _count_reserve(run: Sequence[Message], room: int) -> int:
    """The tokens set aside for results that are not answered yet: as many as the largest of the run would need."""
    largest = max((message.tokens for message in run if _has_tool_parts(message)), default=0)
    return max(0, min(room // _TALK_SHARE, largest - count_tool_limit(room)))


def _count_unanswered(run: Sequence[Message], sizes: Sequence[int], reserve: int) -> dict[int, int]:
    """The sizes of the messages that the model has not answered yet, by their places: they share the reserve."""
    places: list[int] = []
    for place in range(len(run) - 1, -1, -1):
        if run[place].role == "assistant":
            break
        places.append(place)
    lacking = {place: run[place].tokens - sizes[place] for place in places}
    level = max(0, find_level([*lacking.values()], reserve))
    return {place: sizes[place] + min(lack, level) for place, lack in lacking.items()}


def _find_old(sizes: Sequence[int], starts: Sequence[int], room: int, floor: int, overhead: int) -> tuple[int, int]:
    """The place where the messages before the last step begin, and the most tokens of each of them."""
    stepped = len(sizes)
    before = [start for start in starts if start <= stepped]
    costs = [size + overhead for size in sizes]
    from_here = [*[*accumulate(reversed(costs))][::-1], 0]
    begins = next(start for start in before if from_here[start] <= room)
    wanted = before[bisect_left(before, max(0, stepped - floor) + 1) - 1]
    if begins <= wanted:
        return begins, max(sizes, default=0)
    # Not all of the least number fit as they are: they are cut to one size, and the oldest go.
    fewest = [min(size, _FEWEST) + overhead for size in sizes]
    least = [*[*accumulate(reversed(fewest))][::-1], 0]
    begins = next(start for start in before if start >= wanted and least[start] <= room)
    return begins, find_level(costs[begins:], room) - overhead


def cut_steady(run: Sequence[Message], steady: SteadyWindow, counter: TokenCounter, weigh: Weigh) -> FittedMessages:
    """The messages of the window, cut to their sizes."""
    shown = [
        (message, shorten_message(message, steady.sizes[message.seq], counter, weigh=weigh))
        for message in run
        if message.seq in steady.sizes
    ]
    return FittedMessages(
        tuple(cut for _, cut in shown), tuple(message.seq for message, cut in shown if cut is not message)
    )
