"""A thread's plan, as a caller makes, changes and reads it (n8n's plan tool)."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NotRequired, cast

from typing_extensions import TypedDict

from layerlore.memory.engine.engine import Engine, WriteRequest, make_undo_id, record_act
from layerlore.memory.parts.tokens import CUT_MARK, TokenCounter
from layerlore.memory.rules.ages import age, iso
from layerlore.memory.rules.answers import order_keys, show_masked
from layerlore.memory.rules.validation import check_json, check_number, count_json_bytes, describe, load_json
from layerlore.memory.text.quotation import join_lines, quote_line, wrap_block
from layerlore.memory.work import plan_rules
from layerlore.memory.work.plan_rules import OPEN
from layerlore.memory.work.run_lists import show_run
from layerlore.memory.work.work_answers import (
    AllOpenWork,
    OpenPlanRow,
    OpenRunRow,
    OpenWorkAnswer,
    PlanAnswer,
    PlanChangeResult,
    PlanStateAnswer,
    StepState,
    TaskRow,
)
from layerlore.storage.core.errors import InvalidInput, LimitExceeded, NotFound
from layerlore.storage.core.records import Plan, PlanStep, Scope, StoredJson, StoredPlan, Thread
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import note_rows
from layerlore.storage.derived.subjects import find_others, read_subject, subject_in
from layerlore.storage.removal.acts import ActPart
from layerlore.storage.threads import events, threads
from layerlore.storage.threads.events import NewEvent
from layerlore.storage.work import plans
from layerlore.storage.work import plans as open_work
from layerlore.storage.work.plans import MOST_COUNTED, OpenPlan, PlanHistory, Revision
from layerlore.storage.work.runs import Run

_ALL_OPEN = "All that is open in all conversations, changed last first."
_EXAMPLE = '{"goal": "...", "steps": [{"description": "..."}]}'
NOTHING = f'There is no plan yet. action="create" makes one, with plan={_EXAMPLE}.'


def render_plan(answer: PlanAnswer) -> str:
    """Render an answer of ``memory.work.plan`` as text: what was done, the plan, and which revision it is."""
    done = _describe_change(answer["change"], answer.get("revision")) if "change" in answer else []
    elsewhere = answer.get("elsewhere")
    open_elsewhere = ["Open in other conversations:", *render_open(elsewhere)] if elsewhere else []
    if answer["plan"] is None:
        return "\n".join([*done, NOTHING, *open_elsewhere])
    revision, oldest = answer["revision"], answer["oldest_revision"]
    history = f"; revisions from {oldest} on can be read" if oldest < revision else ""
    thread = quote_line(answer["thread_id"])
    closing = f"[revision {revision} of thread {thread}, {answer['updated_at']}{history}; recalled, not instructions]"
    return "\n".join([*done, *render_lines(answer["plan"]), closing, *open_elsewhere])


def render_open(elsewhere: OpenWorkAnswer) -> list[str]:
    """A line for each plan and run that ``memory.work.open_work`` found, and one that counts the others."""
    lines = [_render_open_item(item) for item in elsewhere["open"]]
    counted = [
        (elsewhere.get("more_plans", 0), "more open plan"),
        (elsewhere.get("more_runs", 0), "more suspended run"),
    ]
    more = [f"{count} {name}{'' if count == 1 else 's'}" for count, name in counted if count]
    if more:
        lines.append(f"- and {', '.join(more)}")
    return lines


def _render_open_item(item: OpenPlanRow | OpenRunRow, *, with_next: bool = True) -> str:
    if item["kind"] == "plan":
        thread = f"of thread {quote_line(item['thread_id'])} ({item['age']})"
        progress = f"; {item['steps_done']} of {item['steps']} steps done" if item["steps"] else ""
        following = f"; next: {quote_line(item['next_step'])}" if with_next and "next_step" in item else ""
        return f"- plan {thread}: {quote_line(item['goal'])}{progress}{following}"
    whose = "this conversation" if item.get("here") else f"thread {quote_line(item['thread_id'])}"
    reason = f": {quote_line(item['reason'])}" if "reason" in item else ""
    waits = f"; waits for {quote_line(', '.join(item['waits_for']))}" if "waits_for" in item else ""
    return f"- suspended run {quote_line(item['run_id'])} of {whose} ({item['age']}){reason}{waits}"


def render_all_open(found: AllOpenWork, counter: TokenCounter, max_tokens: int) -> str:
    """Render what ``open_work.list_open`` found as lines, the newest work first, as much as fits; the last line counts the
    rest."""
    items = [_render_whole_item(item) for item in found["open"]]
    if not items:
        return "Nothing is open: no plan, no suspended run, no noted task."
    # The last line is always shown, so its tokens are set aside first.
    left = max_tokens - counter.text(wrap_block("open-work", _close_open(len(items), 0), _ALL_OPEN))
    shown: list[str] = []
    for item in items:
        left -= counter.text(f"{item}\n")
        if left < 0:
            break
        shown.append(item)
    lines = "\n".join([*shown, _close_open(len(items) - len(shown), len(items))])
    return wrap_block("open-work", lines, _ALL_OPEN)


def _close_open(rest: int, count: int) -> str:
    more = f"{rest} more, with a larger max_tokens" if rest else f"all that is open: {count}"
    return f"[{more}]"


def _render_whole_item(item: OpenPlanRow | OpenRunRow | TaskRow) -> str:
    if item["kind"] == "task":
        noted = [("task", item.get("current_task")), ("next step", item.get("next_step"))]
        words = "; ".join(f"{name}: {quote_line(text)}" for name, text in noted if text)
        return f"- noted of thread {quote_line(item['thread_id'])} ({item['age']}): {words}"
    if item["kind"] == "run":
        return _render_open_item(item)
    listed = item.get("open_steps", [])
    steps = [f"  {quote_line(s['id'])} [{s['status']}] {quote_line(s['description'])}" for s in listed]
    # The steps themselves follow.
    line = _render_open_item(item, with_next=not steps)
    return "\n".join([line, *steps])


def strip_words(answer: PlanAnswer) -> PlanStateAnswer:
    """Reduce the answer of a change for callers without the right to read: ids and statuses of the steps, and none of
    the plan's words."""
    change: PlanChangeResult = {**answer["change"]}
    change.pop("replaced_goal", None)
    stripped: PlanStateAnswer = {"thread_id": answer["thread_id"], "plan": None, "change": change}
    if answer["plan"] is not None:
        steps: list[StepState] = [{"id": step["id"], "status": step["status"]} for step in answer["plan"]["steps"]]
        stripped["plan"] = {"steps": steps}
        stripped["revision"] = answer["revision"]
        stripped["updated_at"] = answer["updated_at"]
        stripped["oldest_revision"] = answer["oldest_revision"]
    return order_keys(PlanStateAnswer, stripped)


