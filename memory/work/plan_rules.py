"""The rules of a plan and of its changes: pure functions, whose errors say how a model can correct its call.

A plan (the one that n8n's agents keep): ``goal``, ``current_phase`` (``currentPhase`` is understood), ``iteration``
(a whole number from 0), ``steps``: each ``id``, ``phase``, ``description``, ``status``, and ``result`` where there is
one; a step that is just a text is its description. Any text is a phase, and an empty one says nothing. Stored beside
them is ``last_id``: step ids s1, s2, ... are assigned once and never again.

An update is either
- a whole plan: ``goal`` and ``steps``, at least one, and every step has a description and none an ``index``. Steps that
  it leaves out are dropped. A step without an id keeps the id of the step with its description, else of the one at its
     position that
  no other step took, else gets a new one. One that is known by id or description keeps the phase and status that are
  not given, and its result while the status stays;
- or a patch: only its keys change. A step with ``id`` or ``index`` (from 0, before the update) changes that step;
a step with neither is appended. The description of a step that is still open cannot be appended: who sends that means
the step, or a whole plan.

``result: ""`` removes a result. A key whose value is null says nothing.
"""

from collections.abc import Sequence
from typing import Any, TypedDict, cast

from layerlore.memory.rules.validation import (
    check_keys,
    check_new_id,
    count_json_bytes,
    describe,
    describe_choices,
)
from layerlore.storage.core import linear_re
from layerlore.storage.core.errors import InvalidInput, LimitExceeded, NotFound
from layerlore.storage.core.records import Plan, PlanStep, StoredJson, StoredPlan

STATUSES = ("pending", "in_progress", "completed", "failed", "skipped")
OPEN = ("pending", "in_progress")
_OTHER_STATUSES = {
    **dict.fromkeys(("todo", "to_do", "open", "idle", "waiting", "not_started"), "pending"),
    **dict.fromkeys(("doing", "running", "active", "started", "in-progress", "in progress"), "in_progress"),
    **dict.fromkeys(("done", "success", "succeeded", "complete", "finished"), "completed"),
    **dict.fromkeys(("error", "failure"), "failed"),
    **dict.fromkeys(("cancelled", "canceled"), "skipped"),
}
MOST_BYTES = 64 * 1024
MOST_STEPS = 200
MOST_ITERATIONS = 1_000_000
ID_CHARS = 64

_PLAN_KEYS = ("goal", "current_phase", "iteration", "steps")
_STEP_KEYS = ("id", "phase", "description", "status", "result")
_GIVEN_ID = linear_re.compile(r"s([1-9][0-9]{0,5})")
_SHOWN_IDS = 50


class _StepFields(TypedDict, total=False):
    """The fields that a change names of a step."""

    phase: str
    description: str
    status: str
    result: str


class _PlanChange(TypedDict, total=False):
    """The fields that a change names of a plan; the steps are not checked yet."""

    goal: str
    current_phase: str
    iteration: int
    steps: list[StoredJson]


def make_plan(given: StoredJson, phases: Sequence[str]) -> StoredPlan:
    """The plan that a create makes. Raises InvalidInput, LimitExceeded."""
    change = _read(given)
    if "goal" not in change:
        raise InvalidInput(f"plan.goal: needed to create a plan{_example(phases)}")
    before: StoredPlan = {"goal": "", "current_phase": phases[0], "iteration": 1, "steps": [], "last_id": 0}
    return _check_fit(_apply_whole(before, change))


def is_open(plan: Plan) -> bool:
    """Whether something in a plan is still to be done; one without steps is only begun."""
    return not plan["steps"] or any(step["status"] in OPEN for step in plan["steps"])


