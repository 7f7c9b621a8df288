"""The sentences of a long text that answer a query, with the lines needed to understand them; each omission is marked.

An excerpt repeats the text except for white space: pieces of it, in its order.
"""

from collections.abc import Collection, Mapping, Sequence, Set
from functools import lru_cache
from itertools import accumulate

from layerlore.memory.language.search_words import split_words
from layerlore.memory.parts.tokens import CUT_MARK
from layerlore.memory.recall.pieces import COLONS, Piece, split_pieces
from layerlore.memory.text.quotation import join_lines
from layerlore.storage.core import linear_re

CUT = "…"
"""Stands where something is left out, but at the end, where CUT_MARK stands."""

# The end of a sentence.
_ENDS = linear_re.compile(r"[.!?…؟।。！？｡][\"'”’」』）)\]*_]*+\s*+$", engine="re")
# A longer sentence is cut: the rest of an excerpt needs room, too.
_LONGEST_PIECE = 320
# A text as long as a whole line.
_USUAL_TEXT = 500
# The number of sentences in an excerpt: its length is the limit.
_MOST_SENTENCES = 100
# Twice as long a piece needs about twice the words to be chosen.
_USUAL_PIECE = 240
# A word is searched for by its beginning, since what stands in the text may be another form of it. One with a digit in
# it is a name and has no other form.
_SHORTEST_STEM = 4
_ENDING = 3
_DIGIT = linear_re.compile(r"\d")
# The share that another form of a word counts.
_OTHER_FORM = 0.7
# The share that a word counts if an earlier piece has it.
_SHOWN_AGAIN = 0.2
# The share that a word of a title counts for a sentence below it.
_IN_TITLE = 0.5
# The bonus of a piece of the found chunk, as a share of the weight of all words.
_FOUND_CHUNK = 0.25

# The share that a word counts for a line of code if a sentence has it, too: code repeats its few words again and again.
_IN_CODE = 0.2

Shares = Mapping[str, float]
"""The words sought that a piece has, and the share that each counts: 1 for the word itself, less for another form."""


def pick_sentences(text: str, sought: Mapping[str, float], most: int, chunk: str = "") -> str:
    """The sentences of a text with the most words of the query (by their weights), as many as ``most`` characters hold,
    in their order and on one line. A text up to that length stays whole.

    A sentence comes with the short title that it stands under; a title alone is shown only if nothing else matches.
    ``chunk``: the part of the text that was found, whose sentences count more."""
    return _pick(text, sought, most, chunk, _MOST_SENTENCES)


def pick_sentence(text: str, sought: Mapping[str, float], most: int, chunk: str = "") -> str:
    """The one sentence of a text with the most words of the query, as ``pick_sentences`` shows it."""
    return _pick(text, sought, most, chunk, 1)


def _pick(text: str, sought: Mapping[str, float], most: int, chunk: str, count: int) -> str:
    if len(text) <= most:
        return join_lines(text)
    # The same lines of ordinary length are shortened for one query after another.
    split = _split_again if len(text) <= _USUAL_TEXT else _split
    pieces, words = split(text, min(_LONGEST_PIECE, most))
    choice = _Choice(text, pieces, words, sought, chunk)
    picked = choice.pick(most, count)
    if not picked and any(piece.kind == "title" for piece in pieces):
        picked = choice.pick(most, count, titles=True)
    picked = picked or _begin(pieces, most)
    if picked:
        return _join(text, pieces, sorted(picked))
    return join_lines(text[:most]) + CUT_MARK


def _split(text: str, longest: int) -> tuple[Sequence[Piece], Sequence[Sequence[str]]]:
    """The pieces of a text, and the words of each."""
    pieces = split_pieces(text, longest)
    return pieces, [split_words(text[piece.start : piece.end]) for piece in pieces]


_split_again = lru_cache(maxsize=512)(_split)


def cut_end(text: str, most: int) -> str:
    """The last pieces of a text, as many as ``most`` characters hold, on one line."""
    if len(text) <= most:
        return join_lines(text)
    pieces = split_pieces(text, min(_LONGEST_PIECE, most))
    sizes = accumulate(piece.end - piece.start for piece in reversed(pieces))
    picked = [len(pieces) - 1 - number for number, size in enumerate(sizes) if size <= most]
    if picked:
        return _join(text, pieces, sorted(picked))
    return f"{CUT} {join_lines(text[-most:])}"


def _begin(pieces: Sequence[Piece], most: int) -> set[int]:
    """The first pieces, as many as fit."""
    sizes = accumulate(piece.end - piece.start for piece in pieces)
    return {number for number, size in enumerate(sizes) if size <= most}


