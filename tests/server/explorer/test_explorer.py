"""The explorer of a server: its page, and the session of the browser that it runs in."""

import base64
import contextlib
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from app_host import ShowsApps
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp.server.apps import APP_MIME_TYPE
from mcp.types import TextContent

from layerlore.server.access.browser_sessions import LONGEST_CREDENTIAL, PAGE_HEADER, join, split
from layerlore.server.access.credentials import NoCredentials, local_principal
from layerlore.server.access.gate import Gate
from layerlore.server.access.open_requests import AGAIN_SECONDS
from layerlore.server.explorer.routes import LINK_SECONDS, Explorer, OneTimeLinks, write_policy
from layerlore.server.runtime.engines import close_engine, open_engine
from layerlore.server.runtime.tool_server import build_server
from layerlore.storage.core.records import Scope
from layerlore.storage.drivers.sqlite import driver
from layerlore.storage.jobs import job_rows

from ..gated_server import ACCEPT, ANA, BEN, EVE, PING, Told, answer, http_client, listening, refused, settings_in

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")]

SESSION = "/explore/session"
URI = "ui://layerlore/explorer"


@contextlib.asynccontextmanager
async def explored(
    folder: Path,
    credentials: Told,
    links: OneTimeLinks | None = None,
    *,
    again_seconds: float = AGAIN_SECONDS,
    **given: Any,
) -> AsyncIterator[str]:
    """The URL of a server with the explorer."""
    settings = settings_in(folder, **given)
    mcp, gate = build_server(settings), Gate(credentials, again_seconds=again_seconds)
    Explorer(links=links).add_to(mcp, gate)
    async with listening(mcp, settings, gate) as url:
        yield url


@contextlib.asynccontextmanager
async def signed_in(url: str, key: str, mode: str = "auto", **headers: str) -> AsyncIterator[Client]:
    """A client that calls as the page does: with the cookie, its half and its origin, and without the key; with further
    ``headers``."""
    async with http_client() as http:
        token = (await sign_in(http, url, key)).json()["token"]
        http.headers.update({"Origin": url, PAGE_HEADER: token, **headers})
        async with Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=mode) as client:
            yield client


@contextlib.asynccontextmanager
async def hosted(url: str, key: str, mode: str, *, shows: bool = True) -> AsyncIterator[Client]:
    """A host with a model, which shows MCP Apps or does not."""
    async with http_client(headers={"Authorization": f"Bearer {key}"}) as http:
        transport = streamable_http_client(f"{url}/mcp", http_client=http)
        async with Client(transport, mode=mode, extensions=[ShowsApps()] if shows else None) as client:
            yield client


async def sign_in(http: httpx2.AsyncClient, url: str, key: str, **headers: str) -> httpx2.Response:
    page = {"Origin": url, PAGE_HEADER: "1", **headers}
    return await http.post(
        url + SESSION, json={"key": key}, headers={name: each for name, each in page.items() if each}
    )


@pytest.mark.parametrize(
    "body", [b"[" * 8000, b'{"key":' * 1100, b'{"key": "\\ud800"}', b'{"once": "\\udfff"}', b"\xff"]
)
async def test_a_sign_in_that_is_no_readable_json_is_refused_with_a_sentence(tmp_path: Path, body: bytes) -> None:
    async with explored(tmp_path, Told(), OneTimeLinks("x")) as url, http_client() as http:
        found = await http.post(url + SESSION, content=body, headers={"Origin": url, PAGE_HEADER: "1"})
    assert (found.status_code, list(found.json())) == (400, ["error"])


