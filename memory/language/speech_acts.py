"""The speech act of a text, not its subject: how far it only asks, and how far it says nothing."""

from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

import regex

from layerlore.memory.language.no_answers import NEUTRAL, NO_ANSWERS, SIGNS
from layerlore.memory.language.questions import (
    ADDRESSES,
    ANYWHERE,
    GREETINGS,
    NOT_ASKED,
    OPENINGS,
    REQUESTS,
    TAGS,
    TURKISH_SIGNS,
)
from layerlore.storage.core import linear_re

# In characters. The rest of a longer text counts as a statement.
_LOOKED_AT = 2000
# An answer without knowledge is short, and so is a question without its mark.
_LONGEST_NO_ANSWER = 1200
_LONGEST_UNMARKED = 160
_LONGEST_DOUBT = 300
# In a longer question whose beginning is not known the last clause asks.
_LONGEST_WHOLE = 80
_LONGEST_FIRST = 40
_LONGEST_ADDRESS = 50

# No sentence ends within a number or an address.
_SENTENCE_END = linear_re.compile(r"[.!?…]+[\"')\]]*(?=\s)|[。！？؟]+|\n+")
_LETTER = linear_re.compile(r"\w")
_QUESTION_MARKS = frozenset("?？؟՞⁇⁈")
_GREEK_MARK = linear_re.compile(r"(?<=\p{Greek});")
_CLAUSE = linear_re.compile(
    r"[,;:，、،—–]+\s*| (?:-+|but|and|so|because|since|und|aber|et|mais|pero|ma|mas|maar|ale|но|ama) "
)
_LEAD_IN = linear_re.compile(
    r"(?:[\W_]|\b(?:and|so|but|then|also|well|ok|okay|hey|hi|hello|oh|btw|by the way|sorry|actually|honestly|unfortunately|sadly"
    r"|hmm+|um+|uh|(?:no|yes|yeah)(?=,)|i'm (?:afraid|(?:so |very )?sorry)|apologies|und|aber|et|mais|y|pero|e|ma|mas|en|maar|ale|и|а|но|ну|ve)\b"
    r"(?![''\w]))*",
    engine="re",
)


# Without what they look at ahead and behind, expressions match more, so that a first word shows which of them may.
_LOOK_AROUND = regex.compile(r"\(\?<?[=!](?:[^()\\]++|\\.|(\((?:[^()\\]++|\\.|(?1))*+\)))*+\)")


@cache
def _compile(expression: str) -> "regex.Pattern[str]":
    """At its first use: all of them would add a quarter of a second to the start of every process."""
    return regex.compile(expression)


@cache
def _compile_wide(expression: str) -> "regex.Pattern[str]":
    """An expression that matches more than the first: with a first word it shows whether the rest is worth a look."""
    return regex.compile(_LOOK_AROUND.sub("", expression))


class _Beginning(NamedTuple):
    """An expression that begins a clause."""

    expression: str
    kind: str = ""


def _list_beginnings(listed: str, kind: str = "") -> list[_Beginning]:
    return [_Beginning(line, kind) for line in listed.strip().splitlines()]


def _any_of(*listed: str) -> str:
    lines = [line for text in listed for line in text.strip().splitlines()]
    return "|".join(f"(?:{line})" for line in lines)


