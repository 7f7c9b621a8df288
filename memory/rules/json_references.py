"""The walk over every schema inside a JSON Schema and over the targets of its references."""

from collections.abc import Callable, Iterator
from typing import Any

from referencing import Registry
from referencing.exceptions import Unresolvable

from layerlore.memory.rules.json_patterns import compile_pattern
from layerlore.memory.rules.validation import describe
from layerlore.storage.core.errors import InvalidInput, LimitExceeded
from layerlore.storage.core.records import Json

# How many references may lead to places where the draft expects no schema.
_MOST_ELSEWHERE = 20
# How many schemas may be applied to one and the same value, each because of the one before.
_LONGEST_CHAIN = 32

_ONE = ("not", "if", "then", "else")
_LISTS = ("allOf", "anyOf", "oneOf")
_TABLES = ("dependentSchemas", "dependencies")
_REFERENCES = ("$ref", "$dynamicRef")
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
        """``check`` refuses what is no schema by the draft."""
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
        if isinstance(schema.get("$schema"), str):
            raise InvalidInput(f"{self._where}: $schema is allowed only at the top")
        for pattern in (*([schema["pattern"]] if "pattern" in schema else ()), *schema.get("patternProperties", ())):
            compile_pattern(pattern, self._where)
        self._references += [(schema, schema[name], resolver) for name in _REFERENCES if name in schema]
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
        yield from (schema[name] for name in _ONE if name in schema)
        for name in _LISTS:
            yield from schema.get(name, ())
        for name in _TABLES:
            yield from schema.get(name, {}).values()
