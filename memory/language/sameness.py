"""Whether two entries say the same: the same words in the same order.

A similarity of vectors cannot distinguish "before" from "after", or 5 from -5. So two entries are one only if each
name, number, sign, negation and word is in both, in an order that means the same. In doubt they are two.
"""

from collections.abc import Sequence
from dataclasses import replace

from layerlore.memory.language.statement_words import (
    NEGATIONS,
    OF,
    USER,
    StatementWord,
    WordedStatement,
    is_same_word,
    read_statement,
    word_set,
)

# Words that begin a part of a sentence which can stand in another place: "as an engineer", "on Fridays".
_OPENERS = word_set(
    "at in on as for with since by from to every after before if when because until during near under "
    "over around last next als bei seit mit für um im am chez comme depuis avec pour dans con para desde como da "
    "per"
)
_JOINTS = frozenset({"and", "or", "but", "then", "than", "und", "oder", "aber", "et", "ou", "y", "o", "e"})
_MOST_REARRANGED = 40
"""In words. The cost grows with their third power, and a longer text is no single statement."""
_VERB_FORMS = {"has": "have", "goes": "go", "does": "do", "is": "is"}

Words = Sequence[StatementWord]


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
    opened = [part for part in parts if part[0].key in _OPENERS]
    if any(each.key in _JOINTS or each.key in NEGATIONS for part in opened for each in part):
        return False
    if len(opened) == len(parts):
        return moved[0].key != passed[0].key
    return whole and len(opened) == 1