_QUESTIONS = [
    *(each for listed in REQUESTS.values() for each in _list_beginnings(listed, "request")),
    *(each for language, listed in OPENINGS.items() for each in _list_beginnings(listed, language)),
]
_DOUBTS = _list_beginnings(NO_ANSWERS["en"])
_ANYWHERE = {language: _any_of(listed) for language, listed in ANYWHERE.items()}
_TAG = _any_of(TAGS)
_ADDRESS = rf"\W*(?:{ADDRESSES.strip()}|{GREETINGS.strip()}(?:[ ,]+\p{{Latin}}+){{0,2}})\W*"
_NEUTRAL = _any_of(NEUTRAL)
_NO_ANSWER = {language: _any_of(listed) for language, listed in NO_ANSWERS.items() if language != "en"}
_SIGNS = {language: frozenset(listed.split()) for language, listed in SIGNS.items()}
_TURKISH_SIGNS = frozenset(TURKISH_SIGNS.split())
_TURKISH_LETTERS = frozenset("ığş")
_NO_LETTERS = str.maketrans(dict.fromkeys('.,;:!?()[]"…—–*،؟¿¡«»„“”', " "))
_OTHER_SCRIPT = linear_re.compile("[\u0370-\u1fff\u2e80-\ud7ff]")
_SCRIPTS = {
    "ar": linear_re.compile("[\u0600-\u06ff]"),
    "ja": linear_re.compile("[\u3040-\u30ff]"),
    "zh": linear_re.compile("[\u3400-\u9fff]"),
    "ko": linear_re.compile("[\uac00-\ud7af]"),
    "th": linear_re.compile("[\u0e00-\u0e7f]"),
}


class SpeechActs(NamedTuple):
    """Shares of a text, from 0 to 1. ``asks``: what only asks. ``empty``: what says that nothing is known, or not yet,
    with what asks beside it; 0 where nothing says so. Greetings, thanks and apologies count for neither side."""

    asks: float
    empty: float


def measure_speech_acts(text: str) -> SpeechActs:
    """How far a text only asks, and how far it says nothing; by marks and by words of the languages of
    ``memory.language.questions`` and ``memory.language.no_answers``."""
    request = nothing = aside = 0
    told = max(0, len(text) - _LOOKED_AT)
    low = text[:_LOOKED_AT].lower().replace("’", "'")
    if len(text) > _LONGEST_NO_ANSWER and _QUESTION_MARKS.isdisjoint(low) and low.isascii():
        return SpeechActs(0.0, 0.0)
    words = frozenset(low.translate(_NO_LETTERS).split())
    languages = _find_languages(low, words)
    if len(text) <= _LONGEST_NO_ANSWER:
        doubting = _find_doubting(languages, words)
    else:
        doubting = []
    for sentence in _list_sentences(low if low.isascii() else _GREEK_MARK.sub("?", low)):
        size = len(sentence)
        asking = _count_asking(sentence, languages)
        request += asking
        if asking < size:
            doubts = bool(doubting) and not asking and size <= _LONGEST_DOUBT
            unknown, neutral = _count_unknown(sentence, doubting) if doubts else (0, 0)
            nothing += unknown
            if doubts and not unknown and _compile(_NEUTRAL).match(sentence, _find_beginning(sentence, 0)):
                aside += size
            else:
                told += size - asking - unknown - neutral
    if request:
        asks = request / (request + told + nothing + aside)
    else:
        asks = 0.0
    return SpeechActs(asks, (nothing + request) / (nothing + request + told) if nothing else 0.0)


def _find_languages(low: str, words: frozenset[str]) -> list[str]:
    """The languages whose letters or signs a folded text has, but for those that are tried for every text."""
    found: list[str] = []
    if not low.isascii() and _OTHER_SCRIPT.search(low):
        found = [language for language, letters in _SCRIPTS.items() if letters.search(low)]
    if "ja" in found and "zh" in found:
        found.remove("zh")
    if not words.isdisjoint(_TURKISH_SIGNS) or not _TURKISH_LETTERS.isdisjoint(low):
        found.append("tr")
    return found


def _find_doubting(languages: Sequence[str], words: frozenset[str]) -> list[str]:
    """The languages in which the text may say that nothing is known: by their signs, and those that have none."""
    signed = [language for language, signs in _SIGNS.items() if not signs.isdisjoint(words)]
    return [*signed, *(language for language in languages if language not in _SIGNS)]


