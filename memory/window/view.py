"""The window of a thread: what its policy shows of it. A view: the same messages and the same policy give the same
window, byte for byte, and nothing is lost by it."""

from collections.abc import Sequence
from dataclasses import dataclass

from layerlore.memory.tokens import TokenCounter
from layerlore.memory.window.blanking import blanked
from layerlore.memory.window.fitting import fitted, newest_from_user
from layerlore.memory.window.images import without_images
from layerlore.memory.window.pairs import without_orphans
from layerlore.memory.window.policy import WindowPolicy
from layerlore.storage.records import Message


@dataclass(frozen=True, slots=True)
class Window:
    """The messages, in order, predefined ones first as far as they are in; how many of the thread's are not in it; and
    the seqs of those that were cut."""

    messages: tuple[Message, ...]
    trimmed: int
    shortened: tuple[int, ...] = ()


def window_of(
    messages: Sequence[Message], policy: WindowPolicy, counter: TokenCounter, *, older: int = 0, cursor: int = 0
) -> Window:
    """The window of a thread, of which the newest visible messages are given, in order, and ``older`` are not.

    Before them stand, with a gap behind them, the thread's first ``leading(policy)`` messages, and the newest of the
    user's where it is older. The window is that of the whole thread as soon as it does not reach back to that gap; only
    which images and results count as the newest is told, for what stands before the gap, by what is given.

    ``cursor``: the seq up to which everything is observed, for ``limit="observed"``.
    """
    cut: tuple[int, ...] = ()
    if policy.limit == "observed":
        front = without_orphans(policy.predefined, counter)
        seen = lightened(messages, policy, counter)
        kept = [(place, seen[place]) for place in _unobserved(seen, policy.last_messages, cursor)]
    else:
        front = []
        seen = _with_predefined(messages, policy, counter, older)
        kept, cut = _limited(seen, policy, counter, len(policy.predefined) + len(messages) + older)
    shown = [*front, *_whole_pairs(kept, policy.keep_first if older and policy.drop == "middle" else 0, counter)]
    seqs = {message.seq for message in shown}
    in_thread = sum(seq > 0 for seq in seqs)
    return Window(tuple(shown), older + len(messages) - in_thread, tuple(seq for seq in cut if seq in seqs))


def leading(policy: WindowPolicy) -> int:
    """How many of a thread's first messages its window may hold beside the newest: predefined messages are the first
    where they are counted."""
    if policy.drop == "oldest":
        return 0
    counted = 0 if policy.limit == "observed" else len(policy.predefined)
    return max(0, policy.keep_first - counted)


def lightened(messages: Sequence[Message], policy: WindowPolicy, counter: TokenCounter) -> list[Message]:
    """The messages with tool results blanked and images replaced by notes, as the policy has it."""
    light = list(messages)
    if policy.blank_tool_results:
        light = blanked(light, policy.spare_tool_results, counter)
    return without_images(light, policy.max_images, counter)


def _with_predefined(
    messages: Sequence[Message], policy: WindowPolicy, counter: TokenCounter, older: int
) -> list[Message]:
    light = lightened([*policy.predefined, *messages], policy, counter)
    if not older:
        return light
    # What is not given is dropped, and all that is older with it, but the first that stay.
    staying = policy.keep_first if policy.drop == "middle" else 0
    return [*light[: len(policy.predefined)][:staying], *light[len(policy.predefined) :]]


def _unobserved(messages: Sequence[Message], fewest: int, cursor: int) -> list[int]:
    """The places of what comes after the cursor, or of the newest, and of the user's newest message."""
    after = next((place for place, message in enumerate(messages) if message.seq > cursor), len(messages))
    begins = min(after, max(0, len(messages) - fewest))
    asked = newest_from_user(messages)
    return [*([asked] if asked is not None and asked < begins else []), *range(begins, len(messages))]


def _limited(
    messages: Sequence[Message], policy: WindowPolicy, counter: TokenCounter, total: int
) -> tuple[list[tuple[int, Message]], tuple[int, ...]]:
    """The messages within the limit, each with its place, and the seqs of those that were cut. ``total``: with those
    that are not given."""
    first = policy.keep_first if policy.drop == "middle" else 0
    if policy.limit == "messages":
        places = _counted(messages, most_messages(policy, total), first)
        return [(place, messages[place]) for place in places], ()
    budget = policy.max_tokens
    if policy.summarise and (total > len(messages) or sum(message.tokens for message in messages) > budget):
        budget -= policy.summary_tokens
    fit = fitted(messages, budget, counter, keep_newest=policy.min_messages, keep_first=first, hard=False)
    place_of = {message.seq: place for place, message in enumerate(messages)}
    return [(place_of[message.seq], message) for message in fit.messages], fit.shortened


def most_messages(policy: WindowPolicy, total: int) -> int:
    """How many of so many messages a window that is limited by their number may show. With a threshold that follows
    from the number alone: there it is cut to the target, and again each time that it has grown back."""
    if policy.trim == "continuous":
        return policy.max_messages
    if total < policy.threshold:
        return total
    at_once = policy.threshold - policy.target
    return total - (1 + (total - policy.threshold) // at_once) * at_once


def _counted(messages: Sequence[Message], most: int, first: int) -> list[int]:
    """The places of the first and of the newest messages, ``most`` together; the user's newest takes the place of the
    oldest of the newest if it is older."""
    if len(messages) <= most:
        return list(range(len(messages)))
    front = min(first, most)
    places = [*range(front), *range(len(messages) - (most - front), len(messages))]
    asked = newest_from_user(messages)
    if asked is not None and asked not in places:
        del places[front if front < most else -1]
        places = sorted([*places, asked])
    return places


def _whole_pairs(kept: Sequence[tuple[int, Message]], first: int, counter: TokenCounter) -> list[Message]:
    """The messages less the halves of pairs. What stands on the two sides of a gap is no pair, whatever its ids: some
    models count their calls anew in each turn. ``first``: so many messages stand before what is not given."""
    whole: list[Message] = []
    run: list[Message] = []
    before = -1
    for place, message in kept:
        if run and (
            place != before + 1
            or (run[-1].seq <= 0 < message.seq)
            or (place == first and message.seq != run[-1].seq + 1)
        ):
            whole += without_orphans(run, counter)
            run = []
        run.append(message)
        before = place
    return whole + without_orphans(run, counter)
