"""What a plan may be and how it may change."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layerlore.memory.work.plan_rules import MOST_BYTES, MOST_STEPS, OPEN, STATUSES, change_plan, make_plan
from layerlore.storage.core.errors import InvalidInput, LimitExceeded, NotFound
from layerlore.storage.core.records import Json

PHASES = ("build", "execute", "inspect")


def make(*descriptions: str, **rest: Any) -> Json:
    return make_plan({"goal": "Serve tea", "steps": [{"description": each} for each in descriptions], **rest}, PHASES)


def change(plan: Json, *steps: Json, **rest: Any) -> Json:
    """The plan after a patch of steps."""
    return change_plan(plan, {**rest, **({"steps": list(steps)} if steps else {})}, PHASES)


def ids(plan: Json) -> list[str]:
    return [step["id"] for step in plan["steps"]]


def refused(plan: Json | None, given_: Json) -> str:
    before = copy.deepcopy((plan, given_))
    with pytest.raises((InvalidInput, NotFound)) as caught:
        change_plan(plan, given_, PHASES)
    assert (plan, given_) == before
    return str(caught.value)


def test_what_a_plan_does_not_say_has_defaults() -> None:
    assert make_plan({"goal": "Serve tea", "steps": [{"description": "Boil"}]}, PHASES) == {
        "goal": "Serve tea",
        "current_phase": "build",
        "iteration": 1,
        "steps": [{"id": "s1", "phase": "build", "description": "Boil", "status": "pending"}],
        "last_id": 1,
    }
    later = make_plan({"goal": "x", "current_phase": "inspect", "steps": [{"description": "Taste"}]}, PHASES)
    assert later["steps"][0]["phase"] == "inspect"
    assert make_plan({"goal": "x"}, PHASES)["steps"] == []


def test_a_plan_as_n8ns_agents_send_it_is_kept_as_it_was_sent() -> None:
    steps = [
        {"phase": "build", "description": "Boil", "status": "completed", "result": "hot"},
        {"phase": "execute", "description": "Pour", "status": "in_progress"},
    ]
    plan = make_plan({"goal": "Serve tea", "currentPhase": "execute", "iteration": 2, "steps": steps}, PHASES)
    assert (plan["current_phase"], plan["iteration"]) == ("execute", 2)
    assert [{key: value for key, value in step.items() if key != "id"} for step in plan["steps"]] == steps
    assert ids(plan) == ["s1", "s2"]


def test_ids_that_are_given_are_kept_and_new_ones_avoid_them() -> None:
    plan = make_plan({"goal": "x", "steps": [{"id": "s3", "description": "a"}, {"description": "b"}]}, PHASES)
    assert ids(plan) == ["s3", "s4"]
    far = make_plan({"goal": "x", "steps": [{"id": "s9999999", "description": "a"}, {"description": "b"}]}, PHASES)
    assert ids(far) == ["s9999999", "s1"]


def test_a_patch_changes_the_step_it_names_and_nothing_else() -> None:
    plan = make("Boil", "Pour", "Taste")
    by_id = change(plan, {"id": "s2", "status": "completed", "result": "done"})
    assert by_id["steps"][1] == {**plan["steps"][1], "status": "completed", "result": "done"}
    assert [by_id["steps"][0], by_id["steps"][2]] == [plan["steps"][0], plan["steps"][2]]
    assert change(plan, {"index": 1, "status": "completed", "result": "done"}) == by_id
    assert change(plan, {"index": 1, "id": "s2", "status": "completed", "result": "done"}) == by_id
    assert "result" not in change(by_id, {"id": "s2", "result": ""})["steps"][1]


def test_a_step_without_id_and_index_is_appended() -> None:
    plan = change(
        make("Boil"),
        {"description": "Pour", "status": "in_progress"},
        {"id": "s1", "status": "completed"},
        current_phase="execute",
    )
    assert plan["steps"][1] == {"id": "s2", "phase": "execute", "description": "Pour", "status": "in_progress"}
    assert plan["steps"][0]["status"] == "completed"


def test_a_patch_of_the_plan_leaves_its_steps() -> None:
    plan = make("Boil")
    assert change(plan, goal="Serve cake") == {**plan, "goal": "Serve cake"}
    assert change(plan, currentPhase="inspect", iteration=7.0) == {**plan, "current_phase": "inspect", "iteration": 7}
    assert change(plan, {"id": "s1", "status": "failed"}, goal="Serve cake")["steps"][0]["status"] == "failed"


def test_goal_and_whole_steps_replace_the_plan_and_keep_the_ids_of_steps_that_stay() -> None:
    plan = make("Boil", "Pour", "Taste")
    whole = change_plan(plan, {"goal": "g", "steps": [{"description": d} for d in ("Taste", "Sugar", "Boil")]}, PHASES)
    # Sugar stands where Pour stood, which no other step took.
    assert [(step["id"], step["description"]) for step in whole["steps"]] == [
        ("s3", "Taste"),
        ("s2", "Sugar"),
        ("s1", "Boil"),
    ]
    steps = [{"description": each} for each in ("New", "Boil", "Pour", "Taste")]
    longer = change_plan(plan, {"goal": "g", "steps": steps}, PHASES)
    assert ids(longer) == ["s4", "s1", "s2", "s3"]


def test_an_id_is_not_given_again_after_its_step_was_dropped() -> None:
    plan = change_plan(make("Boil", "Pour"), {"goal": "g", "steps": [{"description": "Boil"}]}, PHASES)
    assert ids(plan) == ["s1"]
    assert ids(change(plan, {"description": "Taste"})) == ["s1", "s3"]


def test_a_goal_with_no_steps_drops_none() -> None:
    plan = make("Boil", "Pour")
    assert change_plan(plan, {"goal": "New", "steps": []}, PHASES) == {**plan, "goal": "New"}


def test_a_step_of_a_whole_plan_that_says_no_status_keeps_it_if_it_is_the_same_step() -> None:
    plan = change(make("Boil", "Pour"), {"id": "s1", "status": "completed", "result": "hot", "phase": "execute"})
    kept = change_plan(plan, {"goal": "g", "steps": [{"description": "Boil"}, {"description": "Pour"}]}, PHASES)
    assert kept["steps"] == plan["steps"]
    renamed = change_plan(plan, {"goal": "g", "steps": [{"id": "s1", "description": "Boil more"}]}, PHASES)
    assert renamed["steps"] == [{**plan["steps"][0], "description": "Boil more"}]
    again = change_plan(plan, {"goal": "g", "steps": [{"description": "Boil", "status": "pending"}]}, PHASES)
    assert "result" not in again["steps"][0]
    another = change_plan(plan, {"goal": "g", "steps": [{"description": "Knead"}]}, PHASES)
    assert another["steps"] == [{"id": "s1", "phase": "build", "description": "Knead", "status": "pending"}]


def test_nothing_new_is_the_same_plan() -> None:
    plan = change(make("Boil", "Boil", "Pour"), {"id": "s2", "status": "failed", "result": "cold"})
    shown = {key: value for key, value in plan.items() if key != "last_id"}
    assert change_plan(plan, shown, PHASES) == plan
    assert change(plan, {"id": "s2", "status": "failed"}) == plan
    assert change_plan(plan, {"steps": []}, PHASES) == plan


def test_the_description_of_an_open_step_is_not_appended_again_but_that_of_a_settled_one_is() -> None:
    plan = make("Boil", "Pour")
    told = refused(plan, {"steps": [{"description": "Boil", "status": "completed"}]})
    assert "step 's1' has this description and is pending: give id='s1'" in told
    settled = change(plan, {"id": "s1", "status": "completed"})
    assert ids(change(settled, {"description": "Boil"})) == ["s1", "s2", "s3"]


def test_any_text_is_a_phase() -> None:
    plan = make_plan({"goal": "x", "current_phase": "Vorbereitung", "steps": [{"description": "Boil"}]}, PHASES)
    assert (plan["current_phase"], plan["steps"][0]["phase"]) == ("Vorbereitung", "Vorbereitung")
    plan = change(plan, {"id": "s1", "phase": "clean up"}, current_phase="sign-off")
    assert (plan["current_phase"], plan["steps"][0]["phase"]) == ("sign-off", "clean up")


def test_an_empty_phase_says_nothing() -> None:
    made = make_plan({"goal": "x", "current_phase": " ", "steps": [{"description": "Boil", "phase": ""}]}, PHASES)
    assert (made["current_phase"], made["steps"][0]["phase"]) == ("build", "build")
    moved = change(made, current_phase="execute")
    assert change(moved, {"id": "s1", "phase": "", "status": "failed"}, current_phase="")["current_phase"] == "execute"


@pytest.mark.parametrize(
    ("status", "stored"),
    [
        ("success", "completed"),
        ("Done", "completed"),
        ("running", "in_progress"),
        ("in-progress", "in_progress"),
        ("todo", "pending"),
        ("error", "failed"),
        ("cancelled", "skipped"),
    ],
)
def test_a_status_may_have_the_name_of_another_system(status: str, stored: str) -> None:
    assert change(make("Boil"), {"id": "s1", "status": status})["steps"][0]["status"] == stored


WRONG: list[tuple[Json, str]] = [
    ({}, "nothing to update; give any of goal, current_phase, iteration, steps"),
    ({"goal": None}, "nothing to update"),
    ({"goals": "x"}, "plan: unknown key 'goals'; allowed: goal, current_phase, iteration, steps; did you mean 'goal'?"),
    ({"goal": 5}, "plan.goal: must be a string, not a number"),
    ({"goal": " "}, "plan.goal: must not be empty"),
    ({"current_phase": ["build"]}, "plan.current_phase: must be a string, not a list"),
    ({"current_phase": "build", "currentPhase": "inspect"}, "one and the same"),
    ({"iteration": 1.5}, "plan.iteration: must be a whole number from 0 to 1,000,000, not 1.5"),
    ({"iteration": -1}, "not -1"),
    ({"iteration": True}, "not a boolean"),
    ({"iteration": "2"}, "not '2'"),
    ({"iteration": 10**4000}, "not a number"),
    ({"iteration": 1e300}, "not a number"),
    ({"steps": {"id": "s1"}}, "plan.steps: must be a list of steps, not an object"),
    ({"steps": ["Boil"]}, "plan.steps[0]: step 's1' has this description and is pending"),
    (
        {"steps": [{"id": "s1", "status": "nearly"}]},
        "plan.steps[0].status: unknown status 'nearly'; allowed: pending, ",
    ),
    ({"steps": [{"id": "s1", "status": "in_progres"}]}, "did you mean 'in_progress'?"),
    ({"steps": [{"id": "s1", "phase": 1}]}, "plan.steps[0].phase: must be a string, not a number"),
    ({"steps": [{"id": "s1", "description": ""}]}, "plan.steps[0].description: must not be empty"),
    ({"steps": [{"id": "s1", "result": {"ok": 1}}]}, "plan.steps[0].result: must be a string"),
    ({"steps": [{"id": "s1", "state": "x"}]}, "plan.steps[0]: unknown key 'state'; allowed: id, phase, "),
    (
        {"steps": [{"id": "s1"}, {"id": "s9", "status": "failed"}]},
        "plan.steps[1].id: there is no step 's9' (there are 's1', 's2')",
    ),
    ({"steps": [{"id": 1, "status": "failed"}]}, "plan.steps[0].id: must be a string, not a number"),
    ({"steps": [{"id": "", "status": "failed"}]}, "plan.steps[0].id: must not be empty"),
    ({"steps": [{"index": 2, "status": "failed"}]}, "plan.steps[0].index: 2 is out of range; 0 to 1 are allowed"),
    ({"steps": [{"index": -1, "status": "failed"}]}, "-1 is out of range"),
    ({"steps": [{"index": 10**4000, "status": "failed"}]}, "out of range"),
    ({"steps": [{"index": 1.0, "status": "failed"}]}, "index: must be a whole number, not 1.0"),
    ({"steps": [{"index": False, "status": "failed"}]}, "index: must be a whole number, not a boolean"),
    ({"steps": [{"index": 0, "id": "s2"}]}, "id 's2' is the step at index 1, not at 0"),
    ({"steps": [{"index": 0}, {"id": "s1"}]}, "plan.steps[1]: step 's1' is changed twice"),
    ({"steps": [{"description": "new"}, {"index": 2}]}, "2 is out of range"),
    ({"steps": [{"status": "failed"}]}, "say which step to change with id or index (there are 's1', 's2')"),
    (
        {"goal": "g", "steps": [{"id": "x", "description": "a"}, {"id": "x", "description": "b"}]},
        "'x' is the id of steps[0] too",
    ),
]


@pytest.mark.parametrize(("given_", "told"), WRONG)
def test_a_change_that_cannot_be_made_says_what_is_allowed(given_: Json, told: str) -> None:
    assert told in refused(make("Boil", "Pour"), given_)


def test_without_a_plan_an_update_says_how_to_create_one() -> None:
    told = refused(None, {"goal": "x"})
    assert "action='create'" in told
    assert '{"goal": "...", "steps": [{"phase": "build", "description": "..."}]}' in told
    with pytest.raises(InvalidInput, match=r"plan\.goal: needed"):
        make_plan({"steps": [{"description": "Boil"}]}, PHASES)


def test_a_plan_has_at_most_200_steps() -> None:
    full = make(*map(str, range(MOST_STEPS)))
    assert len(full["steps"]) == MOST_STEPS
    with pytest.raises(LimitExceeded, match="at most 200 are allowed"):
        change(full, {"description": "one more"})
    with pytest.raises(LimitExceeded, match="201 steps"):
        make(*map(str, range(MOST_STEPS + 1)))
    assert change(full, {"index": MOST_STEPS - 1, "status": "completed"})["steps"][-1]["status"] == "completed"


def test_a_plan_has_at_most_64_kib_in_all() -> None:
    plan = make("Boil", "Pour")
    half = "é" * (MOST_BYTES // 4)
    plan = change(plan, {"id": "s1", "result": half})
    with pytest.raises(LimitExceeded, match="at most 65,536 are allowed"):
        change(plan, {"id": "s2", "result": half})
    assert change(plan, {"id": "s2", "result": half[:-500]})


words = st.sampled_from(["Boil", "Pour", "Taste", "Sugar"])
statuses = st.sampled_from(STATUSES)
phases = st.sampled_from(PHASES)
said = st.fixed_dictionaries(
    {}, optional={"phase": phases, "status": statuses, "result": st.sampled_from(["", "good", "bad"])}
)
of_plan = st.fixed_dictionaries({}, optional={"current_phase": phases, "iteration": st.integers(0, 9)})


@st.composite
def wholes(draw: st.DrawFn, plan: Json) -> Json:
    """A whole plan, its steps with ids that it has, new ones, or none."""
    steps = [{**fields, "description": draw(words)} for fields in draw(st.lists(said, min_size=1, max_size=5))]
    known = draw(st.permutations([*dict.fromkeys([*ids(plan), "mine"]), *[None] * 5]))
    named = [{**step, "id": step_id} for step, step_id in zip(steps, known, strict=False)]
    return {"goal": draw(words), **draw(of_plan), "steps": named}


@st.composite
def patches(draw: st.DrawFn, plan: Json) -> Json:
    """A patch of some steps, and new ones."""
    count = len(plan["steps"])
    places = draw(st.lists(st.integers(0, count - 1), unique=True)) if count else []
    items: list[Json] = []
    for place in places:
        fields = draw(said)
        items.append({**fields, **({"index": place} if draw(st.booleans()) else {"id": plan["steps"][place]["id"]})})
    taken = {step["description"] for step in plan["steps"] if step["status"] in OPEN}
    items += (
        [{**draw(said), "description": draw(words.filter(lambda word: word not in taken))}] if len(taken) < 4 else []
    )
    return {**draw(of_plan), "steps": draw(st.permutations(items))}


def valid(plan: Json) -> None:
    assert list(plan) == ["goal", "current_phase", "iteration", "steps", "last_id"]
    assert plan["current_phase"] in PHASES
    assert len(set(ids(plan))) == len(plan["steps"])
    for step in plan["steps"]:
        assert list(step) == [key for key in ("id", "phase", "description", "status", "result") if key in step]
        assert step["phase"] in PHASES
        assert step["status"] in STATUSES
        assert step["description"]
        assert step.get("result") != ""


@given(data=st.data())
def test_any_valid_changes_make_valid_plans_and_never_give_an_id_again(data: st.DataObject) -> None:
    plan = make_plan(data.draw(wholes(make())), PHASES)
    ever = set(ids(plan))
    for _ in range(data.draw(st.integers(1, 6))):
        is_whole = data.draw(st.booleans())
        request = data.draw((wholes if is_whole else patches)(plan))
        before = copy.deepcopy((plan, request))
        after = change_plan(plan, request, PHASES)
        assert (plan, request) == before
        valid(after)
        given_ids = {item.get("id") for item in request["steps"]}
        assert not (set(ids(after)) - set(ids(plan)) - given_ids) & ever
        ever |= set(ids(after))
        if is_whole:
            assert [step["description"] for step in after["steps"]] == [
                item["description"] for item in request["steps"]
            ]
            assert all(
                step["id"] == (item["id"] or step["id"])
                for step, item in zip(after["steps"], request["steps"], strict=True)
            )
        else:
            assert ids(after)[: len(plan["steps"])] == ids(plan)
            named = {item.get("id", ids(plan)[item["index"]] if "index" in item else None) for item in request["steps"]}
            kept = [step for step in plan["steps"] if step["id"] not in named]
            assert [step for step in after["steps"][: len(plan["steps"])] if step["id"] not in named] == kept
        shown = {key: value for key, value in after.items() if key != "last_id"}
        assert change_plan(after, shown, PHASES) == after
        plan = after


@given(data=st.data())
def test_a_valid_change_with_one_flaw_is_refused_whole(data: st.DataObject) -> None:
    plan = make("Boil", "Pour", "Taste")
    request = data.draw(st.one_of(wholes(plan), patches(plan)))
    flaw = data.draw(
        st.sampled_from(
            [{"id": "s1", "status": "nearly"}, {"index": 99}, {"phase": 1, "description": "x"}, {"what": 1}, 7]
        )
    )
    refused(plan, {**request, "steps": [*request["steps"], flaw]})
