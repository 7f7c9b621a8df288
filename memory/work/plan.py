"""A thread's plan, as a caller makes, changes and reads it (n8n's plan tool)."""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, NotRequired, cast

from typing_extensions import TypedDict

from layerlore.memory.engine import acts
from layerlore.memory.engine.engine import Engine, Sent
from layerlore.memory.rules.ages import iso
from layerlore.memory.rules.answer_keys import show_masked
from layerlore.memory.rules.validation import check_json, check_number, count_json_bytes, describe, load_json
from layerlore.memory.work import open_work, plan_rules
from layerlore.memory.work.plan_answers import PlanAnswer, PlanChanged
from layerlore.storage.core.errors import InvalidInput, LimitExceeded, NotFound
from layerlore.storage.core.records import Plan, Scope, StoredJson, StoredPlan
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import notes
from layerlore.storage.removal.acts import ActPart
from layerlore.storage.threads import events
from layerlore.storage.threads.events import NewEvent
from layerlore.storage.work import plans
from layerlore.storage.work.plans import PlanHistory, Revision

PlanRule = Callable[[StoredPlan | None], StoredPlan]


class _StoredChange(TypedDict):
    """The answer of a change, as a repeated request gets it: without the words of the plan."""

    thread_id: str
    done: str
    revision: int
    replaced: NotRequired[int]
    dropped_steps: NotRequired[int]
    undo: NotRequired[str]
    masked: NotRequired[int]


class _Revisions(TypedDict):
    revision: int
    replaced: NotRequired[int]


async def create_plan(
    engine: Engine,
    scope: Scope,
    thread_id: str,
    raw: Any,
    *,
    phases: Sequence[str],
    expected_revision: int | None,
    sent: Sent,
) -> PlanAnswer:
    """Make a plan; one that is open is replaced, and stays in the history. See plan_rules for what is allowed.

    Returns what ``review_plan`` returns, and in ``change`` what was done. Raises InvalidInput, LimitExceeded, Conflict.
    """
    given, masked = _check_given(engine, raw)
    made = plan_rules.make_plan(given, phases)
    return await _write(engine, scope, thread_id, "create", given, lambda _: made, masked, expected_revision, sent)


async def update_plan(
    engine: Engine,
    scope: Scope,
    thread_id: str,
    raw: Any,
    *,
    phases: Sequence[str],
    expected_revision: int | None,
    sent: Sent,
) -> PlanAnswer:
    """Change the open plan by a patch, or to another whole plan. One that changes nothing makes no new revision.

    Returns what ``review_plan`` returns, and in ``change`` what was done. Raises InvalidInput, LimitExceeded, Conflict,
    NotFound when there is no plan yet.
    """
    given, masked = _check_given(engine, raw)

    def rule(current: StoredPlan | None) -> StoredPlan:
        return plan_rules.change_plan(current, given, phases)

    return await _write(engine, scope, thread_id, "update", given, rule, masked, expected_revision, sent)


def _check_given(engine: Engine, raw: Any) -> tuple[StoredJson, int]:
    """Check what was sent as a plan, an object or its JSON text, and mask its secrets. Returns how many there were,
    too."""
    given = raw
    if isinstance(raw, str):
        try:
            given = load_json(raw, "plan")
        except ValueError as error:
            raise InvalidInput(f"plan: a string must hold a JSON object ({error})") from None
    if given is None:
        raise InvalidInput('plan: needed to create or update, as {"goal": "...", "steps": [{"description": "..."}]}')
    if not isinstance(given, dict):
        raise InvalidInput(f"plan: must be an object with goal and steps, not {describe(given)}")
    check_json(given, "plan", depth=engine.limits.json_depth)
    size = count_json_bytes(given)
    if size > plan_rules.MOST_BYTES:
        raise LimitExceeded(f"plan: {size:,} bytes of JSON; at most {plan_rules.MOST_BYTES:,} are allowed")
    return engine.masked(given)


