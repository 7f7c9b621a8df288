"""Which parts of a tool's answer hold what is stored, by the answer's type; whoever sees them needs ``read``."""

from collections.abc import Mapping
from typing import Annotated, Any, NotRequired, get_args, get_origin

from typing_extensions import get_type_hints, is_typeddict

from layerlore.memory.rules.stored import STORED


def holds_stored(answer: Any) -> bool:
    """Whether an answer of this type may hold what is stored."""
    return any(_is_stored(hint) or holds_stored(_inner(hint)) for hint in _keys(answer).values())


def drop_stored(answer: Any, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """An answer of this type as those may see it who may not read: without the keys that hold what is stored."""
    keys = _keys(answer)
    return {key: _reduced(keys.get(key), value) for key, value in given.items() if not _is_stored(keys.get(key))}


def _reduced(hint: Any, value: Any) -> Any:
    inner = _inner(hint)
    if not is_typeddict(inner):
        return value
    if isinstance(value, list):
        return [drop_stored(inner, each) for each in value]
    return drop_stored(inner, value)


def _keys(answer: Any) -> Mapping[str, Any]:
    return get_type_hints(answer, include_extras=True) if is_typeddict(answer) else {}


def _is_stored(hint: Any) -> bool:
    if get_origin(hint) is NotRequired:
        (hint,) = get_args(hint)
    return get_origin(hint) is Annotated and STORED in get_args(hint)[1:]


def _inner(hint: Any) -> Any:
    """The type of an object, or of the objects of a list."""
    while get_origin(hint) in (NotRequired, Annotated, list):
        hint = get_args(hint)[0]
    return hint
