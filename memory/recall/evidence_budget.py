"""Which lines an answer shows of the hits, and how long each is, within a number of tokens.

The lines grow in steps, in one order that does not depend on the room. The first hits come in whole. A further hit comes in
as a short line, and becomes its whole line later. With more room further steps are taken, so that more room never shows
less. Only where the best hit does not fit whole, it stands alone, as those of its sentences that do.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import lru_cache
from heapq import heappop, heappush
from itertools import islice

from layerlore.memory.language.search_words import split_words
from layerlore.memory.messages.reader import Detail
from layerlore.memory.parts.tokens import CUT_MARK, TokenCounter
from layerlore.memory.recall.excerpts import pick_sentences
from layerlore.memory.recall.hit_lines import MemoryLine, MessageTexts, Place, make_head, make_line, shorten_line
from layerlore.storage.core.records import Message

# How likely a hit is evidence falls with its rank: about as 1 / rank, in all sets that were measured.
_RANK_POWER = 1.15
# The share of its tokens by which a line counts: with 0 its rank alone chooses, with 1 what it is worth per token.
_COST_POWER = 0.5
# The tokens of a line beside its text, with its share of a head.
_HEAD_TOKENS = 8
# The extra tokens of an answer with a shortened line.
_SHORTENED_TOKENS = 8
# With less left, nothing more is searched for.
_FEWEST_TOKENS = 12

# The number of hits that come in whole: short lines of them would cost time, and an answer has room for them.
_WHOLE_FIRST = 8
# A whole line of more tokens waits until it is at most this share of the tokens taken.
_LONG_TOKENS = 120
_MOST_OF_ONE = 0.25

SHORT_SHARE = 0.3
"""The share of the tokens that goes to short lines."""
OVERVIEW_SHARE = 0.6
"""The same where an overview is wanted."""


@dataclass(slots=True, eq=False)
class Evidence:
    """A hit and the lines that may show it, each made when it is first needed.

    ``sought``: the words looked for and their weights; ``chunk``: the number of the chunk that was found; ``before`` and
    ``after``: messages next to it that it needs to be understood; ``note``: for the line below it."""

    texts: MessageTexts
    sought: Mapping[str, float] = field(default_factory=dict)
    chunk: int | None = None
    before: Sequence[Message] = ()
    after: Sequence[Message] = ()
    note: str = ""
    detail: Detail = "low"
    _line: MemoryLine | None = field(default=None, init=False)
    _short: MemoryLine | None = field(default=None, init=False)
    _beside: Sequence[MemoryLine] | None = field(default=None, init=False)

    @property
    def line(self) -> MemoryLine:
        """Its whole line."""
        if self._line is None:
            if self.detail == "low" and not self.note:
                self._line = self.texts.make_line(self.sought, self.chunk)
            else:
                self._line = make_line(
                    self.texts.message, self.sought, chunk=self.chunk, detail=self.detail, note=self.note
                )
        return self._line

    @property
    def short(self) -> MemoryLine:
        """Its line of a few words: nothing that the whole line does not have."""
        if self._short is None:
            self._short = shorten_line(self.line, self.sought)
        return self._short

    @property
    def beside(self) -> Sequence[MemoryLine]:
        """The lines of the messages next to it."""
        if self._beside is None:
            before = [make_line(each, {}, beside="before", detail=self.detail) for each in self.before]
            after = [make_line(each, {}, beside="after", detail=self.detail) for each in self.after]
            self._beside = [*before, *after]
        return self._beside

    def without(self, is_shown: Callable[[MessageTexts], bool]) -> "Evidence":
        """The same hit without those neighbours that are shown elsewhere."""
        before = [each for each in self.before if not is_shown(MessageTexts(each))]
        after = [each for each in self.after if not is_shown(MessageTexts(each))]
        if (len(before), len(after)) == (len(self.before), len(self.after)):
            # The same object keeps the lines that were made of it.
            return self
        return replace(self, before=before, after=after)

    @property
    def is_observation(self) -> bool:
        """Whether it is a note that says again what messages say."""
        return str(self.texts.message.role) == "observation"

    def has_sought(self) -> bool:
        """Whether the message has one of the words looked for."""
        return not self.texts.words.isdisjoint(self.sought)


@dataclass(frozen=True, slots=True)
class PackedLines:
    """Lines in the order of the hits' ranks, and whether they are all that there are, each of them whole."""

    lines: list[MemoryLine]
    is_whole: bool


