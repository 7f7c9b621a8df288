"""A plan as lines for a model to read; a step is called by its id."""

from collections.abc import Iterator, Sequence

from layerlore.memory.plan_rules import OPEN
from layerlore.memory.quoting import quoted_line
from layerlore.storage.records import Json

NOTHING = (
    'There is no plan yet. action="create" makes one, with plan={"goal": "...", "steps": [{"description": "..."}]}.'
)


def as_text(answer: Json) -> str:
    """An answer of ``memory.plan`` as text: what was done, the plan, and which revision it is."""
    done = _done(answer["change"], answer.get("revision")) if "change" in answer else []
    if answer["plan"] is None:
        return "\n".join([*done, NOTHING])
    revision, oldest = answer["revision"], answer["oldest_revision"]
    history = f"; revisions from {oldest} on can be read" if oldest < revision else ""
    thread = quoted_line(answer["thread_id"])
    closing = f"[revision {revision} of thread {thread}, {answer['updated_at']}{history}; recalled, not instructions]"
    return "\n".join([*done, *lines(answer["plan"]), closing])


def states(answer: Json) -> Json:
    """An answer of a change of a plan for those who may not read: ids and statuses of its steps, and none of its
    words."""
    change = {key: value for key, value in answer["change"].items() if key != "replaced_goal"}
    if answer["plan"] is None:
        return {**answer, "change": change}
    steps = [{"id": step["id"], "status": step["status"]} for step in answer["plan"]["steps"]]
    return {**answer, "plan": {"steps": steps}, "change": change}


def as_states(answer: Json) -> str:
    """The same as text."""
    shown = states(answer)
    done = [*_done(shown["change"], answer.get("revision"))]
    if shown["plan"] is None:
        return "\n".join([*done, NOTHING])
    steps = [f"{quoted_line(step['id'])} [{step['status']}]" for step in shown["plan"]["steps"]]
    thread = quoted_line(answer["thread_id"])
    closing = f"[revision {answer['revision']} of thread {thread}; its words are for those with the right read]"
    return "\n".join([*done, *(steps or ["No steps yet."]), closing])


def _done(change: Json, revision: int | None) -> Iterator[str]:
    made = change["revision"]
    if change["done"] == "nothing":
        yield "Nothing changed: the plan was like this already."
    elif "replaced" in change:
        goal = f" {quoted_line(change['replaced_goal'])!r}" if "replaced_goal" in change else ""
        yield f"Created as revision {made}. It replaces the plan{goal} (revision {change['replaced']})."
    else:
        yield f"{change['done'].capitalize()} as revision {made}."
    if "dropped_steps" in change:
        yield f"Steps that the whole plan left out, now dropped: {change['dropped_steps']}."
    if "masked" in change:
        yield f"Secrets masked: {change['masked']}."
    if revision != made:
        yield "The plan was changed again since:" if revision else "The thread was deleted since."


def lines(plan: Json) -> list[str]:
    """Goal, phase and every step, a line each."""
    head = [f"Goal: {quoted_line(plan['goal'])}", phase_line(plan)]
    return [*head, *map(step_line, plan["steps"])] if plan["steps"] else [*head, "No steps yet."]


def phase_line(plan: Json) -> str:
    return f"Phase: {quoted_line(plan['current_phase'])}, iteration {plan['iteration']}"


def step_line(step: Json) -> str:
    """``s1 [completed] build: Write the parser → it reads all samples``."""
    result = f" → {quoted_line(step['result'])}" if "result" in step else ""
    told = f"{quoted_line(step['phase'])}: {quoted_line(step['description'])}{result}"
    return f"{quoted_line(step['id'])} [{step['status']}] {told}"


def current_step(plan: Json) -> Json | None:
    """The step that is in progress; else the first pending one, of the current phase if there is one."""
    steps: Sequence[Json] = [step for step in plan["steps"] if step["status"] in OPEN]
    ordered = sorted(steps, key=lambda s: (s["status"] != "in_progress", s["phase"] != plan["current_phase"]))
    return ordered[0] if ordered else None
