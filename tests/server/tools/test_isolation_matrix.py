"""Nobody reads, changes or hears of what is another's: everything that is offered, tried with every handle."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from mcp import Client, MCPError
from sqlalchemy import text

from layerlore.server.resources.kinds import OF_A_THREAD, TEMPLATED
from layerlore.server.resources.requests import template_of, uri_of
from layerlore.server.runtime import runtime
from layerlore.server.tools import toolsets
from layerlore.server.tools.declaration import Call, tool
from layerlore.storage.core.records import Scope
from layerlore.storage.core.transaction import Tx

from ..gated_server import Told, connected, served, settings_in
from ..subscribing import Subscriber, subscriber
from .isolation_filling import Filling, Words
from .isolation_matrix import DEALS, KINDS, VICTIM, Found, Matrix
from .isolation_world import Person, world

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")]

HERE = Path(__file__)
TRIED = 1_000
"""Calls that a deal of the matrix makes at least; with fewer, much was not tried."""
NO_RATES = {f"{whose}_{what}_per_second": 0 for whose in ("principal", "tenant") for what in ("calls", "bytes", "rows")}


@pytest.fixture(autouse=True)
def no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the victim has is not changed by background work meanwhile."""
    monkeypatch.setattr(runtime, "LOAD_AFTER_SECONDS", 3600)


async def attacked(url: str, owner_url: str, *tools: str, deal: int = 0) -> Found:
    async with world(url) as server, server.client("modern") as client:
        matrix = Matrix(server, Person(client, VICTIM), (await server.process.runtime()).engine, deal=deal)
        return await matrix.run(owner_url, tools=tools)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.soak)])
def urls(request: pytest.FixtureRequest) -> tuple[str, str]:
    """The database as the role that serves has it, and as its owner does."""
    if request.param == "sqlite":
        return (request.getfixturevalue("sqlite_url"),) * 2
    return request.getfixturevalue("serving_url"), request.getfixturevalue("postgres_url")


@pytest.mark.parametrize("deal", [0, *(pytest.param(deal, marks=pytest.mark.soak) for deal in range(1, DEALS))])
async def test_no_handle_of_another_gets_anything_out_of_anything(
    urls: tuple[str, str], deal: int, trials: Callable[..., range]
) -> None:
    """One deal of the matrix, on SQLite; a soak plays all of it, on both databases."""
    (begin,) = trials(1, soak=1)
    found = await attacked(*urls, deal=begin + deal)
    print(f"{urls[0].partition(':')[0]}: {found.calls} calls of {found.tools} tools with {found.handles} handles")
    assert not found.leaks, "\n".join(found.leaks[:20])
    assert found.tools == len(toolsets.DECLARATIONS)
    assert found.calls > TRIED


@pytest.mark.soak
def test_the_same_holds_where_no_statement_asks_for_a_scope(postgres_admin_url: str) -> None:
    """In a process of its own, whose stores are made without their conditions; there it is also shown to fail."""
    doubles = HERE.parents[2] / "doubles"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "without_conditions",
        str(HERE.with_name("mutated_isolation.py")),
    ]
    environ = {**os.environ, "PYTHONPATH": str(doubles), "LAYERLORE_TEST_POSTGRES": postgres_admin_url}
    ended = subprocess.run(
        command, env=environ, cwd=HERE.parents[3], capture_output=True, text=True, timeout=900, check=False
    )
    assert re.search(r"^2 passed", ended.stdout, re.M), ended.stdout[-4000:] + ended.stderr[-2000:]


