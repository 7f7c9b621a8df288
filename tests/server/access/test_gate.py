"""Whom the server lets in over HTTP, what it tells the others, and that no token is kept or told."""

import json
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import MCPError
from mcp.server.auth.middleware.auth_context import get_access_token

from layerlore.server.access.credentials import ByForm, LocalKey, NoCredentials
from layerlore.server.access.gate import LONGEST_TOKEN, Gate, ProtectedResource
from layerlore.storage.core.errors import StorageUnavailable

from ..gated_server import (
    ACCEPT,
    ANA,
    BEN,
    INITIALIZE,
    LISTEN,
    MODERN,
    PATIENCE,
    PING,
    Told,
    answer,
    connected,
    everything_logged,
    http_client,
    refused,
    served,
    settings_in,
)

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning")]

TOKEN = "a-token-that-nobody-may-see"
WRONG = "a-token-that-is-wrong"
ISSUED = ProtectedResource("https://login.example.com", "https://mem.example.com")
METADATA = "https://mem.example.com/.well-known/oauth-protected-resource"
ROUTES = [
    ("POST", "/mcp"),
    ("GET", "/mcp"),
    ("DELETE", "/mcp"),
    ("OPTIONS", "/mcp"),
    ("GET", "/sse"),
    ("POST", "/messages/"),
    ("POST", "/messages/any/where"),
]
SCOPES = 'scope="memory:read memory:write memory:forget"'

# What is sent with each request, and the error code of the challenge (RFC 6750: none for who sends no credential).
NOT_LET_IN: list[tuple[dict[str, Any], str | None]] = [
    ({}, None),
    ({"params": {"access_token": TOKEN, "api_key": TOKEN, "token": TOKEN, "key": TOKEN}}, None),
    ({"params": {"Authorization": f"Bearer {TOKEN}"}}, None),
    ({"headers": {"Cookie": f"authorization=Bearer {TOKEN}; access_token={TOKEN}"}}, None),
    ({"headers": {"Authorization": f"Basic {TOKEN}"}}, None),
    ({"headers": {"Authorization": TOKEN}}, None),
    ({"headers": {"Authorization": "Bearer"}}, None),
    ({"headers": {"X-API-Key": ""}}, None),
    ({"headers": {"Token": TOKEN}}, None),
    ({"headers": {"Authorization": f"Bearer {WRONG}"}}, "invalid_token"),
    ({"headers": {"X-API-Key": WRONG}}, "invalid_token"),
    ({"headers": {"Authorization": f"Bearer {WRONG}"}, "params": {"access_token": TOKEN}}, "invalid_token"),
    ({"headers": {"Authorization": f"Bearer {WRONG}", "X-API-Key": TOKEN}}, "invalid_token"),
    ({"headers": {"Authorization": f"Bearer {TOKEN}", "X-API-Key": WRONG}}, "invalid_token"),
    ({"headers": {"Authorization": f"Bearer {TOKEN} {TOKEN}"}}, "invalid_token"),
    ({"headers": {"Authorization": f"Bearer {TOKEN.upper()}"}}, "invalid_token"),
    ({"headers": {"Authorization": f'Bearer "{TOKEN}"'}}, "invalid_token"),
    ({"headers": {"Authorization": "Bearer " + "x" * (LONGEST_TOKEN + 1)}}, "invalid_token"),
    ({"headers": {"Authorization": b"Bearer \xff\xfe\xc3\xa9"}}, "invalid_token"),
]


@pytest.mark.parametrize("issued", [None, ISSUED], ids=["keys only", "tokens of an issuer"])
async def test_who_is_not_let_in_is_told_how_to_come_in_and_nothing_else(
    tmp_path: Path, issued: ProtectedResource | None
) -> None:
    told = Told(**{TOKEN: ANA})
    async with served(settings_in(tmp_path), told, resource=issued) as url, http_client() as client:
        for method, path in ROUTES:
            for sent, error in NOT_LET_IN:
                body = {"json": PING} if method == "POST" else {}
                headers = [*ACCEPT.items(), *_pairs(sent.get("headers", {}))]
                reply = await client.request(method, url + path, **{**sent, "headers": headers}, **body)
                challenge = reply.headers["www-authenticate"]
                assert reply.status_code == 401, (method, path, sent)
                assert challenge.startswith('Bearer realm="layerlore"')
                assert (f'error="{error}"' in challenge) if error else ("error" not in challenge), (challenge, sent)
                assert ("error_description=" in challenge) is bool(error)
                place = METADATA + ("/mcp" if path == "/mcp" else "/sse")
                assert (f'resource_metadata="{place}"' in challenge) is bool(issued)
                assert (SCOPES in challenge) is bool(issued)
                assert reply.headers["cache-control"] == "no-store"
                assert TOKEN not in reply.text + challenge
                assert WRONG not in reply.text + challenge
    assert "x" * 100 not in "".join(told.request)


def _pairs(headers: Any) -> list[tuple[str, Any]]:
    return list(headers.items()) if isinstance(headers, dict) else headers


