"""Runs that go: when their checkpoint expires, when their thread is deleted, and what an end leaves of them."""

import asyncio

import pytest

from layerlore.memory.rules.ages import iso
from layerlore.storage.core import installation
from layerlore.storage.core.errors import Conflict, NotFound
from layerlore.storage.core.records import Scope
from layerlore.storage.removal import deletions

from ..building import ANA, MINUTE, NOW, only, rows, say, search_text, uid
from ..running import Runs, refused

pytestmark = pytest.mark.anyio


async def test_an_expired_checkpoint_cannot_be_resumed_and_is_removed(runs: Runs) -> None:
    await runs.suspend("r1", "quokka", ttl_seconds=60)
    await runs.suspend("r2", 1, ttl_seconds=61)
    await runs.suspend("r3", 1)
    runs.clock.now += MINUTE - 1
    assert await runs.expire() == 0
    runs.clock.now += 1
    for call in (runs.resume("r1"), runs.suspend("r1", "quokka", ttl_seconds=60), runs.suspend("r1", 2)):
        assert f"the checkpoint of run 'r1' expired at {iso(NOW + MINUTE)}" in await refused(Conflict, call)
    assert await runs.expire() == 1
    assert await runs.ids() == ["r3", "r2"]
    assert "quokka" not in repr(await runs.database.read_installation(rows, "SELECT * FROM runs"))
    assert not await runs.database.read_installation(installation.rewrite_owed)
    assert "there is no run 'r1'" in await refused(NotFound, runs.resume("r1"))
    assert (await runs.log())[-1] == ("run_expired", {"run_id": "r1"})
    await runs.suspend("r1", "again")
    assert (await runs.resume("r1"))["state"] == "again"


async def test_a_run_that_somebody_holds_does_not_expire_until_the_claim_has_run_out(runs: Runs) -> None:
    await runs.suspend("r1", 1, ttl_seconds=1)
    claim = (await runs.resume("r1", seconds=60))["claim"]
    runs.clock.now += MINUTE - 1
    assert await runs.expire() == 0
    assert "resumed it" in await refused(Conflict, runs.resume("r1"))
    runs.clock.now += 1
    assert "expired at" in await refused(Conflict, runs.resume("r1"))
    await runs.suspend("r1", 2, claim=claim, ttl_seconds=1)  # late, but nobody was faster
    runs.clock.now += 1000
    assert await runs.expire() == 1
    assert "there is no run" in await refused(NotFound, runs.complete("r1", claim))


async def test_a_run_that_has_ended_does_not_expire(runs: Runs) -> None:
    await runs.suspend("r1", 1, ttl_seconds=1)
    await runs.complete("r1", (await runs.resume("r1"))["claim"])
    runs.clock.now += 3_600_000
    assert await runs.expire() == 0
    assert (await runs.one("r1"))["status"] == "completed"


async def test_runs_of_all_tenants_expire_more_than_a_portion_at_a_time(runs: Runs) -> None:
    others = [Runs(runs.database, runs.clock, scope=Scope("other", "agent", f"ana{n}")) for n in range(2)]
    for each in (runs, *others):
        for number in range(60):
            await each.suspend(f"r{number}", 1, ttl_seconds=1)
        await each.suspend("kept", 1)
    runs.clock.now += 1000
    assert await runs.expire() == 180
    for each in (runs, *others):
        assert await each.ids() == ["kept"]
        assert len([type_ for type_, _ in await each.log() if type_ == "run_expired"]) == 60


async def test_of_maintenance_and_a_late_holder_at_once_one_wins(runs: Runs) -> None:
    for number in range(10):
        run_id = f"r{number}"
        await runs.suspend(run_id, 1, ttl_seconds=1)
        claim = (await runs.resume(run_id, seconds=1))["claim"]
        runs.clock.now += 5000
        found = await asyncio.gather(runs.suspend(run_id, 2, claim=claim), runs.expire(), return_exceptions=True)
        if isinstance(found[0], dict):
            assert (await runs.resume(run_id))["state"] == 2
        else:
            assert isinstance(found[0], NotFound)
            assert run_id not in await runs.ids()


async def test_a_run_of_a_deleted_thread_is_hidden_until_the_thread_is_restored(runs: Runs) -> None:
    await say(runs.database, "main")
    await runs.suspend("r1", 1)
    claim = (await runs.resume("r1"))["claim"]
    deletion = uid()
    await runs.database.write(deletions.delete_thread, ANA, "main", deletion_uid=deletion, erase=False, now=NOW)
    for call in (runs.resume("r1"), runs.complete("r1", claim), runs.suspend("r1", 1, claim=claim), runs.one("r1")):
        assert await refused(NotFound, call) == "there is no run 'r1'; list_runs shows the ones there are"
    assert await runs.ids() == []
    for thread in ("main", "other"):
        error = await refused(Conflict, runs.suspend("r1", 1, named=thread))
        assert "belongs to a run of a deleted thread, which can still be restored" in error
    assert await runs.database.read_installation(rows, "SELECT thread_id FROM threads WHERE deletion_uid IS NULL") == []
    await runs.database.write(deletions.restore, ANA, deletion, now=NOW, search_text=search_text)
    await runs.suspend("r1", 2, claim=claim)
    assert (await runs.resume("r1"))["state"] == 2


async def test_a_run_of_a_deleted_thread_expires_too_and_its_thread_can_be_restored(runs: Runs) -> None:
    await runs.suspend("r1", 1, ttl_seconds=1)
    deletion = uid()
    await runs.database.write(deletions.delete_thread, ANA, "main", deletion_uid=deletion, erase=False, now=NOW)
    runs.clock.now += 1000
    assert await runs.expire() == 1
    assert await only(runs.database, "SELECT count(*) FROM runs") == 0
    await runs.database.write(deletions.restore, ANA, deletion, now=NOW, search_text=search_text)
    assert [type_ for type_, _ in await runs.log()] == ["run_suspended", "run_expired"]
