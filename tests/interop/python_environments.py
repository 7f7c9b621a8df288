"""Environments of their own for the Python frameworks, under `.interop/python/`, from the locked versions in `python/`.

As a program it makes those that `make interop` needs, the named ones, or with `all` every one; one whose lock did not
change is left as it is. Without a network it works too if nothing changed. With `lock` it writes the locks anew.
"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
import uv

FOLDER = Path(__file__).with_name("python")
ENVIRONMENTS = Path(__file__).parents[2] / ".interop" / "python"
TALKING = ("autogen", "langchain", "openai-agents", "pydantic-ai")
CONVERTING = ("google-adk", "google-genai")
# The drivers of databases that examples add.
DRIVERS = ("libsql",)
NEEDED = tuple(sorted(TALKING + CONVERTING + DRIVERS))
# Set by `make interop`, which has made the environments that are needed.
REQUIRED = "LAYERLORE_TEST_INTEROP"


def frameworks() -> list[str]:
    """Those that have an environment of their own; the folder `mcp` is of our own environment."""
    return sorted(path.parent.name for path in FOLDER.glob("*/requirements.txt"))


def environment(framework: str) -> Path:
    """The Python of a framework's environment. Skips the test if it is not installed, or is of an earlier lock."""
    if framework == "mcp":
        return Path(sys.executable)
    if not _is_current(framework):
        message = f"{framework} is not installed; `make interop-all` installs every framework"
        if os.environ.get(REQUIRED) and framework in NEEDED:
            pytest.fail(message)
        pytest.skip(message)
    return _python(framework)


def _python(framework: str) -> Path:
    return ENVIRONMENTS / framework / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def _made_from(framework: str) -> Path:
    return ENVIRONMENTS / framework / "made-from"


def _sources(framework: str) -> str:
    """What an environment is made of: this Python and the lock."""
    lock = (FOLDER / framework / "requirements.txt").read_bytes()
    return f"{sys.version} {hashlib.sha256(lock).hexdigest()}"


def _is_current(framework: str) -> bool:
    made_from = _made_from(framework)
    return made_from.exists() and made_from.read_text(encoding="utf-8") == _sources(framework)


def install(framework: str) -> None:
    """Makes an environment anew, unless it is there and current."""
    if _is_current(framework):
        return
    print(f"installing {framework} ...", file=sys.stderr)
    lock = FOLDER / framework / "requirements.txt"
    program = [uv.find_uv_bin(), "--quiet", "--no-config"]
    subprocess.run([*program, "venv", "--clear", "--python", sys.executable, ENVIRONMENTS / framework], check=True)
    options = ["--python", _python(framework), "--compile-bytecode", "--require-hashes", "--requirement", lock]
    subprocess.run([*program, "pip", "install", *options], check=True)
    _made_from(framework).write_text(_sources(framework), encoding="utf-8")


def lock(framework: str) -> None:
    """The newest versions that fit together on every Python that we run on."""
    folder = FOLDER / framework
    options = ["--universal", "--python-version", "3.11", "--generate-hashes", "--no-header", "--no-annotate"]
    output = ["--upgrade", "--output-file", folder / "requirements.txt"]
    program = [uv.find_uv_bin(), "--quiet", "--no-config", "pip", "compile"]
    subprocess.run([*program, *options, *output, folder / "requirements.in"], check=True)


def main() -> None:
    match sys.argv[1:]:
        case ["lock"]:
            chosen, act = frameworks(), lock
        case ["all"]:
            chosen, act = frameworks(), install
        case named:
            chosen, act = named or list(NEEDED), install
    for framework in chosen:
        act(framework)


if __name__ == "__main__":
    main()
