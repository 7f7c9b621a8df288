"""``layerlore erase``: it asks, it erases while servers run, and what a crash interrupts the next start finishes."""

import io
import json
import re
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from sqlalchemy import text

from layerlore.conformance.seeing_all import see_all
from layerlore.server.runtime.engines import close_engine, open_engine
from layerlore.server.runtime.tool_server import build_server
from layerlore.server.settings.settings import Settings, load_settings
from layerlore.storage.core.transaction import Tx

from ..subscribing import LIST, MAIN, PATIENCE, PROFILE, STATUS, THREADS, subscriber
from .test_command_line import Cli, program

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning"), pytest.mark.programs]

Json = dict[str, Any]
Run = Callable[..., Awaitable[tuple[int, str, str]]]
ANA = "ana@example.test"


class Answering(io.StringIO):
    """A terminal at which somebody types."""

    def isatty(self) -> bool:
        return True


def settings_of(url: str, **flags: Any) -> Settings:
    given = {"database": url, "resource": ANA, "toolsets": "all", "embedding": {"embedder": "none"}, **flags}
    return load_settings(given, environ={})


async def call(client: Client, tool: str, **arguments: Any) -> Json:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.structured_content or {}


async def fill(url: str, *, messages: int = 3, **flags: Any) -> None:
    """Two conversations and a profile."""
    async with Client(build_server(settings_of(url, **flags))) as client:
        for thread in ("harbour", "island"):
            for start in range(0, messages, 100):
                few = [
                    {"role": "user", "content": f"quokka w{number}zyx"}
                    for number in range(start, min(start + 100, messages))
                ]
                await call(client, "add_messages", thread_id=thread, messages=few)
        await call(client, "update_working_memory", scope="resource", content="likes quokkas")


async def stored(url: str) -> list[str]:
    """All rows of the tables that hold what was said, and by whom."""

    async def read(tx: Tx) -> list[str]:
        await see_all(tx)
        names = ("threads", "messages", "user_profiles", "resource_events", "resources", "jobs")
        return [repr(tuple(row)) for name in names for row in await tx.all(text(f"SELECT * FROM {name}"))]

    engine = await open_engine(settings_of(url))
    try:
        return await engine.database.read_installation(read)
    finally:
        await close_engine(engine)


@pytest.fixture
def run(cli: Cli) -> Run:
    """The command line, in a thread with a loop of its own."""
    return lambda *arguments: anyio.to_thread.run_sync(lambda: cli(*arguments))


async def test_everything_of_somebody_is_erased_with_a_receipt(run: Run, database_url: str) -> None:
    await fill(database_url)
    await fill(database_url, agent="coach")
    await fill(database_url, resource="ben")
    kept = [row for row in await stored(database_url) if "'ben'" in row]
    code, out, err = await run("erase", "--database", database_url, "--resource", ANA, "--yes", "--json")
    receipt = json.loads(out)
    assert (code, err) == (0, "")
    assert receipt["asked"] == {"tenant": "local", "resource": ANA}
    assert (receipt["counts"]["messages"], receipt["counts"]["threads"], receipt["dry_run"]) == (12, 4, False)
    assert receipt["rows"] == sum(receipt["counts"].values())
    assert receipt["bytes"] == ("erased" if database_url.startswith("sqlite") else "vacuum")
    assert ANA not in json.dumps({name: value for name, value in receipt.items() if name != "asked"})
    assert await stored(database_url) == kept
    code, out, err = await run("erase", "--database", database_url, "--resource", ANA, "--yes")
    assert (code, err) == (0, "")
    assert out == f"nothing is stored for resource '{ANA}' of tenant 'local' with all agents\n"


async def test_that_it_was_asked_for_is_in_the_journal_also_if_nothing_was_kept(run: Run, database_url: str) -> None:
    await run("migrate", "--database", database_url)
    await run("erase", "--database", database_url, "--resource", ANA, "--yes")
    journal = await run("journal", "--database", database_url, "--resource", ANA, "--json")
    line = json.loads(journal[1])
    assert (line["tool"], line["outcome"], line["counts"], line["agent"]) == ("erase", "done", {}, "")


