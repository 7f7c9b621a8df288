"""What is counted and changed for a whole tenant: the tokens of models in a day, and the jobs that are due."""

import asyncio
from typing import Any

import pytest

from layerlore.storage.audit import usage_rows
from layerlore.storage.audit.usage_rows import day_of, next_day
from layerlore.storage.core import scopes
from layerlore.storage.core.records import Scope, Tenant
from layerlore.storage.core.transaction import Database, Tx
from layerlore.storage.derived import entries
from layerlore.storage.derived.entries import NewEntry
from layerlore.storage.jobs import job_rows
from layerlore.storage.jobs.job_rows import KINDS, Kind
from layerlore.storage.messages import tenant_memories
from layerlore.storage.messages.tenant_memories import Pair
from layerlore.storage.removal import deletions
from layerlore.storage.threads import threads
from layerlore.storage.threads.threads import Description, ThreadFilter, read_page

from ..building import NOW, draft, rows, say, search_text, uid

pytestmark = pytest.mark.anyio

ACME, GLOBEX = Tenant("acme"), Tenant("globex")
ANA, BEN = Scope("acme", "agent", "ana"), Scope("acme", "other agent", "ben")
EVE = Scope("globex", "agent", "ana")
TOMORROW = next_day(NOW)


async def ask(database: Database, scope: Scope, thread: str, kind: Kind = "observe", *, due_at: int = NOW) -> None:
    await database.write(job_rows.request, scope, thread, kind, 5, due_at=due_at, now=NOW)


async def due(database: Database, tenant: Tenant = ACME, *, most: int = 100, now: int = NOW) -> int:
    return await database.read(job_rows.count_due, tenant, ["observe", "entries"], most=most, now=now)


async def test_a_tenants_day_sums_up_what_its_work_took(database: Database) -> None:
    await asyncio.gather(*(database.write(usage_rows.add_of_tenant, ACME, 10, now=NOW) for _ in range(20)))
    await database.write(usage_rows.add_of_tenant, ACME, 7, now=TOMORROW)
    await database.write(usage_rows.add_of_tenant, GLOBEX, 1, now=NOW)
    assert await database.read(usage_rows.read_of_tenant, ACME, day_of(NOW)) == 200
    assert await database.read(usage_rows.read_of_tenant, ACME, day_of(TOMORROW)) == 7
    assert await database.read(usage_rows.read_of_tenant, GLOBEX, day_of(NOW)) == 1
    assert await database.read(usage_rows.read_of_tenant, Tenant("nobody"), day_of(NOW)) == 0


async def test_jobs_that_are_due_are_counted_for_all_resources_of_the_tenant(database: Database) -> None:
    for thread in ("one", "two"):
        await ask(database, ANA, thread)
        await ask(database, BEN, thread, "entries")
        await ask(database, EVE, thread)
    await ask(database, ANA, "one", "title")  # a kind that is not asked about
    await ask(database, ANA, "later", due_at=NOW + 1)
    assert await due(database) == 4
    assert await due(database, now=NOW + 1) == 5
    assert await due(database, GLOBEX) == 2
    assert await due(database, Tenant("nobody")) == 0
    assert await due(database, most=3) == 3


async def test_jobs_that_are_done_or_dead_are_not_counted_and_running_ones_are(database: Database) -> None:
    for thread in ("done", "dead", "running"):
        await ask(database, ANA, thread)
    for end in ("finish", "fail", ""):
        claim = await database.write_installation(job_rows.claim, KINDS, holder="w", now=NOW, lease_ms=1000)
        assert claim is not None
        if end == "finish":
            await database.write(job_rows.finish, claim, now=NOW)
        elif end:
            await database.write(job_rows.fail, claim, error="x", retry_at=NOW, dead=True, now=NOW)
    assert await due(database) == 1


async def test_jobs_are_put_off_without_a_failure_and_only_those_that_nobody_works_on(database: Database) -> None:
    await ask(database, ANA, "running")
    claim = await database.write_installation(job_rows.claim, KINDS, holder="w", now=NOW, lease_ms=1000)
    assert claim is not None
    await ask(database, ANA, "due")
    await ask(database, BEN, "later", due_at=NOW + 500)
    await ask(database, BEN, "much later", due_at=TOMORROW + 5)
    await ask(database, ANA, "other kind", "title")
    await ask(database, EVE, "foreign")
    assert await database.write(job_rows.put_off, ACME, ["observe"], until=TOMORROW, now=NOW) == 2
    found = await database.read_installation(
        rows, "SELECT thread_uid, due_at, attempts FROM jobs WHERE tenant_id = 'acme'"
    )
    assert {thread: due_at for thread, due_at, _ in found} == {
        "running": NOW,
        "due": TOMORROW,
        "later": TOMORROW,
        "much later": TOMORROW + 5,
        "other kind": NOW,
    }
    assert {attempts for _, _, attempts in found} == {0}
    assert await database.write(job_rows.put_off, ACME, ["observe"], until=TOMORROW, now=NOW) == 0
    assert await database.read_installation(job_rows.find_soonest, ["observe"], now=NOW) == NOW  # the foreign one
    await database.write(job_rows.finish, claim, now=NOW)


async def test_more_that_is_asked_of_a_job_makes_it_due_again(database: Database) -> None:
    await ask(database, ANA, "t")
    await database.write(job_rows.put_off, ACME, ["observe"], until=TOMORROW, now=NOW)
    assert await due(database) == 0
    await database.write(job_rows.request, ANA, "t", "observe", 6, due_at=NOW + 10, now=NOW)
    assert await due(database, now=NOW + 10) == 1


