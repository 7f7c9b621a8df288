"""JSON Schemas from callers and settings, and checks of values against them. Nothing is fetched, and each check ends.

A schema is draft 2020-12 unless its ``$schema`` names another. ``format`` is not checked, as the specification allows.

Regular expressions are compiled within a limit of size and searched within a limit of time. Schemas use ECMA-262's
syntax. Python's ``(?P<name>...)`` and flags are accepted too. Syntax that only the ``regex`` package knows (recursion,
fuzzy matching) is refused.
"""

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import jsonschema
import regex
from jsonschema import FormatChecker, ValidationError
from jsonschema.exceptions import best_match
from jsonschema.protocols import Validator
from jsonschema.validators import extend
from jsonschema_specifications import REGISTRY as KNOWN_SCHEMAS  # type: ignore[import-untyped]
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT4, DRAFT6, DRAFT7, DRAFT201909, DRAFT202012

from layerlore.memory.rules.validation import check_json, count_json_bytes, describe, describe_choices, load_json
from layerlore.storage.core.errors import InvalidInput, LimitExceeded
from layerlore.storage.core.json_text import to_json
from layerlore.storage.core.records import Json, StoredJson

SECONDS = 0.1
_MOST_CHARS = 2000
# A fixed repetition is written out when the expression is compiled, 270 bytes for each of its atoms.
_MOST_ATOMS = 10_000
_TOKEN = re.compile(
    r"\\[pP]\{[\w ^=]+\}|\\.|\[\^?[^\]\\](?:\\.|[^\]\\])*\]|\[\^?\\.(?:\\.|[^\]\\])*\]"
    r"|(?P<open>\((?:\?(?:[:=!]|<[=!]|P?<\w+>|[ims]+:))?(?!\?))|\(\?(?:P=\w+|[ims]+)\)|(?P<close>\))"
    r"|\{(?P<least>\d+)(?:,\d*)?\}|[^\\\[\](){}]|[\]}]",
    re.DOTALL,
)


@lru_cache(maxsize=256)
def compile_pattern(pattern: str, where: str) -> regex.Pattern[str]:
    """Compile an expression. Raises InvalidInput for a syntax error, LimitExceeded for one that is too large."""
    if len(pattern) > _MOST_CHARS:
        raise LimitExceeded(f"{where}: a pattern of {len(pattern):,} characters; at most {_MOST_CHARS:,} are allowed")
    if _atoms(pattern, where) > _MOST_ATOMS:
        raise LimitExceeded(f"{where}: the pattern {describe(pattern)} repeats more than {_MOST_ATOMS:,} times in all")
    try:
        return regex.compile(pattern)
    except (regex.error, RecursionError) as error:
        raise InvalidInput(f"{where}: {describe(pattern)} is not a valid regular expression: {error}") from None


def search_pattern(pattern: str, text: str, where: str) -> bool:
    """Whether the expression matches anywhere in the text. Raises LimitExceeded when the search takes too long."""
    try:
        # ``concurrent`` releases the GIL, so that other threads go on during a long search.
        return compile_pattern(pattern, where).search(text, timeout=SECONDS, concurrent=True) is not None
    except (TimeoutError, MemoryError):
        raise LimitExceeded(
            f"{where}: the pattern {describe(pattern)} takes too long for a text of {len(text):,} characters"
        ) from None


def _atoms(pattern: str, where: str) -> int:
    """Count the atoms of an expression with its fixed repetitions written out."""
    sizes, last, at = [0], 0, 0
    while at < len(pattern):
        token = _TOKEN.match(pattern, at)
        if token is None:
            raise InvalidInput(
                f"{where}: {describe(pattern)} is not a valid regular expression from character {at} on; "
                "ECMA-262's syntax is allowed, and a literal brace needs a backslash"
            )
        at = token.end()
        if token["open"]:
            sizes.append(0)
        elif token["close"] and len(sizes) > 1:
            last = sizes.pop() + 1
            sizes[-1] += last
        elif token["least"]:
            # Nine digits are enough to exceed the limit, and a longer number would take time to read.
            again = last * (min(int(token["least"][:9]), _MOST_ATOMS * 10) - 1)
            sizes[-1] += max(again, 0)
            last += max(again, 0)
        else:
            last = 1
            sizes[-1] += 1
    return sum(sizes)


