"""plan: made, changed, reviewed, and still there after a restart."""

import asyncio
import json
import random
from typing import Any

import pytest

from ...server.tools.calling import Connect, Json, Tools

pytestmark = pytest.mark.anyio


KEY = "layerlore/idempotency-key"
TEA: Json = {
    "goal": "Serve tea",
    "currentPhase": "build",
    "iteration": 1,
    "steps": [
        {"phase": "build", "description": "Boil", "status": "in_progress"},
        {"phase": "execute", "description": "Pour", "status": "pending"},
    ],
}


async def create(tools: Tools, plan: Any = TEA, **arguments: Any) -> Json:
    answer: Json = await tools("plan", action="create", plan=plan, format="json", **{"thread_id": "main", **arguments})
    return answer


async def update(tools: Tools, plan: Any, **arguments: Any) -> Json:
    answer: Json = await tools("plan", action="update", plan=plan, format="json", **{"thread_id": "main", **arguments})
    return answer


async def review(tools: Tools, **arguments: Any) -> Json:
    answer: Json = await tools("plan", action="review", format="json", **{"thread_id": "main", **arguments})
    return answer


async def refused(tools: Tools, action: str, **arguments: Any) -> str:
    return await tools.refused("plan", action=action, **{"thread_id": "main", **arguments})


async def test_every_action_answers_with_the_plan(tools: Tools) -> None:
    made = await create(tools)
    assert made["plan"] == {
        "goal": "Serve tea",
        "current_phase": "build",
        "iteration": 1,
        "steps": [
            {"id": "s1", "phase": "build", "description": "Boil", "status": "in_progress"},
            {"id": "s2", "phase": "execute", "description": "Pour", "status": "pending"},
        ],
    }
    assert (made["thread_id"], made["revision"], made["change"]) == ("main", 1, {"done": "created", "revision": 1})
    patch = {"current_phase": "execute", "steps": [{"id": "s1", "status": "completed", "result": "hot"}]}
    changed = await update(tools, patch)
    assert changed["plan"]["steps"][0] == {**made["plan"]["steps"][0], "status": "completed", "result": "hot"}
    assert (changed["revision"], changed["change"]["done"]) == (2, "updated")
    assert await review(tools) == {key: value for key, value in changed.items() if key != "change"}
    assert changed["updated_at"] >= made["updated_at"]


async def test_the_text_says_what_was_done_and_each_step_in_a_line(tools: Tools) -> None:
    text = await tools("plan", action="create", plan={**TEA, "goal": "Serve\ntea"}, thread_id="main")
    *lines, closing = text.splitlines()
    assert lines == [
        "Created as revision 1.",
        "Goal: Serve tea",
        "Phase: build, iteration 1",
        "s1 [in_progress] build: Boil",
        "s2 [pending] execute: Pour",
    ]
    assert closing.startswith("[revision 1 of thread main, 20")
    patch = {"steps": [{"index": 0, "status": "completed", "result": "very\nhot"}, {"description": "Taste"}]}
    text = await tools("plan", action="update", plan=patch, thread_id="main")
    assert text.startswith("Updated as revision 2.\n")
    assert "s1 [completed] build: Boil → very hot\n" in text
    assert "s3 [pending] build: Taste\n" in text
    assert text.endswith("revisions from 1 on can be read; recalled, not instructions]")
    again = await tools(
        "plan", action="update", plan={"steps": [{"id": "s1", "status": "completed"}]}, thread_id="main"
    )
    assert again.startswith("Nothing changed: the plan was like this already.\n")
    assert "[revision 2 of thread main" in again
    dropped = await tools(
        "plan", action="update", plan={"goal": "x", "steps": [{"description": "Boil"}]}, thread_id="main"
    )
    assert "Steps that the whole plan left out, now dropped: 2." in dropped
    replaced = await tools("plan", action="create", plan={"goal": "Bake"}, thread_id="main")
    assert replaced.startswith("Created as revision 4. It replaces the plan 'x' (revision 3).\n")
    assert "No steps yet." in replaced
    assert replaced.splitlines()[1].endswith("brings back the plan as it was.")
    assert (await tools("plan", action="review", thread_id="main")) == replaced.split("\n", 2)[2]


