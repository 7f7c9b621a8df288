"""A client of a server of its own, in each protocol era, on each database."""

import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from mcp import Client

from layerlore.server.building import build_server
from layerlore.server.runtime import close_engine, open_engine
from layerlore.server.settings import Settings, load_settings

from .calling import Connect, Tools
from .queueing import Queue

SettingsFor = Callable[..., Settings]
NO_EMBEDDER = {"embedding": {"embedder": "none"}}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Both eras on both databases where a module says so; elsewhere each era on one database, in half the time."""
    if "era" in metafunc.fixturenames and getattr(metafunc.module, "BOTH_ERAS_ON_BOTH", False):
        metafunc.parametrize("era", ["modern", "legacy"], indirect=True)


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
    """Opens a client of a server of its own on the test's database, with any settings."""

    @contextlib.asynccontextmanager
    async def opened(**flags: Any) -> AsyncIterator[Tools]:
        async with Client(build_server(settings_for(**flags)), mode="auto" if era == "modern" else "legacy") as client:
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
