"""The states of a run, its pending tool calls, and the answers to them: approvals, denials and data.

The states are pure rules of who may move a run from one to the next, whose errors name what is allowed:

    (new)      -> running, suspended, completed, failed, cancelled
    running    -> suspended, completed, failed, cancelled   by the holder of the newest claim
    running    -> running                                   by its holder, or by a resumer once the claim has run out
    suspended  -> running                                   by a resumer
    running, suspended -> cancelled                         by any caller
    completed, failed, cancelled: nothing follows

A claim is a fencing token: each start and each resume gets a new one, which makes the one before invalid.
Until another holder takes a run over, its last holder may still suspend or end it, however late: nothing can have
happened in between.
"""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn, get_args

from layerlore.memory.engine.engine import Engine, WriteRequest
from layerlore.memory.rules.ages import iso
from layerlore.memory.rules.answers import order_keys
from layerlore.memory.rules.json_schema import check_against, check_schema
from layerlore.memory.rules.validation import (
    Limits,
    check_id,
    check_keys,
    describe,
    describe_choices,
    load_json,
    write_exact_json,
)
from layerlore.memory.work.work_answers import DecidedRun, Resumption, WaitingCall
from layerlore.storage.core.errors import Conflict, InvalidInput, LimitExceeded
from layerlore.storage.core.json_text import calls_of, intact, list_of, to_json
from layerlore.storage.core.records import Json, Scope, StoredJson
from layerlore.storage.core.transaction import Tx
from layerlore.storage.threads import events
from layerlore.storage.threads.events import NewEvent
from layerlore.storage.work import runs
from layerlore.storage.work.runs import Answers, Ending, Run, Status

STATUSES: tuple[Status, ...] = get_args(Status)
ENDINGS: tuple[Ending, ...] = get_args(Ending)

_FROM_RUNNING = "allowed from running: " + ", ".join(("suspended", *ENDINGS))


def make_claim_token(epoch: int, name: str) -> str:
    """The claim of an epoch; its name is unique."""
    return f"{epoch}.{name}"


def is_claimed(run: Run, now: int) -> bool:
    """Whether the run has a holder."""
    return run.status == "running" and run.claimed_until is not None and run.claimed_until > now


def is_expired(run: Run, now: int) -> bool:
    """Whether the checkpoint's time is over; it lasts while the run has a holder."""
    return run.expires_at is not None and run.expires_at <= now and not is_claimed(run, now)


def check_resumable(run: Run, now: int) -> None:
    """Raises Conflict unless the run waits for a resumer."""
    if run.status in ENDINGS:
        raise Conflict(_describe_ended(run))
    if is_claimed(run, now):
        raise Conflict(
            f"{_describe_held(run)}. It can be resumed when it is suspended again, or when that time is over; {_FROM_RUNNING}, "
            "each by the holder of the claim"
        )
    if is_expired(run, now):
        raise Conflict(_describe_expired(run))


def check_open(run: Run, now: int) -> None:
    """Raises Conflict for a run that has ended, or whose checkpoint has expired."""
    if run.status in ENDINGS:
        raise Conflict(_describe_ended(run))
    if is_expired(run, now):
        raise Conflict(_describe_expired(run))


def refuse_taken(run: Run) -> NoReturn:
    """Raises Conflict for the run that has the id of a new one."""
    if run.status in ENDINGS:
        raise Conflict(_describe_ended(run))
    if run.status == "running":
        is_now = _describe_held(run)
    else:
        is_now = f"run {run.run_id!r} is suspended"
    raise Conflict(f"{is_now}; take it over with resume_run, or give another run_id")


def is_told(run: Run, claim: str) -> bool:
    """Whether the run was cancelled while the claim held it. Its holder learns of it, and may still bring its output."""
    return run.status == "cancelled" and bool(claim) and run.claim == claim


def check_holder(run: Run, claim: str) -> None:
    """Raises Conflict unless the run is running and the claim is its newest."""
    if run.status in ENDINGS:
        raise Conflict(_describe_ended(run))
    if run.status == "suspended":
        if claim:
            stale = f"the claim {describe(claim)} is over: "
        else:
            stale = ""
        raise Conflict(
            f"{stale}run {run.run_id!r} is suspended since {iso(run.updated_at)}; allowed from suspended: running, "
            "with resume_run"
        )
    if not claim:
        giver = "resume_run" if run.epoch else "start_run"
        raise Conflict(
            f"{_describe_held(run)}. Only its holder can move it, with the claim that {giver} gave; {_FROM_RUNNING}"
        )
    if claim != run.claim:
        raise Conflict(
            f"the claim {describe(claim)} is not the newest of run {run.run_id!r}, and no longer good for anything: "
            f"{_describe_held(run)}"
        )


