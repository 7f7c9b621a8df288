"""The connection that hints go over on Postgres: what it says to whom, and that losing it harms nobody."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import asyncpg
import pytest

from layerlore.storage.core import installation
from layerlore.storage.core.records import Scope
from layerlore.storage.core.transaction import anybody
from layerlore.storage.drivers.postgres import hints
from layerlore.storage.drivers.postgres.database import PostgresDatabase
from layerlore.storage.drivers.postgres.hints import MOST_SCOPES, PostgresHints

from ...conformance.building import ANA, BEN, draft, new_scope, say
from ...conformance.listening import PATIENCE, Ear

pytestmark = pytest.mark.anyio

TERMINATE = """
    SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
    WHERE application_name = 'layerlore hints' AND usename = current_user
"""


@pytest.fixture(autouse=True)
def _no_long_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hints, "BATCH_SECONDS", 0.005)
    monkeypatch.setattr(hints, "FIRST_DELAY_SECONDS", 0.01)


@pytest.fixture
async def writer(postgres_url: str) -> AsyncIterator[PostgresDatabase]:
    database = await PostgresDatabase.open(postgres_url)
    yield database
    await database.close()


@pytest.fixture
async def listener(postgres_url: str) -> AsyncIterator[PostgresDatabase]:
    database = await PostgresDatabase.open(postgres_url)
    yield database
    await database.close()


@pytest.fixture
async def onlooker(postgres_url: str) -> AsyncIterator[Any]:
    """A connection of its own, as the same role."""
    connection = await asyncpg.connect(postgres_url)
    yield connection
    await connection.close()


class Wire:
    """Reads the notifications of a channel off the server."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self.payloads: list[str] = []
        self.arrived = asyncio.Event()

    async def tap(self, database: PostgresDatabase) -> None:
        await self._connection.add_listener(channel_of(database), self._take)

    def _take(self, _connection: Any, _pid: int, _channel: str, payload: str) -> None:
        self.payloads.append(payload)
        self.arrived.set()

    async def until(self, fulfilled: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE):
            while not fulfilled():
                self.arrived.clear()
                await self.arrived.wait()


def channel_of(database: PostgresDatabase) -> str:
    return database._hints._channel


async def settled(ear: Ear, writer: PostgresDatabase) -> None:
    """Both sides are connected, and nothing is on its way any more. What is told before the listener is connected never
    comes: it is said again."""
    heard = False
    async with asyncio.timeout(PATIENCE):
        while not heard:
            await say(writer, "main", draft())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE / 10):
                    await ear.until(lambda: any(concerns is not anybody and concerns(ANA) for concerns in ear.hints))
                    heard = True
    ear.forget()


async def test_a_hint_says_whose_commit_it_was_and_reaches_nobody_elses_installation(
    writer: PostgresDatabase, listener: PostgresDatabase
) -> None:
    ear = Ear()
    with listener.hints(ear):
        await settled(ear, writer)
        await say(writer, "main", draft(), scope=BEN)
        concerns = await ear.next()
        assert (concerns(BEN), concerns(ANA)) == (True, False)
    strange = PostgresHints("postgresql://nowhere", b"another key")
    assert strange._channel != channel_of(writer) == channel_of(listener)
    assert strange._digest_of(ANA) != writer._hints._digest_of(ANA)


async def test_what_is_sent_is_short_and_names_nobody(writer: PostgresDatabase, onlooker: Any) -> None:
    wire, scopes = Wire(onlooker), [new_scope() for _ in range(MOST_SCOPES + 1)]
    await wire.tap(writer)
    await say(writer, "secret-thread", draft("secret words"), scope=ANA)
    await wire.until(lambda: wire.payloads == [writer._hints._digest_of(ANA)])
    for scope in scopes[1:]:
        writer._hints.committed(scope)
    await wire.until(lambda: len(wire.payloads) == 2)
    assert set(wire.payloads[1].split(",")) == {writer._hints._digest_of(scope) for scope in scopes[1:]}
    assert len(wire.payloads[1]) < 8000
    # One more than fits, and nobody in particular: everybody looks.
    for scope in scopes:
        writer._hints.committed(scope)
    await wire.until(lambda: len(wire.payloads) == 3)
    writer._hints.committed(None)
    await wire.until(lambda: len(wire.payloads) == 4)
    assert wire.payloads[2:] == ["", ""]
    assert all(set(payload) <= set("0123456789abcdef,") for payload in wire.payloads)


