"""The window of a thread: the newest messages that its policy and its budget have room for."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from layerlore.memory.parts.tokens import TokenCounter
from layerlore.memory.window.fit import (
    FittedMessages,
    Weigh,
    blank_results,
    find_newest_from_user,
    fit_messages,
    replace_images,
    shorten_message,
    strip_orphans,
    strip_runs,
)
from layerlore.memory.window.policy import WindowPolicy
from layerlore.memory.window.steady import find_unit_starts
from layerlore.storage.core.records import Message


@dataclass(frozen=True, slots=True)
class Window:
    """The messages, in order, predefined ones first as far as they are in; how many of the thread's are not in it; and
    the seqs of those that were cut. ``summary_tokens``: the most that a summary of the others may take."""

    messages: tuple[Message, ...]
    trimmed: int
    shortened: tuple[int, ...] = ()
    summary_tokens: int = 0


def build_window(messages: Sequence[Message], policy: WindowPolicy, counter: TokenCounter, *, older: int = 0) -> Window:
    """Build the window of a thread, from its newest visible messages, in order; ``older`` counts the others.

    Before them stand, with a gap behind them, the thread's first ``count_leading(policy)`` messages, and the newest of
    the user's where it is older. If the window does not reach back to that gap, it is the window of the whole thread.
    Before the gap, which images and results count as the newest depends on the messages in the call.

    ``limit="observed"`` shows everything: only the room that there is cuts it.
    """
    cut: tuple[int, ...] = ()
    if older and policy.drop == "middle":
        gap = policy.keep_first
    else:
        gap = 0
    if policy.limit == "observed":
        front = strip_orphans(policy.predefined, counter)
        seen = lighten_messages(messages, policy, counter)
        kept = list(enumerate(seen))
    else:
        front = []
        seen = _join_predefined(messages, policy, counter, older)
        if policy.limit == "messages":
            total = len(policy.predefined) + len(messages) + older
            if policy.drop == "middle":
                first = policy.keep_first
            else:
                first = 0
            kept = [(place, seen[place]) for place in _choose_places(seen, count_most_messages(policy, total), first)]
        else:
            # A half that can never be whole costs nothing, and is not a gap.
            whole = strip_runs([*enumerate(seen)], counter, first=gap)
            first = _count_first(whole, seen, policy)
            gap = first if gap else 0
            kept, cut = _fit_tokens(whole, policy, counter, first=first, is_part=older > 0)
    shown = [*front, *strip_runs(kept, counter, first=gap)]
    seqs = {message.seq for message in shown}
    in_thread = sum(seq > 0 for seq in seqs)
    return Window(
        tuple(shown),
        older + len(messages) - in_thread,
        tuple(seq for seq in cut if seq in seqs),
        _count_summary_tokens(policy, shown),
    )


def _count_summary_tokens(policy: WindowPolicy, shown: Sequence[Message]) -> int:
    """With a budget of tokens the summary is a part of it, and has at most what the messages leave."""
    if policy.limit != "tokens":
        return policy.summary_tokens
    return max(0, min(policy.summary_tokens, policy.max_tokens - sum(message.tokens for message in shown)))


def count_leading(policy: WindowPolicy) -> int:
    """How many of a thread's first messages its window may hold beside the newest: predefined messages are the first
    where they are counted."""
    if policy.drop == "oldest":
        return 0
    if policy.limit == "observed":
        counted = 0
    else:
        counted = len(policy.predefined)
    return max(0, policy.keep_first - counted)


def lighten_messages(messages: Sequence[Message], policy: WindowPolicy, counter: TokenCounter) -> list[Message]:
    """Blank tool results and replace images by notes, as the policy says."""
    light = list(messages)
    if policy.blank_tool_results:
        light = blank_results(light, policy.spare_tool_results, counter)
    return replace_images(light, policy.max_images, counter)


def _join_predefined(
    messages: Sequence[Message], policy: WindowPolicy, counter: TokenCounter, older: int
) -> list[Message]:
    light = lighten_messages([*policy.predefined, *messages], policy, counter)
    if not older:
        return light
    # A message that does not fit is dropped, with all older ones except the first that stay.
    if policy.drop == "middle":
        staying = policy.keep_first
    else:
        staying = 0
    return [*light[: len(policy.predefined)][:staying], *light[len(policy.predefined) :]]


def _count_first(whole: Sequence[Message], seen: Sequence[Message], policy: WindowPolicy) -> int:
    """How many of the first messages that stay are whole: no later one stays in the place of another."""
    if policy.drop == "middle":
        staying = min(policy.keep_first, len(seen))
    else:
        staying = 0
    if staying:
        return sum(message.seq <= seen[staying - 1].seq for message in whole)
    return 0


def _fit_tokens(
    messages: Sequence[Message], policy: WindowPolicy, counter: TokenCounter, *, first: int, is_part: bool
) -> tuple[list[tuple[int, Message]], tuple[int, ...]]:
    """The messages within the budget, each with its place, and the seqs of those that were cut."""
    fit = fit_messages(
        messages,
        policy.max_tokens,
        counter,
        keep_newest=policy.min_messages,
        keep_first=first,
        hard=False,
        reserve=policy.summary_tokens if policy.summarise else 0,
        is_part=is_part,
    )
    place_of = {message.seq: place for place, message in enumerate(messages)}
    return [(place_of[message.seq], message) for message in fit.messages], fit.shortened


def count_most_messages(policy: WindowPolicy, total: int) -> int:
    """The number of messages that a window limited by count may show. With a threshold that follows
    from the number alone: there it is cut to the target, and again each time that it has grown back."""
    if policy.trim == "continuous":
        return policy.max_messages
    if total < policy.threshold:
        return total
    # The window is cut once for every ``at_once`` messages, so its start stays the same in between.
    at_once = policy.threshold - policy.target
    return total - (1 + (total - policy.threshold) // at_once) * at_once


def _choose_places(messages: Sequence[Message], most: int, first: int) -> list[int]:
    """The places of the first and of the newest messages, ``most`` together; the user's newest takes the place of the
    oldest of the newest if it is older."""
    if len(messages) <= most:
        return list(range(len(messages)))
    front = min(first, most)
    places = [*range(front), *range(len(messages) - (most - front), len(messages))]
    newest_user = find_newest_from_user(messages)
    if newest_user is not None and newest_user not in places:
        # One of the newest gives way, so that the number stays the same.
        del places[front if front < most else -1]
        places = sorted([*places, newest_user])
    return places


# The fewest tokens that a message of the newest is cut to.
_FEWEST = 40
ASKED_SHARE = 0.75
"""The share of a window's room that the user's newest message gets before anything else."""


class RunFitter:
    """Chooses the newest messages of a run that fit into a number of tokens, where each costs its own and ``overhead``; with
    more tokens each message is shown at least as far. The parts that do not depend on the tokens are made once."""

    def __init__(
        self, run: Sequence[Message], counter: TokenCounter, *, floor: int, overhead: int, weigh: Weigh
    ) -> None:
        self._run = run
        self._counter = counter
        self._floor = floor
        self._overhead = overhead
        self._weigh = weigh
        self._costs = [message.tokens + overhead for message in run]
        self._all = sum(self._costs)

    @cached_property
    def _starts(self) -> list[int]:
        return find_unit_starts(self._run)

    @cached_property
    def _newest(self) -> int:
        """The place where the newest ``floor`` begin."""
        return self._starts[bisect_right(self._starts, max(0, len(self._run) - max(1, self._floor))) - 1]

    @cached_property
    def _lone(self) -> int | None:
        """The place of the user's newest message, if it lies before the newest."""
        newest_user = find_newest_from_user(self._run)
        if newest_user is not None and newest_user < self._newest:
            return newest_user
        return None

    @cached_property
    def _before(self) -> list[int]:
        """The cost of all messages before each place, without the user's newest if it is in anyhow."""
        costs = [0 if place == self._lone else cost for place, cost in enumerate(self._costs)]
        return [0, *accumulate(costs)]

    def fit(self, budget: int) -> FittedMessages:
        """The newest ``floor`` and the user's newest come first, cut if need be. Older ones follow up to the first that does
        not fit, which is cut; a tool call comes with its results, or none of them does."""
        run = self._run
        if self._all <= budget:
            return FittedMessages(tuple(run), ())
        newest = self._newest
        if self._lone is None:
            lone = []
        else:
            lone = [run[self._lone]]
        left = budget - sum(self._costs[newest:]) - sum(message.tokens + self._overhead for message in lone)
        if left < 0:
            # A cut may begin only where a unit starts, so that no result loses its call.
            starts = self._starts[bisect_left(self._starts, newest) :]
            return _cut_required(run, starts, budget, self._counter, self._overhead, self._weigh)
        begin, unit, cut = newest, list[Message](), list[Message]()
        for start in reversed(self._starts[: bisect_left(self._starts, newest)]):
            cost = self._before[begin] - self._before[start]
            if cost > left:
                unit = [run[place] for place in range(start, begin) if place != self._lone]
                cut = _cut_unit(unit, left, self._counter, self._overhead, self._weigh)
                break
            left -= cost
            begin = start
        kept = {message.seq: message for message in (*lone, *cut, *run[begin:])}
        sizes = {message.seq: message.tokens for message in unit}
        shortened = tuple(message.seq for message in cut if message.tokens < sizes[message.seq])
        return FittedMessages(tuple(kept[seq] for seq in sorted(kept)), shortened)


