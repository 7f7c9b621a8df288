"""The documents say what is true."""

import ast
import contextlib
import itertools
import json
import os
import re
import runpy
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from rich.console import Console
from source_tree import ROOT
from typer.core import TyperGroup
from typer.testing import CliRunner

from layerlore.server.access.credentials import RIGHTS
from layerlore.server.command_line.app import app, load_all
from layerlore.server.command_line.commands.demo import show_connecting
from layerlore.server.command_line.commands.doctor import run_doctor
from layerlore.server.hosts.catalog import NAME
from layerlore.server.process.program import launch_command
from layerlore.server.settings.http import RateSettings
from layerlore.server.settings.settings import Settings, load_settings
from layerlore.server.tools.toolsets import DECLARATIONS

README = (ROOT / "README.md").read_text(encoding="utf-8")
GUIDE = ROOT / "docs" / "guide"
CONNECTING = (GUIDE / "connect.md").read_text(encoding="utf-8")
SERVING = (GUIDE / "serve.md").read_text(encoding="utf-8")
PLACEHOLDER = "/path/to/layerlore/.venv/bin/layerlore"
COMMAND = str(Path(sys.executable).parent / "layerlore")
OURS = (".venv/bin/layerlore", PLACEHOLDER)
PATIENCE = 120.0


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


def commands(page: str) -> list[str]:
    return [line for block in blocks(page, "sh") for line in block.splitlines() if line.strip()]


async def connects(command: str, args: list[str], folder: Path) -> bool:
    server = StdioServerParameters(command=command, args=[*args, "--data-dir", str(folder)])
    async with Client(stdio_client(server)) as client:
        return "recall_memory" in {tool.name for tool in (await client.list_tools()).tools}


def test_every_command_of_the_readme_is_known_to_a_test_here() -> None:
    assert commands(README) == [
        "make demo",
        "make test",
        ".venv/bin/layerlore install all",
        ".venv/bin/layerlore chat --model scripted",
    ]


def test_every_command_of_the_page_on_serving_is_known_to_a_test_here() -> None:
    assert commands(SERVING) == [
        ".venv/bin/layerlore serve",
        ".venv/bin/layerlore doctor",
        ".venv/bin/layerlore keys create --tenant acme --resource ana --expires 90d",
        "LAYERLORE_HTTP__PUBLIC_URL=https://mem.example.com .venv/bin/layerlore serve",
        "LAYERLORE_HTTP__ALLOWED_HOSTS=mem.lan:* .venv/bin/layerlore serve --host 0.0.0.0",
        ".venv/bin/layerlore install cursor --http https://mem.example.com/mcp --key-file ~/memory.key",
    ]


def test_the_hosts_that_are_here_are_told_as_the_readme_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".cursor").mkdir()
    assert run_here(commands(README)[2], tmp_path / "data").startswith("Cursor: added")
    entry = json.loads((tmp_path / ".cursor" / "mcp.json").read_text(encoding="utf-8"))["mcpServers"]["layerlore"]
    assert anyio.run(connects, entry["command"], entry["args"], tmp_path / "data")


@pytest.mark.programs
def test_the_chat_of_the_readme_answers(tmp_path: Path) -> None:
    (line,) = [line for line in commands(README) if " chat " in line]
    said = subprocess.run(
        **started(line, tmp_path), check=True, input="plan a trip\n", capture_output=True, timeout=PATIENCE
    )
    assert "Goal: plan a trip" in said.stdout


