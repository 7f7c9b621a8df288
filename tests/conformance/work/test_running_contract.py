"""Runs that run, on both databases: the lease, decisions from others, a cancel from anybody, and what was spent."""

import asyncio

import pytest

from layerlore.memory.rules.ages import iso
from layerlore.storage.core.errors import Conflict, InvalidInput, NotFound
from layerlore.storage.core.records import Json

from ..building import NOW, rows
from ..running import Runs, refused

pytestmark = pytest.mark.anyio

APPROVAL = {"type": "object", "properties": {"approved": {"type": "boolean"}}, "required": ["approved"]}
CALLS: list[Json] = [
    {"id": "c1", "name": "sail", "arguments": {"to": "Lima"}, "resume_schema": APPROVAL},
    {"id": "c2", "type": "function", "function": {"name": "row", "arguments": "{}"}},
    {"id": "c3", "name": "swim", "arguments": {}, "suspended": False, "result": {"swum": 3}},
]
APPROVE = {"tool_call_id": "c1", "decision": "approve"}


async def test_a_run_that_runs_is_renewed_by_its_holder_and_taken_over_when_its_lease_is_over(runs: Runs) -> None:
    started = await runs.start("r1", seconds=10, workflow_id="trip")
    assert started == {
        "run_id": "r1",
        "thread_id": "main",
        "status": "running",
        "claim": started["claim"],
        "claimed_until": iso(NOW + 10_000),
    }
    runs.clock.now += 9_000
    assert "agent started it" in await refused(Conflict, runs.resume("r1", by="other"))
    assert (await runs.update("r1", started["claim"], seconds=10))["claimed_until"] == iso(NOW + 19_000)
    shown = await runs.one("r1")
    assert (shown["claimed_until"], shown["updated_at"]) == (iso(NOW + 19_000), iso(NOW)), "a heartbeat is no change"
    await runs.update("r1", started["claim"], state={"step": 2}, pending_tool_calls=CALLS, seconds=10)
    runs.clock.now += 60_000
    assert (await runs.one("r1"))["resumable"]
    late = await runs.update("r1", started["claim"], state={"step": 3}, seconds=1)  # nobody took it over
    assert late["status"] == "running"
    runs.clock.now += 1_000
    assert await runs.ids(statuses=["resumable"]) == ["r1"]
    taken = await runs.resume("r1", by="other")
    assert (taken["state"], taken["pending_tool_calls"], taken["workflow_id"]) == ({"step": 3}, CALLS, "trip")
    for call in (runs.update("r1", started["claim"]), runs.complete("r1", started["claim"])):
        assert "other resumed it" in await refused(Conflict, call)
    await runs.complete("r1", taken["claim"])
    assert [type_ for type_, _ in await runs.log()] == [
        *("run_started", "run_updated", "run_updated", "run_resumed", "run_completed"),
    ]


async def test_a_started_run_without_a_state_is_taken_over_without_one_and_null_is_a_state(runs: Runs) -> None:
    ids = [(await runs.start(seconds=1, **given))["run_id"] for given in ({}, {"state": None})]
    assert len(set(ids)) == 2
    runs.clock.now += 1_000
    found = [await runs.resume(run_id) for run_id in ids]
    assert "state" not in found[0]
    assert found[1]["state"] is None


async def test_of_twenty_who_start_a_run_at_once_one_does(runs: Runs) -> None:
    found = await asyncio.gather(*(runs.start("r1", by=f"client {n}") for n in range(20)), return_exceptions=True)
    (won,) = [n for n, each in enumerate(found) if isinstance(each, dict)]
    for lost in (each for each in found if not isinstance(each, dict)):
        assert isinstance(lost, Conflict)
        assert f"client {won} started it" in str(lost)


