"""``layerlore journal``: what an operator sees of who wrote what, and how old lines go."""

import asyncio
import json
import re
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import anyio.to_thread
import asyncpg
import pytest

from layerlore.memory.engine.engine import WriteRequest
from layerlore.memory.engine.journal_lines import resource_mark
from layerlore.memory.removal.deletion import delete_thread
from layerlore.server.runtime.runtime import close_engine, open_engine
from layerlore.server.settings.settings import load_settings
from layerlore.storage.audit import journal_rows
from layerlore.storage.audit.journal_rows import JournalLine
from layerlore.storage.core.errors import NotFound
from layerlore.storage.core.records import Origin, Scope
from layerlore.storage.drivers.postgres.database import PostgresDatabase

Cli = Callable[..., tuple[int, str, str]]
SCOPE = Scope("acme", "coder", "ana")
DAY = 86_400_000
ESCAPE = "\x1b[2J"
CLIENT = f"x\ty\u3000z{ESCAPE}"


def make(**flags: str) -> None:
    """Three lines: of 400 days ago, of two days ago by another tenant, and of now."""

    async def made() -> None:
        engine = await open_engine(load_settings({**flags, "embedding": {"embedder": "none"}}, environ={}))
        now, mark = engine.now(), resource_mark(engine.hmac_key, "ana")
        old = JournalLine(
            now - 400 * DAY, "key:old", "claude 1.0", "add_messages", "done", mark, {"messages": 2, "masked": 1}
        )
        denied = JournalLine(now - 2 * DAY, "key:b", CLIENT, "forget", "denied", "0" * 32, {"calls": 1200}, "NotFound")
        await engine.database.write(journal_rows.append, SCOPE, old)
        await engine.database.write(journal_rows.append, Scope("other", "", "ben"), denied)
        origin = Origin("command line", "delete_thread", "command:forget")
        with pytest.raises(NotFound):
            await delete_thread(engine, SCOPE, "nothing", sent=WriteRequest(origin))
        await close_engine(engine)

    asyncio.run(made())


@pytest.fixture
def shown(cli: Cli, tmp_path: Path) -> Cli:
    """Calls ``layerlore journal`` on the folder's memory, which has three lines."""
    make(data_dir=str(tmp_path))
    return lambda *arguments: cli("journal", "--data-dir", str(tmp_path), *arguments)


def as_json(shown: Cli, *arguments: str) -> list[dict[str, Any]]:
    code, out, err = shown("--json", *arguments)
    assert (code, err) == (0, "")
    return [json.loads(line) for line in out.splitlines()]


def test_a_line_says_who_did_what_when_and_how_it_ended_the_newest_last(shown: Cli) -> None:
    code, out, err = shown()
    assert (code, err) == (0, "")
    first, second, third = (line for line in out.splitlines() if re.search(r"\d{4}-\d\d-\d\dT", line))
    assert re.search(
        r"acme +coder +[0-9a-f]{12} +key:old +claude 1\.0 +add_messages +done +messages 2, masked 1", first
    )
    assert re.search(r"other +0{12} +key:b +x y z\ufffd\[2J +forget +denied: NotFound +calls 1,200", second)
    assert re.search(r"acme +coder .* command:forget +command line +delete_thread +failed: NotFound", third)
    assert "ana" not in out
    assert ESCAPE not in out


def test_programs_get_an_object_a_line(shown: Cli) -> None:
    first, second, _ = as_json(shown)
    assert first | {"at": "", "resource_mark": ""} == {
        "id": 1,
        "at": "",
        "tenant": "acme",
        "agent": "coder",
        "resource_mark": "",
        "principal": "key:old",
        "client": "claude 1.0",
        "tool": "add_messages",
        "outcome": "done",
        "reason": None,
        "counts": {"messages": 2, "masked": 1},
    }
    assert second["client"] == CLIENT
    assert ESCAPE not in shown("--json")[1]


@pytest.mark.parametrize(
    ("arguments", "ids"),
    [
        ([], [1, 2, 3]),
        (["--limit", "2"], [2, 3]),
        (["--tenant", "other"], [2]),
        (["--principal", "key:old"], [1]),
        (["--tool", "delete_thread"], [3]),
        (["--outcome", "denied"], [2]),
        (["--resource", "ana"], [1, 3]),
        (["--resource", "ben"], []),
        (["--since", "7d"], [2, 3]),
        (["--since", "7d", "--until", "24h"], [2]),
        (["--until", "2020-01-01"], []),
        (["--since", "2020-01-01T00:00:00Z", "--until", "90d"], [1]),
    ],
)
def test_lines_are_chosen(shown: Cli, arguments: list[str], ids: list[int]) -> None:
    assert [line["id"] for line in as_json(shown, *arguments)] == ids


