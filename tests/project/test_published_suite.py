"""The author of a database adapter runs ``layerlore.conformance`` from the wheel."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from source_tree import ROOT

ADAPTER = """
from layerlore.storage.drivers.sqlite.dialect import SqliteDialect


class Vaults(SqliteDialect):
    async def open(self, url, options):
        return await super().open(url.replace("vault:", "sqlite:"), options)


VAULTS = Vaults()
"""
FAULTY = ADAPTER.replace(
    '        return await super().open(url.replace("vault:", "sqlite:"), options)',
    '        opened = await super().open(url.replace("vault:", "sqlite:"), options)\n'
    "        opened.write = opened.read\n"
    "        return opened",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's files, and those of a small distribution that registers SQLite under a scheme of its own."""
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=600)
    (wheel,) = folder.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(folder)
    metadata = folder / "layerlore_vault-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: layerlore-vault\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[layerlore.databases]\nvault = vaults:VAULTS\n")
    return folder


def run_suite(site: Path, *arguments: str) -> tuple[int, str]:
    plugin = ("-p", "no:cacheprovider", "-p", "layerlore.conformance.plugin", "-p", "no:xdist")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugin, "--pyargs", *arguments],
        cwd=site,
        env={**os.environ, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    return done.returncode, done.stdout + done.stderr


COUNTS = "layerlore.conformance.threads.test_counts_contract"
VAULT = "--layerlore-url=vault:///{folder}/memory.db"


@pytest.mark.programs
def test_a_database_under_a_scheme_of_another_package_passes(site: Path) -> None:
    (site / "vaults.py").write_text(ADAPTER)
    code, shown = run_suite(site, COUNTS, VAULT)
    assert code == 0, shown
    assert "passed" in shown


@pytest.mark.programs
def test_a_database_that_cannot_write_fails(site: Path) -> None:
    (site / "vaults.py").write_text(FAULTY)
    code, shown = run_suite(site, COUNTS, VAULT)
    assert code == 1, shown
    assert "readonly database" in shown


@pytest.mark.programs
def test_without_a_url_it_says_what_to_give(site: Path) -> None:
    code, shown = run_suite(site, "layerlore.conformance")
    assert code == pytest.ExitCode.USAGE_ERROR
    assert "--layerlore-url=sqlite:///{folder}/memory.db" in shown
