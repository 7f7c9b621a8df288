"""Of a long text the sentences that answer a query, with what they need to be understood; what is left out is marked.

What is shown stands in the text as it is, but for white space: pieces of it, in its order.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import accumulate

from layerlore.memory.parts.search_words import split_words
from layerlore.memory.parts.tokens import CUT_MARK
from layerlore.memory.text.quotation import join_lines

CUT = "…"
"""Stands where something is left out, but at the end, where CUT_MARK stands."""

# A sentence ends at a line's end, or at a sign that ends one. Scripts without spaces write none behind it.
_PIECE = re.compile(r"[^\n]+?(?:[.!?…؟।]+[\"'”’)\]*_]*(?=\s)|[。！？｡]+[”’」』）]*|(?=\n)|$)")
# What is shorter is no sentence, but "Dr." or a list's "1.": it goes with what follows.
_SHORTEST_PIECE = 16
# Longest piece, in characters. Longer ones are cut at spaces.
_LONGEST_PIECE = 240
# A word is looked for by its beginning, since what stands in the text may be another form of it.
_SHORTEST_STEM = 4
_ENDING = 3
# What a word counts that an earlier piece has shown.
_SHOWN_AGAIN = 0.2
# What a piece of the chunk counts that was found, as a share of the weight of all words.
_FOUND_CHUNK = 0.25
_ITEM = re.compile(r"\s*(?:[-*•–]\s|\d+[.)]\s|\|)")
_LONGEST_HEADING = 120


@dataclass(frozen=True, slots=True)
class Piece:
    """A sentence, or a line that is none: where it stands in the text, and the number of its line."""

    start: int
    end: int
    line: int


def match_stem(word: str, words: Iterable[str]) -> bool:
    """Whether the words have a form of the word."""
    if len(word) < _SHORTEST_STEM or word.isdigit():
        return word in words
    stem = _stem(word)
    return any(other.startswith(stem) for other in words)


def _stem(word: str) -> str:
    """The beginning that the forms of a word share."""
    return word[: max(_SHORTEST_STEM, len(word) - _ENDING)]


def split_pieces(text: str) -> list[Piece]:
    """The sentences of a text in order; of a line without any the line. What is longer than 240 characters is cut."""
    found: list[Piece] = []
    number = 0
    for line in re.finditer(r"[^\n]+", text):
        number += 1
        start = line.start()
        for each in _PIECE.finditer(text, line.start(), line.end()):
            if each.end() - start < _SHORTEST_PIECE and each.end() < line.end():
                continue
            found.extend(Piece(at, end, number) for at, end in _cut_long(text, start, each.end()))
            start = each.end()
        if start < line.end():
            found.extend(Piece(at, end, number) for at, end in _cut_long(text, start, line.end()))
    return [piece for piece in found if text[piece.start : piece.end].strip()]


def _cut_long(text: str, start: int, end: int) -> list[tuple[int, int]]:
    found = []
    while end - start > _LONGEST_PIECE:
        space = text.rfind(" ", start + _LONGEST_PIECE // 2, start + _LONGEST_PIECE)
        cut = space if space >= 0 else start + _LONGEST_PIECE
        found.append((start, cut))
        start = cut
    return [*found, (start, end)]


def pick_sentences(text: str, sought: Mapping[str, float], most: int, chunk: str = "") -> str:
    """Of a text the pieces that have the most of the words sought (by their weights), as many as ``most`` characters
    hold, in their order and on one line. A text that is no longer stays whole.

    ``chunk``: the part of the text that was found, whose pieces count more."""
    if len(text) <= most:
        return join_lines(text)
    pieces = split_pieces(text)
    picked = _pick(text, pieces, sought, most, chunk) or _begin(pieces, most)
    return _join(text, pieces, sorted(picked)) if picked else join_lines(text[:most]) + CUT_MARK


def cut_end(text: str, most: int) -> str:
    """The last pieces of a text, as many as ``most`` characters hold, on one line."""
    if len(text) <= most:
        return join_lines(text)
    pieces = split_pieces(text)
    sizes = accumulate(piece.end - piece.start for piece in reversed(pieces))
    picked = [len(pieces) - 1 - number for number, size in enumerate(sizes) if size <= most]
    return _join(text, pieces, sorted(picked)) if picked else f"{CUT} {join_lines(text[-most:])}"


def _begin(pieces: Sequence[Piece], most: int) -> set[int]:
    """The first pieces, as many as fit."""
    sizes = accumulate(piece.end - piece.start for piece in pieces)
    return {number for number, size in enumerate(sizes) if size <= most}


def _pick(text: str, pieces: Sequence[Piece], sought: Mapping[str, float], most: int, chunk: str) -> set[int]:
    sizes = [piece.end - piece.start for piece in pieces]
    at = text.find(chunk) if chunk else -1
    inside = [at >= 0 and piece.start >= at and piece.end <= at + len(chunk) + 1 for piece in pieces]
    has = _find_sought([set(split_words(text[piece.start : piece.end])) for piece in pieces], sought)
    telling = [number for number in range(len(pieces)) if has[number] or inside[number]]
    base = _FOUND_CHUNK * (sum(sought.values()) or 1.0)
    picked: set[int] = set()
    covered: set[str] = set()
    left = most

    def measure_gain(number: int) -> float:
        new = sum(sought[word] * (_SHOWN_AGAIN if word in covered else 1.0) for word in has[number])
        return (new + base * inside[number]) / (1 + sizes[number] / _LONGEST_PIECE)

    while True:
        fitting = [number for number in telling if number not in picked and sizes[number] <= left]
        gains = {number: measure_gain(number) for number in fitting}
        best = max(gains, key=lambda number: (gains[number], -number), default=None)
        if best is None or not gains[best]:
            return picked
        for number in (best, _needed(text, pieces, best)):
            if number is not None and number not in picked and sizes[number] <= left:
                picked.add(number)
                covered |= has[number]
                left -= sizes[number]


def _find_sought(words_of_pieces: Sequence[Set[str]], sought: Collection[str]) -> list[set[str]]:
    """For each piece the words sought that it has a form of. Each of its words is looked at once."""
    beginnings = tuple({_stem(word) for word in sought})
    like: dict[str, set[str]] = {}
    for word in set().union(*words_of_pieces):
        if word.startswith(beginnings) and (found := {each for each in sought if match_stem(each, (word,))}):
            like[word] = found
    return [set().union(*(like[word] for word in words & like.keys())) for words in words_of_pieces]


def _needed(text: str, pieces: Sequence[Piece], number: int) -> int | None:
    """What a piece needs to be understood: of a list's item the line above the list, else the sentence before it."""
    if _ITEM.match(text, pieces[number].start):
        above = (
            at
            for at in range(number - 1, -1, -1)
            if pieces[at].line < pieces[number].line and not _ITEM.match(text, pieces[at].start)
        )
        found = next(above, None)
        return found if found is not None and pieces[found].end - pieces[found].start <= _LONGEST_HEADING else None
    before = number - 1
    return before if before >= 0 and pieces[before].line == pieces[number].line else None


def _join(text: str, pieces: Sequence[Piece], picked: Sequence[int]) -> str:
    shown = ""
    for at, number in enumerate(picked):
        piece = join_lines(text[pieces[number].start : pieces[number].end])
        gap = number > 0 if at == 0 else number > picked[at - 1] + 1
        shown += (f"{' ' if shown else ''}{CUT} " if gap else " " if shown else "") + piece
    return shown + (CUT_MARK if picked[-1] < len(pieces) - 1 else "")
