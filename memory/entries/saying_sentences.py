"""The sentence of a conversation that says what an entry says, for an entry that was kept without a quotation."""

from collections.abc import Iterator, Sequence

from layerlore.memory.entries.evidence import EvidenceText, Label
from layerlore.memory.entries.persons import USER
from layerlore.memory.entries.proof import only_asks
from layerlore.memory.entries.unproven import is_form, list_unproven
from layerlore.memory.parts.search_words import find_query_words, split_words
from layerlore.memory.parts.speech_acts import find_sentences
from layerlore.memory.text.quotation import blank_blocks

LEAST_SHARED = 0.5
"""At least half of the entry's content words stand in the sentence."""
_FEWEST_SHARED = 2
_MOST_WORDS = 200
_MOST_CHARS = 4_000
_PREFIX = 3
# A sentence that denies what the entry says, or the other way round, does not say it.
_DENIALS = frozenset(split_words("not no never none without t nicht kein keine keinen nie ohne pas jamais sans non mai senza nunca sin não sem niet geen не нет без değil yok"))  # fmt: skip
_LABELS: Sequence[tuple[str, Label]] = (("user", "user_assertion"), ("assistant", "verified_assistant_finding"))


def find_saying(content: str, said: Sequence[EvidenceText]) -> tuple[str, Label] | None:
    """The sentence that shares most content words with an entry, and whose word it is: a user's before an assistant's,
    and of equal ones the newest. None if no sentence has half of the words and all names and numbers."""
    # A user does not say "the user".
    words = frozenset(word for word in find_query_words(content, most=_MOST_WORDS) if not USER.fullmatch(word))
    denies = not _DENIALS.isdisjoint(split_words(content))
    for role, label in _LABELS:
        best, most = "", 0.0
        for sentence in _list_sentences(role, said):
            sentence_words = split_words(sentence)
            share = _measure_share(words, sentence_words)
            if share <= most or share < LEAST_SHARED:
                continue
            says_it = denies == (not _DENIALS.isdisjoint(sentence_words))
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
    """The share of the words that a sentence has, in any form; 0 if they are too few to tell."""
    there = set(sentence_words)
    shared = words & there
    # Forms of a word begin alike: only those are compared.
    open_words = {word[:_PREFIX]: word for word in words - shared}
    for other in there:
        word = open_words.get(other[:_PREFIX])
        if word is not None and is_form(word, other):
            shared |= {word}
    return len(shared) / len(words) if len(shared) >= min(_FEWEST_SHARED, len(words)) else 0.0
