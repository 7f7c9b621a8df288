"""Patterns over text from outside: they mean what Python's mean, and no text makes them slow."""

import importlib
import pkgutil
import re
from collections import deque
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

import layerlore.extraction
import layerlore.memory
import layerlore.prompts
import layerlore.server
import layerlore.storage
from layerlore.storage.core import linear_re
from layerlore.storage.core.linear_re import LinearPattern, Pattern, PatternError
from layerlore.storage.core.re2_syntax import Place, Source, read

from ...growth import grows_too_fast
from ..pattern_texts import near_texts, repeated_units

FLOORS = [layerlore.storage, layerlore.memory, layerlore.prompts, layerlore.extraction, layerlore.server]
ROOMS = sorted(
    f"{floor.__name__}.{room.name}" if room.ispkg else floor.__name__
    for floor in FLOORS
    for room in pkgutil.iter_modules(floor.__path__)
)
ANY = ["a", "A", "1", " ", "\n", "-", "漢", "é", "a ", "a-", "1.", "a'", "aA", "+", "#a", '"', "[", "=a", "don't "]
SHORT = ("layerlore.memory.rules.json_schema",)
"""Modules whose own patterns are given texts of bounded length alone."""
FEATURES = [
    r"\bcat\b",
    r"(?<!\w)[a-z]+(?!\w)",
    r"(?<=[,;])x+",
    r"\s*=\s*(\w+)$",
    r"^\w+:\s*(.*)$",
    r"(?P<key>\w+)(?P<sign>[:=])(?P<value>[^\s]*)",
    r"[^\W\d_]+",
    r"[\W_]+",
    r"[^\S\n]+",
    r"[\s\S]*?end",
    r"a+(?=\s*b)",
    r"(?:\bone\b|two+|(?<!-)three*)",
    r"\d+(?:[.,]\d+)*",
    r"x*",
    r"(a+|b+)(c*)",
]


def modules_of(room: str) -> list[ModuleType]:
    """A room's modules, imported."""
    package = importlib.import_module(room)
    names = [room]
    if room.count(".") > 1 and hasattr(package, "__path__"):
        names += [each.name for each in pkgutil.walk_packages(package.__path__, f"{room}.")]
    return [importlib.import_module(name) for name in names if not name.endswith("__main__")]


def patterns_of(room: str) -> list[Pattern]:
    """Every pattern that the modules of a room make when they are imported, or later from a word list."""
    modules = modules_of(room)
    names = {module.__name__ for module in modules}
    for function in (each for module in modules for each in vars(module).values() if hasattr(each, "cache_info")):
        # SQLAlchemy's func seems to have every attribute, but it has no annotations.
        if getattr(function, "__annotations__", None) == {"return": Pattern}:
            function()
    made = [pattern for module, pattern in linear_re.REGISTRY if module in names]
    return list({(pattern.pattern, pattern.flags): pattern for pattern in made}.values())


def units_for(pattern: Pattern, count: int) -> list[tuple[str, str, str]]:
    """What to repeat: ``count`` pieces of what the pattern describes, and pieces of any text for what only regex can read."""
    if pattern.engine != "regex":
        return repeated_units(read(pattern.pattern, pattern.flags), seed=1, count=count)
    try:
        own = repeated_units(read(pattern.pattern, pattern.flags), seed=1, count=count)
    except re.error:
        own = []
    return own + [("", unit, end) for unit in ANY for end in ("", "\x00")]


def left_to_python(room: str) -> list[re.Pattern[Any]]:
    """The patterns, of texts or bytes, that a room has outside linear_re."""
    values = [each for module in modules_of(room) if module.__name__ not in SHORT for each in vars(module).values()]
    return [value for value in values if isinstance(value, re.Pattern)]


def found(pattern: Pattern | re.Pattern[str] | LinearPattern, text: str) -> list[object]:
    """All that a pattern says of a text."""
    each = [(match.span(), match.groups(), match.groupdict()) for match in pattern.finditer(text)]
    places = [pattern.match(text, place) for place in range(0, len(text) + 1, 3)]
    at_places = [match and (match.span(), match.groups()) for match in places]
    whole = pattern.fullmatch(text)
    return [*each, *at_places, whole and (whole.span(), whole.groups())]


