"""A launch with a standard stream closed, as a shell or a faulty host does it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from launch_environment import own_environment

pytestmark = [
    pytest.mark.skipif(os.name == "nt", reason="closing a descriptor at launch is the shell's"),
    pytest.mark.programs,
]

PATIENCE = 120.0  # seconds: only a hang takes so long
INITIALIZE = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}


def launched(closing: str, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    kept = own_environment()
    return subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {closing}', "sh", sys.executable, "-m", "layerlore", *arguments],
        env=kept | {"LAYERLORE_DATA_DIR": str(folder), "LAYERLORE_BRIDGE__KEY": "k" * 40},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


@pytest.mark.parametrize("arguments", [(), ("bridge", "http://127.0.0.1:1/mcp")], ids=["server", "bridge"])
@pytest.mark.parametrize(("closing", "name"), [("<&-", "standard input"), (">&-", "standard output")])
def test_without_its_input_or_output_the_program_ends_with_one_line_that_says_so(
    tmp_path: Path, closing: str, name: str, arguments: tuple[str, ...]
) -> None:
    ended = launched(closing, *arguments, folder=tmp_path)
    assert (ended.returncode, ended.stdout) == (1, "")
    [line] = ended.stderr.splitlines()
    assert line.startswith(f"layerlore: {name} is closed")


def test_with_all_of_them_closed_it_ends_as_well(tmp_path: Path) -> None:
    assert launched("<&- >&- 2>&-", folder=tmp_path).returncode == 1


def test_without_standard_error_it_serves_and_nothing_of_the_log_reaches_the_host_or_the_memory(tmp_path: Path) -> None:
    kept = own_environment()
    request = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INITIALIZE},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": "add_messages", "arguments": {"messages": [{"role": "user", "content": "hello"}]}},
        },
    ]
    with subprocess.Popen(
        ["/bin/sh", "-c", 'exec "$@" 2>&-', "sh", sys.executable, "-m", "layerlore", "--log-level", "debug"],
        env=kept | {"LAYERLORE_DATA_DIR": str(tmp_path), "PYTHONWARNINGS": "always"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as served:
        assert served.stdin is not None
        assert served.stdout is not None
        served.stdin.writelines(f"{json.dumps(message)}\n" for message in request)
        served.stdin.flush()
        answers = [json.loads(served.stdout.readline()) for _ in (1, 2)]
        rest, _ = served.communicate(timeout=PATIENCE)
    assert [answer["id"] for answer in answers] == [1, 2]
    assert answers[1]["result"]["structuredContent"]["stored"] == 1
    assert (served.returncode, rest) == (0, "")
    assert (tmp_path / "memory.db").read_bytes().startswith(b"SQLite format 3\0")


@pytest.mark.parametrize("closing", ["<&-", ">&-", "2>&-"])
def test_a_command_for_people_does_not_crash(tmp_path: Path, closing: str) -> None:
    ended = launched(closing, "migrate", folder=tmp_path)
    assert (ended.returncode, "Traceback" in ended.stderr) == (0, False), ended.stderr
