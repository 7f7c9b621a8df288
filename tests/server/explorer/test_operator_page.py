"""An operator's page: it chooses among the memories that there are, and each look is in the journal."""

import copy
import os
import signal
import subprocess
import sys
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from layerlore.server.access.browser_sessions import PAGE_HEADER
from layerlore.server.access.credentials import EXPLORING, RIGHTS, Principal
from layerlore.server.access.gate import TENANT_HEADER
from layerlore.storage.audit.journal_rows import JournalFilter, read_lines
from layerlore.storage.drivers.dialect import open_database

from ..access.test_open_streams import SOON, rest, said
from ..conftest import Cli
from ..gated_server import ACCEPT, LISTEN, MODERN, PATIENCE, Told, answer, connected, http_client, refused
from .test_explorer import SESSION, explored, sign_in, signed_in

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")]

OPERATOR = Principal("key:op", "acme", None, None, frozenset(RIGHTS))
OWNER = Principal(EXPLORING, "local", None, None, frozenset(RIGHTS), every_tenant=True)
PEOPLE = {
    "op": OPERATOR,
    "abroad": replace(OPERATOR, name="key:abroad", tenant="globex"),
    "helper": replace(OPERATOR, name="key:helper", agents=frozenset({"helper"})),
    "ana": replace(OPERATOR, name="key:ana", agents=frozenset({"helper", "coach"}), resource="ana"),
    "writer": replace(OPERATOR, name="key:writer", rights=frozenset({"read", "write", "forget"})),
    "owner": OWNER,
}


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> str:
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


async def fill(url: str) -> None:
    """Memories of two tenants."""
    for key, agent, resource in (
        ("op", "helper", "ana"),
        ("op", "helper", "Ben Weiß"),
        ("op", "coach", "ana"),
        ("abroad", "helper", "carl"),
    ):
        async with connected(url, key, "auto") as client:
            means = {"layerlore/agent": agent, "layerlore/resource": resource}
            said = [{"role": "user", "content": f"I am {resource}."}]
            await answer(client, "add_messages", thread_id="t", messages=said, meta=means)


async def listed(client: Client, **request: Any) -> list[str]:
    page = await answer(client, "explore_memories", **request)
    return [f"{row['agent']} {row['resource']}" for row in page["memories"]]


async def journaled(database: str, folder: Path, **wanted: Any) -> list[tuple[str, str, str, str]]:
    opened = await open_database(database, folder / "memory.db")
    try:
        lines = await opened.read_installation(read_lines, JournalFilter(**wanted), limit=100)
    finally:
        await opened.close()
    return [(each.tenant_id, each.agent_id, each.line.principal, each.line.tool) for each in lines]


async def test_an_operator_finds_the_memories_that_there_are_as_he_types(tmp_path: Path, database: str) -> None:
    async with explored(tmp_path, Told(**PEOPLE), database=database) as url:
        await fill(url)
        async with signed_in(url, "op") as client:
            assert await listed(client) == ["coach ana", "helper Ben Weiß", "helper ana"]
            assert await listed(client, query="ANA") == ["coach ana", "helper ana"]
            assert await listed(client, query="weiss helper") == ["helper Ben Weiß"]
            assert await listed(client, query="carl") == []
            first = await answer(client, "explore_memories", query="a", limit=1)
            (row,) = first["memories"]
            assert {**row, "last_at": ""} == {
                "agent": "coach",
                "resource": "ana",
                "conversations": 1,
                "messages": 1,
                "entries": 0,
                "last_at": "",
            }
            assert await listed(client, query="a", cursor=first["next_cursor"]) == ["helper ana"]
            assert "cursor" in await refused(client, "explore_memories", cursor="x")
        async with signed_in(url, "abroad") as client:
            assert await listed(client) == ["helper carl"]
        # A credential for some is listed those.
        async with signed_in(url, "helper") as client:
            assert await listed(client) == ["helper Ben Weiß", "helper ana"]
        async with signed_in(url, "ana") as client:
            assert await listed(client) == ["coach ana", "helper ana"]
        async with signed_in(url, "writer") as client:
            assert "admin" in await refused(client, "explore_memories")
    lines = await journaled(database, tmp_path, tool="explore_memories")
    assert sorted(set(lines)) == [
        ("acme", "", "key:ana", "explore_memories"),
        ("acme", "", "key:helper", "explore_memories"),
        ("acme", "", "key:op", "explore_memories"),
        ("acme", "", "key:writer", "explore_memories"),
        ("globex", "", "key:abroad", "explore_memories"),
    ]


def looking_at(url: str, key: str, tenant: str) -> AbstractAsyncContextManager[Client]:
    """A page whose requests name a tenant."""
    return signed_in(url, key, **{TENANT_HEADER: tenant})


async def test_whoever_owns_the_database_chooses_the_tenant_and_each_look_is_in_that_tenant_s_journal(
    tmp_path: Path, database: str
) -> None:
    async with explored(tmp_path, Told(**PEOPLE), database=database) as url:
        await fill(url)
        async with signed_in(url, "owner") as client:
            assert (await answer(client, "explore_tenants"))["tenants"] == ["acme", "globex"]
            first = await answer(client, "explore_tenants", limit=1)
            assert first["tenants"] == ["acme"]
            assert (await answer(client, "explore_tenants", cursor=first["next_cursor"]))["tenants"] == ["globex"]
            assert (await answer(client, "explore_tenants", query="GLOB"))["tenants"] == ["globex"]
            assert await listed(client) == [], "nothing of this machine's own tenant"
        async with looking_at(url, "owner", "globex") as client:
            assert await listed(client) == ["helper carl"]
            carl: Any = {"layerlore/agent": "helper", "layerlore/resource": "carl"}
            assert len((await answer(client, "get_messages", format="json", thread_id="t", meta=carl))["messages"]) == 1
    lines = await journaled(database, tmp_path, principal=EXPLORING)
    assert [line for line in lines if line[0] == "globex"] == [
        ("globex", "", EXPLORING, "explore_memories"),
        ("globex", "helper", EXPLORING, "get_messages"),
    ]


