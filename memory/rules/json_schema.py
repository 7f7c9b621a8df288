"""JSON Schemas from callers and settings, and checks of values against them. Nothing is fetched, and each check ends.

A schema is draft 2020-12 unless its ``$schema`` names another. ``format`` is not checked, as
the specification allows.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jsonschema
from jsonschema import FormatChecker, ValidationError
from jsonschema.protocols import Validator
from jsonschema.validators import extend
from jsonschema_specifications import REGISTRY as KNOWN_SCHEMAS  # type: ignore[import-untyped]
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT4, DRAFT6, DRAFT7, DRAFT201909, DRAFT202012

from layerlore.memory.rules.json_patterns import search_pattern
from layerlore.memory.rules.json_references import SchemaWalk
from layerlore.memory.rules.json_values import make_equality_key
from layerlore.memory.rules.json_violations import describe_violations
from layerlore.memory.rules.validation import check_json, count_json_bytes, describe, load_json
from layerlore.storage.core.errors import InvalidInput, LimitExceeded
from layerlore.storage.core.json_text import to_json
from layerlore.storage.core.records import Json, StoredJson

SCHEMA_BYTES = 16 * 1024
_DEPTH = 48
# Keywords applied to a value, each with a share for the text of the errors it makes; and the time, for what one takes.
_MOST_STEPS = 100_000
_CHARS_A_STEP = 64
_SECONDS = 3.0
# Keywords inside one another, up to 4 frames each: the interpreter must never get near its limit of 1,000, since what
# the package keeps in Rust does not survive a RecursionError.
_MOST_NESTED = 150

Keyword = Callable[[Any, Any, Any, Any], Iterator[ValidationError] | None]


def check_schema(schema: Any, where: str) -> None:
    """Refuse a JSON Schema that cannot be used. One that can is an object of at most ``SCHEMA_BYTES``, valid by its
    draft's own schema, with references only into itself and patterns that compile.

    Raises InvalidInput, LimitExceeded.
    """
    if not isinstance(schema, dict):
        raise InvalidInput(f"{where}: must be a JSON Schema, which is an object, not {describe(schema)}")
    check_json(schema, where, depth=_DEPTH)
    size = count_json_bytes(schema)
    if size > SCHEMA_BYTES:
        raise LimitExceeded(f"{where}: {size:,} bytes of JSON Schema; at most {SCHEMA_BYTES:,} are allowed")
    _validator(to_json(schema), where)


def check_against(value: Any, schema: Json, where: str) -> None:
    """Refuse a JSON value that violates the schema, and name the places of up to 5 violations and what is allowed there.

    Raises InvalidInput, LimitExceeded when the check would take too long, and what ``check_schema`` raises for the
    schema. The value has passed ``check_json``.
    """
    check_schema(schema, f"the schema of {where}")
    validator = _validator(to_json(schema), f"the schema of {where}").evolve(format_checker=_Budget(where))
    try:
        violations = describe_violations(validator.iter_errors(value), where)
    except Unresolvable as error:
        raise InvalidInput(f"{where}: cannot be checked: its schema has a $ref to nothing: {error}") from None
    except ArithmeticError:
        raise LimitExceeded(f"{where}: cannot be checked: a number in it is too large for its schema") from None
    if violations:
        raise InvalidInput(violations)


class _Budget(FormatChecker):
    """The budget of one check. It poses as a format checker, because that is what the validator passes on to every part
    of a check, and to nothing else. It checks no format."""

    def __init__(self, where: str) -> None:
        super().__init__(formats=())
        self.where = where
        self._steps = _MOST_STEPS
        self._nested = 0
        self._until = time.monotonic() + _SECONDS

    def spend(self, steps: int) -> None:
        self._steps -= steps
        if self._steps < 0 or time.monotonic() > self._until:
            raise LimitExceeded(f"{self.where}: too large to be checked against a schema this complex")

    def enter(self) -> None:
        self._nested += 1
        if self._nested > _MOST_NESTED:
            raise LimitExceeded(f"{self.where}: too deeply nested to be checked against a schema this complex")

    def leave(self) -> None:
        self._nested -= 1


def _counted(keyword: Keyword) -> Keyword:
    def apply(validator: Any, rule: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
        budget: _Budget = validator.format_checker
        budget.spend(1)
        budget.enter()
        try:
            for error in keyword(validator, rule, value, schema) or ():
                budget.spend(len(error.message) // _CHARS_A_STEP)
                yield error
        finally:  # also where nobody asks for the other errors
            budget.leave()

    return apply


def _matches(validator: Any, pattern: str, text: str) -> bool:
    budget: _Budget = validator.format_checker
    budget.spend(1)
    return search_pattern(pattern, text, budget.where)


def _pattern(validator: Any, rule: str, value: Any, _: Json) -> Iterator[ValidationError]:
    if isinstance(value, str) and not _matches(validator, rule, value):
        yield ValidationError("does not match")


def _applied(validator: Any, schema: Any, value: Json, key: str) -> Iterator[ValidationError]:
    """A schema applied to one value of an object. (The package leaves the path out where the schema is ``false``.)"""
    for error in validator.descend(value[key], schema):
        error.path.appendleft(key)
        yield error


def _properties(validator: Any, rule: dict[str, Any], value: Any, _: Json) -> Iterator[ValidationError]:
    if isinstance(value, dict):
        for key, inner in rule.items():
            if key in value:
                yield from _applied(validator, inner, value, key)


def _pattern_properties(validator: Any, rule: dict[str, Any], value: Any, _: Json) -> Iterator[ValidationError]:
    if isinstance(value, dict):
        for pattern, inner in rule.items():
            for key in value:
                if _matches(validator, pattern, key):
                    yield from _applied(validator, inner, value, key)


def _additional_properties(validator: Any, rule: Any, value: Any, schema: Json) -> Iterator[ValidationError]:
    if not isinstance(value, dict):
        return
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    for key in value:
        if key in known or any(_matches(validator, pattern, key) for pattern in patterns):
            continue
        if rule is False:
            yield ValidationError(key)
        else:
            yield from _applied(validator, rule, value, key)


def _unique_items(_: Any, rule: bool, value: Any, __: Json) -> Iterator[ValidationError]:
    if rule and isinstance(value, list) and len({make_equality_key(entry) for entry in value}) < len(value):
        yield ValidationError("has an entry twice; its entries must be unique")


_OWN: dict[str, Keyword] = {
    "pattern": _pattern,
    "properties": _properties,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "uniqueItems": _unique_items,
}


@dataclass(frozen=True, slots=True)
class _Draft:
    """A draft of the specification: the validator that keeps to a budget, how schemas nest, and the draft's own schema,
    by which they are checked."""

    bounded: Any
    specification: Any
    own_schema: Any

    def check(self, schema: Any, where: str) -> None:
        """Refuses what is wrong by the draft's own schema. Raises InvalidInput."""
        error = next(self.own_schema.iter_errors(schema), None)
        if error is not None:
            raise InvalidInput(f"not a valid JSON Schema: {describe_violations([error], where)}")


