"""The placement of a context: which of its material there is room for, and in which of its places it stands."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from layerlore.memory.context.context_blocks import (
    OVERHEAD,
    FoldedTexts,
    MemoryFitter,
    ShownBlock,
    ShownContext,
    weigh_message,
)
from layerlore.memory.context.material import ContextMaterial, count_messages
from layerlore.memory.context.window_loader import NotesOnLeftOut, find_floor, take_notes_on
from layerlore.memory.parts.tokens import TokenCounter
from layerlore.memory.shapes.exchanges import ContextLayout
from layerlore.memory.window.fit import FittedMessages, find_newest_from_user, fit_messages, strip_orphans, strip_runs
from layerlore.memory.window.steady import cut_steady
from layerlore.memory.window.view import RunFitter
from layerlore.storage.core.records import Message

# Messages take what notes and memories leave, and so some of these are needed no more: some rounds settle that.
_ROUNDS = 12
# The share of the room that memories leave.
_SPARE_FOR_NOTES = 0.6
STABLE = ("user-profile", "observations", "summary")
VOLATILE = ("session-memory", "current-task", "plan", "previous-attempts", "open-work")
RECALLED = ("memory",)


@dataclass(frozen=True, slots=True)
class PlacedContext:
    """A context as it is shown: its blocks, the messages of the window in order, and which of them were cut."""

    material: ContextMaterial
    blocks: tuple[ShownBlock, ...]
    predefined: tuple[Message, ...]
    window: tuple[Message, ...]
    shortened: tuple[int, ...]

    @property
    def missing(self) -> int:
        """How many messages of the thread are not in the window."""
        return self.material.total - len(self.window)

    @property
    def missing_behind(self) -> int:
        """How many of them are newer than all that are in the window."""
        if self.window:
            last = self.window[-1].seq
        else:
            last = 0
        if last > 0:
            return sum(seq > last for seq in self.material.newest)
        return 0

    @property
    def is_new(self) -> bool:
        """Whether the thread has no messages."""
        return not self.material.total

    def lay_out(self) -> ContextLayout:
        """Everything in its place; a turn begins with the newest user message."""
        texts = {each.name: each.text for each in self.blocks if each.text}
        begins = find_newest_from_user(self.window)
        return ContextLayout(
            predefined=self.predefined,
            stable=tuple(texts[name] for name in STABLE if name in texts),
            before=self.window if begins is None else self.window[:begins],
            volatile=tuple(texts[name] for name in VOLATILE if name in texts),
            turn=() if begins is None else self.window[begins:],
            recalled=tuple(texts[name] for name in RECALLED if name in texts),
        )


def place_context(material: ContextMaterial, counter: TokenCounter, *, now: int) -> PlacedContext:
    """Cut every block to its share, and the window to the rest.

    Messages, notes and memories share what the blocks leave: messages take what the others do not need, and never less
    than with a smaller room."""
    given, shares = material.given, material.shares
    blocks = [each.within(given.get(each.name, 0), counter) for each in material.pieces]
    predefined = _fit_predefined(material.predefined, given.get("predefined-messages", 0), counter)
    memories, folded = MemoryFitter(material.recalled, counter, now=now), FoldedTexts(material.read.fold)
    rounds = _ROUNDS

    def take_notes(window: FittedMessages) -> NotesOnLeftOut:
        # Notes also stand for the words that a shortened message no longer shows. In a window that moves in steps,
        # they do so from its next step on.
        noted_before = material.steady.stepped if material.steady else math.inf
        cut = [message for message in material.run if message.seq in window.shortened and message.seq < noted_before]
        return take_notes_on(material.left_out, _find_begin(material, window), cut, counter)

    def list_shown(window: FittedMessages, notes: Sequence[ShownBlock]) -> ShownContext:
        newest_user = find_newest_from_user(window.messages)
        if newest_user is None:
            begins = 0
        else:
            begins = window.messages[newest_user].seq
        texts = [each.text for each in (*blocks, *notes)]
        shown = [*predefined, *window.messages]
        # What is recalled for a turn stays the same through it, so that a prompt cache keeps it.
        if material.keeps_start and newest_user is not None:
            shown = [message for message in shown if message.seq <= begins]
        return ShownContext(material.thread_id, shown, begins, texts, folded, cut=window.shortened)

    most_notes = shares.notes
    windows = _WindowFitter(material, counter)
    window = windows.fit(shares.room - shares.memory - most_notes)
    whole: ShownBlock | None = None
    while True:
        notes = take_notes(window)
        shown = notes.render(most_notes, counter)
        left = shares.room - sum(each.tokens for each in shown) - count_messages(window.messages)
        already = list_shown(window, shown)
        # Where all messages are shown, memories have what they leave.
        memory = memories.fit(already, left if len(window.messages) == len(material.run) else shares.memory)
        # Messages and notes may take more than their share: memories then get the rest.
        if memory.tokens > left:
            memory = memories.fit(already, left)
        # A wider window leaves no more than they take, in which it cannot be seen that these are all.
        if memory.is_whole:
            whole = memory.block
        if memory.is_whole or (memory.block and memory.block == whole):
            claimed = memory.tokens
        else:
            claimed = shares.memory
        # A window that keeps its start must not move with what is recalled, so its notes keep their share.
        if not material.keeps_start:
            most_notes = shares.notes + max(0, int((shares.memory - claimed) * _SPARE_FOR_NOTES))
        wider = windows.fit(shares.room - min(most_notes, notes.tokens) - claimed)
        rounds -= 1
        # Two windows may alternate without end, so the rounds are limited.
        if not rounds or wider == window:
            break
        window = wider
    told = (*blocks, *shown, *([memory.block] if memory.block else []))
    return PlacedContext(material, told, predefined, window.messages, window.shortened)


def _find_begin(material: ContextMaterial, window: FittedMessages) -> int:
    """The seq where the newest messages begin that are shown without a gap."""
    shown = {message.seq for message in window.messages}
    if material.run:
        begins = material.run[-1].seq + 1
    else:
        begins = 0
    for message in reversed(material.run):
        if message.seq not in shown or begins == material.gap:
            break
        begins = message.seq
    return begins


def _fit_predefined(predefined: Sequence[Message], most: int, counter: TokenCounter) -> tuple[Message, ...]:
    """The predefined messages, the last of them where not all fit."""
    run = list(predefined)
    while run and count_messages(run) > most:
        run.pop(0)
    # Providers refuse a tool result whose call is missing.
    return tuple(strip_orphans(run, counter))


class _WindowFitter:
    """Fits the messages of a window into its room, as often as that is settled anew."""

    def __init__(self, material: ContextMaterial, counter: TokenCounter) -> None:
        self._material = material
        self._counter = counter

    def fit(self, budget: int) -> FittedMessages:
        """The window's messages that fit, and the seqs of those that were cut."""
        material, counter = self._material, self._counter
        if not material.settled:
            return FittedMessages(tuple(material.run), tuple(material.cut))
        if material.steady:
            fit = self._steady
        elif material.policy.limit == "observed":
            fit = self._newest.fit(budget)
        else:
            fit = fit_messages(
                material.run,
                budget,
                counter,
                keep_newest=find_floor(material.policy),
                keep_first=len(material.first),
                overhead=OVERHEAD,
                weigh=self._weigh,
            )
        kept = strip_runs([(self._places[message.seq], message) for message in fit.messages], counter)
        seqs = {message.seq for message in kept}
        return FittedMessages(tuple(kept), tuple(sorted(seqs & {*fit.shortened, *material.cut})))

    @cached_property
    def _steady(self) -> FittedMessages:
        material = self._material
        assert material.steady
        return cut_steady(material.run, material.steady, self._counter, self._weigh)

    @cached_property
    def _newest(self) -> RunFitter:
        run, floor = self._material.run, find_floor(self._material.policy)
        return RunFitter(run, self._counter, floor=floor, overhead=OVERHEAD, weigh=self._weigh)

    @cached_property
    def _places(self) -> dict[int, int]:
        return {message.seq: place for place, message in enumerate(self._material.run)}

    def _weigh(self, message: Message) -> Message:
        return weigh_message(message, self._counter)
