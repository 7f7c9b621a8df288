"""A text as pieces: its sentences, titles and lines of code, as the signs of Markdown tell them apart.

No rule here knows words, so they hold for every language.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from string import punctuation
from typing import Literal

from layerlore.storage.core import linear_re

Kind = Literal["sentence", "title", "code"]
"""A title names what stands below it: a heading, a bold line, a short line that ends with a colon, the first row of a
table. An item of a list is made of sentences."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Where a piece stands in the text, the number of its line, its kind, and the numbers of the pieces that are its
    titles, the nearest last."""

    start: int
    end: int
    line: int
    kind: Kind
    titles: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of the text. ``depth``: it ends the sections of the titles that stand as deep as it or deeper."""

    start: int
    end: int
    kind: Kind
    depth: int


# A sentence ends at a line's end, or at a sign that ends one. Scripts without spaces write none behind it.
_SENTENCE_END = linear_re.compile(r"(?<![.!?…؟।])[.!?…؟।]++[\"'”’)\]*_]*+(?=\s)|[。！？｡]++[”’」』）]*+", engine="re")
_LINE = linear_re.compile(r"[^\n]+", engine="re")
# A shorter text is "Dr." or a list's "1.", not a sentence: it goes with what follows.
_SHORTEST_PIECE = 16
# A sentence that is too long is cut into pieces of this length; an excerpt holds three: what was found, and what stands
# around it.
_LONGEST_CUT = 100
# Where it is cut, the best places first: behind a record, a field or a clause, a word, a sign. No number is cut, if that
# can be.
_SEAMS = tuple(map(linear_re.compile, (r"[}\]][,;]", r"[,;|，、；](?!\d)", r"\s", r"[^\w\s]")))
# A longer line that ends with a colon says something itself.
_LONGEST_TITLE = 120

_FENCES = ("```", "~~~")
_CODE_ENDS = ("{", "}", ";", "(", "[", "=>")
COLONS = (":", "：")
"""A line or a sentence that ends with one leads to what follows."""
_EMPHASIS = "*_ \t"
# A line of these alone says nothing; one of emoji may.
_ASCII_SIGNS = f"{punctuation} \t"
# The signs of rules, of the line below a table's first row, and of what frames them.
_RULE_SIGNS = "-=_*|:+ \t"
_HEADING = linear_re.compile(r"#{1,6}\s")
_BULLET = linear_re.compile(r"[-*•–+]\s|\|")
_BOLD = linear_re.compile(r"(?:\*\*|__)[^*]{1,120}(?:\*\*|__)\s?[:：]?\Z")
_NUMBER = linear_re.compile(r"\d{1,4}[.)]\s{1,8}")
# Headings stand above all else, the most important ones on top; then lines without a mark, then items. Bullets often
# stand no deeper than the numbered item that they belong to.
_HIGHEST_HEADING = 8
_BOLD_DEPTH = 0
_LINE_DEPTH = 1
_NUMBER_DEPTH = 1
_BULLET_DEPTH = 2
_DEPTH_OF_SPACE = 2


def split_pieces(text: str, longest: int) -> list[Piece]:
    """The pieces of a text in order. A sentence longer than ``longest`` is cut into pieces of at most 100 characters.
    The marks around code, and lines that only draw a rule, are left out."""
    pieces: list[Piece] = []
    titles: list[tuple[int, int]] = []
    ends = [found.end() for found in _SENTENCE_END.finditer(text)]
    is_introduced = False
    for number, line in enumerate(_classify_lines(text)):
        # A paragraph right below a title belongs to it; a later one does not belong to a line with a colon.
        is_below = is_introduced and line.kind == "sentence" and line.depth == _LINE_DEPTH
        if line.kind != "code" and not is_below:
            titles = [(depth, at) for depth, at in titles if depth < line.depth]
        above = tuple(at for _, at in titles)
        kind: Kind = "code" if line.kind == "code" else "sentence"
        pieces += [
            Piece(start, end, number, kind, above)
            for sentence in _split_line(line, ends)
            for start, end in _cut_long(text, *sentence, longest)
            if not text[start:end].isspace()
        ]
        # Only the last sentence of a line leads to what follows it.
        last = pieces[-1]
        is_introduced = line.kind == "title" and last.end - last.start <= _LONGEST_TITLE
        if is_introduced:
            pieces[-1] = replace(last, kind="title")
            titles.append((line.depth, len(pieces) - 1))
    with_content = {title for piece in pieces if piece.kind != "title" for title in piece.titles}
    # A title without anything below it is all that its section says.
    return [
        replace(piece, kind="sentence") if piece.kind == "title" and at not in with_content else piece
        for at, piece in enumerate(pieces)
    ]


def _classify_lines(text: str) -> Iterator[_Line]:
    is_code = False
    lines = [(found.start(), found[0]) for found in _LINE.finditer(text) if not found[0].isspace()]
    for (start, line), (_, following) in pairwise([*lines, (0, "")]):
        bare = line.strip()
        end = start + len(line.rstrip())
        # A fence that is closed in its own line is a word of that line.
        if bare.startswith(_FENCES) and "`" not in bare.lstrip("`~"):
            is_code = not is_code
        elif is_code or bare.endswith(_CODE_ENDS):
            yield _Line(start, end, "code", _LINE_DEPTH)
        elif bare.strip(_ASCII_SIGNS):
            indent = len(line) - len(line.lstrip())
            yield _Line(start, end, *_classify_line(bare, indent, following.strip()))


def _classify_line(bare: str, indent: int, following: str) -> tuple[Kind, int]:
    """The kind of a line that is no code, and its depth."""
    heading = _HEADING.match(bare)
    if heading:
        return "title", heading.end() - _HIGHEST_HEADING
    number = _NUMBER.match(bare)
    # An indented line goes on with the item above it.
    depth = _LINE_DEPTH + _DEPTH_OF_SPACE * indent
    words = bare
    if number:
        depth += _NUMBER_DEPTH
        words = bare[number.end() :]
    elif _BULLET.match(bare):
        depth += _BULLET_DEPTH
        words = bare[1:].lstrip()
    if _BOLD.match(words):
        return "title", (_BOLD_DEPTH if depth == _LINE_DEPTH else depth)
    if words.rstrip(_EMPHASIS).endswith(COLONS) and not following.startswith(_FENCES):
        return "title", depth
    if bare.startswith("|") and following and not following.strip(_RULE_SIGNS):
        return "title", depth - 1
    return "sentence", depth


def _split_line(line: _Line, ends: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Where the sentences of a line begin and end. ``ends``: the ends of all sentences of the text."""
    start = line.start
    for end in (*ends[bisect_right(ends, start) : bisect_left(ends, line.end)], line.end):
        if end - start >= _SHORTEST_PIECE or end == line.end:
            yield start, end
            start = end


def _cut_long(text: str, start: int, end: int, longest: int) -> list[tuple[int, int]]:
    if end - start <= longest:
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
