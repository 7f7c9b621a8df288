"""Steps of an agent, recorded as they happen and read in order across operations; and the log of events, replayed from
a cursor without a gap."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NotRequired

from typing_extensions import TypedDict

from layerlore.memory.engine.engine import Engine, WriteRequest, work_on_long_text
from layerlore.memory.rules.ages import iso
from layerlore.memory.rules.answers import fit_entries, order_keys, read_cursor, show_masked, write_cursor
from layerlore.memory.rules.validation import (
    MOST_INTEGER,
    Limits,
    check_id,
    check_json,
    check_keys,
    check_metadata,
    check_new_id,
    check_number,
    check_text,
    count_json_bytes,
    describe,
    describe_choices,
    load_json,
    parse_time,
)
from layerlore.memory.usage import model_usage
from layerlore.memory.usage.model_usage import ModelUsage, add_lines, present_spent, price_call, read_usage, snake_case
from layerlore.memory.usage.usage_answers import Usage
from layerlore.memory.work import run_lists
from layerlore.memory.work.run_lists import AgentLine
from layerlore.memory.work.work_answers import EventRow, ListedEvents, ListedSteps, RecordedSteps
from layerlore.storage.audit import usage_rows
from layerlore.storage.core.errors import InvalidInput, LimitExceeded, NotFound
from layerlore.storage.core.json_text import to_json
from layerlore.storage.core.records import ROLES, Json, Origin, Scope, StoredJson, Thread
from layerlore.storage.core.transaction import Tx
from layerlore.storage.threads import events, threads
from layerlore.storage.threads.events import Event, EventPage, NewEvent
from layerlore.storage.work import steps
from layerlore.storage.work.steps import NewStep, Step

STEP_TYPES = ("text", "reasoning", "tool_call", "tool_result")
AGENT_EVENTS = ("AgentStart", "AgentEnd", "TurnStart", "TurnEnd", "ToolExecutionStart", "ToolExecutionEnd", "Error")
"""Seed 002's, under its names; the server's own events are in snake_case."""

_EXAMPLE = '{"type": "text", "operation_id": "...", "content": "..."}'
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
# The further fields of a VoltAgent record or of an answer of list_steps. Order and owner are the server's to say.
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
    if operation_id:
        default = {"operation_id": operation_id}
    else:
        default = {}
    return [_read_incoming(entry, f"steps[{index}]", thread_id, default, limits) for index, entry in enumerate(entries)]


def _entries(raw: Any) -> list[Any]:
    if isinstance(raw, str):
        try:
            raw = load_json(raw, "steps")
        except ValueError as error:
            raise InvalidInput(
                f"steps: a string must hold JSON, such as [{_EXAMPLE}]; this one cannot be read ({error})"
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
        raise InvalidInput(f"{where}: must be an object such as {_EXAMPLE}, not {describe(raw)}")
    given = _spell_keys(raw, where)
    type_ = given.get("type")
    if type_ in AGENT_EVENTS:
        return _read_event(given, where, limits)
    if type_ not in STEP_TYPES:
        if type_ is None:
            what = "is missing"
        else:
            what = f"unknown type {describe(type_)}"
        raise InvalidInput(f"{where}.type: {what}; {describe_choices(type_, (*STEP_TYPES, *AGENT_EVENTS))}")
    if thread_id and given.get("conversation_id") not in (None, thread_id):
        raise InvalidInput(
            f"{where}.conversation_id: {describe(given['conversation_id'])} is not the conversation of this call, "
            f"{describe(thread_id)}; name the one that is meant as thread_id, beside steps"
        )
    return _read_step({**given, **default} if not given.get("operation_id") else given, where, limits)


def _spell_keys(raw: Json, where: str) -> StoredJson:
    """The non-empty fields, under their names in snake_case if known."""
    given: Json = {}
    for key, value in raw.items():
        # Clients fill unused keys with null.
        if value is None:
            continue
        if isinstance(key, str) and (spelled := snake_case(key)) in _SPELLINGS:
            name = spelled
        else:
            name = key
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
    # The keys have one order, so that equal steps have equal JSON.
    body = {name: given[name] for name in _ORDER if name in given}
    for name in ("id", *_IDS, *_NAMES, "message_id"):
        if body.get(name) == "":
            del body[name]
    _check_type(type_, body, where)
    _check_fields(body, where, limits)
    _check_size(body, where, limits)
    if "usage" in body:
        usage = read_usage(body["usage"], f"{where}.usage", limits)
    else:
        usage = None
    return IncomingStep(
        type=type_,
        operation_id=check_new_id(given["operation_id"], f"{where}.operation_id", limits.id_chars),
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


# More JSON than this, in characters, is masked in a thread: the event loop must not wait for it.
_INLINE_CHARS = 4_000
_OF_ANOTHER = "cursor: it belongs to another conversation, or an earlier one of that name; leave it out"
SERVER_EVENTS = (
    *("thread_created", "thread_updated", "thread_deleted", "thread_restored"),
    *("memory_erased", "memory_redacted"),
    *("messages_added", "messages_replaced", "messages_deleted", "messages_restored"),
    *("working_memory_updated", "working_memory_cleared", "profile_updated", "profile_cleared"),
    *("plan_created", "plan_updated", "attempt_logged", "steps_recorded"),
    *("entries_changed", "observations_added", "observations_activated", "observations_reflected", "summary_updated"),
    *("run_started", "run_updated", "run_suspended", "run_decided", "run_resumed"),
    *("run_completed", "run_failed", "run_cancelled", "run_expired"),
)
"""The events that the server itself writes, in a thread's log or the resource's."""


class StoredSteps(TypedDict):
    """Which steps of a thread were stored, how many events with them, and what both used."""

    first: NotRequired[int]
    last: NotRequired[int]
    events: int
    masked: NotRequired[int]
    usage: NotRequired[Usage]


@dataclass(frozen=True, slots=True)
class PreparedSteps:
    """Steps and events, checked, masked and priced, and how many secrets were masked; ``sent`` is what came, for the
    comparison with a repeated request. ``lines`` has a line for each call of a model: the step's operation, its
    sub-agent (empty: none), and what was spent."""

    entered: list[Incoming]
    sent: list[Any]
    masked: int
    lines: list[tuple[str, AgentLine]]


async def record_steps(engine: Engine, scope: Scope, thread_id: str, raw: Any, *, sent: WriteRequest) -> RecordedSteps:
    """Record steps and an agent's events in a thread, in the order given, all or none. The usage of a step counts for
    the run of the thread that its ``operation_id`` names, if there is one.

    Returns ``thread_id``, the seqs of the ``first`` and ``last`` step, how many ``events`` there were, ``masked`` (how
    many secrets were masked) and the ``usage`` of these steps together.

    Raises InvalidInput, LimitExceeded, NotFound for a message that a step was made from, Conflict.
    """
    prepared = await prepare_steps(engine, raw, thread_id)
    now, new_uid = engine.now(), engine.new_id()

    async def write(tx: Tx) -> RecordedSteps:
        thread = await threads.lock_or_make(tx, scope, thread_id, new_uid, now)
        stored = await store_steps(tx, scope, thread, prepared, origin=sent.origin, now=now)
        return {"thread_id": thread_id, **stored}

    return await engine.write(scope, sent, [prepared.sent], now, write)


async def prepare_steps(engine: Engine, raw: Any, thread_id: str, *, run_id: str = "") -> PreparedSteps:
    """Check, mask and price steps. An empty thread is any; a step without an operation belongs to the run.

    Raises InvalidInput, LimitExceeded.
    """
    incoming = parse_steps(raw, thread_id, engine.limits, operation_id=run_id)
    body = [_sent_body(each) for each in incoming]
    entered, masked = await _mask_all(engine, incoming, len(to_json(body)))
    return PreparedSteps(entered, body, masked, await _price_steps(entered))


async def store_steps(
    tx: Tx, scope: Scope, thread: Thread, prepared: PreparedSteps, *, origin: Origin, now: int, run_id: str = ""
) -> StoredSteps:
    """Store steps in a thread that the transaction holds; what they used counts for the run, else for those that they
    name. Returns what ``record_steps`` does, without the thread. Raises NotFound for a message."""
    entered = prepared.entered
    # This transaction reads the messages, so that none can go between the check and the steps.
    message_ids = sorted({each.message_id for each in entered if each.message_id is not None})
    if message_ids:
        seqs = await steps.message_seqs(tx, scope, thread, message_ids)
    else:
        seqs = {}
    _check_messages(entered, seqs)
    made = [_new_step(each, seqs, now) for each in entered if isinstance(each, IncomingStep)]
    if made:
        first = await steps.record(tx, scope, thread, made, now=now)
    else:
        first = None
    happened = _list_events(entered, seqs, first, len(made))
    await events.record(tx, scope, thread, happened, origin=origin, now=now)
    lines = [line for _, (_, line) in prepared.lines]
    if lines:
        await usage_rows.add(tx, scope, thread.thread_uid, lines, now=now)
    spent: dict[str, list[AgentLine]] = {}
    for operation_id, line in prepared.lines:
        # Steps that a call brings for a run count for that run, whatever operation they name.
        spent.setdefault(run_id or operation_id, []).append(line)
    for each, of_run in spent.items():
        await run_lists.spend(tx, scope, thread, each, of_run)
    stored: StoredSteps = {"events": len(entered) - len(made), **show_masked(prepared.masked)}
    if first is not None:
        stored["first"] = first
        stored["last"] = first + len(made) - 1
    if lines:
        stored["usage"] = present_spent(add_lines(lines))
    return order_keys(StoredSteps, stored)


def _sent_body(each: Incoming) -> list[Any]:
    if isinstance(each, IncomingEvent):
        return [each.type, each.payload, each.message_id]
    return [each.type, each.operation_id, each.body, each.created_at]


async def _mask_all(engine: Engine, incoming: list[Incoming], chars: int) -> tuple[list[Incoming], int]:
    """Mask the secrets in steps and events. Returns how many there were, too."""
    if chars <= _INLINE_CHARS:
        return _mask_each(engine, incoming)
    return await work_on_long_text(_mask_each, engine, incoming)


def _mask_each(engine: Engine, incoming: list[Incoming]) -> tuple[list[Incoming], int]:
    found = [_mask(engine, each) for each in incoming]
    return [each for each, _ in found], sum(count for _, count in found)


def _mask(engine: Engine, each: Incoming) -> tuple[Incoming, int]:
    if isinstance(each, IncomingEvent):
        payload, count = engine.masked(each.payload)
        return replace(each, payload=payload), count
    operation_id, count = engine.masked(each.operation_id)
    body: Json = {}
    # Each on its own, so that how deep JSON may be is counted from where its sender counts.
    for name, value in each.body.items():
        # A message's id must equal the stored one, so it is not masked.
        body[name], found = (value, 0) if name == "message_id" else engine.masked(value)
        count += found
    # A step may name its model itself or in its usage.
    used = each.usage and replace(each.usage, model=body.get("model") or engine.masked(each.usage.model)[0])
    return replace(each, operation_id=operation_id, body=body, usage=used), count


async def _price_steps(entered: list[Incoming]) -> list[tuple[str, AgentLine]]:
    used = [(each, each.usage) for each in entered if isinstance(each, IncomingStep) and each.usage is not None]
    # The price list takes time to read, and only calls without a cost of their own need it.
    if all(spent.cost_nano_usd is not None for _, spent in used):
        known = model_usage.PriceList({})
    else:
        known = await model_usage.load_prices_in_thread()
    return [(step.operation_id, (_sub_agent(step), price_call(spent, spent.model, known))) for step, spent in used]


def _sub_agent(step: IncomingStep) -> str:
    return str(step.body.get("sub_agent_name") or step.body.get("sub_agent_id") or "")


def _check_messages(entered: list[Incoming], seqs: Mapping[str, int]) -> None:
    for index, each in enumerate(entered):
        if each.message_id is not None and each.message_id not in seqs:
            raise NotFound(
                f"steps[{index}].message_id: there is no message {each.message_id!r} in this conversation; give the id "
                "of a stored one, or leave it out"
            )


def _new_step(step: IncomingStep, seqs: Mapping[str, int], now: int) -> NewStep:
    if step.message_id is None:
        message_seq = None
    else:
        message_seq = seqs[step.message_id]
    if step.created_at is None:
        created_at = now
    else:
        created_at = step.created_at
    return NewStep(step.operation_id, step.type, step.body, created_at, message_seq)


def _list_events(entered: list[Incoming], seqs: Mapping[str, int], first: int | None, count: int) -> list[NewEvent]:
    """The agent's events in their order, and, where the last of the steps stands, one event for all steps."""
    found: list[NewEvent] = []
    left = count
    for each in entered:
        if isinstance(each, IncomingEvent):
            if each.message_id is None:
                message_seq = None
            else:
                message_seq = seqs[each.message_id]
            found.append(NewEvent(each.type, each.payload, message_seq))
            continue
        left -= 1
        if left == 0 and first is not None:
            found.append(NewEvent("steps_recorded", {"first": first, "last": first + count - 1}))
    return found


