"""A header that may come once is refused if it comes twice, and no session is made past the count."""

from pathlib import Path

import anyio
import pytest

from layerlore.server.http.request_guards import SINGLE

from ..gated_server import ACCEPT, ANA, EVE, INITIALIZE, PATIENCE, PING, Told, http_client, served, settings_in
from ..limited_server import limited_over_http, only

pytestmark = pytest.mark.anyio

ROUTES = [
    ("POST", "/mcp"),
    ("GET", "/mcp"),
    ("DELETE", "/mcp/"),
    ("GET", "/sse"),
    ("POST", "/messages/"),
    ("GET", "/health"),
]
ELSEWHERE = {b"content-length", b"host"}  # which the client of this test does not send twice


async def test_each_is_refused_twice_on_every_route_and_named(tmp_path: Path) -> None:
    async with served(settings_in(tmp_path), Told(ana=ANA)) as url, http_client(base_url=url) as client:
        for method, path in ROUTES:
            for name in [*sorted(SINGLE - ELSEWHERE), b"mcp-param-thread"]:
                answer = await client.request(method, path, headers=[(name, b"one"), (name.title(), b"one")])
                assert answer.status_code == 400, (method, path, name)
                assert answer.json()["error"]["message"].endswith(f"sent only once: {name.decode()}")
        assert (await client.get("/health", headers=[("x-other", "1"), ("x-other", "2")])).status_code == 200


async def test_no_session_is_made_by_a_request_that_passes_for_another(tmp_path: Path) -> None:
    settings = settings_in(tmp_path, rates=only(tenant_sessions=1).model_dump())
    async with (
        limited_over_http(settings, Told(ana=ANA)) as url,
        http_client(base_url=url, headers={"X-API-Key": "ana", **ACCEPT}) as client,
    ):
        for name, one, two in (
            ("MCP-Protocol-Version", "2025-11-25", "2026-07-28"),
            ("MCP-Protocol-Version", "2026-07-28", "2025-11-25"),
            ("Mcp-Session-Id", "", "x"),
        ):
            for _ in range(3):
                answer = await client.post("/mcp", json=INITIALIZE, headers=[(name, one), (name, two)])
                assert (answer.status_code, "mcp-session-id" in answer.headers) == (400, False)
        assert (await client.post("/mcp", json=INITIALIZE)).status_code == 200
        assert (await client.post("/mcp", json=INITIALIZE)).status_code == 429


async def test_sessions_that_are_begun_at_the_same_time_are_counted_as_they_are_made(tmp_path: Path) -> None:
    settings = settings_in(tmp_path, rates=only(tenant_sessions=3).model_dump())
    made = []
    async with limited_over_http(settings, Told(ana=ANA, eve=EVE)) as url, http_client(base_url=url) as client:

        async def begin() -> None:
            answer = await client.post("/mcp", json=INITIALIZE, headers={"X-API-Key": "ana", **ACCEPT})
            made.append(answer.headers.get("mcp-session-id"))

        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                for _ in range(20):
                    tasks.start_soon(begin)
            while len([each for each in made if each]) < 3:
                await begin()
        assert len([each for each in made if each]) == 3
        for headers in ({}, {"MCP-Protocol-Version": "2025-11-25"}):
            # What begins no session after all leaves none behind.
            assert (await client.post("/mcp", json=PING, headers={"X-API-Key": "eve", **ACCEPT, **headers})).is_error
