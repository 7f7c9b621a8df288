"""Tool calls and their results: a half whose other half was deleted is shown to nobody."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from layerlore.storage.core.records import Json


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


@dataclass(frozen=True, slots=True)
class Pair:
    """A call and the messages that answer it, by seq."""

    id: str
    call: int
    results: list[int]


def pairs(messages: Iterable[tuple[int, list[Json]]]) -> list[Pair]:
    """The answered calls of a thread, from its messages' seqs and parts, oldest first.

    A result belongs to the latest call of its id before it: some models count their calls anew in each turn.
    """
    found: list[Pair] = []
    latest: dict[str, Pair] = {}
    for seq, parts in messages:
        for part in parts:
            if part["type"] == "tool_call":
                latest[part["id"]] = Pair(part["id"], seq, [])
                found.append(latest[part["id"]])
            elif part["type"] == "tool_result" and part["tool_call_id"] in latest:
                latest[part["tool_call_id"]].results.append(seq)
    return [pair for pair in found if pair.results]


def orphans(messages: Iterable[tuple[int, list[Json]]], gone: Collection[int]) -> dict[int, dict[str, int]]:
    """The halves that are left alone when the messages ``gone`` go: by the seq of the message that holds them, their
    ids, each with the seq of its other half."""
    left: defaultdict[int, dict[str, int]] = defaultdict(dict)
    for pair in pairs(messages):
        if pair.call in gone:
            for seq in pair.results:
                if seq not in gone:
                    left[seq][pair.id] = pair.call
        elif all(seq in gone for seq in pair.results):
            left[pair.call][pair.id] = pair.results[-1]
    return dict(left)