async def test_a_token_comes_in_either_header_and_beside_what_a_proxy_wants(tmp_path: Path) -> None:
    async with served(settings_in(tmp_path), Told(**{TOKEN: ANA})) as url, http_client() as client:
        for headers in (
            [("Authorization", f"Bearer {TOKEN}")],
            [("Authorization", f"bearer   {TOKEN}")],
            [("X-API-Key", TOKEN)],
            [("X-API-Key", TOKEN), ("Authorization", "Basic cHJveHk6")],
            [("X-API-Key", TOKEN), ("Authorization", f"Bearer {TOKEN}")],
            [("X-API-Key", ""), ("Authorization", f"Bearer {TOKEN}")],
        ):
            reply = await client.post(url + "/messages/", headers=[*ACCEPT.items(), *headers], json=PING)
            assert (reply.status_code, reply.text) == (400, "session_id is required"), headers


async def test_a_genuine_credential_without_a_right_is_forbidden(tmp_path: Path) -> None:
    told = Told(ana=replace(ANA, rights=frozenset()))
    async with served(settings_in(tmp_path), told) as url, http_client(headers={"X-API-Key": "ana"}) as client:
        for method, path in ROUTES:
            reply = await client.request(method, url + path, headers=ACCEPT, json=PING)
            assert reply.status_code == 403
            challenge = reply.headers["www-authenticate"]
            assert all(part in challenge for part in ('error="insufficient_scope"', "error_description=", SCOPES))


@pytest.mark.parametrize("failure", [StorageUnavailable("the disk is gone"), ValueError(f"what is {TOKEN}?")])
async def test_credentials_that_cannot_be_checked_are_no_fault_of_the_caller(
    tmp_path: Path, failure: Exception
) -> None:
    told = Told(**{TOKEN: ANA})
    with everything_logged() as records:
        async with served(settings_in(tmp_path), told) as url:
            headers = {"Authorization": f"Bearer {TOKEN}", **ACCEPT}
            async with http_client(headers=headers) as client:
                told.failure = failure
                for method, path in ROUTES:
                    reply = await client.request(method, url + path, json=PING)
                    assert (reply.status_code, reply.headers["retry-after"]) == (503, "2")
                    assert "www-authenticate" not in reply.headers
                    assert str(failure) not in reply.text
                told.failure = None
                assert (await client.post(url + "/messages/", json=PING)).status_code == 400
    assert TOKEN not in _all_of(records)


async def test_what_needs_no_credential_asks_for_none(tmp_path: Path) -> None:
    told = Told()
    async with served(settings_in(tmp_path), told) as url, http_client(headers={"X-API-Key": WRONG}) as client:
        assert (await client.get(url + "/health")).text == "ok"
        assert (await client.get(url + "/nowhere")).status_code == 404
    assert told.request == []


@pytest.mark.parametrize("endpoint", ["mcp", "sse"])
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_token_is_in_no_log_no_answer_and_nowhere_behind_the_gate(
    tmp_path: Path, endpoint: str, mode: str
) -> None:
    with everything_logged() as records:
        async with served(settings_in(tmp_path), Told(**{TOKEN: ANA})) as url:
            async with connected(url, TOKEN, mode, endpoint) as client:
                status = await answer(client, "memory_status")
                await answer(client, "add_messages", messages=[{"role": "user", "content": "tea"}], thread_id="main")
                errors = [await refused(client, "delete_thread", thread_id="x")]
                with pytest.raises(MCPError) as raised:
                    await client.call_tool("no_such_tool", {})
                errors.append(str(raised.value))
                contents = (await client.read_resource("memory://profile")).contents
            async with http_client(headers={"Authorization": f"Bearer {TOKEN}", **ACCEPT}) as http:
                replies = [await http.post(f"{url}{path}", content=b"{no") for path in ("/mcp", "/messages/")]
    assert status["caller"] == {
        "principal": "key:ana",
        "tenant": "acme",
        "rights": ["read", "write", "forget", "admin"],
    }
    assert status["scope"] == {"agent": "helper", "resource": "ana"}
    assert TOKEN not in json.dumps(status) + "".join(errors) + repr(contents) + "".join(r.text for r in replies)
    ours = [record for record in records if not record.name.startswith(("httpx", "httpcore", "mcp.client"))]
    assert ours
    assert TOKEN not in _all_of(ours)
    stored = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert TOKEN.encode() not in stored


def _all_of(records: Any) -> str:
    """Every word of log records: texts, arguments, tracebacks."""
    told = []
    for record in records:
        told += [record.getMessage(), repr(record.__dict__)]
        if record.exc_info and record.exc_info[0]:
            told += traceback.format_exception(*record.exc_info)
    return "\n".join(told)