def _cut_required(
    run: Sequence[Message],
    starts: Sequence[int],
    budget: int,
    counter: TokenCounter,
    overhead: int,
    weigh: Weigh,
) -> FittedMessages:
    """The newest messages, from the first of ``starts`` on from which all can be understood, and the user's newest."""
    newest_user = find_newest_from_user(run)
    if newest_user is None:
        question = None
    else:
        question = run[newest_user]

    def count_least(message: Message) -> int:
        return _count_least(message, overhead, int(budget * ASKED_SHARE) if message is question else 0)

    required: list[Message] = []
    for start in starts:
        if newest_user is not None and newest_user < start:
            lone = [run[newest_user]]
        else:
            lone = []
        required = [*lone, *run[start:]]
        if sum(map(count_least, required)) <= budget:
            break
    while len(required) > 1 and sum(map(count_least, required)) > budget:
        required.remove(next(message for message in required if message is not question))
    cut = _cut_to_fit(required, [*map(count_least, required)], budget, counter, overhead, weigh)
    shortened = tuple(after.seq for before, after in zip(required, cut, strict=True) if after.tokens < before.tokens)
    return FittedMessages(tuple(cut), shortened)


def _cut_unit(unit: Sequence[Message], room: int, counter: TokenCounter, overhead: int, weigh: Weigh) -> list[Message]:
    """The messages of a unit, cut; none if the cut would leave nothing readable."""
    least = [_count_least(message, overhead) for message in unit]
    if sum(least) > room:
        return []
    return _cut_to_fit(unit, least, room, counter, overhead, weigh)


