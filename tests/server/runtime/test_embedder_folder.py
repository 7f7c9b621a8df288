"""The built-in embedder's tables are unpacked once for a user, whatever data folders that user has."""

from pathlib import Path

import pytest

from layerlore.memory.embedding.table_files import FORMAT
from layerlore.server.runtime.engines import close_engine, open_engine
from layerlore.server.settings.settings import load_settings

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.programs,
    pytest.mark.skipif("sys.platform != 'linux'", reason="the variable that names a user's cache is Linux's"),
]


async def load_embedder(data_dir: Path) -> None:
    engine = await open_engine(load_settings({"data_dir": str(data_dir)}, environ={}))
    try:
        assert engine.embedding is not None
        assert all(vector is not None for vector in await engine.embedding.embed(["tea"]))
    finally:
        await close_engine(engine)


async def test_two_data_folders_of_a_user_share_the_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("one", "two"):
        await load_embedder(tmp_path / name)
        assert not (tmp_path / name / "embedder").exists()
    assert [each.name for each in (tmp_path / "cache").glob("layerlore/embedder/*")] == [FORMAT]


async def test_without_a_cache_that_may_be_written_the_tables_are_in_the_data_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cache").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    await load_embedder(tmp_path / "data")
    assert (tmp_path / "data" / "embedder" / FORMAT).is_dir()
