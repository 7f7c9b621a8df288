"""The sentences of a text, what each does by the words in it, and how much there is to note about it."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence, Set
from functools import cache
from typing import NamedTuple

from layerlore.memory.language.phrases import (
    MARKS,
    Kind,
    find_words,
    first_words,
    phrase_signs,
    single_words,
    slight_words,
    unspaced_phrases,
)
from layerlore.memory.language.word_lists import tables, word_set
from layerlore.storage.core import linear_re

LONGEST = 240
"""Characters of a note."""

# Only the beginning and the end of a longer text are read, so that a pasted log costs no more than a page.
_HEAD, _TAIL = 6_000, 2_000
# This much of the beginning of a user's text is read.
_WRITTEN = 24_000
# The characters that stay in front of the first kept word of a shortened sentence.
_LEAD_CHARS = 30

_FENCE = linear_re.compile(r"```.*?(?:```|\Z)", linear_re.DOTALL)
_LOGGED = linear_re.compile(
    r"^[ \t]*(?:[\w.]*(?:Error|Exception)|error|fatal|panic)(?:[^\w\n].*)?$", linear_re.MULTILINE | linear_re.IGNORECASE
)
# Behind a number and a full stop it is the month of a day.
_MONTH = (
    r"(?i:jan(?:uar)?|feb(?:ruar)?|märz?|apr(?:il)?|mai|juni?|juli?|aug(?:ust)?|sept?(?:ember)?|okt(?:ober)?|nov(?:ember)?"
    r"|dez(?:ember)?)\b"
)
_LEAD = linear_re.compile(rf"(?:(?:[-*+•>#|–]+|\d{{1,3}}(?:\)|\.(?!\s{_MONTH}))|\[[ xX]\])\s+)+", engine="re")
_WORD = linear_re.compile(r"\S+", engine="re")
_BOLD = linear_re.compile(r"\*\*(\S(?:[^*]*[^\s*])?)\*\*")
# Where a sentence may end: not before a small letter, and see _ends_here.
_END = linear_re.compile(rf"[.!?…][\"'”’)\]*]? (?![a-z]|(?<=\d\. ){_MONTH})")
_WIDE_END = linear_re.compile(r"(?<=[。！？])")
# The same where sentences may begin small, or behind a smiley, as some people write.
_LOOSE_END = linear_re.compile(
    _END.pattern + r"|(?<=[\w'’]{3})(?<!\betc)(?<!\busw)[.!?…][\"'”’)\]*]? |(?<= )[:;]-?[)(DP] "
)
# A day's number (am 3. Mai), an initial, a title or another short form ends no sentence.
_NO_END = linear_re.compile(
    r"[\s(](?:no|nr)\.$|(?:^|[\s(])(?:(?:am|dem|den|der|das|zum|vom|ab|bis|nr|no|the)\s\d\d?|[A-Za-z]|mrs?|ms|dr|prof|st|vs|e\.g"
    r"|i\.e|approx|incl|excl|ext|resp|bzw|ggf|evtl|z\.b|ca|inkl|sra?|sig|ул)\.$",
    linear_re.IGNORECASE,
)

# A line of a log, of a traceback, of JSON, of a diff or of a table.
_PASTED = linear_re.compile(
    r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\[?\d\d:\d\d:\d\d|\[?(?:INFO|DEBUG|WARN|WARNING|ERROR|TRACE|FATAL|CRITICAL)\b|[{}\[\]<]"
    r"|File \"|at \S+[(.:]\S*\d|Traceback|diff --git |@@ |(?:[+-]{3} )|\$ |>>> |\S+=\S+ \S+=\S+|\S+ *\| *\S+ *\||[\"']\w+[\"']: "
)

# Marks of a word that stays unchanged: digits, signs of ids, paths, addresses and money, capitals within.
_MARKED = linear_re.compile(r"#(?=\w)|[\d_/\\@$€£¥₹₽`A-Z](?:(?<=[^A-Z])|(?<=[A-Za-z]{2}))")
_CLAUSE_END = linear_re.compile(r"[,;:)\u2013\u2014、，；：](?= )|[、，；：]")
_AROUND = "()[]{}<>\"'“”‘’«»*.,;:!?…、。！？，`"
_NAME = linear_re.compile(r" [A-ZÀ-ÞА-Я][a-zß-ÿа-я]+")
_WIDE = linear_re.compile(r"[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_JOINING = linear_re.compile(
    r"[\u0300-\u036f\u200c\u200d\ufe00-\ufe0f\u0e31\u0e34-\u0e3a\u0e47-\u0e4e\U0001f3fb-\U0001f3ff]"
)
_WIDE_CONTRAST = linear_re.compile("不是.+[,，、]\\s*而?是")
_ASKED = frozenset("?？؟")
# Those that say, in front of a clause, of what it is not true, and what stands in front of *not X but Y*.
_PLAIN_DENIALS = frozenset({"not", "nicht"})
_BEING = frozenset({"is", "s", "are", "was", "were", "be"})
# Words after a denial that introduce the true value: *not the server, it is the client*.
_TRUE_INSTEAD = frozenset(
    {
        *((who, verb) for who in ("it", "they", "she", "he", "that") for verb in ("s", "is", "re", "are", "was")),
        *((who, verb) for who in ("i", "we") for verb in ("need", "want", "said", "meant", "have")),
    }
)
_DENYING = ("Not ", "not ", "Nicht ", "nicht ")
# The most words of either side of *X, not Y*.
_FEW = 6


class Sentence(NamedTuple):
    """A sentence as read: what it does, how many content words it has, how many are to be kept as they are
    (ids, numbers, dates, URLs, paths, money), how many names it holds, and whether it is a line that a program wrote."""

    text: str
    kinds: Set[Kind]
    content_words: int
    values: int
    names: int
    pasted: bool = False

    @property
    def question(self) -> bool:
        return not _ASKED.isdisjoint(self.text[-3:])

    @property
    def correcting(self) -> bool:
        """Whether it puts something right."""
        amends = "amending" in self.kinds and bool(self.values or self.names or "when" in self.kinds)
        return not self.question and ("correction" in self.kinds or amends)

    @property
    def ruling(self) -> bool:
        """Whether it says what must, must not or had better be."""
        if "wish" in self.kinds:
            least = 1
        else:
            least = 2
        ruled = not self.kinds.isdisjoint(("rule", "wish"))
        return ruled and not self.question and (self.content_words >= least or self.values > 0)

    @property
    def worth(self) -> float:
        """The weight that its words add, for any act: 0 to about 2.3."""
        if self.values:
            kept = 0.4 + 0.2 * min(self.values, 4)
        else:
            kept = 0
        if "when" in self.kinds:
            when = 0.3
        else:
            when = 0
        return 0.05 * min(self.content_words, 12) + kept + 0.15 * min(self.names, 3) + when


def bound_text(text: str, *, whole: bool = False) -> str:
    """Cut a text to what is read of it: a long one loses its middle. ``whole``: only an unusual one does."""
    head, tail = (_WRITTEN, _TAIL) if whole else (_HEAD, _TAIL)
    if len(text) <= head + tail:
        return text
    return f"{text[:head]}\n{text[-tail:]}"


def split_sentences(text: str, *, loosely: bool = False) -> list[str]:
    """Split a text into sentences, each on one line and without the signs of lists, headings and bold type; of code
    between fences only the lines that name an error. ``loosely``: a sentence may begin small, or behind a smiley."""
    if "```" in text:
        # Only speech makes notes, but an error in a block of code is often the reason for the message.
        text = _FENCE.sub(lambda code: "\n".join(_LOGGED.findall(code[0])), text)
    found: list[str] = []
    for each in text.splitlines():
        line = " ".join(each.split())
        if line and not line[0].isalpha():
            lead = _LEAD.match(line)
            if lead:
                line = line[lead.end() :]
        if "**" in line:
            line = _BOLD.sub(r"\1", line)
        start = 0
        for end in (_LOOSE_END if loosely else _END).finditer(line):
            # Eight characters before the stop are enough for the short forms that end no sentence.
            if line[end.start()] != "." or not _NO_END.search(line[max(start, end.start() - 8) : end.start() + 1]):
                found.append(line[start : end.end() - 1])
                start = end.end()
        if "。" in line or "！" in line or "？" in line:
            found += map(str.strip, _WIDE_END.split(line[start:]))
        else:
            found.append(line[start:])
    return [sentence for sentence in found if len(sentence) > 1]


def read_sentence(text: str, *, marked: bool = True) -> Sentence:
    """Read what a sentence does and holds; ``marked=False`` where its whole text is known to hold nothing to be
    kept."""
    words = find_words(text)
    each = set(words)
    content_words = len(each.difference(slight_words()))
    if marked and _MARKED.search(text):
        values = find_values(text)
    else:
        values = []
    if text.isascii():
        wide = 0
    else:
        wide = len(_WIDE.findall(text))
    if content_words or values:
        kinds = _read_kinds(words, each)
    else:
        kinds = set[Kind]()
    if values and any(value.endswith(("Error", "Exception")) for value in values):
        kinds.add("error")
    if wide:
        kinds.update(kind for kind, phrase in unspaced_phrases() if phrase in text)
        if _WIDE_CONTRAST.search(text):
            kinds.add("correction")
        # These scripts put no spaces between words: three characters count as one word.
        content_words += wide // 3
    return Sentence(text, kinds, content_words, len(values), len(_NAME.findall(text)))


def _read_kinds(words: Sequence[str], each: Set[str]) -> set[Kind]:
    """The acts of a sentence's words (``each``: these once)."""
    firsts = each & first_words()
    if firsts:
        kinds = _kinds(words, firsts)
    else:
        kinds = set[Kind]()
    begins = words[0] if words else ""
    if begins in word_set("clauses.without") and not word_set("clauses.says_why").isdisjoint(
        words
    ):  # *No panic, it is only a test.*
        kinds.discard("wish")
    if begins in word_set("clauses.no") and words[1:2] == [","]:  # *No, on Monday*; *No calls on Monday* is a wish.
        kinds.discard("wish")
        kinds.add("amending")
    kinds.update(kind for kind, alone in single_words().items() if not each.isdisjoint(alone))
    if not each.isdisjoint(_instead()) and _contrasts(words):
        kinds.add("correction")
    return kinds