def check_kept(run: Run, now: int) -> None:
    """Raises Conflict for a suspended run whose checkpoint has expired, and which is about to be removed."""
    if run.status == "suspended" and is_expired(run, now):
        raise Conflict(_describe_expired(run))


def _describe_held(run: Run) -> str:
    # A running run has a holder, even if the lease has run out.
    assert run.claimed_at is not None
    assert run.claimed_until is not None
    return (
        f"run {run.run_id!r} is running: {run.claimed_by} {'resumed' if run.epoch else 'started'} it at "
        f"{iso(run.claimed_at)} and has it until {iso(run.claimed_until)}"
    )


def _describe_ended(run: Run) -> str:
    if run.ended_by:
        by = f", by {run.ended_by}"
    else:
        by = ""
    return (
        f"run {run.run_id!r} is {run.status} since {iso(run.updated_at)}{by}, which is an end: nothing is allowed "
        "from there; another run needs another run_id"
    )


def _describe_expired(run: Run) -> str:
    assert run.expires_at is not None
    return (
        f"the checkpoint of run {run.run_id!r} expired at {iso(run.expires_at)} and is about to be removed; start again "
        "with suspend_run under another run_id"
    )


MOST_CALLS = 100
_WHERE = "pending_tool_calls"
# OpenAI's Responses have an ``id`` of their own beside the ``call_id``.
_ID = ("tool_call_id", "toolCallId", "call_id", "callId")
_NAME = ("tool_name", "toolName", "name")
_SCHEMA = ("resume_schema", "resumeSchema")


@dataclass(frozen=True, slots=True)
class PendingCall:
    """One tool call. A missing ``tool_name`` is empty, a missing ``resume_schema`` None."""

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
    if isinstance(key, int):
        given = _read_id(entry)
        id_ = given
    else:
        given = _read_field(entry, _ID)
        id_ = key
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
    if named is None and isinstance(function, dict):
        return function.get("name")
    return named


def _read_field(entry: Json, names: Sequence[str]) -> Any:
    """The first value that there is under one of the names; None if none exists."""
    return next((entry[name] for name in names if entry.get(name) is not None), None)


def _waits(entry: Json) -> bool:
    suspended = entry.get("suspended")
    if suspended is None:
        # Calls that have a result may stand among the pending ones. Without a flag, only the others wait.
        return "result" not in entry
    return bool(suspended)


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
    if waiting:
        return waiting[0]
    return None


def check_data(data: Any, call: PendingCall | None) -> Any:
    """Check resume data against the call's schema and return it. Text that holds a JSON object or list counts as
    that, as hosts send it, unless the schema takes the text. Raises InvalidInput, LimitExceeded."""
    if call:
        schema = call.resume_schema
    else:
        schema = None
    held = parse_held(data)
    if schema is None:
        if held is None:
            return data
        return held
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
    if isinstance(value, dict | list):
        return value
    return None


_APPROVES = {"approve": True, "deny": False}
# The last brings nothing but its data: for callers that must choose one.
_DECISIONS = (*_APPROVES, "answer")
_KEYS = ("tool_call_id", "decision", "data")
_PASSED_OVER = ("id", "call_id", "toolCallId", "callId")
_HANDED = "handed"


@dataclass(frozen=True, slots=True)
class CallAnswer:
    """One answer as the caller sent it. ``tool_call_id`` is empty where none is named; ``has_data`` distinguishes null
    from nothing."""

    tool_call_id: str
    data: Any
    has_data: bool = True
    decision: str = ""


@dataclass(frozen=True, slots=True)
class CheckedAnswer:
    """An answer that satisfies the call it is for (empty: no call waits)."""

    tool_call_id: str
    data: Any
    decision: str


