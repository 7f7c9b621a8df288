r"""Python's pattern syntax, written as RE2's.

RE2 reads nearly the same language, but its ``\w``, ``\d``, ``\s`` and ``\b`` know ASCII only, and it has no lookaround. A
class is written with the properties of Unicode that :mod:`re` means. The condition of a pattern on the character
before or after it (``\b``, ``^``, ``$``, a lookbehind of one character, any positive lookahead) is written as a
neighbour outside a group that holds the match. ``\p{...}`` may be used, as in RE2.
"""

import re
import re._constants as code  # type: ignore[import-not-found]
import re._parser as parser  # type: ignore[import-not-found]
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
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
    if len(kinds) == 1:
        return next(iter(kinds))
    return None


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
        # The edge of a text counts as a character that is in no word, as it does for \b.
        case (code.AT, code.AT_END | code.AT_END_STRING | code.AT_BEGINNING | code.AT_BEGINNING_STRING):
            return {False}, False
        case (code.AT | code.ASSERT | code.ASSERT_NOT, _):
            return set(), True
    return {None}, False


def _is_word(character: int) -> bool | None:
    # The members of a property such as \p{L} are not known here.
    if is_stand_in(character):
        return None
    return chr(character).isalnum() or character == ord("_")


def _kind_of_class(members: Sequence[Any]) -> bool | None:
    # [^\W] has only characters of words, [^\w] none.
    if members[0][0] is code.NEGATE:
        if (code.CATEGORY, code.CATEGORY_NOT_WORD) in members:
            return True
        if (code.CATEGORY, code.CATEGORY_WORD) in members:
            return False
        return None
    kinds: set[bool | None] = set()
    for member in members:
        match member:
            case (code.LITERAL, character):
                kinds.add(_is_word(character))
            # A range up to the last code point would take long to look at: its beginning must do.
            case (code.RANGE, (first, last)):
                kinds |= {_is_word(each) for each in range(first, min(last, first + 500) + 1)}
            case (code.CATEGORY, code.CATEGORY_WORD | code.CATEGORY_DIGIT):
                kinds.add(True)
            case (code.CATEGORY, code.CATEGORY_SPACE | code.CATEGORY_NOT_WORD):
                kinds.add(False)
            case _:
                kinds.add(None)
    if len(kinds) == 1:
        return next(iter(kinds))
    return None


_PROPERTY = re.compile(r"\\([pP])\{(\^?[A-Za-z_]+)\}|\\(.)|.", re.DOTALL)
_WORD = r"\p{L}\p{N}_"
_DIGIT = r"\p{Nd}"
_SPACES = (
    "\t\n\v\f\r\x1c\x1d\x1e\x1f \x85\xa0\u1680"
    + "".join(map(chr, range(0x2000, 0x200B)))
    + "\u2028\u2029\u202f\u205f\u3000"
)
"""The characters of ``str.isspace`` and so of ``\\s``."""
# A class that excludes every character, for an alternative that cannot match.
_NEVER = r"[^\x{0}-\x{10FFFF}]"
_MOST_REPEATED = 1000
"""RE2's own limit for a counted repetition."""


@dataclass(slots=True)
class Re2Pattern:
    """A pattern in RE2's syntax.

    ``text`` begins with a neighbour if ``before`` says so. ``whole`` are the groups that hold the match, one for each
    alternative; ``groups`` are the numbers that Python's groups 1, 2, ... have in ``text``. ``names`` gives a name's
    number in Python's numbering.
    """

    text: str = ""
    before: bool = False
    whole: list[int] = field(default_factory=list)
    groups: dict[int, int] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Neighbour:
    """The characters that must be beside a match. ``taken`` and ``refused`` are items of classes for one character,
    ``none`` says whether the text may begin or end there, ``line`` that it may also end in a line's end."""

    taken: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    none: bool = True
    line: bool = False

    def write(self, nothing: str | None) -> str | None:
        """A group that matches the neighbour; None if there can be none. ``nothing``: what matches the text's own edge."""
        if len(self.taken) > 1 or (self.taken and self.refused):
            raise PatternError("two conditions for one neighbour")
        if self.line:
            return r"(?:\n?\z)"
        ways = [nothing] if self.none and nothing else []
        if self.refused:
            refused = "".join(self.refused)
            if "^" in refused:
                raise PatternError("a neighbour that is not outside of a class")
            ways.append(f"[^{refused}]")
        elif not self.taken:
            ways.append("(?s:.)")
        elif self.taken[0]:
            ways.append(f"[{self.taken[0]}]")
        if ways:
            return f"(?:{'|'.join(ways)})"
        return None


