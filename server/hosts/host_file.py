"""A host's file: read, changed in one place, checked, and put in its place whole."""

import base64
import io
import json
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote, urlencode

import tomlkit
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from layerlore.server.hosts.catalog import NAME, Format, Host, HostLaunch
from layerlore.server.process.safe_files import is_there, read_regular, remove_file, replace_file, replacing
from layerlore.storage.core import linear_re
from layerlore.storage.core.errors import LayerloreError
from layerlore.storage.core.records import Json


def make_link(host: Host, launch: HostLaunch) -> str:
    """The link for a host, or an empty string where it knows none."""
    entry = json.dumps(host.write(launch), separators=(",", ":"))
    encoded = quote(base64.b64encode(entry.encode()).decode(), safe="")
    if host.name == "cursor":
        return f"cursor://anysphere.cursor-deeplink/mcp/install?name={NAME}&config={encoded}"
    if host.name == "lm-studio":
        return f"lmstudio://add_mcp?name={NAME}&config={encoded}"
    if host.name == "vscode":
        named = json.dumps({"name": NAME, **host.write(launch)}, separators=(",", ":"))
        return f"vscode:mcp/install?{quote(named, safe='')}"
    if host.name == "goose" and not launch.url:
        command, *rest = launch.command
        described = str(host.write(launch)["description"])
        told = [("cmd", command), *(("arg", each) for each in rest), ("id", NAME), ("name", NAME)]
        return f"goose://extension?{urlencode([*told, ('description', described)])}"
    return ""


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
    # An empty file, or one with comments only, gets a whole new object below them.
    if not _blank(text).strip():
        return text + json.dumps(_nest(path, value), indent=2, ensure_ascii=False) + "\n"
    plain, at = _blank(text), _start(_blank(text))
    for depth, key in enumerate(path):
        members = list(_members(plain, at))
        # The last of equal keys counts, as in a host's parser.
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
    # The only member on its own: the object closes without an empty line inside.
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
    # A byte order mark counts as a space, so that all places stay the same.
    text = text.replace("\ufeff", " ")
    for found in _TOKEN.finditer(text):
        piece = found.group()
        plain.append(text[end : found.start()])
        end = found.end()
        is_comment = piece.startswith("/*") and piece.endswith("*/") and len(piece) > 3
        if is_comment or piece.startswith("//"):
            plain.append(_BUT_LINES.sub(" ", piece))
            continue
        # A comma before a closing bracket is allowed by hosts, but not by the JSON parser.
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
        # A comment behind the last member belongs to it, and stays on its line.
        after = comma + 1
    tail = _END_OF_LINE.match(text, after)[0]  # type: ignore[index]  # it may be empty
    if "\n" in before[at:] or "//" in tail:
        gap = f"\n{indent}"
    else:
        gap = " "
    new = f"{gap}{json.dumps(key, ensure_ascii=False)}: {_dump(value, indent) if gap != ' ' else json.dumps(value)}"
    rest = text[after + len(tail) :]
    # The file's own style stays: with a trailing comma before, there is one after.
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


_NEVER_WRAPPED = 1_000_000  # columns


def parse_toml(text: str) -> Json:
    """Raises ValueError if it is not TOML."""
    return tomlkit.parse(text).unwrap()


def set_toml(text: str, path: Sequence[str], value: Json) -> str:
    """The text with a table under the keys, at the end where it is new."""
    document = tomlkit.parse(text)
    inside: Any = document
    for key in path[:-1]:
        if key not in inside:
            # A super table writes no header of its own, as people write nested tables.
            inside[key] = tomlkit.table(is_super_table=True)
        inside = inside[key]
    inside[path[-1]] = value
    return tomlkit.dumps(document)


def drop_toml(text: str, path: Sequence[str]) -> str:
    """The text without what stands under the keys."""
    document = tomlkit.parse(text)
    _drop(document, path)
    return tomlkit.dumps(document)


def parse_yaml(text: str) -> Json:
    """Raises ValueError if it is not a YAML mapping; an empty text is an empty one."""
    try:
        value = YAML(typ="safe", pure=True).load(text)
    except YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from None
    if not isinstance(value or {}, dict):
        raise ValueError("it holds no mapping")  # of its content, as for any other text
    return value or {}


