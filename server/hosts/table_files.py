"""TOML and YAML files, changed in one place by libraries that keep comments and order."""

import io
from collections.abc import Sequence
from typing import Any

import tomlkit
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from layerlore.storage.core.records import Json

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
    return _dump(document)


def drop_yaml(text: str, path: Sequence[str]) -> str:
    """The text without what stands under the keys."""
    document = _round_trip().load(text) or {}
    _drop(document, path)
    return _dump(document)


def _drop(document: Any, path: Sequence[str]) -> None:
    for key in path[:-1]:
        document = document.get(key) or {}
    document.pop(path[-1], None)


def _round_trip() -> YAML:
    yaml = YAML(pure=True)
    yaml.preserve_quotes = True
    yaml.width = _NEVER_WRAPPED
    return yaml


def _dump(document: Any) -> str:
    written = io.StringIO()
    _round_trip().dump(document, written)
    return written.getvalue()