def change_plan(current: StoredPlan | None, given: StoredJson, phases: Sequence[str]) -> StoredPlan:
    """The plan after an update. Changes neither argument.

    Raises InvalidInput, LimitExceeded, NotFound when no plan exists.
    """
    if current is None:
        raise NotFound(f"there is no plan yet to update: make one with action='create'{_example(phases)}")
    change = _read(given)
    if not change:
        raise InvalidInput(f"plan: nothing to update; give any of {', '.join(_PLAN_KEYS)}")
    steps = change.get("steps", [])
    whole = "goal" in change and steps and all("description" in item and "index" not in item for item in steps)
    return _check_fit(_apply_whole(current, change) if whole else _apply_patch(current, change))


def _example(phases: Sequence[str]) -> str:
    step = f'{{"phase": "{phases[0]}", "description": "..."}}'
    return f', plan={{"goal": "...", "steps": [{step}]}}'


def _read(given: StoredJson) -> _PlanChange:
    """The arguments, checked key by key; steps as objects that are not checked yet."""
    check_keys(given, "plan", _PLAN_KEYS, passed_over=("currentPhase",))
    change = {key: given[key] for key in _PLAN_KEYS if given.get(key) is not None}
    alias = given.get("currentPhase")
    if alias is not None and change.setdefault("current_phase", alias) != alias:
        raise InvalidInput("plan: current_phase and currentPhase are one and the same; give one of them")
    if "goal" in change:
        _check_words(change["goal"], "plan.goal")
    # Models send an empty phase where they mean the present one.
    if "current_phase" in change and _is_blank(change["current_phase"], "plan.current_phase"):
        del change["current_phase"]
    if "iteration" in change:
        change["iteration"] = _whole_number(change["iteration"], "plan.iteration", MOST_ITERATIONS)
    if "steps" in change:
        change["steps"] = _check_items(change["steps"])
    return cast("_PlanChange", change)


def _check_items(steps: Any) -> list[StoredJson]:
    if not isinstance(steps, list):
        raise InvalidInput(f"plan.steps: must be a list of steps, not {describe(steps)}")
    if len(steps) > MOST_STEPS:
        raise LimitExceeded(f"plan.steps: {len(steps):,} steps; at most {MOST_STEPS} are allowed")
    items = [{"description": item} if isinstance(item, str) else item for item in steps]
    for place, item in enumerate(items):
        if not isinstance(item, dict):
            raise InvalidInput(
                f"plan.steps[{place}]: must be a description, or an object with one, not {describe(item)}"
            )
    # Models fill unused keys with null.
    return [{key: value for key, value in item.items() if value is not None} for item in items]


def _check_fields(item: StoredJson, where: str) -> _StepFields:
    """The fields of an item about its step, checked."""
    if "phase" in item and _is_blank(item["phase"], f"{where}.phase"):
        item = {key: value for key, value in item.items() if key != "phase"}
    if "description" in item:
        _check_words(item["description"], f"{where}.description")
    if "status" in item:
        item = {**item, "status": _read_status(item["status"], f"{where}.status")}
    if not isinstance(item.get("result", ""), str):
        raise InvalidInput(f'{where}.result: must be a string ("" removes it), not {describe(item["result"])}')
    if "id" in item:
        check_new_id(item["id"], f"{where}.id", ID_CHARS)
    fields = {key: item[key] for key in _STEP_KEYS if key in item and key != "id"}
    return cast("_StepFields", fields)


def _is_blank(value: Any, where: str) -> bool:
    if not isinstance(value, str):
        raise InvalidInput(f"{where}: must be a string, not {describe(value)}")
    return not value.strip()


def _check_words(value: Any, where: str) -> None:
    if _is_blank(value, where):
        raise InvalidInput(f"{where}: must not be empty; say it in a few words")


def _read_status(value: Any, where: str) -> str:
    """A status, under the names of other systems too."""
    if isinstance(value, str):
        status = _OTHER_STATUSES.get(value.lower(), value)
    else:
        status = value
    if status not in STATUSES:
        raise InvalidInput(f"{where}: unknown status {describe(value)}; {describe_choices(value, STATUSES)}")
    return str(status)


def _whole_number(value: Any, where: str, most: int) -> int:
    # Some clients write 3 as 3.0.
    fits = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= most
    if not fits or int(value) != value:
        raise InvalidInput(f"{where}: must be a whole number from 0 to {most:,}, not {_show_number(value)}")
    return int(value)