async def test_a_burst_of_commits_is_a_few_notifications(
    writer: PostgresDatabase, onlooker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = Wire(onlooker)
    await wire.tap(writer)
    await say(writer, "main", draft())
    await wire.until(lambda: writer._hints._digest_of(ANA) in wire.payloads)
    monkeypatch.setattr(hints, "BATCH_SECONDS", 0.2)
    for _ in range(1000):
        writer._hints.committed(ANA)
        await asyncio.sleep(0)
    writer._hints.committed(None)
    await wire.until(lambda: "" in wire.payloads)
    assert len(wire.payloads) <= 4


async def test_a_terminated_connection_comes_back_and_then_everything_is_looked_at(
    writer: PostgresDatabase, listener: PostgresDatabase, onlooker: Any, caplog: pytest.LogCaptureFixture
) -> None:
    ear = Ear()
    with listener.hints(ear):
        await settled(ear, writer)
        for _ in range(3):
            # A connection that comes back on a busy machine is not there at once.
            terminated: list[Any] = []
            while len(terminated) < 2:
                terminated += await onlooker.fetch(TERMINATE)
            # Nobody's write minds, and who listens is told to look once it can hear again.
            await say(writer, "main", draft())
            await ear.until(lambda: anybody in ear.hints)
            await settled(ear, writer)
    told = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert told
    assert all(text.startswith("no connection for change hints (") for text in told)


async def test_while_there_is_no_connection_writes_go_on_and_what_they_say_follows(
    listener: PostgresDatabase,
    postgres_url: str,
    onlooker: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    refused = 0

    async def refuse(*_: Any, **__: Any) -> Any:
        nonlocal refused
        refused += 1
        raise ConnectionRefusedError(111, f"Connection refused: {postgres_url}")

    writer, ear = await PostgresDatabase.open(postgres_url), Ear()
    wire = Wire(onlooker)
    await wire.tap(writer)
    with monkeypatch.context() as away:
        away.setattr(asyncpg, "connect", refuse)
        with writer.hints(ear):
            for _ in range(30):
                await say(writer, "main", draft())
                await asyncio.sleep(0.005)
            assert sum(concerns(ANA) for concerns in ear.hints) >= 30
        assert refused >= 2
        assert wire.payloads == []
    await wire.until(lambda: writer._hints._digest_of(ANA) in wire.payloads)
    await writer.close()
    # Said once, and nothing of the URL.
    (record,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert record.getMessage() == "no connection for change hints (ConnectionRefusedError); connecting again"
    assert record.exc_info is None


async def test_what_could_not_be_sent_is_sent_later_and_as_everybody_if_it_has_become_too_much(
    writer: PostgresDatabase, onlooker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    meanwhile: list[Scope] = []
    lost = asyncio.Event()
    execute = asyncpg.Connection.execute

    async def fail_once(connection: Any, query: str, *arguments: Any, **options: Any) -> str:
        if "pg_notify" in query and not lost.is_set():
            lost.set()
            for scope in meanwhile:
                writer._hints.committed(scope)
            raise ConnectionResetError
        return await execute(connection, query, *arguments, **options)

    wire = Wire(onlooker)
    await wire.tap(writer)
    monkeypatch.setattr(asyncpg.Connection, "execute", fail_once)
    await say(writer, "main", draft())
    await wire.until(lambda: bool(wire.payloads))
    assert (lost.is_set(), wire.payloads) == (True, [writer._hints._digest_of(ANA)])
    lost.clear()
    meanwhile = [new_scope() for _ in range(MOST_SCOPES)]
    await say(writer, "main", draft())
    await wire.until(lambda: len(wire.payloads) == 2)
    assert wire.payloads[1] == ""


async def test_closing_ends_in_time_while_the_server_cannot_be_reached(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(*_: Any, **__: Any) -> Any:
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncpg, "connect", hang)
    writer = await PostgresDatabase.open(postgres_url)
    with writer.hints(Ear()):
        await say(writer, "main", draft())
        async with asyncio.timeout(hints.FLUSH_SECONDS + 0.5):
            await writer.close()


async def test_a_connection_that_died_without_a_word_is_found_out_and_replaced(
    listener: PostgresDatabase, writer: PostgresDatabase, onlooker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ear, request = Ear(), asyncio.Event()
    execute = asyncpg.Connection.execute

    async def pids() -> set[int]:
        found = await onlooker.fetch("SELECT pid FROM pg_stat_activity WHERE application_name = 'layerlore hints'")
        return {row["pid"] for row in found}

    async def dead(connection: Any, query: str, *arguments: Any, **options: Any) -> str:
        if query == "SELECT 1" and not request.is_set():
            request.set()
            raise TimeoutError
        return await execute(connection, query, *arguments, **options)

    monkeypatch.setattr(hints, "HEARTBEAT_SECONDS", 0.2)
    with listener.hints(ear):
        await settled(ear, writer)
        before = await pids()
        monkeypatch.setattr(asyncpg.Connection, "execute", dead)
        async with asyncio.timeout(PATIENCE):
            await request.wait()
        ear.forget()
        await ear.until(lambda: anybody in ear.hints)
        await settled(ear, writer)
        assert await pids() - before


async def test_everything_is_looked_at_now_and_then_in_case_notifications_do_not_come(
    listener: PostgresDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hints, "HEARTBEAT_SECONDS", 0.02)
    ear = Ear()
    with listener.hints(ear):
        await ear.until(lambda: len(ear.hints) >= 5)
    assert set(ear.hints) == {anybody}


async def test_a_process_that_only_reads_has_no_such_connection(listener: PostgresDatabase, onlooker: Any) -> None:
    await listener.read_installation(installation.hmac_key)
    assert await onlooker.fetch(TERMINATE) == []
