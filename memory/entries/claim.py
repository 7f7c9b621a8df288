"""What is to be proven, and why it is not."""

from dataclasses import dataclass
from typing import Literal

from layerlore.memory.entries.clauses import Clause
from layerlore.memory.entries.telling_words import TellingWord

Rule = Literal[
    "found", "telling", "asks", "nothing", "number", "name", "words", "deed", "person", "negation", "uncertain", "condition",
    "former", "intent", "crossed", "entry",
]  # fmt: skip


Shared = dict[TellingWord, list[Clause]]
"""The telling words of an entry that a message states, each with the clauses that do."""


@dataclass(frozen=True, slots=True)
class EvidenceRefused:
    """Why nothing proves an entry. ``reason`` says what would be accepted, without a word of the entry or the message;
    ``words`` are the entry's that nothing states; ``mendable`` says that vectors may find them in other words."""

    rule: Rule
    reason: str
    words: tuple[str, ...] = ()
    mendable: bool = False

    def describe(self) -> str:
        """The reason, with the entry's own words, for whoever wrote it."""
        named = ", ".join(repr(word) for word in self.words[:5])
        return f"{self.reason} ({named})" if named else self.reason


@dataclass(frozen=True, slots=True)
class EntryClaim:
    """What is to be proven. ``of_user``: it is said of the user, though it does not say so; ``known``: what was known
    before, and needs no proof any more."""

    content: str
    of_user: bool = False
    known: str = ""


def list_carrying(shared: Shared) -> list[Clause]:
    """The clauses that state something of an entry."""
    found: list[Clause] = []
    for clauses in shared.values():
        found += [each for each in clauses if each not in found]
    return found
