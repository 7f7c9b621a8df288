"""Runs on both databases: who may move them, from where to where, and that of many who try only one does."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from layerlore.memory.rules.ages import iso
from layerlore.storage.core import installation
from layerlore.storage.core.errors import Conflict, InvalidInput, NotFound
from layerlore.storage.core.records import Json, Scope
from layerlore.storage.core.transaction import Database
from layerlore.storage.threads import threads

from ..building import ANA, NOW, only, rows
from ..running import Clock, Runs, refused

pytestmark = pytest.mark.anyio

CALL = {
    "tool_call_id": "c1",
    "tool_name": "sail",
    "suspended": True,
    "suspend_payload": {"to": "Lima"},
    "resume_schema": {"type": "object", "properties": {"approved": {"type": "boolean"}}, "required": ["approved"]},
}
APPROVED = {"approved": True}


async def test_a_run_is_suspended_resumed_and_completed(runs: Runs) -> None:
    answer = await runs.suspend("r1", {"step": 1}, pending_tool_calls=[CALL], workflow_id="trip", reason="ask")
    assert answer == {"run_id": "r1", "thread_id": "main", "status": "suspended"}
    runs.clock.now += 10
    resumed = await runs.resume("r1", APPROVED, call="c1", seconds=60)
    claim = resumed.pop("claim")
    assert resumed == {
        "run_id": "r1",
        "thread_id": "main",
        "status": "running",
        "workflow_id": "trip",
        "reason": "ask",
        "claimed_until": iso(NOW + 10 + 60_000),
        "state": {"step": 1},
        "pending_tool_calls": [CALL],
        "resumed": [{"tool_call_id": "c1", "data": APPROVED, "by": "agent", "at": iso(NOW + 10)}],
    }
    done = await runs.complete("r1", claim, output={"arrived": True})
    assert done == {"run_id": "r1", "thread_id": "main", "status": "completed"}
    assert await runs.one("r1") == {
        "run_id": "r1",
        "thread_id": "main",
        "status": "completed",
        "workflow_id": "trip",
        "output": {"arrived": True},
        "ended_by": "agent",
        "created_at": iso(NOW),
        "updated_at": iso(NOW + 10),
    }
    assert await runs.log() == [
        ("run_suspended", {"run_id": "r1"}),
        ("run_resumed", {"run_id": "r1", "tool_call_id": "c1"}),
        ("run_completed", {"run_id": "r1"}),
    ]


async def test_the_state_stays_until_the_run_ends_and_is_then_in_no_row(runs: Runs) -> None:
    await runs.suspend("r1", "quokka", pending_tool_calls=[{**CALL, "suspend_payload": "numbat"}])
    claim = (await runs.resume("r1", {"approved": True, "why": "wombat"}))["claim"]
    row = repr(await runs.database.read_installation(rows, "SELECT * FROM runs"))
    assert all(word in row for word in ("quokka", "numbat", "wombat"))
    await runs.complete("r1", claim, "failed", "bilby")
    row = repr(await runs.database.read_installation(rows, "SELECT * FROM runs"))
    assert not [word for word in ("quokka", "numbat", "wombat") if word in row]
    assert "bilby" in row
    # Nobody asked for an erasure: a whole file is not rewritten for each run that ends.
    assert not await runs.database.read_installation(installation.rewrite_owed)
    assert (await runs.log())[-1] == ("run_failed", {"run_id": "r1"})


@pytest.mark.parametrize("ended", [False, True])
async def test_of_twenty_who_resume_at_once_one_wins_and_the_others_are_told_who(runs: Runs, ended: bool) -> None:
    """The second time nobody holds the run any more: its claim has run out."""
    claim = ""
    for number in range(5):
        run_id = f"r{number}"
        await runs.suspend(run_id, number)
        if ended:
            await runs.resume(run_id, seconds=1)
            runs.clock.now += 1000
        found = await asyncio.gather(
            *(runs.resume(run_id, by=f"client {n}", seconds=60) for n in range(20)), return_exceptions=True
        )
        (won,) = [(n, answer) for n, answer in enumerate(found) if isinstance(answer, dict)]
        assert won[1]["state"] == number
        assert won[1]["claim"] != claim
        claim = won[1]["claim"]
        for lost in (answer for answer in found if not isinstance(answer, dict)):
            assert isinstance(lost, Conflict)
            at, until = iso(runs.clock.now), iso(runs.clock.now + 60_000)
            assert f"run {run_id!r} is running: client {won[0]} resumed it at {at} and has it until {until}" in str(
                lost
            )
        await runs.complete(run_id, claim)


async def test_of_twenty_who_suspend_the_same_at_once_one_makes_it_and_the_others_find_it_made(runs: Runs) -> None:
    for number in range(3):
        run_id = f"r{number}"
        answers = await asyncio.gather(*(runs.suspend(run_id, {"n": number}) for _ in range(20)))
        assert sum("unchanged" not in answer for answer in answers) == 1
    assert await only(runs.database, "SELECT count(*) FROM runs") == 3
    assert len(await runs.log()) == 3


async def test_of_twenty_who_make_a_run_in_different_threads_one_does(runs: Runs) -> None:
    for number in range(3):
        found = await asyncio.gather(
            *(runs.suspend(f"r{number}", n, named=f"t{n}") for n in range(20)), return_exceptions=True
        )
        (won,) = [answer for answer in found if isinstance(answer, dict)]
        assert all(isinstance(lost, Conflict) for lost in found if not isinstance(lost, dict))
        assert (await runs.one(f"r{number}"))["thread_id"] == won["thread_id"]
        made = await only(runs.database, "SELECT count(*) FROM threads")
        assert made == await only(runs.database, "SELECT count(DISTINCT thread_uid) FROM runs"), (
            "a thread was left over"
        )


async def test_of_a_holder_and_a_new_resumer_at_once_only_one_moves_the_run(runs: Runs) -> None:
    for number in range(10):
        run_id = f"r{number}"
        await runs.suspend(run_id, 1)
        old = (await runs.resume(run_id, seconds=1))["claim"]
        runs.clock.now += 5000
        ending, resumed = await asyncio.gather(
            runs.complete(run_id, old), runs.resume(run_id, by="other"), return_exceptions=True
        )
        assert isinstance(ending, Conflict) != isinstance(resumed, Conflict)
        assert (await runs.one(run_id))["status"] == ("running" if isinstance(ending, Conflict) else "completed")


async def test_a_stale_claim_moves_nothing_and_names_the_new_holder(runs: Runs) -> None:
    await runs.suspend("r1", 1)
    old = (await runs.resume("r1", by="first", seconds=10))["claim"]
    runs.clock.now += 9_999
    assert "first resumed it" in await refused(Conflict, runs.resume("r1", by="second"))
    runs.clock.now += 1
    new = await runs.resume("r1", by="second", seconds=10)
    assert new["state"] == 1
    before = await runs.database.read_installation(rows, "SELECT * FROM runs")
    for _ in range(2):
        for call in (
            runs.suspend("r1", 2, claim=old),
            runs.complete("r1", old),
            runs.complete("r1", old, "cancelled"),
        ):
            error = await refused(Conflict, call)
            assert f"the claim {old[:40]}" in error.replace("'", "")
            assert "second resumed it at" in error
        runs.clock.now += 60_000  # nor when the new holder's time is over, too
    assert await runs.database.read_installation(rows, "SELECT * FROM runs") == before
    await runs.complete("r1", new["claim"])
    assert "completed since" in await refused(Conflict, runs.suspend("r1", 2, claim=old))


async def test_a_late_holder_may_still_suspend_or_end_while_nobody_took_the_run_over(runs: Runs) -> None:
    await runs.suspend("r1", 1)
    claim = (await runs.resume("r1", seconds=1))["claim"]
    runs.clock.now += 3_600_000
    await runs.suspend("r1", 2, claim=claim)
    resumed = await runs.resume("r1", seconds=1)
    assert resumed["state"] == 2
    runs.clock.now += 3_600_000
    await runs.complete("r1", resumed["claim"])


async def test_the_same_suspension_sent_again_is_unchanged_and_another_is_refused(runs: Runs) -> None:
    given: Json = {"pending_tool_calls": [CALL], "metadata": {"k": 1}, "workflow_id": "w", "reason": "why"}
    first = await runs.suspend("r1", {"a": 1, "b": 2}, ttl_seconds=60, **given)
    runs.clock.now += 10
    other_process = Runs(runs.database, runs.clock, thread="session-2")
    again = await other_process.suspend("r1", {"a": 1, "b": 2}, ttl_seconds=60, **given)
    assert again == {**first, "unchanged": True}
    assert len(await runs.log()) == 1
    others: list[Json] = [
        {"state": {"b": 2, "a": 1}},
        {"state": {"a": 1, "b": 2.0}},
        {"pending_tool_calls": []},
        {"metadata": {"k": True}},
        {"workflow_id": "v"},
        {"reason": ""},
        {"named": "other"},
    ]
    for other in others:
        error = await refused(Conflict, runs.suspend("r1", **{"state": {"a": 1, "b": 2}, **given, **other}))
        assert error == f"run 'r1' is suspended since {iso(NOW)}; allowed from suspended: running, with resume_run"
    assert (await runs.resume("r1"))["state"] == {"a": 1, "b": 2}


async def test_a_holder_who_lost_the_answer_may_send_its_suspension_or_end_again(runs: Runs) -> None:
    await runs.suspend("r1", 1)
    claim = (await runs.resume("r1"))["claim"]
    await runs.suspend("r1", 2, claim=claim)
    assert (await runs.suspend("r1", 2, claim=claim))["unchanged"]
    assert "is over: run 'r1' is suspended since" in await refused(Conflict, runs.suspend("r1", 3, claim=claim))
    last = (await runs.resume("r1"))["claim"]
    assert "not the newest" in await refused(Conflict, runs.suspend("r1", 2, claim=claim))
    await runs.complete("r1", last, "cancelled", output=["x"])
    assert (await runs.complete("r1", last, "cancelled", output=["x"]))["unchanged"]
    for call in (
        runs.complete("r1", last, "completed", output=["x"]),
        runs.complete("r1", last, "cancelled", output=["y"]),
        runs.complete("r1", claim, "cancelled", output=["x"]),
        runs.suspend("r1", 2, claim=last),
        runs.suspend("r1", 2),
        runs.resume("r1"),
    ):
        assert "is cancelled since" in await refused(Conflict, call)
    assert [type_ for type_, _ in await runs.log()][-2:] == ["run_resumed", "run_cancelled"]


async def test_a_running_run_is_suspended_only_with_its_claim(runs: Runs) -> None:
    await runs.suspend("r1", 1)
    await runs.resume("r1", by="first")
    error = await refused(Conflict, runs.suspend("r1", 1))
    assert "first resumed it" in error
    assert "Only its holder can move it, with the claim that resume_run gave" in error
    assert "allowed from running: suspended, completed, failed, cancelled" in error
    assert "there is no run 'r2'" in await refused(NotFound, runs.suspend("r2", 1, claim="1.x"))


async def test_a_run_that_is_suspended_again_keeps_what_is_left_out_and_begins_anew(runs: Runs) -> None:
    await runs.suspend(
        "r1", 1, workflow_id="w", metadata={"k": 1}, reason="a", pending_tool_calls=[CALL], ttl_seconds=600
    )
    claim = (await runs.resume("r1", APPROVED))["claim"]
    await runs.suspend("r1", 2, claim=claim)
    resumed = await runs.resume("r1")
    assert (resumed["workflow_id"], resumed["metadata"], resumed["state"]) == ("w", {"k": 1}, 2)
    assert (resumed["pending_tool_calls"], resumed["resumed"]) == ([], [])
    assert resumed.keys().isdisjoint({"reason", "expires_at"})
    await runs.suspend("r1", 3, claim=resumed["claim"], workflow_id="v", metadata={"l": 2})
    again = await runs.resume("r1")
    assert (again["workflow_id"], again["metadata"]) == ("v", {"l": 2})


async def test_a_run_is_found_from_any_thread_and_stays_in_its_own(runs: Runs) -> None:
    await runs.suspend("r1", 1)
    elsewhere = Runs(runs.database, runs.clock, thread="session-2")
    resumed = await elsewhere.resume("r1")
    assert resumed["thread_id"] == "main"
    error = await refused(Conflict, elsewhere.suspend("r1", 2, claim=resumed["claim"], named="session-2"))
    assert error == "run 'r1' belongs to thread 'main': leave thread_id out, or give that"
    assert (await elsewhere.suspend("r1", 2, claim=resumed["claim"]))["thread_id"] == "main"
    assert await only(runs.database, "SELECT count(*) FROM threads") == 1


async def test_what_one_resumer_brought_the_next_one_sees(runs: Runs) -> None:
    await runs.suspend("r1", 1, pending_tool_calls=[CALL])
    await runs.resume("r1", APPROVED, seconds=1)
    runs.clock.now += 1000
    second = await runs.resume("r1", seconds=1)
    assert [(each["tool_call_id"], each["data"]) for each in second["resumed"]] == [("c1", APPROVED)]
    runs.clock.now += 1000
    assert (await runs.resume("r1", APPROVED, seconds=1))["resumed"] == second["resumed"]
    runs.clock.now += 1000
    last = await runs.resume("r1", {"approved": False})
    assert [each["data"] for each in last["resumed"]] == [APPROVED, {"approved": False}]
    assert [each["at"] for each in last["resumed"]] == [iso(NOW), iso(NOW + 3000)]


async def test_resume_data_must_fit_a_call_that_waits(runs: Runs) -> None:
    calls = {
        "c1": {"toolName": "sail", "suspended": True, "resumeSchema": CALL["resume_schema"]},
        "c2": {"toolName": "row", "suspended": True},
        "c3": {"toolName": "swim", "suspended": False},
    }
    await runs.suspend("r1", 1, pending_tool_calls=calls)
    assert "several tool calls wait for data: 'c1', 'c2'" in await refused(InvalidInput, runs.resume("r1", APPROVED))
    for call in ("c3", "c4"):
        error = await refused(InvalidInput, runs.resume("r1", APPROVED, call=call))
        assert error == f"tool_call_id: '{call}' does not wait for data; those that do: 'c1', 'c2'"
    assert "approved" in await refused(InvalidInput, runs.resume("r1", {"approved": "yes"}, call="c1"))
    assert "data: must be an object" in await refused(InvalidInput, runs.resume("r1", "yes", call="c1"))
    resumed = await runs.resume("r1", '{"approved": true}', call="c1")
    assert resumed["pending_tool_calls"] == calls
    assert [each["data"] for each in resumed["resumed"]] == [APPROVED]


async def test_a_run_belongs_to_its_scope(runs: Runs) -> None:
    ben = Runs(runs.database, runs.clock, scope=Scope("local", "agent", "ben"))
    await runs.suspend("r1", "ana's")
    assert "there is no run 'r1'" in await refused(NotFound, ben.resume("r1"))
    await ben.suspend("r1", "ben's")
    assert (await ben.resume("r1"))["state"] == "ben's"
    assert (await runs.resume("r1"))["state"] == "ana's"


async def test_a_request_sent_again_with_its_key_gets_its_claim_and_state_again(runs: Runs) -> None:
    await runs.suspend("r1", {"words": "quokka"}, key="k1")
    first = await runs.resume("r1", key="k2", by="first")
    runs.clock.now += 1000
    assert await runs.resume("r1", key="k2", by="first") == first
    assert "quokka" not in repr(await runs.database.read_installation(rows, "SELECT * FROM idempotency"))
    runs.clock.now += 300_000
    assert await runs.resume("r1", key="k2") == first, "late, but nobody took the run over"
    taken = await runs.resume("r1", by="second")
    assert "second resumed it" in await refused(Conflict, runs.resume("r1", key="k2"))
    done = await runs.complete("r1", taken["claim"], key="k3")
    assert await runs.complete("r1", taken["claim"], key="k3") == done
    assert "completed since" in await refused(Conflict, runs.resume("r1", key="k2"))
    assert len(await runs.log()) == 4


async def test_a_clock_that_is_behind_takes_no_run_from_its_holder(runs: Runs) -> None:
    await runs.suspend("r1", 1, ttl_seconds=3600)
    claim = (await runs.resume("r1", seconds=1))["claim"]
    behind = Runs(runs.database, Clock(NOW - 3_600_000))
    assert "resumed it" in await refused(Conflict, behind.resume("r1"))
    await behind.suspend("r1", 2, claim=claim)
    assert (await behind.resume("r1"))["state"] == 2


async def test_events_of_a_run_come_in_the_order_of_their_seqs(runs: Runs) -> None:
    for n in range(3):
        await runs.suspend(f"r{n}", 1)
    await asyncio.gather(*(runs.resume(f"r{n}") for n in range(3)))
    thread = await runs.database.read(threads.find, ANA, "main")
    assert thread.next_event_seq == 7
    assert len(await runs.log()) == 6


class Interrupted:
    """A database after whose first read something else happens."""

    def __init__(self, database: Database, then: Callable[[], Awaitable[None]]) -> None:
        self._database = database
        self._then: Callable[[], Awaitable[None]] | None = then

    async def read(self, *unit: Any, **arguments: Any) -> Any:
        found = await self._database.read(*unit, **arguments)
        then, self._then = self._then, None
        if then:
            await then()
        return found

    async def write(self, *unit: Any, **arguments: Any) -> Any:
        return await self._database.write(*unit, **arguments)


async def test_data_that_was_checked_for_calls_that_have_changed_meanwhile_resumes_nothing(runs: Runs) -> None:
    await runs.suspend("r1", 1, pending_tool_calls=[CALL])

    async def another_resumes_and_suspends() -> None:
        claim = (await runs.resume("r1", APPROVED))["claim"]
        await runs.suspend("r1", 2, claim=claim, pending_tool_calls=[{**CALL, "tool_call_id": "c2"}])

    database: Any = Interrupted(runs.database, another_resumes_and_suspends)
    error = await refused(Conflict, Runs(database, runs.clock).resume("r1", APPROVED, call="c1"))
    assert error == "run 'r1' was suspended again at this moment, with other tool calls: look anew"
    resumed = await runs.resume("r1")
    assert (resumed["state"], resumed["resumed"]) == (2, [])
