"""Tool calls and their results: what is alone in a window is stripped, since no model is given half of a pair."""

from collections.abc import Sequence

from layerlore.memory.parts import says_something
from layerlore.memory.tokens import TokenCounter
from layerlore.memory.window.changing import with_parts
from layerlore.storage.records import Message

_Place = tuple[int, int]


def without_orphans(messages: Sequence[Message], counter: TokenCounter) -> list[Message]:
    """A run of messages less the calls without a result in it, and the results without a call before them in it.

    A result belongs to the latest call of its id before it, as in ``storage.tool_pairs``. Other parts stay; a message
    that is left with nothing to say goes.
    """
    gone = _orphans(messages)
    if not gone:
        return list(messages)
    touched = {place for place, _ in gone}
    kept: list[Message] = []
    for place, message in enumerate(messages):
        if place not in touched:
            kept.append(message)
            continue
        parts = [part for at, part in enumerate(message.parts) if (place, at) not in gone]
        if any(map(says_something, parts)):
            kept.append(with_parts(message, parts, counter))
    return kept


def _orphans(messages: Sequence[Message]) -> set[_Place]:
    """Where the halves of pairs are that are alone: message and part, counted from 0."""
    latest: dict[str, _Place] = {}
    alone: set[_Place] = set()
    for place, message in enumerate(messages):
        for at, part in enumerate(message.parts):
            if part["type"] == "tool_call":
                latest[part["id"]] = (place, at)
                alone.add((place, at))
            elif part["type"] == "tool_result":
                call = latest.get(part["tool_call_id"])
                if call is None:
                    alone.add((place, at))
                else:
                    alone.discard(call)
    return alone
