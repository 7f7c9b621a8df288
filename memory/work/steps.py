"""Steps of an agent, recorded as they happen and read in order across operations; and the log of events, replayed from
a cursor without a gap."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NotRequired

from typing_extensions import TypedDict

from layerlore.memory.engine.engine import Engine, Sent
from layerlore.memory.engine.long_texts import work_on_long_text
from layerlore.memory.rules.ages import iso
from layerlore.memory.rules.answer_keys import order_keys, show_masked
from layerlore.memory.rules.pages import fit_entries, read_cursor, write_cursor
from layerlore.memory.rules.validation import check_id, check_number, describe, describe_choices
from layerlore.memory.usage import prices
from layerlore.memory.usage.sums import add_lines, present_spent, price_call
from layerlore.memory.usage.usage_answers import Usage
from layerlore.memory.work import run_usage
from layerlore.memory.work.run_usage import AgentLine
from layerlore.memory.work.step_answers import EventRow, ListedEvents, ListedSteps, RecordedSteps
from layerlore.memory.work.step_shapes import AGENT_EVENTS, Incoming, IncomingEvent, IncomingStep, parse_steps
from layerlore.storage.audit import usage
from layerlore.storage.core.errors import InvalidInput, NotFound
from layerlore.storage.core.json_text import to_json
from layerlore.storage.core.records import Json, Origin, Scope, StoredJson, Thread
from layerlore.storage.core.transaction import Tx
from layerlore.storage.threads import events, threads
from layerlore.storage.threads.events import Event, EventPage, NewEvent
from layerlore.storage.work import steps
from layerlore.storage.work.steps import NewStep, Step

# More JSON than this, in characters, is masked in a thread: the event loop must not wait for it.
_INLINE_CHARS = 4_000
# The databases' integers have 64 bits.
_LARGEST = 2**63
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
"""What the server itself writes, in a thread's log or the resource's."""


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


async def record_steps(engine: Engine, scope: Scope, thread_id: str, raw: Any, *, sent: Sent) -> RecordedSteps:
    """Record steps and an agent's events in a thread, in the order given, all or none. What a step used counts for the
    run of the thread that its ``operation_id`` names, if there is one.

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
    message_ids = sorted({each.message_id for each in entered if each.message_id is not None})
    seqs = await steps.message_seqs(tx, scope, thread, message_ids) if message_ids else {}
    _check_messages(entered, seqs)
    made = [_new_step(each, seqs, now) for each in entered if isinstance(each, IncomingStep)]
    first = await steps.record(tx, scope, thread, made, now=now) if made else None
    happened = _list_events(entered, seqs, first, len(made))
    await events.record(tx, scope, thread, happened, origin=origin, now=now)
    lines = [line for _, (_, line) in prepared.lines]
    if lines:
        await usage.add(tx, scope, thread.thread_uid, lines, now=now)
    spent: dict[str, list[AgentLine]] = {}
    for operation_id, line in prepared.lines:
        spent.setdefault(run_id or operation_id, []).append(line)
    for each, of_run in spent.items():
        await run_usage.spend(tx, scope, thread, each, of_run)
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
        body[name], found = (value, 0) if name == "message_id" else engine.masked(value)
        count += found
    used = each.usage and replace(each.usage, model=body.get("model") or engine.masked(each.usage.model)[0])
    return replace(each, operation_id=operation_id, body=body, usage=used), count


async def _price_steps(entered: list[Incoming]) -> list[tuple[str, AgentLine]]:
    used = [(each, each.usage) for each in entered if isinstance(each, IncomingStep) and each.usage is not None]
    if all(spent.cost_nano_usd is not None for _, spent in used):
        known = prices.PriceList({})
    else:
        known = await prices.load_prices_in_thread()
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
    message_seq = None if step.message_id is None else seqs[step.message_id]
    created_at = now if step.created_at is None else step.created_at
    return NewStep(step.operation_id, step.type, step.body, created_at, message_seq)


def _list_events(entered: list[Incoming], seqs: Mapping[str, int], first: int | None, count: int) -> list[NewEvent]:
    """The agent's events in their order, and, where the last of the steps stands, one event for all steps."""
    found: list[NewEvent] = []
    left = count
    for each in entered:
        if isinstance(each, IncomingEvent):
            message_seq = None if each.message_id is None else seqs[each.message_id]
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
    """A step as an answer has it: as it was given, and its seq."""
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
        case [str(uid), str(made_for), int(seq)] if uid and not isinstance(seq, bool) and 0 <= seq < _LARGEST:
            if made_for != operation_id:
                raise InvalidInput("cursor: it belongs to a listing with another operation_id; repeat that one")
            return uid, seq
    raise unknown


async def list_events(
    engine: Engine, scope: Scope, thread_id: str | None, *, after: int, types: Sequence[str], limit: int
) -> ListedEvents:
    """List events with a seq above ``after``, of the types (none: all), in order: of a thread, or (None) the resource.

    ``next`` is the ``after`` of the next page, or of the next look when ``more`` is false: all up to it was covered,
    whether its type was asked for or not. ``last_seq`` is the newest that was given.

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
