"""The keys of answers: those that many answers have, their order, and the mark on keys that hold stored text or data."""

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar, cast

from typing_extensions import TypedDict

Answer = TypeVar("Answer", bound=Mapping[str, Any])


class Masked(TypedDict, total=False):
    """The number of secrets that were masked; left out at 0."""

    masked: int


def show_masked(count: int) -> Masked:
    """The count as a part of an answer."""
    if count:
        return {"masked": count}
    return {}


def order_keys(form: type[Answer], answer: Answer) -> Answer:
    """The answer with its keys in the order in which its type names them."""
    ordered = {name: answer[name] for name in form.__annotations__ if name in answer}
    return cast("Answer", ordered)


T = TypeVar("T")

STORED = "holds what is stored"
Stored = Annotated[T, STORED]
"""Marks a key of an answer whose value may hold text or data that was stored: more than ids, numbers, states and times."""