def _show_number(value: Any) -> str:
    """A value that should be a number, as an error may show it."""
    # An error must not repeat a number of thousands of digits.
    short = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15
    if short:
        return str(value)
    return describe(value)


def _make_step(step_id: str, known: _StepFields, fields: _StepFields) -> PlanStep:
    """A step of what is known of it and what is now said, its keys in their order."""
    said: _StepFields = {"phase": "", "status": "pending", **known, **fields}
    step: PlanStep = {
        "id": step_id,
        "phase": said["phase"],
        "description": said["description"],
        "status": said["status"],
    }
    if said.get("result"):
        step["result"] = said["result"]
    return step


def _fields_of(step: PlanStep) -> _StepFields:
    fields: _StepFields = {"phase": step["phase"], "description": step["description"], "status": step["status"]}
    if "result" in step:
        fields["result"] = step["result"]
    return fields


class _Ids:
    """Gives ids that the plan never had."""

    def __init__(self, last: int, taken: set[str]) -> None:
        self.last = last
        self._taken = taken
        # A caller may have chosen an id such as s7, which no other step may get.
        for step_id in taken:
            if found := _GIVEN_ID.fullmatch(step_id):
                self.last = max(self.last, int(found[1]))

    def new(self) -> str:
        self.last += 1
        while f"s{self.last}" in self._taken:
            self.last += 1
        return f"s{self.last}"


def _apply_whole(before: StoredPlan, change: _PlanChange) -> StoredPlan:
    items = change.get("steps", [])
    said: list[_StepFields] = []
    for place, item in enumerate(items):
        where = f"plan.steps[{place}]"
        check_keys(item, where, _STEP_KEYS)
        if "description" not in item:
            raise InvalidInput(f"{where}.description: is missing; every step needs one")
        said.append(_check_fields(item, where))
    named = [item.get("id") for item in items]
    for place, step_id in enumerate(named):
        if step_id is not None and (first := named.index(step_id)) < place:
            raise InvalidInput(f"plan.steps[{place}].id: {describe(step_id)} is the id of steps[{first}] too")
    phase = change.get("current_phase", before["current_phase"])
    known, same = _match_steps(items, before["steps"])
    own = {item["id"] for item in items if "id" in item}
    # Ids of dropped steps count as well: messages and notes may still name them.
    ids = _Ids(before["last_id"], own | {step["id"] for step in before["steps"]})
    steps = []
    for place, (item, fields) in enumerate(zip(items, said, strict=True)):
        was = known[place]
        kept: _StepFields = {"phase": phase}
        if was is not None and same[place]:
            kept = _fields_of(was)
            # A result explains the status that it came with, and goes with it.
            if fields.get("status", was["status"]) != was["status"]:
                kept.pop("result", None)
        steps.append(_make_step(item.get("id") or (was["id"] if was else ids.new()), kept, fields))
    return {
        "goal": change["goal"],
        "current_phase": phase,
        "iteration": change.get("iteration", before["iteration"]),
        "steps": steps,
        "last_id": ids.last,
    }


def _match_steps(items: Sequence[StoredJson], steps: Sequence[PlanStep]) -> tuple[list[PlanStep | None], list[bool]]:
    """For each item of a whole plan the step that it is, and whether its id or description says so."""
    left = {step["id"]: step for step in steps}
    met: list[PlanStep | None] = [left.pop(item["id"], None) if "id" in item else None for item in items]
    for place, item in enumerate(items):
        if "id" not in item:
            # The step at the same place comes first, since two steps may have one description.
            here = steps[place : place + 1]
            like = [s for s in (*here, *steps) if s["id"] in left and s["description"] == item["description"]]
            if like:
                met[place] = left.pop(like[0]["id"])
    same = [step is not None for step in met]
    # A step that was reworded is known by its place. It keeps its id and nothing else.
    for place, item in enumerate(items[: len(steps)]):
        if "id" not in item and met[place] is None:
            met[place] = left.pop(steps[place]["id"], None)
    return met, same