def read_of_person(text: str) -> Iterator[Sentence]:
    """Read the sentences of a user's text whole: a long one in stretches that make a note each. Words that only open a
    correction (*No. That's wrong.*) is read with the sentence after it."""
    marked = is_marked(text)
    opened: Sentence | None = None
    for each in split_sentences(text, loosely=True):
        pasted = _PASTED.match(each) is not None
        # A pasted line is cut and not split: its rest would make notes without a meaning.
        for stretch in [shorten(each)] if pasted else _split_long(each):
            sentence = read_sentence(stretch, marked=marked)._replace(pasted=pasted)
            if opened and not pasted:
                yield from _continue(opened, sentence)
                opened = None
            elif not pasted and _opens_correction(sentence):
                opened = sentence
            else:
                yield sentence
    if opened:
        yield opened


def _continue(opened: Sentence, sentence: Sentence) -> Iterator[Sentence]:
    """Words that open a correction and the sentence after it: as one, unless both say something."""
    sentence = sentence._replace(kinds={*sentence.kinds, *(opened.kinds & {"correction"} or {"amending"})})
    if opened.content_words > _FEW // 2 or len(opened.text) + len(sentence.text) >= LONGEST:
        yield opened
        sentence = sentence._replace(kinds={*sentence.kinds - {"correction"}, "amending"})
    else:
        sentence = sentence._replace(text=f"{opened.text} {sentence.text}")
    yield sentence