async def decide_run(engine: Engine, scope: Scope, run_id: str, raw: Any, *, sent: WriteRequest) -> DecidedRun:
    """Answer pending calls of a run, all or none, without taking it. An answer that is there already is ``unchanged``.

    Returns ``run_id``, ``thread_id``, ``status``, ``answered`` (the ids of the calls) and ``waiting`` (how many calls
    have no answer yet; at 0 the run can go on).

    Raises InvalidInput, LimitExceeded, Conflict (another answer was there before: whose), NotFound.
    """
    check_id(run_id, "run_id", engine.limits.id_chars)
    given = _read_decisions(raw, engine.limits)
    pending, checked = await check_answers(engine, scope, run_id, given)
    now = engine.now()

    async def write(tx: Tx) -> DecidedRun:
        run, thread = await runs.lock(tx, scope, run_id)
        check_open(run, now)
        # The answers were checked before this transaction, against the calls that were pending then.
        check_unchanged(run, pending)
        content = await runs.content(tx, scope, run)
        new = [each for each in checked if not _is_there(each, list_of(content.resumed), run)]
        answers = Answers(content.resumed, run.answered)
        for each in new:
            answers = append_answer(engine, answers, each, by=sent.origin.actor, now=now)
        waits = list_waiting(read_calls(calls_of(pending)), list_of(answers.answered))
        ids = [each.tool_call_id for each in checked if each.tool_call_id]
        if new:
            await runs.answer(tx, scope, run, answers, now=now)
            payload = {"run_id": run_id, "tool_call_ids": ids, "waiting": len(waits)}
            await events.record(tx, scope, thread, [NewEvent("run_decided", payload)], origin=sent.origin, now=now)
        assert run.status in ("running", "suspended")
        answer: DecidedRun = {
            "run_id": run_id,
            "thread_id": run.thread_id,
            "status": run.status,
            "answered": ids,
            "waiting": len(waits),
        }
        if not new:
            answer["unchanged"] = True
        return answer

    return await engine.write(scope, sent, [run_id, raw], now, write)


def _read_decisions(raw: Any, limits: Limits) -> list[CallAnswer]:
    if isinstance(raw, dict):
        entries = [raw]
    else:
        entries = raw
    if not isinstance(entries, list) or not entries:
        raise InvalidInput(
            'decisions: must be a list such as [{"tool_call_id": "...", "decision": "approve"}], with at least one'
        )
    if len(entries) > MOST_CALLS:
        raise LimitExceeded(f"decisions: {len(entries):,}; at most {MOST_CALLS} are allowed")
    return [_read_decision(entry, f"decisions[{place}]", limits) for place, entry in enumerate(entries)]


def _read_decision(entry: Any, where: str, limits: Limits) -> CallAnswer:
    if not isinstance(entry, dict):
        raise InvalidInput(f"{where}: must be an object with tool_call_id, and decision or data, not {describe(entry)}")
    check_keys(entry, where, _KEYS, _PASSED_OVER)
    tool_call_id = next((entry[name] for name in (_KEYS[0], *_PASSED_OVER) if entry.get(name)), "")
    if tool_call_id:
        check_id(tool_call_id, f"{where}.tool_call_id", limits.id_chars)
    decision = entry.get("decision") or ""
    if decision and decision not in _DECISIONS:
        raise InvalidInput(f"{where}.decision: {describe(decision)}; {describe_choices(decision, _DECISIONS)}")
    if decision not in _APPROVES and "data" not in entry:
        raise InvalidInput(f"{where}: give decision (approve or deny), data, or both")
    # Beside approve and deny, null and "" are what a client fills in.
    has_data = "data" in entry and not (decision in _APPROVES and entry["data"] in (None, ""))
    return CallAnswer(tool_call_id, entry.get("data"), has_data, decision if decision in _APPROVES else "")


async def check_answers(
    engine: Engine, scope: Scope, run_id: str, given: Sequence[CallAnswer]
) -> tuple[str, list[CheckedAnswer]]:
    """Check answers before the transaction, since a schema can take its time. Returns what was pending then, as JSON
    text, too. Raises InvalidInput, LimitExceeded, NotFound."""
    for each in given:
        # Each answer has this limit; all answers together have another (append_answer).
        await write_exact_json(each.data, "data", engine.limits.run_data_bytes, engine.limits)
    run = await engine.database.read(runs.find, scope, run_id)
    if run.status in ENDINGS:  # which is raised once it is known that this request is new
        return "", []
    calls = read_calls(intact(run.pending, f"what run {run.run_id!r} waits for"))
    answered = set(list_of(run.answered))
    left = [call for call in calls if not (call.suspended and call.tool_call_id in answered)]
    checked: list[CheckedAnswer] = []
    for each in given:
        named = each.tool_call_id
        # Ids are stored masked, so a given id may match only after it was masked, too.
        if named not in (call.tool_call_id for call in calls):
            named = engine.masked(named)[0]
        # An answer without a name is for the one call that still waits.
        if not named and any(call.suspended for call in left):
            open_ones = left
        else:
            open_ones = calls
        call = find_call(open_ones, named)
        # A check against a schema may take seconds, so it runs in a thread.
        made = await asyncio.to_thread(_check_answer, each, call)
        if any(made.tool_call_id == before.tool_call_id for before in checked):
            raise InvalidInput(f"decisions: {describe(made.tool_call_id)} is answered twice; once is allowed")
        checked.append(made)
    return run.pending, checked


