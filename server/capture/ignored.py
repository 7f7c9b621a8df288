"""Paths that stay out of the memory: ``.layerloreignore``, in the syntax of ``.gitignore``, in a session's folder and above
it, as far as its repository reaches. A file counts if it is the user's own, or the owner's of the folder that it is in."""

import contextlib
import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from pathspec import GitIgnoreSpec

from layerlore.server.process.safe_files import find_top, read_regular
from layerlore.storage.core import linear_re

FILE = ".layerloreignore"
_MOST_BYTES = 64 * 1024
_MOST_LINES = 2_000
# A name that no pattern names: only one that leaves out everything matches it.
_ANY = "layerlore-any/layerlore-any"
_PATH_KEY = linear_re.compile("path|file|dir|folder|uri|root|cwd", linear_re.IGNORECASE)
_COMMAND_KEYS = ("command", "cmd", "script", "input", "patch", "CommandLine")
_LINE_PATH = linear_re.compile(r"(?:[A-Za-z]:[\\/])?[^:\s]*")
_WORD = linear_re.compile(r"""[^\s"'`;|&<>()=,]+""")
_PATCHED = linear_re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", linear_re.MULTILINE)
_LONGEST_PATH = 4096
_MOST_WORDS = 2000


class IgnoredPaths:
    """The rules of the files in a folder and above it."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(os.path.normpath(Path(folder or os.sep).absolute()))
        self._rules = [*_read_rules(self._folder)]

    @property
    def is_everything(self) -> bool:
        """Whether the folder itself is left out, with all its conversations."""
        return any(spec.match_file(_ANY) for at, spec in self._rules if at == self._folder) or self._has(
            self._folder, "/"
        )

    def has(self, path: str) -> bool:
        """Whether a path, absolute or in the folder, is left out."""
        # Without a rule nothing is left out, and most folders have none: this is the fast way.
        if not self._rules or not path or len(path) > _LONGEST_PATH or "\0" in path:
            return False
        plain = os.path.expanduser(path.removeprefix("file://"))  # noqa: PTH111 - Path raises where no home is known
        whole = Path(os.path.normpath(self._folder / plain))
        # A pattern that ends in a slash matches folders only, and the path may be one that no longer exists.
        return self._has(whole, "") or self._has(whole, "/")

    def has_any(self, arguments: Any) -> bool:
        """Whether a tool's arguments name a path that is left out."""
        return bool(self._rules) and any(map(self.has, _find_paths(arguments)))

    def strip_lines(self, text: str) -> str:
        """The text without lines that begin with such a path, as searches through files answer."""
        if not self._rules:
            return text
        return "\n".join(line for line in text.split("\n") if not self.has(_LINE_PATH.match(line)[0]))  # type: ignore[index]

    def _has(self, path: Path, ending: str) -> bool:
        for at, spec in self._rules:
            # As in Git, a file's patterns are relative to the folder that it lies in.
            if path != at and path.is_relative_to(at) and spec.match_file(path.relative_to(at).as_posix() + ending):
                return True
        return False


def _read_rules(folder: Path) -> Iterator[tuple[Path, GitIgnoreSpec]]:
    top = Path(find_top(str(folder / FILE)))
    above = [each for each in folder.parents if each.is_relative_to(top)]
    for at in (folder, *above):
        try:
            # Another user's file in a shared folder could otherwise switch off the memory.
            owners = (os.geteuid(), at.stat().st_uid) if hasattr(os, "geteuid") else ()
            # Links are not followed, and one byte more than allowed shows that a file is too large.
            content = read_regular(str(at / FILE), _MOST_BYTES + 1, follow=False, owners=owners)
        except OSError:
            continue
        yield at, _compile(content)


@lru_cache(maxsize=16)
def _compile(content: bytes) -> GitIgnoreSpec:
    """The rules of a file, matched in linear time. A file that is too large or complex for that leaves out everything,
    because its owner's wish is unknown."""
    lines = content.decode("utf-8-sig", "replace").splitlines()
    if len(content) <= _MOST_BYTES and len(lines) <= _MOST_LINES:
        with contextlib.suppress(Exception):  # pathspec raises several, and RE2 its own
            # RE2 matches in linear time; a repository's pattern could otherwise stall the server.
            return GitIgnoreSpec.from_lines(lines, backend="re2")
    return GitIgnoreSpec.from_lines(["*"], backend="re2")


def _find_paths(arguments: Any, key: str = "") -> Iterator[str]:
    """The texts among a tool's arguments that are paths, or words of a command."""
    if isinstance(arguments, dict):
        for name, value in arguments.items():
            yield from _find_paths(value, str(name))
    elif isinstance(arguments, list):
        for value in arguments:
            yield from _find_paths(value, key)
    elif isinstance(arguments, str):
        if key in _COMMAND_KEYS:
            yield from _PATCHED.findall(arguments)
            # The number is bounded, since each word is matched against each rule.
            yield from _WORD.findall(arguments)[:_MOST_WORDS]
        elif _PATH_KEY.search(key):
            yield arguments
