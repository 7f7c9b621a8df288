"""A credential that is revoked or expires takes its open streams with it, within seconds, and nobody else's."""

import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from layerlore.server.access.credentials import CACHED_SECONDS, Principal
from layerlore.server.access.open_requests import AGAIN_SECONDS, OpenRequests
from layerlore.storage.core.errors import StorageUnavailable

from ..gated_server import (
    ACCEPT,
    ANA,
    BEN,
    INITIALIZE,
    LISTEN,
    MODERN,
    PATIENCE,
    Told,
    everything_logged,
    http_client,
    served,
    settings_in,
)

pytestmark = pytest.mark.anyio

KINDS = ["GET /mcp", "GET /sse", "POST subscriptions/listen", "subscriptions/listen over /sse"]
SOON = 0.05  # between two looks


@contextlib.asynccontextmanager
async def stream(url: str, token: str, kind: str) -> AsyncIterator[Any]:
    """An open response, as a client holds it that does not hang up."""
    headers = {"X-API-Key": token, **ACCEPT}
    async with http_client(base_url=url, headers=headers) as client:
        if kind == "GET /mcp":
            opened = await client.post("/mcp", json=INITIALIZE)
            opening = client.stream("GET", "/mcp", headers={"mcp-session-id": opened.headers["mcp-session-id"]})
        elif kind == "POST subscriptions/listen":
            opening = client.stream("POST", "/mcp", json=LISTEN, headers=MODERN)
        else:
            opening = client.stream("GET", "/sse")
        async with opening as response:
            assert response.status_code == 200
            lines = response.aiter_lines()
            if kind.endswith("/sse"):
                line = await said(lines)
                body = INITIALIZE if kind == "GET /sse" else LISTEN
                assert (await client.post(line.removeprefix("data: "), json=body)).status_code == 202
            if kind != "GET /mcp":
                await said(lines)
            yield lines


async def said(lines: Any) -> str:
    """The next event."""
    with anyio.fail_after(PATIENCE):
        while not (line := await anext(lines)).startswith("data: "):
            pass
    return str(line)


async def rest(lines: Any) -> list[str]:
    """What comes until the end of a response, which must end as a whole one does."""
    with anyio.fail_after(PATIENCE):
        return [line async for line in lines]


async def test_all_streams_of_a_revoked_credential_end_cleanly_and_those_of_others_stay(tmp_path: Path) -> None:
    told = Told(ana=ANA, ben=BEN)
    with everything_logged() as records:
        async with served(settings_in(tmp_path), told, again_seconds=SOON) as url:
            for kind in KINDS:
                async with stream(url, "ben", kind) as others:
                    async with stream(url, "ana", kind) as lines:
                        del told.principals["ana"]
                        await rest(lines)
                    with anyio.move_on_after(4 * SOON) as waiting:
                        await said(others)
                    assert waiting.cancelled_caught, f"{kind}: the stream of another credential said something"
                    async with http_client(base_url=url, headers=ACCEPT) as client:
                        answer = await client.post("/mcp", json=INITIALIZE, headers={"X-API-Key": "ana"})
                        assert answer.status_code == 401
                told.principals["ana"] = ANA
    failures = [record for record in records if record.exc_info or record.levelname in ("ERROR", "CRITICAL")]
    assert [record.getMessage() for record in failures] == []


async def test_a_credential_that_means_somebody_else_now_loses_its_streams(tmp_path: Path) -> None:
    told = Told(ana=ANA)
    async with (
        served(settings_in(tmp_path), told, again_seconds=SOON) as url,
        stream(url, "ana", "POST subscriptions/listen") as lines,
    ):
        told.principals["ana"] = replace(ANA, rights=frozenset({"write"}))
        await rest(lines)


async def test_streams_stay_while_nobody_can_tell_and_end_once_it_is_told(tmp_path: Path) -> None:
    told = Told(ana=ANA)
    async with (
        served(settings_in(tmp_path), told, again_seconds=SOON) as url,
        stream(url, "ana", "POST subscriptions/listen") as lines,
    ):
        for failure in (StorageUnavailable("the disk is gone"), ValueError("a defect")):
            told.failure, told.request = failure, []
            with anyio.fail_after(PATIENCE):
                while len(told.request) < 3:
                    await anyio.sleep(SOON)
        told.failure = None
        del told.principals["ana"]
        await rest(lines)


async def test_what_expires_while_nobody_can_tell_ends(tmp_path: Path) -> None:
    told = Told(ana=replace(ANA, expires_at=int(time.time() * 1000) + 600))
    async with (
        served(settings_in(tmp_path), told, again_seconds=SOON) as url,
        stream(url, "ana", "GET /sse") as lines,
    ):
        told.failure = StorageUnavailable("the disk is gone")
        await rest(lines)
        assert time.time() * 1000 >= (told.principals["ana"].expires_at or 0)


def test_a_revoked_key_has_lost_its_streams_after_five_seconds() -> None:
    """What was found of a key is believed for a while, and a look that begins just before that is over changes nothing."""
    assert CACHED_SECONDS + AGAIN_SECONDS < 4.5


async def test_a_request_that_was_not_answered_yet_is_told_why() -> None:
    told, sent = Told(ana=ANA), []

    async def endless(scope: Any, receive: Any, send: Any) -> None:
        await anyio.sleep_forever()

    async def take(message: Any) -> None:
        sent.append(message)

    await _watched(told, endless, take)
    assert [message.get("status") for message in sent] == [401, None]


async def test_who_does_not_read_cannot_hold_up_the_end_of_a_response(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("layerlore.server.access.open_requests.LAST_WORD_SECONDS", SOON)
    told, sent = Told(ana=ANA), []

    async def begun(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"a", "more_body": True})

    async def stuck(message: Any) -> None:
        sent.append(message)
        if message["type"] == "http.response.body":
            await anyio.sleep_forever()

    await _watched(told, begun, stuck)
    assert [message.get("body") for message in sent] == [None, b"a", b""]


async def _watched(told: Told, app: Any, send: Any) -> None:
    """A request whose credential is revoked as soon as it is being answered."""
    requests = OpenRequests(told, SOON)
    principal: Principal = told.principals.pop("ana")
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(requests.watch)
            await requests.serve("ana", principal, app, {"type": "http"}, anyio.sleep_forever, send)
            tasks.cancel_scope.cancel()