async def test_two_approvers_decide_and_whoever_takes_the_run_gets_both_decisions_and_the_third_calls_result(
    runs: Runs,
) -> None:
    await runs.suspend("r1", {"step": 1}, pending_tool_calls=CALLS)
    assert (await runs.one("r1"))["waiting"] == [
        {"tool_call_id": "c1", "tool_name": "sail"},
        {"tool_call_id": "c2", "tool_name": "row"},
    ]
    assert await runs.ids(statuses=["resumable"]) == []
    first = await runs.decide("r1", APPROVE, by="ann")
    assert first == {
        "run_id": "r1",
        "thread_id": "main",
        "status": "suspended",
        "answered": ["c1"],
        "waiting": 1,
    }
    runs.clock.now += 5
    # No id is needed once only one waits.
    assert (await runs.decide("r1", {"decision": "deny", "data": {"why": "storm"}}, by="ben"))["waiting"] == 0
    assert await runs.ids(statuses=["resumable"]) == ["r1"]
    assert "waiting" not in await runs.one("r1")
    resumed = await runs.resume("r1", by="runner")
    assert resumed["pending_tool_calls"] == CALLS
    assert resumed["resumed"] == [
        {"tool_call_id": "c1", "decision": "approve", "data": {"approved": True}, "by": "ann", "at": iso(NOW)},
        {
            "tool_call_id": "c2",
            "decision": "deny",
            "data": {"approved": False, "why": "storm"},
            "by": "ben",
            "at": iso(NOW + 5),
        },
    ]
    assert (await runs.log())[1:3] == [
        ("run_decided", {"run_id": "r1", "tool_call_ids": ["c1"], "waiting": 1}),
        ("run_decided", {"run_id": "r1", "tool_call_ids": ["c2"], "waiting": 0}),
    ]


async def test_the_first_decision_stands_and_the_same_again_is_unchanged(runs: Runs) -> None:
    await runs.suspend("r1", 1, pending_tool_calls=CALLS)
    answers = await asyncio.gather(
        *(runs.decide("r1", {"tool_call_id": "c2", "data": number}, by=f"who {number}") for number in range(10)),
        return_exceptions=True,
    )
    (won,) = [number for number, each in enumerate(answers) if isinstance(each, dict)]
    assert (await runs.decide("r1", {"tool_call_id": "c2", "data": won}, by="again"))["unchanged"]
    error = await refused(Conflict, runs.decide("r1", APPROVE, {"tool_call_id": "c2", "data": "other"}))
    assert f"call 'c2' was answered by who {won} at {iso(NOW)}, otherwise" in error
    assert [each["data"] for each in (await runs.one("r1"))["resumed"]] == [won], "all or none"
    assert "approved" in await refused(InvalidInput, runs.decide("r1", {"tool_call_id": "c1", "data": {}}))
    await runs.decide("r1", {"call_id": "c1", "data": '{"approved": false}'})
    assert (await runs.resume("r1"))["resumed"][-1]["data"] == {"approved": False}


async def test_null_and_empty_text_are_answers(runs: Runs) -> None:
    await runs.suspend("r1", 1, pending_tool_calls=[{"id": "c1"}, {"id": "c2"}])
    await runs.decide("r1", {"tool_call_id": "c1", "data": None}, {"tool_call_id": "c2", "data": ""})
    assert [each["data"] for each in (await runs.resume("r1"))["resumed"]] == [None, ""]


async def test_a_runner_that_waits_is_told_of_each_decision_and_none_is_lost(runs: Runs) -> None:
    claim = (await runs.start("r1"))["claim"]
    await runs.update("r1", claim, pending_tool_calls=CALLS)
    await runs.decide("r1", APPROVE, by="ann")
    told = await runs.update("r1", claim)
    assert [(each["tool_call_id"], each["data"]) for each in told["resumed"]] == [("c1", {"approved": True})]
    again = await runs.update("r1", claim, state=1)
    assert again["resumed"] == told["resumed"], "an answer may get lost on its way"
    # The second comes while the runner suspends the run for what is left: it has not seen it.
    await runs.decide("r1", {"tool_call_id": "c2", "data": "now"})
    await runs.suspend("r1", 2, claim=claim, pending_tool_calls=[CALLS[1]])
    assert (await runs.one("r1"))["resumable"]
    resumed = await runs.resume("r1")
    assert [(each["tool_call_id"], each["data"]) for each in resumed["resumed"]] == [("c2", "now")]
    # It has seen that now: the same call waits anew when it is suspended again.
    await runs.suspend("r1", 3, claim=resumed["claim"], pending_tool_calls=[CALLS[1]])
    assert (await runs.one("r1"))["waiting"] == [{"tool_call_id": "c2", "tool_name": "row"}]


