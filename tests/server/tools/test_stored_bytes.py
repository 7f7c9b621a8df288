"""How much is stored of a tenant and resource: counted exactly, held to a quota, given back when it is erased."""

import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import asyncpg
import pytest

from layerlore.server.runtime.tool_server import build_server
from layerlore.server.settings.settings import load_settings
from layerlore.storage.audit import stored_bytes
from layerlore.storage.core.records import Scope, Tenant
from layerlore.storage.core.transaction import Database
from layerlore.storage.removal import deletions

from .calling import Json
from .isolation_world import PATIENCE, SETTINGS, Person, world

pytestmark = [pytest.mark.anyio, pytest.mark.databases]

ANA, BEN, EVE = Scope("acme", "bot", "ana"), Scope("acme", "bot", "ben"), Scope("globex", "bot", "ana")


class Store:
    """People of two tenants on one server."""

    def __init__(self, people: dict[Scope, Person], database: Database) -> None:
        self.people, self.database = people, database

    async def do(self, scope: Scope, tool: str, /, **arguments: object) -> Json:
        answer = await self.people[scope].call(tool, arguments)
        assert not answer["error"], answer
        try:
            found: Json = json.loads(answer["texts"][0])
        except ValueError:
            return {"text": answer["texts"][0]}
        return found

    async def say(self, scope: Scope, thread: str, text: str) -> Json:
        return await self.do(scope, "add_messages", messages=[{"role": "user", "content": text}], thread_id=thread)

    async def used(self, scope: Scope) -> stored_bytes.StoredUsage:
        return await self.database.read(stored_bytes.read_used, scope)

    async def check(self) -> None:
        """What is counted is what there is, of each tenant and resource."""
        for tenant in ("acme", "globex"):
            for each in await self.database.read(stored_bytes.recount, Tenant(tenant)):
                assert each.bytes == each.recounted, (tenant, each)


@asynccontextmanager
async def stored(url: str, **rates: int) -> AsyncIterator[Store]:
    given = {"database": url, **SETTINGS, "rates": rates, "toolsets": "all"}
    mcp = build_server(load_settings(given, environ={}))
    async with world(url, mcp=mcp) as server, server.client("modern") as client:
        people = {scope: Person(client, scope) for scope in (ANA, BEN, EVE)}
        yield Store(people, (await server.process.runtime()).engine.database)


async def act(store: Store, rng: random.Random, number: int) -> None:
    """Something that a tool, or the passing of time, does to what is stored."""
    scope, thread = rng.choice([ANA, BEN, EVE]), rng.choice(["one", "two"])
    text = rng.choice(["short", "größer ✓ ", "long "]) * rng.randint(1, 40)
    here = {"thread_id": thread}
    match number % 14:
        case 0 | 1 | 2:
            for _ in range(rng.randint(1, 4)):
                await store.say(scope, thread, text)
        case 3:
            said = {"role": "user", "content": text, "id": f"same-{thread}"}
            await store.people[scope].call("add_messages", {"messages": [said], "replace": True, **here})
        case 4:
            await store.people[scope].call("delete_messages", {"which": "last_turn", **here})
        case 5:
            await store.people[scope].call("undo", {"undo_id": "last"})
        case 6:
            await store.people[scope].call("delete_thread", here)
        case 7:
            await store.do(scope, "update_working_memory", content=text, scope="resource")
            await store.do(scope, "update_working_memory", content=text, **here)
        case 8:
            await store.do(scope, "clear_working_memory", scope="resource")
            await store.do(scope, "plan", action="create", plan={"goal": text}, **here)
        case 9:
            entry = await store.do(scope, "remember", content=f"{text} {number}")
            if rng.random() < 0.5:
                await store.do(scope, "forget", ids=[entry["id"]])
        case 10:
            await store.do(scope, "suspend_run", run_id=f"run-{number}", state={"at": text}, **here)
            claim = (await store.do(scope, "resume_run", run_id=f"run-{number}", data=text))["claim"]
            await store.do(scope, "complete_run", run_id=f"run-{number}", claim=claim, output=text)
        case 11:
            step = {"type": "text", "operation_id": "o", "content": text}
            await store.do(scope, "record_steps", steps=[step, step], **here)
            await store.do(scope, "log_attempt", task_key="k", action=text, result=text, **here)
            await store.do(scope, "update_thread", title=f"Title {number}", metadata={"k": text}, **here)
        case 12:
            until = 2**60  # all that is deleted has had its time
            await store.database.write(
                deletions.erase_expired, scope, deleted_before=until, answered_before=0, most=100
            )
        case _:
            if rng.random() < 0.4:
                told = await store.do(scope, "erase_memory", **(here if rng.random() < 0.5 else {}))
                if "confirm" in told:
                    again = here if "thread_mark" in told else {}
                    await store.do(scope, "erase_memory", dry_run=False, confirm=told["confirm"], **again)


