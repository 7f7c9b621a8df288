"""Another package registers a kind of database by the scheme of its URL."""

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

from layerlore.storage.core.errors import InvalidInput
from layerlore.storage.drivers.dialect import check, look_at_database, open_database

pytestmark = pytest.mark.anyio

ADAPTER = """
from layerlore.storage.drivers.sqlite.dialect import SqliteDialect


class Vaults(SqliteDialect):
    def check(self, url):
        if not url.endswith(".vault"):
            raise ValueError("the URL must name a file that ends in .vault")

    async def open(self, url, options):
        return await super().open(url.replace("{scheme}:", "sqlite:"), options)

    async def look(self, url, default_file, *, whole):
        return await super().look(url.replace("{scheme}:", "sqlite:"), default_file, whole=whole)


VAULTS = Vaults()
"""


def install(folder: Path, scheme: str, value: str) -> None:
    """A distribution of its own: a module, and the metadata that pip would write."""
    (folder / f"vaults_{scheme}.py").write_text(ADAPTER.replace("{scheme}", scheme))
    metadata = folder / f"layerlore_{scheme}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: layerlore-{scheme}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[layerlore.databases]\n{scheme} = {value}\n")


async def test_a_scheme_of_another_package_opens_its_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    install(tmp_path, "vault", "vaults_vault:VAULTS")
    url = f"vault://{tmp_path}/memory.vault"
    check(url)
    assert not (await look_at_database(url, tmp_path / "unused")).exists
    opened = await open_database(url, tmp_path / "unused")
    await opened.close()
    state = await look_at_database(url, tmp_path / "unused", whole=True)
    assert (state.exists, state.version, state.failure) == (True, state.latest, "")
    assert not (tmp_path / "unused").exists()


async def test_its_own_check_refuses_a_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    install(tmp_path, "strongbox", "vaults_strongbox:VAULTS")
    with pytest.raises(ValueError, match=r"ends in \.vault"):
        check(f"strongbox://{tmp_path}/memory.db")


async def test_a_package_that_cannot_be_loaded_is_named_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    install(tmp_path, "broken", "vaults_broken:ABSENT")
    with pytest.raises(ValueError, match=r"scheme broken cannot be loaded: .*ABSENT"):
        check("broken://somewhere")
    with pytest.raises(InvalidInput, match="scheme broken cannot be loaded"):
        await open_database("broken://somewhere", tmp_path / "unused")


def test_packages_are_not_searched_for_a_database_that_comes_along(monkeypatch: pytest.MonkeyPatch) -> None:
    def search(**given: str) -> None:
        raise AssertionError("the metadata of packages was read")

    monkeypatch.setattr(importlib.metadata, "entry_points", search)
    for url in ("", "sqlite:///memory.db", "postgres://host/name", "postgresql://host/name"):
        check(url)
    with pytest.raises(AssertionError):
        check("unheard://of")


def test_a_url_is_checked_without_a_driver() -> None:
    program = (
        "import sys\n"
        "from layerlore.storage.drivers.dialect import check\n"
        "check('sqlite:///memory.db'), check('postgresql://host/name')\n"
        "print(*{'sqlalchemy', 'aiosqlite', 'asyncpg', 'importlib.metadata'} & set(sys.modules))"
    )
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert loaded.split() == []
