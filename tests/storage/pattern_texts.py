"""Texts that a pattern matches, nearly matches, or works hard on, made from the pattern itself."""

import random
import re._constants as code  # type: ignore[import-not-found]
from collections.abc import Iterator
from typing import Any

from layerlore.storage.core.re2_syntax import Source

_OF_PROPERTIES = {
    "L": "aÉж",
    "N": "7",
    "Nd": "4",
    "M": "\u0301",
    "Ll": "bß",
    "Lu": "QÄ",
    "Han": "漢",
    "Katakana": "カ",
    "Hiragana": "ひ",
}
_OF_CATEGORIES = {
    code.CATEGORY_WORD: "ab9_é",
    code.CATEGORY_DIGIT: "059",
    code.CATEGORY_SPACE: " \n\t",
    code.CATEGORY_NOT_WORD: "-. ",
    code.CATEGORY_NOT_DIGIT: "a-",
    code.CATEGORY_NOT_SPACE: "a.-",
}
_ANY = 'a b"-.é漢\n'
_TIMES = 3


class Sampler:
    """Draws texts that a pattern describes. What it asks of neighbours is not kept, so some texts match and some do not."""

    def __init__(self, source: Source, seed: int) -> None:
        self._source = source
        self._random = random.Random(seed)

    def draw(self) -> str:
        return self._sequence(self._source.tree)

    def _sequence(self, items: Any) -> str:
        return "".join(self._item(item) for item in items)

    def _item(self, item: Any) -> str:
        match item:
            case (code.LITERAL, character):
                return self._cased(self._character(character))
            case (code.NOT_LITERAL | code.ANY, _):
                return self._random.choice(_ANY)
            case (code.IN, members):
                return self._member(members)
            case (code.BRANCH, (_, branches)):
                return self._sequence(self._random.choice(branches))
            case (code.SUBPATTERN, (_, _, _, body)) | (code.ATOMIC_GROUP, body):
                return self._sequence(body)
            case (code.MAX_REPEAT | code.MIN_REPEAT | code.POSSESSIVE_REPEAT, (least, most, body)):
                times = self._random.randint(int(least), max(int(least), min(int(most), _TIMES)))
                return "".join(self._sequence(body) for _ in range(times))
            case (code.ASSERT | code.ASSERT_NOT, (_, body)):
                return self._sequence(body) if self._random.random() < 0.2 else ""
            case (code.AT, code.AT_BOUNDARY):
                return self._random.choice(["", "", " ", "é"])
        return ""

    def _cased(self, text: str) -> str:
        return text.swapcase() if self._source.flags & 2 and self._random.random() < 0.2 else text

    def _character(self, character: int) -> str:
        stands = self._source.properties.get(character)
        return self._random.choice(_OF_PROPERTIES.get(stands[3:-1], "a1")) if stands else chr(character)

    def _member(self, members: Any) -> str:
        if members[0][0] is code.NEGATE:
            return self._random.choice(_ANY)
        match self._random.choice(members):
            case (code.RANGE, (first, last)):
                return chr(self._random.choice([first, last]))
            case (code.LITERAL, character):
                return self._cased(self._character(character))
            case (code.CATEGORY, category):
                return self._random.choice(_OF_CATEGORIES[category])
        raise AssertionError(members)


def near_texts(source: Source, seed: int, count: int) -> Iterator[str]:
    """Short texts: what the pattern describes, alone, twice, cut, spoilt, and with neighbours."""
    draw = Sampler(source, seed)
    random_ = random.Random(seed)
    for _ in range(count):
        one = draw.draw()[:300]
        at = random_.randint(0, len(one))
        yield one
        yield (
            random_.choice(["", "x", " ", "é", "\n", "-"])
            + one
            + random_.choice(["", "x", " ", "é", "\n", "."])
            + draw.draw()[:300]
        )
        yield one[:at] + random_.choice(_ANY) + one[at:]
        yield one[:at]


def repeated_units(source: Source, seed: int, count: int) -> list[tuple[str, str, str]]:
    """What may make an engine go back: a beginning, what follows it many times over, and an end that spoils the match."""
    draw = Sampler(source, seed)
    random_ = random.Random(seed)
    made: dict[tuple[str, str, str], None] = {}
    for _ in range(count):
        one = (draw.draw() or "a")[:60]
        begin = random_.randint(0, len(one) - 1)
        end = random_.randint(begin + 1, len(one))
        made["", one, ""] = None
        made["", one[: begin + 1], ""] = None
        made[one[:begin], one[begin:end], "\x00"] = None
        made[one[:begin], one[begin], "\x00\n"] = None
        made["", one[begin:end], "!"] = None
    return list(made)
