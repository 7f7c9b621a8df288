"""A client of a server of its own, for each test.

A tool's test runs once, on SQLite in the modern era: what differs between databases and eras lies below it and is
proved there, by `tests/storage` for each statement and by `tests/server` for each transport. Marks say where it does
not lie below:

- ``databases``: on SQLite in the modern era and on Postgres in the legacy era. For what the databases do each in its
  own way: search and vectors, deleting and erasing, calls at the same time, the isolation of tenants, bytes.
- ``eras``: in both eras on SQLite. For what the eras send each in its own way: lists, errors, resources, prompts,
  completion, defaults of a session.
"""

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from app_host import ShowsApps
from mcp import Client

from layerlore.server.runtime.runtime import close_engine, open_engine
from layerlore.server.runtime.server_builder import build_server
from layerlore.server.settings.settings import Settings, load_settings

from .calling import Connect, Tools
from .queueing import Queue

SettingsFor = Callable[..., Settings]
NO_EMBEDDER = {"embedding": {"embedder": "none"}}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    for mark, fixture, values in (
        ("databases", "database_url", ["sqlite", "postgres"]),
        ("eras", "era", ["modern", "legacy"]),
    ):
        if fixture in metafunc.fixturenames and metafunc.definition.get_closest_marker(mark):
            metafunc.parametrize(fixture, values, indirect=True)


@pytest.fixture
def database_url(request: pytest.FixtureRequest) -> str:
    """A migrated, empty database."""
    url: str = request.getfixturevalue(f"{getattr(request, 'param', 'sqlite')}_url")
    return url


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
