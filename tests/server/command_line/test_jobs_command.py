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
from layerlore.storage.threads import threads as stored_threads

Cli = Callable[..., tuple[int, str, str]]
SCOPE = Scope("local", "default", "default")


def make(
    folder: Path,
    *,
    failed: tuple[Kind, ...] = (),
    due: tuple[Kind, ...] = (),
    threads: int = 0,
    scope: Scope = SCOPE,
) -> None:
    """Jobs of the resource, and one of each of so many threads."""

    async def made() -> None:
        settings = load_settings({"data_dir": str(folder), "embedding": {"embedder": "none"}}, environ={})
        engine = await open_engine(settings)
        database, now = engine.database, engine.now()
        for kind in failed:
            await database.write(job_rows.request, scope, "", kind, 1, due_at=now, now=now)
            claim = await database.write_installation(job_rows.claim, [kind], holder="x", now=now, lease_ms=1_000)
            assert claim is not None
            await database.write(job_rows.fail, claim, error="it is\ndown", retry_at=now, dead=True, now=now)
        for kind in due:
            await database.write(job_rows.request, scope, "", kind, 1, due_at=now, now=now)
        for number in range(threads):
            uid = engine.new_id()
            await database.write(stored_threads.lock_or_make, scope, f"talk {number}", uid, now)
            await database.write(job_rows.request, scope, uid, "title", 1, due_at=now, now=now)
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
    assert re.search(r"^profile +1 due$", out, re.M)
    again = shell_command("--data-dir", str(tmp_path), "jobs", "--resume")
    assert f"`{again}` makes the dead ones due again." in out
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


def test_many_jobs_that_only_wait_take_one_line_for_each_kind(kept: Cli, tmp_path: Path) -> None:
    make(tmp_path, due=("profile",), threads=30)
    out = kept()[1]
    assert re.search(r"^title +30 due$", out, re.M)
    assert len(out.splitlines()) < 6


def test_an_operator_sees_the_jobs_of_all_tenants_by_kind(kept: Cli, tmp_path: Path) -> None:
    make(tmp_path, failed=("entries",))
    make(tmp_path, due=("profile",), scope=Scope("acme", "bot", "ann"))
    make(tmp_path, due=("profile",), scope=Scope("umbrella", "bot", "ben"))
    code, out, err = kept("--all-tenants")
    assert (code, err) == (0, "")
    assert [line.split()[:4] for line in out.splitlines() if line.split()[:1] in (["entries"], ["profile"])] == [
        ["entries", "dead", "1", "1"],
        ["profile", "due", "2", "0"],
    ]
    assert "acme" not in out
    shown = json.loads(kept("--all-tenants", "--json")[1])["jobs"]
    assert [(each["kind"], each["state"], each["jobs"], each["failed"]) for each in shown] == [
        ("entries", "dead", 1, 1),
        ("profile", "due", 2, 0),
    ]
    assert all(each["oldest_seconds"] >= 0 for each in shown)


def test_jobs_of_all_tenants_are_not_resumed_at_once(kept: Cli, tmp_path: Path) -> None:
    make(tmp_path, failed=("entries",))
    code, out, err = kept("--all-tenants", "--resume")
    assert (code, out) == (1, "")
    assert "--all-tenants only counts" in err
    assert "dead since" in kept()[1]


def test_without_a_database_there_is_nothing_to_show(kept: Cli) -> None:
    code, out, err = kept()
    assert (code, out) == (1, "")
    assert err.startswith("layerlore: there are no jobs: there is no database at ")
