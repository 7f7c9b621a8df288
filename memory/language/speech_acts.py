"""The speech act of a text, not its subject: how far it only asks, and how far it says nothing."""

from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import NamedTuple

import regex

from layerlore.memory.language.word_lists import any_expression, expressions, texts, word_set
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
# Without their lookarounds expressions match more, so a first word shows which of them may match.
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
    """An expression that begins a question. ``kind``: ``request``, or its language."""

    expression: str
    kind: str


@cache
def _questions() -> tuple[_Beginning, ...]:
    """The expressions that begin a question without its mark."""
    requests = [_Beginning(each, "request") for each in expressions("questions.requests")]
    openings: list[_Beginning] = []
    for language in texts("questions.openings"):
        openings += [_Beginning(each, language) for each in expressions("questions.openings", language)]
    return (*requests, *openings)


@cache
def _address() -> str:
    """An expression for a sentence that neither asks nor states."""
    addresses, greetings = any_expression("questions.addresses"), any_expression("questions.greetings")
    return rf"\W*(?:(?:{addresses})|(?:{greetings})(?:[ ,]+\p{{Latin}}+){{0,2}})\W*"


@cache
def _greeting() -> str:
    return rf"\W*(?:{any_expression('questions.greetings')})(?:[ ,]+\p{{Latin}}+)?\W*"


@cache
def _clause() -> linear_re.Pattern:
    """Where a clause ends."""
    joints = "|".join(sorted(word_set("clauses.joints")))
    return linear_re.compile(rf"[,;:，、،—–]+\s*| (?:-+|{joints}) ")


@cache
def _lead_in() -> linear_re.Pattern:
    """Words before a clause that do not change what it does."""
    listed = "|".join(dict.fromkeys(expressions("clauses.lead_ins")))
    return linear_re.compile(rf"(?:[\W_]|\b(?:{listed})\b(?![''\w]))*", engine="re")


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
    """How far a text only asks, and how far it says nothing; by marks, and by the words of the
    languages."""
    asked = nothing = aside = 0
    # The part that is not read counts as statement, so that a long text rarely only asks.
    told = max(0, len(text) - _LOOKED_AT)
    low = text[:_LOOKED_AT].lower().replace("’", "'")
    # A long text without a question mark asks nothing: the expressions need not run.
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
        asked += asking
        if asking < size:
            doubts = bool(doubting) and not asking and size <= _LONGEST_DOUBT
            unknown, neutral = _count_unknown(sentence, doubting) if doubts else (0, 0)
            nothing += unknown
            if (
                doubts
                and not unknown
                and _compile(any_expression("no_answers.neutral")).match(sentence, _find_beginning(sentence, 0))
            ):
                aside += size
            else:
                told += size - asking - unknown - neutral
    if asked:
        asks = asked / (asked + told + nothing + aside)
    else:
        asks = 0.0
    return SpeechActs(asks, (nothing + asked) / (nothing + asked + told) if nothing else 0.0)


def _find_languages(low: str, words: frozenset[str]) -> list[str]:
    """The languages whose letters or signs a folded text has, but for those that are tried for every text."""
    found: list[str] = []
    if not low.isascii() and _OTHER_SCRIPT.search(low):
        found = [language for language, letters in _SCRIPTS.items() if letters.search(low)]
    # Japanese is written with Chinese characters, too, but Chinese has no kana.
    if "ja" in found and "zh" in found:
        found.remove("zh")
    if not words.isdisjoint(word_set("questions.signs", "tr")) or not set("ığş").isdisjoint(low):
        found.append("tr")
    return found


def _find_doubting(languages: Sequence[str], words: frozenset[str]) -> list[str]:
    """The languages in which the text may say that nothing is known: by their signs, and those that have none."""
    with_signs = texts("no_answers.signs")
    signed = [each for each in with_signs if not words.isdisjoint(word_set("no_answers.signs", each))]
    return [*signed, *(language for language in languages if language not in with_signs)]