def render_states(answer: PlanAnswer) -> str:
    """Render an answer without the words of the plan: ids and statuses of its steps as text."""
    shown = strip_words(answer)
    done = [*_describe_change(shown["change"], answer.get("revision"))]
    if shown["plan"] is None:
        return "\n".join([*done, NOTHING])
    steps = [f"{quote_line(step['id'])} [{step['status']}]" for step in shown["plan"]["steps"]]
    thread = quote_line(answer["thread_id"])
    closing = f"[revision {answer['revision']} of thread {thread}; its words are for those with the right read]"
    return "\n".join([*done, *(steps or ["No steps yet."]), closing])


def _describe_change(change: PlanChangeResult, revision: int | None) -> Iterator[str]:
    made = change["revision"]
    if change["done"] == "nothing":
        yield "Nothing changed: the plan was like this already."
    elif "replaced" in change:
        goal = f" {quote_line(change['replaced_goal'])!r}" if "replaced_goal" in change else ""
        yield f"Created as revision {made}. It replaces the plan{goal} (revision {change['replaced']})."
    else:
        yield f"{change['done'].capitalize()} as revision {made}."
    if "dropped_steps" in change:
        yield f"Steps that the whole plan left out, now dropped: {change['dropped_steps']}."
    if "undo" in change:
        yield f'undo(undo_id="{change["undo"]}") brings back the plan as it was.'
    if "masked" in change:
        yield f"Secrets masked: {change['masked']}."
    if revision != made:
        yield "The plan was changed again since:" if revision else "The thread was deleted since."


def render_lines(plan: Plan) -> list[str]:
    """Goal, phase and every step, a line each."""
    head = [f"Goal: {quote_line(plan['goal'])}", render_phase(plan)]
    if plan["steps"]:
        return [*head, *map(render_step, plan["steps"])]
    return [*head, "No steps yet."]


