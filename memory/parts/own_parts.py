"""The parts of a message without echoes: no calls and results of our own tools, and of texts only what is new."""

from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from layerlore.memory.text.echoes import strip_echoes, strip_value
from layerlore.memory.text.own_tools import is_own_call
from layerlore.storage.core.records import Json, Message


def strip_parts(parts: Sequence[Json], answered: Iterable[Json] = ()) -> list[Json]:
    """The parts, less calls of our own tools and the results of those, and less what of the others is an echo.

    ``answered``: the calls of earlier messages that results among the parts answer. A result whose call is unknown counts
    as ours by its tool's name, by its shape, or by our marks in it.
    """
    return _strip_parts(parts, _find_own((*answered, *parts)))


def _find_own(parts: Iterable[Json]) -> dict[str, bool]:
    """Whether each call is one of ours, by its id; of calls with one id the last counts."""
    return {part["id"]: is_own_call(part["name"], part["arguments"]) for part in parts if part["type"] == "tool_call"}


def _strip_parts(parts: Sequence[Json], called: Mapping[str, bool]) -> list[Json]:
    return [kept for part in parts if (kept := _strip_part(part, called)) is not None]


def list_unanswered(parts: Iterable[Json]) -> set[str]:
    """The ids of the calls that results among the parts answer, and that are not among them."""
    results: set[str] = set()
    calls: set[str] = set()
    for part in parts:
        if part["type"] == "tool_result":
            results.add(part["tool_call_id"])
        elif part["type"] == "tool_call":
            calls.add(part["id"])
    return results - calls


def strip_messages(messages: Iterable[Message]) -> list[Message]:
    """Messages of one thread, in order, each without its echoes; a result belongs to the latest call of its id before
    it."""
    called: dict[str, bool] = {}
    found = []
    for message in messages:
        own = _find_own(message.parts)
        answered = _find_own(message.answered)
        # A call in this message wins over an earlier one: an id such as "function:NAME" occurs many times in a
        # thread.
        parts = _strip_parts(message.parts, ChainMap(own, called, answered))
        called.update(own)
        found.append(replace(message, parts=parts))
    return found


def _strip_part(part: Json, own: Mapping[str, bool]) -> Json | None:
    match part["type"]:
        case "text":
            if part["text"]:
                return _with(part, "text", strip_echoes(part["text"]))
            return part
        case "tool_call":
            if own[part["id"]]:
                return None
            arguments = strip_value(part["arguments"])
            # A call needs arguments in the stored form, and its result may still refer to it.
            if arguments is None:
                return {**part, "arguments": {}}
            return _with(part, "arguments", arguments)
        case "tool_result":
            if own.get(part["tool_call_id"]) or is_own_call(part.get("name", ""), None):
                return None
            return _with(part, "result", strip_value(part["result"]))
        case _:
            return part


def _with(part: Json, key: str, kept: Any) -> Json | None:
    """The part with a value stripped of echoes; None if nothing is left."""
    if kept == part[key]:
        return part
    if kept:
        return {**part, key: kept}
    return None
