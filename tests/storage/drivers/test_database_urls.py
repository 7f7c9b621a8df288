"""One URL chooses the database, and a password never appears in an error."""

import traceback
from pathlib import Path

import asyncpg
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from layerlore.storage.core.errors import InvalidInput, StorageUnavailable
from layerlore.storage.drivers.dialect import FORMS, OpenOptions, dialect_of, open_database
from layerlore.storage.drivers.postgres.database import PostgresDatabase
from layerlore.storage.drivers.postgres.transaction import without_url
from layerlore.storage.drivers.sqlite.database import SqliteDatabase
from layerlore.storage.drivers.sqlite.dialect import path_of

from ...conformance.building import draft, examples, say

pytestmark = pytest.mark.anyio

DEFAULT = Path("/data/memory.db")
PASSWORD = "corr3ct-h0rse"


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("", "/data/memory.db"),
        ("sqlite://:memory:", ":memory:"),
        ("sqlite:///:memory:", ":memory:"),
        ("sqlite:///absolute/path.db", "/absolute/path.db"),
        ("sqlite:////absolute/path.db", "/absolute/path.db"),
        ("sqlite://relative/path.db", "relative/path.db"),
        ("sqlite://memory.db", "memory.db"),
        ("sqlite:///~/path.db", str(Path("~/path.db").expanduser())),
        ("sqlite://~/path.db", str(Path("~/path.db").expanduser())),
        ("sqlite:///a folder/päth%20.db", "/a folder/päth%20.db"),
    ],
)
def test_every_form_of_a_sqlite_url_names_its_file(url: str, path: str) -> None:
    assert path_of(url, DEFAULT) == path


@pytest.mark.parametrize(
    "url",
    [
        "memory.db",
        "/absolute/path.db",
        "sqlite://",
        "sqlite:///",
        "sqlite:relative.db",
        f"mysql://user:{PASSWORD}@host/database",
        f"postgresql:user:{PASSWORD}@host",
        f"postgresql+asyncpg://user:{PASSWORD}@host/database",
        "://",
    ],
)
async def test_any_other_form_is_an_error_that_says_what_is_allowed(url: str) -> None:
    with pytest.raises(InvalidInput, match="the database URL is of no known form; allowed: ") as raised:
        await (await open_database(url, DEFAULT)).close()
    assert str(raised.value).endswith(FORMS)
    assert PASSWORD not in str(raised.value)


async def test_a_url_opens_the_database_that_it_names(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = await open_database(database_url, DEFAULT)
    try:
        assert database.backend.name == ("sqlite" if database_url.startswith("sqlite") else "postgres")
        assert (await say(database, "main", draft())).stored[0].seq == 1
    finally:
        await database.close()


async def test_no_url_opens_the_default_file(tmp_path: Path) -> None:
    default = tmp_path / "folder" / "memory.db"
    database = await dialect_of("").open("", OpenOptions(default, synchronous="NORMAL", readers=1))
    assert isinstance(database, SqliteDatabase)
    assert len(database._readers) == 1
    await database.close()
    assert default.exists()


async def test_a_relative_path_is_relative_to_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    await (await open_database("sqlite://here/memory.db", DEFAULT)).close()
    assert (tmp_path / "here" / "memory.db").exists()


async def error_of(url: str) -> str:
    """Everything that a log could show of the failure to open it."""
    with pytest.raises(StorageUnavailable, match=r"^cannot connect to Postgres: ") as raised:
        await (await PostgresDatabase.open(url)).close()
    return "".join(traceback.format_exception(raised.value)) + repr(raised.value)


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://user:{PASSWORD}@127.0.0.1:1/database",
        f"postgresql://user:{PASSWORD}@nowhere.invalid/database",
        f"postgresql://user:{PASSWORD}@127.0.0.1:port/database",
        f"postgresql://user:{PASSWORD}@127.0.0.1:-1/database",
        f"postgresql://user:{PASSWORD}@127.0.0.1:65536/database",
        f"postgresql://user:{PASSWORD}@127.0.0.1:1,127.0.0.2:2/database",
        f"postgresql://user:{PASSWORD}@[::1/database",
        f"postgresql://user:{PASSWORD}@127.0.0.1:1/database?sslmode=nonsense",
        f"postgresql://user@127.0.0.1:1/database?password={PASSWORD}",
        f"postgresql://127.0.0.1:1/database?user=user&password={PASSWORD}&sslmode=nonsense",
        f"postgresql://user:a/{PASSWORD}@127.0.0.1:1/database",
        f"postgresql://user:a?{PASSWORD}@127.0.0.1:1/database",
        f"postgresql://user:a#{PASSWORD}@127.0.0.1:1/database",
        f"postgresql://user:{PASSWORD}/b@127.0.0.1:1/database",
        f"postgresql://user:{PASSWORD}?b@127.0.0.1:1/database",
        f"postgresql://user:{PASSWORD}#b@127.0.0.1:1/database",
        f"postgresql://user:{PASSWORD}",
        f"postgresql://{PASSWORD}",
    ],
)
async def test_a_password_is_in_no_error(url: str) -> None:
    assert PASSWORD not in await error_of(url)


@pytest.fixture
def nothing_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    """A URL that is cut short by its own password leads nowhere either."""
    for name in ("PGHOST", "PGHOSTADDR", "PGUSER", "PGPASSWORD", "PGDATABASE", "PGSERVICE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PGPORT", "1")


@examples(100)
@example(password="0000@,")
@example(password="-0001#")
@example(password="99999/")
@given(password=st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=6, max_size=20))
async def test_no_stretch_of_any_password_is_in_an_error(nothing_listens: None, password: str) -> None:
    error = await error_of(f"postgresql://127.0.0.1:{password}@127.0.0.1:1/database")
    told = await error_of("postgresql://127.0.0.1:1/database") + await error_of("postgresql://127.0.0.1:x/database")
    stretches = {password[at : at + 5] for at in range(len(password) - 4)}
    assert [stretch for stretch in stretches if stretch in error and stretch not in told] == []


async def test_an_error_of_the_server_says_what_is_wrong(postgres_url: str) -> None:
    head, _, rest = postgres_url.partition("://")
    wrong_role = f"{head}://nobody_here:{PASSWORD}@{rest.partition('@')[2]}"
    error = await error_of(wrong_role)
    assert 'role "nobody_here" does not exist' in error
    assert PASSWORD not in error
    error = await error_of(postgres_url.replace("search_path=", "nonsense.setting%20x="))
    assert PASSWORD not in error


def test_a_piece_of_a_password_that_was_taken_for_a_name_is_in_no_error() -> None:
    """The server's own words may repeat what a URL with an unwritten slash made of its password."""
    error = asyncpg.InvalidCatalogNameError(f'database "{PASSWORD}@host" does not exist')
    told = without_url(error, f"postgresql://user:1/{PASSWORD}@host/database")
    assert told == 'InvalidCatalogNameError: database "***@host" does not exist'
    encoded = PASSWORD.replace("-", "%2D")
    assert without_url(error, f"postgresql://user:{encoded}@host/database") == told
