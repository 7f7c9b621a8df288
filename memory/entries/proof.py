"""The gate of evidence: whether the words that are quoted for an entry stand where they may.

A quotation must stand word for word in a message of a role that the label allows, have a content word, and be more than
a question. Nothing else refuses an entry. Its names and numbers that no quotation contains are marked as unproven.
"""

import unicodedata
from calendar import month_name
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from layerlore.memory.entries.entries import user_word
from layerlore.memory.entries.evidence import ROLES_OF, EvidenceSpan, EvidenceText, Label, find_places, rests_on_others
from layerlore.memory.language.search_words import find_names, find_query_words, find_stop_words, split_words
from layerlore.memory.language.speech_acts import find_question, find_sentences, fold_sentence
from layerlore.memory.language.word_lists import LANGUAGES, expressions, phrases, word_set
from layerlore.memory.text.quotation import blank_blocks
from layerlore.storage.core import linear_re

# Scripts that put no spaces between words have no tokens, but for names in Katakana.
_LETTER = r"(?![\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}])[\p{L}\p{M}\p{N}]"
_TOKEN = linear_re.compile(
    rf"(?:{_LETTER})+(?:[-._/:,'’](?:{_LETTER})+)*|\p{{Katakana}}[\p{{Katakana}}ー]+", engine="regex"
)
_APOSTROPHE = linear_re.compile(r"['’]")
_KATAKANA = linear_re.compile(r"\p{Katakana}[\p{Katakana}ー]+")
_SENTENCE_START = linear_re.compile(r"(?:^|(?<!\b\p{Lu}\p{L}{0,2})[.!?:…。！？]\s|\n)[^\p{L}\p{N}]*$", engine="regex")
_INNER_CAPITAL = linear_re.compile(r"\p{L}\p{Lu}|\p{Lu}\p{N}|\p{N}\p{L}*\p{Lu}")
_ORDINAL = linear_re.compile(r"(\p{N}+)(?:st|nd|rd|th|er|e|º|ª)")
_DATE = linear_re.compile(
    r"(?:\d{4}[-./](?P<last>\d{1,2})[-./](?P<iso_day>\d{1,2})|(?P<day>\d{1,2})[-./]\d{1,2}[-./]\d{2,4})"
)
_ISO_MONTH = linear_re.compile(r"\b\d{4}-(0[1-9]|1[0-2])-\d{2}\b")
_NO_WORD = linear_re.compile(r"[^\p{L}\p{N}]+")
_UNIT = linear_re.compile(r"(?<=\d)\p{L}+")
_DIGITS = linear_re.compile(r"\d+")
_BETWEEN_DIGITS = linear_re.compile(r"(?<=\d)[\s.,'’/-]+(?=\d)")
_CYRILLIC = linear_re.compile(r"\p{Cyrillic}")
_ALPHABETS = (linear_re.compile(r"\p{Latin}"), _CYRILLIC, linear_re.compile(r"\p{Greek}"))
_SHORTEST_STEM = 3
_LONGEST_ENDING = 3
_SHORTEST_PIECE = 3
_LONG_NUMBER = 7
_LOOKED_BACK = 40


def list_unproven(content: str, texts: Sequence[str]) -> list[str]:
    """The names and numbers of a content that none of the texts contains, each once."""
    quoted = _QuotedText("\n".join(texts))
    return [word for word in dict.fromkeys(_list_identifying(content)) if not quoted.contains(word)]


def _list_identifying(content: str) -> Iterator[str]:
    """The tokens that have a digit or a capital inside, consist of capitals, or begin with one within a sentence."""
    for found in _TOKEN.finditer(content):
        # In "l'Italie" and "Anna's" the longest part is the name.
        token = max(_APOSTROPHE.split(found[0]), key=len)
        if _is_identifying(token, _read_before(content, found.start())):
            yield token


def _read_before(content: str, at: int) -> str:
    """The characters before a place, enough to see whether a sentence begins there."""
    begin = max(0, at - _LOOKED_BACK)
    cut = "x" if begin else ""  # no beginning of a sentence
    return cut + content[begin:at]