async def test_a_session_of_the_older_protocol_serves_its_own_credential_only(tmp_path: Path) -> None:
    others = {
        "twin": replace(ANA, name="key:twin"),
        "moved": replace(ANA, tenant="globex"),
        "ada": replace(ANA, resource="ada"),
    }
    told = Told(ana=ANA, ben=BEN, again=ANA, **others)
    async with served(settings_in(tmp_path), told) as url, http_client(base_url=url, headers=ACCEPT) as client:
        opened = await client.post("/mcp", json=INITIALIZE, headers={"X-API-Key": "ana"})
        session = {"mcp-session-id": opened.headers["mcp-session-id"]}
        for other in ("ben", *others):
            for method in ("POST", "GET", "DELETE"):
                body = {"json": PING} if method == "POST" else {}
                reply = await client.request(method, "/mcp", **body, headers={"X-API-Key": other, **session})
                assert reply.status_code == 404, (other, method)
        for own in ("ana", "again"):
            reply = await client.post("/mcp", json=PING, headers={"X-API-Key": own, **session})
            assert reply.status_code == 200
        assert (await client.post("/mcp", json=PING, headers=session)).status_code == 401


async def test_a_message_to_the_sse_session_of_another_is_refused_and_does_nothing(tmp_path: Path) -> None:
    add = {"name": "add_messages", "arguments": {"messages": [{"role": "user", "content": "x"}], "thread_id": "main"}}
    async with served(settings_in(tmp_path), Told(ana=ANA, ben=BEN)) as url:
        async with (
            http_client(base_url=url) as client,
            client.stream("GET", "/sse", headers={"X-API-Key": "ana"}) as stream,
        ):
            lines = stream.aiter_lines()
            endpoint = ""
            while not endpoint.startswith("data: "):
                endpoint = await anext(lines)
            place = endpoint.removeprefix("data: ")
            for key, status in (("ben", 404), ("", 401)):
                for body in (INITIALIZE, {**PING, "method": "tools/call", "params": add}):
                    reply = await client.post(place, json=body, headers={"X-API-Key": key})
                    assert reply.status_code == status
            assert (await client.post(place, json=INITIALIZE, headers={"X-API-Key": "ana"})).status_code == 202
            with anyio.fail_after(PATIENCE):  # the first message that comes answers her own first request
                while not (line := await anext(lines)).startswith("data: "):
                    pass
            assert '"protocolVersion"' in line
        for token in ("ana", "ben"):
            async with connected(url, token) as mcp:
                assert (await answer(mcp, "list_threads"))["threads"] == []


async def test_form_decides_who_is_asked_about_a_token() -> None:
    keys, jwt = Told(llk_1=ANA, **{"llk_a.b.c": ANA}), Told(**{"a.b.c": BEN})
    local = LocalKey("ll_local.key.dots", ANA)
    every = ByForm(keys=keys, jwt=jwt, local=local)
    assert await every.principal("llk_1") == ANA
    assert await every.principal("llk_a.b.c") == ANA
    assert await every.principal("a.b.c") == BEN
    assert [await every.principal(token) for token in ("", "llk_2", "a.b.d", "a.b", "ll_local.key.dots")] == [None] * 5
    assert await ByForm(local=local).principal("ll_local.key.dots") == ANA
    assert [await ByForm(local=local).principal(token) for token in ("", "llk_1", "a.b.c", "ll_local")] == [None] * 4
    assert [await ByForm().principal(token) for token in ("", "llk_1", "a.b.c", "ll_local.key.dots")] == [None] * 4
    assert keys.request == ["llk_1", "llk_a.b.c", "llk_2"]
    assert jwt.request == ["a.b.c", "a.b.d", "ll_local.key.dots"]


async def test_a_server_without_credentials_takes_everybody_for_the_same(tmp_path: Path) -> None:
    async with served(settings_in(tmp_path), NoCredentials(ANA)) as url:
        for token in ("any", WRONG):
            async with connected(url, token) as client:
                assert (await answer(client, "memory_status"))["caller"]["principal"] == "key:ana"
        async with (
            http_client(base_url=url, headers={**ACCEPT, **MODERN}) as http,
            http.stream("POST", "/mcp", json=LISTEN) as listening,
        ):
            assert listening.status_code == 200


async def test_what_is_behind_the_gate_sees_the_principal_and_no_token() -> None:
    seen: list[Any] = []

    async def behind(scope: Any, receive: Any, send: Any) -> None:
        access = get_access_token()
        assert access is not None
        seen.append((scope, access))

    async def ignored(*_: Any) -> Any:
        return None

    for name, value in ((b"authorization", b"Bearer "), (b"x-api-key", b"")):
        headers = [(name, value + TOKEN.encode()), (b"accept", b"*/*")]
        scope = {"type": "http", "method": "GET", "path": "/", "headers": headers}
        expiring = replace(ANA, expires_at=1_800_000_000_999)
        await Gate(Told(**{TOKEN: expiring})).wrap(behind)(scope, ignored, ignored)
        served_scope, access = seen.pop()
        assert TOKEN not in repr(served_scope) + repr(access)
        assert served_scope["headers"] == [(b"accept", b"*/*")]
        assert (access.client_id, access.expires_at, access.claims) == (
            "key:ana",
            1_800_000_000,
            {"principal": expiring},
        )
        assert len(scope["headers"]) == 2