class _Choice:
    """The words sought that each piece of a text has, to choose the pieces that say most."""

    def __init__(
        self,
        text: str,
        pieces: Sequence[Piece],
        words: Sequence[Sequence[str]],
        sought: Mapping[str, float],
        chunk: str,
    ) -> None:
        self._text = text
        self._pieces = pieces
        self._sought = sought
        self._sizes = [piece.end - piece.start for piece in pieces]
        self._words = words
        self._own = _find_sought([set(each) for each in words], sought)
        self._shares = self._share_words()
        self._bonus = self._share_bonus(chunk)

    def pick(self, most: int, count: int, *, titles: bool = False) -> set[int]:
        """The numbers of the best pieces, at most ``count`` of them, and of what these need, as ``most`` characters hold.
        ``titles``: titles are pieces like others."""
        telling = [
            number
            for number, piece in enumerate(self._pieces)
            if (piece.kind != "title" or titles) and (self._shares[number] or self._bonus[number])
        ]
        picked: set[int] = set()
        covered: dict[str, float] = {}
        in_code: set[str] = set()
        left = most
        for _ in range(count):
            fitting = [number for number in telling if number not in picked and self._sizes[number] <= left]
            gains = {number: self._measure_gain(number, covered, in_code) for number in fitting}
            best = max(gains, key=lambda number: (gains[number], -number), default=None)
            if best is None or not gains[best]:
                break
            # A title and the rest of a pair come along while they fit: alone, the piece may be misread.
            for number in (best, *self._list_needed(best)):
                if number in picked or self._sizes[number] > left:
                    continue
                picked.add(number)
                left -= self._sizes[number]
                if self._pieces[number].kind == "code":
                    in_code.update(self._own[number])
                for word, share in self._own[number].items():
                    covered[word] = max(share, covered.get(word, 0.0))
        return picked

    def _share_words(self) -> list[Shares]:
        """For each piece the words that count for it: for a sentence those of its titles, too."""
        in_sentences: dict[str, float] = {}
        for piece, own in zip(self._pieces, self._own, strict=True):
            if piece.kind == "sentence":
                in_sentences |= {word: max(share, in_sentences.get(word, 0.0)) for word, share in own.items()}
        found: list[Shares] = []
        for piece, own in zip(self._pieces, self._own, strict=True):
            shares: dict[str, float] = {}
            if piece.kind == "code":
                for word, share in own.items():
                    is_repeated = share <= in_sentences.get(word, 0.0)
                    shares[word] = _IN_CODE * share if is_repeated else share
            else:
                for title in piece.titles:
                    shares |= {word: _IN_TITLE * share for word, share in self._own[title].items()}
                shares |= own
            found.append(shares)
        return found

    def _share_bonus(self, chunk: str) -> list[float]:
        """For each piece its bonus for standing in the found chunk. If the chunk has sentences, they alone have one, without
        those that only lead to code."""
        at = self._text.find(chunk) if chunk else -1
        if at < 0:
            return [0.0] * len(self._pieces)
        end = at + len(chunk) + 1
        inside = {number for number, piece in enumerate(self._pieces) if piece.start >= at and piece.end <= end}
        sentences = {
            number
            for number in inside
            if self._pieces[number].kind == "sentence" and self._text[self._pieces[number].end - 1] not in COLONS
        }
        bonus = _FOUND_CHUNK * (sum(self._sought.values()) or 1.0)
        return [bonus * (number in (sentences or inside)) for number in range(len(self._pieces))]

    def _measure_gain(self, number: int, covered: Mapping[str, float], in_code: Set[str]) -> float:
        """How much a piece adds. ``covered``: the words that were picked, and their shares; ``in_code``: those that a line
        of code has, since one such line is enough."""
        is_code = self._pieces[number].kind == "code"
        gain = self._bonus[number]
        for word, share in self._shares[number].items():
            if is_code:
                is_new, again = word not in in_code, 0.0
            else:
                is_new, again = share > covered.get(word, 0.0), _SHOWN_AGAIN
            gain += self._sought[word] * share * (1.0 if is_new else again)
        # A short piece says the same in less room, so a long one needs more words to be chosen.
        return gain / (1 + self._sizes[number] / _USUAL_PIECE)

    def _list_needed(self, number: int) -> list[int]:
        """The pieces that a piece needs to be understood, the most needed first: what stands before it in its line or its
        title, and, where it ends with a word sought, what follows: of a name and its value the value."""
        piece = self._pieces[number]
        before: list[int] = []
        if number and self._pieces[number - 1].line == piece.line:
            before = [number - 1]
        elif piece.titles:
            before = [piece.titles[-1]]
        after = number + 1
        if after == len(self._pieces) or not self._awaits_more(number):
            return before
        following = self._pieces[after]
        if following.start == piece.end:
            # A sentence that was cut goes on.
            return [after, *before]
        if following.kind == piece.kind:
            return [*before, after]
        return before

    def _awaits_more(self, number: int) -> bool:
        """Whether a piece ends with a word sought, and not as sentences end."""
        piece, words = self._pieces[number], self._words[number]
        if not words or _ENDS.search(self._text, piece.start, piece.end):
            return False
        return any(_match(word, words[-1]) for word in self._sought)


def _find_sought(words_of_pieces: Sequence[Set[str]], sought: Collection[str]) -> list[dict[str, float]]:
    """For each piece the words sought that it has, or has a form of, and what they count."""
    forms = _list_forms(tuple(sought))
    like = {other: forms[other] for other in set().union(*words_of_pieces) if other.startswith(forms.beginnings)}
    has: list[dict[str, float]] = []
    for words in words_of_pieces:
        shares: dict[str, float] = {}
        for other in words & like.keys():
            for word, share in like[other].items():
                shares[word] = max(share, shares.get(word, 0.0))
        has.append(shares)
    return has


class _Forms(dict[str, Mapping[str, float]]):
    """For a word of a text the words sought that it is, or is a form of, and what they count; found when first asked for.
    ``beginnings``: other words have none."""

    def __init__(self, sought: Collection[str]) -> None:
        super().__init__()
        self._sought = sought
        self.beginnings = tuple({_stem(word) for word in sought})

    def __missing__(self, other: str) -> Mapping[str, float]:
        shares = {word: _match(word, other) for word in self._sought}
        found = self[other] = {word: share for word, share in shares.items() if share}
        return found


# Each text of an answer needs those of its query.
_list_forms = lru_cache(maxsize=32)(_Forms)


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


def _join(text: str, pieces: Sequence[Piece], picked: Sequence[int]) -> str:
    runs: list[list[int]] = []
    for number in picked:
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    shown = f" {CUT} ".join(join_lines(text[pieces[run[0]].start : pieces[run[-1]].end]) for run in runs)
    return (f"{CUT} " if picked[0] > 0 else "") + shown + (CUT_MARK if picked[-1] < len(pieces) - 1 else "")
