"""What was said again, nearly in the same words, which an answer need not say twice."""

from collections import defaultdict
from dataclasses import dataclass
from sys import intern

from layerlore.memory.parts.parts import plain_text
from layerlore.memory.parts.search_words import find_stop_words, split_words
from layerlore.storage.core.records import Message

# The share of the words that two texts have in common at least, if they say the same.
_OVERLAP = 0.8
# Longer texts, in characters, are the same only where every character is.
_LONGEST = 1000
# Function words that turn what is said into its opposite.
_NEGATIONS = frozenset(
    """
    no nor not t cannot don didn doesn isn aren wasn weren couldn shouldn wouldn mustn mightn needn shan haven hasn hadn
    won nicht nichts kein keine keinem keinen keiner ohne ni nada sin ne n pas sans aucun non né senza não nem sem niet
    geen zonder nie bez не ни нет без değil yok
    """.split()  # noqa: SIM905
)


@dataclass(frozen=True, slots=True)
class SaidWords:
    """The words of a message, and the hash of who says which of them that are no function words, or negate something."""

    words: frozenset[str]
    content: int

    @classmethod
    def of(cls, message: Message) -> "SaidWords":
        """The words of this message."""
        words = _list_words(plain_text(message.parts))
        return cls(words, hash((message.role, message.name, words - (find_stop_words(words) - _NEGATIONS))))


class ToldWords:
    """What was told so far."""

    def __init__(self) -> None:
        self._told: dict[int, list[frozenset[str]]] = defaultdict(list)

    def add(self, said: SaidWords) -> bool:
        """Tell a message, unless its speaker says the same in one that was told: in the same words, but for some function
        words that one of them has and the other has not, and that negate nothing. Returns whether it was told."""
        alike = self._told[said.content]
        if said.words and any(_is_repeated(said.words, other) for other in alike):
            return False
        alike.append(said.words)
        return True


def _list_words(text: str) -> frozenset[str]:
    """The words of a text, each once in memory; of a long text, which is hardly said twice, all of it as one."""
    return frozenset(map(intern, split_words(text)) if len(text) <= _LONGEST else ["".join(text.casefold().split())])


def _is_repeated(words: frozenset[str], other: frozenset[str]) -> bool:
    less, more = sorted((words, other), key=len)
    return less <= more and len(less) >= _OVERLAP * len(more)
