"""What is shipped: the wheel, the lock files, the image."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest
from source_tree import PACKAGES, ROOT

BIN = Path(sys.executable).parent
INSTALLING = (ROOT / "docs" / "installing.md").read_text(encoding="utf-8")


def run(*command: str | Path, cwd: Path = ROOT, **options: object) -> str:
    done = subprocess.run(
        [str(part) for part in command], check=False, cwd=cwd, capture_output=True, text=True, timeout=600, **options
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_wheel_holds_exactly_the_tracked_files_under_our_own_name(tmp_path: Path) -> None:
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    folders = (*PACKAGES, "tests/conformance")
    listed = run("git", "ls-files", "--cached", "--others", "--exclude-standard", *folders).split("\n")
    tracked = {f"layerlore/{name.removeprefix('tests/')}" for name in listed if name and (ROOT / name).exists()}
    assert packed == tracked | {f"layerlore/{name}" for name in ("__init__.py", "__main__.py", "py.typed")}


@pytest.mark.parametrize("installed", ["checkout", "wheel"])
def test_the_package_itself_is_a_program(tmp_path: Path, installed: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if installed == "wheel":
        run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path)
        (wheel,) = tmp_path.glob("*.whl")
        zipfile.ZipFile(wheel).extractall(tmp_path / "site")
        environment["PYTHONPATH"] = str(tmp_path / "site")
    where = run(sys.executable, "-c", "import layerlore.server as s; print(s.__file__)", cwd=tmp_path, env=environment)
    assert (str(tmp_path) in where) == (installed == "wheel")
    told = run(sys.executable, "-c", "import layerlore; print(layerlore.__version__)", cwd=tmp_path, env=environment)
    assert told == f"{version('layerlore')}\n"
    for program in ("layerlore", "layerlore.server"):
        told = run(sys.executable, "-m", program, "--version", cwd=tmp_path, env=environment)
        assert told == f"layerlore {version('layerlore')}\n"


@pytest.mark.parametrize(
    ("exported", "choice"),
    [
        ("requirements.txt", ("--group", "dev", "--extra", "english", "--extra", "metrics")),
        ("requirements-server.txt", ("--no-dev", "--extra", "metrics")),
    ],
)
def test_the_exported_requirements_equal_the_lock(exported: str, choice: tuple[str, ...]) -> None:
    fresh = run(
        *(BIN / "uv", "export", "--quiet", "--offline", "--frozen", "--no-emit-project", *choice),
        *("--no-header", "--no-annotate"),
    )
    assert (ROOT / exported).read_text(encoding="utf-8") == fresh


def test_every_direct_dependency_has_its_line_in_the_decisions() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    block = project[project.index("\ndependencies = [") : project.index("[project.scripts]")]
    decisions = (ROOT / "docs" / "decisions.md").read_text(encoding="utf-8")
    for name in re.findall(r'^\s+"([A-Za-z0-9-]+)', block, re.MULTILINE):
        assert name in decisions, name


@pytest.mark.soak
@pytest.mark.skipif(os.name == "nt", reason="the image is built on Linux")
def test_the_steps_of_the_image_build_an_installation_that_serves(tmp_path: Path) -> None:
    """No container engine is needed: the build stage's steps are run in order, in a clean folder."""
    prefix, data, source = tmp_path / "prefix", tmp_path / "data", tmp_path / "src"
    source.mkdir()
    environment = {
        "PATH": f"{Path(sys.base_prefix) / 'bin'}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "PREFIX": str(prefix),
        "DATA": str(data),
        **{name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "REQUESTS_"))},
    }
    stage = (ROOT / "Dockerfile").read_text(encoding="utf-8").split("\nFROM ")[1]
    for line in stage.splitlines():
        instruction, _, rest = line.partition(" ")
        if instruction == "COPY":
            *names, target = rest.split()
            for name in names:
                copy(ROOT / name, source / target)
        elif instruction == "RUN":
            assert "/opt/layerlore" not in rest, "paths are arguments, so that this test can move them"
            if os.geteuid() != 0:
                rest = re.sub(r" -[og] \d+", "", rest)
            run("sh", "-c", rest.replace("/tmp/layerlore-build", str(tmp_path / "build")), cwd=source, env=environment)
    assert "layerlore" in run(prefix / "bin" / "layerlore", "--version", cwd=tmp_path, env=environment)
    installed = prefix / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages" / "layerlore"
    found = {path.name for path in installed.iterdir()} - {"__pycache__"}
    assert found == {*PACKAGES, "__init__.py", "__main__.py"}
    assert data.is_dir()


def copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target / source.name if target.is_dir() else target)


MINORS = ("3.11", "3.12", "3.13", "3.14")
OWN_MINOR = f"3.{sys.version_info[1]}"
SESSION = Path(__file__).with_name("session_of_wheel.py")


def interpreter(minor: str) -> str:
    """A Python of that version on this machine. Skips the test if there is none. LAYERLORE_TEST_PYTHONS may name more."""
    request = [f"{folder}/python{minor}" for folder in os.environ.get("LAYERLORE_TEST_PYTHONS", "").split(os.pathsep)]
    homes = sorted(Path.home().glob(f".pyenv/versions/{minor}.*/bin/python"))
    for candidate in [*request, *map(str, homes), shutil.which(f"python{minor}") or ""]:
        if candidate and Path(candidate).exists():
            shown = subprocess.run([candidate, "-V"], check=False, capture_output=True, text=True, timeout=60)
            if shown.stdout.startswith(f"Python {minor}."):
                return candidate
    pytest.skip(f"no Python {minor} is here; LAYERLORE_TEST_PYTHONS names the folders of others")


@pytest.mark.soak
@pytest.mark.parametrize(
    ("minor", "without"), [*((minor, "") for minor in MINORS), (OWN_MINOR, "litellm"), (OWN_MINOR, "pysqlite3")]
)
def test_the_wheel_serves_from_an_empty_environment(tmp_path: Path, minor: str, without: str) -> None:
    """In the locked versions. Without litellm it is what docs/installing.md leads to."""
    python = interpreter(minor)
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    environment = tmp_path / "environment"
    own = environment / ("Scripts" if os.name == "nt" else "bin") / "python"
    run(BIN / "uv", "--no-config", "venv", "--python", python, environment)
    options = ["--only-binary", ":all:", "--constraints", ROOT / "requirements-server.txt"]
    if without == "litellm":
        options += ["--overrides", ROOT / "configs" / "without-models.txt"]
    run(BIN / "uv", "--no-config", "pip", "install", "--python", own, *options, wheel)
    if without == "pysqlite3":
        run(BIN / "uv", "--no-config", "pip", "uninstall", "--python", own, "pysqlite3")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("LAYERLORE_", "PYTHON"))}
    told = json.loads(run(own, "-W", "error", SESSION, tmp_path / "data", cwd=tmp_path, env=kept))
    assert told["python"].startswith(minor)
    assert "I am allergic to peanuts" in told["recalled"]
    status = json.loads(told["status"])
    assert status["database"]["module"] == ("sqlite3" if without == "pysqlite3" else "pysqlite3")
    assert status["tokens"]["encoding"] == ("estimate-4-chars" if without == "litellm" else "o200k_base")
    assert status["vectors"]["total"] == 1


@pytest.mark.parametrize("line", re.findall(r"^uv(?:x| tool install) .*$", INSTALLING, re.MULTILINE))
def test_what_the_guide_installs_is_this_checkout_or_a_file(line: str) -> None:
    words = shlex.split(line)
    named = words[2 if words[0] == "uvx" else 3].partition("[")[0]
    assert named in (".", "dist/layerlore-*.whl")
    assert all((ROOT / each).exists() for each in words if each.startswith("configs/"))