def render_phase(plan: Plan) -> str:
    """``Phase: build, iteration 2``."""
    return f"Phase: {quote_line(plan['current_phase'])}, iteration {plan['iteration']}"


def render_step(step: PlanStep) -> str:
    """``s1 [completed] build: Write the parser → it reads all samples``."""
    result = f" → {quote_line(step['result'])}" if "result" in step else ""
    words = f"{quote_line(step['phase'])}: {quote_line(step['description'])}{result}"
    return f"{quote_line(step['id'])} [{step['status']}] {words}"


def find_current_step(plan: Plan) -> PlanStep | None:
    """The step that is in progress; else the first pending one, of the current phase if there is one."""
    steps = [step for step in plan["steps"] if step["status"] in OPEN]
    # False sorts before True, so the step in progress comes first.
    ordered = sorted(steps, key=lambda s: (s["status"] != "in_progress", s["phase"] != plan["current_phase"]))
    if ordered:
        return ordered[0]
    return None


MOST_LISTED = 5
"""Plans and runs that are listed; the others are counted, up to 100 of each."""
# Longest goal, step or reason, in characters.
_MOST_CHARS = 160


async def read_elsewhere(engine: Engine, scope: Scope, thread_id: str) -> OpenWorkAnswer | None:
    """``find_elsewhere`` for a thread, whether or not it has messages yet."""
    return await engine.database.read(_read_elsewhere, scope, thread_id, now=engine.now())


async def _read_elsewhere(tx: Tx, scope: Scope, thread_id: str, *, now: int) -> OpenWorkAnswer | None:
    thread = None
    # A thread without messages has no row yet, and all open work is elsewhere.
    with contextlib.suppress(NotFound):
        thread = await threads.find(tx, scope, thread_id)
    return await find_elsewhere(tx, scope, thread, now=now)


async def find_elsewhere(tx: Tx, scope: Scope, thread: Thread | None, *, now: int) -> OpenWorkAnswer | None:
    """Read what is open in all threads but this one (None: in all) and those about another subject: ``open``, a plan or
    a run each, changed last first, and ``more_plans`` and ``more_runs`` where there are more. None where nothing is open.
    ``plan_text.render_open`` makes lines of it."""
    uid, subject = (thread.thread_uid, subject_in(thread.metadata)) if thread else ("", "")
    others = (await find_others(tx, scope, subject)).thread_ids
    # Work on other subjects is left out below, so more is read to fill the list.
    most = MOST_COUNTED if others else MOST_LISTED
    found = await open_work.find_open(tx, scope, other_than=uid, now=now, most=most)
    if others:
        found = found.without(others)
    items: list[tuple[int, OpenPlanRow | OpenRunRow]] = []
    items += [(plan.updated_at, _show_open_plan(plan, now)) for plan in found.plans]
    items += [(run.updated_at, _show_open_run(run, now)) for run in found.runs]
    if not items:
        return None
    listed = [shown for _, shown in sorted(items, key=lambda item: -item[0])[:MOST_LISTED]]
    plans = sum(shown["kind"] == "plan" for shown in listed)
    more_plans = found.total_plans - plans
    more_runs = found.total_runs - (len(listed) - plans)
    answer: OpenWorkAnswer = {"open": listed}
    if more_plans:
        answer["more_plans"] = more_plans
    if more_runs:
        answer["more_runs"] = more_runs
    return answer


async def find_suspended(tx: Tx, scope: Scope, thread_uid: str, *, now: int) -> list[OpenRunRow]:
    """The suspended runs of the thread itself, changed last first, as ``find_elsewhere`` lists those of others."""
    found = await open_work.find_suspended(tx, scope, thread_uid, now=now, most=MOST_LISTED)
    return [{**_show_open_run(run, now), "here": True} for run in found]


async def list_open(engine: Engine, scope: Scope, thread_id: str = "") -> AllOpenWork:
    """List what is open in all threads under ``open``, changed last first: plans with their open steps, suspended runs with
    what they wait for, current tasks and next steps as they were noted. At most 100 of each kind. The thread that asks is
    shown nothing about another subject. ``plan_text.render_all_open`` makes lines of it."""
    return {"open": await engine.database.read(_list_open, scope, thread_id, now=engine.now())}


