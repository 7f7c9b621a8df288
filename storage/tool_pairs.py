"""Tool calls and their results: a half whose other half was deleted is shown to nobody."""

from collections.abc import Collection, Iterable

from memstrata.storage.records import Json


def call_ids(parts: Iterable[Json]) -> set[str]:
    """Ids of the tool calls among the parts."""
    return {part["id"] for part in parts if part["type"] == "tool_call"}


def result_ids(parts: Iterable[Json]) -> set[str]:
    """Ids of the calls that the tool results among the parts answer."""
    return {part["tool_call_id"] for part in parts if part["type"] == "tool_result"}


def without(parts: list[Json], ids: Collection[str]) -> list[Json]:
    """The parts less the calls with these ids and the results of them."""
    if not ids:
        return parts
    return [
        part
        for part in parts
        if not (part["type"] == "tool_call" and part["id"] in ids)
        and not (part["type"] == "tool_result" and part["tool_call_id"] in ids)
    ]
