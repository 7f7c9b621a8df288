"""The forms of stored content, each masked as it is masked where it enters."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from layerlore.memory.engine.engine import Engine
from layerlore.storage.core.content_columns import Form
from layerlore.storage.core.errors import LimitExceeded
from layerlore.storage.core.json_text import to_json
from layerlore.storage.core.records import Json

MaskedValue = tuple[Any, int]


class StoredContent:
    """Masks what is stored with the patterns that are known now, whatever ``redaction`` is set to."""

    def __init__(self, engine: Engine) -> None:
        self._entering = replace(engine, redaction="all")
        self._of: dict[Form, Callable[[Any], MaskedValue]] = {
            "json": self._json,
            "parts": self._entering.masked_parts,
            "body": self._body,
            "window": self._window,
        }

    def mask(self, form: Form, stored: str) -> tuple[str, int]:
        """A column's value with its secrets masked, and how many there were; where there are none, the very same.

        JSON stays JSON. Masking what is masked changes nothing.
        """
        if form == "text" or (form == "document" and not _is_object(stored)):
            return self._entering.redactor.text(stored)
        try:
            value = json.loads(stored)
        except (ValueError, RecursionError):  # damaged on the disk: what is left of it is text
            return self._entering.redactor.text(stored)
        try:
            clean, count = self._of.get(form, self._json)(value)
        except (AttributeError, LookupError, TypeError):  # damaged, too: JSON that is not of its form
            clean, count = self._json(value)
        return (to_json(clean), count) if count else (stored, 0)

    def _json(self, value: Any) -> MaskedValue:
        """Data that resumers brought, and the like, lies deeper than what somebody sent may: then each level by itself,
        down to where it does not."""
        try:
            return self._entering.masked(value)
        except LimitExceeded:
            if isinstance(value, list):
                items = [self._json(item) for item in value]
                return [item for item, _ in items], sum(count for _, count in items)
            fields = [(*self._json(key), *self._json(item)) for key, item in value.items()]
            return {key: item for key, _, item, _ in fields}, sum(one + two for _, one, _, two in fields)

    def _body(self, body: Json) -> MaskedValue:
        return self._fields({name: value for name, value in body.items() if name != "message_id"}, body)

    def _fields(self, masked: Json, whole: Json) -> tuple[Json, int]:
        """Each value on its own, so that a name of ours is no context of it."""
        found = {name: self._json(value) for name, value in masked.items()}
        clean = {**whole, **{name: value for name, (value, _) in found.items()}}
        return clean, sum(count for _, count in found.values())

    def _window(self, policy: Json | str) -> MaskedValue:
        if isinstance(policy, str):  # the name of a profile
            return policy, 0
        rest = {name: value for name, value in policy.items() if name != "predefined"}
        clean, total = self._fields(rest, policy)
        said = []
        for message in policy.get("predefined", ()):
            spoken, in_name = self._fields({"name": message["name"]} if "name" in message else {}, message)
            parts, in_parts = self._entering.masked_parts(message["parts"])
            said.append({**spoken, "parts": parts})
            total += in_name + in_parts
        return {**clean, **({"predefined": said} if said else {})}, total


def _is_object(stored: str) -> bool:
    """Whether a document is a JSON object as we write it, and no text that happens to look like one."""
    if not stored.startswith("{"):
        return False
    try:
        read = json.loads(stored)
        return isinstance(read, dict) and to_json(read) == stored
    except (ValueError, RecursionError):
        return False
