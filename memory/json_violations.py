"""What is wrong with a value by its JSON Schema, in words that whoever wrote the value can mend it by."""

import json
from collections.abc import Iterable
from typing import Any, cast

from jsonschema import ValidationError
from jsonschema.exceptions import best_match

from layerlore.memory.acceptance import one_of, shown

MOST = 5
_LONGEST = 200
_LONGEST_KEY = 40
_KINDS = {
    "object": "an object",
    "array": "a list",
    "string": "a string",
    "number": "a number",
    "integer": "an integer",
    "boolean": "true or false",
    "null": "null",
}
_MEASURES = {
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} entries",
    "maxItems": "at most {} entries",
    "minProperties": "at least {} keys",
    "maxProperties": "at most {} keys",
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
    "pattern": "a text that matches the pattern {}",
    "const": "{}",
}


def told(errors: Iterable[ValidationError], where: str) -> str:
    """The first violations, each with its path; empty when there are none."""
    texts: list[str] = []
    for error in errors:
        text = _told(error, where)
        if text in texts:
            continue
        if len(texts) == MOST:
            return "; ".join([*texts, "and more"])
        texts.append(text)
    return "; ".join(texts)


def _told(error: ValidationError, where: str) -> str:
    return f"{_place(where, error.absolute_path)}: {_violation(error, where)}"


def _place(where: str, path: Iterable[str | int]) -> str:
    return where + "".join(f"[{part}]" if isinstance(part, int) else f".{_cut(part, _LONGEST_KEY)}" for part in path)


def _violation(error: ValidationError, where: str) -> str:
    keyword, rule, value = str(error.validator), cast(Any, error.validator_value), cast(Any, error.instance)
    if keyword == "type":
        kinds = [rule] if isinstance(rule, str) else rule
        return f"must be {' or '.join(_KINDS.get(str(kind), str(kind)) for kind in kinds)}, not {shown(value)}"
    if keyword == "required":
        return f"lacks {_listed(key for key in rule if key not in value)}"
    if keyword == "additionalProperties":
        known = sorted(error.schema.get("properties", {})) if isinstance(error.schema, dict) else []
        return f"unknown key {shown(error.message)}; {one_of(error.message, known) if known else 'no other is allowed'}"
    if keyword == "enum":
        return f"must be one of {_listed(rule)}, not {shown(value)}"
    if keyword in _MEASURES:
        return f"must be {'of ' if isinstance(value, dict | list) else ''}" + _MEASURES[keyword].format(_shown(rule))
    if keyword in ("anyOf", "oneOf") and error.context:
        return f"is none of the {len(rule)} kinds of value that are allowed: {_nearest(error, where)}"
    if keyword == "oneOf":
        return "fits several of the kinds of value of which it must be exactly one"
    if keyword == "not":
        return f"must not fit {_shown(rule)}"
    if error.schema is False:
        return "no value is allowed here"
    return _cut(error.message, _LONGEST)


def _nearest(error: ValidationError, where: str) -> str:
    """What is wrong by the kind of value that was meant, where that can be told, else by each of them."""
    nearest = best_match([error])
    if nearest is not error:
        return _told(nearest, where)
    return _cut(", or ".join(dict.fromkeys(_violation(inner, where) for inner in error.context)), _LONGEST)


def _listed(values: Iterable[Any]) -> str:
    return _cut(", ".join(_shown(value) for value in values), _LONGEST)


def _shown(value: Any) -> str:
    return _cut(json.dumps(value, ensure_ascii=False), _LONGEST)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[:most] + "…"