# How many references may lead to places where the draft expects no schema.
_MOST_ELSEWHERE = 20
# How many schemas may be applied to one and the same value, each because of the one before.
_LONGEST_CHAIN = 32

# Pairs of keywords that the package has no bounded way to check.
_UNFIT = (
    ("unevaluatedProperties", "patternProperties"),
    ("unevaluatedProperties", "$dynamicRef"),
    ("unevaluatedItems", "$dynamicRef"),
    ("unevaluatedProperties", "$recursiveRef"),
    ("unevaluatedItems", "$recursiveRef"),
)


class SchemaWalk:
    """Finds references that cannot be followed: out of the schema, to nothing, or in a circle."""

    def __init__(self, specification: Any, check: Callable[[Any, str], None], schema: Json, where: str) -> None:
        """``check`` refuses what is not a schema by the draft."""
        self._specification = specification
        self._check = check
        self._where = where
        self._pending: list[tuple[Any, Any]] = []
        self._seen: dict[int, Json] = {}
        self._references: list[tuple[Json, str, Any]] = []
        self._targets: dict[int, list[Any]] = {}
        self._keywords: set[str] = set()
        self._elsewhere = 0
        self._chains: dict[int, int] = {}
        root = specification.create_resource(schema)
        base = root.id() or ""
        try:
            self._pending.append((schema, Registry().with_resource(base, root).crawl().resolver(base)))
        except ValueError:
            raise InvalidInput(f"{where}: its $id is not a valid URI") from None

    def check(self) -> None:
        """Raises InvalidInput, LimitExceeded."""
        while self._pending or self._references:
            if self._pending:
                self._visit(*self._pending.pop())
            else:
                self._follow(*self._references.pop())
        for one, other in _UNFIT:
            if {one, other} <= self._keywords:
                raise InvalidInput(f"{self._where}: {one} beside {other} cannot be checked here")
        for schema in self._seen.values():
            self._chain(schema, 1)

    def _visit(self, schema: Any, resolver: Any) -> None:
        if isinstance(schema, bool) or id(schema) in self._seen:
            return
        self._seen[id(schema)] = schema
        self._keywords.update(schema)
        # The walk and the validator know only one draft for the whole schema.
        if isinstance(schema.get("$schema"), str):
            raise InvalidInput(f"{self._where}: $schema is allowed only at the top")
        for pattern in (*([schema["pattern"]] if "pattern" in schema else ()), *schema.get("patternProperties", ())):
            compile_pattern(pattern, self._where)
        self._references += [(schema, schema[name], resolver) for name in ("$ref", "$dynamicRef") if name in schema]
        for inner in self._specification.create_resource(schema).subresources():
            self._pending.append((inner.contents, resolver.in_subresource(inner)))

    def _follow(self, schema: Json, reference: str, resolver: Any) -> None:
        try:
            target = resolver.lookup(reference)
        # The last three: a pointer that goes on below a text or a number, or into a list by a name.
        except (Unresolvable, ValueError, TypeError, AttributeError):
            raise InvalidInput(
                f"{self._where}: $ref {describe(reference)} points to nothing; it must name a place in this schema, "
                "such as '#/$defs/name' (nothing is fetched)"
            ) from None
        self._targets.setdefault(id(schema), []).append(target.contents)
        if id(target.contents) not in self._seen and not isinstance(target.contents, bool):
            self._elsewhere += 1
            if self._elsewhere > _MOST_ELSEWHERE:
                raise LimitExceeded(f"{self._where}: more than {_MOST_ELSEWHERE} $refs point outside of $defs")
            if not isinstance(target.contents, dict):
                raise InvalidInput(
                    f"{self._where}: $ref {describe(reference)} points to something that is not a schema"
                )
            self._check(target.contents, self._where)
            self._pending.append((target.contents, target.resolver))

    def _chain(self, schema: Any, length: int) -> int:
        """How many schemas are applied to a value one because of the other, from this one on."""
        if not isinstance(schema, dict):
            return 0
        known = self._chains.get(id(schema))
        if length + (known or 1) - 1 > _LONGEST_CHAIN:
            raise LimitExceeded(
                f"{self._where}: references are circular, or more than {_LONGEST_CHAIN} deep for one value"
            )
        if known is None:
            known = 1 + max((self._chain(inner, length + 1) for inner in self._beside(schema)), default=0)
            self._chains[id(schema)] = known
        return known

    def _beside(self, schema: Json) -> Iterator[Any]:
        """The schemas that are applied to the same value as this one."""
        yield from self._targets.get(id(schema), ())
        yield from (schema[name] for name in ("not", "if", "then", "else") if name in schema)
        for name in ("allOf", "anyOf", "oneOf"):
            yield from schema.get(name, ())
        for name in ("dependentSchemas", "dependencies"):
            yield from schema.get(name, {}).values()


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
    """Describe the first ``MOST`` violations, each with its path; empty if none exist."""
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
        if isinstance(rule, str):
            kinds = [rule]
        else:
            kinds = rule
        return f"must be {' or '.join(_KINDS.get(str(kind), str(kind)) for kind in kinds)}, not {describe(value)}"
    if keyword == "required":
        return f"lacks {_listed(key for key in rule if key not in value)}"
    if keyword == "additionalProperties":
        if isinstance(error.schema, dict):
            known = sorted(error.schema.get("properties", {}))
        else:
            known = []
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
    """The errors by the most likely kind of value, else by each kind."""
    nearest = best_match([error])
    if nearest is not error:
        return _describe(nearest, where)
    return _cut(", or ".join(dict.fromkeys(_violation(inner, where) for inner in error.context)), _LONGEST)