def set_yaml(text: str, path: Sequence[str], value: Json) -> str:
    """The text with the value under the keys, at the end of the mapping where it is new."""
    document = _round_trip().load(text) or {}
    inside = document
    for key in path[:-1]:
        if inside.get(key) is None:
            inside[key] = {}
        inside = inside[key]
    inside[path[-1]] = value
    return _dump_table(document)


def drop_yaml(text: str, path: Sequence[str]) -> str:
    """The text without what stands under the keys."""
    document = _round_trip().load(text) or {}
    _drop(document, path)
    return _dump_table(document)


def _drop(document: Any, path: Sequence[str]) -> None:
    for key in path[:-1]:
        document = document.get(key) or {}
    document.pop(path[-1], None)


def _round_trip() -> YAML:
    yaml = YAML(pure=True)
    yaml.preserve_quotes = True
    # A line that the library wraps anew would be a change that the user did not ask for.
    yaml.width = _NEVER_WRAPPED
    return yaml


def _dump_table(document: Any) -> str:
    written = io.StringIO()
    _round_trip().dump(document, written)
    return written.getvalue()


BACKUP = ".layerlore-backup"
_MARK = "\ufeff"
"""The byte order mark, with which some editors on Windows begin a file."""
MOST_BYTES = 64 * 1024 * 1024


class HostFileRefused(LayerloreError):
    """A host's file that cannot be changed safely. The message names it and says why."""


class HostFileChanged(LayerloreError):
    """A host's file that another program changed since it was read. The message names it."""


@dataclass(frozen=True, slots=True)
class HostChange:
    """A value under keys of a host's file. ``way``: the value is our own; or it is a list, whose items go to those that
    are there (append); or it only has to be something (default)."""

    keys: tuple[str, ...]
    value: Any
    way: Literal["own", "append", "default"] = "own"


@dataclass(frozen=True, slots=True)
class _Format:
    parse: Callable[[str], Json]
    set: Callable[[str, Sequence[str], Any], str]
    drop: Callable[[str, Sequence[str]], str]


_FORMATS: dict[Format, _Format] = {
    "json": _Format(parse_json, set_json, drop_json),
    "toml": _Format(parse_toml, set_toml, drop_toml),
    "yaml": _Format(parse_yaml, set_yaml, drop_yaml),
}


