"""What an ended run held is not in the bytes of a SQLite file."""

from pathlib import Path

import pytest

from layerlore.storage.drivers.sqlite.database import SqliteDatabase

from ...conformance.removal.test_erasure_contract import bytes_on_disk, secret_words
from ...conformance.running import Runs

pytestmark = pytest.mark.anyio


async def test_what_an_ended_run_held_is_not_in_the_bytes_of_the_sqlite_files(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    database = await SqliteDatabase.open(str(path))
    try:
        runs, words = Runs(database), secret_words(40)
        claims: dict[str, str] = {}
        for word in words:
            await runs.suspend(word[:8], [word] * 50, pending_tool_calls=[{"tool_call_id": "c", "why": word}])
            claims[word[:8]] = (await runs.resume(word[:8], [word]))["claim"]
        assert all(word.encode() in bytes_on_disk(path) for word in words)
        for run_id, claim in claims.items():
            await runs.complete(run_id, claim, output="done")
        assert await database.rewrite()
        assert [word for word in words if word.encode() in bytes_on_disk(path)] == []
    finally:
        await database.close()
