"""``layerlore jobs``: what people see of background work, and how they have it tried again."""

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from layerlore.server.process.program import shell_command
from layerlore.server.runtime.engines import close_engine, open_engine
from layerlore.server.settings.settings import load_settings
from layerlore.storage.core.records import Scope
from layerlore.storage.jobs import job_rows
from layerlore.storage.jobs.job_rows import Kind

Cli = Callable[..., tuple[int, str, str]]
SCOPE = Scope("local", "default", "default")


def make(folder: Path, *, failed: tuple[Kind, ...] = (), due: tuple[Kind, ...] = ()) -> None:
    """Jobs of the resource."""

    async def made() -> None:
        settings = load_settings({"data_dir": str(folder), "embedding": {"embedder": "none"}}, environ={})
        engine = await open_engine(settings)
        database, now = engine.database, engine.now()
        for kind in failed:
            await database.write(job_rows.request, SCOPE, "", kind, 1, due_at=now, now=now)
            claim = await database.write_installation(job_rows.claim, [kind], holder="x", now=now, lease_ms=1_000)
            assert claim is not None
            await database.write(job_rows.fail, claim, error="it is\ndown", retry_at=now, dead=True, now=now)
        for kind in due:
            await database.write(job_rows.request, SCOPE, "", kind, 1, due_at=now, now=now)
        await close_engine(engine)

    asyncio.run(made())


@pytest.fixture
def kept(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Calls ``layerlore jobs`` on the folder's memory."""
    for name in ("GEMINI_API_KEY", "GOOGLE_API_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return lambda *arguments: cli("jobs", "--data-dir", str(tmp_path), *arguments)


def test_what_waits_and_what_failed_is_listed_with_who_thinks(kept: Cli, tmp_path: Path) -> None:
    make(tmp_path, failed=("entries",), due=("profile",))
    code, out, err = kept()
    assert (code, err) == (0, "")
    assert re.search(r"^entries +dead since 20\S+Z, after 1 failures: it is down  \(of all threads\)$", out, re.M)
    assert re.search(r"^profile +due  \(of all threads\)$", out, re.M)
    assert f"`{shell_command('jobs', '--resume')}` makes the dead ones due again." in out
    assert "model: none: nothing is sent anywhere" in out


def test_resuming_makes_dead_jobs_due_again(kept: Cli, tmp_path: Path) -> None:
    make(tmp_path, failed=("entries", "profile"))
    assert kept("--resume")[1].startswith("due again: 2 dead jobs\n")
    shown = json.loads(kept("--resume", "--json")[1])
    assert shown["resumed"] == 0
    assert [(job["kind"], job["state"], job["failures"]) for job in shown["jobs"]] == [
        ("entries", "due", 0),
        ("profile", "due", 0),
    ]


def test_other_scopes_are_left_alone(kept: Cli, tmp_path: Path) -> None:
    make(tmp_path, failed=("entries",))
    code, out, _ = kept("--resume", "--resource", "ben")
    assert code == 0
    assert out.startswith("due again: 0 dead jobs\nnothing waits for agent 'default' and resource 'ben'\n")
    assert "dead since" in kept()[1]


def test_without_a_database_there_is_nothing_to_show(kept: Cli) -> None:
    code, out, err = kept()
    assert (code, out) == (1, "")
    assert err.startswith("layerlore: there are no jobs: there is no database at ")