async def test_the_page_runs_only_what_stands_in_it_and_asks_only_its_server(tmp_path: Path) -> None:
    async with explored(tmp_path, Told()) as url, http_client() as http:
        page = await http.get(f"{url}/explore")
        again = await http.get(f"{url}/explore", headers={"If-None-Match": page.headers["etag"]})
    assert page.status_code == 200
    assert again.status_code == 304
    policy = dict(each.strip().split(" ", 1) for each in page.headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    for kind in ("script", "style"):
        inline = re.findall(rf"<{kind}[^>]*>(.*?)</{kind}>", page.text, re.DOTALL)
        assert policy[f"{kind}-src"] == (" ".join(f"'{hash_of(each)}'" for each in inline) or "'none'")
    assert page.headers["x-content-type-options"] == "nosniff"
    assert page.headers["referrer-policy"] == "no-referrer"
    assert not re.findall(r"""(?:src|href)=["']?(?:https?:)?//""", page.text)


def hash_of(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def test_each_script_of_a_page_is_allowed_by_its_hash() -> None:
    policy = write_policy(b"<script type=module>a()</script ><style>b{}</style><SCRIPT>c()</SCRIPT>")
    assert f"script-src '{hash_of('a()')}' '{hash_of('c()')}';" in policy
    assert f"style-src '{hash_of('b{}')}';" in policy


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_page_calls_as_whoever_signed_in(tmp_path: Path, mode: str) -> None:
    credentials = Told(ana=ANA, ben=BEN)
    async with explored(tmp_path, credentials) as url:
        async with signed_in(url, "ana", mode) as client:
            await answer(client, "add_messages", thread_id="t", messages=[{"role": "user", "content": "tea"}])
            assert len((await answer(client, "list_threads"))["threads"]) == 1
        async with signed_in(url, "ben", mode) as client:
            assert (await answer(client, "list_threads"))["threads"] == []


async def test_a_page_may_do_what_its_key_may(tmp_path: Path) -> None:
    reader = replace(ANA, name="key:reader", rights=frozenset({"read"}))
    async with explored(tmp_path, Told(reader=reader)) as url, signed_in(url, "reader") as client:
        assert "delete_thread" not in {tool.name for tool in (await client.list_tools()).tools}
        assert "forget" in await refused(client, "delete_thread", thread_id="t")
        assert "write" in await refused(client, "remember", content="Tea is served at four.")


async def test_signing_in_gives_the_page_one_half_and_a_cookie_the_other(tmp_path: Path) -> None:
    async with explored(tmp_path, Told(ana=ANA)) as url, http_client() as http:
        found = await sign_in(http, url, "ana")
    cookie = found.headers["set-cookie"]
    name, _, value = cookie.partition(";")[0].partition("=")
    assert name.endswith(url.rpartition(":")[2])
    assert {"HttpOnly", "SameSite=Strict", "Path=/mcp"} <= set(cookie.split("; "))
    assert found.headers["cache-control"] == "no-store"
    told = found.json()
    assert join(value, told.pop("token")) == "ana"
    assert told == {
        "name": "key:ana",
        "tenant": "acme",
        "agents": ["helper"],
        "resource": "ana",
        "rights": ["read", "write", "forget", "admin"],
        "seconds": 43200,
    }
    assert "ana" not in value


async def test_neither_half_of_a_session_serves_alone_nor_for_another_page(tmp_path: Path) -> None:
    async with explored(tmp_path, Told(ana=ANA)) as url, http_client() as http:
        token = (await sign_in(http, url, "ana")).json()["token"]
        _, other = split("ana")
        statuses = {}
        for case, headers in {
            "both": {"Origin": url, PAGE_HEADER: token},
            "no header": {"Origin": url},
            "no origin": {PAGE_HEADER: token},
            "another port": {"Origin": "http://127.0.0.1:1", PAGE_HEADER: token},
            "another site": {"Origin": "http://evil.example", PAGE_HEADER: token},
            "another half": {"Origin": url, PAGE_HEADER: other},
            "no half": {"Origin": url, PAGE_HEADER: "1"},
            "a key, too": {"Origin": url, PAGE_HEADER: token, "Authorization": "Bearer ben"},
        }.items():
            statuses[case] = (await http.post(f"{url}/mcp", json=PING, headers={**ACCEPT, **headers})).status_code
        http.cookies.clear()
        alone = await http.post(f"{url}/mcp", json=PING, headers={**ACCEPT, "Origin": url, PAGE_HEADER: token})
    both = statuses.pop("both")
    assert both not in (401, 403, 421)
    assert statuses == {
        "no header": 401,
        "no origin": 403,
        "another port": 403,
        "another site": 403,
        "another half": 401,
        "no half": 401,
        "a key, too": 401,
    }
    assert alone.status_code == 401


async def test_only_the_page_signs_in_and_out(tmp_path: Path) -> None:
    async with explored(tmp_path, Told(ana=ANA)) as url, http_client() as http:
        assert (await sign_in(http, url, "ana", Origin="")).status_code == 403
        assert (await sign_in(http, url, "ana", Origin="http://localhost:3000")).status_code == 403
        assert (await sign_in(http, url, "ana", Origin="http://evil.example")).status_code == 403
        assert (await sign_in(http, url, "ana", Host="evil.example")).status_code == 421
        assert (await sign_in(http, url, "ana", **{PAGE_HEADER: ""})).status_code == 403
        assert (await sign_in(http, url, "nobody")).status_code == 401
        assert (await sign_in(http, url, "")).status_code == 401
        page = {"Origin": url, PAGE_HEADER: "1"}
        for body in (
            *(b"", b"[]", b"{}", b'{"key": 1}', b'{"key": "ana", "once": "x"}', b'{"name": "ana"}', b"x" * 9000),
            *(b"[" * 4000, b'{"key": ' * 400 + b"1", b'{"key": "\\ud800"}', b'{"once": "\\udfff"}', b"\xff\xfe"),
        ):
            assert (await http.post(url + SESSION, content=body, headers=page)).status_code == 400
        assert (await http.delete(url + SESSION)).status_code == 403
        ended = await http.delete(url + SESSION, headers=page)
        assert ended.status_code == 204
        assert "Max-Age=0" in ended.headers["set-cookie"]


async def test_a_session_ends_with_its_key(tmp_path: Path) -> None:
    credentials = Told(ana=ANA)
    async with explored(tmp_path, credentials) as url, http_client() as http:
        token = (await sign_in(http, url, "ana")).json()["token"]
        credentials.principals.clear()
        page = {**ACCEPT, "Origin": url, PAGE_HEADER: token}
        assert (await http.post(f"{url}/mcp", json=PING, headers=page)).status_code == 401


async def test_a_link_signs_in_once_and_for_a_minute(tmp_path: Path) -> None:
    seconds = [0.0]
    links = OneTimeLinks("ana", lambda: seconds[0])
    links.add("first")
    links.add("second")
    async with explored(tmp_path, Told(ana=ANA), links) as url, http_client() as http:
        page = {"Origin": url, PAGE_HEADER: "1"}

        async def use(word: str) -> int:
            return (await http.post(url + SESSION, json={"once": word}, headers=page)).status_code

        assert (await http.get(url + SESSION)).json()["sign_in"] == "link"
        assert await use("third") == 401
        assert await use("first") == 200
        assert await use("first") == 401
        seconds[0] = LINK_SECONDS
        assert await use("second") == 401


async def test_a_server_without_credentials_lets_its_own_page_in_and_no_other(tmp_path: Path) -> None:
    settings = settings_in(tmp_path, toolsets="core", http={"auth": False})
    mcp, gate = build_server(settings), Gate(NoCredentials(local_principal("default", "default")))
    Explorer(open_to_all=True).add_to(mcp, gate)
    async with listening(mcp, settings, gate) as url, http_client(headers={"Origin": url, PAGE_HEADER: "1"}) as http:
        assert (await http.get(url + SESSION)).json()["sign_in"] == "nothing"
        async with Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client:
            assert (await answer(client, "list_runs"))["runs"] == []
        other = {**ACCEPT, "Origin": "http://localhost:3000"}
        assert (await http.post(f"{url}/mcp", json=PING, headers=other)).status_code == 403


async def test_a_server_that_gave_no_link_takes_none(tmp_path: Path) -> None:
    async with explored(tmp_path, Told(ana=ANA)) as url, http_client() as http:
        assert (await http.get(url + SESSION)).json()["sign_in"] == "key"
        page = {"Origin": url, PAGE_HEADER: "1"}
        assert (await http.post(url + SESSION, json={"once": "ana"}, headers=page)).status_code == 401


@pytest.mark.parametrize("credential", ["llk_abc", "é" * 100, "x" * LONGEST_CREDENTIAL])
def test_two_halves_make_the_credential_and_no_other_two_do(credential: str) -> None:
    kept, sent = split(credential)
    assert join(kept, sent) == credential
    assert join(*split(credential)) == credential
    assert join(kept, sent[:-4]) is None
    assert join("%", sent) is None
    assert join(kept, "") is None


def test_a_credential_that_no_cookie_holds_is_refused() -> None:
    with pytest.raises(ValueError, match="at most"):
        split("x" * (LONGEST_CREDENTIAL + 1))


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_host_that_shows_apps_is_given_the_page_and_its_tools(tmp_path: Path, mode: str) -> None:
    async with explored(tmp_path, Told(ana=ANA), toolsets="core") as url, hosted(url, "ana", mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert (tools["open_explorer"].meta or {})["ui"] == {"resourceUri": URI, "visibility": ["model", "app"]}
        assert (tools["list_runs"].meta or {})["ui"] == {"visibility": ["app"]}
        assert "ui" not in (tools["recall_memory"].meta or {})
        (listed,) = [each for each in (await client.list_resources()).resources if each.uri == URI]
        assert listed.mime_type == APP_MIME_TYPE
        (page,) = (await client.read_resource(URI)).contents
        assert page.mime_type == APP_MIME_TYPE
        assert (page.meta or {})["ui"]["csp"] == {"connectDomains": [], "resourceDomains": []}
        assert page.text.startswith("<!doctype html>")  # type: ignore[union-attr]
        assert not (await client.call_tool("open_explorer", {})).is_error
        assert (await answer(client, "list_runs"))["runs"] == []


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_another_host_is_listed_nothing_of_the_page(tmp_path: Path, mode: str) -> None:
    async with (
        explored(tmp_path, Told(ana=ANA), toolsets="core") as url,
        hosted(url, "ana", mode, shows=False) as client,
    ):
        tools = {tool.name: tool.meta or {} for tool in (await client.list_tools()).tools}
        assert "recall_memory" in tools
        assert not {"open_explorer", "list_runs", "list_threads"} & set(tools)
        assert not [name for name, meta in tools.items() if "ui" in meta]
        assert URI not in {str(each.uri) for each in (await client.list_resources()).resources}
        with pytest.raises(MCPError, match="there is no tool 'list_runs'"):
            await client.call_tool("list_runs", {})


async def test_what_the_settings_switch_off_is_off_for_pages_too(tmp_path: Path) -> None:
    settings: Any = {"toolsets": "threads", "working_memory": {"read_only": True}, "entries": {"enabled": False}}
    async with explored(tmp_path, Told(ana=ANA), **settings) as url, signed_in(url, "ana") as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
    assert {"list_runs", "recall_memory", "open_explorer"} <= tools
    assert not tools & {"update_working_memory", "clear_working_memory", "remember"}


async def test_each_look_of_an_operator_is_in_the_journal(tmp_path: Path) -> None:
    operator = replace(ANA, name="key:op", agents=None, resource=None)
    async with explored(tmp_path, Told(ana=ANA, op=operator)) as url:
        async with signed_in(url, "ana") as client:
            await answer(client, "add_messages", thread_id="t", messages=[{"role": "user", "content": "tea"}])
        async with signed_in(url, "op") as client:
            chosen: Any = {"layerlore/agent": "helper", "layerlore/resource": "ana"}
            assert len((await answer(client, "list_threads", meta=chosen))["threads"]) == 1
            await answer(client, "list_all_threads")
            await client.read_resource("memory://entries", meta=chosen)
    with contextlib.closing(driver.connect(str(tmp_path / "memory.db"), synchronous="OFF")) as database:
        lines = database.execute("SELECT principal, tool FROM journal ORDER BY row_id").fetchall()
    assert lines == [
        ("key:ana", "add_messages"),
        ("key:op", "list_threads"),
        ("key:op", "list_all_threads"),
        ("key:op", "read_entries"),
    ]


async def test_entries_are_found_as_their_words_are_typed(tmp_path: Path) -> None:
    async with explored(tmp_path, Told(ana=ANA, ben=BEN)) as url, signed_in(url, "ana") as client:
        for content in ("Tea is served at four.", "The Ärztin is Dr. Weber.", "Cake is served at five."):
            await answer(client, "remember", content=content)

        async def found(query: str, **more: Any) -> list[str]:
            page = await answer(client, "explore_entries", query=query, **more)
            return [entry["content"] for entry in page["entries"]]

        assert await found("") == ["Cake is served at five.", "The Ärztin is Dr. Weber.", "Tea is served at four."]
        assert await found("SERV ca") == ["Cake is served at five."]
        assert await found("ärzt") == ["The Ärztin is Dr. Weber."]
        assert await found("coffee") == []
        first = await answer(client, "explore_entries", query="served", limit=1)
        second = await answer(client, "explore_entries", query="served", limit=1, cursor=first["next_cursor"])
        assert [each["content"] for each in (*first["entries"], *second["entries"])] == [
            "Cake is served at five.",
            "Tea is served at four.",
        ]
        async with signed_in(url, "ben") as other:
            assert (await answer(other, "explore_entries"))["entries"] == []


async def test_threads_are_found_at_any_place_of_their_list(tmp_path: Path) -> None:
    async with explored(tmp_path, Told(ana=ANA, ben=BEN)) as url, signed_in(url, "ana") as client:
        for number in range(7):
            said = [{"role": "user", "content": f"Tea number {number}."}]
            await answer(client, "add_messages", thread_id=f"t-{number}", messages=said)
        for number, title in ((2, "About ÄPFEL and tea"), (5, "Tea alone"), (6, "Pears")):
            await answer(client, "update_thread", thread_id=f"t-{number}", title=title)
        await answer(client, "delete_thread", thread_id="t-0")

        async def found(**given: Any) -> tuple[list[str], int]:
            page = await answer(client, "explore_threads", **given)
            return [each["thread_id"] for each in page["threads"]], page["total"]

        listed = [each["thread_id"] for each in (await answer(client, "list_threads"))["threads"]]
        assert await found() == (listed, 6)
        assert await found(offset=2, limit=3) == (listed[2:5], 6)
        assert await found(offset=6) == ([], 6)
        assert await found(query="äpfel TEA") == (["t-2"], 1)
        assert sorted((await found(query="tea"))[0]) == ["t-2", "t-5"]
        assert await found(query="tea", offset=1, limit=1) == (
            ["t-2"] if listed.index("t-2") > listed.index("t-5") else ["t-5"],
            2,
        )
        assert await found(query="t-3") == (["t-3"], 1)
        assert await found(query="coffee") == ([], 0)
        async with signed_in(url, "ben") as other:
            assert await answer(other, "explore_threads") == {"threads": [], "total": 0}


async def test_each_day_is_counted(tmp_path: Path) -> None:
    async with explored(tmp_path, Told(ana=ANA, ben=BEN)) as url, signed_in(url, "ana") as client:
        said = [{"role": "user", "content": "tea"}, {"role": "assistant", "content": "Here you are."}]
        await answer(client, "add_messages", thread_id="t", messages=said)
        await answer(client, "add_messages", thread_id="gone", messages=said[:1])
        await answer(client, "delete_thread", thread_id="gone")
        await answer(client, "remember", content="Tea is served at four.")
        step = {"type": "text", "operation_id": "o", "usage": {"input_tokens": 5, "output_tokens": 2, "cost": 0.25}}
        await answer(client, "record_steps", thread_id="t", steps=[step])
        counted = await answer(client, "explore_days")
        (thread,) = (await answer(client, "list_threads"))["threads"]
        assert counted == {
            "days": [
                {
                    "day": thread["created_at"][:10],
                    "messages": 2,
                    "tokens": thread["tokens"],
                    "entries": 1,
                    "steps": 1,
                    "calls": 0,
                    "failed": 0,  # those of a page are not counted
                    "context_tokens": 0,
                    "recall_tokens": 0,
                    "hook_tokens": 0,
                    "captured": 0,
                    "model_calls": 1,
                    "model_tokens": 7,
                    "cost_usd": 0.25,
                }
            ],
            "tools": [],
            "hooks": [],
            "kinds": [{"kind": "", "entries": 1}],
        }
        async with signed_in(url, "ben") as other:
            assert (await answer(other, "explore_days"))["days"] == []


async def test_the_calls_of_agents_are_counted_with_what_they_were_shown(tmp_path: Path) -> None:
    async with explored(tmp_path, Told(ana=ANA, ben=BEN)) as url:
        async with hosted(url, "ana", "auto", shows=False) as agent:
            await answer(agent, "add_messages", thread_id="t", messages=[{"role": "user", "content": "Tea at four."}])
            recalled = await agent.call_tool("recall_memory", {"query": "tea"})
            await agent.call_tool("recall_memory", {"query": "tea", "thread_id": "no such thread"})
        async with signed_in(url, "ana") as page:
            assert isinstance(recalled.content[0], TextContent)
            counted = await answer(page, "explore_days")
            (day,) = counted["days"]
            assert (day["calls"], day["failed"]) == (3, 1)
            assert day["recall_tokens"] == -(-len(recalled.content[0].text) // 4)
            assert day["context_tokens"] == 0
            assert 0 < day["p50_ms"] <= day["p95_ms"]
            assert [(each["tool"], each["calls"], each["failed"]) for each in counted["tools"]] == [
                ("recall_memory", 2, 1),
                ("add_messages", 1, 0),
            ]
            (day,) = (await answer(page, "explore_days", tool="add_messages"))["days"]
            assert (day["calls"], day["failed"]) == (1, 0)
            assert day["recall_tokens"] > 0
    # The process wrote what it had counted when it ended.
    async with explored(tmp_path, Told(ana=ANA, ben=BEN)) as url:
        async with signed_in(url, "ana") as page:
            (day,) = (await answer(page, "explore_days"))["days"]
            assert day["calls"] == 3
        async with signed_in(url, "ben") as page:
            assert (await answer(page, "explore_days"))["tools"] == []


async def test_what_is_erased_is_counted_no_more(tmp_path: Path) -> None:
    async with explored(tmp_path, Told(ana=ANA, ben=BEN)) as url, hosted(url, "ben", "auto", shows=False) as agent:
        await answer(agent, "add_messages", thread_id="t", messages=[{"role": "user", "content": "Tea at four."}])
        told = await answer(agent, "erase_memory")
        await answer(agent, "erase_memory", dry_run=False, confirm=told["confirm"])
        await answer(agent, "add_messages", thread_id="t", messages=[{"role": "user", "content": "Tea at five."}])
        async with signed_in(url, "ben") as page:
            calls = {each["tool"]: each["calls"] for each in (await answer(page, "explore_days"))["tools"]}
            # Its own call is counted when it is answered, which is after what it erased.
            assert calls == {"erase_memory": 1, "add_messages": 1}


async def test_the_journal_is_shown_of_whom_the_key_serves_and_to_operators_of_all(tmp_path: Path) -> None:
    reader = replace(BEN, name="key:reader", rights=frozenset({"read"}))
    async with explored(tmp_path, Told(ana=ANA, ben=BEN, reader=reader, eve=EVE)) as url:
        async with signed_in(url, "ana") as client:
            for number in range(3):
                await answer(client, "remember", content=f"Tea number {number} is served at four.")
        async with signed_in(url, "ben") as client:
            await answer(client, "remember", content="Cake is served at five.")
            everybody = await answer(client, "explore_journal", everybody=True)
            assert [line["principal"] for line in everybody["lines"]] == ["key:ben", *["key:ana"] * 3]
            page = await answer(client, "explore_journal", everybody=True, limit=2)
            rest = await answer(client, "explore_journal", everybody=True, limit=2, cursor=page["next_cursor"])
            assert page["lines"] + rest["lines"] == everybody["lines"]
            assert "cursor" in await refused(client, "explore_journal", cursor="x")
        async with signed_in(url, "eve") as client:
            assert (await answer(client, "explore_journal", everybody=True))["lines"] == []
        async with signed_in(url, "reader") as client:
            (line,) = (await answer(client, "explore_journal"))["lines"]
            assert (line["principal"], line["tool"], line["outcome"]) == ("key:ben", "remember", "done")
            assert "tea" not in json.dumps(line).lower()
            assert "admin" in await refused(client, "explore_journal", everybody=True)
            assert "write" in await refused(client, "resume_jobs")


async def test_jobs_that_failed_too_often_are_resumed(tmp_path: Path) -> None:
    engine = await open_engine(settings_in(tmp_path))
    scope, database, now = Scope("acme", "helper", "ana"), engine.database, engine.now()
    await database.write(job_rows.request, scope, "", "entries", 1, due_at=now, now=now)
    claim = await database.write_installation(job_rows.claim, ["entries"], holder="x", now=now, lease_ms=1_000)
    assert claim is not None
    await database.write(job_rows.fail, claim, error="it is down", retry_at=now, dead=True, now=now)
    await close_engine(engine)
    async with explored(tmp_path, Told(ana=ANA)) as url, signed_in(url, "ana") as client:
        assert len((await answer(client, "memory_status"))["jobs"]["dead"]) == 1
        assert (await answer(client, "resume_jobs"))["resumed"] == 1
        assert "dead" not in (await answer(client, "memory_status"))["jobs"]


@pytest.mark.programs
async def test_the_command_opens_the_memory_of_this_launch_by_a_link(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "layerlore.server", "explore", "--no-browser", "--data-dir", str(tmp_path)]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LAYERLORE_")}
    process = subprocess.Popen(
        [*command, "--resource", "ana"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        env={**kept, "LAYERLORE_EMBEDDING__EMBEDDER": "none"},
    )
    with process:
        try:
            assert process.stdout is not None
            url, _, word = process.stdout.readline().strip().partition("/explore#once=")
            assert url.startswith("http://127.0.0.1:")
            async with http_client() as http:
                page = {"Origin": url, PAGE_HEADER: "1"}
                found = await http.post(url + SESSION, json={"once": word}, headers=page)
                assert json.loads(found.text)["resource"] == "ana"
                http.headers.update({"Origin": url, PAGE_HEADER: found.json()["token"]})
                async with Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client:
                    await answer(client, "memory_status")
                    assert not (tmp_path / "http-key").exists()
            process.send_signal(signal.SIGTERM)
            assert process.wait() == 0
        finally:
            process.kill()


@pytest.mark.programs
@pytest.mark.skipif(os.name == "nt", reason="Windows has no such modes")
def test_the_browser_gets_the_link_by_a_file_for_its_owner_alone_and_not_in_its_command_line(tmp_path: Path) -> None:
    seen, browser = tmp_path / "seen", tmp_path / "browser"
    os.mkfifo(seen)
    browser.write_text(
        f'#!/bin/sh\nfile="${{1#file://}}"\n{{ echo "$1"; stat -c %a "$file"; cat "$file"; }} > {seen}\n',
        encoding="utf-8",
    )
    browser.chmod(0o700)
    data = tmp_path / "data"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LAYERLORE_")}
    process = subprocess.Popen(
        [sys.executable, "-m", "layerlore.server", "explore", "--data-dir", str(data)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        env={**kept, "LAYERLORE_EMBEDDING__EMBEDDER": "none", "BROWSER": f"{browser} %s"},
    )
    with process:
        try:
            assert process.stdout is not None
            link = process.stdout.readline().strip()
            opened, mode, page = seen.read_text(encoding="utf-8").split("\n", 2)
            assert opened.startswith(data.as_uri())
            assert "once=" not in opened
            assert mode == "600"
            assert f'location.replace("{link}")' in page
            process.send_signal(signal.SIGTERM)
            assert process.wait() == 0
            assert not [*data.glob("explore-*")]
        finally:
            process.kill()