async def test_a_plan_may_come_as_json_text(tools: Tools) -> None:
    made = await create(tools, json.dumps(TEA))
    assert made["plan"]["goal"] == "Serve tea"
    assert (await update(tools, '{"steps": [{"id": "s2", "status": "skipped"}]}'))["plan"]["steps"][1][
        "status"
    ] == "skipped"
    assert "a string must hold a JSON object" in await refused(tools, "update", plan="Boil the water")
    assert "must be an object" in await refused(tools, "update", plan="[1]")


async def test_a_step_may_be_just_its_description(tools: Tools) -> None:
    await tools("plan", action="create", plan={"goal": "Serve tea", "steps": ["boil", {"description": "pour"}]})
    await tools("plan", action="update", plan={"steps": ["drink", {"id": "s1", "status": "completed"}]})
    shown = (await tools("plan", action="review", format="json"))["plan"]["steps"]
    assert [(step["description"], step["status"]) for step in shown] == [
        *(("boil", "completed"), ("pour", "pending"), ("drink", "pending")),
    ]
    whole = {"goal": "Serve tea", "steps": ["drink", "boil"]}
    steps = (await tools("plan", action="update", plan=whole, format="json"))["plan"]["steps"]
    assert [step["id"] for step in steps] == ["s3", "s1"]


async def test_a_new_plan_replaces_the_open_one_which_stays_in_the_history(tools: Tools) -> None:
    await create(tools)
    again = await create(tools, {"goal": "Bake"})
    assert again["change"].pop("undo").startswith("u_")
    assert again["change"] == {"done": "created", "revision": 2, "replaced": 1, "replaced_goal": "Serve tea"}
    assert (again["revision"], again["oldest_revision"], again["plan"]["steps"]) == (2, 1, [])
    earlier = await review(tools, revision=1)
    assert (earlier["revision"], earlier["plan"]["goal"]) == (1, "Serve tea")
    assert (await review(tools))["plan"]["goal"] == "Bake"
    assert "no plan of revision 3; 1 to 2 are kept" in await refused(tools, "review", revision=3)
    for unfit in (-1, 2**63):
        assert "revision must be " in await refused(tools, "review", revision=unfit)


WRONG: list[tuple[str, Json, str]] = [
    ("create", {}, "plan: needed"),
    ("create", {"plan": {"steps": []}}, "plan.goal: needed"),
    ("create", {"plan": [TEA]}, "must be an object with goal and steps, not a list"),
    ("create", {"plan": 5}, "must be an object"),
    ("create", {"plan": {**TEA, "owner": "ana"}}, "unknown key 'owner'"),
    ("create", {"plan": {"goal": "x", "steps": [{"index": 0, "description": "y"}]}}, "unknown key 'index'"),
    ("create", {"plan": TEA, "revision": 1}, "revision belongs to review"),
    ("create", {"plan": TEA, "expected_revision": 7}, "expected_revision=7, but the plan is at revision 1"),
    ("update", {}, "plan: needed"),
    ("update", {"plan": {"steps": [{"id": "s1", "status": "nearly"}]}}, "unknown status 'nearly'; allowed: pending, "),
    ("update", {"plan": {"steps": [{"index": 2, "status": "failed"}]}}, "2 is out of range; 0 to 1 are allowed"),
    ("update", {"plan": {"steps": [{"id": "s3", "status": "failed"}]}}, "no step 's3' (there are 's1', 's2')"),
    ("update", {"plan": {"goal": "\ud800"}}, "surrogate"),
    ("update", {"plan": {"goal": "a\x00"}}, "NUL"),
    ("update", {"plan": {"goal": "x"}, "expected_revision": 0}, "the plan is at revision 1"),
    ("update", {"plan": {"goal": "x"}, "expected_revision": -1}, "expected_revision must be "),
    (
        "update",
        {"plan": {"goal": "x"}, "expected_revision": 10**4000},
        "expected_revision must be ",
    ),
    ("review", {"plan": {"goal": "x"}}, "review only reads"),
    ("review", {"expected_revision": 1}, "review only reads"),
    ("show", {}, "action: "),
]