async def _write(
    engine: Engine,
    scope: Scope,
    thread_id: str,
    action: str,
    given: StoredJson,
    rule: PlanRule,
    masked: int,
    expected_revision: int | None,
    sent: Sent,
) -> PlanAnswer:
    check_number(expected_revision, "expected_revision", 0, note=", or left out; 0 means that there is no plan yet")
    now, new_uid, undo_id = engine.now(), engine.new_id(), acts.make_undo_id(engine)

    async def write(tx: Tx) -> _StoredChange:
        done = await plans.change(
            tx,
            scope,
            thread_id,
            rule,
            expected_revision=expected_revision,
            actor=sent.origin.actor,
            new_uid=new_uid,
            now=now,
            is_open=plan_rules.is_open,
        )
        before, after = done.before, done.after
        replaced = before.revision if before and action == "create" and before is not after else None
        revisions: _Revisions = {"revision": after.revision}
        if replaced:
            revisions["replaced"] = replaced
        if before is not after:
            happened = NewEvent("plan_created" if action == "create" else "plan_updated", {**revisions})
            await events.record(tx, scope, done.thread, [happened], origin=sent.origin, now=now)
            await notes.refresh(tx, scope, done.thread.thread_uid, engine.search_text_of, ("plan",))
        dropped = 0 if before is None or replaced else len(_ids(before) - _ids(after))
        parts = []
        if before is not None and (replaced or dropped):
            parts = [ActPart("plan", "", done.thread.thread_uid, before.revision, after.revision)]
        done_as = "nothing" if before is after else f"{action}d"
        answer: _StoredChange = {"thread_id": thread_id, "done": done_as, **revisions}
        if dropped:
            answer["dropped_steps"] = dropped
        undoable = await acts.record_act(tx, engine, scope, undo_id, sent.origin.tool, parts, now)
        return {**answer, **undoable, **show_masked(masked)}

    stored = await engine.write(scope, sent, [action, given, expected_revision], now, write)
    # Of a request that is sent again to a new process, the thread that the first one meant.
    meant = stored["thread_id"]
    replaced = stored.get("replaced")
    kept = None
    with contextlib.suppress(NotFound):  # the thread was deleted since the first of the repeated requests
        kept = await engine.database.read(plans.read_history, scope, meant, [replaced] if replaced else [])
    was = kept.asked.get(replaced) if kept and replaced else None
    change = _show_change(stored)
    if was:
        change["replaced_goal"] = was.plan["goal"]
    return {**_answer(meant, kept), "change": change}


def _show_change(stored: _StoredChange) -> PlanChanged:
    return cast("PlanChanged", {name: value for name, value in stored.items() if name != "thread_id"})


def _ids(revision: Revision) -> set[str]:
    return {step["id"] for step in revision.plan["steps"]}


async def review_plan(engine: Engine, scope: Scope, thread_id: str, *, revision: int | None = None) -> PlanAnswer:
    """Read the plan, or one of the last revisions: ``thread_id``, ``revision``, ``updated_at``, ``plan`` (null when
    there is none yet), ``oldest_revision`` (the oldest that can be read); and where no plan is open here, in
    ``elsewhere`` what is open in other threads.

    An unknown thread has none yet. Raises NotFound for a revision that is not kept, InvalidInput.
    """
    check_number(revision, "revision", 1)
    kept = None
    with contextlib.suppress(NotFound):
        kept = await engine.database.read(plans.read_history, scope, thread_id, [] if revision is None else [revision])
    if revision is None:
        if kept is not None and plan_rules.is_open(kept.newest.plan):
            return _answer(thread_id, kept)
        elsewhere = await open_work.read_elsewhere(engine, scope, thread_id)
        answer = _answer(thread_id, kept)
        if elsewhere:
            answer["elsewhere"] = elsewhere
        return answer
    if kept is None or revision not in kept.asked:
        there = f"{kept.oldest} to {kept.newest.revision} are kept" if kept else "there is no plan yet"
        raise NotFound(f"revision: thread {thread_id!r} has no plan of revision {revision}; {there}")
    return _answer(thread_id, PlanHistory(kept.asked[revision], kept.oldest, {}))


async def read_open_plan(engine: Engine, scope: Scope, thread_id: str) -> Plan | None:
    """Read the plan of a thread; None when there is none."""
    with contextlib.suppress(NotFound):
        kept = await engine.database.read(plans.read_history, scope, thread_id)
        return _show_plan(kept.newest.plan) if kept else None
    return None


def _answer(thread_id: str, kept: PlanHistory | None) -> PlanAnswer:
    if kept is None:
        return {"thread_id": thread_id, "plan": None}
    return {
        "thread_id": thread_id,
        "revision": kept.newest.revision,
        "updated_at": iso(kept.newest.created_at),
        "plan": _show_plan(kept.newest.plan),
        "oldest_revision": kept.oldest,
    }


def _show_plan(stored: StoredPlan) -> Plan:
    return {
        "goal": stored["goal"],
        "current_phase": stored["current_phase"],
        "iteration": stored["iteration"],
        "steps": stored["steps"],
    }
