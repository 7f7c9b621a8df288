"""The words for violations of a JSON Schema: the place, what is wrong there, and what is allowed."""

import json
from collections.abc import Iterable
from typing import Any, cast

from jsonschema import ValidationError
from jsonschema.exceptions import best_match

from layerlore.memory.rules.validation import describe, describe_choices

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
_RULES = {
    "minLength": "must have at least {} characters",
    "maxLength": "must have at most {} characters",
    "minItems": "must have at least {} entries",
    "maxItems": "must have at most {} entries",
    "minProperties": "must have at least {} keys",
    "maxProperties": "must have at most {} keys",
    "minimum": "must be at least {}",
    "maximum": "must be at most {}",
    "exclusiveMinimum": "must be more than {}",
    "exclusiveMaximum": "must be less than {}",
    "multipleOf": "must be a multiple of {}",
    "pattern": "must match the pattern {}",
    "const": "must be {}",
    "not": "must not match {}",
}


def describe_violations(errors: Iterable[ValidationError], where: str) -> str:
    """Describe the first ``MOST`` violations, each with its path; empty when there are none."""
    texts: list[str] = []
    for error in errors:
        text = _describe(error, where)
        if text in texts:
            continue
        if len(texts) == MOST:
            return "; ".join([*texts, "and more"])
        texts.append(text)
    return "; ".join(texts)


def _describe(error: ValidationError, where: str) -> str:
    return f"{_place(where, error.absolute_path)}: {_violation(error, where)}"


def _place(where: str, path: Iterable[str | int]) -> str:
    return where + "".join(f"[{part}]" if isinstance(part, int) else f".{_cut(part, _LONGEST_KEY)}" for part in path)


def _violation(error: ValidationError, where: str) -> str:
    keyword, rule, value = str(error.validator), cast(Any, error.validator_value), cast(Any, error.instance)
    if keyword == "type":
        kinds = [rule] if isinstance(rule, str) else rule
        return f"must be {' or '.join(_KINDS.get(str(kind), str(kind)) for kind in kinds)}, not {describe(value)}"
    if keyword == "required":
        return f"lacks {_listed(key for key in rule if key not in value)}"
    if keyword == "additionalProperties":
        known = sorted(error.schema.get("properties", {})) if isinstance(error.schema, dict) else []
        return f"unknown key {describe(error.message)}; {describe_choices(error.message, known) if known else 'no other is allowed'}"
    if keyword == "enum":
        return f"must be one of {_listed(rule)}, not {describe(value)}"
    if keyword in _RULES:
        return _RULES[keyword].format(_quote(rule))
    if keyword in ("anyOf", "oneOf") and error.context:
        return f"matches none of the {len(rule)} allowed kinds of value: {_nearest(error, where)}"
    if keyword == "oneOf":
        return "matches more than one of the allowed kinds of value, and must match exactly one"
    if error.schema is False:
        return "no value is allowed here"
    return _cut(error.message, _LONGEST)


def _nearest(error: ValidationError, where: str) -> str:
    """What is wrong by the kind of value that was most likely meant, else by each of them."""
    nearest = best_match([error])
    if nearest is not error:
        return _describe(nearest, where)
    return _cut(", or ".join(dict.fromkeys(_violation(inner, where) for inner in error.context)), _LONGEST)


def _listed(values: Iterable[Any]) -> str:
    return _cut(", ".join(_quote(value) for value in values), _LONGEST)


def _quote(value: Any) -> str:
    return _cut(json.dumps(value, ensure_ascii=False), _LONGEST)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[:most] + "…"