@pytest.mark.parametrize("key", ["op", "ana", "writer"])
async def test_no_key_reaches_another_tenant_by_naming_it(tmp_path: Path, key: str) -> None:
    async with explored(tmp_path, Told(**PEOPLE)) as url:
        await fill(url)
        async with looking_at(url, key, "globex") as client:
            means: Any = {"layerlore/agent": "helper", "layerlore/resource": "carl" if key != "ana" else "ana"}
            threads = (await answer(client, "list_threads", meta=means))["threads"]
            assert len(threads) == (1 if key == "ana" else 0)
            if key != "writer":
                assert (await answer(client, "explore_tenants"))["tenants"] == ["acme"]
                assert "helper carl" not in await listed(client)


async def test_a_page_that_listens_in_another_tenant_goes_on_while_its_credential_is_checked_again(
    tmp_path: Path,
) -> None:
    told, means = Told(**PEOPLE), {"layerlore/agent": "helper", "layerlore/resource": "carl"}
    listen = copy.deepcopy(LISTEN)
    listen["params"]["_meta"] |= means
    async with explored(tmp_path, told, again_seconds=SOON) as url, http_client(headers=ACCEPT) as http:
        page = {
            "Origin": url,
            TENANT_HEADER: "globex",
            PAGE_HEADER: (await sign_in(http, url, "owner")).json()["token"],
        }
        async with http.stream("POST", f"{url}/mcp", json=listen, headers={**MODERN, **page}) as response:
            lines = response.aiter_lines()
            await said(lines)
            told.request = []
            with anyio.fail_after(PATIENCE):
                while len(told.request) < 3:
                    await anyio.sleep(SOON)
            async with connected(url, "abroad") as client:
                await answer(client, "update_working_memory", scope="resource", content="Name: Carl", meta=means)
            assert "memory://profile" in await said(lines)
            del told.principals["owner"]
            await rest(lines)


async def test_the_tenant_of_a_request_without_a_page_is_not_heeded(tmp_path: Path) -> None:
    async with explored(tmp_path, Told(**PEOPLE)) as url:
        await fill(url)
        sent = {"Authorization": "Bearer owner", TENANT_HEADER: "globex"}
        async with (
            http_client(headers=sent) as http,
            Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client,
        ):
            means: Any = {"layerlore/agent": "helper", "layerlore/resource": "carl"}
            assert (await answer(client, "list_threads", meta=means))["threads"] == []


@pytest.mark.programs
@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (("--tenant", "acme"), {"tenant": "acme", "agents": None, "resource": None}),
        (("--tenant", "acme", "--agent", "helper"), {"tenant": "acme", "agents": ["helper"], "resource": None}),
        (("--tenant", "acme", "--agent", "helper", "--resource", "ana"), {"agents": ["helper"], "resource": "ana"}),
        (("--everybody",), {"tenant": "local", "agents": None, "resource": None, "every_tenant": True}),
    ],
)
async def test_the_command_opens_the_memories_of_others_for_an_operator(
    tmp_path: Path, flags: tuple[str, ...], told: dict[str, Any]
) -> None:
    database = f"sqlite:///{tmp_path}/memory.db"
    async with explored(tmp_path, Told(**PEOPLE), database=database) as url:
        await fill(url)
    command = [sys.executable, "-m", "layerlore.server", "explore", "--no-browser", "--data-dir", str(tmp_path)]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LAYERLORE_")}
    process = subprocess.Popen(
        [*command, "--database", database, *flags],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        env={**kept, "LAYERLORE_EMBEDDING__EMBEDDER": "none"},
    )
    with process:
        try:
            assert process.stdout is not None
            url, _, word = process.stdout.readline().strip().partition("/explore#once=")
            async with http_client() as http:
                page = {"Origin": url, PAGE_HEADER: "1"}
                session = (await http.post(url + SESSION, json={"once": word}, headers=page)).json()
                assert session.items() >= {"name": EXPLORING, **told}.items()
                http.headers.update({"Origin": url, PAGE_HEADER: session["token"], TENANT_HEADER: "acme"})
                async with Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client:
                    means: Any = {"layerlore/agent": "helper", "layerlore/resource": "ana"}
                    page = await answer(client, "get_messages", format="json", thread_id="t", meta=means)
                    assert len(page["messages"]) == 1
            process.send_signal(signal.SIGTERM)
            assert process.wait() == 0
        finally:
            process.kill()
    lines = await journaled(database, tmp_path, principal=EXPLORING)
    assert lines == [("acme", "helper", EXPLORING, "get_messages")]


def test_a_tenant_and_everybody_are_not_asked_for_at_once(tmp_path: Path, cli: Cli) -> None:
    code, _, noted = cli("explore", "--data-dir", str(tmp_path), "--tenant", "a", "--everybody")
    assert (code, "not both" in noted) == (2, True)
