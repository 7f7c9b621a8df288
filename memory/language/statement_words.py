"""The words of a statement, in the form in which two statements are compared: names, numbers with their signs, signs and
emoji as they are, ordinary words in one case, and short forms written out."""

import unicodedata
from dataclasses import dataclass
from functools import lru_cache

from layerlore.storage.core import linear_re

USER = "user"
FIRST_PERSON = "first person"
"""The kind of the word by which the user speaks of himself."""
OF = "'s"
"""The word that marks an owner."""


def word_set(words: str) -> frozenset[str]:
    """Words, parted by spaces, as a set."""
    return frozenset(words.split())


def _number(words: str, first: int) -> dict[str, str]:
    """Number words in their order, with their digits."""
    return {word: str(number) for number, word in enumerate(words.split(), first)}


NEGATIONS = word_set(
    "not no never without nicht kein keine keinen keiner nie ohne pas jamais sans non mai senza nunca sin "
    "não sem niet geen zonder не нет никогда без değil yok ليس لا لم 不 没 無 안"
)

# Words that change nothing. English articles only: in German, French and Spanish an article can show who does it, or
# which of two words is meant.
_FILLERS = frozenset({"a", "an", "the", "that", "also", "please", "currently", "actually"})
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
    **_number("zero one two three four five six seven eight nine ten eleven twelve", 0),
    **_number("zwei drei vier fünf sechs sieben acht neun zehn", 2),
    **_number("deux trois quatre cinq", 2),
    **_number("dos tres cuatro cinco seis siete ocho nueve diez", 2),
}
_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
_CLOCK = linear_re.compile(r"\b(1[0-2]|[1-9])(?::(\d\d))? ?([ap])\.?m\b\.?", linear_re.IGNORECASE)
_SHORT_FORMS = tuple(
    (linear_re.compile(pattern, linear_re.IGNORECASE), whole)
    for pattern, whole in (
        (r"[’ʼ]", "'"),
        (r"\bcan(?:no|')t\b", "can not"),
        (r"\bwon't\b", "will not"),
        (r"n't\b", " not"),
        (r"\b(he|she|it|that|there|here|where|who|what|how|this)'s\b", r"\1 is"),
        (r"'s(?= (?:an?|the|not|no)\b)", " is"),
        (r"(?<=\w)'re\b", " are"),
        (r"(?<=\w)'ve\b", " have"),
        (r"(?<=\w)'ll\b", " will"),
        (r"\bI'm\b", "I am"),
        (r"\bdo(?:es)? not\b", "not"),
        # "The user has a cat called Mila." and "The user's cat is called Mila."
        (r" ha(?:s|ve) (?:an? |the )?((?:\w+ ){1,2})(?:called|named)\b", r"'s \1is called"),
        (r"\bha(?:s|ve) an? ((?:\w+ )?\w+) allergy\b", r"is allergic to \1"),
        (rf"\b(\d{{1,2}})(?:st|nd|rd|th) (?:of )?({_MONTHS})\b", r"\1 \2"),
        (rf"\b({_MONTHS}) (\d{{1,2}})(?:st|nd|rd|th)?\b(?![:.]\d)", r"\2 \1"),
    )
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
    r"[\s,;(–—]+(?:and )?(?:not|no longer|instead of|rather than|nicht|statt|anstatt|et non|pas|y no|e non)(?:[^\w.;][^.;]*)?[.;)]*$",
    linear_re.IGNORECASE,
)
_THOUSANDS = linear_re.compile(r"[+\-]?\d{1,3}(,\d{3})+")
_QUOTES = "'\""
_DASHES = str.maketrans("−–", "--")
_SENTENCE_END = ".!?。！？:"


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


@lru_cache(maxsize=4096)
def read_statement(content: str) -> WordedStatement:
    """The words of a text, in their order."""
    text = unicodedata.normalize("NFC", " ".join(content.split()))
    for pattern, whole in _SHORT_FORMS:
        text = pattern.sub(whole, text)
    text = _CLOCK.sub(_write_hour, text)
    found: list[StatementWord] = []
    single = False
    for match in _WORD.finditer(text):
        if match.group() in _QUOTES and text.count(match.group(), 0, match.start()) % 2:
            continue  # It closes a quotation, and does not stand for feet or inches.
        word = _read_word(match.group(), match.lastgroup or "", leads=_begins_sentence(text, match.start()))
        following = text[match.end() + 1 :].partition(" ")[0].casefold().rstrip(".,;:!?")
        is_article = word.key in ("a", "an") and (word.leads or word.text in ("a", "an")) and following[:1].isalnum()
        is_filler = is_article or (word.key in _FILLERS and word.key not in ("a", "an"))
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
    if key in _EQUAL and (leads or text == text.lower()):
        same = _EQUAL[key]
        return StatementWord(same, same, "number" if same.isdecimal() else kind, leads)
    return StatementWord(text, key, kind, leads)


def _read_number(text: str) -> str:
    plain = "".join(str(unicodedata.decimal(each)) if each.isdecimal() else each for each in text).translate(_DASHES)
    if _THOUSANDS.fullmatch(plain):
        return plain.replace(",", "")
    return plain


def _write_hour(found: linear_re.Match) -> str:
    """A time of the twelve-hour clock on that of twenty-four: "3 pm" as "15:00"."""
    hour = int(found[1]) % 12 + (12 if found[3].lower() == "p" else 0)
    return f"{hour}:{found[2] or '00'}"


def _begins_sentence(text: str, at: int) -> bool:
    before = text[:at].rstrip(" \"'“„«(*-")
    return not before or (before[-1] in _SENTENCE_END and text[at - 1].isspace())


def _name_user(word: StatementWord, single: bool) -> list[StatementWord]:
    """The word, a first person as the user."""
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
