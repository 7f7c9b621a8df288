"""Tool calls and their results, which belong together: a model is never shown one half alone."""

from collections.abc import Collection, Iterable

from memstrata.storage.records import Json


def call_ids(parts: Iterable[Json]) -> set[str]:
    """The ids of the tool calls among these parts."""
    return {part["id"] for part in parts if part["type"] == "tool_call"}


def result_ids(parts: Iterable[Json]) -> set[str]:
    """The ids of the calls that the tool results among these parts answer."""
    return {part["tool_call_id"] for part in parts if part["type"] == "tool_result"}


def without_calls_and_results(parts: Iterable[Json], ids: Collection[str]) -> list[Json]:
    """The parts, in order, without the tool calls and the tool results of these call ids."""
    return [part for part in parts if _call_of(part) not in ids]


def _call_of(part: Json) -> str | None:
    match part["type"]:
        case "tool_call":
            return str(part["id"])
        case "tool_result":
            return str(part["tool_call_id"])
        case _:
            return None
