"""Rows that older rules made: carried over by the migration, and made anew from their messages."""

from pathlib import Path

import pytest

from layerlore.storage.core.records import Indexed, Message, Scope
from layerlore.storage.core.scopes import scope_token
from layerlore.storage.core.transaction import Database
from layerlore.storage.drivers.database import open_database
from layerlore.storage.drivers.migrations import runner
from layerlore.storage.drivers.sessions import SESSION_GAP_MS
from layerlore.storage.index import vectors
from layerlore.storage.index.lexical import TEXT_VERSION
from layerlore.storage.messages import indexed_rows
from layerlore.storage.removal import deletions

from .building import ANA, BEN, NOW, draft, drop, execute, having, indexed, only, rows, say, search_text, uid
from .vectoring import embed_all, pending


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """Here the tables are made by the tests."""
    return f"sqlite:///{tmp_path / 'memory.db'}"


@pytest.fixture
def postgres_url(empty_postgres_url: str) -> str:
    """Here the tables are made by the tests."""
    return empty_postgres_url


pytestmark = pytest.mark.anyio


async def grow_old(database: Database) -> None:
    """As if older rules had made every row."""
    await database.write_installation(execute, "UPDATE search_rows SET text_version = 1")


async def stale(database: Database) -> list[tuple[Scope, str, int]]:
    found = await database.read_installation(vectors.stale, after=0, most=100)
    assert [row.row_id for row in found] == sorted(row.row_id for row in found)
    return [(row.scope, row.thread_uid, row.seq) for row in found]


async def test_rows_of_older_rules_are_given_until_they_are_made_anew(database: Database) -> None:
    uid = (await say(database, "main", *(draft(f"word{n}") for n in range(4)))).thread.thread_uid
    assert await stale(database) == []
    await grow_old(database)
    other = (await say(database, "main", draft("word"), scope=BEN)).thread.thread_uid
    assert await stale(database) == [(ANA, uid, seq) for seq in (1, 2, 3, 4)]
    first, *_ = await database.read_installation(vectors.stale, after=0, most=1)
    assert [row.seq for row in await database.read_installation(vectors.stale, after=first.row_id, most=2)] == [2, 3]

    def chunked(message: Message) -> Indexed:
        return indexed("again", search_text(message).chunks[0])

    assert await database.write(indexed_rows.rebuild_rows, ANA, uid, [2, 3, 9], chunked) == 2
    assert await stale(database) == [(ANA, uid, 1), (ANA, uid, 4)]
    assert [message.seq for message in await having(database, "again")] == [3, 2]
    assert [message.seq for message in await having(database, "word2")] == [3]
    assert await only(database, "SELECT count(*) FROM search_rows WHERE seq IN (2, 3)") == 4
    assert await database.write(indexed_rows.rebuild_rows, BEN, uid, [1, 4], chunked) == 0
    assert await database.write(indexed_rows.rebuild_rows, BEN, other, [1], chunked) == 1


async def test_a_row_made_anew_waits_for_a_new_vector(database: Database) -> None:
    uid = (await say(database, "main", draft("apple"))).thread.thread_uid
    before = await embed_all(database)
    await database.write(indexed_rows.rebuild_rows, ANA, uid, [1], search_text)
    assert await only(database, "SELECT count(*) FROM search_vectors") == 0
    assert min(row.row_id for row in await pending(database)) > max(before)


async def test_nothing_deleted_is_indexed_again(database: Database) -> None:
    thread = (await say(database, "main", draft("apple", id="a"), draft("pear"))).thread
    await drop(database, "main", "ids", ["a"])
    assert await database.write(indexed_rows.rebuild_rows, ANA, thread.thread_uid, [1, 2], search_text) == 1
    assert await having(database, "apple") == []
    await database.write(deletions.delete_thread, ANA, "main", deletion_uid=uid(), erase=False, now=NOW)
    await say(database, "main", draft("plum"))
    assert await database.write(indexed_rows.rebuild_rows, ANA, thread.thread_uid, [1, 2], search_text) == 0
    assert await having(database, "pear") == []


OLD_THREAD = (
    "INSERT INTO threads (tenant_id, agent_id, resource_id, thread_uid, thread_id, metadata, created_at, updated_at,"
    " next_seq, last_created_at, message_count, token_count)"
    " VALUES ('local', 'agent', 'ana', 'old', 'main', '{}', 5, 6, 4, 0, 3, 9)"
)
OLD_MESSAGE = (
    "INSERT INTO messages (tenant_id, agent_id, resource_id, thread_uid, seq, id, role, name, parts, metadata, tokens,"
    " encoding, created_at, said_at, revision) VALUES ('local', 'agent', 'ana', 'old', :seq, 'm' || :seq, 'user',"
    " 'Kim', '[{\"type\":\"text\",\"text\":\"walrus\"}]', '{}', 3, 'e', :said_at, :said_at, 1)"
)
OLD_ROW = "INSERT INTO search_rows (tenant_id, agent_id, resource_id, thread_uid, seq, text_version"
OLD_WORDS = {
    "sqlite": [
        OLD_ROW + ") VALUES ('local', 'agent', 'ana', 'old', {seq}, 1)",
        "INSERT INTO search_text (rowid, text, scope) VALUES (last_insert_rowid(), 'walrus', '{token}')",
    ],
    "postgres": [
        OLD_ROW + ", lexemes) VALUES ('local', 'agent', 'ana', 'old', {seq}, 1, array_to_tsvector("
        "ARRAY['walrus', ':' || '{token}']))"
    ],
}


async def test_what_the_second_version_indexed_is_found_and_is_made_anew(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {dialect: runner.migrations(dialect)[:2] for dialect in ("sqlite", "postgres")}
    with monkeypatch.context() as patched:
        patched.setattr(runner, "migrations", lambda dialect: known[dialect])
        old = await open_database(database_url, Path())
        await old.write_installation(execute, OLD_THREAD)
        for seq, hours in ((1, 0), (2, 1), (3, 9)):
            said_at = NOW + hours * SESSION_GAP_MS // 6
            await old.write_installation(
                execute, OLD_MESSAGE.replace(":seq", str(seq)).replace(":said_at", str(said_at))
            )
            for sql in OLD_WORDS[old.backend.name]:
                await old.write_installation(execute, sql.format(seq=seq, token=scope_token(ANA)))
        before = await old.read_installation(rows, "SELECT row_id FROM search_rows ORDER BY seq")
        await old.close()
    database = await open_database(database_url, Path())
    try:
        assert await database.read_installation(rows, "SELECT row_id FROM search_rows ORDER BY seq") == before
        kept = "SELECT seq, chunk, role, speaker, said_at, session_seq, session_mark FROM search_rows ORDER BY seq"
        assert await database.read_installation(rows, kept) == [
            (1, 0, "user", "Kim", NOW, 1, None),
            (2, 0, "user", "Kim", NOW + SESSION_GAP_MS // 6, 1, None),
            (3, 0, "user", "Kim", NOW + SESSION_GAP_MS * 3 // 2, 3, None),
        ]
        assert len(await having(database, "walrus")) == 3
        assert await stale(database) == [(ANA, "old", seq) for seq in (1, 2, 3)]
        assert await database.write(indexed_rows.rebuild_rows, ANA, "old", [1, 2, 3], search_text) == 3
        assert await stale(database) == []
        assert len(await having(database, "walrus")) == 3
        assert await only(database, "SELECT min(text_version) FROM search_rows") == TEXT_VERSION
        assert await only(database, "SELECT min(row_id) FROM search_rows") > before[-1][0]
    finally:
        await database.close()