@dataclass(frozen=True, slots=True)
class HostFile:
    """A file in a format, by its path. Text is UTF-8, with its line ends kept. ``top``: the folder of a project that it
    belongs to, which may be another person's repository: no link in it is followed."""

    path: Path
    format: Format
    top: Path | None = None

    def read(self) -> str | None:
        """Its content; None if it does not exist. Raises HostFileRefused if it cannot be read."""
        try:
            # A link in another person's repository could lead to any file of the user.
            content = read_regular(str(self.path), MOST_BYTES + 1, follow=self.top is None)
            if len(content) > MOST_BYTES:
                raise HostFileRefused(f"{self.path} has more than {MOST_BYTES:,} bytes, so it stays as it is")
            return content.decode()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is not UTF-8 text"
            raise HostFileRefused(f"{self.path} cannot be read: {why}") from None

    def parse(self, text: str | None) -> Json:
        """Raises HostFileRefused if it is not what the host reads."""
        try:
            return _FORMATS[self.format].parse((text or "").removeprefix(_MARK))
        except (ValueError, IndexError) as error:
            raise HostFileRefused(
                f"{self.path} cannot be read as {self.format.upper()}, so it stays as it is: {error}; mend it, and run this again"
            ) from None

    def find(self, text: str | None, path: Sequence[str]) -> Any:
        """The value under the keys; None if none exists. Raises HostFileRefused."""
        found: Any = self.parse(text)
        for depth, key in enumerate(path):
            if not isinstance(found, dict):
                raise HostFileRefused(
                    f"{self.path}: {'.'.join(path[:depth])} is no table of servers; it stays as it is"
                )
            found = found.get(key)
            if found is None:
                return None
        return found

    def with_value(self, text: str | None, path: Sequence[str], value: Any) -> str:
        """The text with the value under the keys and all else as it was. Raises HostFileRefused."""
        expected = self.parse(text)
        # The search raises for a path that leads through something other than a table.
        self.find(text, path)
        inside = expected
        for key in path[:-1]:
            outer, inside = inside, inside.get(key) or {}
            outer[key] = inside
        inside[path[-1]] = value
        return self._edit(text or "", lambda plain: _FORMATS[self.format].set(plain, path, value), expected)

    def without(self, text: str, path: Sequence[str]) -> str:
        """The text without what stands under the keys. Raises HostFileRefused."""
        if self.find(text, path) is None:
            return text
        expected = self.parse(text)
        inside = expected
        for key in path[:-1]:
            inside = inside[key]
        del inside[path[-1]]
        without_parents = _drop_empty(expected, path[:-1])
        return self._edit(text, lambda plain: _FORMATS[self.format].drop(plain, path), expected, without_parents)

    def back_up(self) -> Path | None:
        """Copy it beside itself, under a name that nothing has yet; None if it is not there."""
        before = self.read()
        if before is None:
            return None
        count = 1
        # An earlier backup is never replaced, since it may be the only copy of the user's own text.
        while is_there(backup := str(self._name_backup(count))):
            count += 1
        mode = stat.S_IMODE(self.path.stat().st_mode)
        replace_file(backup, before.encode(), top=self._top(), mode=mode, new=True)
        return Path(backup)

    def _name_backup(self, count: int) -> Path:
        return self.path.with_name(f"{self.path.name}{BACKUP}{f'-{count}' if count > 1 else ''}")

    def _top(self) -> str:
        if self.top is None:
            return ""
        return str(self.top)

    def write(self, text: str, before: str | None) -> None:
        """Replace it whole, with its mode; a person's own file through a link if it is one. ``before``: what it held when it
        was read. Raises HostFileChanged if it holds something else by now, OSError."""
        with replacing(str(self.path), top=self._top()) as file:
            file.write(text.encode())
            file.flush()
            # Hosts write their files, too: the last moment to look is when the new one is there as a whole.
            if self.read() != before:
                raise HostFileChanged(f"{self.path} is being changed by others")

    def remove(self) -> None:
        """Remove it. Raises OSError."""
        remove_file(str(self.path), top=self._top() or str(self.path.parent))

    def check_links(self) -> None:
        """Raise HostFileRefused if a link on the way to the file leads nowhere: writing would make up a file elsewhere."""
        for each in (self.path, *self.path.parents):
            if each.is_symlink() and not each.exists():
                target = each.readlink()
                raise HostFileRefused(
                    f"{each} is a link to {target}, which does not exist: create that, or remove the link"
                )

    def _edit(self, text: str, change: Callable[[str], str], *expected: Json) -> str:
        """The text as ``change`` makes it, with its byte order mark and its line ends as they were."""
        plain = text.removeprefix(_MARK)
        # Files of Windows have two characters at each line's end, and the new lines get the same.
        of_windows = "\r\n" in plain and plain.count("\n") == plain.count("\r\n")
        if of_windows:
            changed = change(plain.replace("\r\n", "\n")).replace("\n", "\r\n")
        else:
            changed = change(plain)
        if text.startswith(_MARK):
            changed = _MARK + changed
        # The text is parsed again: a mistake in the editing must not reach the host's file.
        if self.parse(changed) not in expected:
            raise HostFileRefused(
                f"{self.path} is written in a way that cannot be changed safely, so it stays as it is"
            )
        return changed


def _drop_empty(value: Json, path: Sequence[str]) -> Json:
    """The value without the objects on a path that are empty: a table of TOML without a header is gone with its last entry."""
    if not path:
        return value
    inner = value.get(path[0])
    if isinstance(inner, dict):
        inner = _drop_empty(inner, path[1:])
    if inner:
        return {**value, path[0]: inner}
    return {name: each for name, each in value.items() if name != path[0]}