def _list_sentences(low: str) -> Iterator[str]:
    """The sentences that are more than a greeting, thanks or an apology."""
    for begin, end in find_sentences(low):
        sentence = low[begin:end]
        if len(sentence) <= _LONGEST_ADDRESS and (
            not _LETTER.search(sentence)
            or (_judge(_read_word(sentence, 0)).address and _compile(_ADDRESS).fullmatch(sentence))
        ):
            continue
        yield sentence


def find_sentences(text: str) -> Iterator[tuple[int, int]]:
    """Where the sentences of a text begin and end, without the white space around them."""
    begin = 0
    for end in (*(found.end() for found in _SENTENCE_END.finditer(text)), len(text)):
        piece = text[begin:end]
        inner = piece.strip()
        if inner:
            at = begin + len(piece) - len(piece.lstrip())
            yield at, at + len(inner)
        begin = end


def find_question(sentence: str) -> int:
    """Where in a sentence its question begins, which lasts to its end; -1 where it asks nothing."""
    low = fold_sentence(sentence)
    languages = _find_languages(low, frozenset(low.translate(_NO_LETTERS).split()))
    asking = _count_asking(_GREEK_MARK.sub("?", low), languages)
    if asking:
        return len(sentence) - asking
    return -1


def fold_sentence(sentence: str) -> str:
    """A sentence in lower case, with straight apostrophes and as many characters as it had."""
    return sentence.replace("İ", "i").lower().replace("’", "'")


# A text's first words are few, and most begin none of the expressions.


class _FirstWord(NamedTuple):
    """The possible acts of a sentence that begins with a word. ``leads_in``: the word belongs to no expression, and the
    sentence begins behind it."""

    address: bool
    leads_in: bool
    questions: tuple[_Beginning, ...]


@lru_cache(maxsize=4096)
def _judge(word: str) -> _FirstWord:
    lead = _LEAD_IN.match(word)
    return _FirstWord(
        _compile(_ADDRESS).fullmatch(word, partial=True) is not None,
        word in ("by", "i'm") or (lead is not None and lead.end() > 0),
        tuple(each for each in _QUESTIONS if _compile_wide(each.expression).match(f"{word} ", partial=True)),
    )


@lru_cache(maxsize=4096)
def _list_doubts(word: str) -> tuple[_Beginning, ...]:
    return tuple(each for each in _DOUBTS if _compile_wide(each.expression).match(word, partial=True))


def _read_word(sentence: str, begin: int) -> str:
    return sentence[begin : begin + _LONGEST_FIRST].partition(" ")[0]


def _find_beginning(sentence: str, begin: int) -> int:
    """Where a clause begins that stands at a place."""
    if _judge(_read_word(sentence, begin)).leads_in and (found := _LEAD_IN.match(sentence, begin)):
        return found.end()
    return begin


def _count_asking(sentence: str, languages: list[str]) -> int:
    """How many of a sentence's characters ask."""
    if not _QUESTION_MARKS.isdisjoint(sentence[-4:]) or "՞" in sentence:
        return _count_marked(sentence)
    if len(sentence) > _LONGEST_UNMARKED:
        return 0
    exclaimed = sentence.endswith(("!", "！"))
    if languages and not exclaimed and _asks_anywhere(sentence, languages):
        return len(sentence)
    first = _judge(_read_word(sentence, 0))
    if not (first.leads_in or first.questions or "," in sentence):
        return 0
    begin = _find_beginning(sentence, 0)
    if _begins_question(sentence, begin, exclaimed):
        return len(sentence) - begin
    addressed, comma, _ = sentence.partition(", ")
    begin = len(addressed) + len(comma)
    if (
        comma
        and (addressed.isalpha() or _compile(_ADDRESS).fullmatch(addressed))
        and _begins_question(sentence, begin, exclaimed)
    ):
        return len(sentence) - begin
    return 0


def _begins_question(sentence: str, begin: int, exclaimed: bool) -> bool:
    """Whether a question without its mark begins at a place."""
    for each in _judge(_read_word(sentence, begin)).questions:
        if exclaimed and each.kind != "request":
            continue
        found = _compile(each.expression).match(sentence, begin)
        if found and (each.kind in ("request", "en") or "," not in sentence[found.end() :]):
            return True
    return False


