"""The drill of docs/tenants.md for a backup of SQLite, command for command, with a server that runs."""

import asyncio
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from source_tree import ROOT

from layerlore.storage.core.records import Scope
from layerlore.storage.drivers.sqlite.database import SqliteDatabase
from layerlore.storage.threads.threads import find

pytestmark = pytest.mark.programs

GUIDE = (ROOT / "docs" / "tenants.md").read_text(encoding="utf-8").partition("## Backups")[2].partition("\n## ")[0]
COMMAND = str(Path(sys.executable).parent / "layerlore")
SAID = (
    '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    '"clientInfo":{"name":"test","version":"1"}}}',
    '{"jsonrpc":"2.0","method":"notifications/initialized"}',
    '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"add_messages","arguments":'
    '{"thread_id":"main","messages":[{"role":"user","content":"hello"}]}}}',
)


def test_the_drill_brings_back_what_was_there_and_loses_nothing(tmp_path: Path) -> None:
    backup, put_back, doctor = (shlex.split(line) for line in re.findall(r"^\.venv/bin/layerlore .*$", GUIDE, re.M))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LAYERLORE_")}
    environment = {**kept, "LAYERLORE_DATA_DIR": str(tmp_path / "data"), "LAYERLORE_EMBEDDING__EMBEDDER": "none"}

    def run(words: list[str]) -> subprocess.CompletedProcess[str]:
        given = [word.replace("/backups", str(tmp_path)) for word in words[1:]]
        return subprocess.run(
            [COMMAND, *given], check=False, capture_output=True, text=True, timeout=120, env=environment
        )

    with subprocess.Popen(
        [COMMAND], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None

        def say(*lines: str) -> None:
            for line in lines:
                server.stdin.write(line + "\n")  # type: ignore[union-attr]
                server.stdin.flush()  # type: ignore[union-attr]
                if '"id"' in line:
                    assert '"result"' in server.stdout.readline()  # type: ignore[union-attr]

        say(*SAID)
        assert (made := run(backup)).returncode == 0, made.stderr
        say(SAID[-1])
        refused = run(put_back)
        assert refused.returncode == 1
        assert refused.stderr.count("\n") == 1
        assert "a running server has" in refused.stderr
        server.communicate()
    done = run(put_back)
    assert (done.returncode, done.stderr) == (0, "")
    looked = run(doctor)
    assert looked.returncode == 0
    assert "nothing is damaged" in looked.stdout
    (former,) = (tmp_path / "data").glob("memory.db.before-*")
    assert (_count(tmp_path / "data" / "memory.db"), _count(former)) == (1, 2)


def _count(file: Path) -> int:
    async def count() -> int:
        database = await SqliteDatabase.open(str(file))
        try:
            return (await database.read(find, Scope("local", "default", "default"), "main")).message_count
        finally:
            await database.close()

    return asyncio.run(count())
