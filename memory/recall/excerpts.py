"""The sentences of a long text that answer a query, with the lines needed to understand them; each omission is marked.

An excerpt repeats the text except for white space: pieces of it, in its order.
"""

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import accumulate

from layerlore.memory.language.search_words import split_words
from layerlore.memory.parts.tokens import CUT_MARK
from layerlore.memory.text.quotation import join_lines
from layerlore.storage.core import linear_re

CUT = "…"
"""Stands where something is left out, but at the end, where CUT_MARK stands."""

# A sentence ends at a line's end, or at a sign that ends one. Scripts without spaces write none behind it.
_SENTENCE_END = linear_re.compile(r"[.!?…؟।]+[\"'”’)\]*_]*(?=\s)|[。！？｡]+[”’」』）]*")
_LINE = linear_re.compile(r"[^\n]+", engine="re")
# A shorter text is "Dr." or a list's "1.", not a sentence: it goes with what follows.
_SHORTEST_PIECE = 16
# The end of a sentence.
_ENDS = linear_re.compile(r"[.!?…؟।。！？｡][\"'”’」』）)\]*_]*\s*$")
# Longest piece, in characters.
_LONGEST_PIECE = 240
# A longer one is cut into pieces of this length; an excerpt holds three: what was found, and what stands around it.
_LONGEST_CUT = 100
# Where it is cut, the best places first: behind a record, a field or a clause, a word, a sign. No number is cut, if that
# can be.
_SEAMS = tuple(map(linear_re.compile, (r"[}\]][,;]", r"[,;|，、；](?!\d)", r"\s", r"[^\w\s]")))
# A word is searched for by its beginning, since what stands in the text may be another form of it. One with a digit in
# it is a name and has no other form.
_SHORTEST_STEM = 4
_ENDING = 3
_DIGIT = linear_re.compile(r"\d")
# The share that another form of a word counts.
_OTHER_FORM = 0.7
# The share that a word counts if an earlier piece has it.
_SHOWN_AGAIN = 0.2
# The bonus of a piece of the found chunk, as a share of the weight of all words.
_FOUND_CHUNK = 0.25
_ITEM = linear_re.compile(r"\s*(?:[-*•–]\s|\d+[.)]\s|\|)")
_LONGEST_HEADING = 120


@dataclass(frozen=True, slots=True)
class Piece:
    """A sentence, or a line that is none: where it stands in the text, and the number of its line."""

    start: int
    end: int
    line: int


def _match(word: str, other: str) -> float:
    """The share that a word of a text counts for a word of the query: 1 for the same, less for another form of it,
    else 0."""
    if word == other:
        return 1.0
    if len(word) < _SHORTEST_STEM or _DIGIT.search(word):
        return 0.0
    if other.startswith(_stem(word)):
        return _OTHER_FORM
    return 0.0


def _stem(word: str) -> str:
    """The beginning that the forms of a word share."""
    return word[: max(_SHORTEST_STEM, len(word) - _ENDING)]


def split_pieces(text: str) -> list[Piece]:
    """The sentences of a text in order; of a line without any the line. A sentence longer than 240 characters is cut
    into pieces of at most 100."""
    found: list[Piece] = []
    number = 0
    for line in _LINE.finditer(text):
        number += 1
        start = line.start()
        ends = [line.start() + each.end() for each in _SENTENCE_END.finditer(line[0])]
        for end in (*ends, line.end()):
            if end == start or (end - start < _SHORTEST_PIECE and end < line.end()):
                continue
            found.extend(Piece(at, cut, number) for at, cut in _cut_long(text, start, end))
            start = end
    return [piece for piece in found if text[piece.start : piece.end].strip()]


