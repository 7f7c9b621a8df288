"""A tenant whose background jobs pile up may add no messages until there is room: nothing of them is stored."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from layerlore.server.runtime.engines import close_engine, open_engine
from layerlore.server.runtime.runtime import FRESH_MS, QueueRoom
from layerlore.storage.core.errors import LayerloreError
from layerlore.storage.core.records import Scope
from layerlore.storage.core.transaction import Database, Tx
from layerlore.storage.drivers.sqlite.database import SqliteDatabase
from layerlore.storage.jobs import job_rows
from layerlore.storage.jobs.job_rows import Claim, Kind

from ..gated_server import ANA, EVE, Told, answer, answer_when_free, connected, served, settings_in
from ..limited_server import only

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")]

NOW = 1_750_000_000_000
MESSAGES = [{"role": "user", "content": "hello"}]


async def ask(database: Database, tenant: str, count: int, kind: Kind = "observe", due_at: int = NOW) -> None:
    for number in range(count):
        scope = Scope(tenant, "agent", "resource")
        await database.write(job_rows.request, scope, f"{kind} {number}", kind, 1, due_at=due_at, now=NOW)


class Room:
    """A room of an engine of its own, at a time that the test says."""

    def __init__(self, engine: Any, most: int) -> None:
        self.now = NOW
        self.kinds: list[Kind] = ["observe"]
        self.room = QueueRoom(replace(engine, now=lambda: self.now), lambda: self.kinds, most)

    async def refusal(self, tenant: str = "acme") -> str:
        try:
            await self.room.check(tenant)
        except LayerloreError as error:
            return str(error)
        return ""


@pytest.fixture
async def engine(database_url: str) -> Any:
    engine = await open_engine(settings_in(Path(), database=database_url))
    yield engine
    await close_engine(engine)


async def test_there_is_room_for_so_many_due_jobs_of_a_tenant(engine: Any) -> None:
    room = Room(engine, 3)
    await ask(engine.database, "acme", 2)
    await ask(engine.database, "globex", 3)
    await ask(engine.database, "acme", 5, "entries")  # of a kind that waits for a host's model
    await ask(engine.database, "acme", 5, "observe", due_at=NOW + FRESH_MS)  # two of which are there already
    assert await room.refusal() == ""
    assert await room.refusal("globex") == (
        "too many background jobs of your tenant: 3 are allowed to be due; nothing was stored; try again in 1.0 s"
    )
    room.kinds = ["observe", "entries"]
    room.now += 1000
    assert "too many background jobs" in await room.refusal()


async def test_a_count_serves_for_some_seconds_and_less_long_when_it_is_high(engine: Any) -> None:
    room = Room(engine, 4)
    assert await room.refusal() == ""
    await ask(engine.database, "acme", 4)
    room.now += FRESH_MS - 1
    assert await room.refusal() == ""
    room.now += 1
    assert "try again in 1.0 s" in await room.refusal()
    room.now += 400
    assert "try again in 0.6 s" in await room.refusal()
    claim = await engine.database.write_installation(job_rows.claim, ["observe"], holder="w", now=NOW, lease_ms=1000)
    await engine.database.write(job_rows.finish, claim, now=NOW)
    assert await room.refusal() != ""
    room.now += 600
    assert await room.refusal() == ""


async def test_a_limit_of_zero_is_none(engine: Any) -> None:
    await ask(engine.database, "acme", 20)
    assert await Room(engine, 0).refusal() == ""


async def test_messages_are_refused_and_nothing_else_is(tmp_path: Path) -> None:
    settings = settings_in(tmp_path, rates=only(tenant_jobs=2).model_dump())
    async with served(settings, Told(ana=ANA, eve=EVE)) as url:
        async with connected(url, "ana") as client:
            await answer(client, "memory_status")  # the database is open
        beside = await SqliteDatabase.open(str(tmp_path / "memory.db"))
        held = [await beside.write(_held, Scope(ANA.tenant, "agent", "resource"), f"t{number}") for number in range(2)]
        async with connected(url, "ana") as client:
            result = await client.call_tool("add_messages", {"thread_id": "t", "messages": MESSAGES})
            assert result.is_error
            assert "too many background jobs of your tenant: 2 are allowed" in result.content[0].text  # type: ignore[union-attr]
            assert 0 < (result.meta or {})["layerlore/retry_after_seconds"] <= 1
            assert (await answer(client, "list_threads"))["threads"] == []
            await answer(client, "update_thread", thread_id="t", title="x")
            async with connected(url, "eve") as other:
                await answer(other, "add_messages", thread_id="t", messages=MESSAGES)
            for claim in held:
                await beside.write(job_rows.finish, claim, now=NOW)
            await answer_when_free(client, "add_messages", thread_id="t", messages=MESSAGES)
        await beside.close()


async def _held(tx: Tx, scope: Scope, thread: str) -> Claim:
    """A new job that somebody else works on: the server's own worker leaves it alone."""
    await job_rows.request(tx, scope, thread, "observe", 1, due_at=NOW, now=NOW)
    claim = await job_rows.claim_in(tx, scope, ["observe"], holder="other", now=NOW, lease_ms=10**13)
    assert claim is not None
    return claim