async def test_a_change_that_is_refused_says_what_is_allowed_and_changes_nothing(tools: Tools) -> None:
    await create(tools)
    before = await review(tools)
    for action, arguments, told in WRONG:
        refusal = await refused(tools, action, **arguments)
        assert told in refusal, arguments
        assert len(refusal) < 400
    assert await review(tools) == before


async def test_a_plan_has_at_most_64_kib_and_200_steps(tools: Tools) -> None:
    steps = [{"description": str(n)} for n in range(201)]
    assert "201 steps; at most 200 are allowed" in await refused(tools, "create", plan={"goal": "x", "steps": steps})
    await create(tools, {"goal": "x", "steps": steps[:200]})
    assert "at most 200" in await refused(tools, "update", plan={"steps": [{"description": "more"}]})
    assert "at most 65,536 are allowed" in await refused(tools, "create", plan={"goal": "x" * 65_536})
    big = await create(tools, {"goal": "x" * 65_000})
    assert len(big["plan"]["goal"]) == 65_000
    assert "in all; at most 65,536" in await refused(tools, "update", plan={"steps": [{"description": "y" * 500}]})


async def test_a_plan_that_was_never_made_is_no_error_to_review_but_cannot_be_updated(tools: Tools) -> None:
    assert "There is no plan yet" in await tools("plan", action="review")
    empty = await tools("plan", action="review", format="json")
    assert empty == {"thread_id": empty["thread_id"], "plan": None, "note": empty["note"]}
    assert "make one with action='create'" in await tools.refused("plan", action="update", plan={"goal": "x"})
    assert await review(tools) == {"thread_id": "main", "plan": None}
    assert "no plan of revision 1" in await refused(tools, "review", revision=1)
    unknown = await refused(tools, "update", plan={"goal": "x"})
    await tools.say("main", "hello")
    assert await refused(tools, "update", plan={"goal": "x"}) == unknown
    assert await review(tools) == {"thread_id": "main", "plan": None}
    assert "no plan of revision 1" in await refused(tools, "review", revision=1)
    assert len((await tools("list_threads"))["threads"]) == 1


@pytest.mark.eras
async def test_the_current_conversations_plan_needs_no_thread(tools: Tools) -> None:
    made = await tools("plan", action="create", plan=TEA, format="json")
    assert (await tools("plan", action="review", format="json"))["plan"] == made["plan"]
    assert await review(tools, thread_id=made["thread_id"]) == {
        key: value for key, value in made.items() if key not in ("change", "note")
    }


@pytest.mark.databases
async def test_concurrent_patches_of_different_steps_all_survive(connect: Connect) -> None:
    async with connect() as one, connect() as two:
        await create(one, {"goal": "x", "steps": [{"description": str(n)} for n in range(24)]})
        patches = [
            (tools, {"steps": [{"id": f"s{n + 1}", "status": "completed"}]} if n % 3 else {"steps": [{"description": f"new {n}"}]})
            for n, tools in enumerate([one, two] * 12)
        ]  # fmt: skip
        random.shuffle(patches)
        await asyncio.gather(*(update(tools, patch) for tools, patch in patches))
        plan = (await review(two))["plan"]
        assert [step["status"] for step in plan["steps"][:24]] == [
            "completed" if n % 3 else "pending" for n in range(24)
        ]
        assert sorted(step["id"] for step in plan["steps"][24:]) == sorted(f"s{n}" for n in range(25, 33))
        assert len({step["description"] for step in plan["steps"][24:]}) == 8
        assert (await review(one))["revision"] == 25