@cache
def _german_article() -> linear_re.Pattern:
    """German writes every noun with a capital: after an article, or an article and an adjective, it is not a name."""
    return linear_re.compile("|".join(expressions("evidence.articles", "de")), linear_re.IGNORECASE)


def _is_identifying(token: str, before: str) -> bool:
    if any(map(str.isdigit, token)) or _KATAKANA.fullmatch(token):
        return True
    if len(token) == 1 or not token[0].isupper():
        return _INNER_CAPITAL.search(token) is not None
    if token.isupper() or _INNER_CAPITAL.search(token):
        return True
    return not _SENTENCE_START.search(before) and not _german_article().search(before)


class _QuotedText:
    """The content of quotations: their words, their numbers, and all their letters and digits in a row."""

    def __init__(self, text: str) -> None:
        # An entry may say "May" where the message has 2024-05-01.
        folded = _fold(_ISO_MONTH.sub(lambda date: f"{date[0]} {month_name[int(date[1])]}", text))
        words = [word for word in _NO_WORD.split(folded) if word]
        self._row = "".join(words)
        # The unit of "5MB" is a word, too.
        self._words = {*words, *_UNIT.findall(folded)}
        self._numbers = [_drop_zeros(each) for each in _DIGITS.findall(folded)]
        # 1,000 and 1 000 and 1000 are one number.
        joined = _BETWEEN_DIGITS.sub("", folded)
        self._joined = _DIGITS.findall(joined)
        self._scripts = [script for script in _ALPHABETS if script.search(text)]

    def contains(self, token: str) -> bool:
        folded = _fold(token)
        if any(map(str.isdigit, folded)):
            return self._contains_number(folded)
        if _KATAKANA.fullmatch(token):
            return folded in self._row
        if any(script.match(token) for script in _ALPHABETS) and not self._is_in_script(token):
            return True  # a name in other letters cannot be compared
        pieces = [piece for piece in _NO_WORD.split(folded) if piece]
        return all(any(is_form(piece, word) for word in self._words) for piece in pieces) or (
            len(pieces) > 1 and "".join(pieces) in self._row
        )

    def _has_in_a_row(self, numbers: list[str]) -> bool:
        """Whether the numbers follow each other: 3:45 is "3 hours and 45 minutes", and 3.3 is not in "3.2"."""
        starts = range(len(self._numbers) - len(numbers) + 1)
        return any(self._numbers[at : at + len(numbers)] == numbers for at in starts)

    def _is_in_script(self, token: str) -> bool:
        return any(script.match(token) for script in self._scripts)

    def _contains_number(self, token: str) -> bool:
        date = _DATE.fullmatch(token)
        if date:
            return _drop_zeros(date["iso_day"] or date["day"]) in self._numbers
        ordinal = _ORDINAL.fullmatch(token)
        if ordinal:
            bare = ordinal[1]
        else:
            bare = token
        groups = _DIGITS.findall(bare)
        if any(map(str.isalpha, bare)):
            return _NO_WORD.sub("", bare) in self._row
        number = "".join(groups)
        if self._has_in_a_row([_drop_zeros(group) for group in groups]) or number in self._joined:
            return True
        # A telephone number is written with and without spaces.
        long = [row for row in self._joined if len(row) >= _LONG_NUMBER]
        return len(number) >= _SHORTEST_PIECE and any(number in row for row in long)


def _drop_zeros(digits: str) -> str:
    """A number as it is compared: 07 is 7, however long it is."""
    return digits.lstrip("0") or "0"


def _fold(text: str) -> str:
    """A text in lower case, without accents, with the digits of every script as 0 to 9."""
    # The dotless i of Turkish has no decomposition.
    decomposed = unicodedata.normalize("NFKD", text.casefold().replace("ı", "i"))
    plain = (character for character in decomposed if not unicodedata.combining(character))
    return "".join(str(unicodedata.digit(each)) if each.isdigit() else each for each in plain)


def is_form(name: str, word: str) -> bool:
    """Whether two folded words are one, but for an ending of at most three letters."""
    if name == word:
        return True
    short, long = sorted((name, word), key=len)
    if len(short) < _SHORTEST_STEM or len(long) - len(short) > _LONGEST_ENDING:
        return False
    # Cyrillic names change their last letter: Казань, в Казани.
    if _CYRILLIC.match(short) and len(short) > _SHORTEST_STEM:
        stem = short[:-1]
    else:
        stem = short
    return long.startswith(stem)


