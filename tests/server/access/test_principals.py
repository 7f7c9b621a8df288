"""Whose memory a request over HTTP means: by its credential, and by what it names inside the grant of that."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mcp import MCPError
from mcp.types import INVALID_PARAMS

from layerlore.server.access.caller import scope_of
from layerlore.server.access.credentials import RIGHTS, Principal, local_principal
from layerlore.storage.core.errors import InvalidInput, NotFound
from layerlore.storage.core.records import Scope

from ..gated_server import (
    ACCEPT,
    ANA,
    BEN,
    EVE,
    LISTEN,
    MODERN,
    Told,
    answer,
    connected,
    http_client,
    refused,
    served,
    settings_in,
)

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")]

HOST = Principal("key:host", "acme", frozenset({"helper", "coach"}), None, frozenset(RIGHTS))
ANY = replace(HOST, name="key:any", agents=None)
PRINCIPALS = {"ana": ANA, "ben": BEN, "eve": EVE, "host": HOST, "any": ANY}
BOTH = {"Layerlore-Agent": "helper", "Layerlore-Resource": "ana"}


def in_meta(**names: str) -> Any:
    return {f"layerlore/{name}": value for name, value in names.items()}


def message(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], "thread_id": "main"}


async def texts(client: Any, **options: Any) -> list[str]:
    page = await answer(client, "get_messages", format="json", thread_id="main", **options)
    return [each["parts"][0]["text"] for each in page["messages"]]


@pytest.mark.parametrize("endpoint", ["mcp", "sse"])
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_each_credential_has_its_own_memory_on_both_endpoints_in_both_eras(
    tmp_path: Path, endpoint: str, mode: str
) -> None:
    async with (
        served(settings_in(tmp_path), Told(**PRINCIPALS)) as url,
        connected(url, "ana", mode, endpoint) as ana,
        connected(url, "ben", mode, endpoint) as ben,
        connected(url, "eve", mode, endpoint) as eve,
    ):
        clients = {"ana": ana, "ben": ben, "eve": eve}
        for name, client in clients.items():
            await answer(client, "add_messages", **message(f"I am {name}"))
        for name, client in clients.items():
            assert await texts(client) == [f"I am {name}"]
            assert (await client.read_resource("memory://threads/main/messages")).contents[0].text.count("I am") == 1  # type: ignore[union-attr]
            status = await answer(client, "memory_status")
            assert status["caller"]["principal"] == f"key:{name}"
            assert status["caller"]["tenant"] == PRINCIPALS[name].tenant


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_principal_for_many_names_the_one_it_means_and_meta_beats_the_header(tmp_path: Path, mode: str) -> None:
    async with served(settings_in(tmp_path), Told(**PRINCIPALS)) as url:
        async with connected(url, "host", mode, **BOTH) as host:
            await answer(host, "add_messages", **message("for ana"))
            await answer(host, "add_messages", **message("for ben"), meta=in_meta(resource="ben"))
            await answer(host, "add_messages", **message("of the coach"), meta=in_meta(agent="coach"))
            both = in_meta(agent="coach", resource="ben")
            assert await texts(host, meta=both) == []
            status = await answer(host, "memory_status", meta=both)
            assert status["scope"] == {"agent": "coach", "resource": "ben"}
            assert await texts(host) == ["for ana"]
            assert await texts(host, meta=in_meta(resource="ben")) == ["for ben"]
            assert await texts(host, meta=in_meta(agent="coach")) == ["of the coach"]
        async with connected(url, "ana", mode) as ana, connected(url, "ben", mode) as ben:
            assert (await texts(ana), await texts(ben)) == (["for ana"], ["for ben"])
        async with connected(url, "any", mode, **BOTH | {"Layerlore-Agent": "new"}) as anybody:
            assert (await answer(anybody, "list_threads"))["threads"] == []
            assert await texts(anybody, meta=in_meta(agent="helper")) == ["for ana"]


async def test_a_project_is_reached_by_who_may_name_any_resource_and_by_nobody_else(tmp_path: Path) -> None:
    async with served(settings_in(tmp_path), Told(**PRINCIPALS, person=local_principal("default", "local"))) as url:
        async with connected(url, "host", **BOTH, **{"Layerlore-Project": "github.com/ana/tea"}) as host:
            await answer(host, "add_messages", **message("in the project"))
            status = await answer(host, "memory_status")
            assert status["scope"] == {"agent": "helper", "resource": "ana", "project": "project:github.com/ana/tea"}
            assert await texts(host, meta=in_meta(project="none")) == []
        async with connected(url, "ana") as ana:
            assert await texts(ana) == []
        async with connected(url, "ana", **{"Layerlore-Project": "github.com/ana/tea"}) as ana:
            assert "for one resource alone, and reaches no project" in await refused(ana, "list_threads")
        async with connected(url, "person", **{"Layerlore-Project": "github.com/ana/tea"}) as person:
            scope = (await answer(person, "memory_status"))["scope"]
            assert scope == {"agent": "default", "resource": "local", "project": "project:github.com/ana/tea"}


async def test_who_may_name_several_and_names_none_is_told_how(tmp_path: Path) -> None:
    async with served(settings_in(tmp_path), Told(**PRINCIPALS)) as url:
        for token, headers, what in (
            ("host", {}, "agent"),
            ("host", {"Layerlore-Agent": "helper"}, "resource"),
            ("any", {"Layerlore-Resource": "ana"}, "agent"),
        ):
            async with connected(url, token, **headers) as client:
                told = await refused(client, "list_threads")
                assert told.startswith(f"{what}: needed")
                assert all(name in told for name in (f"Layerlore-{what.title()}", f"layerlore/{what}"))
                with pytest.raises(MCPError, match=f"{what}: needed") as raised:
                    await client.read_resource("memory://profile")
                assert raised.value.error.code == INVALID_PARAMS


async def test_what_is_outside_the_grant_does_not_exist_wherever_it_is_named(tmp_path: Path) -> None:
    """Neither does what is there, of others, nor what is nowhere: both in the same words."""
    async with served(settings_in(tmp_path), Told(**PRINCIPALS)) as url:
        async with connected(url, "ben") as ben:
            await answer(ben, "add_messages", **message("I am ben"))
        for what, names in (("resource", ("ben", "nobody")), ("agent", ("coach", "nobody"))):
            told = set()
            for name in names:
                header = {f"Layerlore-{what.title()}": name}
                async with connected(url, "ana", **header) as client:
                    errors = [
                        await refused(client, "list_threads"),
                        await refused(client, "add_messages", **message("x")),
                    ]
                    for reading in (
                        client.list_resources(),
                        client.read_resource("memory://profile"),
                        client.get_prompt("review_memory"),
                        client.subscribe_resource("memory://profile"),
                    ):
                        with pytest.raises(MCPError) as raised:
                            await reading
                        errors.append(raised.value.error.message)
                async with connected(url, "ana") as client:
                    errors.append(await refused(client, "list_threads", meta=in_meta(**{what: name})))
                    with pytest.raises(MCPError) as raised:
                        await client.read_resource("memory://profile", meta=in_meta(**{what: name}))
                    errors.append(raised.value.error.message)
                async with http_client(headers={"X-API-Key": "ana", **ACCEPT, **MODERN, **header}) as http:
                    reply = (await http.post(url + "/mcp", json=LISTEN)).json()
                    errors.append(reply["error"]["message"])
                told |= {error.replace(name, "NAME") for error in errors if "Method not found" not in error}
            assert told == {f"there is no {what} 'NAME'"}
        async with connected(url, "ben") as ben:
            assert await texts(ben) == ["I am ben"]


NAMES: list[tuple[Any, str]] = [
    ("a" * 256, "256 characters; at most 255 are allowed"),
    ("a\tb", "control character U+0009"),
    ("a\x7fb", "control character U+007F"),
    ("a\x85b", "control character U+0085"),
    (b"caf\xe9", "must be UTF-8"),
    (b"\xff\xfe", "must be UTF-8"),
    (b"\xed\xa0\x80", "must be UTF-8"),
]


@pytest.mark.parametrize("what", ["agent", "resource", "thread"])
async def test_names_are_ids_in_utf_8(tmp_path: Path, what: str) -> None:
    header, id_ = f"Layerlore-{what.title()}", "Zoë 漢字 🌍"
    async with served(settings_in(tmp_path), Told(**PRINCIPALS)) as url:
        for value, told in NAMES:
            if value == "a\x7fb":
                continue  # no header can have it
            raw = value if isinstance(value, bytes) else value.encode()
            assert told in await first_text(url, {**BOTH, header: raw}), value
        async with connected(url, "any", **BOTH) as client:
            for bad, told in (
                *((value, told) for value, told in NAMES if isinstance(value, str)),
                (5, "must be a string"),
            ):
                assert told in await refused(client, "memory_status", meta={f"layerlore/{what}": bad}), bad
            status = await answer(client, "memory_status", meta={f"layerlore/{what}": id_})
            assert what == "thread" or status["scope"][what] == id_
            assert not await refused_or_none(client, meta={f"layerlore/{what}": ""})
        assert id_ in await first_text(url, {**BOTH, "Layerlore-Thread": "main", header: id_.encode()}, "add_messages")


async def refused_or_none(client: Any, meta: Any) -> bool:
    return bool((await client.call_tool("memory_status", {}, meta=meta)).is_error)


async def first_text(url: str, headers: Any, tool: str = "memory_status") -> str:
    """The answer of a call whose headers are sent as they are; after add_messages, the whole scope of what it stored."""
    pairs = list(headers.items()) if isinstance(headers, dict) else headers
    sent = [("X-API-Key", "any"), *ACCEPT.items(), ("mcp-protocol-version", "2026-07-28"), *pairs]
    arguments = {} if tool == "memory_status" else {"messages": [{"role": "user", "content": "x"}], "ids": True}
    meta = LISTEN["params"]["_meta"]  # type: ignore[index]

    async def call(name: str, given: Any) -> dict[str, Any]:
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
        params = {"name": name, "arguments": given, "_meta": meta}
        sending = [*sent, ("mcp-method", "tools/call"), ("mcp-name", name)]
        reply = await http.post(url + "/mcp", json={**body, "params": params}, headers=sending)
        result: dict[str, Any] = reply.json()["result"]
        return result

    async with http_client() as http:
        result = await call(tool, arguments)
        if tool == "add_messages":
            assert not result["isError"], result
            status = await call("memory_status", {})
            return f"{result['structuredContent']['thread_id']} {status['structuredContent']['scope']}"
        return str(result["content"][0]["text"])


def test_a_scope_is_only_ever_inside_the_grant() -> None:
    grants: list[tuple[frozenset[str] | None, str | None]] = [
        (agents, resource)
        for agents in (None, frozenset({"a"}), frozenset({"a", "b"}), frozenset[str]())
        for resource in (None, "r")
    ]
    for agents, resource in grants:
        principal = Principal("key:x", "t", agents, resource, frozenset())
        for agent_named in ("", "a", "b", "c"):
            for resource_named in ("", "r", "s"):
                try:
                    scope = scope_of(principal, agent_named, resource_named)
                except (InvalidInput, NotFound):
                    continue
                assert scope == Scope("t", agent_named or "a", resource_named or "r")
                assert agents is None or scope.agent_id in agents
                assert resource is None or scope.resource_id == resource
    assert scope_of(Principal("k", "t", None, None, frozenset()), "c", "s") == Scope("t", "c", "s")


async def test_what_all_tenants_spent_together_is_not_told_to_one(tmp_path: Path) -> None:
    async with served(settings_in(tmp_path), Told(ana=ANA)) as url, connected(url, "ana") as client:
        budget = (await answer(client, "memory_status"))["thinking"]["budget"]
    assert budget.keys() == {"day", "tenant_tokens", "tenant_daily_tokens"}


async def test_an_administrator_of_one_tenant_learns_nothing_about_the_jobs_of_others(tmp_path: Path) -> None:
    async with served(settings_in(tmp_path), Told(**PRINCIPALS)) as url:
        async with connected(url, "ben") as ben:
            turn = [("user", "I am Ben, and I moved to Oslo."), ("assistant", "Noted: you live in Oslo.")]
            await answer(ben, "add_messages", messages=[{"role": role, "content": text} for role, text in turn])
            assert (await answer(ben, "memory_status"))["jobs"]["waiting"]
        async with connected(url, "host", **BOTH) as client:
            jobs = (await answer(client, "memory_status"))["jobs"]
    assert jobs == {"waiting": []}