def pack_lines(
    found: Iterable[tuple[int, Evidence]],
    counter: TokenCounter,
    max_tokens: int,
    *,
    short_share: float = SHORT_SHARE,
    passing_long: bool = False,
) -> PackedLines:
    """The lines that fit into about ``max_tokens`` tokens with their heads, in the order of the hits' ranks.

    ``found``: hits, each with its rank, in the order of ``rank_evidence``; no more are taken than are needed.
    ``passing_long``: where a whole line does not fit, others may; otherwise it ends the list, so that with more room
    nothing is missing."""
    growing = _GrowingLines(counter, max_tokens, short_share, passing_long)
    is_whole = growing.grow(_put_repeats_last(found))
    return PackedLines(growing.lines, is_whole)


def _put_repeats_last(found: Iterable[tuple[int, Evidence]]) -> Iterator[tuple[int, Evidence]]:
    """The hits, last those that add no word to the others and have none of the words looked for: thanks and good-byes
    leave their room to what says something. An observation that adds no word repeats its messages."""
    said: set[str] = set()
    repeats: list[tuple[int, Evidence]] = []
    for rank, evidence in found:
        words = evidence.texts.words
        if said >= words and (evidence.is_observation or not evidence.has_sought()):
            repeats.append((rank, evidence))
            continue
        message = evidence.texts.message
        # A line names its speaker, too.
        said.update(words, _split_speaker(message.role, message.name or ""))
        yield rank, evidence
    yield from repeats


@lru_cache(maxsize=256)
def _split_speaker(role: str, name: str) -> tuple[str, ...]:
    return tuple(split_words(f"{role} {name}"))


def rank_evidence(count: int, find_cost: Callable[[int], int]) -> Iterator[int]:
    """The places of ``count`` hits (best first) in the order in which ``pack_lines`` should have them: what adds most for its
    cost in tokens first. ``find_cost`` gives about the tokens of the whole line at a place; it is called for no more places
    than are needed."""
    ranked: list[tuple[float, int]] = []
    for at in range(count):
        # A later place is worth less than this one, even if it cost nothing.
        worth = (at + 1) ** -_RANK_POWER
        most = worth / _HEAD_TOKENS**_COST_POWER
        while ranked and -ranked[0][0] >= most:
            yield heappop(ranked)[1]
        # The worth of the hit's line for its tokens at this place; only ratios count. Ranks do for any score.
        heappush(ranked, (-worth / (find_cost(at) + _HEAD_TOKENS) ** _COST_POWER, at))
    while ranked:
        yield heappop(ranked)[1]


