"""Two versions on one store: the newer one migrates while the older one runs, and nothing that was acknowledged is lost."""

import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from launch_environment import own_environment
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from layerlore.storage.drivers.migrations.runner import latest_version

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning"), pytest.mark.programs]

ROOT = Path(__file__).parents[3]


ANOTHER_STEP = "CREATE TABLE extra (a TEXT);\n"


@pytest.fixture(scope="module")
def after(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the source tree with one more migration."""
    try:
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode()
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("there is no list of the files to copy")
    folder = tmp_path_factory.mktemp("after")
    for name in listed.split("\0"):
        source, target = ROOT / name, folder / name
        if name and (source.is_symlink() or source.is_file()):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
    migrations = folder / "storage" / "drivers" / "migrations"
    for kind in ("sqlite", "postgres"):
        (migrations / f"{latest_version(kind) + 1:04}_another.{kind}.sql").write_text(ANOTHER_STEP)
    return folder


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store in a file that is not there yet, or an empty one on Postgres, as its owner has it."""
    if request.param == "sqlite":
        return f"sqlite://{tmp_path / 'memory.db'}"
    return str(request.getfixturevalue("empty_postgres_url"))


def launched(database: str, data: Path, tree: Path | None = None) -> StdioServerParameters:
    """A server of the tree, or of this one."""
    path = {"PYTHONPATH": str(tree / ".dev")} if tree else {}
    environ = own_environment(
        LAYERLORE_DATABASE=database,
        LAYERLORE_DATA_DIR=str(data),
        LAYERLORE_LOCAL__SHARE="false",
        LAYERLORE_EMBEDDING__EMBEDDER="none",
        **path,
    )
    return StdioServerParameters(command=sys.executable, args=["-m", "layerlore"], env=environ)


@asynccontextmanager
async def serving(database: str, data: Path, tree: Path | None = None) -> AsyncIterator[Client]:
    async with Client(stdio_client(launched(database, data, tree)), mode="legacy") as client:
        yield client


async def add(client: Client, text: str) -> bool:
    """Whether it was acknowledged; what refuses it says so in a sentence."""
    added = await client.call_tool("add_messages", {"messages": [{"role": "user", "content": text}], "thread_id": "t"})
    assert "Traceback" not in str(added.content)
    return not added.is_error


async def said(client: Client) -> list[str]:
    page: Any = await client.call_tool("get_messages", {"thread_id": "t", "format": "json", "limit": 100})
    return [each["parts"][0]["text"] for each in page.structured_content["messages"]]


async def test_the_newer_version_migrates_while_the_older_one_runs_and_nothing_is_lost(
    database: str, after: Path, tmp_path: Path
) -> None:
    acknowledged = []
    async with serving(database, tmp_path / "old") as older:
        assert await add(older, "of the older one")
        acknowledged.append("of the older one")
        async with serving(database, tmp_path / "new", after) as newer:
            assert await add(newer, "of the newer one")
            acknowledged.append("of the newer one")
            acknowledged += ["of the older one again"] if await add(older, "of the older one again") else []
            assert await said(newer) == acknowledged
    async with serving(database, tmp_path / "new", after) as newer:
        assert await said(newer) == acknowledged


# That either database refuses: tests/storage/drivers/test_migrations.py.
@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
async def test_the_older_version_refuses_a_newer_store_in_a_sentence_and_leaves_it_alone(
    database: str, after: Path, tmp_path: Path
) -> None:
    async with serving(database, tmp_path / "new", after) as newer:
        assert await add(newer, "of the newer one")
    launch = launched(database, tmp_path / "old")
    doctor = subprocess.run(
        [launch.command, *launch.args, "doctor"], env=launch.env, capture_output=True, text=True, check=False
    )
    assert doctor.returncode != 0
    assert "newer" in doctor.stdout + doctor.stderr
    assert "Traceback" not in doctor.stdout + doctor.stderr
    async with serving(database, tmp_path / "new", after) as newer:
        assert await said(newer) == ["of the newer one"]
