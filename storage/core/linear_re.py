"""Patterns over text from outside, matched in time that grows as the text does.

``compile`` takes Python's syntax and gives an object that is used like one of :mod:`re`. A pattern whose matches have a
bounded length is left to :mod:`re`: each place of the text costs it a bounded effort. Every other one is written anew for
RE2, which never goes back in the text (``re2_syntax``). A pattern that RE2 cannot match, such as a lookaround inside
it or a reference to a group, raises :class:`PatternError`.

Nothing is compiled before its first use. ``REGISTRY`` holds every pattern that a module made, for the test that drives
each of them with repetitions.
"""

import importlib
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Literal, Protocol, cast

from layerlore.storage.core.re2_syntax import PatternError, Place, Re2Pattern, Source, read, write_re2

__all__ = [
    "DOTALL",
    "IGNORECASE",
    "MULTILINE",
    "REGISTRY",
    "VERBOSE",
    "Match",
    "Pattern",
    "PatternError",
    "compile",
    "escape",
]

IGNORECASE: Final = int(re.IGNORECASE)
MULTILINE: Final = int(re.MULTILINE)
DOTALL: Final = int(re.DOTALL)
VERBOSE: Final = int(re.VERBOSE)
_LONGEST_OF_RE = 200
"""Characters that a match has at most where Python's own engine is used."""
_MEMORY_OF_RE2 = 16 << 20
"""Bytes that RE2's automaton may take for one pattern; past them it goes on with its slower, also linear way."""
_NO_SPAN = (-1, -1)
Engine = Literal["linear", "re", "regex"]

escape = re.escape


class Match(Protocol):
    """The interface of a match of either engine."""

    @property
    def string(self) -> str: ...
    @property
    def lastgroup(self) -> str | None: ...
    def group(self, *groups: int | str) -> str | Any: ...
    def groups(self, default: Any = None) -> tuple[Any, ...]: ...
    def groupdict(self, default: Any = None) -> Mapping[str, Any]: ...
    def start(self, group: int | str = 0, /) -> int: ...
    def end(self, group: int | str = 0, /) -> int: ...
    def span(self, group: int | str = 0, /) -> tuple[int, int]: ...
    def expand(self, template: str) -> str: ...
    def __getitem__(self, group: int | str, /) -> str | Any: ...


class _Finder(Protocol):
    def __call__(self, string: str, pos: int = 0, endpos: int = sys.maxsize) -> Match | None: ...


class _EachFinder(Protocol):
    def __call__(self, string: str, pos: int = 0, endpos: int = sys.maxsize) -> Iterator[Match]: ...


class _Lister(Protocol):
    def __call__(self, string: str, pos: int = 0, endpos: int = sys.maxsize) -> list[Any]: ...


class _Splitter(Protocol):
    def __call__(self, string: str, maxsplit: int = 0) -> list[Any]: ...


class _Replacer(Protocol):
    def __call__(self, repl: str | Callable[[Match], str], string: str, count: int = 0) -> str: ...


class _CountingReplacer(Protocol):
    def __call__(self, repl: str | Callable[[Match], str], string: str, count: int = 0) -> tuple[str, int]: ...


class Pattern:
    """A pattern with the methods of :class:`re.Pattern`; ``pattern`` and ``flags`` are as they were passed."""

    search: _Finder
    match: _Finder
    fullmatch: _Finder
    finditer: _EachFinder
    findall: _Lister
    split: _Splitter
    sub: _Replacer
    subn: _CountingReplacer

    def __init__(self, pattern: str, flags: int = 0, engine: Engine = "linear") -> None:
        self.pattern = pattern
        self.flags = flags
        self.engine = engine

    def __getattr__(self, name: str) -> Any:
        """Compile at the first use of a method: most processes need few of the patterns."""
        if name not in _METHODS:
            raise AttributeError(name)
        made = self._compile()
        # As attributes of the pattern the methods no longer pass through __getattr__.
        for method in _METHODS:
            setattr(self, method, getattr(made, method))
        return getattr(self, name)

    def _compile(self) -> Any:
        if self.engine == "re":
            return re.compile(self.pattern, self.flags)
        if self.engine == "regex":
            return importlib.import_module("regex").compile(self.pattern, self.flags)
        # re's compiler takes the parsed tree, so the pattern is parsed only once.
        source = read(self.pattern, self.flags)
        return re._compiler.compile(source.tree) if is_bounded(source) else LinearPattern(source)  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        return f"linear_re.compile({self.pattern!r})"


_METHODS = ("search", "match", "fullmatch", "finditer", "findall", "split", "sub", "subn")
REGISTRY: list[tuple[str, Pattern]] = []
"""The module that made a pattern, and the pattern."""


def compile(pattern: str, flags: int = 0, *, engine: Engine = "linear") -> Pattern:
    """A pattern in Python's syntax; ``\\p{L}`` and other properties may be used as well. Its first use raises PatternError
    if it cannot be matched in linear time, and re.error if it is not a pattern.

    ``engine``: ``re`` or ``regex`` for a pattern that passes each character once, as one that cuts a text into words does,
    where RE2's cost for each match or its syntax is in the way. Only the test shows that it does.
    """
    made = Pattern(pattern, flags, engine)
    REGISTRY.append((sys._getframe(1).f_globals.get("__name__", ""), made))
    return made