def _opens_correction(sentence: Sentence) -> bool:
    if sentence.text.startswith(_DENYING) and len(find_words(sentence.text)) <= _FEW:
        return True  # *Not the old one!*
    if sentence.values or sentence.names or sentence.content_words > _FEW or len(sentence.text) > LONGEST // 4:
        return False
    words = find_words(sentence.text)
    if not words:
        return False
    opens = not sentence.kinds.isdisjoint(("correction", "amending")) and not sentence.question
    if opens and len(words) <= _FEW + 2:
        return True
    openers = word_set("clauses.no") | word_set("clauses.opening")
    return len(words) <= 2 and words[0] in openers


def _split_long(text: str) -> list[str]:
    """A sentence, or where it is longer than a note its stretches: each ends behind a mark, else behind a word."""
    found: list[str] = []
    while len(text) > LONGEST:
        # Four characters are for the marks at both ends of a stretch.
        room = text[: LONGEST - 4]
        ends = [end.end() for end in _CLAUSE_END.finditer(room, LONGEST // 3)]
        if ends:
            at = ends[-1]
        else:
            at = _end_of_word(text, 0, len(room))
        found.append(f"{'… ' if found else ''}{text[:at].strip()} …")
        text = text[at:].strip()
    return [*found, f"… {text}" if found else text]


def _kinds(words: Sequence[str], firsts: Set[str]) -> set[Kind]:
    """The meanings of its phrases that begin with one of these words; the longest one at each place."""
    found: set[Kind] = set()
    skipped = 0
    last = len(words) - 1
    signs, joining = phrase_signs(), word_set("clauses.joining")
    for at in [at for at, word in enumerate(words) if word in firsts]:
        alone, opening, longer = signs[words[at]]
        phrases = longer.get(words[at + 1]) if longer and at < last else None
        if (phrases is None and not opening) or at < skipped:
            continue
        before = words[at - 1] if at else ","
        begins = before in MARKS or (before in joining and _joins(words, at))
        here: Set[Kind] = opening if begins else alone
        longest = 0
        for rest, opens, kind in phrases or ():
            if len(rest) < longest:
                break
            if (begins or not opens) and tuple(words[at + 1 : at + 1 + len(rest)]) == rest:
                here = here | {kind} if longest else {kind}
                longest = len(rest)
        # The phrase takes back what its words say, so no phrase may begin within it.
        if longest and "nothing" in here:
            skipped = at + 1 + longest
        else:
            found |= here
    return found


@cache
def _instead() -> dict[str, frozenset[str]]:
    """By each word that denies, the words that name after it what is true."""
    found: dict[str, frozenset[str]] = {}
    for table in tables("clauses.instead").values():
        for denial, true in table.items():
            found[denial] = found.get(denial, frozenset()).union(true.split())
    return found


def _contrasts(words: Sequence[str]) -> bool:
    """Whether a sentence puts one thing in place of another: *X, not Y*; *not X but Y*; *Not X, Y*; *not X, it's Y*."""
    return any(word in _instead() and _replaces(words, at) for at, word in enumerate(words[:-1]))


def _replaces(words: Sequence[str], at: int) -> bool:
    """Whether what the word here denies is named with what is true instead of it."""
    denial, after = words[at], words[at + 1]
    stating = word_set("clauses.stating")
    # Turkish denies behind the word, and "değil mi?" only asks for assent.
    if denial == "değil":
        return at > 0 and not after.startswith("m")
    if after in MARKS or after in word_set("clauses.loose"):
        return False
    upto = next((to for to in range(at + 1, len(words)) if words[to] in MARKS), len(words))
    denied, behind = upto - at - 1, words[upto + 1 : upto + 2 + _FEW]
    closing = at > 0 and words[at - 1] in MARKS
    if closing and denied <= (_FEW if denial in _PLAIN_DENIALS else 2) and after not in stating:
        return True
    if (denial != "not" or at == 0 or words[at - 1] in _BEING) and _says_instead(words, at):
        return True
    if denied > _FEW or not behind:
        return False
    if tuple(behind[:2]) in _TRUE_INSTEAD:
        return True
    return at == 0 and denial in _PLAIN_DENIALS and len(behind) <= _FEW and behind[0] not in stating


def _says_instead(words: Sequence[str], at: int) -> bool:
    """Whether a word soon after the denial here names what is true: *not X but Y*."""
    instead = _instead()[words[at]]
    untrue = word_set("clauses.stating") | word_set("clauses.loose")
    return any(
        words[to] in instead and words[to + 1] not in untrue for to in range(at + 2, min(at + _FEW + 2, len(words) - 1))
    )


def _joins(words: Sequence[str], at: int) -> bool:
    """Whether the word that joins, in front of this one, lets a clause begin as a sentence does."""
    if at > 1 and words[at - 2] in MARKS and words[at] in word_set("clauses.asking"):
        return True
    stating = word_set("clauses.stating")
    # Words of a speaker who states something; English *I've*, which differs from Turkish *ve*.
    return words[0] not in stating and not (words[at - 1] == "ve" and words[at - 2] in stating)


def is_marked(text: str) -> bool:
    """Whether there may be something in a text that is to be kept as it is."""
    return _MARKED.search(text) is not None


def find_values(text: str) -> list[str]:
    """The words that are to be kept as they are: ids, numbers, dates, URLs, paths, money, names of errors; without
    the marks around them."""
    bare = (word.strip(_AROUND) for word in text.split() if _MARKED.search(word))
    return [word for word in bare if word]


def shorten(text: str, most: int = LONGEST) -> str:
    """Shorten a text to at most ``most`` characters on one line, with "…" where something is left out: the stretch in
    which most of the words lie that are to be kept as they are, else its beginning. Words stay whole, but one that is
    longer than that."""
    if len(text) <= most:
        return text
    places = [found.span() for found in _WORD.finditer(text) if _MARKED.search(found[0])]
    begins, ends = [begin for begin, _ in places], [end for _, end in places]
    room = most - 4

    def kept(start: int) -> int:
        return bisect_right(ends, start + room) - bisect_left(begins, start)

    # A stretch begins a little before a value, so that the words that explain it are in it.
    starts = {0, *(_word_before(text, begin - _LEAD_CHARS) for begin in begins)}
    start = max(starts, key=lambda at: (kept(at), -at))
    end = _end_of_word(text, start, start + room)
    return f"{'… ' if start else ''}{text[start:end].strip()}{' …' if end < len(text) else ''}"


def _word_before(text: str, at: int) -> int:
    """The beginning of the first word from here on; 0 in front of the text."""
    if at <= 0:
        return 0
    # Only as far as a word's beginning counts: a long text without spaces is not read to its end for each place.
    space = text.find(" ", at - 1, at + _LEAD_CHARS)
    if space < 0:
        return at
    return space + 1


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
    # An accent or a skin colour belongs to the character before it.
    while at > start + 1 and _JOINING.match(text[at]):
        at -= 1
    return at
