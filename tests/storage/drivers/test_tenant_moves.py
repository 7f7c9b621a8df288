"""Tenants on two real Postgres clusters, and moves between them while the tenant is written to."""

import asyncio
import itertools
import json
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from layerlore.storage.audit import api_keys
from layerlore.storage.core.errors import InvalidInput, StorageUnavailable
from layerlore.storage.core.records import ApiKey, Origin, Scope, Tenant
from layerlore.storage.core.transaction import Database, Tx
from layerlore.storage.drivers.dialect import OpenOptions, ShardUrls, dialect_of, open_database
from layerlore.storage.drivers.postgres.tenant_move import ClusterUrls, move_tenant
from layerlore.storage.jobs import job_rows
from layerlore.storage.threads import events

from ...conformance.building import NOW, draft, everything, execute, having, rows, say
from ...conformance.vectoring import embed_all

pytestmark = pytest.mark.anyio

ANA = Scope("acme", "agent", "ana")
BEN = Scope("acme", "agent", "ben")
OTHER = Scope("other", "agent", "ana")
STEPS = (
    "copied",
    "writes wait",
    "the copy is whole",
    "decided",
    "other clusters know",
    "served in its new place",
    "old rows removed",
)
PROGRAM = Path(__file__).parents[1] / "programs" / "moving.py"


async def replica(clusters: Mapping[str, str]) -> Database:
    shards = {name: ShardUrls(url) for name, url in clusters.items() if name}
    home = clusters[""]
    return await dialect_of(home).open(home, OpenOptions(Path(), shards=shards))


@pytest.fixture
async def database(clusters: dict[str, str]) -> AsyncIterator[Database]:
    opened = await replica(clusters)
    yield opened
    await opened.close()


async def move(clusters: Mapping[str, str], target: str, tenant: str = "acme") -> list[str]:
    """Returns the steps that were reported."""
    steps: list[str] = []
    urls = {name: ClusterUrls(url, url) for name, url in clusters.items()}
    await move_tenant(urls, tenant, target, steps.append)
    return steps


async def everything_stored(database: Database, shard: int, tenant: str = "acme") -> dict[str, Any]:
    """The rows of a tenant on a cluster, by table; the bytes as their sum."""
    cluster = database.clusters[shard]
    names = await cluster.read_installation(
        rows,
        "SELECT DISTINCT table_name FROM information_schema.columns "
        "WHERE table_schema = current_schema() AND column_name = 'tenant_id'",
    )
    found: dict[str, Any] = {}
    for (name,) in names:
        if name in ("tenant_places", "api_keys", "tenant_spending"):
            continue
        what = "sum(bytes)::text" if name == "stored_bytes" else "t::text"
        here = await cluster.read_installation(rows, f"SELECT {what} FROM {name} AS t WHERE tenant_id = '{tenant}'")
        kept = sorted(row[0] for row in here if row[0] not in (None, "0"))
        if kept:
            found[name] = kept
    return found


async def note_profile(tx: Tx, scope: Scope) -> None:
    """An event of the resource that is of no conversation."""
    await events.record_of_resource(tx, scope, events.NewEvent("profile_updated"), origin=Origin("test", ""), now=NOW)


async def filled(database: Database) -> None:
    for scope in (ANA, BEN, OTHER):
        await say(database, "main", *(draft(f"walrus {n}") for n in range(20)), scope=scope)
        await say(database, "other", draft("a heron"), scope=scope)
        await database.write(note_profile, scope)
        await embed_all(database, scope=scope)
        await database.write(job_rows.request, scope, "", "profile", 5, due_at=NOW, now=NOW)


async def test_a_moved_tenant_has_the_same_rows_in_its_new_place_and_none_in_the_old(
    database: Database, clusters: dict[str, str]
) -> None:
    await filled(database)
    before, others = await everything_stored(database, 0), await everything_stored(database, 0, "other")
    await move(clusters, "eu")
    assert await everything_stored(database, 1) == before
    assert await everything_stored(database, 0) == {}
    assert await everything_stored(database, 0, "other") == others
    assert [message.seq for message in await everything(database, "main", ANA)] == [*range(1, 21)]


async def test_new_rows_of_a_moved_tenant_come_behind_its_old_ones(
    database: Database, clusters: dict[str, str]
) -> None:
    await filled(database)
    await move(clusters, "eu")
    await say(database, "main", draft("the last walrus"), scope=ANA)
    found = await having(database, "walrus", ANA)
    assert found[0].seq == 21
    assert len(found) == 21


async def test_a_tenant_that_comes_home_is_as_it_was(database: Database, clusters: dict[str, str]) -> None:
    await filled(database)
    before = await everything_stored(database, 0)
    await move(clusters, "eu")
    await move(clusters, "")
    assert await everything_stored(database, 0) == before
    assert await everything_stored(database, 1) == {}


async def test_another_replica_follows_without_an_error(database: Database, clusters: dict[str, str]) -> None:
    other = await replica(clusters)
    try:
        await say(other, "main", draft("before"), scope=ANA)
        await move(clusters, "eu")
        await say(database, "main", draft("after"), scope=ANA)
        assert len(await everything(other, "main", ANA)) == 2
        await say(other, "main", draft("last"), scope=ANA)
        assert len(await everything(database, "main", ANA)) == 3
    finally:
        await other.close()


