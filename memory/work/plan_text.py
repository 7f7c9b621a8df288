"""A plan as lines for a model to read; a step is called by its id."""

from collections.abc import Iterator

from layerlore.memory.parts.tokens import TokenCounter
from layerlore.memory.rules.answer_keys import order_keys
from layerlore.memory.text.blocks import wrap_block
from layerlore.memory.text.quotation import quote_line
from layerlore.memory.work.plan_answers import (
    AllOpenWork,
    OpenPlanRow,
    OpenRunRow,
    OpenWorkAnswer,
    PlanAnswer,
    PlanChanged,
    PlanStateAnswer,
    StepState,
    TaskRow,
)
from layerlore.memory.work.plan_rules import OPEN
from layerlore.storage.core.records import Plan, PlanStep

_ALL_OPEN = "All that is open in all conversations, changed last first."
NOTHING = (
    'There is no plan yet. action="create" makes one, with plan={"goal": "...", "steps": [{"description": "..."}]}.'
)


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
    change: PlanChanged = {**answer["change"]}
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


def _describe_change(change: PlanChanged, revision: int | None) -> Iterator[str]:
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
    return [*head, *map(render_step, plan["steps"])] if plan["steps"] else [*head, "No steps yet."]


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
    ordered = sorted(steps, key=lambda s: (s["status"] != "in_progress", s["phase"] != plan["current_phase"]))
    return ordered[0] if ordered else None
