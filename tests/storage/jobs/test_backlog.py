"""What an operator counts of the jobs of all tenants, and of the work of the database, on both databases."""

from collections import Counter
from collections.abc import Iterator

import pytest

from layerlore.storage.core import metrics
from layerlore.storage.core.records import Scope, Tenant
from layerlore.storage.core.transaction import Database
from layerlore.storage.jobs import job_rows
from layerlore.storage.jobs.backlog import JobCount, count_all, count_oldest
from layerlore.storage.jobs.job_rows import Kind

from ...conformance.building import ANA, NOW

pytestmark = pytest.mark.anyio

OURS = Tenant(ANA.tenant_id)
OTHER = Scope("other", "bot", "cleo")


async def ask(database: Database, kind: Kind, due_at: int, scope: Scope = ANA) -> None:
    await database.write(job_rows.request, scope, "", kind, 1, due_at=due_at, now=NOW)


async def fail(database: Database, kind: Kind, *, dead: bool) -> None:
    claim = await database.write_installation(job_rows.claim, [kind], holder="one", now=NOW, lease_ms=1_000)
    assert claim is not None
    await database.write(job_rows.fail, claim, error="no", retry_at=NOW + 7, dead=dead, now=NOW)


async def test_jobs_of_all_tenants_are_counted_by_kind_and_state(database: Database) -> None:
    await ask(database, "profile", NOW - 5_000)
    await ask(database, "profile", NOW - 9_000, OTHER)
    await ask(database, "title", NOW + 1_000)
    for kind in ("entries", "observe"):
        await ask(database, kind, NOW - 1)
        await fail(database, kind, dead=kind == "entries")
    found = await database.read_installation(count_all, OURS, now=NOW)
    assert found == [
        JobCount("entries", "dead", 1, NOW + 7, 1, 0),
        JobCount("observe", "later", 1, NOW + 7, 1, 0),
        JobCount("profile", "due", 2, NOW - 9_000, 0, 1),
        JobCount("title", "later", 1, NOW + 1_000, 0, 0),
    ]
    alive = await database.read_installation(count_oldest, OURS, most=100, now=NOW)
    assert alive == [count for count in found if count.state != "dead"]


async def test_a_running_job_is_counted_as_such_until_its_lease_ends(database: Database) -> None:
    await ask(database, "profile", NOW)
    await database.write_installation(job_rows.claim, ["profile"], holder="one", now=NOW, lease_ms=1_000)
    states = [(await database.read_installation(count_all, OURS, now=now))[0].state for now in (NOW + 999, NOW + 1_001)]
    assert states == ["running", "due"]


async def test_of_a_long_queue_the_oldest_are_counted(database: Database) -> None:
    for number in range(5):
        await ask(database, "profile", NOW - number, Scope("other", "bot", f"user {number}"))
    (found,) = await database.read_installation(count_oldest, OURS, most=2, now=NOW)
    assert (found.jobs, found.due_at) == (2, NOW - 4)


class Kept:
    """Keeps how often each metric was observed, by the values of its labels."""

    def __init__(self) -> None:
        self.seen: Counter[tuple[str, ...]] = Counter()

    def keep(self, *watched: metrics.Metric) -> None:
        for metric in watched:
            metric.keep(lambda *values, name=metric.name: _Series(self, (name, *values)))


class _Series:
    def __init__(self, kept: Kept, key: tuple[str, ...]) -> None:
        self._kept, self._key = kept, key

    def observe(self, seconds: float) -> None:
        assert seconds >= 0
        self._kept.seen[self._key] += 1


@pytest.fixture
def kept() -> Iterator[Kept]:
    watched = (metrics.TX_SECONDS, metrics.POOL_WAIT_SECONDS)
    kept = Kept()
    kept.keep(*watched)
    yield kept
    for metric in watched:
        metric.keep(None)


async def test_each_transaction_and_each_wait_for_a_connection_is_measured(database: Database, kept: Kept) -> None:
    await ask(database, "profile", NOW)
    await database.read_installation(count_all, OURS, now=NOW)
    assert (kept.seen["tx_seconds", "write"], kept.seen["tx_seconds", "read"]) == (1, 1)
    assert kept.seen["pool_wait_seconds",] >= 1