def linear(source: Source) -> LinearPattern | None:
    """The pattern as RE2 matches it, also where Python's engine would be taken; None where RE2 cannot."""
    made = LinearPattern(source)
    try:
        for place in Place:
            made.prepare(place)
    except PatternError:
        return None
    return made


@pytest.mark.parametrize("flags", [0, linear_re.IGNORECASE, linear_re.MULTILINE, linear_re.DOTALL])
@pytest.mark.parametrize("pattern", FEATURES)
def test_a_pattern_finds_what_pythons_own_engine_finds(pattern: str, flags: int) -> None:
    source = read(pattern, flags)
    made = linear(source)
    assert made
    for text in near_texts(source, seed=len(pattern), count=40):
        assert found(made, text) == found(re.compile(pattern, flags), text), repr(text)


@pytest.mark.parametrize("room", ROOMS)
def test_every_pattern_of_the_program_finds_what_pythons_own_engine_finds(room: str) -> None:
    for pattern in patterns_of(room):
        if pattern.engine != "linear":
            continue
        source = read(pattern.pattern, pattern.flags)
        made = None if source.properties else linear(source)
        for text in near_texts(source, seed=1, count=8) if made else ():
            assert found(made, text) == found(re.compile(pattern.pattern, pattern.flags), text), (pattern, text)


@pytest.mark.programs
@pytest.mark.parametrize("room", ROOMS)
def test_twice_the_text_takes_no_pattern_much_more_than_twice_the_time(room: str, trials: Callable[..., range]) -> None:
    slow: list[tuple[object, object]] = []
    count = len(trials(1, soak=3))
    for pattern in patterns_of(room):
        pattern.search("")
        slow += [(pattern, unit) for unit in units_for(pattern, count) if grows_too_fast(goes_over(pattern), *unit)]
    for own in left_to_python(room):
        text = own.pattern if isinstance(own.pattern, str) else own.pattern.decode("latin-1")
        for unit in repeated_units(read(text, own.flags & ~re.UNICODE), seed=1, count=count):
            sent = unit if isinstance(own.pattern, str) else tuple(each.encode() for each in unit)
            slow += [(own, unit)] if grows_too_fast(goes_over(own), *sent) else []
    assert not slow


@pytest.mark.programs
def test_a_pattern_that_goes_back_in_the_text_is_found_by_that() -> None:
    for pattern, unit in ((r"a*b", "a"), (r"\[[^\]]*\]", "[")):
        # A busy machine may hide the growth once, since a single doubling within the bound says no. Two doublings show
        # it: three more would take 64 times as long.
        found = (grows_too_fast(goes_over(re.compile(pattern)), "", unit, "!", doublings=2) for _ in range(8))
        assert any(found), pattern
    assert not grows_too_fast(goes_over(Pattern(r"(?:a+)+b")), "", "a", "!")


@pytest.mark.parametrize("pattern", [r"(a+)\1", r"(?:(?!end).)*end", r"x+\b.*y"])
def test_what_cannot_be_matched_in_linear_time_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        linear_re.Pattern(pattern, 0).search("")


def test_lone_surrogates_and_signs_of_four_bytes_keep_their_places() -> None:
    pattern = linear_re.Pattern(r"(?<!x)\w+=(\S*)", 0)
    text = "\U0001f600 key=\ud800é\U0001f600 xlast=1"
    assert [match.span(1) for match in pattern.finditer(text)] == [(6, 9), (16, 17)]


def test_a_template_of_a_replacement_may_name_groups() -> None:
    pattern = linear_re.Pattern(r"(?P<name>\w+)=(\w*)", 0)
    assert pattern.sub(r"\2 is \g<name>\n", "a=b") == "b is a\n"
    assert pattern.sub(lambda match: match["name"].upper(), "a=b c=d", 1) == "A c=d"


def goes_over(pattern: Pattern | re.Pattern[Any]) -> Callable[[Any], object]:
    """All matches of a pattern in a text, one after the other."""
    return lambda text: deque(pattern.finditer(text), maxlen=0)