async def list_steps(
    engine: Engine, scope: Scope, thread_id: str, *, operation_id: str, limit: int, cursor: str
) -> ListedSteps:
    """List a thread's steps, oldest first, of one operation or of all; ``next_cursor`` continues a page that is not the
    last. A page of large steps ends early. An unknown thread has none yet.

    Raises InvalidInput, LimitExceeded.
    """
    if operation_id:
        check_id(operation_id, "operation_id", engine.limits.id_chars)
    uid, after = _parse_place(cursor, operation_id) if cursor else ("", 0)
    try:
        page = await engine.database.read(
            steps.read_page, scope, thread_id, operation_id=engine.masked(operation_id)[0], after=after, limit=limit
        )
    except NotFound:
        # The cursor is of a conversation that was deleted since.
        if uid:
            raise InvalidInput(_OF_ANOTHER) from None
        return {"thread_id": thread_id, "steps": []}
    if uid not in ("", page.thread.thread_uid):
        raise InvalidInput(_OF_ANOTHER)
    shown = fit_entries([show_step(step) for step in page.steps], engine.limits.answer_bytes)
    more = page.more or len(shown) < len(page.steps)
    answer: ListedSteps = {"thread_id": thread_id, "steps": shown}
    if more:
        answer["next_cursor"] = write_cursor([page.thread.thread_uid, operation_id, shown[-1]["seq"]])
    return answer


