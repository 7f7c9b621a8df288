r"""Whether a pattern begins or ends with a character of words: what ``\b`` asks of its neighbours."""

import re._constants as code  # type: ignore[import-not-found]
from collections.abc import Sequence
from typing import Any

_FIRST_STAND_IN = 0xF0000
_STAND_INS = 1000


class PatternError(ValueError):
    """A pattern that cannot be matched in linear time as it is written."""


def stand_in(number: int) -> str:
    """A private character that stands for a property while Python's parser reads a pattern."""
    return chr(_FIRST_STAND_IN + number)


def is_stand_in(character: int) -> bool:
    return _FIRST_STAND_IN <= character < _FIRST_STAND_IN + _STAND_INS


def first_is_word(body: Sequence[Any]) -> bool:
    kind = kind_at(body, last=False)
    if kind is None:
        raise PatternError(r"\b before what may and may not be a word")
    return kind


def last_is_word(body: Sequence[Any]) -> bool:
    kind = kind_at(body, last=True)
    if kind is None:
        raise PatternError(r"\b after what may and may not be a word")
    return kind


def kind_at(items: Sequence[Any], *, last: bool) -> bool | None:
    """Whether a sequence begins (or ends) with a character of words; None where it may and may not."""
    kinds, empty = _kinds(items, last=last)
    if empty:
        kinds = kinds | {None}
    return next(iter(kinds)) if len(kinds) == 1 else None


def _kinds(items: Sequence[Any], *, last: bool) -> tuple[set[bool | None], bool]:
    """The kinds of character that a sequence can begin (or end) with, and whether it can be empty."""
    kinds: set[bool | None] = set()
    for item in reversed(items) if last else items:
        found, empty = _kinds_of(item, last=last)
        kinds |= found
        if not empty:
            return kinds, False
    return kinds, True


def _kinds_of(item: Any, *, last: bool) -> tuple[set[bool | None], bool]:
    match item:
        case (code.LITERAL, character):
            return {_is_word(character)}, False
        case (code.IN, members):
            return {_kind_of_class(members)}, False
        case (code.BRANCH, (_, branches)):
            found = [_kinds(list(branch), last=last) for branch in branches]
            return set().union(*(kinds for kinds, _ in found)), any(empty for _, empty in found)
        case (code.MAX_REPEAT | code.MIN_REPEAT, (least, _, body)):
            kinds, empty = _kinds(list(body), last=last)
            return kinds, empty or least == 0
        case (code.SUBPATTERN, (_, _, _, body)):
            return _kinds(list(body), last=last)
        case (code.AT, code.AT_END | code.AT_END_STRING | code.AT_BEGINNING | code.AT_BEGINNING_STRING):
            return {False}, False
        case (code.AT | code.ASSERT | code.ASSERT_NOT, _):
            return set(), True
    return {None}, False


def _is_word(character: int) -> bool | None:
    if is_stand_in(character):
        return None
    return chr(character).isalnum() or character == ord("_")


def _kind_of_class(members: Sequence[Any]) -> bool | None:
    if members[0][0] is code.NEGATE:
        if (code.CATEGORY, code.CATEGORY_NOT_WORD) in members:
            return True
        return False if (code.CATEGORY, code.CATEGORY_WORD) in members else None
    kinds: set[bool | None] = set()
    for member in members:
        match member:
            case (code.LITERAL, character):
                kinds.add(_is_word(character))
            case (code.RANGE, (first, last)):
                kinds |= {_is_word(each) for each in range(first, min(last, first + 500) + 1)}
            case (code.CATEGORY, code.CATEGORY_WORD | code.CATEGORY_DIGIT):
                kinds.add(True)
            case (code.CATEGORY, code.CATEGORY_SPACE | code.CATEGORY_NOT_WORD):
                kinds.add(False)
            case _:
                kinds.add(None)
    return next(iter(kinds)) if len(kinds) == 1 else None
