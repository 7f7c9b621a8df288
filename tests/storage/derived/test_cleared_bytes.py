"""What was cleared is not in the bytes of a SQLite file."""

import secrets
from pathlib import Path

import pytest

from layerlore.storage.drivers.sqlite.database import SqliteDatabase

from ...conformance.building import NOW
from ...conformance.derived.test_working_memory_contract import change, erase

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("at_once", [False, True])
async def test_cleared_words_are_not_in_the_bytes_of_the_sqlite_files(tmp_path: Path, at_once: bool) -> None:
    database = await SqliteDatabase.open(str(tmp_path / "memory.db"))
    try:
        words = [f"{secrets.token_hex(8)} " for _ in range(12)]
        for thread_id in ("main", ""):
            for number, word in enumerate(words):
                await change(database, thread_id, word * (number * 40 + 1))
            await change(database, thread_id, "", how="clear", erase=at_once)
        assert at_once or await erase(database, NOW + 1) == 2
        assert await database.rewrite()
        left = b"".join(file.read_bytes() for file in tmp_path.iterdir())
        assert [word for word in words if word.strip().encode() in left] == []
    finally:
        await database.close()
