"""Pending tool calls: what a run waits for, and the data that answers bring.

They come as a list, or as an object by tool call id (n8n's ``Record<string, PendingToolCall>``), in the shapes of SDKs:
``{id, name, arguments}``, OpenAI's with its ``function``, ``{tool_call_id, tool_name}`` in either spelling
(``toolCallId``). They are kept as given, except that secrets are masked. Read here are:

- the id (``tool_call_id``, ``call_id`` or ``id``): in a list needed, in an object the key;
- the name (``tool_name``, ``name``, or the function's);
- ``suspended``: whether the call waits for data. Left out, it does, unless it has a ``result``; false: it is done, with
  its result, or was not made yet;
- ``resume_schema``: a JSON Schema that the data must satisfy.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from layerlore.memory.rules.json_schema import check_against, check_schema
from layerlore.memory.rules.limits import Limits
from layerlore.memory.rules.validation import check_id, describe, load_json
from layerlore.memory.work.run_answers import WaitingCall
from layerlore.storage.core.errors import InvalidInput, LimitExceeded
from layerlore.storage.core.records import Json

MOST_CALLS = 100
_WHERE = "pending_tool_calls"
# OpenAI's Responses have an ``id`` of their own beside the ``call_id``.
_ID = ("tool_call_id", "toolCallId", "call_id", "callId")
_NAME = ("tool_name", "toolName", "name")
_SCHEMA = ("resume_schema", "resumeSchema")


@dataclass(frozen=True, slots=True)
class PendingCall:
    """One tool call; ``tool_name`` is empty where none is given, ``resume_schema`` None."""

    tool_call_id: str
    tool_name: str
    suspended: bool
    resume_schema: Json | None


def read_calls(value: Any) -> list[PendingCall]:
    """Read the calls of a value that ``check_calls`` accepted."""
    entries = value.items() if isinstance(value, dict) else [(_read_id(entry), entry) for entry in value]
    return [
        PendingCall(id_, _read_name(entry) or "", _waits(entry), _read_field(entry, _SCHEMA)) for id_, entry in entries
    ]


def list_waiting(calls: Sequence[PendingCall], answered: Collection[str]) -> list[WaitingCall]:
    """The calls that wait for data and have none yet, as an answer shows them."""
    waiting = [call for call in calls if call.suspended and call.tool_call_id not in answered]
    return [_show_waiting(call) for call in waiting]


def _show_waiting(call: PendingCall) -> WaitingCall:
    shown: WaitingCall = {"tool_call_id": call.tool_call_id}
    if call.tool_name:
        shown["tool_name"] = call.tool_name
    return shown


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
            raise InvalidInput(f"{where}.id: {describe(id_)} comes twice; each call needs an id of its own")
        seen.add(id_)


def _check_call(key: str | int, entry: Any, where: str, limits: Limits) -> str:
    if not isinstance(entry, dict):
        raise InvalidInput(f"{where}: must be an object with id, name, arguments, suspended, not {describe(entry)}")
    given = _read_id(entry) if isinstance(key, int) else _read_field(entry, _ID)
    id_ = given if isinstance(key, int) else key
    check_id(id_, f"{where}.id", limits.id_chars)
    if given not in (None, id_):
        raise InvalidInput(f"{where}.id: is {describe(given)}, but its key is {describe(id_)}; they must be the same")
    name = _read_name(entry)
    if name not in (None, ""):
        check_id(name, f"{where}.name", limits.name_chars)
    suspended = entry.get("suspended")
    if suspended is not None and not isinstance(suspended, bool):
        raise InvalidInput(f"{where}.suspended: must be true or false, not {describe(suspended)}")
    schema = _read_field(entry, _SCHEMA)
    if schema is not None:
        check_schema(schema, f"{where}.resume_schema")
    return str(id_)


def _read_id(entry: Json) -> Any:
    return _read_field(entry, (*_ID, "id"))


def _read_name(entry: Json) -> Any:
    function = entry.get("function")
    named = _read_field(entry, _NAME)
    return function.get("name") if named is None and isinstance(function, dict) else named


def _read_field(entry: Json, names: Sequence[str]) -> Any:
    """The first value that there is under one of the names; None where there is none."""
    return next((entry[name] for name in names if entry.get(name) is not None), None)


def _waits(entry: Json) -> bool:
    suspended = entry.get("suspended")
    return "result" not in entry if suspended is None else bool(suspended)


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
    held = parse_held(data)
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


def parse_held(data: Any) -> Any:
    """The object or list that a text holds as JSON, else None."""
    if not isinstance(data, str):
        return None
    try:
        value = load_json(data, "data")
    except (ValueError, LimitExceeded):
        return None
    return value if isinstance(value, dict | list) else None
