"""Evidence: the verbatim span of a message that an entry rests on.

A model's quotation is found in exactly the text that the model was given (``memory.said``), where case, quotation
marks, dashes and white space may differ. What is kept is where it stands, never the model's wording of it.
"""

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from layerlore.memory.search_text import query_words, words
from layerlore.memory.unseen import UNSEEN
from layerlore.storage.records import Role

Label = Literal["user_assertion", "user_accepted_assistant_proposal", "verified_assistant_finding", "caller"]
"""What an entry says of its source (seed 004); ``caller``: evidence that a caller brought without a label."""

LABELS: tuple[Label, ...] = get_args(Label)

ROLES_OF: dict[Label, tuple[Role, ...]] = {
    "user_assertion": ("user",),
    "user_accepted_assistant_proposal": ("user",),
    "verified_assistant_finding": ("assistant", "user"),
    "caller": ("assistant", "user"),
}
"""Whose words may be evidence for each label. Where both may, the assistant's count first, which are trusted less."""

FOREIGN = 3
# Words of a text that are looked at.
_TELLING = 200

_QUOTES = "\"'“”„‟‘’‚‛«»‹›`´′″「」『』"
_DASHES = "-‐‑‒–—―−﹘﹣-"
# The last are what a model reads a "(" for, where they open something.
_FOLDED = {**dict.fromkeys(_QUOTES, "'"), **dict.fromkeys(_DASHES, "-"), "<": "(", "[": "("}


@dataclass(frozen=True, slots=True)
class Said:
    """A message's text as a model was given it. ``role``: whose word it is (``trust.speaks``)."""

    seq: int
    revision: int
    role: Role
    text: str


@dataclass(frozen=True, slots=True)
class Span:
    """Where evidence stands: ``starts`` to ``ends`` (exclusive) of a message's text, in characters."""

    seq: int
    revision: int
    role: Role
    starts: int
    ends: int


def find(evidence: str, label: Label, said: Sequence[Said]) -> Span | None:
    """The newest message, of a role that the label allows, in which the evidence stands word for word, and where."""
    sought = _folded(_unwrapped(evidence))[0].strip(" ")
    signs = [character for character in sought if character.isalnum()]
    if not signs or (len(signs) == 1 and _in_word(signs[0])):
        return None
    for role in ROLES_OF[label]:
        for message in sorted(said, key=lambda message: -message.seq):
            if message.role == role and (place := _place(sought, message.text)):
                return Span(message.seq, message.revision, role, *place)
    return None


def told_by_others(text: str, own: Iterable[str], others: Iterable[str]) -> bool:
    """Whether a text says what others said, rather than what was said by whom it is put down to: a quotation may stand
    word for word and prove nothing of it. Of the words that tell something at least FOREIGN must be the others' alone,
    and more than twice as many as are his own: who is merely retold in other words shares more."""
    telling = set(query_words(text, most=_TELLING))
    his = telling.intersection(words("\n".join(own)))
    theirs = telling.intersection(words("\n".join(others))) - his
    return len(theirs) >= FOREIGN and len(theirs) > 2 * len(his)


def _place(sought: str, text: str) -> tuple[int, int] | None:
    folded, origins = _folded(text)
    at = folded.find(sought)
    while at >= 0:
        end = at + len(sought)
        if not _cuts(folded, at) and not _cuts(folded, end):
            return origins[at], origins[end - 1] + 1
        at = folded.find(sought, at + 1)
    return None


def _cuts(text: str, at: int) -> bool:
    """Whether a word, or a letter and its accent, stands on both sides: *not* in *nothing* is not what was said."""
    if not 0 < at < len(text):
        return False
    if unicodedata.combining(text[at]):
        return text[at - 1].isalnum()
    return _in_word(text[at - 1]) and _in_word(text[at])


def _in_word(character: str) -> bool:
    """A digit, or a letter of a script that puts spaces between its words; others are cut anywhere."""
    return character.isdigit() or character.isupper() or character.islower()


def _unwrapped(evidence: str) -> str:
    """Without the quotation marks that a model puts around what it quotes."""
    trimmed = evidence.strip()
    while len(trimmed) > 1 and trimmed[0] in _QUOTES and trimmed[-1] in _QUOTES:
        trimmed = trimmed[1:-1].strip()
    return trimmed


def _folded(text: str) -> tuple[str, list[int]]:
    """A text in which what may differ is equal, and for each of its characters where it comes from."""
    found: list[str] = []
    origins: list[int] = []
    for at, character in enumerate(text):
        if character.isspace():
            if found and found[-1] == " ":
                continue
            made = " "
        elif character in _FOLDED:
            made = _FOLDED[character]
        elif character.isascii() and character.isprintable():
            made = character.lower()
        elif UNSEEN.match(character):
            continue
        else:
            made = unicodedata.normalize("NFD", character.casefold())
        found.append(made)
        origins += [at] * len(made)
    return "".join(found), origins
