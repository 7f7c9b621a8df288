"""The matrix where no statement asks for a scope: run by test_isolation_matrix in a process of its own, with the plugin
``without_conditions``."""

from collections.abc import Callable

import asyncpg
import pytest

from layerlore.server.runtime import runtime
from layerlore.storage.core import scopes
from layerlore.storage.core.tables import threads

from .isolation_matrix import VICTIM, Matrix
from .isolation_world import Person, world

pytestmark = [pytest.mark.anyio, pytest.mark.soak]


@pytest.fixture(autouse=True)
def no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "LOAD_AFTER_SECONDS", 3600)
    assert str(scopes.in_scope(threads)) == "true", "the plugin without_conditions was not loaded"


async def test_policies_alone_keep_apart(serving_url: str, postgres_url: str, trials: Callable[..., range]) -> None:
    (deal,) = trials(1, soak=1)
    async with world(serving_url) as server, server.client("modern") as client:
        matrix = Matrix(server, Person(client, VICTIM), (await server.process.runtime()).engine, deal=deal)
        found = await matrix.run(postgres_url)
    print(found.calls, found.tools, found.handles)
    assert not found.leaks, "\n".join(found.leaks[:20])


async def test_without_policies_and_conditions_much_comes_through(serving_url: str, postgres_url: str) -> None:
    owner = await asyncpg.connect(postgres_url)
    tables = await owner.fetch(
        "SELECT relname FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relrowsecurity"
    )
    for (name,) in tables:
        await owner.execute(f"ALTER TABLE {name} DISABLE ROW LEVEL SECURITY")
    await owner.close()
    async with world(serving_url) as server, server.client("modern") as client:
        matrix = Matrix(server, Person(client, VICTIM), (await server.process.runtime()).engine)
        found = await matrix.run(postgres_url, tools=["list_threads", "list_runs", "recall_memory"])
    told = {leak.partition(":")[0] for leak in found.leaks if ": tells " in leak}
    assert told == {"another tenant", "another agent", "another resource", "one of many resources"}
