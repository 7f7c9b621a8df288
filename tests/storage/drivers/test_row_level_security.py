"""What Postgres itself keeps apart, whatever the statements ask for."""

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest
from sqlalchemy import text

from layerlore.storage.audit import api_keys, journal_rows
from layerlore.storage.audit.journal_rows import JournalLine
from layerlore.storage.core.errors import DatabaseTooNew, NotFound, StorageUnavailable
from layerlore.storage.core.installation import LOOKS
from layerlore.storage.core.records import Scope, Tenant
from layerlore.storage.core.tables import SCOPE, metadata
from layerlore.storage.core.transaction import Tx
from layerlore.storage.drivers.postgres.backend import definition
from layerlore.storage.drivers.postgres.database import PostgresDatabase
from layerlore.storage.drivers.postgres.transaction import beginning
from layerlore.storage.index import lexical, vectors
from layerlore.storage.jobs import backlog, job_rows
from layerlore.storage.messages import place_rows, tenant_memories
from layerlore.storage.removal import erasure, retention
from layerlore.storage.threads import threads

from ...conformance.building import ANA, BEN, NOW, draft, say

pytestmark = pytest.mark.anyio

ABROAD = Scope("other", ANA.agent_id, ANA.resource_id)
# Their owner is not held: its function matches the words of the one, and an operator reads the other.
NOT_FORCED = ["journal", "search_rows"]
OF_TENANTS = sorted([*(table.name for table in metadata.sorted_tables if "tenant_id" in table.c), *NOT_FORCED])
# Their looks are known once they are loaded.
LOOKING = (api_keys, backlog, erasure, retention, job_rows, place_rows, vectors)


@pytest.fixture
async def serving(serving_url: str) -> AsyncIterator[PostgresDatabase]:
    """The database as the role that serves has it."""
    opened = await PostgresDatabase.open(serving_url)
    yield opened
    await opened.close()


@pytest.fixture
async def serving_connection(serving_url: str) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    connection = await asyncpg.connect(serving_url)
    yield connection
    await connection.close()


async def names(tx: Tx, _: Any) -> set[tuple[str, ...]]:
    """Whose threads a statement without a condition finds."""
    return {tuple(row) for row in await tx.all(text(f"SELECT {', '.join(SCOPE)} FROM threads"))}


async def nothing_bound(tx: Tx) -> set[tuple[str, ...]]:
    return await names(tx, None)


async def test_a_statement_without_a_condition_finds_only_what_its_transaction_is_bound_to(
    serving: PostgresDatabase,
) -> None:
    for scope in (ANA, BEN, ABROAD):
        await say(serving, "main", draft(), scope=scope)
    for scope in (ANA, BEN, ABROAD):
        assert await serving.read(names, scope) == {(scope.tenant_id, scope.agent_id, scope.resource_id)}
    assert {row[2] for row in await serving.read(names, Tenant(ANA.tenant_id))} == {ANA.resource_id, BEN.resource_id}
    assert await serving.read(names, Tenant("nobody")) == set()
    assert await serving.read_installation(nothing_bound) == set()


async def test_an_operator_s_list_shows_one_tenant_and_is_journaled_by_the_role_that_serves(
    serving: PostgresDatabase,
) -> None:
    for scope in (ANA, BEN, ABROAD):
        await say(serving, "main", draft(), scope=scope)

    async def look(tx: Tx, tenant: Tenant) -> list[tuple[str, str]]:
        # A statement that is about another tenant than its transaction finds nothing.
        every = threads.ThreadFilter()
        abroad, _ = await threads.read_page(tx, Tenant(ABROAD.tenant_id), every, after=None, limit=9)
        found, _ = await threads.read_page(tx, tenant, every, after=None, limit=9)
        everybody = {"agents": None, "resource": None, "most": 9}
        assert await tenant_memories.pairs_after(tx, Tenant(ABROAD.tenant_id), ("", ""), **everybody) == []
        assert len(await tenant_memories.pairs_after(tx, tenant, ("", ""), **everybody)) == len({ANA, BEN})
        await journal_rows.append(tx, Scope(tenant.tenant_id, "", ""), JournalLine(NOW, "p", "c", "t", "done", "m"))
        return sorted((thread.agent_id, thread.resource_id) for thread in (*found, *abroad))

    looked = await serving.write(look, Tenant(ANA.tenant_id))
    assert looked == sorted((scope.agent_id, scope.resource_id) for scope in (ANA, BEN))


async def test_what_is_another_s_can_neither_be_written_nor_changed_nor_removed(serving: PostgresDatabase) -> None:
    await say(serving, "main", draft(), scope=ABROAD)

    async def insert(tx: Tx, _: Scope) -> None:
        await threads.lock_or_make(tx, ABROAD, "made", "uid", NOW)

    async def change(tx: Tx, _: Scope) -> list[int]:
        sql = ("UPDATE threads SET metadata = 'x'", "UPDATE messages SET parts = '[]'", "DELETE FROM threads")
        return [await tx.run(text(each)) for each in sql]

    with pytest.raises(asyncpg.InsufficientPrivilegeError, match="row-level security"):
        await serving.write(insert, ANA)
    assert await serving.write(change, ANA) == [0, 0, 0]
    assert (await serving.read(threads.find, ABROAD, "main")).message_count == 1


