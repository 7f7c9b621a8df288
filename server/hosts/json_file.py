"""JSON files with comments and trailing commas, changed in one place: everything else keeps its bytes."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from layerlore.storage.core import linear_re
from layerlore.storage.core.records import Json

_COMMENT = r"/\*(?:[^*]|\*+[^*/])*\*+/"
# Spaces and whole comments, so that no comma in a comment counts.
_TRAILING_COMMA = linear_re.compile(rf"(?:\s|//[^\n]*\n|{_COMMENT})*,")
# A string or a comment that nothing closes runs to the line's or the text's end.
_TOKEN = linear_re.compile(r'"(?:[^"\\\n]|\\[\s\S])*"?|//[^\n]*|/\*(?:[^*]|\*+[^*/])*(?:\*+/|\Z)|[^\s"/,}\]]+|[/,}\]]')
_END_OF_LINE = linear_re.compile(r"(?:[ \t]*(?://[^\n]*|/\*[^\n]*?\*/))?")
_BUT_LINES = linear_re.compile(r"[^\n]")
_LINE_ENDS = linear_re.compile(r"[ \t]*\r?\n")
_LINE_BEGINS = linear_re.compile(r"(?:\r?\n)?\Z")
_DECODER = json.JSONDecoder()
_INDENT = "  "


@dataclass(frozen=True, slots=True)
class _Member:
    """Where a member of an object stands: its key and value, from the first quotation mark to the value's end."""

    key: str
    starts: int
    value: int
    ends: int


def parse_json(text: str) -> Json:
    """The object that a text holds, where an empty one is an object without members.

    Raises ValueError, with the line, if it is not JSON with comments, or no object.
    """
    plain = _blank(text)
    if plain.strip():
        value = json.loads(plain)
    else:
        value = {}
    if not isinstance(value, dict):
        raise ValueError("it holds no object")  # of its content, as for any other text
    return value


def set_json(text: str, path: Sequence[str], value: Json) -> str:
    """The text with the value under the keys, in objects that are made where they are missing."""
    if not _blank(text).strip():
        return text + json.dumps(_nest(path, value), indent=2, ensure_ascii=False) + "\n"
    plain, at = _blank(text), _start(_blank(text))
    for depth, key in enumerate(path):
        members = list(_members(plain, at))
        member = next((member for member in reversed(members) if member.key == key), None)
        if member is None:
            return _insert(text, plain, at, members, key, _nest(path[depth + 1 :], value), depth)
        if depth == len(path) - 1 or plain[member.value] != "{":
            new = _nest(path[depth + 1 :], value)
            return text[: member.value] + _dump(new, _indent_at(text, member.starts)) + text[member.ends :]
        at = member.value
    return text


def drop_json(text: str, path: Sequence[str]) -> str:
    """The text without the member under the keys, and without the comma that it needs no more."""
    plain, at = _blank(text), _start(_blank(text))
    for key in path[:-1]:
        inside = next((member for member in _members(plain, at) if member.key == key), None)
        if inside is None or plain[inside.value] != "{":
            return text
        at = inside.value
    members = list(_members(plain, at))
    place = next((place for place, member in enumerate(members) if member.key == path[-1]), None)
    if place is None:
        return text
    return _cut(text, plain, at, members, place)


def _cut(text: str, plain: str, at: int, members: Sequence[_Member], place: int) -> str:
    starts, ends = members[place].starts, members[place].ends
    following, trailing = _skip(plain, ends), _trailing_comma(text, ends)
    if (
        len(members) == 1
        and trailing is None
        and not text[at + 1 : starts].strip()
        and not text[ends:following].strip()
    ):
        return text[: at + 1] + text[following:]
    comma = None
    if plain[following] == ",":
        ends = following + 1
    elif trailing is not None:
        ends = trailing + 1
    elif place:
        comma = _skip(plain, members[place - 1].ends)
    while text[starts - 1] in " \t":
        starts -= 1
    if _LINE_ENDS.match(text, ends):  # its own line goes whole; else the line's end may be that of a comment
        starts -= len(_LINE_BEGINS.search(text, 0, starts)[0])  # type: ignore[index]  # it may be empty
    if comma is not None:
        return text[:comma] + text[comma + 1 : starts] + text[ends:]
    return text[:starts] + text[ends:]


def _blank(text: str) -> str:
    """The text as plain JSON, each character at its place: comments and trailing commas are spaces."""
    plain: list[str] = []
    end = 0
    comma: int | None = None
    text = text.replace("\ufeff", " ")
    for found in _TOKEN.finditer(text):
        piece = found.group()
        plain.append(text[end : found.start()])
        end = found.end()
        is_comment = piece.startswith("/*") and piece.endswith("*/") and len(piece) > 3
        if is_comment or piece.startswith("//"):
            plain.append(_BUT_LINES.sub(" ", piece))
            continue
        if piece in ("}", "]") and comma is not None:
            plain[comma] = " "
        if piece == ",":
            comma = len(plain)
        else:
            comma = None
        plain.append(piece)
    plain.append(text[end:])
    return "".join(plain)


def _start(plain: str) -> int:
    return len(plain) - len(plain.lstrip())


def _members(plain: str, at: int) -> Iterator[_Member]:
    """The members of the object that begins at ``at``."""
    place = _skip(plain, at + 1)
    while plain[place] != "}":
        key, after = _DECODER.raw_decode(plain, place)
        value = _skip(plain, _skip(plain, after) + 1)
        _, ends = _DECODER.raw_decode(plain, value)
        yield _Member(key, place, value, ends)
        place = _skip(plain, ends)
        if plain[place] == ",":
            place = _skip(plain, place + 1)


def _skip(plain: str, at: int) -> int:
    while plain[at] in " \t\r\n":
        at += 1
    return at


def _insert(text: str, plain: str, at: int, members: Sequence[_Member], key: str, value: Json, depth: int) -> str:
    """The text with a new last member in the object that begins at ``at``."""
    if not members:
        outer = _indent_at(text, at)
        new = f"\n{outer}{_INDENT}{json.dumps(key)}: {_dump(value, outer + _INDENT)}\n{outer}"
        close = _skip(plain, at + 1)
        return text[: at + 1] + text[at + 1 : close].rstrip() + new + text[close:]
    last = members[-1]
    before = text[: last.starts]
    own_line = before[before.rfind("\n") + 1 :]
    if not own_line.strip():
        indent = own_line
    else:
        indent = ""
    comma = _trailing_comma(text, last.ends)
    if comma is None:
        after = last.ends
    else:
        after = comma + 1
    tail = _END_OF_LINE.match(text, after)[0]  # type: ignore[index]  # it may be empty
    if "\n" in before[at:] or "//" in tail:
        gap = f"\n{indent}"
    else:
        gap = " "
    new = f"{gap}{json.dumps(key, ensure_ascii=False)}: {_dump(value, indent) if gap != ' ' else json.dumps(value)}"
    rest = text[after + len(tail) :]
    if comma is not None:
        return text[:after] + tail + new + "," + rest
    return text[:after] + "," + tail + new + rest


def _trailing_comma(text: str, at: int) -> int | None:
    """Where a comma stands after the last member, if there is one."""
    found = _TRAILING_COMMA.match(text, at)
    if found:
        return found.end() - 1
    return None


def _indent_at(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _dump(value: object, indent: str) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False).replace("\n", "\n" + indent)


def _nest(path: Sequence[str], value: object) -> Json:
    for key in reversed(path):
        value = {key: value}
    return value  # type: ignore[return-value]
