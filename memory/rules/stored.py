"""The mark on the keys of an answer that hold stored text or data."""

from typing import Annotated, TypeVar

T = TypeVar("T")

STORED = "holds what is stored"
Stored = Annotated[T, STORED]
"""Marks a key of an answer whose value may hold text or data that was stored: more than ids, numbers, states and times."""