async def test_a_new_tool_is_tried_by_itself_and_one_that_forgets_the_scope_is_found(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def titles(tx: Tx) -> str:
        return repr(await tx.all(text("SELECT thread_id, title FROM threads ORDER BY 1")))

    async def retitle(tx: Tx) -> str:
        await tx.run(text("UPDATE threads SET title = 'spoilt' WHERE thread_id = 'thread-ledger'"))
        return "done"

    @tool("Peek", "core", "read")
    async def peek(call: Call, note_id: str) -> str:
        """A tool that forgets whose memory it is asked about."""
        return await call.engine.database.read_installation(titles)

    @tool("Spoil", "core", "read")
    async def spoil(call: Call, thread_id: str) -> str:
        """A tool that changes what it was not asked to."""
        return await call.engine.database.write_installation(retitle)

    monkeypatch.setattr(toolsets, "DECLARATIONS", (*toolsets.DECLARATIONS, peek, spoil))
    found = await attacked(sqlite_url, sqlite_url, "peek", "spoil")
    assert {leak.partition(":")[0] for leak in found.leaks if "peek" in leak} == set(KINDS)
    assert "rows of threads were changed" in found.leaks


OTHERS = [Scope("globex", "bot", "ana"), Scope("acme", "coach", "ana"), Scope("acme", "bot", "ben")]


@pytest.mark.parametrize("era", ["modern", "legacy"])
@pytest.mark.parametrize("other", OTHERS, ids=["another tenant", "another agent", "another resource"])
async def test_nobody_hears_of_what_changes_for_another(database_url: str, era: str, other: Scope) -> None:
    async with world(database_url) as server, server.client("modern") as client:
        victim = Filling(Person(client, VICTIM), Words("ana"), (await server.process.runtime()).engine)
        await victim.do("add_messages", thread_id="main", messages=[{"role": "user", "content": "hello"}])
        uris = [*await victim.uris(), *(uri_of(kind, "main") for kind in OF_A_THREAD)]
        person = Person(client, other)
        with person.calling():
            async with subscriber(
                server.transport(), era, [*dict.fromkeys(uris), "memory://threads/fence"], lists=True
            ) as heard:
                await victim.do("update_thread", thread_id="main", title="changed")
                await victim.do("update_working_memory", scope="resource", content="changed")
                await victim.do("plan", action="create", plan={"goal": "changed"}, thread_id="main")
                told = await fenced(heard)
    assert not [uri for uri in told if "main" in uri or "profile" in uri], told
    assert "memory://threads/fence" in told


async def fenced(heard: Subscriber) -> list[str]:
    """What a subscriber is told up to a change of their own, which comes after those of the other."""
    await heard.say("fence")
    return await heard.until("memory://threads/fence")


# Over HTTP, what reads: calls and URIs with a place for the name of a thread and of a run.
READING = [
    ("get_messages", "thread_id"),
    ("list_threads", "thread_id"),
    ("get_context", "thread_id"),
    ("list_steps", "thread_id"),
    ("list_events", "thread_id"),
    ("get_run", "run_id"),
    ("delete_thread", "thread_id"),
    ("resume_run", "run_id"),
    ("cancel_run", "run_id"),
]
URIS = [re.sub(r"\{\?.*\}", "", template_of(kind)) for kind in TEMPLATED if "_id}" in template_of(kind)]


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_over_http_too_foreign_and_unknown_are_the_same(tmp_path: Path, era: str) -> None:
    people = {f"token{number}": Person(None, scope).principal for number, scope in enumerate([VICTIM, *OTHERS])}
    people["many"] = Person(None, Scope("acme", "bot", "cleo"), names_it=True).principal
    told = Told(**people)
    named = {"Layerlore-Agent": "bot", "Layerlore-Resource": "cleo"}
    async with served(settings_in(tmp_path, rates=NO_RATES), told) as url:
        async with connected(url, "token0") as victim:
            said = {"thread_id": "orchard", "messages": [{"role": "user", "content": "zqcanary"}]}
            assert not (await victim.call_tool("add_messages", said)).is_error
            run = {"run_id": "orchard", "state": {"saw": "zqcanary"}, "thread_id": "orchard"}
            assert not (await victim.call_tool("suspend_run", run)).is_error
        for token in list(people)[1:]:
            async with connected(url, token, era, **(named if token == "many" else {})) as client:
                for tool, argument in READING:
                    foreign, unknown = [
                        str(await client.call_tool(tool, {argument: name})).replace(name, "NAME")
                        for name in ("orchard", "vineyard")
                    ]
                    assert "zqcanary" not in foreign
                    assert foreign == unknown, (token, tool)
                for uri in URIS:
                    foreign, unknown = [await read(client, uri, name) for name in ("orchard", "vineyard")]
                    assert "zqcanary" not in foreign
                    assert foreign == unknown, (token, uri)


async def read(client: Client, uri: str, name: str) -> str:
    """What a resource has, or why it cannot be read."""
    try:
        found = str(await client.read_resource(re.sub(r"\{\w+\}", name, uri), cache_mode="bypass"))
    except MCPError as refused:
        found = str(refused.error)
    return found.replace(name, "NAME")
