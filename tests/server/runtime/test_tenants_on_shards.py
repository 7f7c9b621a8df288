"""A server whose tenants are on two clusters, through its tools and its commands."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client

from layerlore.memory.embedding.sentence_encoder import UseEmbedder
from layerlore.server.runtime.engines import close_engine, open_engine
from layerlore.server.runtime.tool_server import build_server
from layerlore.server.settings.settings import Settings, SettingsError, load_settings
from layerlore.storage.core.records import Scope
from layerlore.storage.drivers.maintenance import ClusterUrls, move_tenant
from layerlore.storage.index import vectors

from ..conftest import Cli
from ..tools.calling import Tools

pytestmark = pytest.mark.anyio

PATIENCE = 120.0  # seconds: only a hang takes so long
OWNER = Scope("local", "default", "default")


@pytest.fixture
def file(clusters: dict[str, str], tmp_path: Path) -> Path:
    """A settings file that names both clusters."""
    file = tmp_path / "layerlore.toml"
    file.write_text(
        f'database = "{clusters[""]}"\n[[shards]]\nname = "eu"\nurl = "{clusters["eu"]}"\n', encoding="utf-8"
    )
    return file


@pytest.fixture
def operate(cli: Cli, file: Path, tmp_path: Path) -> Callable[..., Awaitable[tuple[int, str, str]]]:
    """Calls the command line, which has a loop of its own."""

    async def call(*arguments: str) -> tuple[int, str, str]:
        return await asyncio.to_thread(cli, "--config", str(file), "--data-dir", str(tmp_path), *arguments)

    return call


def settings_of(file: Path, **flags: Any) -> Settings:
    return load_settings({"toolsets": "all", "embedding": {"embedder": "none"}, **flags}, config=str(file), environ={})


async def until(look: Callable[[], Awaitable[bool]]) -> None:
    with anyio.fail_after(PATIENCE):
        while not await look():
            await anyio.sleep(0.05)


async def test_an_operator_sees_where_a_tenant_is_and_moves_it(
    operate: Callable[..., Awaitable[tuple[int, str, str]]], file: Path
) -> None:
    async with Client(build_server(settings_of(file))) as client:
        await Tools(client).say("main", "the walrus waits")
    code, out, _ = await operate("tenants", "list", "--json")
    (before,) = json.loads(out)["tenants"]
    assert (code, before["tenant"], before["cluster"]) == (0, "local", "home")
    assert before["bytes"] > 0
    code, out, err = await operate("tenants", "move", "local", "eu")
    assert (code, err, out.splitlines()[-1]) == (0, "", "local is on eu")
    code, out, _ = await operate("tenants", "list", "--json")
    assert json.loads(out)["tenants"] == [{**before, "cluster": "eu"}]
    async with Client(build_server(settings_of(file))) as client:
        assert await Tools(client).texts("main") == ["the walrus waits"]


async def test_the_list_shows_a_tenant_whose_move_broke_off_after_its_decision(
    operate: Callable[..., Awaitable[tuple[int, str, str]]],
    clusters: dict[str, str],
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def break_off(step: str) -> None:
        if step == "decided":
            raise KeyError(step)

    async with Client(build_server(settings_of(file))) as client:
        await Tools(client).say("main", "the walrus waits")
    with pytest.raises(KeyError):
        await move_tenant({name: ClusterUrls(url, url) for name, url in clusters.items()}, "local", "eu", break_off)
    monkeypatch.setattr("layerlore.storage.drivers.postgres.sharded.RETRY_DEADLINE", 0.1)
    code, out, err = await operate("tenants", "list", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["tenants"] == [{"tenant": "local", "cluster": "eu", "bytes": None, "also_on": ["home"]}]
    assert "not served" in (await operate("tenants", "list"))[1]


@pytest.mark.parametrize("names", [("", "eu"), ("x" * 300, "eu"), ("local", "")])
async def test_a_move_with_a_name_that_cannot_be_is_refused(
    operate: Callable[..., Awaitable[tuple[int, str, str]]], names: tuple[str, str]
) -> None:
    code, _, err = await operate("tenants", "move", *names)
    assert code == 1
    assert "allowed" in err


async def test_the_doctor_finds_a_url_that_is_another_clusters(
    operate: Callable[..., Awaitable[tuple[int, str, str]]], clusters: dict[str, str], file: Path
) -> None:
    async with Client(build_server(settings_of(file))) as client:
        await Tools(client).say("main", "the walrus waits")
    file.write_text(file.read_text(encoding="utf-8").replace(clusters["eu"], clusters[""]), encoding="utf-8")
    _, out, _ = await operate("doctor", "--json")
    (found,) = [finding for finding in json.loads(out)["findings"] if finding["section"] == "shards"]
    assert found["state"] == "failed"
    assert "it is the cluster home" in found["value"]


async def test_a_move_without_shards_or_to_an_unknown_one_says_what_is_there(
    operate: Callable[..., Awaitable[tuple[int, str, str]]], cli: Cli, tmp_path: Path
) -> None:
    code, _, err = await operate("tenants", "move", "local", "mars")
    assert (code, err) == (1, "layerlore: there is no shard 'mars'; there are: home, eu\n")
    code, _, err = await asyncio.to_thread(cli, "--data-dir", str(tmp_path), "tenants", "move", "local", "eu")
    assert (code, "the settings name no [[shards]]" in err) == (1, True)


async def test_a_server_that_knows_of_no_shard_keeps_a_tenant_from_moving(
    operate: Callable[..., Awaitable[tuple[int, str, str]]], clusters: dict[str, str], tmp_path: Path
) -> None:
    flags = {"database": clusters[""], "embedding": {"embedder": "none"}, "data_dir": str(tmp_path)}
    async with Client(build_server(load_settings(flags, environ={}))) as client:
        await Tools(client).say("main", "the walrus waits")
        code, _, err = await operate("tenants", "move", "local", "eu")
        assert code == 1
        assert "connections to the home cluster are of servers that know of no other cluster: restart them" in err


async def test_vectors_of_a_tenant_are_made_on_its_cluster(
    operate: Callable[..., Awaitable[tuple[int, str, str]]], file: Path
) -> None:
    await operate("tenants", "move", "local", "eu")
    settings = settings_of(file, embedding={"embedder": "use"})
    engine = await open_engine(settings)
    _, shard = engine.database.clusters

    async def are_made() -> bool:
        found = await shard.read_installation(vectors.progress_everywhere, UseEmbedder().name)
        return 0 < found.total == found.done

    try:
        async with Client(build_server(settings)) as client:
            await Tools(client).say("main", "the walrus waits at the gate for its fish")
            await until(are_made)
            recalled = await Tools(client)("recall_memory", query="which animal waits?")
            assert "walrus" in str(recalled)
    finally:
        await close_engine(engine)


@pytest.fixture
def road(clusters: dict[str, str], file: Path, tmp_path: Path) -> Path:
    """A link to the folder of the shard's socket, by which the settings reach it: without the link its server is away."""
    folder = clusters["eu"].rpartition("host=")[2]
    link = tmp_path / "road"
    link.symlink_to(folder)
    file.write_text(file.read_text(encoding="utf-8").replace(folder, str(link)), encoding="utf-8")
    return link