def _apply_patch(current: StoredPlan, change: _PlanChange) -> StoredPlan:
    steps: list[PlanStep] = [{**step} for step in current["steps"]]
    phase = change.get("current_phase", current["current_phase"])
    ids = _Ids(current["last_id"], {step["id"] for step in steps})
    before, patched = current["steps"], set[int]()
    for number, item in enumerate(change.get("steps", [])):
        where = f"plan.steps[{number}]"
        check_keys(item, where, (*_STEP_KEYS, "index"))
        fields = _check_fields(item, where)
        if "id" not in item and "index" not in item:
            _check_new(item, where, before)
            steps.append(_make_step(ids.new(), {"phase": phase}, fields))
            continue
        place = _find_place(item, where, before)
        if place in patched:
            raise InvalidInput(f"{where}: step {before[place]['id']!r} is changed twice in one update; once is allowed")
        patched.add(place)
        steps[place] = _make_step(before[place]["id"], _fields_of(before[place]), fields)
    plan: StoredPlan = {**current, "current_phase": phase, "steps": steps, "last_id": ids.last}
    if "goal" in change:
        plan["goal"] = change["goal"]
    if "iteration" in change:
        plan["iteration"] = change["iteration"]
    return plan


def _check_new(item: StoredJson, where: str, steps: Sequence[PlanStep]) -> None:
    if "description" not in item:
        raise InvalidInput(
            f"{where}: say which step to change with id or index{_name_ids(steps)}; a new step needs a description"
        )
    for step in steps:
        if step["description"] == item["description"] and step["status"] in OPEN:
            raise InvalidInput(
                f"{where}: step {step['id']!r} has this description and is {step['status']}: "
                f"give id={step['id']!r} to change it, or send the whole plan, its goal too, to replace all steps"
            )


def _find_place(item: StoredJson, where: str, steps: Sequence[PlanStep]) -> int:
    """Which step a patch is for. Raises InvalidInput."""
    places = {step["id"]: place for place, step in enumerate(steps)}
    if "id" in item and item["id"] not in places:
        raise InvalidInput(
            f"{where}.id: there is no step {describe(item['id'])}{_name_ids(steps)}; leave it out for a new step"
        )
    if "index" not in item:
        return places[item["id"]]
    index = item["index"]
    if isinstance(index, bool) or not isinstance(index, int):
        raise InvalidInput(f"{where}.index: must be a whole number, not {_show_number(index)}")
    if not 0 <= index < len(steps):
        if steps:
            there = f"0 to {len(steps) - 1} are allowed"
        else:
            there = "the plan has no steps yet"
        raise InvalidInput(f"{where}.index: {_show_number(index)} is out of range; {there}")
    if "id" in item and places[item["id"]] != index:
        raise InvalidInput(
            f"{where}: id {item['id']!r} is the step at index {places[item['id']]}, not at {index}; give one of the two"
        )
    return index


def _name_ids(steps: Sequence[PlanStep]) -> str:
    ids = [repr(step["id"]) for step in steps]
    # A plan may have 200 steps, too many for an error.
    if len(ids) > _SHOWN_IDS:
        more = f" and {len(ids) - _SHOWN_IDS} more"
    else:
        more = ""
    if ids:
        return f" (there are {', '.join(ids[:_SHOWN_IDS])}{more})"
    return " (the plan has no steps yet)"


def _check_fit(plan: StoredPlan) -> StoredPlan:
    # Patches add up, so the plan is checked after the change.
    if len(plan["steps"]) > MOST_STEPS:
        raise LimitExceeded(f"plan.steps: {len(plan['steps']):,} steps in all; at most {MOST_STEPS} are allowed")
    size = count_json_bytes(plan)
    if size > MOST_BYTES:
        raise LimitExceeded(f"plan: {size:,} bytes of JSON in all; at most {MOST_BYTES:,} are allowed")
    return plan