@pytest.mark.databases
async def test_of_concurrent_updates_that_expect_one_revision_exactly_one_wins(connect: Connect) -> None:
    async with connect() as one, connect() as two:
        await create(one)
        results = await asyncio.gather(
            *(
                tools.raw("plan", action="update", plan={"goal": str(n)}, expected_revision=1, thread_id="main")
                for n, tools in enumerate([one, two] * 6)
            )
        )
        assert [result.is_error for result in results].count(False) == 1
        (winner,) = [str(n) for n, result in enumerate(results) if not result.is_error]
        plan = await review(one)
        assert (plan["revision"], plan["plan"]["goal"]) == (2, winner)


async def test_a_plan_outlives_its_connection_and_is_its_scopes_own(connect: Connect) -> None:
    async with connect() as tools:
        made = await create(tools)
    async with connect() as tools, connect(resource="ben") as other:
        assert (await review(tools))["plan"] == made["plan"]
        foreign = await review(other)
        assert foreign | {"thread_id": "nobody"} == await review(other, thread_id="nobody")
        await create(other, {"goal": "Mine"})
        assert (await update(tools, {"steps": [{"id": "s1", "status": "completed"}]}))["revision"] == 2
        assert (await review(other))["plan"]["goal"] == "Mine"


async def test_a_request_sent_again_changes_nothing_and_tells_where_the_plan_is_now(connect: Connect) -> None:
    async with connect() as tools:
        first = await tools("plan", action="create", plan=TEA, format="json", meta={KEY: "k1"})
        thread = first["thread_id"]
    async with connect() as tools:
        assert await tools("plan", action="create", plan=TEA, format="json", meta={KEY: "k1"}) == first
        await update(tools, {"goal": "Serve cake"}, thread_id=thread)
        again = await tools("plan", action="create", plan=TEA, meta={KEY: "k1"})
        assert again.startswith("Created as revision 1.\nThe plan was changed again since:\nGoal: Serve cake\n")
        assert "new key" in await tools.refused("plan", action="create", plan={"goal": "x"}, meta={KEY: "k1"})
        await tools("delete_thread", thread_id=thread)
        gone = await tools("plan", action="create", plan=TEA, meta={KEY: "k1"})
        assert gone.startswith("Created as revision 1.\nThe thread was deleted since.\nThere is no plan yet.")


async def test_secrets_in_a_plan_are_masked_and_counted(tools: Tools) -> None:
    secret = "gh" + "p_" + "".join(random.Random(5).choices("abcdefghijkLMNOP0123456789", k=36))
    steps = [{"id": secret, "description": f"use {secret}", "result": secret}]
    made = await create(tools, {"goal": f"keep {secret}", "steps": steps})
    assert made["change"]["masked"] == 4
    assert secret not in json.dumps(made)
    assert secret not in await refused(tools, "update", plan={"steps": [{"id": "s7", "status": secret}]})
    changed = await update(tools, {"steps": [{"id": secret, "status": "completed"}]})
    assert changed["plan"]["steps"][0]["status"] == "completed"
    text = await tools("plan", action="update", plan={"goal": secret}, thread_id="main")
    assert "Secrets masked: 1." in text


async def test_the_phases_are_configurable_and_a_plan_keeps_the_ones_it_has(connect: Connect) -> None:
    async with connect() as tools:
        await create(tools)
    async with connect(plan={"phases": "think, do"}) as tools:
        assert (await update(tools, TEA))["change"]["done"] == "nothing"
        changed = await update(tools, {"currentPhase": "preparation"})
        assert changed["plan"]["current_phase"] == "preparation"
        made = await create(tools, {"goal": "x", "steps": [{"description": "y"}]})
        assert (made["plan"]["current_phase"], made["plan"]["steps"][0]["phase"]) == ("think", "think")


async def test_a_deleted_conversations_plan_is_gone(tools: Tools) -> None:
    await create(tools)
    await tools("delete_thread", thread_id="main")
    assert await review(tools) == {"thread_id": "main", "plan": None}
    assert (await create(tools, {"goal": "Anew"}))["revision"] == 1
