"""Jobs: asked for once however often, claimed by one at a time, ended only by who holds them."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace

import pytest

from layerlore.storage.core.records import Scope, Tenant
from layerlore.storage.core.transaction import Database, Tx
from layerlore.storage.jobs import job_rows
from layerlore.storage.jobs.job_rows import ERROR_CHARS, KINDS, Claim, Fenced, JobRow, Kind
from layerlore.storage.removal import deletions
from layerlore.storage.threads import threads

from ..building import ANA, BEN, NOW, draft, new_scope, only, rows, say, uid

pytestmark = pytest.mark.anyio

LEASE = 30_000


async def ask(
    database: Database,
    seq: int = 1,
    *,
    thread: str = "",
    kind: Kind = "observe",
    scope: Scope = ANA,
    due_at: int = NOW,
    now: int = NOW,
    revive: bool = False,
) -> None:
    await database.write(job_rows.request, scope, thread, kind, seq, due_at=due_at, now=now, revive=revive)


async def take(
    database: Database, now: int = NOW, *, kinds: Collection[Kind] = KINDS, holder: str = "one"
) -> Claim | None:
    return await database.write_installation(job_rows.claim, kinds, holder=holder, now=now, lease_ms=LEASE)


async def taken(database: Database, now: int = NOW, *, kinds: Collection[Kind] = KINDS) -> Claim:
    claim = await take(database, now, kinds=kinds)
    assert claim is not None
    return claim


async def waiting(database: Database, scope: Scope = ANA, now: int = NOW) -> list[JobRow]:
    return await database.read(job_rows.list_waiting, scope, now)


async def the_one(database: Database, now: int = NOW) -> JobRow:
    (row,) = await waiting(database, now=now)
    return row


async def fail(database: Database, claim: Claim, *, retry_at: int = NOW, dead: bool = False, error: str = "no") -> bool:
    return await database.write(job_rows.fail, claim, error=error, retry_at=retry_at, dead=dead, now=NOW)


async def test_a_job_that_is_asked_for_is_claimed_done_and_gone(database: Database) -> None:
    assert await take(database) is None
    await ask(database, 7, thread="t")
    claim = await taken(database)
    assert claim == Claim(ANA, "t", "observe", 7, 0, 1, NOW + LEASE, 0)
    assert await take(database) is None
    await database.write(job_rows.finish, claim, now=NOW)
    assert await waiting(database) == []
    assert await take(database, NOW + 10 * LEASE) is None


async def test_what_was_done_is_not_asked_for_again_and_the_highest_request_counts(database: Database) -> None:
    await ask(database, 7)
    await ask(database, 5)
    await database.write(job_rows.finish, await taken(database), now=NOW)
    await ask(database, 7)
    assert await waiting(database) == []
    await ask(database, 8)
    assert (await taken(database)).done_seq == 7


async def test_the_rest_of_a_job_is_due_when_its_end_says_or_when_a_request_meanwhile_says(database: Database) -> None:
    await ask(database, 7)
    claim = await taken(database)
    await database.write(job_rows.finish, replace(claim, seq=6), now=NOW, due_at=NOW + 50)
    assert await take(database, NOW + 49) is None
    claim = await taken(database, NOW + 50)
    await ask(database, 8, due_at=NOW + 60)
    await database.write(job_rows.finish, replace(claim, seq=6), now=NOW + 50, due_at=NOW + 90)
    assert (await taken(database, NOW + 60)).seq == 8


async def test_a_request_during_the_work_keeps_the_job_due(database: Database) -> None:
    await ask(database, 1)
    claim = await taken(database)
    await ask(database, 2, due_at=NOW + 5)
    assert await database.read(job_rows.find_held, ANA, "", "observe", claim.epoch) == claim
    await database.write(job_rows.finish, claim, now=NOW)
    assert await take(database) is None
    again = await taken(database, NOW + 5)
    assert (again.seq, again.done_seq, again.epoch) == (2, 1, 2)


async def test_a_request_is_undone_with_its_transaction(database: Database) -> None:
    async def unit(tx: Tx, scope: Scope) -> None:
        await job_rows.request(tx, ANA, "", "observe", 1, due_at=NOW, now=NOW)
        raise KeyError

    with pytest.raises(KeyError):
        await database.write(unit, ANA)
    assert await take(database) is None


async def test_several_kinds_are_asked_for_at_once_and_claimed_by_kind(database: Database) -> None:
    wanted: list[tuple[Kind, int, int]] = [("title", 1, NOW), ("profile", 2, NOW), ("entries", 3, NOW + 1)]
    await database.write(job_rows.request_many, ANA, "t", wanted, now=NOW)
    assert await take(database, kinds=["observe"]) is None
    assert (await taken(database, kinds=["profile", "entries"])).kind == "profile"
    assert await take(database, kinds=["profile", "entries"]) is None
    assert (await taken(database, NOW + 1, kinds=["profile", "entries"])).seq == 3
    assert (await taken(database)).kind == "title"


async def test_what_waits_keeps_the_earlier_time_and_what_was_done_takes_the_new_one(database: Database) -> None:
    await ask(database, 1, due_at=NOW + 10)
    await ask(database, 2, due_at=NOW + 20)
    assert (await the_one(database)).due_at == NOW + 10
    await ask(database, 3, due_at=NOW + 5)
    assert (await the_one(database)).due_at == NOW + 5
    await database.write(job_rows.finish, await taken(database, NOW + 5), now=NOW)
    await ask(database, 4, due_at=NOW + 50)
    assert (await the_one(database)).due_at == NOW + 50


async def test_a_failed_job_waits_as_long_as_it_was_told_whoever_asks_meanwhile(database: Database) -> None:
    await ask(database, 1)
    assert await fail(database, await taken(database), retry_at=NOW + 9)
    await ask(database, 2)
    assert await take(database, NOW + 8) is None
    row = await the_one(database)
    assert (row.attempts, row.state, row.error, row.requested_seq) == (1, "later", "no", 2)
    again = await taken(database, NOW + 9)
    assert (again.attempts, again.seq) == (1, 2)
    await database.write(job_rows.finish, again, now=NOW)
    await ask(database, 3)
    done = await the_one(database)
    assert (done.attempts, done.error) == (0, None)


async def test_a_failure_that_is_noted_counts_and_leaves_the_job_to_its_claim(database: Database) -> None:
    await ask(database, 1)
    claim = await taken(database)
    assert await database.write(job_rows.note_failure, claim, error="x" * 1000, now=NOW)
    row = await the_one(database)
    assert (row.attempts, row.state, row.error) == (1, "running", "x" * job_rows.ERROR_CHARS)
    assert await take(database, NOW) is None
    assert (await taken(database, claim.lease_until)).attempts == 1
    assert not await database.write(job_rows.note_failure, claim, error="no", now=NOW)


async def test_a_dead_job_stays_dead_until_it_is_resumed(database: Database) -> None:
    for kind in ("observe", "profile"):
        await ask(database, 1, kind=kind)
        assert await fail(database, await taken(database), dead=True)
    await ask(database, 2)
    assert {row.state for row in await waiting(database)} == {"dead"}
    assert await take(database, NOW + 10 * LEASE) is None
    assert await database.write(job_rows.resume, BEN, None, NOW) == 0
    assert await database.write(job_rows.resume, ANA, ["observe"], NOW) == 1
    resumed = await taken(database)
    assert (resumed.kind, resumed.seq, resumed.attempts) == ("observe", 2, 0)
    assert await take(database) is None
    assert await database.write(job_rows.resume, ANA, None, NOW) == 1
    assert (await taken(database)).kind == "profile"


async def test_a_request_revives_a_dead_job_only_when_it_says_so(database: Database) -> None:
    await ask(database, 1)
    await fail(database, await taken(database), retry_at=NOW + 99, dead=True)
    await ask(database, 2, due_at=NOW + 1, revive=True)
    assert await take(database) is None
    assert (await taken(database, NOW + 1)).attempts == 0


async def test_a_job_whose_lease_ran_out_goes_to_the_next_and_the_first_is_fenced_off(database: Database) -> None:
    await ask(database, 1)
    first = await taken(database)
    assert await take(database, NOW + LEASE - 1, holder="two") is None
    second = await take(database, NOW + LEASE, holder="two")
    assert second is not None
    assert second.epoch == first.epoch + 1
    with pytest.raises(Fenced, match="Nothing was stored"):
        await database.write(job_rows.finish, first, now=NOW)
    assert not await database.write(job_rows.prolong, first, now=NOW, lease_ms=LEASE)
    assert not await fail(database, first)
    assert not await database.write(job_rows.hand_back, first, now=NOW)
    assert await database.read(job_rows.find_held, ANA, "", "observe", first.epoch) is None
    assert await database.read(job_rows.find_held, ANA, "", "observe", second.epoch) == second
    await database.write(job_rows.finish, second, now=NOW)


async def test_the_effects_of_who_is_fenced_off_are_undone(database: Database) -> None:
    await ask(database, 1)
    first = await taken(database)
    await taken(database, NOW + LEASE)

    async def end(tx: Tx, scope: Scope) -> None:
        await threads.lock_or_make(tx, ANA, "effect", uid(), NOW)
        await job_rows.finish(tx, first, now=NOW)

    with pytest.raises(Fenced):
        await database.write(end, ANA)
    assert await only(database, "SELECT count(*) FROM threads") == 0


async def test_a_lease_that_ran_out_and_that_nobody_took_still_counts(database: Database) -> None:
    await ask(database, 1)
    claim = await taken(database)
    await database.write(job_rows.finish, claim, now=NOW + 10 * LEASE)
    assert await waiting(database) == []


async def test_a_job_ends_only_once(database: Database) -> None:
    await ask(database, 1)
    claim = await taken(database)
    await database.write(job_rows.finish, claim, now=NOW)
    for _ in range(2):
        with pytest.raises(Fenced):
            await database.write(job_rows.finish, claim, now=NOW)
        await ask(database, 2)
        assert not await fail(database, claim)
    assert (await taken(database)).attempts == 0


async def test_a_prolonged_lease_holds_and_a_job_handed_back_is_free_at_once(database: Database) -> None:
    await ask(database, 1)
    claim = await taken(database)
    assert await database.write(job_rows.prolong, claim, now=NOW + LEASE - 1, lease_ms=LEASE)
    assert await take(database, NOW + 2 * LEASE - 2) is None
    assert (await the_one(database, NOW + 2 * LEASE - 2)).state == "running"
    assert await database.write(job_rows.hand_back, claim, now=NOW)
    again = await taken(database)
    assert (again.epoch, again.attempts) == (2, 0)


async def test_errors_are_cut(database: Database) -> None:
    await ask(database, 1)
    await fail(database, await taken(database), error="x" * 1000)
    assert (await the_one(database)).error == "x" * ERROR_CHARS


async def test_resources_take_turns_whatever_each_has_waiting(database: Database) -> None:
    crowd = new_scope()
    for n in range(6):
        await ask(database, 1, thread=f"t{n}", scope=crowd)
    await ask(database, 1, scope=BEN, due_at=NOW + 3)
    await ask(database, 1, scope=ANA, due_at=NOW + 4)
    order = [(await taken(database, NOW + 10 + n)).scope for n in range(8)]
    assert order[:3] == [crowd, BEN, ANA]
    assert order[3:] == [crowd] * 5


async def test_of_a_resource_the_oldest_is_first_and_one_scope_can_be_asked_for(database: Database) -> None:
    await ask(database, 1, thread="late", due_at=NOW - 1)
    await ask(database, 1, thread="early", due_at=NOW - 2)
    await ask(database, 1, scope=BEN, due_at=NOW - 3)

    async def of_ana() -> str | None:
        claim = await database.write(job_rows.claim_in, ANA, KINDS, holder="host", now=NOW, lease_ms=LEASE)
        return None if claim is None else claim.thread_uid

    assert [await of_ana(), await of_ana(), await of_ana()] == ["early", "late", None]


async def test_claims_at_the_same_time_never_get_the_same_job(database: Database) -> None:
    for n in range(40):
        await ask(database, 1, thread=f"t{n % 10}", scope=(ANA, BEN)[n % 2], kind=KINDS[n % len(KINDS)])
    expected = await only(database, "SELECT count(*) FROM jobs")

    async def claim_all() -> list[tuple[str, ...]]:
        found = []
        while claim := await take(database):
            found.append((claim.scope.resource_id, claim.thread_uid, claim.kind))
        return found

    found = [key for several in await asyncio.gather(*(claim_all() for _ in range(8))) for key in several]
    # Who finds only rows that others are taking goes away empty-handed; nothing is taken twice.
    found += await claim_all()
    assert len(found) == len(set(found)) == expected


async def test_when_the_next_job_is_to_be_had(database: Database) -> None:
    async def soonest(*kinds: Kind, now: int = NOW) -> int | None:
        return await database.read_installation(job_rows.find_soonest, kinds or KINDS, now=now)

    assert await soonest() is None
    await ask(database, 1, due_at=NOW + 7)
    await ask(database, 1, due_at=NOW - 7, kind="title")
    assert await soonest() == NOW - 7
    assert await soonest("observe") == NOW + 7
    assert await soonest("profile") is None
    claim = await taken(database)
    assert await soonest("title") == NOW + LEASE
    await fail(database, claim, dead=True)
    assert await soonest("title") is None


async def test_jobs_of_a_deleted_thread_are_not_shown_and_go_when_it_is_erased(database: Database) -> None:
    uids = {name: (await say(database, name, draft())).thread.thread_uid for name in ("main", "other")}
    for thread in (*uids.values(), ""):
        await ask(database, 1, thread=thread)
    assert {row.thread_id for row in await waiting(database)} == {"main", "other", None}
    claim = await taken(database)
    for name, erase in (("main", False), ("other", True)):
        await database.write(deletions.delete_thread, ANA, name, deletion_uid=uid(), erase=erase, now=NOW)
    assert {row.thread_id for row in await waiting(database)} == {None}
    assert await only(database, "SELECT count(*) FROM jobs") == 2
    await database.write(deletions.erase_expired, ANA, deleted_before=NOW + 1, answered_before=0)
    assert await database.read_installation(rows, "SELECT thread_uid FROM jobs") == [("",)]
    if claim.thread_uid:
        with pytest.raises(Fenced):
            await database.write(job_rows.finish, claim, now=NOW)


async def test_fencing_off_takes_the_running_jobs_of_one_scope_only(database: Database) -> None:
    for scope, thread in ((ANA, "a"), (ANA, "b"), (BEN, "c")):
        await ask(database, thread=thread, scope=scope)
    claims = {claim.thread_uid: claim for claim in [await taken(database), await taken(database)]}
    assert set(claims) == {"a", "c"}
    assert await database.write(job_rows.fence_off, ANA, now=NOW) == 1
    assert await database.write(job_rows.fence_off, ANA, now=NOW) == 0
    with pytest.raises(Fenced):
        await database.write(job_rows.finish, claims["a"], now=NOW)
    await database.write(job_rows.finish, claims["c"], now=NOW)
    assert await waiting(database, BEN) == []


async def test_what_is_set_back_is_due_then_and_what_waits_anyway_keeps_its_time(database: Database) -> None:
    await ask(database, 5)
    await database.write(job_rows.finish, await taken(database), now=NOW)
    await database.write(job_rows.set_back, ANA, "", "observe", 3, due_at=NOW + 300, now=NOW)
    row = await the_one(database)
    assert (row.done_seq, row.requested_seq, row.due_at) == (3, 5, NOW + 300)
    await database.write(job_rows.set_back, ANA, "", "observe", 1, due_at=NOW + 900, now=NOW)
    row = await the_one(database)
    assert (row.done_seq, row.due_at) == (1, NOW + 300)
    await database.write(job_rows.set_back, ANA, "", "observe", 2, due_at=NOW + 900, now=NOW)
    assert (await the_one(database)).done_seq == 1


LATER = NOW + 500
ENDINGS: dict[str, Callable[[Database, Claim], Awaitable[object]]] = {
    "prolong": lambda database, claim: database.write(job_rows.prolong, claim, now=LATER, lease_ms=LEASE),
    "finish": lambda database, claim: database.write(job_rows.finish, claim, now=LATER),
    "fail": lambda database, claim: database.write(
        job_rows.fail, claim, error="no", retry_at=NOW, dead=False, now=LATER
    ),
    "note_failure": lambda database, claim: database.write(job_rows.note_failure, claim, error="no", now=LATER),
    "hand_back": lambda database, claim: database.write(job_rows.hand_back, claim, now=LATER),
    "fence_off": lambda database, claim: database.write(job_rows.fence_off, claim.scope, now=LATER),
    "request": lambda database, claim: ask(database, 9, now=LATER),
}


@pytest.mark.parametrize("end", ENDINGS)
async def test_every_change_of_a_claimed_job_is_dated(database: Database, end: str) -> None:
    await ask(database)
    claim = await taken(database, NOW + 1)
    assert await changed_at(database) == NOW + 1
    await ENDINGS[end](database, claim)
    assert await changed_at(database) == LATER


async def test_every_change_of_a_job_that_nobody_holds_is_dated(database: Database) -> None:
    await ask(database)
    tenant = Tenant(ANA.tenant_id)
    await database.write(job_rows.put_off, tenant, KINDS, until=NOW + 100, now=NOW + 1)
    assert await changed_at(database) == NOW + 1
    await fail(database, await taken(database, NOW + 100), dead=True, retry_at=NOW + 5000)
    assert await database.write(job_rows.resume, ANA, None, NOW + 200) == 1
    assert await changed_at(database) == NOW + 200
    await database.write(job_rows.finish, await taken(database, NOW + 200), now=NOW + 200)
    await database.write(job_rows.set_back, ANA, "", "observe", 0, due_at=NOW, now=NOW + 300)
    assert await changed_at(database) == NOW + 300


async def changed_at(database: Database) -> int:
    ((updated_at,),) = await database.read_installation(rows, "SELECT updated_at FROM jobs")
    return int(updated_at)
