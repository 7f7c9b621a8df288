"""Pending tool calls: what a suspended run waits for, and the data that resumers bring.

They come as a list, or as an object by tool call id (n8n's ``Record<string, PendingToolCall>``), with keys in either
spelling (``tool_call_id``, ``toolCallId``). They are kept as given, except that secrets are masked. Read here
are:
- ``tool_call_id``: in a list needed, in an object the key;
- ``tool_name``;
- ``suspended``: whether the call waits for resume data (left out: it does), or was only not made yet;
- ``resume_schema``: a JSON Schema that resume data must satisfy.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from layerlore.memory.rules.json_schema import check_against, check_schema
from layerlore.memory.rules.limits import Limits
from layerlore.memory.rules.validation import check_id, describe, load_json
from layerlore.storage.core.errors import InvalidInput, LimitExceeded
from layerlore.storage.core.records import Json

MOST_CALLS = 100
_WHERE = "pending_tool_calls"


@dataclass(frozen=True, slots=True)
class PendingCall:
    """One tool call; ``tool_name`` is empty where none is given, ``resume_schema`` None."""

    tool_call_id: str
    tool_name: str
    suspended: bool
    resume_schema: Json | None


def read_calls(value: Any) -> list[PendingCall]:
    """Read the calls of a value that ``check_calls`` accepted."""
    entries = (
        value.items() if isinstance(value, dict) else [(_read_field(entry, "tool_call_id"), entry) for entry in value]
    )
    return [
        PendingCall(id_, _read_field(entry, "tool_name") or "", _waits(entry), _read_field(entry, "resume_schema"))
        for id_, entry in entries
    ]


def check_calls(value: Any, limits: Limits) -> None:
    """Refuses what ``read_calls`` could not read, calls of the same id, and schemas that nothing can be checked
    against.

    Raises InvalidInput, LimitExceeded.
    """
    if not isinstance(value, list | dict):
        raise InvalidInput(f"{_WHERE}: must be a list of tool calls, or an object of them by id, not {describe(value)}")
    if len(value) > MOST_CALLS:
        raise LimitExceeded(f"{_WHERE}: {len(value):,} calls; at most {MOST_CALLS} are allowed")
    seen: set[str] = set()
    for key, entry in value.items() if isinstance(value, dict) else enumerate(value):
        where = f"{_WHERE}[{describe(key) if isinstance(key, str) else key}]"
        id_ = _check_call(key, entry, where, limits)
        if id_ in seen:
            raise InvalidInput(f"{where}.tool_call_id: {describe(id_)} comes twice; each call needs an id of its own")
        seen.add(id_)


def _check_call(key: str | int, entry: Any, where: str, limits: Limits) -> str:
    if not isinstance(entry, dict):
        raise InvalidInput(f"{where}: must be an object with tool_call_id, tool_name, suspended, not {describe(entry)}")
    given = _read_field(entry, "tool_call_id")
    id_ = given if isinstance(key, int) else key
    check_id(id_, f"{where}.tool_call_id", limits.id_chars)
    if given not in (None, id_):
        raise InvalidInput(
            f"{where}.tool_call_id: is {describe(given)}, but its key is {describe(id_)}; they must be the same"
        )
    name = _read_field(entry, "tool_name")
    if name not in (None, ""):
        check_id(name, f"{where}.tool_name", limits.name_chars)
    suspended = entry.get("suspended")
    if suspended is not None and not isinstance(suspended, bool):
        raise InvalidInput(f"{where}.suspended: must be true or false, not {describe(suspended)}")
    schema = _read_field(entry, "resume_schema")
    if schema is not None:
        check_schema(schema, f"{where}.resume_schema")
    return str(id_)


def _read_field(entry: Json, name: str) -> Any:
    """A value by its name in either spelling; None where neither is there."""
    first, *others = name.split("_")
    value = entry.get(name)
    return entry.get(first + "".join(map(str.capitalize, others))) if value is None else value


def _waits(entry: Json) -> bool:
    return entry.get("suspended") is not False


def find_call(calls: Sequence[PendingCall], tool_call_id: str) -> PendingCall | None:
    """Find the call that resume data is for: the one named, else the only one that waits; None where none waits.

    Raises InvalidInput.
    """
    waiting = [call for call in calls if call.suspended]
    names = ", ".join(describe(call.tool_call_id) for call in waiting) or "none"
    if tool_call_id:
        for call in waiting:
            if call.tool_call_id == tool_call_id:
                return call
        raise InvalidInput(f"tool_call_id: {describe(tool_call_id)} does not wait for data; those that do: {names}")
    if len(waiting) > 1:
        raise InvalidInput(f"tool_call_id: needed, since several tool calls wait for data: {names}")
    return waiting[0] if waiting else None


def check_data(data: Any, call: PendingCall | None) -> Any:
    """Check resume data against the call's schema and return it. Text that holds a JSON object or list is taken for
    that, as hosts send it, unless the schema takes the text. Raises InvalidInput, LimitExceeded."""
    schema = call.resume_schema if call else None
    held = _parse_held(data)
    if schema is None:
        return data if held is None else held
    try:
        check_against(data, schema, "data")
    except InvalidInput:
        if held is None:
            raise
        check_against(held, schema, "data")
        return held
    return data


def _parse_held(data: Any) -> Any:
    """The object or list that a text holds as JSON, else None."""
    if not isinstance(data, str):
        return None
    try:
        value = load_json(data, "data")
    except (ValueError, LimitExceeded):
        return None
    return value if isinstance(value, dict | list) else None
