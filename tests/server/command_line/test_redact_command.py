"""``layerlore redact``: what is printed of it, and that it leaves no byte of a secret, also while a server runs."""

import asyncio
import json
import random
import string
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from mcp import Client
from mcp.types import TextContent

from layerlore.memory.engine.engine import WriteRequest
from layerlore.memory.messages import addition
from layerlore.memory.work import runs
from layerlore.memory.work.runs import Suspension
from layerlore.server.process.program import shell_command
from layerlore.server.runtime.engines import close_engine, open_engine
from layerlore.server.runtime.tool_server import build_server
from layerlore.server.settings.settings import load_settings
from layerlore.storage.core.records import Origin, Scope

pytestmark = pytest.mark.anyio

Cli = Callable[..., tuple[int, str, str]]
SENT = WriteRequest(Origin("test", "add_messages"))


def made_up(seed: int) -> str:
    return "gh" + "p_" + "".join(random.Random(seed).choices(string.ascii_letters + string.digits, k=36))


SECRETS = [made_up(n) for n in range(300)]


@pytest.fixture
def redact(cli: Cli, tmp_path: Path) -> Cli:
    """Calls ``layerlore redact`` on the folder's memory."""
    return lambda *arguments: cli("--data-dir", str(tmp_path), "redact", *arguments)


def fill(folder: Path, *texts: str, tenant: str = "local", checkpoint: str = "") -> None:
    """Store messages as they are, some in each thread."""

    async def write() -> None:
        settings = load_settings({"data_dir": str(folder), "redaction": "off"}, environ={})
        engine = await open_engine(settings)
        scope = Scope(tenant, "default", "default")
        try:
            for start in range(0, len(texts), 60):
                raw = [{"role": "user", "content": told} for told in texts[start : start + 60]]
                await addition.add_messages(engine, scope, f"t{start}", raw, replace=False, sent=SENT)
            if checkpoint:
                run = Suspension("r", {"saw": checkpoint})
                await runs.suspend_run(engine, scope, "t0", run, sent=SENT)
        finally:
            await close_engine(engine)

    asyncio.run(write())


def left(folder: Path) -> int:
    """How many secrets, or words of them as they are searched, are in the bytes of the files."""
    content = b"".join(file.read_bytes() for file in folder.glob("memory.db*"))
    return sum(each.encode() in content or each[4:].lower().encode() in content for each in SECRETS)


def test_counts_are_printed_by_table_and_a_dry_run_changes_nothing(redact: Cli, tmp_path: Path) -> None:
    fill(tmp_path, *(f"word {secret} " * (1 + n % 30) for n, secret in enumerate(SECRETS)), "plain")
    secrets = sum(1 + n % 30 for n in range(300))
    assert left(tmp_path) == 300
    counted = f"{secrets:>9,}  in 300 rows of messages\n{secrets:>9,}  secrets in 300 rows\n"
    assert redact("--dry-run") == (0, "would be masked, for all tenants:\n" + counted, "")
    assert left(tmp_path) == 300
    code, out, err = redact()
    assert (code, err) == (0, "")
    assert out == (
        f"masked, for all tenants:\n{counted}"
        "the file was rewritten: no byte of a masked secret is left there\n"
        f"servers make new vectors for the masked texts; so does `{shell_command('--data-dir', str(tmp_path), 'reindex')}`\n"
    )
    assert left(tmp_path) == 0
    assert redact() == (0, "nothing to mask: no known secret is stored for all tenants\n", "")


def test_json_has_the_same_counts(redact: Cli, tmp_path: Path) -> None:
    fill(tmp_path, SECRETS[0], tenant="acme", checkpoint=SECRETS[1])
    counts = {"rows": {"messages": 1, "runs": 1}, "secrets": {"messages": 1, "runs": 1}, "left_as_sent": False}
    code, out, err = redact("--json", "--tenant", "acme", "--dry-run")
    assert (code, json.loads(out), err) == (0, {"tenant": "acme", "dry_run": True, **counts}, "")
    code, out, err = redact("--json")
    assert (code, json.loads(out), err) == (0, {"dry_run": False, **counts, "bytes": "erased"}, "")


def test_only_the_named_tenant_is_gone_through(redact: Cli, tmp_path: Path) -> None:
    fill(tmp_path, SECRETS[0], tenant="acme")
    fill(tmp_path, SECRETS[1], tenant="other")
    nothing = "nothing to mask: no known secret is stored for tenant 'acm'\n"
    assert redact("--tenant", "acm") == (0, nothing, "")
    assert redact("--tenant", "acme")[1].startswith("masked, for tenant 'acme':\n        1  in 1 rows of messages\n")
    assert left(tmp_path) == 1


def test_it_is_said_when_checkpoints_are_masked(redact: Cli, tmp_path: Path) -> None:
    fill(tmp_path, "plain", checkpoint=SECRETS[0])
    told = "checkpoints {} masked, too: a run that resumes from one finds marks instead of secrets\n"
    assert redact("--dry-run")[1].endswith(told.format("would be"))
    assert redact()[1].endswith(told.format("were"))


def test_a_setting_that_stores_secrets_is_told_of(redact: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, SECRETS[0])
    monkeypatch.setenv("LAYERLORE_REDACTION", "derived")
    code, out, _ = redact()
    assert (code, out.splitlines()[1]) == (0, "        1  in 1 rows of search_rows")
    assert out.endswith('redaction is "derived": messages were left as they were sent; --all masks them, too\n')
    assert left(tmp_path) == 1
    for redaction, options in (("derived", ["--all"]), ("off", [])):
        monkeypatch.setenv("LAYERLORE_REDACTION", redaction)
        code, out, _ = redact(*options)
        assert code == 0
        assert out.endswith(f'redaction is "{redaction}": new messages are stored as they are sent\n')
        assert left(tmp_path) == 0


def test_where_nothing_can_be_masked_that_is_an_error_and_nothing_is_made(
    redact: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = tmp_path / "memory.db"
    none = f"layerlore: there is nothing to mask: there is no database at {where}\n"
    assert redact() == (1, "", none)
    assert not where.exists()
    fill(tmp_path, SECRETS[0])
    assert redact("--tenant", "") == (
        1,
        "",
        "layerlore: --tenant: must not be empty; 1 to 255 characters are allowed\n",
    )
    monkeypatch.setenv("LAYERLORE_MEMORY", "off")
    code, out, err = redact()
    assert (code, out) == (1, "")
    assert err.startswith("layerlore: memory is off")


async def test_a_running_server_goes_on_and_no_byte_of_a_secret_is_left_soon(
    redact: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await asyncio.to_thread(fill, tmp_path, *(f"word{n} {secret}" for n, secret in enumerate(SECRETS)))
    monkeypatch.setattr("layerlore.server.runtime.upkeep.ERASE_EVERY_SECONDS", 0.05)
    settings = load_settings({"data_dir": str(tmp_path), "embedding": {"embedder": "none"}}, environ={})
    async with Client(build_server(settings)) as client:
        await client.call_tool("recall_memory", {"query": "word7"})
        code, _, err = await asyncio.to_thread(redact)
        assert (code, err) == (0, "")
        with anyio.fail_after(120):
            while await asyncio.to_thread(left, tmp_path):
                await anyio.sleep(0)
        answer = await client.call_tool("recall_memory", {"query": "word7"})
        (content,) = answer.content
        assert isinstance(content, TextContent)
        assert "word7 [masked:github-token:" in content.text
        assert SECRETS[7] not in content.text
