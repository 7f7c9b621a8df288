"""Numbers in lines: those that any program reads exactly, and that the databases can hold."""

from typing import Any, TypeGuard

MOST_SMALL = 2**31
"""Some columns hold numbers below this: revisions, levels."""


def is_number(value: Any, most: int = 2**53) -> TypeGuard[int]:
    """Whether a value is a whole number that any program reads exactly, and with which the databases can count on."""
    return type(value) is int and abs(value) < most
