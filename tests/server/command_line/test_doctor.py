"""What ``layerlore doctor`` finds, and that it changes nothing by looking."""

import asyncio
import importlib.util
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import asyncpg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layerlore.server.command_line.commands.doctor import MODEL_KEYS, run_doctor
from layerlore.server.settings.local_key import key_file, read_or_make_key
from layerlore.server.settings.settings import Settings
from layerlore.storage.drivers.dialect import check, look_at_database, open_database
from layerlore.storage.drivers.migrations.runner import latest_version
from layerlore.storage.drivers.postgres.database import PostgresDatabase
from layerlore.storage.drivers.postgres.dialect import without_password
from layerlore.storage.drivers.sqlite import driver

Report = dict[tuple[str, str], dict[str, str]]
VERSION = latest_version("sqlite")


@pytest.fixture(autouse=True)
def no_model_keys(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in MODEL_KEYS:
        monkeypatch.delenv(name, raising=False)
    yield
    logging.getLogger("asyncpg.pool").setLevel(logging.NOTSET)


def report(settings: Settings, capsys: pytest.CaptureFixture[str]) -> tuple[int, Report]:
    """The exit code, and the findings by section and name."""
    capsys.readouterr()
    code = run_doctor(settings, as_json=True)
    printed = json.loads(capsys.readouterr().out)
    assert printed["usable"] == (code == 0)
    assert all(finding["mend"] for finding in printed["findings"] if finding["state"] != "ok")
    return code, {(finding["section"], finding["name"]): finding for finding in printed["findings"]}


def migrated(folder: Path) -> Settings:
    settings = Settings(data_dir=folder)

    async def migrate() -> None:
        await (await open_database("", settings.database_file)).close()

    asyncio.run(migrate())
    return settings


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {file.name: (file.stat().st_mtime_ns, file.read_bytes()) for file in folder.iterdir()}


def test_before_the_first_start_all_is_well_and_nothing_is_made(tmp_path: Path, capsys: Any) -> None:
    code, found = report(Settings(data_dir=tmp_path / "none"), capsys)
    assert code == 0
    assert found["database", "where"]["value"] == f"{tmp_path}/none/memory.db"
    assert found["database", "reachable"]["value"] == "yes; the first start creates it"
    assert ("database", "tables") not in found
    assert found["layerlore", "Python"]["value"].endswith(f"({sys.executable})")
    assert found["tokens", "encoding"]["value"].startswith("o200k_base, from ")
    assert found["models", "keys"]["value"].startswith("none;")
    assert f"{tmp_path}/none/http-key" in found["HTTP", "key"]["value"]
    assert not [*tmp_path.iterdir()]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="there is no such file system")
def test_where_no_folder_can_be_made_nothing_can_start(tmp_path: Path, capsys: Any) -> None:
    code, found = report(Settings(data_dir=Path("/proc/x")), capsys)
    assert code == 1
    assert found["database", "reachable"]["state"] == "failed"
    assert "nothing can be written into /proc" in found["database", "reachable"]["value"]
    assert found["database", "data folder"]["state"] == "degraded"
    code, found = report(Settings(data_dir=Path("/proc/x"), database=f"sqlite://{tmp_path}/x.db"), capsys)
    assert code == 0
    assert found["database", "reachable"]["state"] == "ok"
    assert "data_dir" in found["database", "data folder"]["mend"]
    assert not [*tmp_path.iterdir()]


def test_where_others_reach_the_server_there_is_no_local_key_to_show(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "http-key").write_text("ll_of_an_earlier_start\n")
    for http in ({"public_url": "https://mem.example.com"}, {"host": "0.0.0.0"}):
        _, found = report(Settings(data_dir=tmp_path, http=http), capsys)
        assert "layerlore keys" in found["HTTP", "key"]["value"]
        assert "ll_of" not in found["HTTP", "key"]["value"]


def test_what_sqlite_can_do_is_told_as_it_is(tmp_path: Path, capsys: Any) -> None:
    able = driver.abilities()
    _, found = report(Settings(data_dir=tmp_path), capsys)
    assert found["SQLite", "version"]["value"] == f"{able.version}, from {able.module}"
    assert (found["SQLite", "several processes"]["state"] == "ok") == able.wal_safe
    assert (found["SQLite", "secure delete"]["state"] == "ok") == able.fts5_secure_delete
    assert (found["search", "full text"]["value"] == "FTS5") == able.fts5
    assert (found["search", "vectors"]["value"].startswith("sqlite-vec v")) == (able.vector_extension is not None)


