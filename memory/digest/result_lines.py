"""The lines of a tool's result that show what came of a call: those that name an error, or give an id, an address or a
name by which it can be asked for again; not those that a hundred others are like."""

from collections import Counter
from collections.abc import Iterator, Sequence

from layerlore.memory.language.sentences import shorten
from layerlore.storage.core import linear_re

# If a text is longer, the digest reads its beginning, its end and this number of lines between them that speak of an
# error.
_READ = 12_000
_MOST_BETWEEN = 200
_LONGEST_LINE = 400
_STRETCH = 100
# A line of which more are alike says what there is much of.
_OFTEN = 3
# The least worth of a line that stands for a long result, and of a line beside another.
_TELLING = 2.0
_MOST_LINES = 3

_LABELLED = linear_re.compile(
    r"(?<![A-Za-z0-9])(?:id|uuid|key|ref|reference|ticket|case|issue|order|incident|number|no|nr|sha|sha256|sha1|digest|hash|commit|tag|url|link|href"
    r"|token|version|revision|snapshot|backup|job|run|build|invoice|tracking|booking|confirmation|refund|return|arn|path"
    r"|file|saved|written|created|opened)(?:[\"']?\s*[:=#]|[\"']?\s+(?:is|as|to|at)\s|[\"'\s])\s*[\"']?#?(?P<value>\S{3,})",
    linear_re.IGNORECASE,
)
_GIVEN = linear_re.compile(
    r"https?://\S+|\b[A-Z][A-Z0-9]{1,9}-\d+\b|\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"
    r"|\b(?P<hash>[0-9a-f]{7,64})\b|\b(?P<named>[a-z]{2,12}[-_][0-9a-z]{6,})\b|#\d{3,}\b|\b\d{6,}\b"
)
_NAMED_ERROR = linear_re.compile(
    r"(?:^|\s)[\w.]*(?:Error|Exception)\b\s*[:(]|^\W*(?:error|fatal|panic)\b", linear_re.IGNORECASE
)
_LOGGED_ERROR = linear_re.compile(r"\b(?:ERROR|FATAL|CRITICAL|SEVERE|PANIC|FAILED)\b")
_SPEAKS_OF_ERROR = linear_re.compile(_LOGGED_ERROR.pattern + r"|(?:Error|Exception):")
_MAY_TELL = linear_re.compile(r"\d\d|\d[a-f]|[a-f]\d|https?:|[A-Z]{5}|[\w.-]/[\w.-]")
_VARYING = linear_re.compile(r"[0-9a-f]*\d[0-9a-f]*|(?<==)\S+|(?<=/)[\w.-]+")
_STAMP = linear_re.compile(r"^\[?\d{4}-\d\d-\d\d[T ][\d:.,]+(?:Z|[+-]\d\d:?\d\d)?\]?\s+")


def read_lines(text: str) -> list[str]:
    """The lines of a text that have something in them, each without the space around it; of a long text its ends, and
    between them what speaks of an error."""
    if len(text) > _READ:
        half = _READ // 2
        text = "\n".join([text[:half], *_find_errors(text, half, len(text) - half), text[-half:]])
    return [" ".join(line[:_LONGEST_LINE].split()) for line in text.splitlines() if line.strip()]


def _find_errors(text: str, begin: int, end: int) -> Iterator[str]:
    """The first lines between two places that speak of an error; of a very long one what begins with that."""
    for _ in range(_MOST_BETWEEN):
        found = _SPEAKS_OF_ERROR.search(text, begin, end)
        if found is None:
            return
        starts = max(begin, text.rfind("\n", begin, found.start()) + 1)
        ends = text.find("\n", found.end(), starts + _LONGEST_LINE)
        if ends < 0:
            starts, ends = found.start(), min(end, max(found.end(), found.start() + _STRETCH))
        yield text[starts:ends]
        begin = ends


def find_named_error(lines: Sequence[str]) -> str:
    """The last line that names an error and says what it is; "" for none."""
    return next((line for line in reversed(lines) if _NAMED_ERROR.search(line)), "")


def find_telling_lines(lines: Sequence[str], given: frozenset[str], most: int) -> tuple[str, bool, bool]:
    """The most informative lines, in at most ``most`` characters; whether they give something that was not ``given``,
    and whether one of them speaks of an error."""
    shapes = [_VARYING.sub("#", line) for line in lines]
    often = Counter(shapes)
    worth = {at: _weigh(line, given, often[shapes[at]]) for at, line in enumerate(lines) if _MAY_TELL.search(line)}
    best = sorted((at for at in worth if worth[at] >= _TELLING), key=lambda at: (-worth[at], at))
    kept: list[int] = []
    left = most
    for at in best[:_MOST_LINES]:
        cost = len(_shown(lines[at])) + 2
        if not kept or cost <= left:
            kept.append(at)
            left -= cost
    if kept:
        said = shorten("; ".join(_shown(lines[at]) for at in sorted(kept)), most)
    else:
        said = ""
    gives = any(find_given_ids(lines[at], given) for at in kept)
    return said, gives, any(_LOGGED_ERROR.search(lines[at]) for at in kept)


def names_logged_error(text: str) -> bool:
    """Whether a line of a log speaks of an error."""
    return _LOGGED_ERROR.search(text) is not None


def find_given_ids(text: str, given: frozenset[str]) -> list[str]:
    """The ids, hashes, tickets and addresses in a text that were not given before."""
    return [found[0] for found in _GIVEN.finditer(text) if _is_id(found) and found[0] not in given]


def _is_id(found: linear_re.Match) -> bool:
    """Whether it is not a plain word or number: a hash has letters and digits, and a name's number digits."""
    written = found["hash"] or found["named"]
    if written is None:
        return True
    return any(map(str.isdigit, written)) and not written.isdigit()


def _weigh(line: str, given: frozenset[str], alike: int) -> float:
    worth = 0.0
    line = _STAMP.sub("", line)
    if _LOGGED_ERROR.search(line):
        worth += 3
    if find_given_ids(line, given):
        worth += 2
    labelled = next((found for found in _LABELLED.finditer(line) if _may_be_id(found["value"])), None)
    if labelled and not any(value in labelled[0] for value in given):
        worth += 2
    if alike < _OFTEN:
        return worth
    return worth / 4


def _may_be_id(value: str) -> bool:
    return any(character.isdigit() or character == "/" for character in value)


def _shown(line: str) -> str:
    return _STAMP.sub("", line)
