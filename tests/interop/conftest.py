"""The Node that runs what others wrote for it. `make interop` installs it; these tests are no part of `make test`."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from .conversation import quiet
from .python_environments import REQUIRED

NODE_FOLDER = Path(__file__).with_name("node")
PATIENCE = 120  # seconds for what takes a few on an idle machine

Ended = subprocess.CompletedProcess[str]
RunNode = Callable[..., Ended]


@pytest.fixture(scope="session")
def node() -> Path:
    """A package beside the clients, so that it is the same whatever the machine has."""
    found = NODE_FOLDER / "node_modules" / ".bin" / "node"
    if not found.exists():
        message = "the clients for Node are not installed; `make interop` installs them"
        if os.environ.get(REQUIRED):
            pytest.fail(message)
        pytest.skip(message)
    return found


@pytest.fixture
def run_node(node: Path, tmp_path: Path) -> RunNode:
    """Runs a program of the folder `node`, in a home and a folder of its own."""

    def run(program: str, *arguments: str, input: str = "", **environment: str) -> Ended:
        return subprocess.run(
            [node, NODE_FOLDER / program, *arguments],
            input=input,
            env=quiet(tmp_path) | environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    return run