def test_a_database_that_nobody_uses_is_only_read(tmp_path: Path, capsys: Any) -> None:
    settings = migrated(tmp_path)
    before = contents(tmp_path)
    code, found = report(settings, capsys)
    assert code == 0
    assert found["database", "tables"]["value"] == f"up to date (version {VERSION})"
    assert found["database", "file"]["value"].endswith(" bytes, mode 0600")
    assert contents(tmp_path) == before


def test_the_size_of_the_database_includes_its_write_ahead_log(tmp_path: Path, capsys: Any) -> None:
    settings = migrated(tmp_path)
    file = settings.database_file
    other = driver.connect(str(file), synchronous="FULL")
    try:
        other.execute("CREATE TABLE filler AS SELECT zeroblob(100000) AS content")
        log = file.with_name(f"{file.name}-wal")
        stored = file.stat().st_size + log.stat().st_size
        assert log.stat().st_size > 100_000
        assert report(settings, capsys)[1]["database", "file"]["value"] == f"{stored:,} bytes, mode 0600"
    finally:
        other.close()


def test_what_another_process_has_just_written_is_seen(tmp_path: Path, capsys: Any) -> None:
    settings = migrated(tmp_path)
    other = driver.connect(str(settings.database_file), synchronous="FULL")
    try:
        other.execute("INSERT INTO schema_migrations VALUES (99, 'later', 0)")
        code, found = report(settings, capsys)
    finally:
        other.close()
    assert code == 1
    assert found["database", "tables"]["state"] == "failed"
    assert found["database", "tables"]["value"] == f"version 99, but this layerlore knows versions only up to {VERSION}"
    assert "upgrade layerlore" in found["database", "tables"]["mend"]


@pytest.mark.parametrize("kind", ["text", "folder", "empty", "under a file"])
def test_a_file_that_is_no_database_is_a_failure_unless_it_is_empty(tmp_path: Path, capsys: Any, kind: str) -> None:
    file = tmp_path / "other.db"
    if kind == "folder":
        file.mkdir()
    else:
        file.write_text("" if kind == "empty" else "no database at all" * 100)
    named = file / "x.db" if kind == "under a file" else file
    code, found = report(Settings(data_dir=tmp_path, database=f"sqlite://{named}"), capsys)
    assert found["database", "reachable"]["state"] == ("ok" if kind == "empty" else "failed")
    assert code == (0 if kind == "empty" else 1)
    if kind == "empty":
        assert found["database", "tables"]["value"].startswith(f"version 0 of {VERSION}")


@pytest.mark.skipif(os.name != "posix", reason="there are no such files")
def test_a_pipe_as_the_database_is_a_failure_and_not_waited_for(tmp_path: Path, capsys: Any) -> None:
    os.mkfifo(tmp_path / "memory.db")
    code, found = report(Settings(data_dir=tmp_path), capsys)
    assert code == 1
    assert "is a named pipe" in found["database", "reachable"]["value"]


def test_a_database_in_memory_is_named_as_what_it_is(tmp_path: Path, capsys: Any) -> None:
    code, found = report(Settings(data_dir=tmp_path, database="sqlite://:memory:"), capsys)
    assert code == 0
    assert found["database", "where"]["value"] == "in memory: everything is lost when the server ends"


@pytest.mark.skipif(os.name != "posix", reason="there are no such modes")
def test_what_other_users_can_read_or_replace_is_degraded(tmp_path: Path, capsys: Any) -> None:
    settings = migrated(tmp_path)
    read_or_make_key(tmp_path)
    for path, mode, where, mend in (
        (settings.database_file, 0o640, ("database", "file"), "chmod go-rwx"),
        (key_file(tmp_path), 0o604, ("HTTP", "key"), "chmod go-rwx"),
        (tmp_path, 0o770, ("database", "data folder"), "chmod go-w"),
    ):
        assert report(settings, capsys)[1][where]["state"] == "ok"
        path.chmod(mode)
        code, found = report(settings, capsys)
        assert code == 0
        assert found[where]["state"] == "degraded"
        assert found[where]["mend"].endswith(f"{mend} {path}")