async def test_a_host_may_take_what_was_put_off_and_nobody_else(database: Database) -> None:
    await ask(database, ANA, "t")
    await database.write(job_rows.put_off, ACME, ["observe"], until=TOMORROW, now=NOW)
    options = {"holder": "w", "now": NOW, "lease_ms": 1000}
    assert await database.write_installation(job_rows.claim, KINDS, **options) is None
    assert await database.write(job_rows.claim_in, ANA, KINDS, **options) is None
    assert await database.write(job_rows.claim_in, EVE, KINDS, **options, also_at=TOMORROW) is None
    claim = await database.write(job_rows.claim_in, ANA, KINDS, **options, also_at=TOMORROW)
    assert claim is not None
    await database.write(job_rows.finish, claim, now=NOW)


async def test_conversations_are_listed_across_agents_and_resources_of_the_tenant_alone(database: Database) -> None:
    for number, (scope, topic) in enumerate([(ANA, "tea"), (BEN, "cake"), (ANA, "cake"), (EVE, "tea"), (BEN, "tea")]):
        change = Description(title=None, metadata_patch={"topic": topic, "n": number}, window_policy=None)
        await database.write(
            threads.describe,
            scope,
            f"t{number}",
            change,
            new_uid=f"uid{number}",
            now=NOW + number,
            check=lambda metadata: None,
        )

    async def listed(wanted: ThreadFilter, tenant: Tenant = ACME, limit: int = 2) -> list[str]:
        found: list[str] = []
        after = None
        while True:
            page, after = await database.read(read_page, tenant, wanted, after=after, limit=limit)
            assert len(page) <= limit
            found += [f"{each.resource_id} {each.thread.thread_id}" for each in page]
            if after is None:
                return found

    everything = ["ben t4", "ana t2", "ben t1", "ana t0"]
    assert await listed(ThreadFilter()) == everything
    assert await listed(ThreadFilter(descending=False, order_by="created_at")) == everything[::-1]
    assert await listed(ThreadFilter(agents=["other agent"])) == ["ben t4", "ben t1"]
    assert await listed(ThreadFilter(agents=[])) == []
    assert await listed(ThreadFilter(resource_id="ana")) == ["ana t2", "ana t0"]
    assert await listed(ThreadFilter(since=NOW + 1, until=NOW + 2)) == ["ana t2", "ben t1"]
    assert await listed(ThreadFilter(metadata={"topic": "tea"}), limit=1) == ["ben t4", "ana t0"]
    assert await listed(ThreadFilter(), GLOBEX) == ["ana t3"]
    assert await listed(ThreadFilter(), Tenant("nobody")) == []


async def pairs(database: Database, tenant: Tenant, after: Pair = ("", ""), **request: Any) -> list[Pair]:
    filters: dict[str, Any] = {"agents": None, "resource": None, "most": 100, **request}
    return await database.read(tenant_memories.pairs_after, tenant, after, **filters)


async def note(database: Database, scope: Scope, content: str) -> None:
    new = NewEntry(uid(), content, None, "caller", "user", "m", "p", NOW)

    async def write(tx: Tx, scope: Scope) -> None:
        await scopes.hold(tx, scope)
        await entries.insert_new(tx, scope, new, now=NOW, search_text=search_text)

    await database.write(write, scope)


async def test_the_memories_of_a_tenant_are_listed_page_by_page_with_what_they_hold(database: Database) -> None:
    cleo = Scope("acme", "agent", "cleo")
    await say(database, "one", draft(), draft(), scope=ANA)
    await say(database, "two", draft(), scope=ANA)
    await say(database, "one", draft(), scope=BEN)
    await say(database, "one", draft(), scope=EVE)
    await note(database, cleo, "likes tea")
    await note(database, cleo, "likes cake")
    assert await pairs(database, ACME) == [("agent", "ana"), ("agent", "cleo"), ("other agent", "ben")]
    assert await pairs(database, ACME, ("agent", "ana"), most=1) == [("agent", "cleo")]
    assert await pairs(database, ACME, ("other agent", "ben")) == []
    assert await pairs(database, ACME, agents=["other agent"]) == [("other agent", "ben")]
    assert await pairs(database, ACME, resource="ana") == [("agent", "ana")]
    assert await pairs(database, GLOBEX) == [("agent", "ana")]
    counted = await database.read(tenant_memories.count_memories, ACME, [("agent", "ana"), ("agent", "cleo")])
    ana, other = counted["agent", "ana"], counted["agent", "cleo"]
    assert (ana.threads, ana.messages, ana.entries, ana.last_at) == (2, 3, 0, NOW)
    assert (other.threads, other.messages, other.entries, other.last_at) == (0, 0, 2, None)
    await database.write(deletions.delete_thread, ANA, "two", deletion_uid=uid(), erase=False, now=NOW)
    counted = await database.read(tenant_memories.count_memories, ACME, [("agent", "ana")])
    assert counted["agent", "ana"].messages == 2
    assert await database.read(tenant_memories.count_memories, ACME, []) == {}


async def test_the_tenants_that_there_are_are_listed_once_each(database: Database) -> None:
    for number in range(4):
        for tenant in ("acme", "ärzte", "globex"):
            await say(database, "one", draft(), scope=Scope(tenant, "agent", f"user {number}"))
    listed = await database.read_installation(tenant_memories.tenants_after, "", 9)
    assert listed == ["acme", "globex", "ärzte"]
    assert await database.read_installation(tenant_memories.tenants_after, "", 2) == ["acme", "globex"]
    assert await database.read_installation(tenant_memories.tenants_after, "globex", 2) == ["ärzte"]
    assert await database.read_installation(tenant_memories.tenants_after, "ärzte", 2) == []