def _list_sentences(low: str) -> Iterator[str]:
    """The sentences that are more than a greeting, thanks or an apology."""
    for begin, end in find_sentences(low):
        sentence = low[begin:end]
        if len(sentence) <= _LONGEST_ADDRESS and (
            not _LETTER.search(sentence)
            or (_judge(_read_word(sentence, 0)).address and _compile(_address()).fullmatch(sentence))
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
    lead = _lead_in().match(word)
    return _FirstWord(
        _compile(_address()).fullmatch(word, partial=True) is not None,
        word in ("by", "i'm") or (lead is not None and lead.end() > 0),
        # A partial match keeps every expression that could begin so; most words keep none.
        tuple(each for each in _questions() if _compile_wide(each.expression).match(f"{word} ", partial=True)),
    )


@lru_cache(maxsize=4096)
def _list_doubts(word: str) -> tuple[str, ...]:
    doubts = expressions("no_answers.expressions", "en")
    return tuple(each for each in doubts if _compile_wide(each).match(word, partial=True))


def _read_word(sentence: str, begin: int) -> str:
    return sentence[begin : begin + _LONGEST_FIRST].partition(" ")[0]


def _find_beginning(sentence: str, begin: int) -> int:
    """Where a clause begins that stands at a place."""
    if _judge(_read_word(sentence, begin)).leads_in and (found := _lead_in().match(sentence, begin)):
        return found.end()
    return begin


def _count_asking(sentence: str, languages: list[str]) -> int:
    """How many of a sentence's characters ask."""
    if not _QUESTION_MARKS.isdisjoint(sentence[-4:]) or "՞" in sentence:
        return _count_marked(sentence)
    if len(sentence) > _LONGEST_UNMARKED:
        return 0
    exclaimed = sentence.endswith(("!", "！"))
    # Some languages put the question word anywhere in the sentence.
    if languages and not exclaimed and _asks_anywhere(sentence, languages):
        return len(sentence)
    first = _judge(_read_word(sentence, 0))
    if not (first.leads_in or first.questions or "," in sentence):
        return 0
    begin = _find_beginning(sentence, 0)
    if _begins_question(sentence, begin, exclaimed):
        return len(sentence) - begin
    # "Anna, can you call me": a name or a greeting stands before the question.
    addressed, comma, _ = sentence.partition(", ")
    begin = len(addressed) + len(comma)
    if (
        comma
        and (addressed.isalpha() or _compile(_address()).fullmatch(addressed))
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
        # In other languages a comma follows a subordinate clause, which begins with the same words.
        if found and (each.kind in ("request", "en") or "," not in sentence[found.end() :]):
            return True
    return False


def _asks_anywhere(sentence: str, languages: list[str]) -> bool:
    return any(
        _compile(any_expression("questions.anywhere", language)).search(sentence)
        and not _compile(any_expression("questions.not_asked", language)).search(sentence)
        for language in languages
    )


def _count_marked(sentence: str) -> int:
    """The length of a sentence's end that asks: from the clause that begins as a question, or the last clause if it
    only asks for assent."""
    size = len(sentence)
    clauses = [0, *(found.end() for found in _clause().finditer(sentence) if 0 < found.end() < size)]
    if len(clauses) == 1:
        return size
    for begin in clauses:
        start = _find_beginning(sentence, begin)
        if any(
            _compile(each.expression).match(sentence, start) for each in _judge(_read_word(sentence, start)).questions
        ):
            return size - begin
    last = clauses[-1]
    tag = _compile(any_expression("questions.tags")).match(sentence, last)
    # "It is late, isn't it?" states what stands before the last clause.
    if tag is not None and size - tag.end() <= 3:
        return size - last
    if size <= _LONGEST_WHOLE:
        return size
    return size - last


def _count_unknown(sentence: str, languages: list[str]) -> tuple[int, int]:
    """How many of a sentence's characters say that nothing is known, and how many neither that nor anything else."""
    spans: list[tuple[int, int]] = []
    clauses = [0, *(found.end() for found in _clause().finditer(sentence))]
    for language in languages:
        if language == "en":
            spans.extend(_match_clauses(sentence, clauses))
            continue
        for found in _compile(any_expression("no_answers.expressions", language)).finditer(sentence):
            # The denial belongs to its whole clause, though the expression may match in the middle.
            begin = max(clause for clause in clauses if clause <= found.start())
            spans.append((begin, found.end()))
    if not spans:
        return 0, 0
    unknown = rest = at = 0
    for begin, end in [*sorted(spans), (len(sentence), len(sentence))]:
        if begin > at:
            rest += sum(len(piece) for piece in _clause().split(sentence[at:begin]) if not _is_neutral(piece))
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
            found = _compile(each).match(sentence, start)
            if found is None:
                continue
            at = found.end()
            yield begin, at
            break


def _is_neutral(piece: str) -> bool:
    return not any(letter.isalnum() for letter in piece) or bool(
        _compile(any_expression("no_answers.neutral")).match(piece) or _compile(_address()).fullmatch(piece)
    )


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
        greets = first not in word_set("questions.accepting") and _compile(_greeting()).fullmatch(bare)
        if not greets and first not in word_set("questions.parting"):
            return False
        found = True
    return found
