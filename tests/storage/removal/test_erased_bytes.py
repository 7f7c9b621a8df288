"""What was erased is not in the bytes of a SQLite file."""

from pathlib import Path

import pytest

from layerlore.storage.derived import working_memory
from layerlore.storage.drivers.sqlite.database import SqliteDatabase

from ...conformance.building import ANA, BEN, NOW, draft, rows, say
from ...conformance.removal.test_erasing_contract import erase, erase_threads, fill_all, write_profile
from ...conformance.removal.test_erasure_contract import (
    bytes_on_disk,
    secret_words,
)

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("whole", [True, False])
async def test_no_marker_is_left_in_the_bytes_of_the_sqlite_files(tmp_path: Path, whole: bool) -> None:
    path = tmp_path / "memory.db"
    database = await SqliteDatabase.open(str(path))
    words, gone, kept = secret_words(8), secret_words(300), secret_words(100)
    try:
        await say(database, "kept", *(draft(word) for word in kept), scope=BEN)
        for start in range(0, len(gone), 20):
            await say(database, "main", *(draft(word * 3, id=word[:9]) for word in gone[start : start + 20]))
        await fill_all(database, words)
        assert all(word.encode() in bytes_on_disk(path) for word in (*words, *gone, *kept))
        vectors = [row[0] for row in await database.read_installation(rows, "SELECT vector FROM search_vectors")]
        await (erase(database) if whole else erase_threads(database, "main"))
        await write_profile(database, "")
        if not whole:  # what a caller wrote itself, which rests on no conversation
            await database.write(working_memory.erase_cleared, ANA, cleared_before=NOW * 2)
        assert await database.rewrite()
        left = bytes_on_disk(path)
        key = () if whole else (words[2],)  # a caller's, whose answer names no thread: it goes within a day
        assert [word for word in (*words, *gone) if word.encode() in left and word not in key] == []
        assert all(word.encode() in left for word in kept)
        assert len(vectors) > 300
        assert not [vector for vector in vectors if vector in left]
    finally:
        await database.close()
