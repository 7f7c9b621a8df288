"""What is open: of a conversation itself its suspended runs; of the others, for one that begins or has no open plan of its
own, unfinished plans and suspended runs, the newest of them, and how many more there are."""

import contextlib

from typing_extensions import TypedDict

from layerlore.memory.engine.engine import Engine
from layerlore.memory.parts.tokens import CUT_MARK
from layerlore.memory.rules.ages import age, iso
from layerlore.memory.rules.answer_keys import order_keys
from layerlore.memory.text.quotation import join_lines
from layerlore.memory.work.plan_answers import AllOpenWork, OpenPlanRow, OpenRunRow, OpenStep, OpenWorkAnswer, TaskRow
from layerlore.memory.work.plan_rules import OPEN
from layerlore.memory.work.plan_text import find_current_step
from layerlore.memory.work.run_lists import show_run
from layerlore.storage.core.errors import NotFound
from layerlore.storage.core.records import Scope, Thread
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived.subjects import find_others, read_subject, subject_in
from layerlore.storage.threads import threads
from layerlore.storage.work import open_work
from layerlore.storage.work.open_work import MOST_COUNTED, OpenPlan
from layerlore.storage.work.runs import Run

MOST_LISTED = 5
"""Plans and runs that are listed; the others are counted, up to 100 of each."""
# Longest goal, step or reason, in characters.
_MOST_CHARS = 160


async def read_elsewhere(engine: Engine, scope: Scope, thread_id: str) -> OpenWorkAnswer | None:
    """``find_elsewhere`` for a thread, whether or not somebody wrote to it yet."""
    return await engine.database.read(_read_elsewhere, scope, thread_id, now=engine.now())


async def _read_elsewhere(tx: Tx, scope: Scope, thread_id: str, *, now: int) -> OpenWorkAnswer | None:
    thread = None
    with contextlib.suppress(NotFound):
        thread = await threads.find(tx, scope, thread_id)
    return await find_elsewhere(tx, scope, thread, now=now)


async def find_elsewhere(tx: Tx, scope: Scope, thread: Thread | None, *, now: int) -> OpenWorkAnswer | None:
    """Read what is open in all threads but this one (None: in all) and those about another subject: ``open``, a plan or
    a run each, changed last first, and ``more_plans`` and ``more_runs`` where there are more. None where nothing is open.
    ``plan_text.render_open`` makes lines of it."""
    uid, subject = (thread.thread_uid, subject_in(thread.metadata)) if thread else ("", "")
    others = (await find_others(tx, scope, subject)).thread_ids
    most = MOST_COUNTED if others else MOST_LISTED
    found = await open_work.find_open(tx, scope, other_than=uid, now=now, most=most)
    if others:
        found = found.without(others)
    items: list[tuple[int, OpenPlanRow | OpenRunRow]] = []
    items += [(plan.updated_at, _show_plan(plan, now)) for plan in found.plans]
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
        row: OpenPlanRow = {**_show_plan(plan, now), "open_steps": _list_steps(plan)}
        items.append((plan.updated_at, row))
    items += [(run.updated_at, _show_open_run(run, now)) for run in found.runs]
    items += [(thread.updated_at, _show_task(thread, now)) for thread in noted]
    return [shown for _, shown in sorted(items, key=lambda item: -item[0])]


def _list_steps(found: OpenPlan) -> list[OpenStep]:
    steps = [step for step in found.plan["steps"] if step["status"] in OPEN]
    return [{"id": step["id"], "status": step["status"], "description": _cut(step["description"])} for step in steps]


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
    return {"open": [*found]} if found else None


async def _read_suspended(tx: Tx, scope: Scope, thread_id: str, *, now: int) -> list[OpenRunRow]:
    try:
        thread = await threads.find(tx, scope, thread_id)
    except NotFound:
        return []
    return await find_suspended(tx, scope, thread.thread_uid, now=now)


def _show_plan(found: OpenPlan, now: int) -> OpenPlanRow:
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
    return line if len(line) <= _MOST_CHARS else line[:_MOST_CHARS] + CUT_MARK
