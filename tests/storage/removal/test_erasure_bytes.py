"""Erased words are not in the bytes of a SQLite file."""

from pathlib import Path

import pytest

from layerlore.storage.audit.idempotency import Request
from layerlore.storage.drivers.sqlite.database import SqliteDatabase
from layerlore.storage.threads import threads
from layerlore.storage.threads.threads import Description

from ...conformance.building import (
    ANA,
    NOW,
    draft,
    drop,
    rows,
    say,
    uid,
)
from ...conformance.removal.test_erasure_contract import VECTORS, bytes_on_disk, expire, fill, log_work, secret_words

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("at_once", [False, True])
async def test_erased_words_are_not_in_the_bytes_of_the_sqlite_files(tmp_path: Path, at_once: bool) -> None:
    path = tmp_path / "memory.db"
    database = await SqliteDatabase.open(str(path))
    kept, gone = secret_words(150), secret_words(150)
    try:
        drafts = [
            draft(words, id=words[:8])
            for n, (keep, go) in enumerate(zip(kept, gone, strict=True))
            for words in (keep, go * (1 + n % 40))
        ]
        for start in range(0, len(drafts), 10):  # pages split as they fill
            await say(database, "main", *drafts[start : start + 10])
        rest = secret_words(8)
        await fill(database, rest)
        worked = secret_words(4)
        await database.write(log_work, ANA, ["main", *worked], "a")
        told = [word for word in rest[:-1] if word != rest[2]]  # of a request's key a hash is kept
        there = bytes_on_disk(path)
        assert all(word.encode() in there for word in (*kept, *gone, *told, *worked, Request(rest[2], "").stored_key))
        embedded = await database.read_installation(rows, VECTORS)
        await drop(database, "main", "ids", [word[:8] for word in gone], erase=at_once)
        await drop(database, "main", "ids", ["u", "a"], erase=at_once)
        description = Description("", {rest[1]: None}, "")
        await database.write(threads.describe, ANA, "main", description, new_uid=uid(), now=NOW, check=lambda _: None)
        await expire(database)
        assert await database.rewrite()
        left = bytes_on_disk(path)
        assert [word for word in (*gone, *rest, *worked) if word.encode() in left] == []
        assert all(word.encode() in left for word in kept)
        assert {id_ for id_, *_ in embedded} >= {word[:8] for word in (*kept, *gone)}
        kept_ids = {word[:8] for word in kept}
        for id_, vector, code in embedded:
            if id_ in kept_ids:
                assert vector in left
            elif id_ not in ("r", "t"):
                assert vector not in left
                assert code not in left
    finally:
        await database.close()