async def test_only_an_agents_or_a_conversation_or_another_tenants(run: Run, database_url: str) -> None:
    await fill(database_url)
    await fill(database_url, agent="coach")
    where = ("erase", "--database", database_url, "--resource", ANA, "--yes", "--json")
    assert json.loads((await run(*where, "--tenant", "another"))[1])["rows"] == 0
    assert json.loads((await run(*where, "--thread", "nowhere"))[1])["rows"] == 0
    receipt = json.loads((await run(*where, "--agent", "coach", "--thread", "island"))[1])
    assert receipt["asked"] == {"tenant": "local", "resource": ANA, "agent": "coach", "thread": "island"}
    assert (receipt["counts"]["threads"], receipt["counts"]["messages"]) == (1, 3)
    assert json.loads((await run(*where, "--thread", "harbour"))[1])["counts"]["threads"] == 2
    assert json.loads((await run(*where, "--agent", "coach"))[1])["counts"].get("threads") is None
    assert json.loads((await run(*where))[1])["counts"]["threads"] == 1
    assert await stored(database_url) == []


async def test_a_dry_run_tells_the_same_and_changes_no_byte(run: Run, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/memory.db"
    await fill(url)
    await run("migrate", "--database", url)
    before = (tmp_path / "memory.db").read_bytes()
    where = ("erase", "--database", url, "--resource", ANA)
    code, out, err = await run(*where, "--dry-run")
    assert (code, err) == (0, "")
    assert out.startswith(f"would be erased, for resource '{ANA}' of tenant 'local' with all agents:\n")
    assert re.search(r"^ +6  messages$", out, re.M)
    assert (tmp_path / "memory.db").read_bytes() == before
    dry = json.loads((await run(*where, "--dry-run", "--json"))[1])
    done = json.loads((await run(*where, "--yes", "--json"))[1])
    assert done["counts"] == dry["counts"]
    assert "bytes" not in dry


async def test_it_asks_first_and_takes_nothing_but_a_yes(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/memory.db"
    await fill(url)
    before = await stored(url)
    where = ("erase", "--database", url, "--resource", ANA)
    for answer in ("n\n", "\n", "", "yesterday\n"):
        monkeypatch.setattr(sys, "stdin", Answering(answer))
        code, out, err = await run(*where)
        assert (code, out) == (1, "")
        assert f"for resource '{ANA}' of tenant 'local' with all agents. Continue? [y/N] " in err
        assert "6  messages" in err
        assert err.endswith("layerlore: nothing was erased\n")
        assert await stored(url) == before
    monkeypatch.setattr(sys, "stdin", Answering("y\n"))
    code, out, _ = await run(*where)
    assert code == 0
    assert out.startswith(f"erased, for resource '{ANA}'")
    assert "no byte of it is left there" in out
    assert await stored(url) == []


async def test_without_a_terminal_and_without_yes_it_refuses(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/memory.db"
    await fill(url)
    refused = await anyio.to_thread.run_sync(lambda: program("erase", "--database", url, "--resource", ANA))
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith(
        "layerlore: erase asks before it erases, and there is no terminal to ask at: use --yes"
    )
    assert await stored(url)
    nobody = await anyio.to_thread.run_sync(lambda: program("erase", "--database", url, "--resource", "nobody"))
    assert (nobody.returncode, nobody.stderr) == (0, "")
    assert nobody.stdout.startswith("nothing is stored for resource 'nobody'")


async def test_what_cannot_be_erased_is_said_in_one_line(run: Run, tmp_path: Path) -> None:
    nowhere = ("--database", f"sqlite:///{tmp_path}/nothing.db")
    code, out, err = await run("erase", *nowhere, "--resource", ANA, "--yes")
    assert (code, out) == (1, "")
    assert err.startswith("layerlore: there is nothing to erase: there is no database at ")
    assert not (tmp_path / "nothing.db").exists()
    assert (await run("erase", *nowhere, "--yes"))[0] == 2
    await fill(f"sqlite:///{tmp_path}/memory.db")
    code, _, err = await run("erase", "--data-dir", str(tmp_path), "--resource", "a\nb", "--yes")
    assert (code, err.count("\n")) == (1, 1)
    assert err.startswith("layerlore: resource: character 1 is the control character")
    code, _, err = await run("erase", "--data-dir", str(tmp_path), "--resource", ANA, "--tenant", "", "--yes")
    assert (code, err) == (1, "layerlore: --tenant: must not be empty; 1 to 255 characters are allowed\n")


async def test_servers_and_subscribers_learn_of_it(run: Run, database_url: str) -> None:
    uris = [MAIN["messages"], PROFILE, THREADS, STATUS]
    async with (
        subscriber(build_server(settings_of(database_url)), "modern", uris, lists=True) as watching,
        Client(build_server(settings_of(database_url))) as other,
    ):
        await watching.say("main", "a quokka")
        await watching.until(MAIN["messages"], THREADS, STATUS, LIST)
        await call(other, "update_working_memory", scope="resource", content="likes quokkas")
        await watching.until(PROFILE)
        await anyio.sleep(0)
        arguments = ("erase", "--database", database_url, "--resource", ANA, "--yes", "--json")
        process = await anyio.to_thread.run_sync(lambda: program(*arguments))
        assert process.returncode == 0, process.stderr
        assert json.loads(process.stdout)["counts"]["messages"] == 1
        listed = await call(other, "list_threads")
        assert listed["threads"] == []
        await watching.until(MAIN["messages"], PROFILE, THREADS, STATUS, LIST)


KILLED = """
import asyncio, os, signal, sys
from layerlore.memory.removal import erasure
from layerlore.server.runtime.engines import open_engine
from layerlore.server.settings.settings import load_settings
from layerlore.storage.removal import erasure as stored
from layerlore.storage.core.records import Origin, Tenant

async def main(url, resource, portions):
    engine = await open_engine(load_settings({"database": url, "embedding": {"embedder": "none"}}, environ={}))
    write, count = engine.database.write, 0

    async def counted(function, *args, **kwargs):
        nonlocal count
        if function is stored.purge:
            count += 1
            if count > portions:
                os.kill(os.getpid(), signal.SIGKILL)
            kwargs["most"] = 50
        return await write(function, *args, **kwargs)

    engine.database.write = counted
    await erasure.erase(engine, Tenant("local"), resource, origin=Origin("test", "erase"))

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


@pytest.mark.parametrize("portions", [pytest.param(0, marks=pytest.mark.soak), 3])
async def test_an_erasure_that_was_killed_is_hidden_and_finished_by_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, portions: int, database_url: str
) -> None:
    await fill(database_url, messages=100)
    await fill(database_url, resource="ben")
    kept = [row for row in await stored(database_url) if "'ben'" in row]
    command = [sys.executable, "-c", KILLED, database_url, ANA, str(portions)]
    ended = await anyio.run_process(command, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    halfway = [row for row in await stored(database_url) if row not in kept]
    assert any(ANA in row for row in halfway)
    monkeypatch.setattr("layerlore.server.runtime.upkeep.ERASE_EVERY_SECONDS", 0.05)

    async with Client(build_server(settings_of(database_url))) as client:
        assert (await call(client, "list_threads"))["threads"] == []
        profile = (await client.call_tool("get_working_memory", {"scope": "resource"})).content
        assert "quokka" not in repr(profile)
        with anyio.fail_after(PATIENCE):
            while any(ANA in row for row in await stored(database_url)):
                await anyio.sleep(0.02)
            while words_on_disk(tmp_path) - {b"w0zyx", b"w1zyx", b"w2zyx"}:
                await anyio.sleep(0.02)


def words_on_disk(folder: Path) -> set[bytes]:
    return {word for path in folder.glob("memory.db*") for word in re.findall(rb"w[0-9]+zyx", path.read_bytes())}