def test_make_demo_is_the_command_of_that_name() -> None:
    """What that shows, its own tests say."""
    done = subprocess.run(
        ["make", "--no-print-directory", "--dry-run", "demo"],
        check=True,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.stdout.splitlines()[-1] == f"{OURS[0]} demo"


async def answered(call: str, folder: Path) -> tuple[set[str], str]:
    """The tools that a server lists, and its answer to a call once the two messages of the README are stored."""
    name, arguments = re.fullmatch(r"(\w+)\((.*)\)", call).groups()  # type: ignore[union-attr]
    given = {each.arg: ast.literal_eval(each.value) for each in ast.parse(f"f({arguments})", mode="eval").body.keywords}  # type: ignore[attr-defined]
    said = [
        {"role": "user", "content": "I am allergic to peanuts, so no satay for me."},
        {"role": "assistant", "content": "Noted: no peanuts."},
    ]
    server = StdioServerParameters(command=COMMAND, args=["--data-dir", str(folder)])
    async with Client(stdio_client(server)) as client:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        await client.call_tool("add_messages", {"thread_id": "kitchen", "messages": said})
        with anyio.fail_after(PATIENCE):
            while "degraded" in (text := text_of(await client.call_tool(name, given))):
                await anyio.sleep(0.1)
        return tools, text


def text_of(result: Any) -> str:
    return "\n".join(block.text for block in result.content)


def test_the_readme_shows_the_tools_and_a_call_as_a_server_answers_it(tmp_path: Path) -> None:
    call, answer = blocks(README, "text")[0].rstrip().split("\n\n")
    tools, text = anyio.run(answered, call, tmp_path)
    table = README.partition("| tools |")[2].partition("\n\n")[0]
    assert sorted(re.findall(r"`(\w+)`", table)) == sorted(tools)
    today = re.compile(r"\d{4}-\d\d-\d\d")
    assert today.sub("DAY", text) == today.sub("DAY", answer)


def test_make_test_is_what_continuous_integration_runs() -> None:
    steps = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    made = re.findall(r"^(?:\S+=\S.* )?make ([\w-]+)$", "\n".join(steps), re.MULTILINE)
    assert made == ["check", "site", "test", "test-programs", "interop", "explorer-test", "soak"]


def launches_of_clients() -> set[tuple[str, ...]]:
    """Each command with its arguments by which the page has a client start the server."""
    (line,) = [line for line in commands(CONNECTING) if line.startswith("claude mcp add")]
    found = {tuple(line.partition(" -- ")[2].split())}
    for block in blocks(CONNECTING, "json"):
        ((_, servers),) = json.loads(block).items()
        entry = servers[NAME]
        found.add((entry["command"], *entry.get("args", [])))
    return found


@pytest.mark.parametrize("launch", sorted(launches_of_clients()))
def test_each_configuration_of_a_client_starts_the_server(launch: tuple[str, ...], tmp_path: Path) -> None:
    command, *arguments = launch
    assert command == PLACEHOLDER
    assert anyio.run(connects, COMMAND, arguments, tmp_path)


@pytest.mark.programs
def test_serve_and_doctor_run_as_the_guide_has_them(tmp_path: Path) -> None:
    environment = {**os.environ, "LAYERLORE_DATA_DIR": str(tmp_path), "LAYERLORE_HTTP__PORT": "0"}
    with subprocess.Popen([COMMAND, "serve"], stderr=subprocess.PIPE, text=True, env=environment) as server:
        assert server.stderr is not None
        try:
            assert "layerlore listens on http://127.0.0.1:" in server.stderr.readline()
            doctor = subprocess.run(
                [COMMAND, "doctor"], check=False, capture_output=True, text=True, timeout=PATIENCE, env=environment
            )
        finally:
            server.terminate()
    assert doctor.returncode == 0, doctor.stdout + doctor.stderr
    assert str(tmp_path / "http-key") in doctor.stdout.replace("\n", "")
    assert (tmp_path / "http-key").read_text(encoding="utf-8").strip() not in doctor.stdout.replace("\n", "")


@pytest.mark.programs
def test_a_server_for_others_starts_with_a_key_as_the_guide_has_it(tmp_path: Path) -> None:
    create, behind_a_proxy, in_a_network = commands(SERVING)[2:5]
    refused = subprocess.run(**started(behind_a_proxy, tmp_path), check=False, capture_output=True, timeout=PATIENCE)
    assert (refused.returncode, "keys create" in refused.stderr) == (2, True)
    key = run_here(create, tmp_path)
    machine = socket.gethostname()
    for line, names in (
        (behind_a_proxy, ("mem.example.com", "localhost:8765", "127.0.0.1:8765", "[::1]:8765")),
        (in_a_network, ("mem.lan:8765", "mem.lan", f"{machine}:8765", machine, "192.168.1.5:8765", "localhost:8765")),
    ):
        with subprocess.Popen(**started(line, tmp_path), stderr=subprocess.PIPE) as server:
            assert server.stderr is not None
            listening = re.search(r"listens on http://\S+:(\d+)/mcp", server.stderr.readline())
            try:
                assert listening
                for name in names:
                    assert anyio.run(lists_tools, f"http://127.0.0.1:{listening[1]}/mcp", key, name)
            finally:
                server.terminate()


def started(line: str, folder: Path) -> dict[str, Any]:
    """How to start what a document's line says, with its data in a folder and on a free port."""
    words = shlex.split(line)
    variables = dict(itertools.takewhile(lambda pair: pair[1], (word.partition("=")[::2] for word in words)))
    program, *arguments = words[len(variables) :]
    assert program in OURS
    given = {"LAYERLORE_DATA_DIR": str(folder), "LAYERLORE_HTTP__PORT": "0", "LAYERLORE_EMBEDDING__EMBEDDER": "none"}
    return {"args": [COMMAND, *arguments], "env": {**os.environ, **given, **variables}, "text": True}


def run_here(line: str, folder: Path) -> str:
    """What a document's line prints, with its data in a folder, and run in this process."""
    program, *arguments = shlex.split(line)
    assert program in OURS
    ended = CliRunner(env={"LAYERLORE_DATA_DIR": str(folder)}).invoke(app, arguments)
    assert ended.exit_code == 0, ended.output
    return ended.stdout.strip()


async def lists_tools(url: str, key: str, name: str) -> bool:
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}", "Host": name}, timeout=PATIENCE) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        return "recall_memory" in {tool.name for tool in (await client.list_tools()).tools}


