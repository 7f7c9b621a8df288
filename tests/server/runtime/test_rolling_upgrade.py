"""The release before this one and this program serve at once, while replicas and hosts are replaced one by one."""

import io
import random
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from benchmarks.histories.client import Replicas
from benchmarks.histories.fleet import Replica, running
from benchmarks.histories.run import Load, count_operations, run
from benchmarks.servers import ours
from layerlore.server.process.version import VERSION

from ..shared_machine import PATIENCE, Machine

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning"), pytest.mark.programs]

ROOT = Path(__file__).parents[3]
MIGRATIONS = "storage/drivers/migrations"
EARLIER_VERSION = "0.0.1"
"""Where both programs have one version, the wheel gets this one: a newer program takes over from an older one by it."""


def git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=False)


def earlier_commit() -> str:
    """The commit of the last tag before this one.

    Until there is a tag: the commit that has last changed the tables. Up to the first release one baseline is edited in
    place, so that commit is the oldest program that can share a database with this one. Nothing needs to be moved on.
    """
    if git("rev-parse", "--is-shallow-repository").stdout != b"false\n":
        pytest.skip("the history of the program is not here: it takes a whole clone")
    tagged = git("describe", "--tags", "--abbrev=0", "--match", "v[0-9]*", "HEAD^")
    if tagged.returncode == 0:
        return tagged.stdout.decode().strip()
    if git("diff", "--quiet", "HEAD", "--", MIGRATIONS).returncode:
        pytest.skip("the tables are being edited, and no commit has them yet")
    return git("log", "-1", "--format=%H", "HEAD", "--", MIGRATIONS).stdout.decode().strip()


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder where the earlier program's wheel is unpacked. It runs with the packages that are installed here."""
    folder = tmp_path_factory.mktemp("earlier")
    packed = git("archive", "--format=zip", earlier_commit())
    assert packed.returncode == 0, packed.stderr
    zipfile.ZipFile(io.BytesIO(packed.stdout)).extractall(folder / "source")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=folder / "source", check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    site = folder / "site"
    zipfile.ZipFile(wheel).extractall(site)
    named = site / "layerlore" / "server" / "process" / "version.py"
    named.write_text(
        named.read_text(encoding="utf-8").replace(f'"{VERSION}"', f'"{EARLIER_VERSION}"'), encoding="utf-8"
    )
    return site


async def ask(replica: Replica) -> Any:
    """The status that a replica answers with."""
    replicas = Replicas([f"{replica.url}/mcp"], PATIENCE, random.Random(1))
    status = await replicas.call("memory_status")
    await replicas.close()
    return status


async def more_operations(folder: Path) -> None:
    """Return when the clients have done a few more."""
    target = count_operations(folder) + 20
    with anyio.fail_after(PATIENCE):
        while count_operations(folder) < target:
            await anyio.sleep(0.01)


async def background_work_done(replica: Replica) -> Any:
    """The jobs of the status, once all is extracted; jobs for a model wait on."""
    with anyio.fail_after(PATIENCE):
        while True:
            jobs = (await ask(replica))["jobs"]
            if "digest" not in {each["kind"] for each in jobs["waiting"]}:
                return jobs
            await anyio.sleep(0.1)


@pytest.fixture(params=[pytest.param("sqlite", marks=pytest.mark.soak), "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store in a file that is not there yet, or an empty one on Postgres."""
    if request.param == "sqlite":
        return f"sqlite://{tmp_path / 'memory.db'}"
    return str(request.getfixturevalue("empty_postgres_url"))


async def test_replicas_are_replaced_one_by_one_and_clients_lose_nothing(
    database: str, earlier: Path, tmp_path: Path
) -> None:
    settings = {"EMBEDDING__EMBEDDER": "none", "OBSERVATION__MESSAGE_TOKENS": "500"}
    now = ours(tmp_path, database=database, **settings)
    before = replace(now, settings={**now.settings, "PYTHONPATH": str(earlier)})
    versions = []

    async def replace_all(replicas: list[Replica]) -> None:
        await more_operations(tmp_path)
        for replica in replicas:
            versions.append((await ask(replica))["version"])
            await replica.replace(now)
            await more_operations(tmp_path)
            versions.append((await ask(replica))["version"])

    history = await run([before] * 2, Load(processes=1, clients=3, operations=100_000), tmp_path, replace_all)
    assert history.faults == []
    assert history.errors == []
    assert versions == [EARLIER_VERSION, VERSION] * 2
    async with running([now]) as (replica,):
        jobs = await background_work_done(replica)
    assert "failing" not in jobs
    assert "dead" not in jobs
    assert "Traceback" not in now.log.read_text(encoding="utf-8")


async def test_hosts_of_the_earlier_program_go_on_beside_a_newer_one_that_takes_over_their_server(
    earlier: Path,
) -> None:
    acknowledged: dict[str, list[str]] = {"first": [], "second": []}
    with tempfile.TemporaryDirectory(prefix="layerlore-") as folder:  # short enough for a socket's address
        machine = Machine(Path(folder) / "data")

        async def add(client: Client, thread: str, text: str) -> None:
            messages = [{"role": "user", "content": text}]
            with anyio.fail_after(PATIENCE):
                added = await client.call_tool("add_messages", {"thread_id": thread, "messages": messages})
            assert not added.is_error, added.content
            acknowledged[thread].append(text)

        async def said(client: Client, thread: str) -> list[str]:
            page: Any = await client.call_tool("get_messages", {"thread_id": thread, "format": "json", "limit": 200})
            return [each["parts"][0]["text"] for each in page.structured_content["messages"]]

        async def call_until(done: anyio.Event, client: Client, thread: str) -> None:
            while not done.is_set():
                await add(client, thread, f"{thread} {len(acknowledged[thread])}")

        try:
            old = {"PYTHONPATH": str(earlier)}
            async with machine.host(variables=old) as first, machine.host(variables=old, mode="auto") as second:
                await add(first, "first", "before")
                assert [told["version"] for told in machine.servers()] == [EARLIER_VERSION]
                done = anyio.Event()
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(call_until, done, first, "first")
                    tasks.start_soon(call_until, done, second, "second")
                    async with machine.host() as newer:
                        await add(newer, "first", "of the newer one")
                        await add(first, "first", "of the earlier one beside it")
                    done.set()
            # Hosts of the earlier program may have started a server of theirs again: it leaves once they have left.
            async with machine.host() as newer:
                assert [told["version"] for told in machine.servers()] == [VERSION]
                listed: Any = await newer.call_tool("list_threads", {})
                counts = {each["thread_id"]: each["messages"] for each in listed.structured_content["threads"]}
                assert counts == {thread: len(texts) for thread, texts in acknowledged.items()}
                assert set(await said(newer, "first")) <= set(acknowledged["first"])
                assert await said(newer, "second") == acknowledged["second"][-200:]
        finally:
            machine.stop()
