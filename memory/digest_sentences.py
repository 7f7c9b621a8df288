"""The sentences of a text, what each does by the words in it, and how much there is to note about it."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence, Set
from typing import NamedTuple

from layerlore.memory.digest_signs import ALONE, FIRST_WORDS, SAYS_LITTLE, SIGNS, UNSPACED, words_of
from layerlore.memory.digest_words import JOINING, MARKS, STATING, Kind

LONGEST = 240
"""Characters of a note."""

# Of a longer text only its beginning and its end are read, so that a log somebody pasted costs no more than a page.
_HEAD, _TAIL = 6_000, 2_000
# What is left in front of the first word that is kept when a sentence is shortened, in characters.
_LEAD_CHARS = 30

_FENCE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_LOGGED = re.compile(r"^[ \t]*(?:[\w.]*(?:Error|Exception)\b|(?:error|fatal|panic)\b).*$", re.MULTILINE | re.IGNORECASE)
_LEAD = re.compile(r"(?:(?:[-*+•>#|–]+|\d{1,3}[.)]|\[[ xX]\])\s+)+")
_BOLD = re.compile(r"\*\*(\S(?:[^*]*[^\s*])?)\*\*")
# Where a sentence may end: not before a small letter, and see _ends_here.
_END = re.compile(r"[.!?…][\"'”’)\]*]? (?![a-z])")
_WIDE_END = re.compile(r"(?<=[。！？])")
# A day's number (am 3. Mai), an initial, a title or another short form ends no sentence.
_NO_END = re.compile(
    r"(?:^|[\s(])(?:(?:am|dem|den|der|das|zum|vom|ab|bis|nr|no|the)\s\d\d?|[A-Za-z]|mrs?|ms|dr|prof|st|vs|e\.g|i\.e|approx"
    r"|z\.b|ca|sra?|sig|nr|no|ул)\.$",
    re.IGNORECASE,
)

# What makes a word one to be kept as it is: digits, signs of ids, paths, addresses and money, capitals within.
_MARKED = re.compile(r"[\d_/\\@$€£¥₹₽`A-Z](?:(?<=[^A-Z])|(?<=[A-Za-z]{2}))")
_AROUND = "()[]{}<>\"'“”‘’«»*.,;:!?…、。！？，`"
_NAME = re.compile(r" [A-ZÀ-ÞА-Я][a-zß-ÿа-я]+")
_WIDE = re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_JOINING = re.compile(r"[\u0300-\u036f\u200c\u200d\ufe00-\ufe0f\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\U0001f3fb-\U0001f3ff]")
_ASKED = frozenset("?？؟")
_ALONE = tuple(ALONE.items())


class Sentence(NamedTuple):
    """A sentence as read: what it does, how many words in it tell something, how many are to be kept as they are
    (ids, numbers, dates, URLs, paths, money), and how many names it holds."""

    text: str
    kinds: Set[Kind]
    telling: int
    values: int
    names: int

    @property
    def question(self) -> bool:
        return not _ASKED.isdisjoint(self.text[-3:])

    @property
    def worth(self) -> float:
        """What its words add to its weight, whatever it does: 0 to about 2.3."""
        kept = 0.4 + 0.2 * min(self.values, 4) if self.values else 0
        when = 0.3 if "when" in self.kinds else 0
        return 0.05 * min(self.telling, 12) + kept + 0.15 * min(self.names, 3) + when


def bounded(text: str) -> str:
    """A text as far as it is read: a longer one without its middle."""
    return text if len(text) <= _HEAD + _TAIL else f"{text[:_HEAD]}\n{text[-_TAIL:]}"


def sentences_of(text: str) -> list[str]:
    """The sentences, each on one line and without the signs of lists, headings and bold type; of code between fences
    only the lines that name an error."""
    if "```" in text:
        text = _FENCE.sub(lambda code: "\n".join(_LOGGED.findall(code[0])), text)
    found: list[str] = []
    for each in text.splitlines():
        line = " ".join(each.split())
        if line and not line[0].isalpha():
            line = _LEAD.sub("", line, count=1)
        if "**" in line:
            line = _BOLD.sub(r"\1", line)
        start = 0
        for end in _END.finditer(line):
            if line[end.start()] != "." or not _NO_END.search(line[max(start, end.start() - 8) : end.start() + 1]):
                found.append(line[start : end.end() - 1])
                start = end.end()
        if "。" in line or "！" in line or "？" in line:
            found += map(str.strip, _WIDE_END.split(line[start:]))
        else:
            found.append(line[start:])
    return [sentence for sentence in found if len(sentence) > 1]


def read(text: str, *, marked: bool = True) -> Sentence:
    """What a sentence does and holds; ``marked=False`` where its whole text is known to hold nothing to be kept."""
    words = words_of(text)
    each = set(words)
    telling = len(each.difference(SAYS_LITTLE))
    values = values_of(text) if marked and _MARKED.search(text) else []
    wide = 0 if text.isascii() else len(_WIDE.findall(text))
    kinds: set[Kind] = set()
    if telling or values:
        firsts = each & FIRST_WORDS
        if firsts:
            kinds = _kinds(words, firsts)
        for kind, alone in _ALONE:
            if not each.isdisjoint(alone):
                kinds.add(kind)
    if values and any(value.endswith(("Error", "Exception")) for value in values):
        kinds.add("error")
    if wide:
        kinds.update(kind for kind, phrase in UNSPACED if phrase in text)
        telling += wide // 3
    return Sentence(text, kinds, telling, len(values), len(_NAME.findall(text)))


def _kinds(words: Sequence[str], firsts: Set[str]) -> set[Kind]:
    """What the phrases in it say that begin with one of these words; of those that begin at one place, the longest."""
    found: set[Kind] = set()
    skipped = 0
    last = len(words) - 1
    for at in [at for at, word in enumerate(words) if word in firsts]:
        alone, opening, longer = SIGNS[words[at]]
        phrases = longer.get(words[at + 1]) if longer and at < last else None
        if (phrases is None and not opening) or at < skipped:
            continue
        before = words[at - 1] if at else ","
        begins = before in MARKS or (before in JOINING and words[0] not in STATING)
        here: Set[Kind] = opening if begins else alone
        longest = 0
        for rest, opens, kind in phrases or ():
            if len(rest) < longest:
                break
            if (begins or not opens) and tuple(words[at + 1 : at + 1 + len(rest)]) == rest:
                here = here | {kind} if longest else {kind}
                longest = len(rest)
        if longest and "nothing" in here:
            skipped = at + 1 + longest
        else:
            found |= here
    return found


def is_marked(text: str) -> bool:
    """Whether there may be something in a text that is to be kept as it is."""
    return _MARKED.search(text) is not None


def values_of(text: str) -> list[str]:
    """The words that are to be kept as they are: ids, numbers, dates, URLs, paths, money, names of errors; without
    the marks around them."""
    bare = (word.strip(_AROUND) for word in text.split() if _MARKED.search(word))
    return [word for word in bare if word]


def shortened(text: str, most: int = LONGEST) -> str:
    """At most ``most`` characters of a text on one line, with "…" where something is left out: the stretch in which
    most of the words lie that are to be kept as they are, else its beginning. Words stay whole, but one that is longer
    than that."""
    if len(text) <= most:
        return text
    places = [found.span() for found in re.finditer(r"\S+", text) if _MARKED.search(found[0])]
    begins, ends = [begin for begin, _ in places], [end for _, end in places]
    room = most - 4

    def kept(start: int) -> int:
        return bisect_right(ends, start + room) - bisect_left(begins, start)

    starts = {0, *(_word_before(text, begin - _LEAD_CHARS) for begin in begins)}
    start = max(starts, key=lambda at: (kept(at), -at))
    end = _end_of_word(text, start, start + room)
    return f"{'… ' if start else ''}{text[start:end].strip()}{' …' if end < len(text) else ''}"


def _word_before(text: str, at: int) -> int:
    """The beginning of the first word from here on; 0 in front of the text."""
    if at <= 0:
        return 0
    space = text.find(" ", at - 1)
    return space + 1 if at <= space + 1 <= at + _LEAD_CHARS else at


def _end_of_word(text: str, start: int, at: int) -> int:
    """The end of the last word that ends here or before; where a word is longer than all of this, here, but within no
    character."""
    if at >= len(text):
        return len(text)
    space = text.rfind(" ", start, at + 1)
    after = text.find(" ", at)
    word = (len(text) if after < 0 else after) - space - 1
    if space > start and (word <= at - start and not (_WIDE.match(text[at]) and at - space > LONGEST // 4)):
        return space
    while at > start + 1 and _JOINING.match(text[at]):
        at -= 1
    return at