def _unnamed(schema: StoredJson) -> StoredJson:
    """A schema that does not name its draft: for one that does, the package goes on with its own validator."""
    return {key: value for key, value in schema.items() if key != "$schema"}


_DRAFT_SCHEMAS: Registry[Any] = Registry().with_contents(
    ((uri, _unnamed(KNOWN_SCHEMAS.contents(uri))) for uri in KNOWN_SCHEMAS), default_specification=DRAFT202012
)


def _draft(plain: Any, specification: Any) -> _Draft:
    keywords = {name: _counted(_OWN.get(name, keyword)) for name, keyword in plain.VALIDATORS.items()}
    bounded = extend(plain, keywords)  # type: ignore[no-untyped-call]
    # The package compares every entry of a list with every other one.
    quick = extend(plain, {"uniqueItems": _unique_items})  # type: ignore[no-untyped-call]
    return _Draft(bounded, specification, quick(_unnamed(plain.META_SCHEMA), registry=_DRAFT_SCHEMAS))


_DEFAULT = "https://json-schema.org/draft/2020-12/schema"
_DRAFTS = {
    _DEFAULT: _draft(jsonschema.Draft202012Validator, DRAFT202012),
    "https://json-schema.org/draft/2019-09/schema": _draft(jsonschema.Draft201909Validator, DRAFT201909),
    "http://json-schema.org/draft-07/schema": _draft(jsonschema.Draft7Validator, DRAFT7),
    "http://json-schema.org/draft-06/schema": _draft(jsonschema.Draft6Validator, DRAFT6),
    "http://json-schema.org/draft-04/schema": _draft(jsonschema.Draft4Validator, DRAFT4),
}


@lru_cache(maxsize=64)
def _validator(text: str, where: str) -> Validator:
    """The validator of a schema, which is checked. It needs a budget to be used."""
    schema = load_json(text, where)
    draft = _draft_of(schema, where)
    # Where a schema names its draft, the package goes on with its own validator, which knows no budget.
    schema.pop("$schema", None)
    draft.check(schema, where)
    SchemaWalk(draft.specification, draft.check, schema, where).check()
    validator: Validator = draft.bounded(schema, registry=Registry())
    return validator


def _draft_of(schema: Json, where: str) -> _Draft:
    named = schema.get("$schema", _DEFAULT)
    if not isinstance(named, str) or named.rstrip("#") not in _DRAFTS:
        raise InvalidInput(f"{where}.$schema: unknown draft; allowed: {', '.join(_DRAFTS)}")
    return _DRAFTS[named.rstrip("#")]