def show_step(step: Step) -> StoredJson:
    """A step in an answer: as the caller sent it, with its seq."""
    return {
        "seq": step.seq,
        "type": step.type,
        "operation_id": step.operation_id,
        **step.body,
        "created_at": iso(step.created_at),
    }


def _parse_place(cursor: str, operation_id: str) -> tuple[str, int]:
    unknown = InvalidInput("cursor: not one that list_steps gave; leave it out to begin at the first step")
    match read_cursor(cursor, unknown):
        case [str(uid), str(made_for), int(seq)] if uid and not isinstance(seq, bool) and 0 <= seq <= MOST_INTEGER:
            if made_for != operation_id:
                raise InvalidInput("cursor: it belongs to a listing with another operation_id; repeat that one")
            return uid, seq
    raise unknown


async def list_events(
    engine: Engine, scope: Scope, thread_id: str | None, *, after: int, types: Sequence[str], limit: int
) -> ListedEvents:
    """List events with a seq above ``after``, of the types (none: all), in order: of a thread, or (None) the resource.

    ``next`` is the ``after`` of the next page, or of the next look when ``more`` is false: all up to it was covered,
    whether its type was requested or not. ``last_seq`` is the newest seq of the thread.

    In an unknown thread nothing has changed yet. Raises InvalidInput.
    """
    allowed = (*SERVER_EVENTS, *AGENT_EVENTS)
    for type_ in types:
        if type_ not in allowed:
            raise InvalidInput(f"types: unknown type {describe(type_)}; {describe_choices(type_, allowed)}")
    check_number(after, "after", 0)
    if thread_id is None:
        page = await engine.database.read(events.read_page_of_resource, scope, after=after, types=types, limit=limit)
    else:
        try:
            page = await engine.database.read(events.read_page, scope, thread_id, after=after, types=types, limit=limit)
        except NotFound:
            page = EventPage([], False, 0)
    if after > page.last_seq:
        raise InvalidInput(
            f"after: {after} is beyond the newest event, {page.last_seq}: the log was begun anew since (its "
            "conversation was deleted); read it from after=0"
        )
    found = fit_entries([show_event(event) for event in page.events], engine.limits.answer_bytes)
    more = page.more or len(found) < len(page.events)
    return {
        "events": found,
        "next": found[-1]["seq"] if more else page.last_seq,
        "last_seq": page.last_seq,
        "more": more,
    }


def show_event(event: Event) -> EventRow:
    """An event as an answer has it: ``by`` is the client or the job, ``tool`` the tool or command that it used."""
    row: EventRow = {
        "seq": event.seq,
        "type": event.type,
        "by": event.actor,
        "at": iso(event.created_at),
        "payload": event.payload,
    }
    if event.tool:
        row["tool"] = event.tool
    return order_keys(EventRow, row)
