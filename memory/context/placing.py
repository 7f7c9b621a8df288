"""Which blocks and messages of a context there is room for, and where its window begins."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from layerlore.memory.context.budget import grid, shares, summary_tokens, window_budget
from layerlore.memory.context.layout import Laid
from layerlore.memory.context.loading import Loaded, floor_of
from layerlore.memory.context.message_lines import OVERHEAD, weighed
from layerlore.memory.context.pieces import Piece, Shown
from layerlore.memory.tokens import TokenCounter
from layerlore.memory.window.fitting import aligned, fitted, newest_from_user
from layerlore.memory.window.pairs import without_orphans
from layerlore.memory.window.policy import WindowPolicy
from layerlore.memory.window.view import Window
from layerlore.storage.records import Message, Thread

# Set aside for the frame of the summary.
_SUMMARY_FRAME = 60


@dataclass(frozen=True, slots=True)
class Said:
    """A thread, what was read of it, what its policy shows of that, and the seq up to which it is observed."""

    thread: Thread
    loaded: Loaded
    window: Window
    cursor: int = 0


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What of the thread is not in the window: how many messages, all before the seq ``before`` or in gaps; up to
    which seq observations tell of them; and some of the others, to be told in ``summary_tokens`` (0: they are not)
    beside the ``summary`` that a model made of those before them."""

    messages: int = 0
    before: int = 0
    observed: int = 0
    summary_tokens: int = 0
    sample: tuple[Message, ...] = ()
    summary: str = ""


@dataclass(frozen=True, slots=True)
class Gathered:
    """A context before its blocks are put in order: ``note`` says why the policy is not the one that was set."""

    thread_id: str
    thread_uid: str
    policy: WindowPolicy
    note: str
    shown: tuple[Shown, ...] = ()
    predefined: tuple[Message, ...] = ()
    window: tuple[Message, ...] = ()
    shortened: tuple[int, ...] = ()
    left_out: LeftOut = field(default_factory=LeftOut)

    @property
    def laid_window(self) -> Laid:
        """The messages in their places; a turn begins with the newest user message."""
        begins = newest_from_user(self.window)
        if begins is None:
            return Laid(predefined=self.predefined, before=self.window)
        return Laid(predefined=self.predefined, before=self.window[:begins], turn=self.window[begins:])


def placed(
    thread_id: str,
    policy: WindowPolicy,
    note: str,
    pieces: Sequence[Piece],
    said: Said | None,
    room: int,
    max_tokens: int,
    counter: TokenCounter,
) -> Gathered:
    """Every block within its share, and the window within the rest."""
    weighed_all = [weighed(message, counter) for message in said.window.messages] if said else []
    predefined = [message for message in weighed_all if message.seq <= 0]
    window = [message for message in weighed_all if message.seq > 0]
    needs: dict[str, int] = {each.name: each.tokens for each in pieces}
    needs["predefined-messages"] = _cost(predefined)
    summarised = policy.summarise or policy.limit == "observed"
    summary = summary_tokens(policy.summary_tokens, room) if summarised else 0
    reserve = summary + _SUMMARY_FRAME if summary else 0
    trimmed = said is not None and said.window.trimmed > 0 and _unobserved(window, said)
    if sum(needs.values()) + _cost(window) + (reserve if trimmed else 0) > room:
        trimmed = True
    if trimmed:
        room -= reserve
    given = shares(needs, _cost(window), room)
    shown = [each.within(given.get(each.name, 0), counter) for each in pieces]
    front = _front(predefined, given.get("predefined-messages", 0), counter)
    left = room - sum(each.tokens for each in shown) - _cost(front)
    kept, shortened = _within(window, said, policy, left, max_tokens, counter) if said else ([], ())
    cut = {*shortened, *(said.window.shortened if said else ())}
    missing = said.thread.message_count - len(kept) if said else 0
    cursor = said.cursor if said else 0
    run_from = said.loaded.run[0].seq if said and said.loaded.run else 0
    before = min(
        (message.seq for message in kept if message.seq >= run_from), default=said.thread.next_seq if said else 0
    )
    return Gathered(
        thread_id,
        said.thread.thread_uid if said else "",
        policy,
        note,
        tuple(shown),
        front,
        tuple(kept),
        tuple(message.seq for message in (*front, *kept) if message.seq in cut),
        LeftOut(missing, before, cursor, summary if missing and before - 1 > cursor else 0),
    )


def _unobserved(window: Sequence[Message], said: Said) -> bool:
    """Whether something lies between what is observed and the window's run of newest messages."""
    run_from = said.loaded.run[0].seq if said.loaded.run else 0
    first = min((message.seq for message in window if message.seq >= run_from), default=said.thread.next_seq)
    return first - 1 > said.cursor


def _front(predefined: Sequence[Message], most: int, counter: TokenCounter) -> tuple[Message, ...]:
    """The predefined messages, the last of them where not all fit."""
    if _cost(predefined) <= most:
        return tuple(predefined)
    run = list(predefined)
    while run and _cost(run) > most:
        run.pop(0)
    return tuple(without_orphans(run, counter))


def _cost(messages: Sequence[Message]) -> int:
    return sum(message.tokens + OVERHEAD for message in messages)


def _within(
    window: list[Message], said: Said, policy: WindowPolicy, left: int, max_tokens: int, counter: TokenCounter
) -> tuple[list[Message], tuple[int, ...]]:
    """The window's messages that fit, and which of them were cut. It begins where it can begin for a while."""
    if _cost(window) <= left:
        return window, ()
    budget = window_budget(left, max_tokens)
    first = said.loaded.run[0].seq
    run = [message for message in window if message.seq >= first]
    lead = [message for message in window if message.seq < first]
    behind = sum(message.tokens for message in said.loaded.run if run and message.seq >= run[0].seq)
    start = _start(run, budget, said.thread.token_count - behind, floor_of(policy))
    newest = newest_from_user(run)
    asked = [run[newest]] if newest is not None and newest < start else []
    keep_first = policy.keep_first if policy.drop == "middle" else 0
    front = [*lead, *run[: max(0, keep_first - len(lead))]] if keep_first else lead
    told = {message.seq: message for message in (*front, *asked, *run[start:])}
    fit = fitted(
        [told[seq] for seq in sorted(told)],
        budget,
        counter,
        keep_newest=floor_of(policy),
        keep_first=keep_first,
        overhead=OVERHEAD,
        weigh=lambda message: weighed(message, counter),
    )
    return _whole_pairs(fit.messages, window, counter), fit.shortened


def _whole_pairs(kept: Sequence[Message], window: Sequence[Message], counter: TokenCounter) -> list[Message]:
    """What is kept less the halves of pairs; what stands on the two sides of a gap is no pair, whatever its ids."""
    places = {message.seq: place for place, message in enumerate(window)}
    whole: list[Message] = []
    run: list[Message] = []
    for message in kept:
        if run and places[message.seq] != places[run[-1].seq] + 1:
            whole += without_orphans(run, counter)
            run = []
        run.append(message)
    return whole + without_orphans(run, counter)


def _start(run: Sequence[Message], budget: int, before: int, floor: int) -> int:
    """Where the run begins to fit: on the widest grid on which it keeps ``floor`` messages, so that it begins there for
    as long as can be."""
    wide = grid(budget)
    while run and wide > 1:
        start = aligned(run, budget, before, wide, overhead=OVERHEAD)
        if len(run) - start >= floor:
            return start
        wide //= 2
    return max(0, len(run) - floor)