PAGES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))


@pytest.mark.parametrize("path", ["README.md", *PAGES])
def test_the_links_of_a_document_lead_somewhere(path: str) -> None:
    document = ROOT / path
    for target in re.findall(r"\]\((?!https://)([^)\s]+)\)", document.read_text(encoding="utf-8")):
        name, _, heading = target.partition("#")
        found = document.parent / name if name else document
        assert found.exists(), target
        headings = re.findall(r"^#+ (.*)$", found.read_text(encoding="utf-8"), re.MULTILINE) if heading else []
        assert heading in ["", *(re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in headings)], target


def code_of(text: str) -> Iterator[str]:
    """The lines of a document's shell blocks and of what is set in by four spaces."""
    language = None
    for line in text.splitlines():
        if fence := re.match(r" *```(\w*)$", line):
            language = fence[1] if language is None else None
        elif language in ("", "sh") or (language is None and line.startswith("    ")):
            yield line.strip()


def commands_of(document: str) -> list[str]:
    """What a document does with our program in its code; an explanation after three spaces is none of it."""
    text = (ROOT / document).read_text(encoding="utf-8")
    lines = code_of(text) if document.endswith(".md") else text.splitlines()
    named = re.compile(r"(?:^|\s|\()((?:[\w./-]*/)?layerlore(?: .*)?)$")
    # A host's own command names our server, then the program.
    launched = (line.split("   ")[0].rpartition(" -- ")[2] for line in lines if not line.startswith("docker "))
    found = (named.search(line.removesuffix(")")) for line in launched)
    return [match[1] for match in found if match]


DOCUMENTS = [
    "README.md",
    "configs/README.md",
    "configs/clients/claude-code.sh",
    *PAGES,
]


@pytest.mark.parametrize(("document", "line"), [(each, line) for each in DOCUMENTS for line in commands_of(each)])
def test_every_command_of_a_document_runs_this_checkouts_program_with_what_it_takes(document: str, line: str) -> None:
    program, *words = shlex.split(line)
    assert program in OURS
    assert_taken(words)


def assert_taken(words: list[str]) -> None:
    """The words after the program's name are a command line of ours. Raises typer's errors if they are not."""
    command, name = load_all(), "layerlore"
    while isinstance(command, TyperGroup) and words and not words[0].startswith("-"):
        name, *words = words
        command = command.commands[name]
    if not isinstance(command, TyperGroup):
        command.make_context(name, words)