async def test_keys_stay_on_the_home_cluster(database: Database, clusters: dict[str, str]) -> None:
    key = ApiKey("k", "acme", None, None, ("read",), NOW)
    await database.home.write(api_keys.create, Tenant("acme"), key, "digest")
    await move(clusters, "eu")
    assert await database.read_installation(api_keys.by_digest, "digest") == key
    assert await database.home.write(api_keys.revoke, Tenant("acme"), "k", NOW)


async def test_a_job_is_claimed_on_the_cluster_that_its_tenant_is_on(
    database: Database, clusters: dict[str, str]
) -> None:
    await say(database, "main", draft(), scope=ANA)
    await database.write(job_rows.request, ANA, "", "profile", 5, due_at=NOW, now=NOW)
    await move(clusters, "eu")

    async def claim(cluster: Database) -> job_rows.Claim | None:
        return await cluster.write_installation(job_rows.claim, ["profile"], holder="worker", now=NOW, lease_ms=1000)

    home, shard = database.clusters
    assert await claim(home) is None
    claimed = await claim(shard)
    assert claimed is not None
    assert claimed.scope == ANA
    assert await shard.write(job_rows.prolong, claimed, now=NOW, lease_ms=2000)


async def test_an_unknown_shard_and_a_swapped_url_are_refused(database: Database, clusters: dict[str, str]) -> None:
    with pytest.raises(InvalidInput, match="there is no shard 'mars'; there are: home, eu"):
        await move(clusters, "mars")
    with pytest.raises(StorageUnavailable, match="the settings take the home cluster for the shard 'eu'"):
        await replica({"": clusters[""], "eu": clusters[""]})


async def test_a_server_that_names_no_shard_is_refused_once_a_tenant_has_moved(
    database: Database, clusters: dict[str, str]
) -> None:
    await say(database, "main", draft(), scope=ANA)
    await move(clusters, "eu")
    with pytest.raises(StorageUnavailable, match=r"other clusters, such as 'eu': the settings must name each"):
        await open_database(clusters[""], Path())


async def test_a_server_that_does_not_name_the_shard_of_a_tenant_is_refused(
    database: Database, clusters: dict[str, str]
) -> None:
    await database.write_installation(execute, "INSERT INTO tenant_places VALUES ('acme', 'mars', 1)")
    with pytest.raises(StorageUnavailable, match=r"the tenant 'acme' is on the shard 'mars', which \[\[shards\]\]"):
        await replica(clusters)


async def test_a_shard_is_refused_as_the_database_of_an_installation(
    database: Database, clusters: dict[str, str]
) -> None:
    with pytest.raises(StorageUnavailable, match="this database is the shard 'eu' of an installation"):
        await open_database(clusters["eu"], Path())


async def write_until(database: Database, stop: asyncio.Event, name: str) -> list[str]:
    """The ids that were acknowledged."""
    acknowledged = []
    for n in itertools.count():
        if stop.is_set():
            break
        await say(database, "main", draft(f"walrus {n}", id=f"{name}.{n}"), scope=ANA)
        acknowledged.append(f"{name}.{n}")
    return acknowledged


async def test_no_acknowledged_write_is_lost_while_a_tenant_moves_there_and_back(
    database: Database, clusters: dict[str, str]
) -> None:
    await filled(database)
    other = await replica(clusters)
    stop = asyncio.Event()
    writing = [asyncio.create_task(write_until(each, stop, name)) for each, name in ((database, "a"), (other, "b"))]
    try:
        for target in ("eu", "", "eu"):
            await move(clusters, target)
    finally:
        stop.set()
        acknowledged = await asyncio.gather(*writing)
        await other.close()
    kept = await everything(database, "main", ANA)
    assert {id_ for ids in acknowledged for id_ in ids} <= {message.id for message in kept}
    assert [message.seq for message in kept] == [*range(1, len(kept) + 1)]
    assert await everything_stored(database, 0) == {}


@pytest.mark.programs
async def test_a_move_that_is_killed_at_any_step_can_be_run_again(clusters: dict[str, str]) -> None:
    database = await replica(clusters)
    await filled(database)
    stop = asyncio.Event()
    writing = asyncio.create_task(write_until(database, stop, "a"))
    targets = itertools.cycle(["eu", ""])
    try:
        for step in STEPS:
            target = next(targets)
            program = await asyncio.create_subprocess_exec(
                sys.executable, PROGRAM, json.dumps(clusters), "acme", target, step
            )
            assert await program.wait() == -signal.SIGKILL, step
            await move(clusters, target)
    finally:
        stop.set()
        acknowledged = await writing
    kept = await everything(database, "main", ANA)
    assert {*acknowledged} <= {message.id for message in kept}
    assert [message.seq for message in kept] == [*range(1, len(kept) + 1)]
    places = [bool(await everything_stored(database, shard)) for shard in (0, 1)]
    assert places.count(True) == 1
    await database.close()