def _check_answer(given: CallAnswer, call: PendingCall | None) -> CheckedAnswer:
    data = given.data
    if given.decision:
        approved = {"approved": _APPROVES[given.decision]}
        if isinstance(data, str):
            beside = parse_held(data)
        else:
            beside = data
        if not given.has_data:
            beside = {}
        if not isinstance(beside, dict) or beside.get("approved", approved["approved"]) != approved["approved"]:
            raise InvalidInput(
                "data: beside a decision it must be an object, whose approved, if any, says the same; or leave one of the "
                "two out"
            )
        data = {**approved, **beside}
    return CheckedAnswer(call.tool_call_id if call else "", check_data(data, call), given.decision)


def check_unchanged(run: Run, pending: str) -> None:
    """Raises Conflict where other calls are pending than the answers were checked against."""
    if run.pending != pending:
        raise Conflict(f"run {run.run_id!r} was suspended again at this moment, with other tool calls: look anew")


def _is_there(checked: CheckedAnswer, brought: Sequence[Json], run: Run) -> bool:
    """Whether the same answer is there. Raises Conflict for another one to the same call."""
    if checked.tool_call_id not in list_of(run.answered):
        return False
    before = [entry for entry in brought if entry.get("tool_call_id", "") == checked.tool_call_id]
    if not before or to_json(before[-1]["data"]) == to_json(checked.data):
        return True
    last = before[-1]
    if checked.tool_call_id:
        call = f"call {describe(checked.tool_call_id)}"
    else:
        call = "it"
    if "by" in last:
        who = f" {last['by']}"
    else:
        who = ""
    raise Conflict(
        f"run {run.run_id!r}: {call} was answered by{who} at {iso(last['at'])}, otherwise; get_run shows how. Only "
        "who runs it can bring another answer, with resume_run"
    )


def append_answer(engine: Engine, answers: Answers, checked: CheckedAnswer, *, by: str, now: int) -> Answers:
    """Append an answer to those before. The same data for the same call is stored once. Raises LimitExceeded."""
    if checked.tool_call_id:
        of = {"tool_call_id": checked.tool_call_id}
    else:
        of = {}
    entry = {**of, **({"decision": checked.decision} if checked.decision else {}), "data": checked.data}
    brought: list[Json] = list_of(answers.brought)
    same = [known["data"] for known in brought if known.get("tool_call_id", "") == checked.tool_call_id]
    if not same or to_json(same[-1]) != to_json(checked.data):
        brought = [*brought, {**entry, "by": by, "at": now}]
    text = to_json(brought)
    size, most = len(text.encode()), engine.limits.run_state_bytes
    if size > most:
        raise LimitExceeded(
            f"data: with what was brought since the run was suspended, {size:,} bytes; at most {most:,} are allowed: "
            "resume without data, or suspend the run again, which begins anew"
        )
    return Answers(text, to_json(sorted({*list_of(answers.answered), checked.tool_call_id})))


def hand_over(answers: Answers) -> tuple[Answers, int]:
    """Answers that their runner has now seen, all of them, and how many are new to it."""
    brought: list[Json] = list_of(answers.brought)
    new = sum(_HANDED not in entry for entry in brought)
    return (replace(answers, brought=to_json([{**each, _HANDED: True} for each in brought])) if new else answers), new


def keep_unseen(answers: Answers, calls: Any) -> Answers:
    """The answers that stay when others calls are pending: those that no runner has seen, to calls that still wait."""
    waiting = {call.tool_call_id for call in read_calls(calls) if call.suspended}
    # An answer that no runner saw must not go with the calls around it.
    kept = [
        entry for entry in list_of(answers.brought) if _HANDED not in entry and entry.get("tool_call_id", "") in waiting
    ]
    return Answers(to_json(kept), to_json(sorted({entry["tool_call_id"] for entry in kept})))


def show_answers(brought: str) -> list[Resumption]:
    """Answers as a tool's answer has them."""
    return [_show_answer(entry) for entry in list_of(brought)]


def _show_answer(entry: StoredJson) -> Resumption:
    shown: Resumption = {"data": entry["data"], "at": iso(entry["at"])}
    if "tool_call_id" in entry:
        shown["tool_call_id"] = entry["tool_call_id"]
    if "decision" in entry:
        shown["decision"] = entry["decision"]
    if "by" in entry:
        shown["by"] = entry["by"]
    return order_keys(Resumption, shown)