async def test_a_server_starts_without_a_shard_and_uses_it_once_it_is_back(
    operate: Callable[..., Awaitable[tuple[int, str, str]]], file: Path, road: Path
) -> None:
    await operate("tenants", "move", "local", "eu")
    folder = road.readlink()
    road.unlink()
    async with Client(build_server(settings_of(file))) as client:
        tools = Tools(client)
        said = {"messages": [{"role": "user", "content": "the walrus waits"}], "thread_id": "main"}
        assert "shard 'eu': cannot connect to Postgres" in await tools.refused("add_messages", **said)
        road.symlink_to(folder)

        async def is_back() -> bool:
            return not (await tools.raw("add_messages", **said)).is_error

        await until(is_back)
        assert await tools.texts("main") == ["the walrus waits"]


async def test_a_shard_that_is_away_keeps_nobody_else_from_their_memory(
    operate: Callable[..., Awaitable[tuple[int, str, str]]], file: Path, road: Path
) -> None:
    await operate("tenants", "move", "acme", "eu")
    road.unlink()
    async with Client(build_server(settings_of(file))) as client:
        await Tools(client).say("main", "the walrus waits")
        assert await Tools(client).texts("main") == ["the walrus waits"]
    code, out, err = await operate("tenants", "list", "--json")
    assert (code, [row["tenant"] for row in json.loads(out)["tenants"]]) == (1, ["local"])
    assert "left out: shard 'eu': cannot connect to Postgres" in err
    assert (await operate("keys", "list"))[0] == 0
    for command in (("jobs", "--all-tenants"), ("journal",), ("reindex",)):
        code, out, err = await operate(*command)
        assert (code, "left out: shard 'eu'" in err, bool(out)) == (1, True, True), command


async def test_a_shard_with_a_wrong_url_keeps_a_server_from_starting(
    operate: Callable[..., Awaitable[tuple[int, str, str]]], clusters: dict[str, str], file: Path
) -> None:
    await operate("tenants", "list")
    file.write_text(file.read_text(encoding="utf-8").replace(clusters["eu"], clusters[""]), encoding="utf-8")
    code, _, err = await operate("tenants", "list")
    assert code == 1
    assert "shard 'eu': the settings take the home cluster for the shard 'eu'" in err


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ([{"name": "home", "url": "postgresql://a@b/c"}], "home is the name of the cluster of `database`"),
        ([{"name": "eu", "url": "sqlite:///a.db"}], "must be a postgresql:// URL"),
        ([{"name": "eu", "url": ""}], "must be a postgresql:// URL"),
        ([{"name": "eu", "url": "postgresql://a@b/c"}] * 2, "two shards have the same name"),
    ],
)
def test_a_shard_that_cannot_be_is_refused(given: list[dict[str, str]], text: str) -> None:
    with pytest.raises(SettingsError, match=text):
        load_settings({"database": "postgresql://a@b/home"}, environ={"LAYERLORE_SHARDS": json.dumps(given)})


def test_shards_need_postgres_as_their_home() -> None:
    given = json.dumps([{"name": "eu", "url": "postgresql://a@b/c"}])
    with pytest.raises(SettingsError, match="they need a home cluster: `database` must be a postgresql:// URL"):
        load_settings({}, environ={"LAYERLORE_SHARDS": given})
