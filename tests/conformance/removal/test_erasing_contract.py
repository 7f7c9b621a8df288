"""Erasing what is kept of somebody: hidden at once, gone from every table, and nothing else is touched."""

from collections.abc import Sequence

import pytest
from sqlalchemy import bindparam, insert

from layerlore.storage.audit import idempotency, usage_rows
from layerlore.storage.audit.idempotency import Request
from layerlore.storage.audit.usage_rows import UsageLine, UsageSums
from layerlore.storage.core import installation
from layerlore.storage.core.errors import NotFound
from layerlore.storage.core.records import Json, Origin, Scope, Tenant
from layerlore.storage.core.scopes import KINDS, of_thread, scope_token
from layerlore.storage.core.tables import SCOPE, document_sources, search_rows, search_vectors, user_profiles
from layerlore.storage.core.transaction import Database, Row, Tx
from layerlore.storage.derived import entries, working_memory
from layerlore.storage.derived.entries import EntrySource, NewEntry
from layerlore.storage.jobs import job_rows
from layerlore.storage.moving import moved_entries
from layerlore.storage.moving.moved_entries import SharedRow
from layerlore.storage.removal import deletions, erasure
from layerlore.storage.removal.erasure import OWNED
from layerlore.storage.threads import events, threads
from layerlore.storage.work import runs
from layerlore.storage.work.runs import Checkpoint

from ..building import ANA, BEN, NOW, draft, drop, everything, having, only, rows, say, search_text, uid
from ..vectoring import embed_all
from .test_erasure_contract import (
    contents,
    derive,
    drop_thread,
    fill,
    keep_in_mind,
    log_work,
    plan_work,
    run_agents,
    secret_words,
)

pytestmark = pytest.mark.anyio

LOCAL = Tenant("local")
# What stays when a thread goes.
SPENT = ("usage", "daily_usage")
OTHERS = (
    BEN,
    Scope("local", "other-agent", "ana"),
    Scope("another-tenant", "agent", "ana"),
)
ORIGIN = Origin("client", "update_working_memory")


async def fill_all(database: Database, words: Sequence[str]) -> None:
    """Rows of ANA's in every table, with the words in them."""
    await fill(database, words)
    for message_id in ("a", None):
        await database.write(log_work, ANA, words, message_id)
    await database.write(run_agents, ANA, words)
    await database.write(plan_work, ANA, words)
    await database.write(keep_in_mind, ANA, words)
    await database.write(derive, ANA, words)


async def share(database: Database, line: str, scope: Scope = ANA) -> None:
    """Lines of a shared file, as a project keeps them: one that is told, and one that was forgotten."""
    lines = [SharedRow("s1", None, 1, line), SharedRow("s2", None, 1, None)]
    await database.write(moved_entries.put_lines, scope, lines)


async def fill_others(database: Database) -> None:
    for scope in OTHERS:
        await say(database, "main", draft("a kept quokka", id="k"), draft("gone", id="g"), scope=scope)
        await drop(database, "main", "ids", ["g"], scope=scope)
        await write_profile(database, "likes quokkas", scope)
        await remember(database, "e", "a quokka", scope)
        await share(database, "a quokka", scope)
    await embed_all(database)


async def write_profile(database: Database, content: str, scope: Scope = ANA) -> None:
    await database.write(
        working_memory.change,
        scope,
        "",
        lambda *_: content,
        how="replace",
        expected_version=None,
        origin=ORIGIN,
        new_uid=uid(),
        now=NOW,
    )


async def remember(
    database: Database,
    entry_id: str,
    content: str,
    scope: Scope = ANA,
    *sources: EntrySource,
    kind: str | None = "fact",
) -> None:
    origin: entries.Origin = "extracted" if sources else "caller"
    new = NewEntry(entry_id, content, kind, origin, "user", "m", "p", NOW, sources)
    await database.write(entries.insert_new, scope, new, now=NOW, search_text=search_text)


async def owned_rows(database: Database, *, of: Sequence[str] | None = None, but: Scope | None = None) -> list[str]:
    """All rows of the tables (None: of all that anybody owns rows of), those of one scope left out."""
    found: list[str] = []
    for table in (*OWNED, search_rows):
        if of is None or table.name in of:
            of_table = await database.read_installation(rows, f"SELECT {', '.join(SCOPE)}, t.* FROM {table.name} t")
            found += [repr((table.name, row)) for row in of_table if but is None or Scope(*row[:3]) != but]
    if of is None:
        tokens = [] if but is None else [scope_token(but, kind) for kind in KINDS]
        vectors = await database.read_installation(rows, "SELECT row_id, scope_token, vector FROM search_vectors")
        found += [repr(row) for row in vectors if row[1] not in tokens]
    return sorted(found)