def test_no_document_configuration_or_message_launches_us_by_a_package_index() -> None:
    """There is no release: under our name another's program could be found."""
    index = r"(uvx|pipx|npx|bunx|uv tool|uv pip|pip3? install|uv add|npm (i|install|exec))\b"
    launch = re.compile(index + r"[^\n]*(?<![/\w.-])layerlore\b(?!/)|" + r'"command": "(uvx|npx|pipx)"')
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in listed.splitlines():
        path = ROOT / name
        if not name.startswith("tests/") and path.is_file():
            # A file that is named by its path is nobody else's.
            text = re.sub(r"uvx --from \S*/\S* layerlore", "", path.read_text(encoding="utf-8", errors="replace"))
            found = launch.search(text)
            assert found is None, f"{name}: {found and found[0]}"


def test_the_image_is_built_here_before_it_is_run() -> None:
    guide = (ROOT / "docs" / "http.md").read_text(encoding="utf-8")
    assert 0 < guide.index("docker build -t layerlore .") < guide.index("docker run")


def test_every_command_that_demo_and_doctor_print_is_this_program(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", os.defpath)  # An activated environment has the program by its short name.
    settings = Settings(data_dir=tmp_path)
    show_connecting(Console(width=1000), settings)
    run_doctor(settings, as_json=False)
    run_doctor(Settings(data_dir=tmp_path, http={"host": "192.168.1.5"}), as_json=False)
    printed = capsys.readouterr().out
    program, *more = launch_command()
    told = re.findall(rf"{re.escape(' '.join([program, *more]))}((?: [a-z][a-z-]*)*)", printed)
    assert {"serve", "keys"} <= {words.split()[0] for words in told if words}
    for words in told:
        assert_taken([word for word in words.split() if word in ("serve", "doctor", "keys")])
    assert not re.search(r"(?<![\w/.@-])layerlore (serve|doctor|keys|demo)", printed)
    shown = subprocess.run([program, *more, "--version"], check=True, capture_output=True, text=True, timeout=PATIENCE)
    assert shown.stdout.startswith("layerlore ")


def test_the_keys_of_the_guide_are_made_and_listed(tmp_path: Path) -> None:
    lines = [
        line
        for line in commands_of("docs/http.md")
        if line.startswith(tuple(f"{OURS[0]} keys {verb}" for verb in ("create", "list")))
    ]
    assert len(lines) >= 5
    assert [run_here(line, tmp_path) for line in lines][-1].count("acme") == len(lines) - 1


def rows(document: str, first: str) -> list[list[str]]:
    """The cells of the tables' rows whose first cell matches."""
    text = (ROOT / "docs" / document).read_text(encoding="utf-8")
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    return [row for row in cells if re.fullmatch(first, row[0])]


def test_the_table_of_rights_is_what_the_tools_declare() -> None:
    told = {row[0].strip("`"): set(re.findall(r"`(\w+)", row[1])) for row in rows("http.md", r"`\w+`")}
    assert told.keys() >= set(RIGHTS)
    for right in RIGHTS:
        declared = {each.name for each in DECLARATIONS if any(right in each.needs(way) for way in each.ways)}
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


@contextlib.contextmanager
def served_for_the_guide(folder: Path, **variables: str) -> Iterator[dict[str, str]]:
    """A server with the key of the guide's first calls: the environment in which they run, and its port as PORT."""
    (create,) = {line for line in commands_of("docs/http.md") if "--any-resource" in line and line.endswith("resource")}
    key = run_here(create, folder)
    how = started(f"{OURS[0]} serve", folder)
    with subprocess.Popen(**{**how, "env": {**how["env"], **variables}}, stderr=subprocess.PIPE) as server:
        assert server.stderr is not None
        listening = re.search(r"listens on http://\S+:(\d+)/mcp", server.stderr.readline())
        try:
            assert listening
            yield {**os.environ, "KEY": key, "PORT": listening[1]}
        finally:
            server.terminate()


def first_calls(language: str) -> list[str]:
    return [block for block in blocks_of("http.md", language) if "127.0.0.1:8765/mcp" in block]


def run_example(words: list[str], example: str, environment: dict[str, str]) -> str:
    done = subprocess.run(
        [*words, example.replace("127.0.0.1:8765", f"127.0.0.1:{environment['PORT']}")],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.programs
@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_first_calls_with_curl_are_answered_in_both_eras(tmp_path: Path) -> None:
    modern, legacy = first_calls("sh")
    with served_for_the_guide(tmp_path) as environment:
        assert '"stored":1' in run_example(["sh", "-c"], modern, environment)
        assert "allergic to nuts" in run_example(["sh", "-c"], legacy, environment)


@pytest.mark.programs
def test_the_first_calls_with_python_are_answered_also_when_they_are_too_many(tmp_path: Path) -> None:
    (example,) = first_calls("python")
    few = {"LAYERLORE_RATES__PRINCIPAL_CALLS_PER_SECOND": "1", "LAYERLORE_RATES__WAIT_MS": "0"}
    with served_for_the_guide(tmp_path, **few) as environment:
        assert "Which cake may I eat?" in run_example([sys.executable, "-c"], example, environment)


def test_the_bridge_of_the_guide_starts(tmp_path: Path) -> None:
    ((_, servers),) = json.loads(*blocks_of("http.md", "json")).items()
    entry = servers[NAME]
    assert entry["command"] == PLACEHOLDER
    (tmp_path / "key").write_text("llk_key")
    arguments = [str(tmp_path / "key") if each == "/home/ana/.layerlore-key" else each for each in entry["args"]]
    assert arguments != entry["args"]
    done = subprocess.run([COMMAND, *arguments], check=False, input="", capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_every_source_file_that_a_document_names_exists() -> None:
    floors = "server|memory|extraction|storage|prompts|tests|examples|benchmarks"
    for document in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for named in re.findall(rf"`((?:{floors})/[\w/.-]+)`", document.read_text(encoding="utf-8")):
            assert (ROOT / named).exists(), f"{document.name} names {named}"


@pytest.mark.parametrize(
    ("document", "program"),
    [
        ("docs/tools.md", "generate_tools.py"),
        ("docs/http.md", "generate_rights.py"),
        ("memory/text/own_tools.json", "generate_own_tools.py"),
        ("docs/windows.md", "generate_windows.py"),
        ("docs/settings.md", "generate_settings.py table"),
        ("configs/sqlite.toml", "generate_settings.py sqlite"),
        ("configs/postgres.toml", "generate_settings.py postgres"),
        ("configs/README.md", "generate_settings.py readme"),
        ("docs/counterparts.md", "generate_counterparts.py"),
        ("docs/architecture.svg", "generate_architecture.py"),
    ],
)
def test_a_document_that_is_made_is_what_its_program_prints(
    document: str, program: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # In this process, which has loaded most of what the programs load.
    path, *arguments = f"docs/{program}".split()
    monkeypatch.chdir(ROOT)
    monkeypatch.syspath_prepend(ROOT / "docs")
    monkeypatch.setattr(sys, "argv", [path, *arguments])
    runpy.run_path(path, run_name="__main__")
    assert (ROOT / document).read_text(encoding="utf-8") == capsys.readouterr().out


def test_the_counterparts_of_other_systems_name_only_what_we_have(tmp_path: Path) -> None:
    """Every name of ours there is looked up: the plan is there, these are not, and the last row says nothing."""
    wrong = [
        "memory_plan",
        "plan(goal)",
        "delete_messages(which=some)",
        "window.size",
        "memory://threads/{id}/plan",
        "",
    ]
    page = tmp_path / "counterparts.md"
    page.write_text("".join(f"| theirs | | {f'`{name}`' if name else ''} | | why |\n" for name in ["plan", *wrong]))
    made = subprocess.run(
        [sys.executable, "docs/generate_counterparts.py", str(page)],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert made.returncode == 1
    told = re.findall(r"^line (\d): (.*)$", made.stderr, re.MULTILINE)
    assert told == [(str(2 + number), name or "names nothing: write – and why") for number, name in enumerate(wrong)]