def test_pruning_removes_what_is_older_and_says_so_in_the_journal(shown: Cli) -> None:
    code, out, err = shown("--prune", "365d")
    assert (code, err) == (0, "")
    assert re.fullmatch(r"pruned 1 line from before 20\S+Z\n", out)
    assert [(line["id"], line["principal"]) for line in as_json(shown)][:2] == [(2, "key:b"), (3, "command:forget")]
    (told,) = as_json(shown, "--principal", "command:journal")
    assert (told["tool"], told["counts"]) == ("journal", {"pruned": 1})
    assert shown("--prune", "365d")[1].startswith("pruned 0 lines")
    assert len(as_json(shown)) == 3


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--since", "yesterday"], "--since: 'yesterday' is not a time; use a length before now such as 7d"),
        (["--prune", "all"], "--prune: 'all' is not a length of time; use one such as 365d"),
        (["--prune", "7d", "--tenant", "acme"], "it takes no filter"),
        (["--outcome", "bad"], "Invalid value for '--outcome'"),
        (["--limit", "0"], "Invalid value for '--limit'"),
        (["--owner-url", "sqlite:///x.db"], "postgres.owner_url"),
    ],
)
def test_a_wrong_choice_is_exit_code_2(shown: Cli, arguments: list[str], told: str) -> None:
    code, out, err = shown(*arguments)
    assert (code, out) == (2, "")
    assert told in " ".join(err.split())


def test_without_a_database_there_is_no_journal(cli: Cli, tmp_path: Path) -> None:
    code, out, err = cli("journal", "--data-dir", str(tmp_path / "none"))
    assert (code, out) == (1, "")
    assert err.startswith("layerlore: there is no journal: there is no database at ")


@pytest.fixture
async def appender_url(postgres_url: str, postgres_admin_url: str) -> AsyncIterator[str]:
    """The database as a role that may append to the journal, and not read it."""
    name = f"appender_{uuid.uuid4().hex[:8]}"
    await (await PostgresDatabase.open(postgres_url)).close()
    admin, owner = await asyncpg.connect(postgres_admin_url), await asyncpg.connect(postgres_url)
    schema = await owner.fetchval("SELECT current_schema()")
    await admin.execute(f"CREATE ROLE {name} LOGIN NOSUPERUSER PASSWORD '{name}'")
    await owner.execute(f"GRANT USAGE ON SCHEMA {schema} TO {name}; GRANT INSERT ON journal TO {name}")
    await owner.execute(
        f"GRANT SELECT ON schema_migrations, tenant_places, installation TO {name}; GRANT ALL ON last_writes TO {name}"
    )
    yield re.sub(r"//[^:/]+:[^@]+@", f"//{name}:{name}@", postgres_url)
    await owner.execute(
        f"REVOKE ALL ON journal, schema_migrations, tenant_places, installation, last_writes FROM {name}"
    )
    await owner.execute(f"REVOKE ALL ON SCHEMA {schema} FROM {name}")
    await admin.execute(f"DROP ROLE {name}")
    await admin.close()
    await owner.close()


@pytest.mark.anyio
async def test_on_postgres_only_the_owner_of_the_tables_reads_and_prunes_it(
    cli: Cli, postgres_url: str, appender_url: str
) -> None:
    def called(*arguments: str) -> Any:
        """In a thread: a command has an event loop of its own."""
        return anyio.to_thread.run_sync(lambda: cli("journal", "--database", appender_url, *arguments))

    await anyio.to_thread.run_sync(lambda: make(database=postgres_url))
    for arguments in ([], ["--prune", "1d"]):
        code, out, err = await called(*arguments)
        assert (code, out) == (1, "")
        assert "may only append to the journal. Read it as the role that owns the tables" in err
        assert "LAYERLORE_POSTGRES__OWNER_URL" in err
    owned = ("--owner-url", postgres_url)
    assert len((await called(*owned, "--json"))[1].splitlines()) == 3
    assert (await called(*owned, "--prune", "1d"))[1].startswith("pruned 2 lines")