async def erase(database: Database, scope: Scope = ANA, *, most: int = 500) -> erasure.Counts:
    counted = await database.write(erasure.hide, scope)
    while await database.write(erasure.purge, scope, most=most):
        pass
    return counted


async def erase_threads(database: Database, thread_id: str, *, most: int = 500) -> erasure.Counts:
    hidden = await database.write(erasure.hide_threads, ANA, thread_id, now=NOW)
    while await database.write(erasure.purge, ANA, most=most):
        pass
    return hidden.counts


async def expected(database: Database, thread_id: str) -> erasure.Counts:
    async def counted(tx: Tx, scope: Scope) -> erasure.Counts:
        return await erasure.count_threads(tx, ANA, thread_id, await erasure.find_named(tx, ANA, thread_id))

    return await database.read(counted, ANA)


@pytest.mark.parametrize("most", [500, 4])
async def test_all_of_a_scope_is_gone_from_every_table_and_of_others_nothing(database: Database, most: int) -> None:
    empty = await contents(database)
    words = secret_words(8)
    await fill_all(database, words)
    await drop_thread(database, "main")
    await fill(database, words)
    await share(database, words[0])
    await fill_others(database)
    before = await owned_rows(database, but=ANA)
    filled = await contents(database)
    unfilled = [table.name for table in OWNED if filled[table.name] == empty[table.name]]
    assert not unfilled, f"this test must put rows into {unfilled}"
    counted = await database.read(erasure.count, ANA)
    assert await erase(database, most=most) == counted
    assert counted.keys() == {table.name for table in (*OWNED, search_rows, search_vectors)}
    assert await owned_rows(database) == before
    left = repr(await contents(database))
    assert not [word for word in words if word in left]
    assert [message.id for message in await having(database, "quokka", OTHERS[1])] == ["e", "k"]
    assert await database.read_installation(erasure.unfinished) == []
    assert not await database.read(erasure.count, ANA)


async def test_counting_changes_nothing_and_one_who_kept_nothing_has_no_rows(database: Database) -> None:
    await fill_all(database, secret_words(8))
    before = await contents(database)
    await database.read(erasure.count, ANA)
    await expected(database, "main")
    nobody = Scope("local", "agent", "nobody")
    assert not await database.read(erasure.count, nobody)
    assert not await database.write(erasure.hide, nobody)
    hidden = await database.write(erasure.hide_threads, ANA, "no such thread", now=NOW)
    assert not hidden.counts
    after = await contents(database)
    assert {name for name in before if before[name] != after[name]} <= {"last_writes"}


async def test_the_agents_that_keep_anything_of_somebody_are_found(database: Database) -> None:
    await fill_others(database)
    await say(database, "main", draft("hello"))
    assert await database.read(erasure.agents_of, LOCAL, "ana") == ["agent", "other-agent"]
    assert await database.read(erasure.agents_of, LOCAL, "ben") == ["agent"]
    assert await database.read(erasure.agents_of, Tenant("another-tenant"), "ana") == ["agent"]
    assert await database.read(erasure.agents_of, Tenant("another-tenant"), "ben") == []
    await erase(database)
    assert await database.read(erasure.agents_of, LOCAL, "ana") == ["other-agent"]


async def seen(tx: Tx, scope: Scope) -> list[object]:
    """What readers are given."""
    listed, _ = await threads.read_page(
        tx, scope, threads.ThreadFilter(order_by="title", descending=False), after=None, limit=9
    )
    profile = await working_memory.read_current(tx, scope, "")
    log = await events.read_page_of_resource(tx, scope, after=0, types=[], limit=9)
    return [
        *listed,
        *([profile] if profile else []),
        *log.events,
        *await entries.read_seen(tx, scope, ["e", "own"]),
        *await job_rows.list_waiting(tx, scope, NOW),
        *await usage_rows.of_resource(tx, scope),
        *await deletions.list_deletions(tx, scope),
    ]