ACCEPTED: Label = "user_accepted_assistant_proposal"


@cache
def _wish() -> linear_re.Pattern:
    """A wish in the shape of a question: it says what the user wants from now on."""
    return linear_re.compile("|".join(expressions("evidence.wishes")))


@cache
def _reason() -> linear_re.Pattern:
    """After such a word a question gives its reason, which is stated."""
    spaced: list[str] = []
    unspaced: list[str] = []
    for language in LANGUAGES:
        listed = unspaced if language in ("zh", "ja") else spaced
        listed += phrases("evidence.reasons", language)
    return linear_re.compile(rf"\b(?:{'|'.join(spaced)})\b|{'|'.join(unspaced)}")


@dataclass(frozen=True, slots=True)
class EvidenceRefused:
    """Why a quotation is not accepted. ``reason`` says what would be, without a word of the entry or the message; ``at``:
    the number of the quotation."""

    rule: Literal["found", "content", "asks"]
    reason: str
    at: int = 0


@dataclass(frozen=True, slots=True)
class Proof:
    """The places of an entry's quotations, each once; and its names and numbers that none of them contains."""

    spans: tuple[EvidenceSpan, ...]
    unproven: tuple[str, ...] = ()


def list_quotations(evidence: str | Sequence[str]) -> list[str]:
    """The quotations that were passed, without empty ones."""
    given = [evidence] if isinstance(evidence, str) else evidence
    return [quote for quote in given if quote.strip()]


def prove(
    content: str, quotations: Sequence[str], label: Label, said: Sequence[EvidenceText]
) -> Proof | EvidenceRefused:
    """Find where each quotation stands; else why one of them is refused."""
    if not quotations:
        return _find_nothing(label)
    spans: list[EvidenceSpan] = []
    texts: list[str] = []
    for at, quotation in enumerate(quotations):
        found = _find_accepted(quotation, label, said)
        if isinstance(found, EvidenceRefused):
            return replace(found, at=at)
        message, span = found
        if span not in spans:
            spans.append(span)
        texts.append(message.text[span.starts : span.ends])
        if label == ACCEPTED:
            # The user's yes is about what the assistant proposed.
            texts.append(message.before)
    return Proof(tuple(spans), tuple(list_unproven(content, texts)))


def _find_accepted(
    quotation: str, label: Label, said: Sequence[EvidenceText]
) -> tuple[EvidenceText, EvidenceSpan] | EvidenceRefused:
    """The first place where the quotation stands and is accepted; else why the last one is not."""
    refused = _find_nothing(label)
    for message, span in find_places(quotation, label, said):
        quoted = message.text[span.starts : span.ends]
        # A bare "yes" has no content word, but accepts a proposal.
        is_answer = label == ACCEPTED and quoted.strip() == message.text.strip()
        if not is_answer and not has_content(quoted):
            refused = EvidenceRefused("content", "has only words such as 'the' or 'it': quote the words that say it")
        elif only_asks(message.text, span.starts, span.ends):
            refused = EvidenceRefused(
                "asks", "only asks, which states nothing: quote where it is stated, or the answer"
            )
        else:
            return message, span
    return refused


def _find_nothing(label: Label) -> EvidenceRefused:
    whose = " or ".join(ROLES_OF[label])
    return EvidenceRefused("found", f"stands word for word in none of the {whose} messages: quote one of them exactly")


def has_content(text: str) -> bool:
    """Whether a text has a word that is not a function word of its language."""
    words = split_words(text)
    names = find_names(text)
    function_words = find_stop_words([word for word in words if word not in names]) - names
    return any(word not in function_words for word in words)


def only_asks(text: str, starts: int, ends: int) -> bool:
    """Whether all that stands from ``starts`` to ``ends`` of a text belongs to questions."""
    asks = False
    for begin, end in find_sentences(text):
        if end <= starts or ends <= begin:
            continue
        asks_from = _find_question(text[begin:end])
        if asks_from < 0:
            stated_to = end
        else:
            stated_to = begin + asks_from
        if has_content(text[max(begin, starts) : max(starts, min(stated_to, ends))]):
            return False
        if asks_from >= 0:
            reason = _reason().search(fold_sentence(text[begin:end]))
        else:
            reason = None
        # The quotation may begin with the very word that introduces the reason.
        if reason and begin + reason.start() <= max(begin, starts) + len("because "):
            return False
        asks = asks or asks_from >= 0
    return asks


