"""How much of a list one answer holds."""

from layerlore.memory.acceptance import json_bytes
from layerlore.storage.records import Json

PAGE_BYTES = 256 * 1024
"""As compact JSON. A page ends before the entry that would exceed it, and has at least one."""


def fitting(entries: list[Json]) -> list[Json]:
    """As many of the first entries as one page holds."""
    left = PAGE_BYTES
    for count, entry in enumerate(entries):
        left -= json_bytes(entry)
        if left < 0:
            return entries[: max(count, 1)]
    return entries