async def test_a_name_is_bound_as_it_is_whatever_is_in_it(serving: PostgresDatabase) -> None:
    odd = [Scope("t'; DROP TABLE threads; --", "a\\' OR true", "$1 \x01 ☃"), Scope("''", "\\x41", "E'\\n'"), ANA]
    for scope in odd:
        await say(serving, "main", draft(), scope=scope)
    for scope in odd:
        assert await serving.read(names, scope) == {(scope.tenant_id, scope.agent_id, scope.resource_id)}


async def test_what_a_transaction_was_bound_to_ends_with_it(
    serving_connection: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    for end in ("COMMIT", "ROLLBACK"):
        await serving_connection.execute(beginning("READ WRITE", ANA))
        assert await serving_connection.fetchval("SELECT current_setting('layerlore.tenant', true)") == ANA.tenant_id
        await serving_connection.execute(end)
        assert not await serving_connection.fetchval("SELECT current_setting('layerlore.tenant', true)")


async def test_every_table_of_tenants_has_a_policy_that_holds_its_owner_too(
    serving_connection: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    found = await serving_connection.fetch(
        "SELECT relname, relrowsecurity, relforcerowsecurity FROM pg_class"
        " WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'"
    )
    tables = {name: (enabled, forced) for name, enabled, forced in found}
    assert sorted(name for name, (enabled, _) in tables.items() if enabled) == sorted({*OF_TENANTS, "search_vectors"})
    assert sorted(name for name, (enabled, forced) in tables.items() if enabled and not forced) == NOT_FORCED


async def test_the_functions_that_look_at_all_tenants_are_the_statements_that_sqlite_runs(
    serving_connection: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    found = dict(await serving_connection.fetch("SELECT proname, prosrc FROM pg_proc WHERE prosecdef AND pronamespace = current_schema()::regnamespace"))  # fmt: skip
    assert LOOKS
    for name, look in LOOKS.items():
        assert found[name] in definition(look)
        assert len(found[name]) > 80
    for name in found.keys() - LOOKS.keys():
        assert name in ("layerlore_postings",)


async def test_they_give_no_column_that_holds_what_was_said(
    serving_connection: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    given = {name for look in LOOKS.values() for name, _ in look.columns}
    places_and_counts = {*SCOPE, "thread_uid", "kind", "seq", "chunk", "row_id", "count", "due_at"}
    of_jobs = {"requested_seq", "done_seq", "epoch", "attempts", "state", "jobs", "failed", "of_others"}
    of_keys = {"key_id", "agents", "rights", "created_at", "expires_at", "revoked_at"}
    assert given <= places_and_counts | of_jobs | of_keys


async def test_words_are_matched_in_the_scope_that_the_transaction_is_bound_to(serving: PostgresDatabase) -> None:
    await say(serving, "main", draft("a heron"), scope=ANA)
    await say(serving, "main", draft("a heron"), scope=ABROAD)

    async def look(tx: Tx, _: Scope, of: Scope) -> int:
        return len((await lexical.postings(tx, of, ["heron"], most=9))["heron"])

    assert await serving.read(look, ANA, ANA) == 1
    assert await serving.read(look, ANA, ABROAD) == 0


async def test_no_word_asks_beyond_its_scope(serving: PostgresDatabase) -> None:
    await say(serving, "main", draft("a heron"), scope=ANA)
    await say(serving, "main", draft("a secret heron"), scope=ABROAD)
    words = [
        "x' | 'secret",
        "x'|'secret'|'",
        "x\\' | 'secret",
        "x' | !'y",
        "'",
        "\\",
        "''",
        "x\\",
        "(",
        "!",
        "secret:*",
    ]

    async def look(tx: Tx, _: Scope) -> dict[str, Any]:
        return dict(await lexical.postings(tx, ANA, [*words, "heron"], most=9))

    found = await serving.read(look, ANA)
    assert len(found.pop("heron")) == 1
    assert not any(len(rows) for rows in found.values()), found


async def test_a_job_is_found_among_all_tenants_and_worked_on_in_its_own(serving: PostgresDatabase) -> None:
    async def ask(tx: Tx, scope: Scope) -> None:
        await job_rows.request(tx, scope, "", "profile", 1, due_at=NOW, now=NOW)

    for scope in (ANA, ABROAD):
        await serving.write(ask, scope)
    claimed = [
        await serving.write_installation(job_rows.claim, ["profile"], holder="h", now=NOW, lease_ms=1000)
        for _ in range(3)
    ]
    assert {claim.scope for claim in claimed if claim} == {ANA, ABROAD}
    assert claimed[2] is None
    for claim in claimed[:2]:
        assert claim is not None
        assert await serving.write(job_rows.prolong, claim, now=NOW, lease_ms=9)


async def test_what_a_caller_puts_before_a_table_is_not_what_the_functions_read(
    serving_connection: "asyncpg.Connection[asyncpg.Record]",
) -> None:
    await serving_connection.execute("CREATE TEMPORARY TABLE threads (message_count BIGINT, deletion_uid TEXT)")
    await serving_connection.execute("INSERT INTO threads VALUES (99, NULL)")
    assert await serving_connection.fetchval("SELECT layerlore_count_messages()") == 0


async def test_the_role_that_serves_cannot_open_the_policies_itself(
    serving: PostgresDatabase, serving_connection: "asyncpg.Connection[asyncpg.Record]"
) -> None:
    await say(serving, "main", draft())
    async with serving_connection.transaction():
        await serving_connection.execute("SELECT set_config('layerlore.across', 'yes', true)")
        assert await serving_connection.fetchval("SELECT count(*) FROM threads") == 0
    for refused in ("ALTER TABLE threads DISABLE ROW LEVEL SECURITY", "DROP POLICY bound ON threads"):
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await serving_connection.execute(refused)


async def test_it_is_known_whether_a_role_is_held(
    serving: PostgresDatabase, postgres_url: str, postgres_admin_url: str, serving_url: str
) -> None:
    assert serving.standing.unfit == ""
    owned = await PostgresDatabase.open(postgres_url)
    assert owned.standing.unfit.endswith("owns the tables")
    await owned.close()
    admin = await asyncpg.connect(postgres_admin_url)
    for attribute, why in (("BYPASSRLS", "has BYPASSRLS"), ("SUPERUSER", "is a superuser")):
        await admin.execute(f"ALTER ROLE {serving.standing.role} {attribute}")
        again = await PostgresDatabase.open(serving_url)
        assert again.standing.unfit == f"the role {serving.standing.role} {why}"
        await again.close()
        await admin.execute(f"ALTER ROLE {serving.standing.role} NO{attribute}")
    await admin.close()


async def test_the_role_that_serves_is_told_who_makes_the_tables(serving_url: str) -> None:
    empty = f"{serving_url}_and_another"  # the search path: a schema in which it may make nothing
    with pytest.raises(StorageUnavailable, match="layerlore migrate --owner-url"):
        await PostgresDatabase.open(empty)


async def test_an_unbound_look_finds_no_thread(serving: PostgresDatabase) -> None:
    await say(serving, "main", draft())

    async def find(tx: Tx) -> object:
        return await threads.find(tx, ANA, "main")

    with pytest.raises(NotFound):
        await serving.read_installation(find)


async def test_tables_that_change_hands_open_to_their_new_owner_alone(
    postgres_admin_url: str, postgres_url: str, serving_url: str
) -> None:
    """From a role that made the tables and served, to one that owns them and one that serves."""
    first = await PostgresDatabase.open(postgres_url)
    await say(first, "main", draft(), scope=ABROAD)
    former = first.standing.role
    await first.close()
    second = urlsplit(serving_url).username
    admin = await asyncpg.connect(postgres_admin_url, database=urlsplit(postgres_url).path.removeprefix("/"))
    schema = urlsplit(postgres_url).query.partition("search_path=")[2]
    tables = await admin.fetch("SELECT tablename FROM pg_tables WHERE schemaname = $1", schema)
    functions = await admin.fetch(
        "SELECT oid::regprocedure::text FROM pg_proc WHERE pronamespace = $1::text::regnamespace AND prosecdef", schema
    )
    await admin.execute(f"GRANT USAGE, CREATE ON SCHEMA {schema} TO {second}")
    for (table,) in tables:
        await admin.execute(f"ALTER TABLE {schema}.{table} OWNER TO {second}")
    for (function,) in functions:
        await admin.execute(f"ALTER FUNCTION {function} OWNER TO {second}")

    still = await PostgresDatabase.open(serving_url)
    assert still.standing.unfit.endswith("owns the tables")
    await still.grant(former)
    await still.close()

    served = await PostgresDatabase.open(postgres_url)
    assert served.standing.unfit == ""
    assert await served.read_installation(place_rows.count_messages) == 1
    await served.close()
    connection = await asyncpg.connect(postgres_url)
    async with connection.transaction():
        await connection.execute("SELECT set_config('layerlore.across', 'yes', true)")
        assert await connection.fetchval("SELECT count(*) FROM threads") == 0
    await connection.close()
    for (table,) in tables:
        await admin.execute(f"ALTER TABLE {schema}.{table} OWNER TO {former}")
    for (function,) in functions:
        await admin.execute(f"ALTER FUNCTION {function} OWNER TO {former}")
    await admin.close()


async def test_a_newer_schema_is_refused_by_name_also_for_the_role_that_may_make_no_table(
    postgres_url: str, serving_url: str
) -> None:
    owner = await asyncpg.connect(postgres_url)
    await owner.execute("INSERT INTO schema_migrations VALUES (99, 'from the future', 0)")
    try:
        with pytest.raises(DatabaseTooNew, match="schema version 99"):
            await PostgresDatabase.open(serving_url)
    finally:
        await owner.execute("DELETE FROM schema_migrations WHERE version = 99")
        await owner.close()
