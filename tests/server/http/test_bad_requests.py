"""Bad requests to a real server, on every transport and in both eras: each gets its answer, and the next one works."""

import json
import re
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from benchmarks.bad_requests import launch, run
from benchmarks.raw_requests import (
    HELLO,
    PATIENCE,
    Era,
    Tally,
    client_of,
    data_of,
    listening,
    look_at_end,
    messages,
    modern_headers,
    probe,
    request,
    spawned,
)

from ..bad_requests import BAD_URIS, REQUESTS, Bad

pytestmark = [pytest.mark.anyio, pytest.mark.programs]

Json = dict[str, Any]
Ask = Callable[[bytes, set[Any]], Awaitable[list[Json]]]


def body_of(bad: Bad, era: Era) -> bytes:
    if bad.method is None:
        return bad.body
    own = isinstance(bad.params, dict) and "_meta" in bad.params
    return request(bad.name, bad.method, bad.params, "legacy" if own else era)


def is_error(message: Json) -> bool:
    return "error" in message or message["result"].get("isError") is True


def right(bad: Bad, found: list[Json], *, http: bool) -> bool:
    """Whether this is what the case is to be answered with. Over HTTP the response says which request is meant."""
    ids = [message["id"] for message in found]
    match bad.answer:
        case "nothing":
            return not found or http
        case "error without id":
            return ids == [None] and is_error(found[0])
        case "error":
            return (ids == [bad.name] or (http and ids == [None])) and is_error(found[0])
    return ids == [bad.name] or (http and ids == [None])


@asynccontextmanager
async def on_stdio(folder: Path, era: Era) -> AsyncIterator[Ask]:
    server = launch(folder)
    tally = Tally()
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    async with spawned(server, server.stdio, **pipes) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        out = BufferedByteReceiveStream(process.stdout)

        async def ask(body: bytes, until: set[Any]) -> list[Json]:
            await process.stdin.send(body + b"\n")
            return await heard(lambda: out.receive_until(b"\n", 2**26), until)

        yield ask
        running = process.returncode is None
        await process.stdin.aclose()
        await process.wait()
    look_at_end(tally, process, server.log, running=running)
    assert tally.amiss() == {}


async def heard(receive: Callable[[], Awaitable[bytes]], until: set[Any]) -> list[Json]:
    """The answers that come up to those with these ids."""
    found: list[Json] = []
    while until:
        message = json.loads(await receive())
        if "method" not in message:
            found.append(message)
            until -= {message["id"]}
    return found


@asynccontextmanager
async def on_http(folder: Path, era: Era) -> AsyncIterator[Ask]:
    async with listening(launch(folder)) as server, client_of(server) as client:

        async def ask(body: bytes, until: set[Any]) -> list[Json]:
            found = []
            for part in filter(None, body.split(b"\n")):
                headers = modern_headers(part) if era == "modern" else {}
                answer = await client.post("/mcp", content=part, headers=headers)
                assert answer.status_code < 500, answer.text
                client.headers.update({k: v for k, v in answer.headers.items() if k == "mcp-session-id"})
                found += [message for message in messages(answer) if "method" not in message]
            return found

        yield ask
    assert server.tally.amiss() == {}


@asynccontextmanager
async def on_sse(folder: Path, era: Era) -> AsyncIterator[Ask]:
    async with (
        listening(launch(folder)) as server,
        client_of(server) as client,
        client.stream("GET", "/sse") as stream,
    ):
        events = data_of(stream)
        place = (await anext(events)).decode()

        async def ask(body: bytes, until: set[Any]) -> list[Json]:
            found = []
            for part in filter(None, body.split(b"\n")):
                answer = await client.post(place, content=part)
                assert answer.status_code < 500, answer.text
                found += messages(answer)
                if answer.status_code >= 400:  # this was the answer
                    until = {each for each in until if str(each).startswith("still there")}
            return found + await heard(lambda: anext(events), until - {message["id"] for message in found})

        yield ask
    assert server.tally.amiss() == {}


TRANSPORTS: dict[str, Callable[[Path, Era], AbstractAsyncContextManager[Ask]]] = {
    "stdio": on_stdio,
    "http": on_http,
    "sse": on_sse,
}


def test_there_are_a_hundred_and_fifty_of_them_and_two_hundred_uris() -> None:
    names = [bad.name for bad in REQUESTS]
    assert len(names) == len(set(names)) >= 150
    assert len(BAD_URIS) >= 200


@pytest.mark.parametrize(
    ("transport", "era"),
    [
        *(("http", "modern"), ("sse", "legacy"), ("stdio", "legacy")),
        *(pytest.param(*each, marks=pytest.mark.soak) for each in (("http", "legacy"), ("sse", "modern"))),
        pytest.param("stdio", "modern", marks=pytest.mark.soak),
    ],
)
async def test_each_of_them_is_answered_and_the_server_still_serves(transport: str, era: Era, tmp_path: Path) -> None:
    wrong = []
    async with TRANSPORTS[transport](tmp_path, era) as ask:
        opening = request("hello", "initialize", HELLO) if era == "legacy" else request("hello", "tools/list", {}, era)
        with anyio.fail_after(PATIENCE):
            await ask(opening, {"hello"})
        uris = BAD_URIS if transport == "stdio" else BAD_URIS[::10]
        for number, bad in enumerate((*REQUESTS, *uris), 1):
            good = probe(number, era)
            until = {f"still there {number}"} | ({bad.name} if bad.answer in ("error", "result or error") else set())
            found = []
            with anyio.move_on_after(PATIENCE):
                found = await ask(body_of(bad, era) + b"\n" + good, until)
            assert found, f"no answer to {bad.name!r}"
            still = [message for message in found if message["id"] == f"still there {number}"]
            assert "result" in still[0], (bad.name, found)
            found.remove(still[0])
            if not right(bad, found, http=transport != "stdio"):
                wrong.append((bad.name, bad.answer, str(found)[:200]))
            below = re.findall(r"failed unexpectedly|Traceback|root:x", str(found))
            assert not below, (bad.name, found)
    assert wrong == []


async def test_generated_ones_are_answered_on_every_transport_in_both_eras(
    tmp_path: Path, trials: Callable[..., range]
) -> None:
    drawn = trials(30, soak=10_000)
    total = Tally()
    for tally in (await run(tmp_path, len(drawn), seed=drawn[0])).values():
        total += tally
    assert total.amiss() == {}
    assert total.sent > len(drawn)
    assert total.answers - total.errors > len(drawn) // 12  # some of them are good
