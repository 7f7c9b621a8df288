"""The protocol's own conformance suite against our server, with the fixtures that the suite asks for by name."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import RunNode
from .conversation import quiet

FOLDER = Path(__file__).with_name("conformance")
RUNS = {
    "0.1": ("node_modules/conformance-0.1/dist/index.js", "", "legacy.yml"),
    "0.2, 2025-06-18": ("node_modules/conformance-0.2/dist/index.js", "2025-06-18", "legacy.yml"),
    "0.2, 2025-11-25": ("node_modules/conformance-0.2/dist/index.js", "2025-11-25", "legacy.yml"),
    "0.2, 2026-07-28": ("node_modules/conformance-0.2/dist/index.js", "2026-07-28", "modern.yml"),
}
ENTRY = re.compile(r"  - (?P<scenario>[a-z0-9-]+) # (?P<reason>.{20,})")


@pytest.fixture(scope="module")
def fixture_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The port of our server with the fixtures."""
    home = tmp_path_factory.mktemp("home")
    command = [sys.executable, str(FOLDER / "fixture_server.py"), str(home)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=quiet(home)) as server:
        try:
            assert server.stderr is not None
            listening = re.fullmatch(r"listens on (\d+)\n", server.stderr.readline())
            assert listening
            yield listening[1]
        finally:
            server.terminate()
            server.communicate()


@pytest.mark.parametrize(("program", "version", "expected"), RUNS.values(), ids=RUNS)
def test_every_scenario_passes_but_those_that_are_expected_to_fail(
    program: str, version: str, expected: str, fixture_server: str, run_node: RunNode
) -> None:
    chosen = ["--spec-version", version] if version else []
    # An expected failure that passes fails the run too.
    ended = run_node(
        *(program, "server", "--url", f"http://localhost:{fixture_server}/mcp", "--suite", "all", *chosen),
        *("--expected-failures", str(FOLDER / expected)),
    )
    assert ended.returncode == 0, ended.stdout[-8000:] + ended.stderr
    passed = re.search(r"Total: (\d+) passed", ended.stdout)
    assert passed
    assert int(passed[1]) > 40


@pytest.mark.parametrize("name", ["legacy.yml", "modern.yml"])
def test_every_expected_failure_has_a_reason(name: str) -> None:
    entries = [line for line in (FOLDER / name).read_text().splitlines() if line.startswith("  -")]
    assert [entry for entry in entries if not ENTRY.fullmatch(entry)] == []