@dataclass(frozen=True, slots=True)
class Source:
    """A pattern as Python's parser reads it, with the properties that stand-ins mean."""

    tree: Any
    flags: int
    properties: dict[int, str]

    @property
    def longest(self) -> int:
        return int(self.tree.getwidth()[1])


def read(pattern: str, flags: int) -> Source:
    """Parse a pattern in Python's syntax, with ``\\p{...}`` beside it. Raises re.error."""
    properties: dict[int, str] = {}

    def replace(found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0]
        stands = stand_in(len(properties))
        properties[ord(stands)] = f"\\{found[1]}{{{found[2]}}}"
        return stands

    tree = parser.parse(_PROPERTY.sub(replace, pattern), flags)
    return Source(tree, int(tree.state.flags), properties)


class Place(Enum):
    """Where in a text a match may begin and end, as far as the pattern must be written differently for it."""

    ANYWHERE = auto()
    LATER = auto()
    """Not at the beginning, although the neighbour before the match may be the text's first character."""
    BEGINNING = auto()
    """At the beginning only, so that there is no neighbour before it."""
    WHOLE = auto()
    """From the beginning to the end."""


def write_re2(source: Source, place: Place = Place.ANYWHERE) -> Re2Pattern:
    """The pattern for RE2. Raises PatternError for what RE2 cannot match."""
    return _Writer(source, place).write()