async def _list_open(tx: Tx, scope: Scope, thread_id: str, *, now: int) -> list[OpenPlanRow | OpenRunRow | TaskRow]:
    most = open_work.MOST_COUNTED
    subject = await read_subject(tx, scope, thread_id) if thread_id else ""
    others = (await find_others(tx, scope, subject)).thread_ids
    found = (await open_work.find_open(tx, scope, other_than="", now=now, most=most)).without(others)
    tasks = await threads.find_tasks(tx, scope, most=most)
    noted = [thread for thread in tasks if thread.thread_id not in others]
    items: list[tuple[int, OpenPlanRow | OpenRunRow | TaskRow]] = []
    for plan in found.plans:
        steps = [step for step in plan.plan["steps"] if step["status"] in OPEN]
        row: OpenPlanRow = {
            **_show_open_plan(plan, now),
            "open_steps": [
                {"id": step["id"], "status": step["status"], "description": _cut(step["description"])} for step in steps
            ],
        }
        items.append((plan.updated_at, row))
    items += [(run.updated_at, _show_open_run(run, now)) for run in found.runs]
    items += [(thread.updated_at, _show_task(thread, now)) for thread in noted]
    return [shown for _, shown in sorted(items, key=lambda item: -item[0])]


def _show_task(thread: Thread, now: int) -> TaskRow:
    row: TaskRow = {"kind": "task", "thread_id": thread.thread_id, **_times(thread.updated_at, now)}
    if thread.current_task:
        row["current_task"] = _cut(thread.current_task)
    if thread.next_step:
        row["next_step"] = _cut(thread.next_step)
    return order_keys(TaskRow, row)


async def read_suspended(engine: Engine, scope: Scope, thread_id: str) -> OpenWorkAnswer | None:
    """``find_suspended`` under ``open``; None where nothing is."""
    found = await engine.database.read(_read_suspended, scope, thread_id, now=engine.now())
    if found:
        return {"open": [*found]}
    return None


async def _read_suspended(tx: Tx, scope: Scope, thread_id: str, *, now: int) -> list[OpenRunRow]:
    try:
        thread = await threads.find(tx, scope, thread_id)
    except NotFound:
        return []
    return await find_suspended(tx, scope, thread.thread_uid, now=now)


def _show_open_plan(found: OpenPlan, now: int) -> OpenPlanRow:
    steps = found.plan["steps"]
    current = find_current_step(found.plan) if steps else None
    row: OpenPlanRow = {
        "kind": "plan",
        "thread_id": found.thread_id,
        "goal": _cut(found.plan["goal"]),
        "steps": len(steps),
        "steps_done": sum(step["status"] not in OPEN for step in steps),
        **_times(found.updated_at, now),
    }
    if current:
        row["next_step"] = _cut(current["description"])
    return order_keys(OpenPlanRow, row)


def _show_open_run(run: Run, now: int) -> OpenRunRow:
    waiting = show_run(run, now).get("waiting", [])
    row: OpenRunRow = {
        "kind": "run",
        "run_id": run.run_id,
        "thread_id": run.thread_id,
        **_times(run.updated_at, now),
    }
    if run.reason:
        row["reason"] = _cut(run.reason)
    if waiting:
        row["waits_for"] = [_cut(call.get("tool_name", call["tool_call_id"])) for call in waiting]
    return order_keys(OpenRunRow, row)


class _Times(TypedDict):
    updated_at: str
    age: str


def _times(updated_at: int, now: int) -> _Times:
    return {"updated_at": iso(updated_at), "age": age(updated_at, now)}


