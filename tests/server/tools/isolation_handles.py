"""The handles that a person was given: collected from all they sent and were answered, so that those of a new tool are
among them; and for each one like it that is nobody's."""

import base64
import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

# Under such a name lies what a later call can name something by.
_NAMING = re.compile(
    r"(^|_)(ids?|uids?|uris?|cursor|claim|confirm|token|deletion|receipt|job|key|mark|revision|versions?|seqs?|first|last|"
    r"before|after|offset|next|version)$"
)
_PLURAL = {
    "ids": "id",
    "uids": "uid",
    "uris": "uri",
    "versions": "version",
    "seqs": "seq",
    "uid": "id",
    "deletion": "id",
}
_NUMBERS = {"first": "seq", "last": "seq", "before": "seq", "after": "seq", "offset": "seq", "next": "seq"}
# In a text that is no JSON: a token that it tells to send, or what only a machine would write.
_TOLD = re.compile(r"""\w+="([^"\s]{6,})"|([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f-]{22}|\b(?=\w*\d)(?=\w*[a-z])\w{12,}\b)""")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_DIGITS = str.maketrans("0123456789abcdef", "1234567890bcdefa")
_LETTERS = str.maketrans(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
    "bcdefghijklmnopqrstuvwxyzaBCDEFGHIJKLMNOPQRSTUVWXYZA1234567890",
)
_SHORTEST = 4
# What names nothing of one person: times, versions of programs, what is there for everybody, the thread of a process.
_OF_ALL = re.compile(r"\d{4}-\d\d-\d\dT.*|\d+\.\d+\.\d+|memory://[a-z]+|(memory://threads/)?session-.*|.*canary|last")

Handle = str | int


def kind_of(name: str) -> str:
    """``thread_id``, ``id`` for ids, ``version`` for expected_version and so on; "" for what names nothing."""
    if name == "undo":
        return "undo_id"
    found = _NAMING.search(name)
    if name.endswith("_id") and name != "message_id":
        return name
    last = found[2] if found else ""
    return _NUMBERS.get(last) or _PLURAL.get(last, last)


class Handles:
    """``of`` has them by kind; texts of less than 4 characters, which anything may have in it, are none, and neither are
    the words that nobody else may see."""

    def __init__(self) -> None:
        self.of: dict[str, dict[Handle, None]] = {}
        self._unknown: dict[str, str] = {}

    def collect(self, value: Any, name: str = "") -> None:
        match value:
            case dict():
                for key, inner in value.items():
                    self.collect(inner, key)
            case list():
                for inner in value:
                    self.collect(inner, name)
            case bool() | None:
                pass
            case int() if kind_of(name):
                self._keep(kind_of(name), value)
            case str() if kind_of(name):
                self._keep(kind_of(name), value)
            case str():
                for found in _TOLD.finditer(value):
                    self._keep("told", found[1] or found[2])

    def _keep(self, kind: str, value: Handle) -> None:
        if isinstance(value, int) or (len(value) >= _SHORTEST and not _OF_ALL.fullmatch(value)):
            self.of.setdefault(kind, {})[value] = None

    def all(self, type_: type) -> list[tuple[str, Handle]]:
        return [(kind, value) for kind, values in self.of.items() for value in values if isinstance(value, type_)]

    def like(self, name: str, type_: type) -> list[Handle]:
        """Those that an argument of this name is meant for."""
        kind = kind_of(name)
        kinds = {kind, "told"} if kind in ("confirm", "token") else {kind}
        return [value for each in kinds if kind for value in self.of.get(each, {}) if isinstance(value, type_)]

    def unknown(self, handle: Handle) -> Handle:
        """One of the same form that names nothing. A number is the same: what it names, it names within a thread."""
        if isinstance(handle, int):
            return handle
        if handle not in self._unknown:
            self._unknown[handle] = _inside_json(handle) or self._inside(handle) or handle.translate(_LETTERS)
        return self._unknown[handle]

    def _inside(self, handle: str) -> str:
        """The same with the ids in it changed; "" if there are none."""
        made = _UUID.sub(lambda found: found[0].translate(_DIGITS), handle)
        if made == handle and ("://" in handle or "." in handle):
            for _, other in self.all(str):
                named = quote(str(other), safe="")
                if len(named) < len(handle) and named in handle:
                    return handle.replace(named, quote(str(self.unknown(other)), safe=""))
        return "" if made == handle else made

    def renaming(self) -> Mapping[str, str]:
        """Each with what it was changed to, the longest first."""
        changed = {handle: str(self.unknown(handle)) for _, handle in self.all(str) if isinstance(handle, str)}
        return dict(sorted(changed.items(), key=lambda each: -len(each[0])))


def _inside_json(handle: str) -> str:
    """A cursor is JSON in base 64: its ids are changed, its form is not. "" for what is no cursor."""
    try:
        values = json.loads(base64.urlsafe_b64decode(handle).decode())
    except ValueError:
        return ""
    if not isinstance(values, list):
        return ""
    changed = [
        _UUID.sub(lambda found: found[0].translate(_DIGITS), each) if isinstance(each, str) else each for each in values
    ]
    return base64.urlsafe_b64encode(json.dumps(changed, separators=(",", ":")).encode()).decode()
