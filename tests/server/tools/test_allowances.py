"""A tenant whose models' tokens are spent for today: its status says so, and a host's own model goes on."""

import pytest

from layerlore.server.runtime import runtime
from layerlore.storage.audit import usage_rows
from layerlore.storage.audit.usage_rows import next_day
from layerlore.storage.core.records import Scope, Tenant
from layerlore.storage.jobs import job_rows

from .calling import Connect, Tools
from .queueing import Queue

pytestmark = pytest.mark.anyio

OURS = Tenant("local")
TALK = [{"role": "user", "content": "the export costs 12 euros"}, {"role": "assistant", "content": "noted"}]


@pytest.fixture(autouse=True)
def no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "LOAD_AFTER_SECONDS", 3600)


async def test_the_status_says_what_a_tenant_may_spend_and_has_spent(connect: Connect, queue: Queue) -> None:
    await queue.database.write(usage_rows.add_of_tenant, OURS, 900, now=queue.now())
    await queue.database.write(usage_rows.add_of_tenant, Tenant("other"), 5_000, now=queue.now())
    async with connect() as tools:
        assert (
            not {"tenant_tokens", "tenant_daily_tokens"} & (await tools("memory_status"))["thinking"]["budget"].keys()
        )
    async with connect(rates={"tenant_model_tokens_per_day": 1_000}) as tools:
        status = await tools("memory_status")
        assert status["thinking"]["budget"]["tenant_tokens"] == 900
        assert status["thinking"]["budget"]["tenant_daily_tokens"] == 1_000
        assert not [line for line in status["degraded"] if "your tenant" in line]
        await queue.database.write(usage_rows.add_of_tenant, OURS, 100, now=queue.now())
        (told,) = [line for line in (await tools("memory_status"))["degraded"] if "your tenant" in line]
        assert told.endswith("today's 1,000 tokens are spent")


async def test_a_hosts_own_model_may_do_what_was_put_off(tools: Tools, queue: Queue) -> None:
    await tools.add("main", *TALK)
    await queue.ask()
    now = queue.now()
    assert await queue.database.write(job_rows.put_off, OURS, ["entries"], until=next_day(now), now=now) == 1
    job = await tools("next_memory_job")
    assert (job["status"], job["kind"]) == ("taken", "entries")


async def test_the_person_at_this_machine_sees_the_jobs_of_all_tenants(connect: Connect, queue: Queue) -> None:
    now = queue.now()
    async with connect() as tools:
        assert "all_tenants" not in (await tools("memory_status"))["jobs"]
        await queue.database.write(
            job_rows.request, Scope("other", "bot", "ann"), "", "profile", 1, due_at=now - 5_000, now=now
        )
        (counted,) = (await tools("memory_status"))["jobs"]["all_tenants"]
    assert counted["oldest_seconds"] >= 5
    assert counted.items() >= {"kind": "profile", "state": "due", "jobs": 1, "failed": 0}.items()