async def test_it_is_hidden_before_any_of_it_is_erased(database: Database) -> None:
    words = secret_words(8)
    await fill_all(database, words)
    await remember(database, "own", "what a caller said", ANA)
    await drop(database, "main", "ids", ["r"])
    (deleted, *_) = await database.read(deletions.list_deletions, ANA)
    assert len(await database.read(seen, ANA)) >= 7
    await database.write(erasure.hide, ANA)
    assert await database.read(seen, ANA) == []
    assert await database.read(entries.count, ANA) == 0
    assert (await database.read(threads.count_live, ANA))[1] == 0
    for name in ("main", ""):
        with pytest.raises(NotFound):
            await everything(database, name)
    with pytest.raises(NotFound):
        await database.read(runs.find, ANA, words[0])
    assert await only(database, "SELECT count(*) FROM messages") > 0
    with pytest.raises(NotFound):
        await database.write(deletions.restore, ANA, deleted.deletion_uid, now=NOW, search_text=search_text)
    (marked,) = await database.read_installation(rows, "SELECT deletion_uid FROM deletions")
    with pytest.raises(NotFound):
        await database.write(deletions.restore, ANA, marked[0], now=NOW, search_text=search_text)


async def test_what_a_crash_left_is_found_and_erased_in_portions(database: Database) -> None:
    await say(database, "main", *(draft(f"word{n}") for n in range(40)))
    for n in range(5):
        await remember(database, f"e{n}", f"word{n}")
    await database.write(erasure.hide, ANA)
    await database.write(deletions.erase_expired, ANA, deleted_before=NOW * 2, answered_before=0)
    assert await only(database, "SELECT count(*) FROM messages") == 40, "left to what goes in portions"
    portions = []
    while await database.read_installation(erasure.unfinished) == [ANA]:
        portions.append(await database.write(erasure.purge, ANA, most=10))
    assert max(portions) <= 10
    assert sum(portions) == 5 + 2 * 40 + 1
    assert await database.write(erasure.purge, ANA) == 0
    assert bool(await database.read_installation(installation.rewrite_owed)) == database.backend.keeps_erased_bytes


async def test_what_is_written_meanwhile_is_new_and_stays(database: Database) -> None:
    await fill_all(database, secret_words(8))
    await write_profile(database, "old")
    await remember(database, "own", "likes tea", kind="decision")
    await database.write(erasure.hide, ANA)
    await say(database, "main", draft("new words", id="u"))
    await write_profile(database, "new")
    await remember(database, "new", "likes tea", kind=None)

    async def suspend(tx: Tx, scope: Scope) -> None:
        thread = await threads.lock(tx, ANA, "main")
        await runs.create(tx, ANA, thread, "r1", Checkpoint("{}", "[]", "w", {}, "r", None), now=NOW)

    await database.write(suspend, ANA)
    while await database.write(erasure.purge, ANA, most=7):
        pass
    assert [message.id for message in await everything(database, "main")] == ["u"]
    assert [message.id for message in await having(database, "new")] == ["u"]
    assert [message.id for message in await having(database, "tea")] == ["new"]
    profile = await database.read(working_memory.read_current, ANA, "")
    assert profile is not None
    assert (profile.version, profile.content) == (1, "new")
    assert (await database.read(runs.find, ANA, "r1")).status == "suspended"
    assert (await database.read(entries.read_seen, ANA, ["new"]))["new"].kind is None
    assert dict(await database.read(erasure.count, ANA)) == {
        **dict.fromkeys(("threads", "messages", "entries", "user_profiles", "runs", "resources"), 1),
        "search_rows": 2,
    }


async def answer_with(database: Database, key: str, answer: Json) -> None:
    async def answered(_: Tx) -> Json:
        return answer

    await database.write(idempotency.once, ANA, Request(key, "hmac"), NOW, answered)


async def profile_from(database: Database, version: int, content: str, *sources: Row) -> None:
    """A version of the profile that was made from threads: (uid, from seq, to seq) each."""

    async def written(tx: Tx, scope: Scope) -> None:
        row = {"version": version, "content": content, "change": "replace", "actor": "m", "tool": "p"}
        owner = {name: value for name, value in of_thread(ANA, "").items() if name != "thread_uid"}
        row |= {**owner, "created_at": NOW}
        await tx.run(insert(user_profiles).values(**{name: bindparam(name) for name in row}), **row)
        for source, first, last in sources:
            of = {**of_thread(ANA, ""), "version": version, "source_thread_uid": source}
            of |= {"from_seq": first, "to_seq": last}
            await tx.run(insert(document_sources).values(**{name: bindparam(name) for name in of}), **of)

    await database.write(written, ANA)