async def test_what_is_counted_is_what_a_recount_finds_after_anything_that_happens(database_url: str) -> None:
    rng = random.Random(12)
    async with stored(database_url) as store:
        order = [number for number in range(14) for _ in range(6)]
        rng.shuffle(order)
        for place, number in enumerate([0, 0, 0, *order]):
            await act(store, rng, number + 14 * place)
            if place % 6 == 0:
                await store.check()
        await store.check()
        assert (await store.used(ANA)).tenant == (await store.used(ANA)).resource + (await store.used(BEN)).resource
        for scope in (ANA, BEN, EVE):
            told = await store.do(scope, "erase_memory")
            await store.do(scope, "erase_memory", dry_run=False, confirm=told["confirm"])
            assert (await store.used(scope)).resource == 0
        for tenant in ("acme", "globex"):
            (whole,) = await store.database.read(stored_bytes.recount, Tenant(tenant))
            assert (whole.resource, whole.bytes) == (None, 0)


async def test_a_write_beyond_the_quota_is_refused_and_stores_nothing(database_url: str) -> None:
    async with stored(database_url, resource_stored_bytes=4000, tenant_stored_bytes=6000) as store:
        await store.say(ANA, "main", "a" * 3000)
        before = await store.used(ANA)
        assert before.resource == before.tenant > 3000
        refused = await store.people[ANA].call(
            "add_messages", {"messages": [{"role": "user", "content": "b" * 900}], "thread_id": "main"}
        )
        assert refused["error"]
        (text,) = refused["texts"]
        assert text.startswith(f"this resource has {before.resource:,} bytes stored, and this would add ")
        assert "4,000 are allowed" in text
        assert await store.used(ANA) == before
        # Another resource has its own, as far as the tenant's goes; another tenant is not concerned.
        await store.say(BEN, "main", "c" * 1500)
        refused = await store.people[BEN].call("remember", {"content": "d" * 900})
        assert refused["texts"][0].startswith("this tenant has ")
        await store.say(EVE, "main", "e" * 3000)
        status = (await store.do(ANA, "memory_status"))["stored_bytes"]
        assert status == {
            "resource": before.resource,
            "resource_allowed": 4000,
            "tenant": (await store.used(ANA)).tenant,
            "tenant_allowed": 6000,
        }
        # What is deleted counts until it is erased; neither is refused.
        await store.do(ANA, "delete_thread", thread_id="main")
        assert (await store.used(ANA)).resource == before.resource
        await store.do(ANA, "undo", undo_id="last")
        told = await store.do(ANA, "erase_memory")
        await store.do(ANA, "erase_memory", dry_run=False, confirm=told["confirm"])
        await store.say(ANA, "main", "f" * 2000)
        await store.check()


async def test_writers_at_the_same_time_do_not_exceed_the_quota_together(database_url: str) -> None:
    """On Postgres both have written, and neither is committed, when they come to the count."""
    async with stored(database_url, resource_stored_bytes=0, tenant_stored_bytes=6000) as store:
        refused: list[str] = []

        async def write(scope: Scope) -> None:
            said = [{"role": "user", "content": "x" * 3000}]
            answer = await store.people[scope].call("add_messages", {"messages": said, "thread_id": "main"})
            refused.extend(answer["texts"] if answer["error"] else [])

        async with held_at_the_journal(database_url) as let_go, anyio.create_task_group() as tasks:
            for scope in (ANA, BEN):
                tasks.start_soon(write, scope)
            await let_go()
        assert len(refused) == 1
        assert refused[0].startswith("this tenant has ")
        assert 3000 < (await store.used(ANA)).tenant <= 6000
        await store.check()


@asynccontextmanager
async def held_at_the_journal(url: str) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Whoever writes waits at its line in the journal, the last thing before it is committed, until what is given is
    called: once two wait, for whatever it is. On SQLite nobody is held: there is one writer at a time."""

    async def at_once() -> None:
        pass

    if url.startswith("sqlite"):
        yield at_once
        return
    connection, looking = await asyncpg.connect(url), await asyncpg.connect(url)
    holding = connection.transaction()

    async def let_go() -> None:
        waiting = (
            "SELECT count(*) FROM pg_locks JOIN pg_database ON database = pg_database.oid"
            " WHERE NOT granted AND datname = current_database()"
        )
        with anyio.fail_after(PATIENCE):
            while await looking.fetchval(waiting) < 2:
                await anyio.sleep(0.01)
        await holding.rollback()

    try:
        await holding.start()
        await connection.execute("LOCK TABLE journal IN SHARE ROW EXCLUSIVE MODE")
        yield let_go
    finally:
        await connection.close()
        await looking.close()
