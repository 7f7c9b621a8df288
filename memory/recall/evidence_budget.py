"""Which of the scored messages an answer shows: those that add the most evidence to a number of tokens, chosen greedily
by their rank for what they cost."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush

from layerlore.memory.messages.reader import Detail
from layerlore.memory.parts.tokens import CUT_MARK, TokenCounter
from layerlore.memory.recall.excerpts import pick_sentences
from layerlore.memory.recall.hit_lines import Beside, MemoryLine, MessageTexts, Place, make_head, make_line
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


@dataclass(frozen=True, slots=True)
class FoundMessage:
    """A message that may be shown. ``chunk``: the number of its chunk that was found; ``before`` and ``after``: messages
    next to it that it needs to be understood; ``note``: for the line below it."""

    message: Message
    chunk: int | None = None
    before: Sequence[Message] = ()
    after: Sequence[Message] = ()
    note: str = ""
    kept: MessageTexts | None = None

    @property
    def texts(self) -> MessageTexts:
        """The parts that depend on the message alone."""
        return self.kept or MessageTexts(self.message)

    @property
    def beside(self) -> list[tuple[Beside, Message]]:
        """The messages next to it, and on which side, nearest first."""
        return [*(("before", each) for each in reversed(self.before)), *(("after", each) for each in self.after)]


def pack_lines(
    found: Sequence[FoundMessage],
    counter: TokenCounter,
    max_tokens: int,
    sought: Mapping[str, float],
    *,
    detail: Detail = "low",
) -> list[MemoryLine]:
    """The lines that together cost at most about ``max_tokens`` tokens with their heads, in the order of ``found``,
    each followed by what stands beside it.

    ``found``: best first; ``sought``: the words looked for and their weights. A line that is too long for the rest is
    passed over for one that fits; but the best hit fills the room that is left."""
    # The cost of a line is estimated first: finding the sentences of a long message takes a millisecond or more.
    costs = [_estimate_tokens(each, detail) for each in found]
    packing = _Packing(counter, max_tokens)
    for at in _rank_by_worth(len(costs), costs.__getitem__):
        if packing.left < _FEWEST_TOKENS:
            break
        if at and costs[at] > packing.left + _HEAD_TOKENS:
            continue
        each = found[at]
        line = _make_line(each, sought, detail)
        if not at and not packing.fits(line):
            packing.add_sentences(line, at, sought)
        elif packing.add(line, at):
            # Neighbours come only with their hit: alone they explain nothing.
            for side, message in each.beside:
                packing.add(make_line(message, {}, beside=side, detail=detail), at)
    return packing.lines


def pack_ranked(lines: Iterable[tuple[int, MemoryLine]], counter: TokenCounter, max_tokens: int) -> list[MemoryLine]:
    """The lines that fit, each with its place among all that were found, taken as they come (see ``rank_messages``), and
    given in the order of their places. None is passed over, so that with more tokens every line is at least as long: the
    first that does not fit is cut, and is the last. No more lines are requested than are examined."""
    packing = _Packing(counter, max_tokens)
    coming = iter(lines)
    while packing.left >= _FEWEST_TOKENS and (ranked := next(coming, None)) is not None:
        at, line = ranked
        if not packing.add(line, at) and not packing.fits(line):
            packing.add_cut(line, at)
            break
    return packing.lines


def rank_messages(found: Sequence[MessageTexts]) -> Iterator[int]:
    """The places of messages (best first) in the order in which ``pack_ranked`` should have their lines. No more messages
    are examined than the places asked for need."""
    return _rank_by_worth(len(found), lambda at: found[at].tokens_of_line)


def _rank_by_worth(count: int, find_cost: Callable[[int], int]) -> Iterator[int]:
    """The first ``count`` places, what adds most for its cost in tokens first. A place comes as soon as none behind it
    could be worth more, if it cost nothing."""
    ranked: list[tuple[float, int]] = []
    for at in range(count):
        # A later place is worth less than this one, even if it cost nothing.
        most = _estimate_worth(at, 0)
        while ranked and -ranked[0][0] >= most:
            yield heappop(ranked)[1]
        heappush(ranked, (-_estimate_worth(at, find_cost(at)), at))
    while ranked:
        yield heappop(ranked)[1]


def _estimate_tokens(found: FoundMessage, detail: Detail) -> int:
    if detail == "high":
        return found.texts.tokens
    return found.texts.tokens_of_line


def _make_line(found: FoundMessage, sought: Mapping[str, float], detail: Detail) -> MemoryLine:
    if detail == "low" and not found.note:
        return found.texts.make_line(sought, found.chunk)
    return make_line(found.message, sought, chunk=found.chunk, detail=detail, note=found.note)


def _estimate_worth(at: int, cost: int) -> float:
    """The worth of the hit's line for its tokens at this place; only ratios count. Ranks do for any score."""
    return float((at + 1) ** -_RANK_POWER / (cost + _HEAD_TOKENS) ** _COST_POWER)


class _Packing:
    """The lines chosen so far, each once, and the tokens that are left."""

    def __init__(self, counter: TokenCounter, max_tokens: int) -> None:
        self.left = max_tokens
        self._counter = counter
        self._lines: dict[Place, tuple[int, MemoryLine]] = {}
        self._groups: set[tuple[str, ...]] = set()

    @property
    def lines(self) -> list[MemoryLine]:
        return [line for _, line in sorted(self._lines.values(), key=lambda ranked: (ranked[0], ranked[1].beside))]

    def add(self, line: MemoryLine, rank: int) -> bool:
        """Add a line if it says something and fits. One that stood beside a hit becomes a hit in its place."""
        if not line.text:
            return False
        _, standing = self._lines.get(line.place, (0, None))
        if standing is not None and (line.beside or not standing.beside):
            return False
        cost = self._count(line)
        if cost > self.left:
            return False
        self.left -= cost
        self._groups.add(line.group)
        self._lines[line.place] = (rank, line)
        return True

    def fits(self, line: MemoryLine) -> bool:
        """Whether there is room for a line, or it needs none."""
        return not line.text or self._count(line) <= self.left

    def add_cut(self, line: MemoryLine, rank: int) -> None:
        """Add as much of a line as there is room for, if that says something."""
        left = self.left - self._count(replace(line, text=CUT_MARK))
        if self.fits(line):
            self.add(line, rank)
        elif left >= _FEWEST_TOKENS:
            self.add(replace(line, text=self._counter.cut_words(line.text, left).rstrip() + CUT_MARK), rank)

    def add_sentences(self, line: MemoryLine, rank: int, sought: Mapping[str, float]) -> None:
        """Add those sentences of a line that match and for which there is room, and of the best one what fits."""
        self.left -= _SHORTENED_TOKENS
        share = max(self.left, 0) / self._count(line)
        text = pick_sentences(line.text, sought, int(len(line.text) * share))
        self.add_cut(replace(line, text=text, shortened=True), rank)

    def _count(self, line: MemoryLine) -> int:
        """The cost of a line, with its head if it is the first of its group, less the cost of the line that it
        replaces."""
        cost = self._counter.known(f"{line}\n")
        if line.group not in self._groups:
            cost += self._counter.known(f"{make_head(line, None)}\n")
        if line.place in self._lines:
            cost -= self._counter.known(f"{self._lines[line.place][1]}\n")
        return cost
