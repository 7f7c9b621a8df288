"""What the tests of this suite ask for, made from ``--layerlore-url``."""

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from layerlore.storage.core.transaction import Database
from layerlore.storage.drivers.dialect import open_database
from layerlore.storage.threads import threads

from .building import ANA
from .plugin import OPTION


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """The servers run on asyncio alone."""
    return "asyncio"


@pytest.fixture
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database of its own for each test."""
    given: str = request.config.getoption(OPTION)
    return given.replace("{folder}", str(tmp_path)).replace("{name}", f"layerlore_{uuid.uuid4().hex}")


@pytest.fixture
async def database(database_url: str, tmp_path: Path) -> AsyncIterator[Database]:
    """It is open, and empty."""
    opened = await open_database(database_url, tmp_path / "memory.db")
    yield opened
    await opened.close()


@pytest.fixture
def nothing_is_open(database_url: str, tmp_path: Path) -> Callable[[Database], Awaitable[None]]:
    """Fails where a transaction was left open: another connection then cannot write."""

    async def check(database: Database) -> None:
        other = await open_database(database_url, tmp_path / "memory.db")
        await other.write(threads.count_live, ANA)
        await other.close()

    return check
