"""A host's file: read, changed in one place, checked, and put in its place whole."""

import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from layerlore.server.hosts.catalog import Format
from layerlore.server.hosts.json_file import drop_json, parse_json, set_json
from layerlore.server.hosts.table_files import drop_toml, drop_yaml, parse_toml, parse_yaml, set_toml, set_yaml
from layerlore.server.process.safe_files import is_there, read_regular, remove_file, replace_file, replacing
from layerlore.storage.core.errors import LayerloreError
from layerlore.storage.core.records import Json

BACKUP = ".layerlore-backup"
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
            return _FORMATS[self.format].parse(text or "")
        except (ValueError, IndexError) as error:
            raise HostFileRefused(
                f"{self.path} is not valid {self.format.upper()}, so it stays as it is: {error}; mend it, and run this again"
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
        self.find(text, path)
        inside = expected
        for key in path[:-1]:
            outer, inside = inside, inside.get(key) or {}
            outer[key] = inside
        inside[path[-1]] = value
        return self._checked(_FORMATS[self.format].set(text or "", path, value), expected)

    def without(self, text: str, path: Sequence[str]) -> str:
        """The text without what stands under the keys. Raises HostFileRefused."""
        if self.find(text, path) is None:
            return text
        expected = self.parse(text)
        inside = expected
        for key in path[:-1]:
            inside = inside[key]
        del inside[path[-1]]
        return self._checked(_FORMATS[self.format].drop(text, path), expected)

    def back_up(self) -> Path | None:
        """Copy it beside itself, under a name that nothing has yet; None if it is not there."""
        before = self.read()
        if before is None:
            return None
        count = 1
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

    def _checked(self, text: str, expected: Json) -> str:
        if self.parse(text) != expected:
            raise HostFileRefused(
                f"{self.path} is written in a way that cannot be changed safely, so it stays as it is"
            )
        return text