async def test_a_thread_goes_with_all_that_rests_on_it_alone(database: Database) -> None:
    words = secret_words(8)
    other = (await say(database, "other", draft("a quokka"), draft("another"))).thread.thread_uid
    await say(database, "main", draft("an older quokka", id="q"))
    await drop_thread(database, "main")
    main = (await say(database, "main", draft(words[0], id="m"))).thread.thread_uid
    here, there = (EntrySource(thread_uid, 1, 1, 0, 1, "user_assertion") for thread_uid in (main, other))
    await remember(database, "only", f"said {words[1]}", ANA, here)
    await remember(database, "both", "said in both", ANA, here, there)
    await remember(database, "own", "a caller's word")
    await profile_from(database, 1, "of the other", (other, 1, 1))
    await profile_from(database, 2, f"of both, {words[2]}", (other, 1, 1), (main, 1, 1))
    await answer_with(database, words[3], {"thread_id": "main", "ids": ["m"]})
    await answer_with(database, "k2", {"thread_id": "other", "ids": ["m"]})
    await database.write(usage_rows.add, ANA, main, [UsageLine("gpt-4o", "steps", UsageSums(1, 2, 3, 4))], now=NOW)
    await embed_all(database)
    kept = await owned_rows(database, of=SPENT)
    plain = [row for row in await owned_rows(database, of=["messages", "threads"]) if other in row]
    counted = await expected(database, "main")
    assert await erase_threads(database, "main", most=3) == counted
    assert (counted["threads"], counted["messages"], counted["entries"], counted["user_profiles"]) == (2, 2, 1, 1)
    assert (counted["idempotency"], counted["deletions"]) == (1, 1)
    assert await owned_rows(database, of=SPENT) == kept
    assert await owned_rows(database, of=["messages", "threads"]) == plain
    profile = await database.read(working_memory.read_current, ANA, "")
    assert profile is not None
    assert profile.content == "of the other"
    assert sorted(await database.read(entries.read_seen, ANA, ["only", "both", "own"])) == ["both", "own"]
    assert await database.read_installation(rows, "SELECT key FROM idempotency") == [(Request("k2", "").stored_key,)]
    assert [message.id for message in await having(database, "said")] == ["both"]
    assert not [word for word in words if word in repr(await contents(database))]
    assert main not in repr(await owned_rows(database, of=[table.name for table in OWNED if table.name != "usage"]))
    assert await database.read_installation(erasure.unfinished) == []


async def test_the_counts_of_a_thread_are_those_of_every_table_that_knows_it(database: Database) -> None:
    await fill_all(database, secret_words(8))
    before = {name: len(found) for name, found in (await contents(database)).items()}
    counted = await expected(database, "main")
    assert await erase_threads(database, "main") == counted
    after = {name: len(found) for name, found in (await contents(database)).items()}
    names = {table.name for table in (*OWNED, search_rows, search_vectors)} - {"user_profiles"}
    assert {name: before[name] - after[name] for name in names} == {name: counted[name] for name in names}
    staying = {
        *SPENT,
        "daily_calls",
        "user_profiles",
        "resources",
        "job_turns",
        "idempotency",
    }  # of an answer that names no thread
    assert {table.name for table in OWNED if after[table.name]} <= staying


async def test_a_job_that_runs_is_fenced_off_and_what_fell_back_is_due_again(database: Database) -> None:
    await say(database, "other", draft("a quokka"))
    uids = [(await say(database, name, draft("hello"))).thread.thread_uid for name in ("main", "other")]
    for thread_uid in uids:
        await database.write(job_rows.request, ANA, thread_uid, "entries", 1, due_at=NOW, now=NOW)
    claims = [
        await database.write_installation(job_rows.claim, ["entries"], holder="x", now=NOW, lease_ms=60_000)
        for _ in range(2)
    ]
    await database.write(erasure.hide_threads, ANA, "main", now=NOW)
    for claim in claims:
        assert claim is not None
        with pytest.raises(job_rows.Fenced):
            await database.write(job_rows.finish, claim, now=NOW)
    waiting = await database.read(job_rows.list_waiting, ANA, NOW)
    assert [job.thread_id for job in waiting] == ["other"]
