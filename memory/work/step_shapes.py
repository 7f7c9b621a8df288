"""Steps and events as agents send them, turned into the one form that is kept.

Every key is known in snake_case and as VoltAgent spells it (``operationId``), whose records can be sent as they are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from layerlore.memory.rules.limits import Limits
from layerlore.memory.rules.validation import (
    check_id,
    check_json,
    check_keys,
    check_metadata,
    check_text,
    count_json_bytes,
    describe,
    describe_choices,
    load_json,
    parse_time,
)
from layerlore.memory.usage.model_usage import ModelUsage, read_usage, snake_case
from layerlore.storage.core.errors import InvalidInput, LimitExceeded
from layerlore.storage.core.records import ROLES, Json, StoredJson

STEP_TYPES = ("text", "reasoning", "tool_call", "tool_result")
AGENT_EVENTS = ("AgentStart", "AgentEnd", "TurnStart", "TurnEnd", "ToolExecutionStart", "ToolExecutionEnd", "Error")
"""Seed 002's, under its names; the server's own events are in snake_case."""

_IDS = ("agent_id", "sub_agent_id", "tool_call_id")
_NAMES = ("agent_name", "sub_agent_name", "tool_name", "model")
_ORDER = (
    # A sender's own id and place of a step. The server gives a step its seq.
    *("id", "step_index"),
    *("agent_id", "agent_name", "sub_agent_id", "sub_agent_name", "role", "content", "tool_name", "tool_call_id"),
    *("arguments", "result", "is_error", "usage", "model", "message_id", "metadata"),
)
_OF_STEP = ("type", "operation_id", *_ORDER, "created_at")
_OF_EVENT = ("type", "operation_id", "payload", "message_id")
# What a record of VoltAgent or an answer of list_steps has besides. Order and owner are the server's to say.
_PASSED_OVER = ("user_id", "conversation_id", "seq")
_OF_EVENT_PASSED_OVER = ("id", "step_index", *_PASSED_OVER)
_SPELLINGS = frozenset((*_OF_STEP, *_OF_EVENT, *_PASSED_OVER))

_ONLY_OF_TOOLS = ("tool_name", "tool_call_id", "arguments", "result", "is_error")
_SAYING: dict[str, Sequence[str]] = {
    "text": ("content", "usage"),
    "reasoning": ("content", "usage"),
    "tool_call": ("tool_name", "tool_call_id", "arguments", "content"),
    "tool_result": ("tool_name", "tool_call_id", "result", "content"),
}


@dataclass(frozen=True, slots=True)
class IncomingStep:
    """One accepted step. ``created_at`` is as the caller gave it, in milliseconds, or None."""

    type: str
    operation_id: str
    body: Json
    usage: ModelUsage | None
    message_id: str | None
    created_at: int | None


@dataclass(frozen=True, slots=True)
class IncomingEvent:
    """One accepted event of an agent."""

    type: str
    payload: Json
    message_id: str | None


Incoming = IncomingStep | IncomingEvent


def parse_steps(raw: Any, thread_id: str, limits: Limits, *, operation_id: str = "") -> list[Incoming]:
    """Reads a list of steps and events, one of them, or a JSON string of either, for a thread (empty: whichever). A step
    that names no operation belongs to ``operation_id``, if given.

    A key that is null says nothing, and neither does an empty id or name. Raises LimitExceeded for what is over a
    limit, InvalidInput for everything else that is wrong; the text names the place (``steps[3].role``) and what is
    allowed there.
    """
    entries = _entries(raw)
    if len(entries) > limits.steps_per_call:
        raise LimitExceeded(f"steps: {len(entries):,} in one call; at most {limits.steps_per_call:,} are allowed")
    default = {"operation_id": operation_id} if operation_id else {}
    return [_read_incoming(entry, f"steps[{index}]", thread_id, default, limits) for index, entry in enumerate(entries)]


def _entries(raw: Any) -> list[Any]:
    if isinstance(raw, str):
        try:
            raw = load_json(raw, "steps")
        except ValueError as error:
            raise InvalidInput(
                f"steps: a string must hold JSON, a list of steps or one step; it cannot be read: {error}"
            ) from None
    if isinstance(raw, dict):
        return [raw]
    if not isinstance(raw, list):
        raise InvalidInput(f"steps: must be a list of steps or one step, not {describe(raw)}")
    if not raw:
        raise InvalidInput("steps: the list is empty; at least one step is needed")
    return raw


def _read_incoming(raw: Any, where: str, thread_id: str, default: Json, limits: Limits) -> Incoming:
    if not isinstance(raw, dict):
        raise InvalidInput(
            f"{where}: must be an object such as {{'type': 'text', 'operation_id': '...', 'content': '...'}}, "
            f"not {describe(raw)}"
        )
    given = _spell_keys(raw, where)
    type_ = given.get("type")
    if type_ in AGENT_EVENTS:
        return _read_event(given, where, limits)
    if type_ not in STEP_TYPES:
        what = "is missing" if type_ is None else f"unknown type {describe(type_)}"
        raise InvalidInput(f"{where}.type: {what}; {describe_choices(type_, (*STEP_TYPES, *AGENT_EVENTS))}")
    if thread_id and given.get("conversation_id") not in (None, thread_id):
        raise InvalidInput(
            f"{where}.conversation_id: {describe(given['conversation_id'])} is not the conversation of this call, "
            f"{describe(thread_id)}; name the one that is meant as thread_id, beside steps"
        )
    return _read_step({**given, **default} if not given.get("operation_id") else given, where, limits)


def _spell_keys(raw: Json, where: str) -> StoredJson:
    """What says something, under its name in snake_case where that is known."""
    given: Json = {}
    for key, value in raw.items():
        if value is None:
            continue
        name = spelled if isinstance(key, str) and (spelled := snake_case(key)) in _SPELLINGS else key
        if name in given:
            raise InvalidInput(f"{where}: {name} is given twice, as {describe(key)} and in another spelling")
        given[name] = value
    return given


def _read_event(given: Json, where: str, limits: Limits) -> IncomingEvent:
    check_keys(given, where, _OF_EVENT, _OF_EVENT_PASSED_OVER)
    payload = given.get("payload", {})
    if not isinstance(payload, dict):
        raise InvalidInput(f"{where}.payload: must be a JSON object, not {describe(payload)}")
    check_json(payload, f"{where}.payload", depth=limits.json_depth)
    beside = {
        name: check_id(given[name], f"{where}.{name}", limits.id_chars)
        for name in ("operation_id", "message_id")
        if given.get(name) not in (None, "")
    }
    for name, value in beside.items():
        if payload.get(name, value) != value:
            raise InvalidInput(f"{where}.payload.{name}: differs from the {name} beside the payload; give one of them")
    _check_size({**payload, **beside}, where, limits)
    return IncomingEvent(given["type"], {**payload, **beside}, beside.get("message_id"))


def _read_step(given: Json, where: str, limits: Limits) -> IncomingStep:
    check_keys(given, where, _OF_STEP, _PASSED_OVER)
    type_ = given["type"]
    if not given.get("operation_id"):
        raise InvalidInput(f"{where}.operation_id: is missing; every step names the operation that it is a part of")
    if type_ in ("tool_call", "tool_result") and isinstance(given.get("id"), str):
        given = {"tool_call_id": given["id"], **given}  # VoltAgent has the call's id there
    body = {name: given[name] for name in _ORDER if name in given}
    for name in ("id", *_IDS, *_NAMES, "message_id"):
        if body.get(name) == "":
            del body[name]
    _check_type(type_, body, where)
    _check_fields(body, where, limits)
    _check_size(body, where, limits)
    usage = read_usage(body["usage"], f"{where}.usage", limits) if "usage" in body else None
    return IncomingStep(
        type=type_,
        operation_id=check_id(given["operation_id"], f"{where}.operation_id", limits.id_chars),
        body=body,
        usage=usage,
        message_id=body.get("message_id"),
        created_at=parse_time(given["created_at"], f"{where}.created_at") if "created_at" in given else None,
    )


def _check_type(type_: str, body: Json, where: str) -> None:
    if type_ in ("text", "reasoning"):
        for name in _ONLY_OF_TOOLS:
            if name in body:
                raise InvalidInput(
                    f"{where}.{name}: belongs to a step of the type tool_call or tool_result, not {type_}"
                )
    if type_ == "tool_call" and ("result" in body or "is_error" in body):
        raise InvalidInput(
            f"{where}.result: a call and its result are two steps: record the result as one of the type tool_result, "
            "with the same tool_call_id"
        )
    if not any(name in body for name in _SAYING[type_]):
        raise InvalidInput(f"{where}: says nothing; a step of the type {type_} has {' or '.join(_SAYING[type_])}")


def _check_fields(body: Json, where: str, limits: Limits) -> None:
    for name, value in body.items():
        place = f"{where}.{name}"
        if name in _IDS or name == "message_id":
            check_id(value, place, limits.id_chars)
        elif name in _NAMES:
            check_id(value, place, limits.name_chars)
        elif name == "content":
            check_text(value, place)
        elif name == "role":
            if value not in ROLES:
                raise InvalidInput(f"{place}: unknown role {describe(value)}; {describe_choices(value, ROLES)}")
        elif name == "is_error":
            if not isinstance(value, bool):
                raise InvalidInput(f"{place}: must be true or false, not {describe(value)}")
        elif name == "metadata":
            check_metadata(value, place, limits)
        else:
            check_json(value, place, depth=limits.json_depth)


def _check_size(body: Json, where: str, limits: Limits) -> None:
    size = count_json_bytes(body)
    if size > limits.step_bytes:
        largest = max(body, key=lambda name: count_json_bytes(body[name]))
        raise LimitExceeded(
            f"{where}: {size:,} bytes of JSON; at most {limits.step_bytes:,} are allowed in one step, "
            f"so shorten its {largest}"
        )