def _listed(values: Iterable[Any]) -> str:
    return _cut(", ".join(_quote(value) for value in values), _LONGEST)


def _quote(value: Any) -> str:
    return _cut(json.dumps(value, ensure_ascii=False), _LONGEST)


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    return text[:most] + "…"


def make_equality_key(value: Any) -> str:
    """A text that equal JSON values share and no others: 1 equals 1.0, true is not 1, the order of keys is ignored."""
    return json.dumps(_without_forms(value), ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def _without_forms(value: Any) -> Any:
    """The value with each number in one form."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _without_forms(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_without_forms(entry) for entry in value]
    return value


def merge_json(target: Any, more: Any) -> Any:
    """Merge a JSON value into another, as an append to a JSON document does. Changes neither argument.

    Objects merge key by key, a list gets the entries that it lacks, each once, and everything else is overwritten, also
    by null. Merging the same value again changes nothing.
    """
    if isinstance(target, dict) and isinstance(more, dict):
        added = {key: merge_json(target[key], value) if key in target else value for key, value in more.items()}
        return {**target, **added}
    if isinstance(target, list) and isinstance(more, list):
        there = {make_equality_key(entry) for entry in target}
        new: dict[str, Any] = {}
        for entry in more:
            key = make_equality_key(entry)
            if key not in there:
                new.setdefault(key, entry)
        return [*target, *new.values()]
    return more


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
    # A check such as multipleOf divides, and a float has no room for every integer.
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
                # The text of an error quotes the value, so errors on large values cost memory.
                budget.spend(len(error.message) // _CHARS_A_STEP)
                yield error
        finally:  # also if the caller ignores the other errors
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
    # With an empty registry no reference can be fetched.
    validator: Validator = draft.bounded(schema, registry=Registry())
    return validator


def _draft_of(schema: Json, where: str) -> _Draft:
    named = schema.get("$schema", _DEFAULT)
    # Older drafts end their name with "#", and many schemas leave it out.
    if not isinstance(named, str) or named.rstrip("#") not in _DRAFTS:
        raise InvalidInput(f"{where}.$schema: unknown draft; allowed: {', '.join(_DRAFTS)}")
    return _DRAFTS[named.rstrip("#")]
