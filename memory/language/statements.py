"""Statements: when two say the same, and when one says otherwise than another.

The words of two statements are compared in one form: names, numbers with their signs, signs and emoji as they are,
ordinary words in one case, and short forms written out.

Two statements say the same if they have the same words in the same order. A similarity of vectors cannot distinguish
"before" from "after", or 5 from -5. So each name, number, sign, negation and word must be in both, in an order that
means the same. In doubt they are two.

A statement contradicts another if it gives another value for the same thing: the same words, but for the value at their
end. A mark on a true entry does harm, and a missing one does little, since both entries are shown anyway. So the subject
and the predicate must be the same words, and the value must be a name or a number.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache

from layerlore.memory.language.phrases import slight_words
from layerlore.memory.language.search_words import month_names
from layerlore.memory.language.word_lists import ordered_words, word_set
from layerlore.storage.core import linear_re

USER = "user"
FIRST_PERSON = "first person"
"""The kind of the word by which the user speaks of himself."""
OF = "'s"
"""The word that marks an owner."""


# Before these words an article changes the meaning: "few friends" and "a few friends".
_QUANTITIES = frozenset({"few", "little", "lot", "bit", "couple"})
_EQUAL = {
    "named": "called",
    "telephone": "phone",
    "resides": "lives",
    "reside": "live",
    "%": "percent",
    "&": "and",
    "am": "is",
}
# The first number of each language's list. Those left out are also articles, or words of another meaning.
_FIRST_NUMBERS = {"en": 0, "de": 2, "fr": 2, "es": 2}
_CLOCK = linear_re.compile(r"\b(1[0-2]|[1-9])(?::(\d\d))? ?([ap])\.?m\b\.?", linear_re.IGNORECASE)
# Each has a text without which the pattern matches nothing, since most sentences have none of them.
_SHORT_FORMS = (
    ("’", "’", "'"),
    ("ʼ", "ʼ", "'"),
    ("can", r"\bcan(?:no|')t\b", "can not"),
    ("'", r"\bwon't\b", "will not"),
    ("'", r"n't\b", " not"),
    ("'", r"\b(he|she|it|that|there|here|where|who|what|how|this)'s\b", r"\1 is"),
    ("'", r"'s(?= (?:an?|the|not|no)\b)", " is"),
    ("'", r"(?<=\w)'re\b", " are"),
    ("'", r"(?<=\w)'ve\b", " have"),
    ("'", r"(?<=\w)'ll\b", " will"),
    ("'", r"\bI'm\b", "I am"),
    ("do", r"\bdo(?:es)? not\b", "not"),
    # "The user has a cat called Mila." and "The user's cat is called Mila."
    ("ed", r" ha(?:s|ve) (?:an? |the )?((?:\w+ ){1,2})(?:called|named)\b", r"'s \1is called"),
    ("allergy", r"\bha(?:s|ve) an? ((?:\w+ )?\w+) allergy\b", r"is allergic to \1"),
)
_WORD = linear_re.compile(
    r"""(?V1)
    (?P<number>(?:(?<![\p{L}\p{N}])[+\-−])?\p{Nd}+(?:[.,:/\-–]\p{Nd}+)*)
  | (?P<sign>[\p{Extended_Pictographic}\p{Regional_Indicator}--[\p{Nd}#*©®™]][\p{M}\p{Cf}\p{Emoji_Modifier}]*)
  | (?P<letter>[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}])
  | (?P<word>(?:'s\b|[\p{L}\p{M}_][\p{L}\p{M}\p{N}_]*)(?:[+\-#*−]+(?![\p{L}\p{N}\p{M}]))?)
  | (?P<inner>(?<=\S)[.:!;,](?=[\p{L}\p{N}_=])|(?<!\S)[.\-]+(?=\S)|(?<=\s)\.+(?!\S)|(?<=\w)[(\[{](?=\S)|(?<=\p{N})['"](?![\p{L}\p{N}]))
  | (?P<other>[[\p{S}\p{P}]--[.,;:"'()\[\]{}«»“”‘’„‚‹›…–—\-¿¡。，、；：（）「」『』《》·•،؛۔।]])
    """,
    linear_re.VERBOSE,
    engine="regex",
)
# The words that a correction adds about the old value: "(not the 29th)", "instead of Docker".
_ASIDE = linear_re.compile(
    r"[\s,;(–—]+(?:and )?(?:not|no longer|instead of|rather than|nicht|statt|anstatt|et non|pas|y no|e non)"
    # The full stop of a day's number ends nothing: "statt am 1. Dezember".
    r"((?:[^\w.;](?:[^.;]|\d\.\s)*)?)[.;)]*$",
    linear_re.IGNORECASE,
)
_THOUSANDS = linear_re.compile(r"[+\-]?\d{1,3}(,\d{3})+")
_DASHES = str.maketrans("−–", "--")


@dataclass(frozen=True, slots=True)
class StatementWord:
    """One word. ``text`` as it is written, ``key`` in one case; ``leads``: it begins a sentence, so that its first letter
    says nothing; ``single``: "a" or "an" stands before it."""

    text: str
    key: str
    kind: str
    leads: bool
    single: bool = False

    @property
    def is_number(self) -> bool:
        return self.kind == "number"

    @property
    def is_name(self) -> bool:
        """Whether it has a capital in a place where an ordinary word has none."""
        return self.kind == "word" and not self.leads and self.text != self.text.lower()

    @property
    def is_value(self) -> bool:
        """Whether it is a name or a number, and no ordinary word."""
        return self.is_number or self.kind in ("letter", "sign") or self.text != self.text.lower()


@dataclass(frozen=True, slots=True)
class WordedStatement:
    """The words of a text. ``is_lower``: it has no capital, so that its writer may write none."""

    words: tuple[StatementWord, ...]
    is_lower: bool


@cache
def _equal_words() -> dict[str, str]:
    """Words that mean the same as another one, with that one; numbers in words, with their digits."""
    return {**_EQUAL, **number_words()}


@cache
def number_words() -> dict[str, str]:
    """Numbers in words, with their digits."""
    found: dict[str, str] = {}
    for language, first in _FIRST_NUMBERS.items():
        for number, word in enumerate(ordered_words("statements.numbers", language), first):
            found[word] = str(number)
    return found


@cache
def _short_forms() -> list[tuple[str, linear_re.Pattern, str]]:
    """Short forms, and how they are written out; last, a day before its month."""
    months = "|".join(month_names())
    days = (
        (" ", rf"\b(\d{{1,2}})(?:st|nd|rd|th) (?:of )?({months})\b", r"\1 \2"),
        (" ", rf"\b({months}) (\d{{1,2}})(?:st|nd|rd|th)?\b(?![:.]\d)", r"\2 \1"),
    )
    forms = (*_SHORT_FORMS, *days)
    return [(sign, linear_re.compile(form, linear_re.IGNORECASE), whole) for sign, form, whole in forms]


@lru_cache(maxsize=4096)
def read_statement(content: str) -> WordedStatement:
    """The words of a text, in their order."""
    text = unicodedata.normalize("NFC", " ".join(content.split()))
    for sign, pattern, whole in _short_forms():
        if sign in text.lower():
            text = pattern.sub(whole, text)
    text = write_hours(text)
    found: list[StatementWord] = []
    single = False
    for match in _WORD.finditer(text):
        if match.group() in "'\"" and text.count(match.group(), 0, match.start()) % 2:
            continue  # It closes a quotation, and does not stand for feet or inches.
        word = _read_word(match.group(), match.lastgroup or "", leads=_begins_sentence(text, match.start()))
        # "A few friends" is not "few friends", so an article depends on the word behind it.
        following = text[match.end() + 1 :].partition(" ")[0].casefold().rstrip(".,;:!?")
        is_article = word.key in ("a", "an") and (word.leads or word.text in ("a", "an")) and following[:1].isalnum()
        is_filler = is_article or (word.key in word_set("statements.fillers") and word.key not in ("a", "an"))
        if is_filler and following not in _QUANTITIES:
            single = is_article
            continue
        found += _name_user(word, single)
        single = False
    return WordedStatement(tuple(found), text == text.lower())


def without_aside(content: str) -> str:
    """A correction without what it says of the old value at its end."""
    return _ASIDE.sub("", content.strip()) or content


def _read_word(text: str, kind: str, *, leads: bool) -> StatementWord:
    if kind == "number":
        number = _read_number(text)
        return StatementWord(number, number, kind, leads=False)
    if text[0] == "−" or text.endswith("−"):
        text = text.replace("−", "-")
    key = text.casefold()
    same = _equal_words().get(key)
    # A capital within a sentence may be a name, which has no equal words.
    if same is not None and (leads or text == text.lower()):
        return StatementWord(same, same, "number" if same.isdecimal() else kind, leads)
    return StatementWord(text, key, kind, leads)


def _read_number(text: str) -> str:
    plain = "".join(str(unicodedata.decimal(each)) if each.isdecimal() else each for each in text).translate(_DASHES)
    if _THOUSANDS.fullmatch(plain):
        return plain.replace(",", "")
    return plain


def write_hours(text: str) -> str:
    """The text with its times of the twelve-hour clock on that of twenty-four: "3 pm" as "15:00"."""
    return _CLOCK.sub(_write_hour, text)


def _write_hour(found: linear_re.Match) -> str:
    hour = int(found[1]) % 12 + (12 if found[3].lower() == "p" else 0)
    return f"{hour}:{found[2] or '00'}"


def _begins_sentence(text: str, at: int) -> bool:
    before = text[:at].rstrip(" \"'“„«(*-")
    return not before or (before[-1] in ".!?。！？:" and text[at - 1].isspace())


def _name_user(word: StatementWord, single: bool) -> list[StatementWord]:
    """The word, a first person as the user."""
    # "My" is read as "the user's", so that both persons of a note are compared.
    user = StatementWord(USER, USER, "word", word.leads)
    if word.text in {"I", "me"}:
        return [StatementWord(USER, USER, FIRST_PERSON, word.leads)]
    if word.key == "my":
        return [user, StatementWord(OF, OF, "word", False)]
    if word.key == USER:
        return [user]
    return [StatementWord(word.text, word.key, word.kind, word.leads, single)]


def is_same_word(one: StatementWord, other: StatementWord, *, any_case: bool = False) -> bool:
    """Whether two words are one. Case counts, but for the first letter where a sentence begins; ``any_case``: or anywhere."""
    if one.text == other.text:
        return True
    # "userId" and "UserId" are two identifiers, and so are "x" and "X".
    rest = one.text[1:]
    if one.key != other.key or not rest or rest != other.text[1:] or rest != rest.lower():
        return False
    return any_case or one.leads or other.leads


Words = Sequence[StatementWord]

_MOST_REARRANGED = 40
"""In words. The cost grows with their third power, and a longer text is not a single statement."""
_VERB_FORMS = {"has": "have", "goes": "go", "does": "do", "is": "is"}


def says_same(one: str, other: str) -> bool:
    """Whether two entries say the same."""
    return is_same_statement(read_statement(one), read_statement(other))


def is_same_statement(first: WordedStatement, second: WordedStatement) -> bool:
    """Whether two statements say the same."""
    any_case = first.is_lower or second.is_lower
    words, others = _drop_user(first, second)
    words, others = _fold_progressive(words, others), _fold_progressive(others, words)
    return bool(words) and (_is_same(words, others, any_case) or _is_rearranged(words, others, any_case))


def _drop_user(first: WordedStatement, second: WordedStatement) -> tuple[Words, Words]:
    """The words of both; a note may leave out that it is about the user: "Works at Bosch"."""
    words, others = first.words, second.words
    if _leaves_out_user(words, others):
        return _without_person(words), _without_person(others[1:])
    if _leaves_out_user(others, words):
        return _without_person(words[1:]), _without_person(others)
    return words, others


def _fold_progressive(words: Words, others: Words) -> Words:
    """The words, with "is working" as "works" if the others have it so."""
    if len(words) != len(others) + 1:
        return words
    for at, (word, verb) in enumerate(zip(words[1:], others, strict=True)):
        if words[at].key == "is" and word.key.endswith("ing") and verb.key != "is":
            stem, simple = word.key.removesuffix("ing"), leave_person(verb.key)
            if simple in (stem, f"{stem}e", stem[:-1]):
                return [*words[:at], verb, *words[at + 2 :]]
            return words
    return words


def _without_person(words: Words) -> Words:
    verb = leave_person(words[0].key)
    return [replace(words[0], text=verb, key=verb), *words[1:]]


def _leaves_out_user(words: Words, others: Words) -> bool:
    if len(others) != len(words) + 1 or not words or others[0].key != USER:
        return False
    return words[0].leads and others[1].key != OF and words[0].key.endswith("s") and words[0].kind == "word"


def _is_same(words: Words, others: Words, any_case: bool) -> bool:
    """Whether the words are the same in the same order; the verb may have another person: "I like", "the user likes"."""
    if len(words) != len(others):
        return False
    unlike = [
        at for at, pair in enumerate(zip(words, others, strict=True)) if not is_same_word(*pair, any_case=any_case)
    ]
    if not unlike:
        return True
    # The verb is the second word, behind the user; any other difference makes another statement.
    return unlike == [1] and is_other_person(words, others)


def is_other_person(words: Words, others: Words) -> bool:
    """Whether the verbs of two statements about the user are one, in the first and in the third person."""
    subjects, verbs = (words[0], others[0]), (words[1], others[1])
    if [each.key for each in subjects] != [USER, USER] or subjects[0].kind == subjects[1].kind:
        return False
    return leave_person(verbs[0].key) == leave_person(verbs[1].key)


def leave_person(verb: str) -> str:
    """The verb without the ending of the third person."""
    if verb in _VERB_FORMS:
        return _VERB_FORMS[verb]
    if verb.endswith("ies") and len(verb) > 4:
        return verb[:-3] + "y"
    if verb.endswith(("ches", "shes", "sses", "xes")):
        return verb[:-2]
    if verb.endswith("s") and not verb.endswith("ss") and len(verb) > 3:
        return verb[:-1]
    return verb


def _is_rearranged(words: Words, others: Words, any_case: bool) -> bool:
    """Whether two parts of the one have changed places in the other: "at Bosch as an engineer"."""
    if len(words) > _MOST_REARRANGED or len(words) != len(others):
        return False
    # Cheap to compare, and it saves the cubic search for most pairs.
    if sorted(each.key for each in words) != sorted(each.key for each in others):
        return False
    starts = 0
    while starts < len(words) and is_same_word(words[starts], others[starts], any_case=any_case):
        starts += 1
    for ends in range(starts + 2, len(words) + 1):
        if not _is_same(words[ends:], others[ends:], any_case):
            continue
        for cut in range(starts + 1, ends):
            moved, passed = words[starts:cut], words[cut:ends]
            swapped = [*passed, *moved]
            fits = _can_move(moved, passed, whole=starts == 0 and ends == len(words))
            if fits and all(
                is_same_word(*pair, any_case=any_case) for pair in zip(swapped, others[starts:ends], strict=True)
            ):
                return True
    return False


def _can_move(moved: Words, passed: Words, *, whole: bool) -> bool:
    """Whether two parts mean the same in either order. ``whole``: they are all of the sentence, and one is its subject."""
    parts = [moved, passed]
    opened = [part for part in parts if part[0].key in word_set("statements.openers")]
    if any(
        each.key in word_set("statements.joints") or each.key in word_set("statements.negations")
        for part in opened
        for each in part
    ):
        return False
    # Two parts with the same preposition may not mean the same in the other order.
    if len(opened) == len(parts):
        return moved[0].key != passed[0].key
    return whole and len(opened) == 1


_MOST_WORDS = 4
"""The most words of a value: "28 September 2026" has three."""


@lru_cache(maxsize=1024)
def contradicts(new: str, known: str) -> bool:
    """Whether two entries cannot both be true: another name or number for the same thing, or its denial."""
    one, other = read_statement(new), read_statement(known)
    if _is_denial(one, other):
        return True
    found = _split(one, other)
    if found is None:
        return False
    frame, values = found
    return values[0][0].is_value and values[1][0].is_value and _has_one_value(frame, values[0][0])


def rejects_value(new: str, known: str) -> bool:
    """Whether a correction rejects the value of an older sentence, and gives one that is not there: "8 December, not 1
    December"."""
    aside = _ASIDE.search(new.strip())
    if aside is None:
        return False
    old = list(read_statement(aside[1]).words)
    while old and old[0].key in word_set("statements.prepositions"):
        old.pop(0)
    if not 0 < len(old) <= _MOST_WORDS:
        return False
    said = read_statement(without_aside(new)).words
    words = read_statement(known).words
    if _stands_in(said[-len(old) :], words):
        return False
    # "No, 8 December, not 1 December" leaves its subject out. If it has one, the other must be about that, too.
    subject, other = said[: -len(old)], _find_content(words)
    persons = {word.key for word in subject if word.is_name or word.key == USER}
    about = _find_content(subject)
    if about and (about.isdisjoint(other) or not persons <= other):
        return False
    # A name or an ordinary word may be what a sentence is about, so it must be its end: "Pays by card."
    if old[0].is_number:
        return _stands_in(old, words)
    return _stands_in(old, words[-len(old) :])


def _find_content(words: Words) -> set[str]:
    """The words that say what a statement is about, without the endings of verbs."""
    return {leave_person(word.key) for word in words if word.kind == "word"}.difference(slight_words())


def _stands_in(part: Words, words: Words) -> bool:
    keys, sought = [word.key for word in words], [word.key for word in part]
    return any(keys[at : at + len(sought)] == sought for at in range(len(keys) - len(sought) + 1))


def is_other_value(new: str, known: str) -> bool:
    """Whether a correction gives another value for what an entry says: the same words, and another value at their end."""
    one, other = read_statement(without_aside(new)), read_statement(known)
    found = _split(_without_now(one), _without_now(other))
    if found is None:
        return False
    frame, (value, was) = found
    # A number cannot correct a name, so the two say different things.
    if value[0].kind != was[0].kind:
        return False
    if not _is_plain(value, was):
        return False
    leads_to_value = frame[-1].key in word_set("statements.prepositions") or (
        frame[-1].key in word_set("statements.being") and value[0].is_value
    )
    return leads_to_value or _has_one_value(frame, value[0])


def _is_plain(value: Words, was: Words) -> bool:
    """Whether both values are one word, or names and numbers alone: "Mapbox expires in March" is not a value of "the
    key of"."""
    # "12 Euro" and "15 Euro", "28 September 2026" and "29 September 2026".
    is_amount = value[0].is_number and was[0].is_number
    tail = 0
    while is_amount and tail < min(len(value), len(was)) - 1 and value[-1 - tail].key == was[-1 - tail].key:
        tail += 1
    own = (value[: len(value) - tail], was[: len(was) - tail])
    return all(len(words) == 1 or all(word.is_value for word in words) for words in own)


def _without_now(statement: WordedStatement) -> WordedStatement:
    words = tuple(word for word in statement.words if word.key not in word_set("statements.now"))
    return WordedStatement(words, statement.is_lower)


def _split(one: WordedStatement, other: WordedStatement) -> tuple[Words, tuple[Words, Words]] | None:
    """The words that two statements begin with, and the value that each ends with; None unless both have a subject and a
    predicate in common, and a value of their own."""
    any_case = one.is_lower or other.is_lower
    shared = 0
    for pair in zip(one.words, other.words, strict=False):
        # "I live in Graz." and "The user lives in Linz."
        if not is_same_word(*pair, any_case=any_case) and not (shared == 1 and is_other_person(one.words, other.words)):
            break
        shared += 1
    # A title or the first of two names belongs to the value: "Dr. Vogt", "TP 537".
    both_go_on = min(len(one.words), len(other.words)) > shared
    while both_go_on and shared > 2 and one.words[shared - 1].is_name:
        shared -= 1
    values = one.words[shared:], other.words[shared:]
    if shared < 2 or not all(0 < len(value) <= _MOST_WORDS for value in values):
        return None
    if any(word.key in word_set("statements.negations") or word.key == "?" for value in values for word in value):
        return None
    # A denial with another value says nothing against the first one.
    if any(word.key in word_set("statements.negations") for word in one.words[:shared]):
        return None
    return one.words[:shared], values


def _has_one_value(frame: Words, value: StatementWord) -> bool:
    """Whether the words before a value name something that has one value at a time."""
    words = list(frame)
    if len(words) > 2 and words[-1].key in word_set("statements.prepositions"):
        words.pop()
        if words[-1].key in word_set("statements.single") or words[-1].key in word_set("statements.being"):
            return True
        # "Ticket 4711 is assigned to Ana." A person can be assigned to many things.
        return (
            len(words) > 3
            and words[-2].key in word_set("statements.being")
            and not value.is_number
            and not _is_person(words[:-2])
        )
    if words[-1].key in word_set("statements.single"):
        return True
    # A person can be a nurse and a mother: "is" gives one value to a thing, or a number to anyone.
    return words[-1].key in word_set("statements.being") and (value.is_number or not _is_person(words[:-1]))


def _is_person(subject: Words) -> bool:
    return len(subject) == 1 and (subject[0].key == USER or not subject[0].text.islower())


def _is_denial(one: WordedStatement, other: WordedStatement) -> bool:
    """Whether one statement is the other with a "not"."""
    longer, shorter = (one, other) if len(one.words) > len(other.words) else (other, one)
    at = [place for place, word in enumerate(longer.words) if word.key in word_set("statements.negations")]
    if (
        len(at) != 1
        or any(word.key in word_set("statements.negations") for word in shorter.words)
        or len(shorter.words) < 2
    ):
        return False
    rest = [*longer.words[: at[0]], *longer.words[at[0] + 1 :]]
    # "does not reach" and "reaches"
    if len(rest) == len(shorter.words) and at[0] < len(rest):
        verb = shorter.words[at[0]]
        rest[at[0]] = verb if leave_person(verb.key) == rest[at[0]].key else rest[at[0]]
    return is_same_statement(WordedStatement(tuple(rest), longer.is_lower), shorter)
