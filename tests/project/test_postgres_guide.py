"""The steps of docs/tenants.md for Postgres, as they stand there, on a real server."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import asyncpg
import pytest
from source_tree import ROOT

pytestmark = [pytest.mark.anyio, pytest.mark.programs]

GUIDE = (ROOT / "docs" / "tenants.md").read_text(encoding="utf-8")
COMMAND = str(Path(sys.executable).parent / "layerlore")
PASSWORDS = {"layerlore_owner": "first", "layerlore_app": "second"}


def steps(language: str) -> list[str]:
    """The lines of the numbered steps' blocks."""
    found = re.findall(rf"   ```{language}\n(.*?)   ```", GUIDE, re.DOTALL)
    return [line.strip() for block in found for line in block.splitlines()]


def url_of(admin_url: str, role: str) -> str:
    scheme, _, rest = admin_url.partition("://")
    authority, _, tail = rest.partition("/")
    query = tail.partition("?")[2]
    address = f"{scheme}://{role}:{PASSWORDS[role]}@{authority.rpartition('@')[2]}/layerlore"
    return address + (f"?{query}" if query else "")


@pytest.fixture
async def roles(postgres_admin_url: str) -> AsyncIterator[dict[str, str]]:
    """The roles and the database of the first step: the URL of each role."""
    admin = await asyncpg.connect(postgres_admin_url)
    try:
        for statement in steps("sql"):
            await admin.execute(statement)
        yield {role: url_of(postgres_admin_url, role) for role in PASSWORDS}
    finally:
        await admin.execute("DROP DATABASE IF EXISTS layerlore WITH (FORCE)")
        for role in PASSWORDS:
            await admin.execute(f"DROP ROLE IF EXISTS {role}")
        await admin.close()


async def test_the_steps_lead_to_a_server_whose_role_owns_nothing(roles: dict[str, str], tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LAYERLORE_")}
    environment = {**kept, "LAYERLORE_DATA_DIR": str(tmp_path), "LAYERLORE_HTTP__PORT": "0"}
    *made, serve = ([COMMAND, *(_real(word, roles) for word in shlex.split(line)[1:])] for line in steps("sh") if line)
    assert len(made) == 2
    for command in made:
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120, env=environment)
        assert done.returncode == 0, done.stderr
    with subprocess.Popen(serve, stderr=subprocess.PIPE, text=True, env=environment) as server:
        assert server.stderr is not None
        told = server.stderr.readline()
        server.terminate()
    assert "layerlore listens on http://0.0.0.0:" in told
    app = await asyncpg.connect(roles["layerlore_app"])
    owned = await app.fetch("SELECT relname FROM pg_class WHERE pg_get_userbyid(relowner) = current_user")
    assert owned == []
    await app.close()


def _real(word: str, roles: dict[str, str]) -> str:
    found = re.fullmatch(r"postgresql://(\w+)@db\.example\.com/layerlore", word)
    return roles[found[1]] if found else word
