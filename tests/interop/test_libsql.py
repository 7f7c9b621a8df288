"""The example of a third database, with its driver, passes the tests that every database must pass."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from .python_environments import environment

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "libsql"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The variables of a process in which layerlore, the example and its driver are installed."""
    packages = environment("libsql").parents[1] / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    site = tmp_path_factory.mktemp("site")
    for source in (ROOT, EXAMPLE):
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(site)]
        subprocess.run(build, cwd=source, check=True, capture_output=True, timeout=600)
    for wheel in site.glob("*.whl"):
        zipfile.ZipFile(wheel).extractall(site)
    return {**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{packages}"}


def test_it_passes_every_test_of_a_database(installed: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_bytes((EXAMPLE / "pyproject.toml").read_bytes())
    run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "2"]
    done = subprocess.run(run, cwd=tmp_path, env=installed, capture_output=True, text=True, check=False, timeout=1800)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert "skipped" not in done.stdout


def test_doctor_and_migrate_know_it(installed: dict[str, str], tmp_path: Path) -> None:
    def layerlore(*arguments: str) -> str:
        command = [sys.executable, "-m", "layerlore", *arguments, "--database", f"libsql://{tmp_path}/memory.db"]
        environment = installed | {"LAYERLORE_DATA_DIR": str(tmp_path)}
        return subprocess.run(
            command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120
        ).stdout

    assert "libsql database" in layerlore("migrate")
    assert "compared by libSQL itself" in layerlore("doctor")
