"""Lengths of time as a command line has them: 365d, 12h, 30m."""

import re

DAY_MS = 86_400_000
_UNIT_MS = {"m": 60_000, "h": 3_600_000, "d": DAY_MS}


def length_ms(given: str, *, digits: int) -> int | None:
    """In milliseconds; None for what is no length, or has more digits than that."""
    length = re.fullmatch(rf"([0-9]{{1,{digits}}})([mhd])", given)
    return int(length[1]) * _UNIT_MS[length[2]] if length else None