def _count_least(message: Message, overhead: int, share: int = 0) -> int:
    """The fewest tokens of a message; with a ``share`` of its own, up to that."""
    return max(min(message.tokens, _FEWEST) + overhead, min(message.tokens + overhead, share))


def _cut_to_fit(
    messages: Sequence[Message],
    least: Sequence[int],
    room: int,
    counter: TokenCounter,
    overhead: int,
    weigh: Weigh,
) -> list[Message]:
    """The messages, each with the ``least`` that it needs, if there is room, and more in the order of their rank."""
    costs = [message.tokens + overhead for message in messages]
    sizes = [min(each, room) for each in least]
    left = max(0, room - sum(sizes))
    order = _rank(messages)
    # Each gets half of the rest in turn before the first may take all it needs.
    for share in (2, 1):
        for place in order:
            more = min(costs[place] - sizes[place], left // share)
            sizes[place] += more
            left -= more
    cut: dict[int, Message] = {}
    # A message that cannot be cut to its size is smaller: the rest goes to the next one.
    for place in order:
        size = min(costs[place], sizes[place] + left)
        cut[place] = shorten_message(messages[place], size - overhead, counter, weigh=weigh)
        left += sizes[place] - cut[place].tokens - overhead
    return [cut[place] for place in range(len(messages))]


def _rank(messages: Sequence[Message]) -> list[int]:
    """The places of the user's newest message and of the newest of all, then of the user's from the newest on, then of the
    others."""
    newest_user = find_newest_from_user(messages)

    def rank(place: int) -> tuple[bool, bool, bool, int]:
        by_user = messages[place].role == "user"
        return place != newest_user, place != len(messages) - 1, not by_user, -place

    return sorted(range(len(messages)), key=rank)