def _cut_long(text: str, start: int, end: int) -> list[tuple[int, int]]:
    if end - start <= _LONGEST_PIECE:
        return [(start, end)]
    found = []
    while end - start > _LONGEST_CUT:
        cut = _find_seam(text, start + _LONGEST_CUT // 2, start + _LONGEST_CUT)
        found.append((start, cut))
        start = cut
    return [*found, (start, end)]


def _find_seam(text: str, start: int, end: int) -> int:
    """The last of the best places between two where a text can be cut."""
    for seam in _SEAMS:
        places = [found.end() for found in seam.finditer(text, start, end)]
        if places:
            return places[-1]
    return end


def pick_sentences(text: str, sought: Mapping[str, float], most: int, chunk: str = "") -> str:
    """The pieces of a text with the most words of the query (by their weights), as many as ``most`` characters hold,
    in their order and on one line. A text up to that length stays whole.

    ``chunk``: the part of the text that was found, whose pieces count more."""
    if len(text) <= most:
        return join_lines(text)
    pieces = split_pieces(text)
    picked = _pick(text, pieces, sought, most, chunk) or _begin(pieces, most)
    if picked:
        return _join(text, pieces, sorted(picked))
    return join_lines(text[:most]) + CUT_MARK


def cut_end(text: str, most: int) -> str:
    """The last pieces of a text, as many as ``most`` characters hold, on one line."""
    if len(text) <= most:
        return join_lines(text)
    pieces = split_pieces(text)
    sizes = accumulate(piece.end - piece.start for piece in reversed(pieces))
    picked = [len(pieces) - 1 - number for number, size in enumerate(sizes) if size <= most]
    if picked:
        return _join(text, pieces, sorted(picked))
    return f"{CUT} {join_lines(text[-most:])}"


def _begin(pieces: Sequence[Piece], most: int) -> set[int]:
    """The first pieces, as many as fit."""
    sizes = accumulate(piece.end - piece.start for piece in pieces)
    return {number for number, size in enumerate(sizes) if size <= most}


def _pick(text: str, pieces: Sequence[Piece], sought: Mapping[str, float], most: int, chunk: str) -> set[int]:
    sizes = [piece.end - piece.start for piece in pieces]
    if chunk:
        at = text.find(chunk)
    else:
        at = -1
    inside = [at >= 0 and piece.start >= at and piece.end <= at + len(chunk) + 1 for piece in pieces]
    has = _find_sought([set(split_words(text[piece.start : piece.end])) for piece in pieces], sought)
    telling = [number for number in range(len(pieces)) if has[number] or inside[number]]
    base = _FOUND_CHUNK * (sum(sought.values()) or 1.0)
    picked: set[int] = set()
    covered: dict[str, float] = {}
    left = most

    def measure_gain(number: int) -> float:
        new = sum(
            sought[word] * share * (1.0 if share > covered.get(word, 0.0) else _SHOWN_AGAIN)
            for word, share in has[number].items()
        )
        # A short piece says the same in less room, so a long one needs more words to be chosen.
        return (new + base * inside[number]) / (1 + sizes[number] / _LONGEST_PIECE)

    while True:
        fitting = [number for number in telling if number not in picked and sizes[number] <= left]
        gains = {number: measure_gain(number) for number in fitting}
        best = max(gains, key=lambda number: (gains[number], -number), default=None)
        if best is None or not gains[best]:
            return picked
        # The heading of a list and the rest of a pair come along while they fit: alone, the piece may be misread.
        for number in (best, *_list_needed(text, pieces, best, sought)):
            if number not in picked and sizes[number] <= left:
                picked.add(number)
                covered |= {word: max(share, covered.get(word, 0.0)) for word, share in has[number].items()}
                left -= sizes[number]


def _find_sought(words_of_pieces: Sequence[Set[str]], sought: Collection[str]) -> list[dict[str, float]]:
    """For each piece the words sought that it has, or has a form of, and what they count. Each of its words is examined
    once."""
    beginnings = tuple({_stem(word) for word in sought})
    like: dict[str, dict[str, float]] = {}
    for other in set().union(*words_of_pieces):
        if other.startswith(beginnings) and (
            found := {word: share for word in sought if (share := _match(word, other))}
        ):
            like[other] = found
    has: list[dict[str, float]] = []
    for words in words_of_pieces:
        shares: dict[str, float] = {}
        for other in words & like.keys():
            shares |= {word: max(share, shares.get(word, 0.0)) for word, share in like[other].items()}
        has.append(shares)
    return has


def _list_needed(text: str, pieces: Sequence[Piece], number: int, sought: Collection[str]) -> list[int]:
    """The pieces that a piece needs to be understood, the most needed first: what stands above or before it, and,
    where it ends with a word sought, what follows: of a name and its value the value."""
    above = _find_above(text, pieces, number)
    if above is None:
        before = []
    else:
        before = [above]
    after = number + 1
    words = split_words(text[pieces[number].start : pieces[number].end])
    if after == len(pieces) or not words or not any(_match(word, words[-1]) for word in sought):
        return before
    is_cut = pieces[after].start == pieces[number].end and not _ENDS.search(
        text, pieces[number].start, pieces[number].end
    )
    if is_cut:
        return [after, *before]
    return [*before, after]


def _find_above(text: str, pieces: Sequence[Piece], number: int) -> int | None:
    """The line above the list for a list's item, else the piece before it in its line."""
    if _ITEM.match(text, pieces[number].start):
        above = (
            at
            for at in range(number - 1, -1, -1)
            if pieces[at].line < pieces[number].line and not _ITEM.match(text, pieces[at].start)
        )
        found = next(above, None)
        if found is not None and pieces[found].end - pieces[found].start <= _LONGEST_HEADING:
            return found
        return None
    before = number - 1
    if before >= 0 and pieces[before].line == pieces[number].line:
        return before
    return None


def _join(text: str, pieces: Sequence[Piece], picked: Sequence[int]) -> str:
    runs: list[list[int]] = []
    for number in picked:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    shown = f" {CUT} ".join(join_lines(text[pieces[run[0]].start : pieces[run[-1]].end]) for run in runs)
    return (f"{CUT} " if picked[0] > 0 else "") + shown + (CUT_MARK if picked[-1] < len(pieces) - 1 else "")
