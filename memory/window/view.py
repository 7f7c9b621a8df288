"""The window of a thread: what its policy shows of it. A view: the same messages and the same policy give the same
window, byte for byte, and nothing is lost by it."""

from collections.abc import Sequence
from dataclasses import dataclass

from layerlore.memory.parts.tokens import TokenCounter
from layerlore.memory.window.fit import find_newest_from_user, fit_messages
from layerlore.memory.window.omissions import blank_results, replace_images, strip_orphans, strip_runs
from layerlore.memory.window.policy import WindowPolicy
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
    """Build the window of a thread, of which the newest visible messages are given, in order, and ``older`` are not.

    Before them stand, with a gap behind them, the thread's first ``count_leading(policy)`` messages, and the newest of the
    user's where it is older. The window is that of the whole thread as soon as it does not reach back to that gap.
    Before the gap, which images and results count as the newest depends on the messages that are given.

    ``limit="observed"`` shows everything: only the room that there is cuts it.
    """
    cut: tuple[int, ...] = ()
    gap = policy.keep_first if older and policy.drop == "middle" else 0
    if policy.limit == "observed":
        front = strip_orphans(policy.predefined, counter)
        seen = lighten_messages(messages, policy, counter)
        kept = list(enumerate(seen))
    else:
        front = []
        seen = _join_predefined(messages, policy, counter, older)
        if policy.limit == "messages":
            total = len(policy.predefined) + len(messages) + older
            first = policy.keep_first if policy.drop == "middle" else 0
            kept = [(place, seen[place]) for place in _choose_places(seen, count_most_messages(policy, total), first)]
        else:
            # A half that can never be whole costs nothing, and is no gap.
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
    counted = 0 if policy.limit == "observed" else len(policy.predefined)
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
    # What is not given is dropped, and all that is older with it, but the first that stay.
    staying = policy.keep_first if policy.drop == "middle" else 0
    return [*light[: len(policy.predefined)][:staying], *light[len(policy.predefined) :]]


def _count_first(whole: Sequence[Message], seen: Sequence[Message], policy: WindowPolicy) -> int:
    """How many of the first messages that stay are whole: no later one stays in the place of another."""
    staying = min(policy.keep_first, len(seen)) if policy.drop == "middle" else 0
    return sum(message.seq <= seen[staying - 1].seq for message in whole) if staying else 0


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
    """How many of so many messages a window that is limited by their number may show. With a threshold that follows
    from the number alone: there it is cut to the target, and again each time that it has grown back."""
    if policy.trim == "continuous":
        return policy.max_messages
    if total < policy.threshold:
        return total
    at_once = policy.threshold - policy.target
    return total - (1 + (total - policy.threshold) // at_once) * at_once


def _choose_places(messages: Sequence[Message], most: int, first: int) -> list[int]:
    """The places of the first and of the newest messages, ``most`` together; the user's newest takes the place of the
    oldest of the newest if it is older."""
    if len(messages) <= most:
        return list(range(len(messages)))
    front = min(first, most)
    places = [*range(front), *range(len(messages) - (most - front), len(messages))]
    asked = find_newest_from_user(messages)
    if asked is not None and asked not in places:
        del places[front if front < most else -1]
        places = sorted([*places, asked])
    return places
