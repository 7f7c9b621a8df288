"""Answers that agree or deny, and say nothing else."""

from layerlore.memory.entries.claim_words import ASSENT, DISSENT, is_one_of
from layerlore.memory.entries.telling_words import list_telling
from layerlore.memory.parts.search_words import split_words


def is_answer(text: str) -> bool:
    return assents(text) or dissents(text)


def assents(text: str) -> bool:
    """Whether a text agrees, and says nothing else."""
    words = split_words(text)
    return bool(words) and not dissents(text) and any(is_one_of(word, ASSENT) for word in words) and _only_answers(text)


def begins_with_assent(text: str) -> bool:
    words = split_words(text)
    return bool(words) and is_one_of(words[0], ASSENT) and not dissents(text)


def dissents(text: str) -> bool:
    words = split_words(text)
    return any(is_one_of(word, DISSENT) for word in words) and _only_answers(text)


def _only_answers(text: str) -> bool:
    return all(is_one_of(word.key, ASSENT) or is_one_of(word.key, DISSENT) for word in list_telling(text))