def _find_question(sentence: str) -> int:
    """The place in a sentence at which its question begins; -1 if it asks nothing, or is a wish in the shape of a question."""
    if _wish().search(fold_sentence(sentence)):
        return -1
    # After a full stop only a request asks, as after an exclamation mark: "Did that yesterday." states.
    stated = sentence.endswith(".")
    return find_question(f"{sentence[:-1]}!" if stated else sentence)


def link_replies(said: Sequence[EvidenceText]) -> list[EvidenceText]:
    """The texts of a conversation in order, each of a user's with the assistant's that it answers."""
    found: list[EvidenceText] = []
    for message in sorted(said, key=lambda each: each.seq):
        if found and found[-1].role == "assistant" and message.role == "user":
            answered = found[-1].text
        else:
            answered = ""
        found.append(replace(message, before=answered))
    return found


def is_retold(content: str, label: Label, said: Sequence[EvidenceText]) -> bool:
    """Whether an entry that is attributed to the user says what others said: it is then trusted as theirs."""
    if label != "user_assertion":
        return False
    own = [each.text for each in said if each.role == "user"]
    return rests_on_others(content, own, [each.text for each in said if each.role != "user"])


LEAST_SHARED = 0.5
"""At least half of the entry's content words stand in the sentence."""
_FEWEST_SHARED = 2
_MOST_WORDS = 200
_MOST_CHARS = 4_000
_PREFIX = 3
_LABELS: Sequence[tuple[str, Label]] = (("user", "user_assertion"), ("assistant", "verified_assistant_finding"))


@cache
def _denials() -> frozenset[str]:
    """A sentence with one of these, folded, does not say what an entry without them says."""
    return frozenset(split_words(" ".join(word_set("statements.denials"))))


def find_saying(content: str, said: Sequence[EvidenceText]) -> tuple[str, Label] | None:
    """The sentence that shares most content words with an entry, and whose word it is: a user's before an assistant's,
    and of equal ones the newest. None if no sentence has half of the words and all names and numbers."""
    # A user does not say "the user".
    words = frozenset(word for word in find_query_words(content, most=_MOST_WORDS) if not user_word().fullmatch(word))
    denies = not _denials().isdisjoint(split_words(content))
    for role, label in _LABELS:
        best, most = "", 0.0
        for sentence in _list_sentences(role, said):
            sentence_words = split_words(sentence)
            share = _measure_share(words, sentence_words)
            # The share costs least, so the slower checks see few sentences.
            if share <= most or share < LEAST_SHARED:
                continue
            says_it = denies == (not _denials().isdisjoint(sentence_words))
            if says_it and not list_unproven(content, [sentence]) and not only_asks(sentence, 0, len(sentence)):
                best, most = sentence, share
        if best:
            return best, label
    return None


def _list_sentences(role: str, said: Sequence[EvidenceText]) -> Iterator[str]:
    """The sentences of a role, the newest message's first."""
    for message in sorted(said, key=lambda each: -each.seq):
        if message.role != role:
            continue
        text = blank_blocks(message.text)[:_MOST_CHARS]
        for begin, end in find_sentences(text):
            yield text[begin:end]


def _measure_share(words: frozenset[str], sentence_words: Sequence[str]) -> float:
    """The share of the words that a sentence has, in any form; 0 if there are too few words, or none."""
    if not words:
        return 0.0
    there = set(sentence_words)
    shared = words & there
    # Forms of a word begin alike: only those are compared.
    open_words: dict[str, list[str]] = {}
    for word in words - shared:
        open_words.setdefault(word[:_PREFIX], []).append(word)
    for other in there:
        alike = open_words.get(other[:_PREFIX], [])
        shared |= {word for word in alike if is_form(word, other)}
    if len(shared) >= min(_FEWEST_SHARED, len(words)):
        return len(shared) / len(words)
    return 0.0