def is_bounded(source: Source) -> bool:
    """Whether Python's own engine is used."""
    return source.longest <= _LONGEST_OF_RE and not source.properties


class LinearPattern:
    """A pattern that RE2 matches."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._made: dict[Place, tuple[Re2Pattern, Any]] = {}
        self._groups = source.tree.state.groups - 1

    def prepare(self, place: Place) -> None:
        """Compile for a place of the match, which its first use there does too. Raises PatternError."""
        self._at(place)

    def _at(self, place: Place) -> tuple[Re2Pattern, Any]:
        if place not in self._made:
            re2 = importlib.import_module("re2")  # it takes memory, and few processes need it
            options = re2.Options()
            options.max_mem = _MEMORY_OF_RE2
            # RE2 would write the error to stderr itself; it is in the PatternError.
            options.log_errors = False
            written = write_re2(self._source, place)
            try:
                self._made[place] = written, re2.compile(written.text.encode(), options)
            except re2.error as error:
                raise PatternError(f"{self._source.tree.state.str}: {error}") from None
        return self._made[place]

    def search(self, string: str, pos: int = 0, endpos: int = sys.maxsize) -> Match | None:
        return next(self.finditer(string, pos, endpos), None)

    def match(self, string: str, pos: int = 0, endpos: int = sys.maxsize) -> Match | None:
        text = _read_text(string, endpos)
        at = text.byte(pos)
        if at == 0:
            written, regexp = self._at(Place.BEGINNING)
            return self._matched(text, written, regexp.match(text.encoded))
        written, regexp = self._at(Place.ANYWHERE)
        # Without a neighbour before the match, RE2 can begin at the place itself.
        if not written.before:
            return self._matched(text, written, regexp.match(text.encoded, at))
        written, regexp = self._at(Place.LATER)
        return self._matched(text, written, regexp.match(text.encoded, text.before(at)))

    def fullmatch(self, string: str, pos: int = 0, endpos: int = sys.maxsize) -> Match | None:
        if pos:
            raise ValueError("fullmatch of a part: cut the text")
        text = _read_text(string, endpos)
        written, regexp = self._at(Place.WHOLE)
        return self._matched(text, written, regexp.fullmatch(text.encoded))

    def finditer(self, string: str, pos: int = 0, endpos: int = sys.maxsize) -> Iterator[Match]:
        text = _read_text(string, endpos)
        at = text.byte(pos)
        while True:
            written, regexp = self._at(Place.ANYWHERE)
            begin = at
            if written.before and at:
                begin = text.before(at)
                # At the text's first character ANYWHERE would also take the beginning of the text as the neighbour.
                if begin == 0:
                    written, regexp = self._at(Place.LATER)
            found = regexp.search(text.encoded, begin)
            if found is None:
                return
            start, end = _whole_span(written, found)
            yield self._made_match(text, written, found)
            # An empty match would be found at the same place for ever.
            if end > start:
                at = end
            else:
                at = text.after(end)
            if at > len(text.encoded):
                return

    def findall(self, string: str, pos: int = 0, endpos: int = sys.maxsize) -> list[Any]:
        found = self.finditer(string, pos, endpos)
        if self._groups == 0:
            return [match.group() for match in found]
        if self._groups == 1:
            return [match.groups("")[0] for match in found]
        return [match.groups("") for match in found]

    def split(self, string: str, maxsplit: int = 0) -> list[Any]:
        pieces: list[Any] = []
        end = 0
        for number, match in enumerate(self.finditer(string)):
            if maxsplit and number >= maxsplit:
                break
            pieces.append(string[end : match.start()])
            pieces.extend(match.groups())
            end = match.end()
        pieces.append(string[end:])
        return pieces

    def sub(self, repl: str | Callable[[Match], str], string: str, count: int = 0) -> str:
        return self.subn(repl, string, count)[0]

    def subn(self, repl: str | Callable[[Match], str], string: str, count: int = 0) -> tuple[str, int]:
        pieces: list[str] = []
        end = number = 0
        for match in self.finditer(string):
            # A template has references to groups, which RE2 would read in its own numbering.
            pieces.append(string[end : match.start()])
            pieces.append(match.expand(repl) if isinstance(repl, str) else repl(match))
            end = match.end()
            number += 1
            if number == count:
                break
        pieces.append(string[end:])
        return "".join(pieces), number

    def _matched(self, text: "_Text", written: Re2Pattern, found: Any) -> Match | None:
        if found is None:
            return None
        return self._made_match(text, written, found)

    def _made_match(self, text: "_Text", written: Re2Pattern, found: Any) -> Match:
        spans = [_whole_span(written, found)]
        spans += [found.span(written.groups[number]) for number in range(1, self._groups + 1)]
        return _LinearMatch(text.string, text.in_characters(spans), written.names)


def _whole_span(written: Re2Pattern, found: Any) -> tuple[int, int]:
    for group in written.whole:
        span = found.span(group)
        if span != _NO_SPAN:
            return cast("tuple[int, int]", span)
    raise AssertionError("a match without its own group")


_last = threading.local()
"""The text that a thread read last: many patterns, or one from place to place, go over the same one."""


def _read_text(string: str, endpos: int) -> "_Text":
    if endpos < len(string):
        return _Text(string[: max(endpos, 0)])
    last: _Text | None = getattr(_last, "text", None)
    # Identity is enough and cheap: a caller passes the same object from place to place.
    if last is None or last.string is not string:
        last = _last.text = _Text(string)
    return last


class _Text:
    """A text as RE2 reads it, in UTF-8, and the way back from its places to characters."""

    def __init__(self, string: str) -> None:
        self.string = string
        # Stored JSON may bring a lone surrogate, which strict UTF-8 refuses.
        self.encoded = string.encode("utf-8", "surrogatepass")
        # If all is ASCII, a place in bytes is the same place in characters.
        self._plain = len(self.encoded) == len(string)
        # A place in bytes and the same in characters, from where the next one is counted.
        self._known = (0, 0)

    def byte(self, character: int) -> int:
        """Where a character begins."""
        character = min(max(character, 0), len(self.string))
        if self._plain:
            return character
        place, count = self._known
        between = self.string[min(count, character) : max(count, character)]
        bytes_between = len(between.encode("utf-8", "surrogatepass"))
        if character >= count:
            place += bytes_between
        else:
            place += -bytes_between
        self._known = (place, character)
        return place

    def before(self, at: int) -> int:
        """Where the character before this place begins."""
        at -= 1
        while not self._plain and at and self.encoded[at] & 0xC0 == 0x80:
            at -= 1
        return at

    def after(self, at: int) -> int:
        """Where the next character begins, or one past the end."""
        at += 1
        while not self._plain and at < len(self.encoded) and self.encoded[at] & 0xC0 == 0x80:
            at += 1
        return at

    def in_characters(self, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """The text between two matches is counted once, since they come in order."""
        if self._plain:
            return spans
        known, count = self._known
        characters = {-1: -1}
        for place in sorted({place for span in spans for place in span if place >= 0}):
            between = self.encoded[min(known, place) : max(known, place)]
            characters_between = len(between.decode("utf-8", "surrogatepass"))
            if place >= known:
                count += characters_between
            else:
                count += -characters_between
            known = place
            characters[place] = count
        self._known = (known, count)
        return [(characters[start], characters[end]) for start, end in spans]


class _LinearMatch:
    __slots__ = ("_names", "_spans", "string")

    def __init__(self, string: str, spans: list[tuple[int, int]], names: dict[str, int]) -> None:
        self.string = string
        self._spans = spans
        self._names = names

    @property
    def lastgroup(self) -> str | None:
        """The name of the outermost group that closed last."""
        last = 0
        for number, (_, end) in enumerate(self._spans[1:], 1):
            # If two groups close at one place, the outer has the lower number, and it closes last.
            if end >= 0 and (last == 0 or end > self._spans[last][1]):
                last = number
        return next((name for name, number in self._names.items() if number == last), None)

    def span(self, group: int | str = 0, /) -> tuple[int, int]:
        if isinstance(group, str):
            number = self._names.get(group, -1)
        else:
            number = group
        if not 0 <= number < len(self._spans):
            raise IndexError("no such group")
        return self._spans[number]

    def start(self, group: int | str = 0, /) -> int:
        return self.span(group)[0]

    def end(self, group: int | str = 0, /) -> int:
        return self.span(group)[1]

    def __getitem__(self, group: int | str, /) -> Any:
        start, end = self.span(group)
        if start < 0:
            return None
        return self.string[start:end]

    def group(self, *groups: int | str) -> Any:
        if len(groups) > 1:
            return tuple(self[each] for each in groups)
        return self[groups[0] if groups else 0]

    def groups(self, default: Any = None) -> tuple[Any, ...]:
        found = (self[number] for number in range(1, len(self._spans)))
        return tuple(default if each is None else each for each in found)

    def groupdict(self, default: Any = None) -> Mapping[str, Any]:
        found = {name: self[name] for name in self._names}
        return {name: default if each is None else each for name, each in found.items()}

    def expand(self, template: str) -> str:
        return _REFERENCE.sub(self._expanded, template)

    def _expanded(self, reference: re.Match[str]) -> str:
        number = reference["number"] or reference["name"]
        if number is None:
            return _ESCAPES[reference["escape"]]
        return self[int(number) if number.isdigit() else number] or ""


_REFERENCE = re.compile(r"\\(?:(?P<number>[1-9]\d?)|g<(?P<name>\w+)>|(?P<escape>[\\nrt]))")
_ESCAPES = {"\\": "\\", "n": "\n", "r": "\r", "t": "\t"}