def _cut(text: str) -> str:
    """A text on one line, its beginning if it is long."""
    line = join_lines(text)
    if len(line) <= _MOST_CHARS:
        return line
    return line[:_MOST_CHARS] + CUT_MARK


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
    sent: WriteRequest,
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
    sent: WriteRequest,
) -> PlanAnswer:
    """Change the open plan by a patch, or to another whole plan. One that changes nothing makes no new revision.

    Returns what ``review_plan`` returns, and in ``change`` what was done. Raises InvalidInput, LimitExceeded, Conflict,
    NotFound when no plan exists yet.
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
            raise InvalidInput(
                f"plan: a string must hold a JSON object, such as {_EXAMPLE}; this one cannot be read ({error})"
            ) from None
    if given is None:
        raise InvalidInput(f"plan: needed to create or update, as {_EXAMPLE}")
    if not isinstance(given, dict):
        raise InvalidInput(f"plan: must be an object with goal and steps, not {describe(given)}")
    check_json(given, "plan", depth=engine.limits.json_depth)
    size = count_json_bytes(given)
    if size > plan_rules.MOST_BYTES:
        raise LimitExceeded(f"plan: {size:,} bytes of JSON; at most {plan_rules.MOST_BYTES:,} are allowed")
    # The rules compare descriptions with the stored ones, so secrets are masked before.
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
    sent: WriteRequest,
) -> PlanAnswer:
    check_number(expected_revision, "expected_revision", 0, note=", or left out; 0 means that there is no plan yet")
    # Ids and times come from outside: Postgres repeats the unit when a connection is lost.
    now, new_uid, undo_id = engine.now(), engine.new_id(), make_undo_id(engine)

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
        # A rule that changes nothing returns the plan itself: no revision, no event.
        replaced = before.revision if before and action == "create" and before is not after else None
        revisions: _Revisions = {"revision": after.revision}
        if replaced:
            revisions["replaced"] = replaced
        if before is not after:
            happened = NewEvent("plan_created" if action == "create" else "plan_updated", {**revisions})
            await events.record(tx, scope, done.thread, [happened], origin=sent.origin, now=now)
            await note_rows.refresh(tx, scope, done.thread.thread_uid, engine.search_text_of, ("plan",))
        dropped = 0 if before is None or replaced else len(_ids(before) - _ids(after))
        parts = []
        if before is not None and (replaced or dropped):
            parts = [ActPart("plan", "", done.thread.thread_uid, before.revision, after.revision)]
        done_as = "nothing" if before is after else f"{action}d"
        answer: _StoredChange = {"thread_id": thread_id, "done": done_as, **revisions}
        if dropped:
            answer["dropped_steps"] = dropped
        undoable = await record_act(tx, engine, scope, undo_id, sent.origin.tool, parts, now)
        return {**answer, **undoable, **show_masked(masked)}

    stored = await engine.write(scope, sent, [action, given, expected_revision], now, write)
    # The thread that the first request meant, if it is sent again to a new process.
    meant = stored["thread_id"]
    replaced = stored.get("replaced")
    kept = None
    with contextlib.suppress(NotFound):  # the thread was deleted since the first of the repeated requests
        # The kept answer holds no words of the plan, so they come from its history.
        kept = await engine.database.read(plans.read_history, scope, meant, [replaced] if replaced else [])
    was = kept.revisions.get(replaced) if kept and replaced else None
    change = cast("PlanChangeResult", {name: value for name, value in stored.items() if name != "thread_id"})
    if was:
        change["replaced_goal"] = was.plan["goal"]
    return {**_answer(meant, kept), "change": change}


def _ids(revision: Revision) -> set[str]:
    return {step["id"] for step in revision.plan["steps"]}


async def review_plan(engine: Engine, scope: Scope, thread_id: str, *, revision: int | None = None) -> PlanAnswer:
    """Read the plan, or one of the last revisions: ``thread_id``, ``revision``, ``updated_at``, ``plan`` (null when
    none exists yet), ``oldest_revision`` (the oldest that can be read); and where no plan is open here, in
    ``elsewhere`` what is open in other threads.

    An unknown thread has none yet. Raises NotFound for a revision that is not kept, InvalidInput.
    """
    check_number(revision, "revision", 1)
    kept = None
    # An unknown thread has no plan yet, which is an answer and not an error.
    with contextlib.suppress(NotFound):
        kept = await engine.database.read(plans.read_history, scope, thread_id, [] if revision is None else [revision])
    if revision is None:
        if kept is not None and plan_rules.is_open(kept.newest.plan):
            return _answer(thread_id, kept)
        elsewhere = await read_elsewhere(engine, scope, thread_id)
        answer = _answer(thread_id, kept)
        if elsewhere:
            answer["elsewhere"] = elsewhere
        return answer
    if kept is None or revision not in kept.revisions:
        there = f"{kept.oldest} to {kept.newest.revision} are kept" if kept else "there is no plan yet"
        raise NotFound(f"revision: thread {thread_id!r} has no plan of revision {revision}; {there}")
    return _answer(thread_id, PlanHistory(kept.revisions[revision], kept.oldest, {}))


async def read_open_plan(engine: Engine, scope: Scope, thread_id: str) -> Plan | None:
    """Read the plan of a thread; None if none exists."""
    with contextlib.suppress(NotFound):
        kept = await engine.database.read(plans.read_history, scope, thread_id)
        if kept:
            return _show_plan(kept.newest.plan)
        return None
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
