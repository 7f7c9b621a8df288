"""The documents say what is true."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import anyio
import httpx2
import pytest
import typer
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from source_tree import ROOT
from typer.core import TyperGroup

from memstrata.server.access.principal import RIGHTS
from memstrata.server.command_line import app
from memstrata.server.rate_settings import RateSettings
from memstrata.server.settings import load_settings
from memstrata.server.toolsets import DECLARATIONS

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
        ".venv/bin/memstrata keys create --tenant acme --resource ana --expires 90d",
        ".venv/bin/memstrata serve --host 0.0.0.0",
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


def test_a_server_for_others_starts_with_a_key_as_the_readme_has_it(tmp_path: Path) -> None:
    environment = {**os.environ, "MEMSTRATA_DATA_DIR": str(tmp_path), "MEMSTRATA_HTTP__PORT": "0"}
    create, serve = (shlex.split(line)[1:] for line in commands()[-2:])
    refused = subprocess.run(
        [COMMAND, *serve], check=False, capture_output=True, text=True, timeout=60, env=environment
    )
    assert (refused.returncode, "memstrata keys create" in refused.stderr) == (2, True)
    made = subprocess.run([COMMAND, *create], check=True, capture_output=True, text=True, timeout=60, env=environment)
    with subprocess.Popen([COMMAND, *serve], stderr=subprocess.PIPE, text=True, env=environment) as server:
        assert server.stderr is not None
        listening = re.search(r"listens on http://0\.0\.0\.0:(\d+)/mcp", server.stderr.readline())
        try:
            assert listening
            url = f"http://127.0.0.1:{listening[1]}/mcp"
            assert anyio.run(lists_tools, url, made.stdout.strip())
        finally:
            server.terminate()


async def lists_tools(url: str, key: str) -> bool:
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        return "recall_memory" in {tool.name for tool in (await client.list_tools()).tools}


@pytest.mark.parametrize("path", ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))])
def test_the_links_of_a_document_lead_somewhere(path: str) -> None:
    document = ROOT / path
    for target in re.findall(r"\]\(([^)\s]+)\)", document.read_text(encoding="utf-8")):
        name, _, heading = target.partition("#")
        found = document.parent / name if name else document
        assert found.exists(), target
        headings = re.findall(r"^#+ (.*)$", found.read_text(encoding="utf-8"), re.MULTILINE) if heading else []
        assert heading in ["", *(re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in headings)], target


def commands_of(document: str) -> list[str]:
    """Those of its blocks and indented lines; an explanation after two spaces is none of it."""
    text = (ROOT / "docs" / document).read_text(encoding="utf-8")
    return [line.split("   ")[0] for line in re.findall(r"^ *(memstrata .*)$", text, re.MULTILINE)]


@pytest.mark.parametrize(
    "line", [line for document in ("http.md", "tenants.md", "journal.md") for line in commands_of(document)]
)
def test_every_command_of_the_guides_is_one_that_the_program_takes(line: str) -> None:
    command, (name, *words) = typer.main.get_command(app), shlex.split(line)
    while isinstance(command, TyperGroup):
        name, *words = words
        command = command.commands[name]
    command.make_context(name, words)


def test_the_keys_of_the_guide_are_made_and_listed(tmp_path: Path) -> None:
    environment = {**os.environ, "MEMSTRATA_DATA_DIR": str(tmp_path)}
    lines = [
        line for line in commands_of("http.md") if line.startswith(("memstrata keys create", "memstrata keys list"))
    ]
    assert len(lines) >= 4
    for line in lines:
        done = subprocess.run(
            [COMMAND, *shlex.split(line)[1:]], check=True, capture_output=True, text=True, timeout=60, env=environment
        )
    assert done.stdout.count("acme") == len(lines) - 1


def rows(document: str, first: str) -> list[list[str]]:
    """The cells of the tables' rows whose first cell matches."""
    text = (ROOT / "docs" / document).read_text(encoding="utf-8")
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    return [row for row in cells if re.fullmatch(first, row[0])]


def test_the_table_of_rights_is_what_the_tools_declare() -> None:
    told = {row[0].strip("`"): set(re.findall(r"`(\w+)`", row[1])) for row in rows("http.md", r"`\w+`")}
    assert told.keys() >= set(RIGHTS)
    for right in RIGHTS:
        declared = {each.signature.__name__ for each in DECLARATIONS if right in (each.right, each.needs({}))}
        assert told[right] == declared, right


def test_the_table_of_rates_shows_every_one_and_its_default() -> None:
    told = {row[0].strip("`").removeprefix("rates."): int(row[1]) for row in rows("http.md", r"`rates\.\w+`")}
    assert told == RateSettings().model_dump()


def blocks_of(document: str, language: str) -> list[str]:
    text = (ROOT / "docs" / document).read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.mark.parametrize("block", blocks_of("http.md", "toml"))
def test_the_settings_of_the_guide_are_settings(block: str, tmp_path: Path) -> None:
    (tmp_path / "settings.toml").write_text(block, encoding="utf-8")
    loaded = load_settings(environ={}, config=str(tmp_path / "settings.toml"))
    assert loaded.http.public_url == "https://mem.example.com"
    assert loaded.jwt.issuer or "[jwt]" not in block


def test_the_bridge_of_the_guide_starts(tmp_path: Path) -> None:
    ((_, servers),) = json.loads(*blocks_of("http.md", "json")).items()
    entry = servers["memory"]
    assert entry["command"] == PLACEHOLDER
    (tmp_path / "key").write_text("msk_key")
    arguments = [str(tmp_path / "key") if each == "/home/ana/.memstrata-key" else each for each in entry["args"]]
    assert arguments != entry["args"]
    done = subprocess.run([COMMAND, *arguments], check=False, input="", capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("document", "program"), [("tools.md", "generate_tools.py"), ("windows.md", "generate_windows.py")]
)
def test_a_document_that_is_made_is_what_its_program_prints(document: str, program: str) -> None:
    made = subprocess.run(
        [sys.executable, f"docs/{program}"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert (ROOT / "docs" / document).read_text(encoding="utf-8") == made.stdout