class _Writer:
    def __init__(self, source: Source, place: Place) -> None:
        self._source = source
        self._place_of_match = place
        self._opened = 0
        self._written = Re2Pattern(names=dict(source.tree.state.groupdict))

    def write(self) -> Re2Pattern:
        written = self._written
        at_beginning = self._place_of_match in (Place.BEGINNING, Place.WHOLE)
        parts = [self._edges(branch) for branch in _branches(list(self._source.tree))]
        # If one alternative needs a neighbour, all of them take one, so that they begin at the same place.
        written.before = not at_beginning and any(before for before, _, _ in parts)
        texts: list[str] = []
        for before, body, after in parts:
            self._opened += 1
            whole = self._opened
            matched = f"({self._sequence(body, self._source.flags)})"
            ahead = self._before(before)
            behind = self._after(after)
            # The alternative stays with its group: the numbers of later groups depend on it.
            if ahead is None or behind is None:
                ahead, behind = _NEVER, ""
            texts.append(f"{ahead}{matched}{behind}")
            written.whole.append(whole)
        flags = "(?i)" if self._source.flags & re.IGNORECASE else ""
        written.text = flags + (texts[0] if len(texts) == 1 else f"(?:{'|'.join(texts)})")
        return written

    # Edges

    def _edges(self, branch: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        """A branch in three: conditions before, what matches, conditions after."""
        body = list(branch)
        before: list[Any] = []
        after: list[Any] = []
        while body and _is_condition(body[0], before=True):
            before.append(body.pop(0))
        while body and _is_condition(body[-1], before=False):
            after.insert(0, body.pop())
        if before and not body:
            raise PatternError("a pattern needs more than conditions")
        for number, condition in enumerate(before):
            if condition == (code.AT, code.AT_BOUNDARY):
                before[number] = self._boundary(first_is_word(body))
            elif condition == (code.AT, code.AT_NON_BOUNDARY):
                before[number] = self._boundary(not first_is_word(body))
        for number, condition in enumerate(after):
            if condition == (code.AT, code.AT_BOUNDARY):
                after[number] = self._boundary(last_is_word(body))
            elif condition == (code.AT, code.AT_NON_BOUNDARY):
                after[number] = self._boundary(not last_is_word(body))
        return before, body, after

    def _boundary(self, is_word: bool) -> Any:
        """The neighbour of a word's edge: no word's character, or one."""
        negation = [(code.NEGATE, None)] if is_word else []
        return (code.IN, [*negation, (code.CATEGORY, code.CATEGORY_WORD)], "or nothing" if is_word else "")

    def _before(self, conditions: Sequence[Any]) -> str | None:
        """The character before the match; None if there can be none."""
        if self._place_of_match in (Place.BEGINNING, Place.WHOLE):
            if self._neighbour(conditions).none:
                return ""
            return None
        if not self._written.before:
            return ""
        neighbour = self._neighbour(conditions)
        return neighbour.write(r"\A" if self._place_of_match is Place.ANYWHERE else None)

    def _after(self, conditions: Sequence[Any]) -> str | None:
        """The character after the match; None if there can be none."""
        wider = [each for each in conditions if each[0] is code.ASSERT and not _is_one(each[1][1])]
        # A neighbour is one class for one character, which a longer condition cannot be joined with.
        if wider and len(conditions) > 1:
            raise PatternError("two conditions after a match, one of them longer than a character")
        if wider:
            return self._wider(wider[0][1][1])
        if self._place_of_match is Place.WHOLE:
            if self._neighbour(conditions).none:
                return ""
            return None
        if conditions:
            return self._neighbour(conditions).write(r"\z")
        return ""

    def _wider(self, condition: Any) -> str | None:
        """A condition on more than the next character; None if the end of the text cannot fulfil it and nothing else is
        there."""
        opened = self._opened
        written = f"(?:{self._sequence(list(condition), self._source.flags)})"
        if self._opened > opened:
            raise PatternError("a group in a condition")
        if self._place_of_match is Place.WHOLE:
            if condition.getwidth()[0] == 0:
                return ""
            return None
        return written

    def _neighbour(self, conditions: Sequence[Any]) -> "_Neighbour":
        found = _Neighbour()
        for condition in conditions:
            match condition:
                case (code.AT, code.AT_END_STRING):
                    found.taken.append("")
                case (code.AT, code.AT_END):
                    found.taken.append("\\n" if self._source.flags & re.MULTILINE else "")
                    found.line = not self._source.flags & re.MULTILINE
                case (code.IN, items, "or nothing"):
                    found.refused.append(self._class_items([item for item in items if item[0] is not code.NEGATE]))
                case (code.IN, items, _):
                    found.taken.append(self._class_items(items))
                    found.none = False
                case (code.ASSERT, (_, inside)):
                    items, may_end = self._one(inside)
                    found.taken.append(items)
                    found.none = found.none and may_end
                case (code.ASSERT_NOT, (_, inside)):
                    items, may_end = self._one(inside)
                    found.refused.append(items)
                    found.none = found.none and not may_end
                case _:
                    raise PatternError(f"cannot ask of a neighbour: {condition}")
        return found

    def _one(self, inside: Any) -> tuple[str, bool]:
        """The items of a class for what is one character or the text's end, and whether the end is among it."""
        items = ""
        may_end = False
        for branch in _branches(list(inside)):
            if len(branch) > 1:
                raise PatternError("a condition of more than one character")
            match branch[0] if branch else None:
                case (code.AT, code.AT_END | code.AT_END_STRING | code.AT_BEGINNING | code.AT_BEGINNING_STRING):
                    may_end = True
                    if self._source.flags & re.MULTILINE:
                        items += "\\n"
                case (code.LITERAL, character):
                    items += self._literal(character)
                case (code.IN, members):
                    items += self._class_items(members)
                case _:
                    raise PatternError(f"a condition of more than a character: {branch}")
        return items, may_end

    # The match itself

    def _sequence(self, items: Sequence[Any], flags: int) -> str:
        made: list[str] = []
        for number, item in enumerate(items):
            if item == (code.AT, code.AT_BOUNDARY):
                before = kind_at(items[:number], last=True)
                after = kind_at(items[number + 1 :], last=False)
                # There is always a boundary between these two, so \b adds no condition.
                if {before, after} == {True, False}:
                    continue
                raise PatternError(r"\b inside, between what may and may not be a word")
            made.append(self._item(item, flags))
        return "".join(made)

    def _item(self, item: Any, flags: int) -> str:
        match item:
            case (code.LITERAL, character):
                return self._literal(character)
            case (code.NOT_LITERAL, character):
                return f"[^{self._literal(character)}]"
            case (code.ANY, _):
                if flags & re.DOTALL:
                    return "(?s:.)"
                return r"[^\n]"
            case (code.IN, items):
                return self._class(items)
            case (code.BRANCH, (_, branches)):
                return f"(?:{'|'.join(self._sequence(list(each), flags) for each in branches)})"
            case (code.MAX_REPEAT | code.MIN_REPEAT as kind, (least, most, body)):
                return self._repeat(kind, least, most, list(body), flags)
            case (code.SUBPATTERN, (number, added, removed, body)):
                return self._group(number, added, removed, list(body), flags)
            case (code.AT, at):
                return self._place(at, flags)
        raise PatternError(f"RE2 has no {str(item[0]).lower()} inside a pattern")

    def _repeat(self, kind: Any, least: int, most: Any, body: Sequence[Any], flags: int) -> str:
        inner = self._sequence(body, flags)
        lazy = "?" if kind is code.MIN_REPEAT else ""
        if most is not code.MAXREPEAT and most > _MOST_REPEATED:
            raise PatternError(f"repeated more than {_MOST_REPEATED} times")
        match least, most:
            case 0, code.MAXREPEAT:
                times = "*"
            case 1, code.MAXREPEAT:
                times = "+"
            case 0, 1:
                times = "?"
            case _, code.MAXREPEAT:
                times = f"{{{least},}}"
            case _:
                times = f"{{{least},{most}}}"
        return f"(?:{inner}){times}{lazy}"

    def _group(self, number: int | None, added: int, removed: int, body: Sequence[Any], flags: int) -> str:
        changed = (flags | added) & ~removed
        letters = "i" if added & re.IGNORECASE else ""
        without = "-i" if removed & re.IGNORECASE else ""
        if number is None:
            return f"(?{letters}{without}:{self._sequence(body, changed)})"
        self._opened += 1
        self._written.groups[number] = self._opened
        return f"({self._sequence(body, changed)})"

    def _place(self, at: Any, flags: int) -> str:
        many = bool(flags & re.MULTILINE)
        match at:
            case code.AT_BEGINNING:
                if many:
                    return "(?m:^)"
                return r"\A"
            case code.AT_BEGINNING_STRING:
                return r"\A"
            case code.AT_END_STRING:
                return r"\z"
            case code.AT_END if many:
                return "(?m:$)"
        raise PatternError(rf"{str(at).lower()} inside a pattern; \Z is the end")

    # Classes

    def _literal(self, character: int) -> str:
        if stands := self._source.properties.get(character):
            return stands
        return f"\\x{{{character:X}}}"

    def _class(self, items: Sequence[Any]) -> str:
        negated = items[0][0] is code.NEGATE
        members = list(items[1:] if negated else items)
        outside = [item for item in members if item[0] is code.CATEGORY and "NOT" in str(item[1])]
        if not outside:
            return f"[{'^' if negated else ''}{self._class_items(members)}]"
        if len(outside) > 1:
            raise PatternError("a class of two negated classes")
        opposite = (code.CATEGORY, _OPPOSITE[outside[0][1]])
        # [\s\S] and the like take every character.
        if not negated and opposite in members:
            return "(?s:.)"
        rest = [item for item in members if item is not outside[0]]
        without = _without(outside[0][1], rest)
        # [^\W_] are the word's characters without _; [\W_] is all but those.
        if negated:
            return f"[{without}]"
        return f"[^{without}]"

    def _class_items(self, items: Sequence[Any]) -> str:
        made = []
        for item in items:
            match item:
                case (code.LITERAL, character):
                    made.append(self._literal(character))
                case (code.RANGE, (first, last)):
                    made.append(f"\\x{{{first:X}}}-\\x{{{last:X}}}")
                case (code.CATEGORY, code.CATEGORY_WORD):
                    made.append(_WORD)
                case (code.CATEGORY, code.CATEGORY_DIGIT):
                    made.append(_DIGIT)
                case (code.CATEGORY, code.CATEGORY_SPACE):
                    made.append(_as_items(_SPACES))
                case (code.CATEGORY, category) if len(items) == 1:
                    return f"^{_without(category, [])}"
                case (code.NEGATE, _) if len(items) > 1:
                    return f"^{self._class_items(items[1:])}"
                case _:
                    raise PatternError(f"cannot be in a class: {item}")
        return "".join(made)


_OPPOSITE = {
    code.CATEGORY_NOT_SPACE: code.CATEGORY_SPACE,
    code.CATEGORY_NOT_WORD: code.CATEGORY_WORD,
    code.CATEGORY_NOT_DIGIT: code.CATEGORY_DIGIT,
}


def _as_items(characters: str) -> str:
    return "".join(f"\\x{{{ord(each):X}}}" for each in characters)


def _without(category: Any, rest: Sequence[Any]) -> str:
    r"""The items of what ``\W``, ``\S`` or ``\D`` leaves out, without some more."""
    if category is code.CATEGORY_NOT_SPACE:
        spaces = [each for each in _SPACES if not any(_holds(item, each) for item in rest)]
        return _as_items("".join(spaces))
    if category is code.CATEGORY_NOT_DIGIT:
        if rest:
            raise PatternError(r"\D in a class with others")
        return _DIGIT
    digits = (code.CATEGORY, code.CATEGORY_DIGIT) in rest
    underscore = (code.LITERAL, ord("_")) in rest
    others = [item for item in rest if item not in ((code.CATEGORY, code.CATEGORY_DIGIT), (code.LITERAL, ord("_")))]
    if any(_may_be_word(item) for item in others):
        raise PatternError(r"\W in a class with characters of words")
    numbers = r"\p{Nl}\p{No}" if digits else r"\p{N}"
    return rf"\p{{L}}{numbers}{'' if underscore else '_'}"


def _holds(item: Any, character: str) -> bool:
    match item:
        case (code.LITERAL, literal):
            return bool(literal == ord(character))
        case (code.RANGE, (first, last)):
            return bool(first <= ord(character) <= last)
    raise PatternError(r"\S in a class with another class")


def _may_be_word(item: Any) -> bool:
    match item:
        case (code.LITERAL, literal):
            return chr(literal).isalnum() or literal == ord("_")
        case (code.RANGE, (first, last)):
            return any(chr(each).isalnum() or each == ord("_") for each in range(first, last + 1))
        case (code.CATEGORY, code.CATEGORY_SPACE):
            return False
    return True


def _branches(items: Sequence[Any]) -> Iterator[list[Any]]:
    """A pattern's alternatives, each with the conditions on its neighbours before and after all of them."""
    begin = 0
    while begin < len(items) and _is_condition(items[begin], before=True):
        begin += 1
    end = len(items)
    while end > begin and _is_condition(items[end - 1], before=False):
        end -= 1
    match list(items[begin:end]):
        case [(code.BRANCH, (_, branches))]:
            inner = [list(each) for each in branches]
        case [(code.SUBPATTERN, (None, 0, 0, body))]:
            inner = [list(body)]
        case _:
            yield list(items)
            return
    for each in inner:
        yield from _branches([*items[:begin], *each, *items[end:]])


def _is_condition(item: Any, *, before: bool) -> bool:
    match item:
        case (code.AT, code.AT_BOUNDARY | code.AT_NON_BOUNDARY):
            return True
        # RE2 has these itself, so they stay inside the pattern.
        case (code.AT, code.AT_BEGINNING | code.AT_BEGINNING_STRING):
            return False
        # Python's $ also matches before a last newline and RE2's does not, so it becomes a neighbour.
        case (code.AT, code.AT_END):
            return not before
        case (code.ASSERT | code.ASSERT_NOT, (direction, _)):
            if before:
                return bool(direction < 0)
            return bool(direction > 0)
    return False


def _is_one(inside: Any) -> bool:
    return all(
        len(branch) == 1 and branch[0][0] in (code.IN, code.LITERAL, code.AT) for branch in _branches(list(inside))
    )
