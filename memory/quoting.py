"""Stored text as models are shown it: with nothing hidden in it, and with nothing that looks like a mark of ours.

What somebody once wrote is shown to a model among lines and blocks that we make. It stays readable, but it can neither
close a block nor begin one, nor pass for a line of ours. What is stored stays as it was sent.
"""

import re
import unicodedata
from functools import cache
from typing import Any, Literal, get_args

_OPENS = "‹"
"""Stands for the sign that opens a tag, where the tag looks like one of ours."""

Tag = Literal[
    "predefined-messages",
    "user-profile",
    "observations",
    "summary",
    "conversation",
    "session-memory",
    "current-task",
    "plan",
    "previous-attempts",
    "memory",
    "current-turn",
    "conversations",
]
TAGS: tuple[Tag, ...] = get_args(Tag)
"""The blocks, in the order in which a context has them: what changes least comes first. The last one is no part of it:
it lists which conversations there are."""

_OURS = (*TAGS, "description", "value", "task", "briefing", "system-message")

# What nobody sees: controls but tab and line break, soft hyphens and fillers, zero-width characters, marks and overrides
# of direction, variation selectors, annotations, and plane 14, in which ASCII can be written invisibly (Unicode's
# Default_Ignorable_Code_Point, and the controls).
_HIDDEN = (
    "\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
)
UNSEEN = re.compile(f"[{_HIDDEN}]")
_ASCII_CONTROL = bytes(code for code in range(128) if UNSEEN.match(chr(code)) or chr(code) in "\r\x0b\x0c\x1c\x1d\x1e")
# Whatever somebody takes for the end of a line.
_BREAKS = re.compile("\r\n?|[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_JOINERS = "\u200c\u200d"
# Before this no script needs joiners.
_FIRST_JOINED = "\u0590"
_FIRST_SYMBOL = "\u2000"
_KEYCAPS = "#*0123456789©®"

_OPENERS = "<＜﹤〈⟨〈❮❰˂ᐸ⧼≺"
_BRACKETS = "[［﹝⁅"
_SLASHES = "/／⁄∕⧸╱"
_OPENER = re.compile(rf"[&＆{_OPENERS}]")
_BRACKET = re.compile(rf"[{re.escape(_BRACKETS)}]")
_ENTITY = re.compile(r"&(?:lt|#0*60|#x0*3c);?", re.IGNORECASE)
# Each place can be matched in one way only: a long run of spaces takes time in proportion to it, not to its square.
_GAP = rf"[\s{_HIDDEN}]*"
_BEFORE_NAME = re.compile(rf"{_GAP}(?:[{_SLASHES}]{_GAP})?")
_SEPARATOR = rf"[-_\s{_HIDDEN}]{{0,9}}"
_NAMES = "|".join(_SEPARATOR.join(f"[{_HIDDEN}]*".join(word) for word in name.split("-")) for name in _OURS)
# How chat templates write the ends of turns.
_TEMPLATE = re.compile(r"\|\w{1,40}\|>")
_MARK = re.compile(r"layerlore\b", re.IGNORECASE)
_PART = re.compile(r"tool[-_\s]+(?:call|result|error)\b", re.IGNORECASE)
# More than the longest of them has, with what may stand between its letters.
_LONGEST = 120
_IN_NAMES = re.compile(r"[:()\[\]#]")


def visible(text: str) -> str:
    """The text without what nobody sees, and with ``\\n`` for whatever ends a line. The joiners and variation selectors
    that scripts and emoji need stay where they are needed."""
    return _cleared(text)[0]


def hidden(text: str) -> int:
    """How many characters of the text nobody sees."""
    return _cleared(text)[1]


def _cleared(text: str) -> tuple[str, int]:
    if text.isascii():
        plain = text.encode()
        if len(plain.translate(None, _ASCII_CONTROL)) == len(plain):
            return text, 0
    text = _BREAKS.sub("\n", text)
    kept: list[str] = []
    at = removed = 0
    before = two_before = ""
    for found in UNSEEN.finditer(text):
        seen = text[at : found.start()]
        kept.append(seen)
        at = found.end()
        before, two_before = (seen[-1], seen[-2:-1] or before) if seen else (before, two_before)
        if _is_needed(found[0], two_before, before, text[at : at + 1]):
            kept.append(found[0])
            before, two_before = found[0], before
        else:
            removed += 1
    return "".join([*kept, text[at:]]), removed


def _is_needed(character: str, two_before: str, before: str, after: str) -> bool:
    """Whether what stands around a joiner or a variation selector is written with it."""
    if not before:
        return False
    if character in _JOINERS:
        base = two_before if before == "\ufe0f" else before
        seen = after and not UNSEEN.match(after) and not after.isspace()
        return bool(base >= _FIRST_JOINED and not UNSEEN.match(base) and seen and after >= _FIRST_JOINED)
    if UNSEEN.match(before):
        return False
    if "\ufe00" <= character <= "\ufe0f":
        return before >= _FIRST_SYMBOL or before in _KEYCAPS
    if "\U000e0100" <= character <= "\U000e01ef":
        return before >= "\u3400" and unicodedata.category(before) == "Lo"
    return "\u180b" <= character <= "\u180f" and "\u1800" <= before <= "\u18aa"


def visible_json(value: Any) -> Any:
    """The same JSON, each of its texts visible."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, list):
        return [visible_json(each) for each in value]
    if isinstance(value, dict):
        return {visible(key): visible_json(each) for key, each in value.items()}
    return value


def escaped(text: str) -> str:
    """The text, visible, with ``‹`` for the sign that opens whatever looks like a tag of ours, and ``(`` for the bracket
    of what looks like the line that says whose blocks are."""
    return _marked(_MARK, _tagged(visible(text)))


def quoted(text: str) -> str:
    """The same, and unmarked. For each text that somebody wrote, before anything of ours stands around it."""
    return unmarked(escaped(text))


def unmarked(text: str) -> str:
    """The text, with ``(`` for the bracket of whatever looks like a part of a message that we tell (``[tool result``)."""
    return _marked(_PART, text)


@cache
def _name() -> re.Pattern[str]:
    """Compiled with the first text that has an opener: it takes as long as importing all of this."""
    return re.compile(rf"(?:{_NAMES})(?![\w-])", re.IGNORECASE)


def _tagged(text: str) -> str:
    if text.isascii() and "<" not in text and "&" not in text:
        return text
    kept: list[str] = []
    at = 0
    for opener in _OPENER.finditer(text):
        begins, ends = opener.span()
        if opener[0] in "&＆":
            entity = _ENTITY.match(_folded(text, begins))
            if entity is None:
                continue
            ends = begins + entity.end()
        if _TEMPLATE.match(_folded(text, ends)) or _name().match(_folded(text, _end(_BEFORE_NAME, text, ends))):
            kept += (text[at:begins], _OPENS)
            at = ends
    return "".join([*kept, text[at:]]) if kept else text


def _marked(sought: re.Pattern[str], text: str) -> str:
    if text.isascii() and "[" not in text:
        return text
    kept: list[str] = []
    at = 0
    for bracket in _BRACKET.finditer(text):
        if sought.match(_folded(text, _end(_BEFORE_NAME, text, bracket.end()))):
            kept += (text[at : bracket.start()], "(")
            at = bracket.end()
    return "".join([*kept, text[at:]]) if kept else text


def _end(skipped: re.Pattern[str], text: str, at: int) -> int:
    found = skipped.match(text, at)
    return found.end() if found else at


def _folded(text: str, at: int) -> str:
    """What stands there, with ASCII for what looks like it."""
    part = text[at : at + _LONGEST]
    return part if part.isascii() else part.translate(_look_alikes())


@cache
def _look_alikes() -> dict[int, int]:
    """ASCII for characters that look like it, one for one."""
    styled = (*range(0xFF01, 0xFF5F), *range(0x1D400, 0x1D800), *range(0x24B6, 0x24EA), *range(0x2100, 0x2150))
    plain = ((code, unicodedata.normalize("NFKD", chr(code))) for code in styled)
    found = {code: ord(told) for code, told in plain if len(told) == 1 and told.isascii()}
    pairs = (
        *zip("‐‑‒–—―−﹘﹣", "-" * 9, strict=True),
        *zip("ǀ∣│", "|" * 3, strict=True),
        *zip("аеорсухіѕјԁмтпνορυαικсһӏıſɡʟ", "aeopcyxisjdmtnvopuaikchiisgl", strict=True),
        *zip("АЕОРСУХІЅМТΑΕΟΡΥΧΙΜΤΝ", "AEOPCYXISMTAEOPYXIMTN", strict=True),
    )
    return found | {ord(one): ord(other) for one, other in pairs}


def one_line(text: str) -> str:
    """A text without the breaks of its lines."""
    return " ".join(text.split())


def quoted_line(text: str) -> str:
    """A text that somebody wrote, as a part of a line of ours."""
    return one_line(quoted(text))


def indented(text: str) -> str:
    """A text whose lines but the first begin with a space: what begins without one is a line of ours."""
    return text.replace("\n", "\n ") if "\n" in text else text


def speaker(role: str, name: str | None, trust: str = "") -> str:
    """Who speaks, at the head of a line: ``user Anna``. ``trust`` stands in brackets behind it."""
    named = _IN_NAMES.sub("·", quoted_line(name)) if name else ""
    return " ".join(filter(None, (role, named, f"({trust})" if trust else "")))