def test_the_file_of_the_key_is_told_and_the_key_never(tmp_path: Path, capsys: Any) -> None:
    key = read_or_make_key(tmp_path)
    for mode in (0o600, 0o604):
        key_file(tmp_path).chmod(mode)
        for more in ({}, {"host": "0.0.0.0"}, {"auth": False}):
            settings = Settings(data_dir=tmp_path, http=more)
            for as_json in (True, False):
                run_doctor(settings, as_json=as_json)
                printed = capsys.readouterr()
                assert key not in printed.out + printed.err
            if not more:
                assert str(key_file(tmp_path)) in printed.out
    open_to_all = report(Settings(data_dir=tmp_path, http={"auth": False}), capsys)[1]["HTTP", "key"]
    assert "none is required" in open_to_all["value"]
    key_file(tmp_path).write_text("short")
    assert report(Settings(data_dir=tmp_path), capsys)[1]["HTTP", "key"]["state"] == "degraded"


def test_settings_that_keep_less_than_one_expects_are_degraded(tmp_path: Path, capsys: Any) -> None:
    code, found = report(Settings(data_dir=tmp_path, memory="off", redaction="derived"), capsys)
    assert code == 0
    assert found["layerlore", "memory"]["state"] == "degraded"
    assert found["layerlore", "secrets"]["state"] == "degraded"


def test_model_keys_are_told_by_name_and_never_by_value(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "GROQ_API_KEY"):
        monkeypatch.setenv(name, "sk-S3CRET")
    monkeypatch.setenv("MISTRAL_API_KEY", "")
    assert run_doctor(Settings(data_dir=tmp_path), as_json=False) == 0
    shown = capsys.readouterr().out
    assert "OPENAI_API_KEY, GROQ_API_KEY;" in shown
    assert "MISTRAL_API_KEY" not in shown
    assert "S3CRET" not in shown


def test_the_command_prints_plain_lines_and_what_to_mend(tmp_path: Path) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LAYERLORE_")}
    shown = subprocess.run(
        [sys.executable, "-m", "layerlore.server", "doctor", "--data-dir", str(tmp_path), "--redaction", "off"],
        env=kept,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "\x1b" not in shown.stdout
    lines = shown.stdout.splitlines()
    assert f"  ok   where              {tmp_path}/memory.db" in lines
    assert lines[-2] == "How to fix it:"
    assert lines[-1].startswith("  layerlore, secrets: set redaction = all")


@pytest.mark.anyio
async def test_a_postgres_database_is_looked_at_and_left_alone(
    empty_postgres_url: str, tmp_path: Path, capsys: Any
) -> None:
    settings = Settings(data_dir=tmp_path, database=empty_postgres_url)

    async def look() -> tuple[int, Report]:
        return await anyio.to_thread.run_sync(report, settings, capsys)

    connection = await asyncpg.connect(empty_postgres_url)
    try:
        code, found = await look()
        assert code == 0
        assert found["database", "kind"]["value"].startswith("postgres ")
        assert found["database", "where"]["value"].startswith("postgresql://app_")
        assert found["database", "tables"]["value"].startswith(f"version 0 of {VERSION}")
        assert found["search", "vectors"] == {
            "section": "search",
            "name": "vectors",
            "value": "compared by Postgres itself, without an extension",
            "state": "ok",
            "mend": "",
        }
        assert await connection.fetchval("SELECT to_regclass('schema_migrations')") is None
        await (await PostgresDatabase.open(empty_postgres_url)).close()
        code, found = await look()
        assert (code, found["database", "tables"]["value"]) == (0, f"up to date (version {VERSION})")
        await connection.execute("INSERT INTO schema_migrations VALUES (99, 'later', 0)")
        code, found = await look()
        assert (code, found["database", "tables"]["state"]) == (1, "failed")
    finally:
        await connection.close()


@pytest.mark.anyio
async def test_a_postgres_without_what_the_memory_needs_is_a_failure(
    postgres_url: str, tmp_path: Path, capsys: Any
) -> None:
    owner = await asyncpg.connect(postgres_url)
    await owner.execute("ALTER TABLE job_turns DISABLE ROW LEVEL SECURITY")
    await owner.close()
    settings = Settings(data_dir=tmp_path, database=postgres_url)
    code, found = await anyio.to_thread.run_sync(report, settings, capsys)
    assert (code, found["database", "reachable"]["state"]) == (1, "failed")
    assert "lacks row-level security" in found["database", "reachable"]["value"]


@pytest.mark.anyio
async def test_a_postgres_whose_notifications_do_not_arrive_is_degraded(
    empty_postgres_url: str, tmp_path: Path, capsys: Any
) -> None:
    owner = await asyncpg.connect(empty_postgres_url)
    await owner.execute("CREATE FUNCTION pg_notify(text, text) RETURNS void LANGUAGE sql AS 'SELECT NULL::void'")
    await owner.close()
    settings = Settings(data_dir=tmp_path, database=f"{empty_postgres_url}%2Cpg_catalog")
    code, found = await anyio.to_thread.run_sync(report, settings, capsys)
    assert (code, found["database", "notifications"]["state"]) == (0, "degraded")


@pytest.mark.anyio
@pytest.mark.parametrize("tail", ["@127.0.0.1:1/db", "@/db?host=/nowhere", "@no.such.host.invalid/db"])
async def test_a_postgres_that_does_not_answer_is_a_failure_without_the_password(tail: str) -> None:
    state = await look_at_database(f"postgresql://me:S3CRET{tail}", Path())
    assert state.failure
    assert "S3CRET" not in repr(state)


@pytest.mark.anyio
async def test_a_database_that_is_not_there_is_named_by_the_server(postgres_server_url: str) -> None:
    name = without_password(postgres_server_url).rpartition("/")[2]
    state = await look_at_database(postgres_server_url.replace(f"/{name}", "/nowhere"), Path())
    assert "nowhere" in state.failure


PIECES = st.text("ABCDEFGH0123456789", min_size=4)
SEPARATORS = st.sampled_from(["", "@", ":", "/", "?", "#", "[", "]", "%40", ",", "\\", ";", "&host="])


@given(st.lists(st.tuples(PIECES, SEPARATORS), min_size=1, max_size=4))
def test_no_piece_of_a_password_is_shown_whatever_is_in_it(pieces: list[tuple[str, str]]) -> None:
    url = f"postgresql://me:{''.join(piece + separator for piece, separator in pieces)}@db.test:5432/name"
    try:
        check(url)
    except ValueError as error:
        shown = str(error)
    else:
        shown = without_password(url)
        assert shown == "postgresql://me@db.test:5432/name"
    assert not any(piece in shown for piece, _ in pieces if piece != "5432")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:pw@h1:5432,h2/name?sslmode=require", "postgresql://me@h1:5432,h2/name"),
        ("postgresql://me:pw@[::1]:5432/name", "postgresql://me@[::1]:5432/name"),
        ("postgresql:///name?host=/run/pg&password=pw", "postgresql:///run/pg/name"),
        ("postgres://h/name?user=me&password=pw", "postgresql://h/name"),
    ],
)
def test_user_hosts_ports_and_database_are_shown(url: str, shown: str) -> None:
    check(url)
    assert without_password(url) == shown