class _GrowingLines:
    """The lines chosen so far, each place once, and the tokens that are left."""

    def __init__(self, counter: TokenCounter, max_tokens: int, short_share: float, passing_long: bool) -> None:
        self._left = max_tokens
        self._counter = counter
        self._short_share = short_share
        self._passing_long = passing_long
        self._lines: dict[Place, tuple[int, MemoryLine]] = {}
        self._groups: set[tuple[str, ...]] = set()
        # Hits that have a short line, first come first.
        self._waiting: list[tuple[int, Evidence]] = []
        self._tokens_of_short = 0
        self._tokens_of_whole = 0

    @property
    def lines(self) -> list[MemoryLine]:
        return [line for _, line in sorted(self._lines.values(), key=lambda ranked: (ranked[0], ranked[1].beside))]

    def grow(self, coming: Iterator[tuple[int, Evidence]]) -> bool:
        """Take step after step while there is room. Returns whether every hit has its whole line in the end."""
        first = next(coming, None)
        if first is None:
            return True
        if not self._begin(*first):
            return False
        for rank, evidence in islice(coming, _WHOLE_FIRST - 1):
            if self._is_long(evidence):
                if not self._add_short(rank, evidence):
                    return False
            elif not self._add_whole(rank, self._list_whole(evidence)):
                self._add_short(rank, evidence)
                return False
        return self._go_on(coming)

    def _go_on(self, coming: Iterator[tuple[int, Evidence]]) -> bool:
        """Add further hits as short lines, and make those that came first whole."""
        more = True
        left_short = False
        while more or self._waiting:
            if self._left < _FEWEST_TOKENS:
                return False
            if more and (not self._waiting or self._needs_short() or self._is_long(self._waiting[0][1])):
                following = next(coming, None)
                more = following is not None
                if following is not None and not self._add_short(*following):
                    return False
            elif not self._lengthen(*self._waiting.pop(0)):
                left_short = True
                if not self._passing_long:
                    return False
        return not left_short

    def _needs_short(self) -> bool:
        """Whether short lines have less than their share."""
        both = self._tokens_of_short + self._tokens_of_whole
        return self._tokens_of_short < self._short_share * both

    def _is_long(self, evidence: Evidence) -> bool:
        """Whether the whole line of a hit would take much of the room that is taken so far: others come first, since the
        list ends where it does not fit."""
        tokens = evidence.line.count(self._counter)
        return tokens > max(_LONG_TOKENS, _MOST_OF_ONE * (self._tokens_of_short + self._tokens_of_whole))

    def _begin(self, rank: int, evidence: Evidence) -> bool:
        """Add the whole line of the best hit, or as much of it as fits. Returns whether it fits."""
        line = evidence.line
        if self._add_whole(rank, self._list_whole(evidence)) or self._add_whole(rank, [line]):
            return True
        # The sentences that match, and of the best one what fits.
        room = self._left - _SHORTENED_TOKENS
        share = max(room, 0) / self._count([line])
        text = pick_sentences(line.text, evidence.sought, int(len(line.text) * share))
        self._left = room
        self._put_cut(replace(line, text=text, shortened=True), rank)
        return False

    def _add_whole(self, rank: int, whole: Sequence[MemoryLine]) -> bool:
        """Add the whole line of a hit, and what stands beside it, if there is room for all."""
        cost = self._count(whole)
        if cost > self._left:
            return False
        self._put(whole, rank, cost)
        self._tokens_of_whole += cost
        return True

    def _add_short(self, rank: int, evidence: Evidence) -> bool:
        """Add the short line of a hit. Where it does not fit, its beginning ends the list."""
        _, standing = self._lines.get(evidence.line.place, (0, None))
        line = evidence.short
        if not line.text:
            return True
        if standing is not None:
            # It stands beside another hit: now it is one itself, with the words that it has.
            line = replace(standing, beside=False)
        cost = self._count([line])
        if cost > self._left:
            self._put_cut(line, rank)
            return False
        self._put([line], rank, cost)
        self._tokens_of_short += cost
        self._waiting.append((rank, evidence))
        return True

    def _lengthen(self, rank: int, evidence: Evidence) -> bool:
        """Show the whole line of a hit that has a short one, and what stands beside it, if there is room."""
        before = self._lines[evidence.line.place][1].count(self._counter)
        if not self._add_whole(rank, self._list_whole(evidence)):
            return False
        self._tokens_of_whole += before
        self._tokens_of_short -= before
        return True

    def _list_whole(self, evidence: Evidence) -> list[MemoryLine]:
        """The whole line of a hit, and those beside it that are not shown yet."""
        beside = [line for line in evidence.beside if line.text and line.place not in self._lines]
        return [evidence.line, *beside]

    def _put(self, lines: Sequence[MemoryLine], rank: int, cost: int) -> None:
        """Put lines in, each in the place of the one that stands there. ``cost``: the tokens that they add."""
        self._left -= cost
        for line in lines:
            if line.text:
                self._groups.add(line.group)
                self._lines[line.place] = (rank, line)

    def _put_cut(self, line: MemoryLine, rank: int) -> None:
        """Put in as much of a line as there is room for, if that says something."""
        if line.place in self._lines:
            return
        cost = self._count([line])
        if cost <= self._left:
            self._put([line], rank, cost)
            return
        left = self._left - self._count([replace(line, text=CUT_MARK)])
        if left >= _FEWEST_TOKENS:
            # With its mark a cut line is no longer than the line itself.
            most = line.text[: -len(CUT_MARK)]
            text = self._counter.cut_words(most, left).rstrip() + CUT_MARK
            cut = [replace(line, text=text)]
            self._put(cut, rank, self._count(cut))

    def _count(self, lines: Sequence[MemoryLine]) -> int:
        """The cost of lines, with the heads of groups that have none yet, less the cost of the lines that they replace."""
        cost = 0
        groups: Set[tuple[str, ...]] = self._groups
        for line in lines:
            cost += line.count(self._counter)
            if line.group not in groups:
                groups = groups | {line.group}
                cost += self._counter.known(f"{make_head(line, None)}\n")
            standing = self._lines.get(line.place)
            if standing is not None:
                cost -= standing[1].count(self._counter)
        return cost