async def test_anybody_cancels_a_suspended_run_and_a_running_one_whose_holder_is_told(runs: Runs) -> None:
    await runs.suspend("r1", "quokka", pending_tool_calls=CALLS)
    assert await runs.cancel("r1", "too late", by="ann") == {
        "run_id": "r1",
        "thread_id": "main",
        "status": "cancelled",
        "was": "suspended",
    }
    assert (await runs.cancel("r1"))["unchanged"]
    shown = await runs.one("r1")
    assert (shown["status"], shown["ended_by"], shown["reason"]) == ("cancelled", "ann", "too late")
    assert shown.keys().isdisjoint({"pending_tool_calls", "waiting", "resumable"})
    assert "quokka" not in repr(await runs.database.read_installation(rows, "SELECT * FROM runs"))
    for call in (runs.resume("r1"), runs.decide("r1", APPROVE), runs.suspend("r1", 1)):
        assert f"is cancelled since {iso(NOW)}, by ann, which is an end" in await refused(Conflict, call)
    claim = (await runs.start("r2"))["claim"]
    await runs.cancel("r2", "stop", by="ann")
    step = {"type": "text", "content": "the last words", "usage": {"input_tokens": 5, "cost": 1}}
    told = await runs.update("r2", claim, state="later", steps=[step])
    assert (told["status"], told["ended_by"], told["reason"]) == ("cancelled", "ann", "stop")
    assert told["first"] == 1, "what was done is recorded all the same"
    assert "by ann" in await refused(Conflict, runs.suspend("r2", 1, claim=claim))
    assert "by ann" in await refused(Conflict, runs.complete("r2", claim))
    await runs.complete("r2", claim, "cancelled", output="half")
    assert (await runs.complete("r2", claim, "cancelled", output="half"))["unchanged"]
    shown = await runs.one("r2")
    assert (shown["output"], shown["ended_by"], shown["reason"]) == ("half", "ann", "stop")
    assert shown["usage"]["cost_usd"] == 1.0
    await runs.complete("r3", "")
    assert "is completed since" in await refused(Conflict, runs.cancel("r3"))
    assert "there is no run 'r4'" in await refused(NotFound, runs.cancel("r4"))
    types = [type_ for type_, _ in await runs.log()]
    assert [types.count(f"run_{name}") for name in ("cancelled", "completed", "updated")] == [2, 1, 1]


async def test_a_run_that_never_waits_is_recorded_in_one_call(runs: Runs) -> None:
    done = await runs.complete("r1", "", "failed", output={"why": "no wind"})
    assert done == {"run_id": "r1", "thread_id": "main", "status": "failed"}
    assert (await runs.complete("r1", "", "failed", output={"why": "no wind"}))["unchanged"]
    assert "is failed since" in await refused(Conflict, runs.complete("r1", ""))
    assert (await runs.one("r1"))["output"] == {"why": "no wind"}
    assert await runs.log() == [("run_failed", {"run_id": "r1"})]


async def test_an_expired_run_is_listed_so_at_once_and_no_longer_counts_as_suspended(runs: Runs) -> None:
    await runs.suspend("r1", 1, ttl_seconds=10)
    await runs.suspend("r2", 1)
    runs.clock.now += 10_000
    assert (await runs.one("r1"))["status"] == "expired"
    assert await runs.ids(statuses=["expired"]) == ["r1"]
    assert await runs.ids(statuses=["suspended"]) == await runs.ids(statuses=["resumable"]) == ["r2"]
    assert sorted(await runs.ids(statuses=["resumable", "expired"])) == sorted(await runs.ids()) == ["r1", "r2"]
    for call in (runs.cancel("r1"), runs.decide("r1", {"data": 1})):
        assert "expired at" in await refused(Conflict, call)


async def test_what_sub_agents_spend_is_told_apart_and_summed_in_the_run_of_their_parent(runs: Runs) -> None:
    def step(tokens: int, cost: float, **of: str) -> Json:
        return {"type": "text", "content": "x", "model": "m", "usage": {"input_tokens": tokens, "cost": cost}, **of}

    claim = (await runs.start("parent"))["claim"]
    await runs.update("parent", claim, steps=[step(1, 1), step(10, 2, sub_agent_name="scout")])
    await runs.record([step(10, 2, sub_agent_id="scout", operation_id="parent"), step(9, 9, operation_id="other")])
    child = await runs.start("child", workflow_id="cook", parent_run_id="parent")
    await runs.update("child", child["claim"], steps=[step(100, 3), step(1_000, 4, sub_agent_name="scout")])
    await runs.start("grandchild", parent_run_id="child")
    await runs.record([step(10_000, 5, operation_id="grandchild")])
    await runs.complete("parent", claim)
    assert (await runs.one("parent"))["usage"] == {
        "input_tokens": 11_121,
        "output_tokens": 0,
        "cost_usd": 17.0,
        "sub_agents": [
            {"agent": "scout", "model": "m", "input_tokens": 1_020, "output_tokens": 0, "cost_usd": 8.0},
            {"agent": "grandchild", "model": "m", "input_tokens": 10_000, "output_tokens": 0, "cost_usd": 5.0},
            {"agent": "cook", "model": "m", "input_tokens": 100, "output_tokens": 0, "cost_usd": 3.0},
        ],
    }
    assert (await runs.one("grandchild"))["usage"]["cost_usd"] == 5.0