@pytest.mark.parametrize(
    ("embedder", "state", "said"),
    [
        ("use", "ok", "on this machine"),
        ("none", "degraded", "words only"),
        ("openai/text-embedding-3-small", "ok", "are sent to its provider"),
    ],
)
def test_the_embedder_is_named_and_where_texts_go(
    tmp_path: Path, capsys: Any, embedder: str, state: str, said: str
) -> None:
    _, found = report(Settings(data_dir=tmp_path, embedding={"embedder": embedder}), capsys)
    assert found["search", "embedder"]["state"] == state
    assert said in found["search", "embedder"]["value"]
    assert ("provider" in found["models", "keys"]["value"]) == (embedder.startswith("openai/"))


def test_an_embedder_that_is_not_installed_is_degraded_and_says_how_to_install_it(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    _, found = report(Settings(data_dir=tmp_path, embedding={"embedder": "english"}), capsys)
    assert found["search", "embedder"]["state"] == "degraded"
    assert "scripts/setup" in found["search", "embedder"]["mend"]


def test_which_models_work_in_the_background_is_told_and_what_auto_would_take(
    tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def models(**llm: Any) -> Report:
        return report(Settings(data_dir=tmp_path, llm=llm), capsys)[1]

    assert models()["models", "background"]["value"].startswith("none: nothing is sent anywhere")
    missing = models(model="auto")["models", "background"]
    assert (missing["state"], "finds no key" in missing["value"]) == ("degraded", True)
    monkeypatch.setenv("GEMINI_API_KEY", "k")
    assert "auto would take gemini/gemini-2.5-flash" in models()["models", "background"]["value"]
    taken = models(model="auto", daily_usd=0.5)
    assert taken["models", "background"]["value"].startswith("gemini/gemini-2.5-flash (auto, by GEMINI_API_KEY)")
    assert taken["models", "daily budget"]["value"] == "$0.5"
    assert taken["models", "keys"]["value"] == "GEMINI_API_KEY; the background model's provider may need one"