def _asks_anywhere(sentence: str, languages: list[str]) -> bool:
    return any(
        _compile(_ANYWHERE[language]).search(sentence) and not _compile(NOT_ASKED[language]).search(sentence)
        for language in languages
    )


def _count_marked(sentence: str) -> int:
    """The length of a sentence's end that asks: from the clause that begins as a question, or the last clause if it
    only asks for assent."""
    size = len(sentence)
    clauses = [0, *(found.end() for found in _CLAUSE.finditer(sentence) if 0 < found.end() < size)]
    if len(clauses) == 1:
        return size
    for begin in clauses:
        start = _find_beginning(sentence, begin)
        if any(
            _compile(each.expression).match(sentence, start) for each in _judge(_read_word(sentence, start)).questions
        ):
            return size - begin
    last = clauses[-1]
    tag = _compile(_TAG).match(sentence, last)
    if tag is not None and size - tag.end() <= 3:
        return size - last
    if size <= _LONGEST_WHOLE:
        return size
    return size - last


def _count_unknown(sentence: str, languages: list[str]) -> tuple[int, int]:
    """How many of a sentence's characters say that nothing is known, and how many neither that nor anything else."""
    spans: list[tuple[int, int]] = []
    clauses = [0, *(found.end() for found in _CLAUSE.finditer(sentence))]
    for language in languages:
        if language == "en":
            spans.extend(_match_clauses(sentence, clauses))
            continue
        for found in _compile(_NO_ANSWER[language]).finditer(sentence):
            begin = max(clause for clause in clauses if clause <= found.start())
            spans.append((begin, found.end()))
    if not spans:
        return 0, 0
    unknown = rest = at = 0
    for begin, end in [*sorted(spans), (len(sentence), len(sentence))]:
        if begin > at:
            rest += sum(len(piece) for piece in _CLAUSE.split(sentence[at:begin]) if not _is_neutral(piece))
        unknown += max(0, end - max(begin, at))
        at = max(at, end)
    return unknown, len(sentence) - unknown - rest


def _match_clauses(sentence: str, clauses: list[int]) -> Iterator[tuple[int, int]]:
    at = 0
    for begin in clauses:
        if begin < at:
            continue
        start = _find_beginning(sentence, begin)
        for each in _list_doubts(_read_word(sentence, start)):
            found = _compile(each.expression).match(sentence, start)
            if found is None:
                continue
            at = found.end()
            yield begin, at
            break


def _is_neutral(piece: str) -> bool:
    return not any(letter.isalnum() for letter in piece) or bool(
        _compile(_NEUTRAL).match(piece) or _compile(_ADDRESS).fullmatch(piece)
    )


# Words that are listed with greetings, and may accept a proposal.
_ACCEPTING = frozenset(["great", "cool", "nice", "awesome", "amazing", "sounds", "wow"])
_PARTING = frozenset(
    ["bye", "goodbye", "ciao", "tschüss", "tschüs", "adieu", "adiós", "tchau", "doei", "pa", "пока", "до"]
)
_GREETING = rf"\W*{GREETINGS.strip()}(?:[ ,]+\p{{Latin}}+)?\W*"
_LONGEST_GREETING = 120


def only_greets(text: str) -> bool:
    """Whether a text holds nothing but greetings, thanks and goodbyes. An ok does not count, since it may accept
    something."""
    if len(text) > _LONGEST_GREETING:
        return False
    low = text.lower().replace("’", "'")
    found = False
    for sentence in _SENTENCE_END.split(low):
        bare = sentence.strip()
        if not _LETTER.search(bare):
            continue
        first = bare.translate(_NO_LETTERS).split()[0]
        greets = first not in _ACCEPTING and _compile(_GREETING).fullmatch(bare)
        if not greets and first not in _PARTING:
            return False
        found = True
    return found
