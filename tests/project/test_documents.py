"""The documents say what is true."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from source_tree import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
PLACEHOLDER = "/path/to/memstrata/.venv/bin/memstrata"
COMMAND = str(Path(sys.executable).parent / "memstrata")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def commands() -> list[str]:
    return [line for block in blocks("sh") for line in block.splitlines() if line.strip()]


async def connects(command: str, args: list[str], folder: Path) -> bool:
    server = StdioServerParameters(command=command, args=[*args, "--data-dir", str(folder)])
    async with Client(stdio_client(server)) as client:
        return "recall_memory" in {tool.name for tool in (await client.list_tools()).tools}


def test_every_command_of_the_readme_is_known_to_a_test_here() -> None:
    assert commands() == [
        "make demo",
        "make test",
        f"claude mcp add --scope user memory -- {PLACEHOLDER}",
        ".venv/bin/memstrata serve",
        ".venv/bin/memstrata doctor",
    ]


def test_make_demo_shows_a_session_and_how_to_connect(tmp_path: Path) -> None:
    done = subprocess.run(
        ["make", "demo"],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "HOME": str(tmp_path)},
    )
    assert done.returncode == 0, done.stderr
    for client in ("Claude Desktop", "Claude Code", "Cursor", "VS Code"):
        assert client in done.stdout


def test_make_test_is_what_continuous_integration_runs() -> None:
    steps = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    assert steps[-2:] == ["make check", "make test"]


@pytest.mark.parametrize("block", blocks("json"))
def test_each_client_configuration_starts_the_server(block: str, tmp_path: Path) -> None:
    ((_, servers),) = json.loads(block).items()
    entry = servers["memory"]
    assert entry["command"] == PLACEHOLDER
    assert anyio.run(connects, COMMAND, entry.get("args", []), tmp_path)


def test_the_command_for_claude_code_starts_the_server(tmp_path: Path) -> None:
    (line,) = [line for line in commands() if line.startswith("claude mcp add")]
    command, *args = line.partition(" -- ")[2].split()
    assert command == PLACEHOLDER
    assert anyio.run(connects, COMMAND, args, tmp_path)


def test_serve_and_doctor_run_as_the_readme_has_them(tmp_path: Path) -> None:
    environment = {**os.environ, "MEMSTRATA_DATA_DIR": str(tmp_path), "MEMSTRATA_HTTP__PORT": "0"}
    with subprocess.Popen([COMMAND, "serve"], stderr=subprocess.PIPE, text=True, env=environment) as server:
        assert server.stderr is not None
        assert "memstrata listens on http://127.0.0.1:" in server.stderr.readline()
        doctor = subprocess.run(
            [COMMAND, "doctor"], check=False, capture_output=True, text=True, timeout=60, env=environment
        )
        server.terminate()
    assert doctor.returncode == 0, doctor.stdout + doctor.stderr
    assert (tmp_path / "http-key").read_text(encoding="utf-8").strip() in doctor.stdout.replace("\n", "")


def test_the_links_of_the_readme_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)]+)\)", README):
        assert (ROOT / target).exists(), target


@pytest.mark.parametrize(
    ("document", "program"), [("tools.md", "generate_tools.py"), ("windows.md", "generate_windows.py")]
)
def test_a_document_that_is_made_is_what_its_program_prints(document: str, program: str) -> None:
    made = subprocess.run(
        [sys.executable, f"docs/{program}"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert (ROOT / "docs" / document).read_text(encoding="utf-8") == made.stdout
