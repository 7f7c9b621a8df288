"""The watcher, when it is told to look, and when it looks by itself."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Any

import anyio
import pytest
from mcp.server.subscriptions import ResourceUpdated, ServerEvent

from layerlore.server.resources.requests import uri_of
from layerlore.server.subscriptions import watcher
from layerlore.server.subscriptions.notifications import LIST, Interest
from layerlore.server.subscriptions.watcher import Watcher
from layerlore.storage.core.errors import StorageUnavailable
from layerlore.storage.core.records import Json, Origin, Scope
from layerlore.storage.core.transaction import Database, Notify, Tx
from layerlore.storage.drivers.sqlite.database import SqliteDatabase
from layerlore.storage.threads import events, threads
from layerlore.storage.threads.events import NewEvent

from ..subscribing import LIST as THE_LIST
from ..subscribing import MAIN, PATIENCE, PROFILE, STATUS, THREADS

pytestmark = pytest.mark.anyio

ANA, BEN = Scope("local", "agent", "ana"), Scope("local", "agent", "ben")
ME = Origin("test", "")


@pytest.fixture(autouse=True)
def _no_long_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "LOOK_SECONDS", 0.005)


class Counting(SqliteDatabase):
    """Counts its reads, which may be made to fail, and how often somebody began to listen to it."""

    reads = 0
    failures = 0
    listened = 0

    def hints(self, told: Notify) -> AbstractContextManager[None]:
        self.listened += 1
        return super().hints(told)

    async def read(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        self.reads += 1
        if self.failures:
            self.failures -= 1
            raise StorageUnavailable("the database is away")
        return await super().read(function, *args, **kwargs)


@pytest.fixture
async def store() -> AsyncIterator[Counting]:
    database = await Counting.open(":memory:")
    assert isinstance(database, Counting)
    yield database
    await database.close()


class Watch:
    """A watcher, whom it tells, and whom for."""

    def __init__(self, database: Database) -> None:
        self.interest = Interest()
        self.watcher = Watcher(database, self.interest, self._take)
        self.told: list[tuple[Scope, str]] = []
        self._heard = asyncio.Event()

    async def _take(self, scope: Scope, event: ServerEvent) -> None:
        self.told.append((scope, event.uri if isinstance(event, ResourceUpdated) else THE_LIST))
        self._heard.set()

    async def begin(self, *uris: str, scope: Scope = ANA) -> None:
        for uri in uris:
            self.interest.add(scope, uri)
        await self.watcher.begin(scope)

    async def look(self, scope: Scope = ANA) -> set[str]:
        """What a look tells, in that scope."""
        self.told.clear()
        await self.watcher.look(scope)
        assert all(told_in == scope for told_in, _ in self.told)
        assert len(set(self.told)) == len(self.told)
        return {uri for _, uri in self.told}

    async def until(self, fulfilled: Callable[[], bool]) -> None:
        with anyio.fail_after(PATIENCE):
            while not fulfilled():
                self._heard.clear()
                await self._heard.wait()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.watcher.run)
            yield
            tasks.cancel_scope.cancel()


async def happen(database: Database, *types: str, thread_id: str = "main", scope: Scope = ANA) -> None:
    async def record(tx: Tx, scope: Scope, new_uid: str) -> None:
        thread = await threads.lock_or_make(tx, scope, thread_id, new_uid, 1)
        await events.record(tx, scope, thread, [NewEvent(type_) for type_ in types], origin=ME, now=1)

    await database.write(record, scope, f"{scope.resource_id}-{thread_id}")


async def happen_to_resource(database: Database, type_: str, payload: Json, scope: Scope = ANA) -> None:
    async def record(tx: Tx, scope: Scope) -> None:
        await events.record_of_resource(tx, scope, NewEvent(type_, payload), origin=ME, now=1)

    await database.write(record, scope)


# Looking by hand.


async def test_each_look_tells_what_changed_since_the_last_one_once(store: Counting) -> None:
    watch = Watch(store)
    await happen(store, "messages_added")
    query = MAIN["messages"] + "?limit=5"
    await watch.begin(*MAIN.values(), query, PROFILE, THREADS, STATUS, uri_of("plan", "other"), LIST)
    assert await watch.look() == set()
    of_any = {MAIN["thread"], MAIN["events"], THREADS, STATUS}
    await happen(store, "messages_added", "messages_added")
    assert await watch.look() == of_any | {MAIN["messages"], query}
    assert await watch.look() == set()
    await happen(store, "plan_updated", "run_suspended", "working_memory_updated")
    assert await watch.look() == of_any | {MAIN["plan"], MAIN["runs"], MAIN["session-memory"]}
    await happen_to_resource(store, "profile_updated", {})
    assert await watch.look() == {PROFILE, STATUS}
    await happen_to_resource(store, "thread_updated", {"changed": ["metadata"]})
    assert await watch.look() == {THREADS, STATUS}
    await happen_to_resource(store, "thread_updated", {"changed": ["title"]})
    assert await watch.look() == {THREADS, STATUS, THE_LIST}
    await happen(store, "messages_added", thread_id="new")
    assert await watch.look() == {THREADS, STATUS, THE_LIST}
    assert await watch.look() == set()


async def test_a_thread_that_comes_to_be_is_told_to_whoever_waited_for_it(store: Counting) -> None:
    watch = Watch(store)
    await watch.begin(*MAIN.values(), uri_of("plan", "other"))
    await happen(store, "messages_added", scope=BEN)
    assert await watch.look() == set()
    await happen(store, "messages_added")
    assert await watch.look() == set(MAIN.values())


async def test_a_uri_is_told_as_it_was_written(store: Counting) -> None:
    watch = Watch(store)
    written = [
        "memory://threads/%6Dain/plan",
        "memory://threads/main/plan",
        "memory://threads/a%2Fb%20%C3%A9/events?after=3",
    ]
    await watch.begin(*written)
    await happen(store, "plan_updated")
    await happen(store, "plan_updated", thread_id="a/b é")
    assert await watch.look() == set(written)


async def test_who_stops_and_begins_again_hears_nothing_of_the_time_between(store: Counting) -> None:
    watch = Watch(store)
    uris = [MAIN["plan"], THREADS, PROFILE, LIST]
    await watch.begin(*uris)
    for uri in uris:
        watch.interest.drop(ANA, uri)
    await happen(store, "plan_updated")
    await happen_to_resource(store, "profile_updated", {})
    await watch.begin(*uris)
    assert await watch.look() == set()


async def test_what_somebody_else_watches_in_the_same_thread_keeps_its_mark(store: Counting) -> None:
    watch = Watch(store)
    await happen(store, "plan_updated")
    await watch.begin(MAIN["plan"])
    await happen(store, "plan_updated")
    await watch.begin(MAIN["plan"], MAIN["messages"])
    assert await watch.look() == {MAIN["plan"]}


async def test_scopes_that_watch_the_same_uris_hear_of_their_own_changes_only(store: Counting) -> None:
    watch = Watch(store)
    for scope in (ANA, BEN):
        await watch.begin(PROFILE, MAIN["plan"], STATUS, LIST, scope=scope)
    await happen(store, "plan_updated", scope=BEN)
    await happen_to_resource(store, "profile_updated", {}, scope=BEN)
    assert await watch.look(ANA) == set()
    assert await watch.look(BEN) == {PROFILE, MAIN["plan"], STATUS, THE_LIST}


async def test_a_subscription_made_while_a_look_is_under_way_misses_nothing(store: Counting) -> None:
    watch = Watch(store)
    await watch.begin(PROFILE)
    for _ in range(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch.watcher.look, ANA)
            tasks.start_soon(watch.begin, MAIN["plan"])
        await happen(store, "plan_updated")
        assert MAIN["plan"] in await watch.look()
        watch.interest.drop(ANA, MAIN["plan"])


# Looking by itself.


async def test_nothing_is_read_while_nobody_listens(store: Counting) -> None:
    watch = Watch(store)
    async with watch.running():
        for _ in range(5):
            await happen(store, "messages_added")
            await anyio.sleep(0.01)
        assert (store.reads, store.listened) == (0, 0)
        await watch.begin(MAIN["plan"])
        await happen(store, "plan_updated")
        await watch.until(lambda: watch.told == [(ANA, MAIN["plan"])])
        watch.interest.drop(ANA, MAIN["plan"])
        await anyio.sleep(0.02)
        before = store.reads
        for _ in range(5):
            await happen(store, "messages_added")
            await anyio.sleep(0.01)
        assert (store.reads, store.listened) == (before, 1)


async def test_a_burst_is_told_once_a_look_at_most(store: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watcher, "LOOK_SECONDS", 0.05)
    watch = Watch(store)
    async with watch.running():
        await watch.begin(MAIN["messages"])
        began = anyio.current_time()
        for _ in range(1000):
            await happen(store, "messages_added")
        looks = 2 + (anyio.current_time() - began) / 0.05
        await happen(store, "plan_updated")
        await anyio.sleep(0.1)
        assert 1 <= len(watch.told) <= looks
        assert store.reads <= looks + 4


async def test_a_look_that_fails_is_made_again_and_misses_nothing(
    store: Counting, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(watcher, "AGAIN_SECONDS", 0.01)
    watch = Watch(store)
    async with watch.running():
        await watch.begin(MAIN["plan"])
        await anyio.sleep(0.02)
        store.failures = 3
        await happen(store, "plan_updated")
        await watch.until(lambda: watch.told == [(ANA, MAIN["plan"])])
    assert "cannot look for changes, and tries again: the database is away" in caplog.text


async def test_a_subscription_is_refused_while_the_database_cannot_be_read(store: Counting) -> None:
    watch = Watch(store)
    store.failures = 1
    with pytest.raises(StorageUnavailable):
        await watch.begin(MAIN["plan"])
    await watch.begin(MAIN["plan"])
    await happen(store, "plan_updated")
    assert await watch.look() == {MAIN["plan"]}
