"""Erasing for good: when its time has passed, what was deleted is in no table and not in the file's bytes."""

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Table, bindparam, insert, update

from layerlore.storage.audit import api_keys, daily_calls, idempotency, journal_rows, usage_rows
from layerlore.storage.audit.daily_calls import CallCount
from layerlore.storage.audit.idempotency import Request
from layerlore.storage.audit.journal_rows import JournalLine
from layerlore.storage.audit.usage_rows import OfDay, UsageLine, UsageSums
from layerlore.storage.core import installation
from layerlore.storage.core.records import ApiKey, Draft, Json, Origin, Scope, Tenant
from layerlore.storage.core.scopes import PROFILE_PLACE, of_scope, of_thread
from layerlore.storage.core.tables import (
    document_sources,
    entries,
    entry_sources,
    observations,
    search_rows,
    search_vectors,
    session_notes,
    summaries,
    user_profiles,
)
from layerlore.storage.core.tables import threads as threads_table
from layerlore.storage.core.tables.columns import metadata
from layerlore.storage.core.transaction import Database, Row, Tx
from layerlore.storage.derived import working_memory
from layerlore.storage.index import lexical
from layerlore.storage.jobs import job_rows
from layerlore.storage.removal import acts, deletions, retention
from layerlore.storage.removal.acts import ActPart
from layerlore.storage.threads import events, threads
from layerlore.storage.threads.events import NewEvent
from layerlore.storage.threads.threads import Description
from layerlore.storage.work import plans, runs, steps
from layerlore.storage.work.runs import Answers, Checkpoint, RunClaim, RunEnd
from layerlore.storage.work.steps import NewAttempt, NewStep

from ..building import (
    ANA,
    BEN,
    NOW,
    draft,
    drop,
    everything,
    execute,
    having,
    only,
    rows,
    say,
    tool_call,
    tool_result,
    uid,
)
from ..vectoring import embed_all

pytestmark = pytest.mark.anyio

CATALOGUE = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name",
    "postgres": "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() ORDER BY tablename",
}
# The installation's own rows, no tenant's.
NO_CONTENT = {"installation", "schema_migrations", "tenant_places"}
# FTS5's own pages, random names of transactions, the counter of row ids: compared by the words, not row by row.
OPAQUE = {"search_text_data", "search_text_idx", "search_text_config", "last_writes", "sqlite_sequence"}
# What belongs to no thread and stays: counters, what is known of the resource, what was spent, who may call,
# who wrote when.
STAYING = {
    *("api_keys", "journal", "resources", "user_profiles", "usage", "job_turns", "spending", "tenant_spending"),
    *("stored_bytes", "daily_usage", "daily_calls"),
}


async def expire(database: Database, before: int = NOW + 10_000, *, most: int = 100) -> int:
    return await database.write(deletions.erase_expired, ANA, deleted_before=before, answered_before=before, most=most)


async def drop_thread(database: Database, thread_id: str, *, scope: Scope = ANA, erase: bool = False) -> None:
    await database.write(deletions.delete_thread, scope, thread_id, deletion_uid=uid(), erase=erase, now=NOW)


async def contents(database: Database) -> dict[str, list[Row]]:
    """Every row of every table: those that the statements know, and of the databases that come along, those that their
    catalogue knows."""
    names = [*metadata.tables, search_rows.name, search_vectors.name]
    if catalogue := CATALOGUE.get(database.backend.name):
        names = [row[0] for row in await database.read_installation(rows, catalogue)]
    return {name: sorted(await database.read_installation(rows, f'SELECT * FROM "{name}"'), key=repr) for name in names}


def secret_words(count: int) -> list[str]:
    """Words that share no beginning and that no stemmer touches."""
    return [f"{secrets.token_hex(3)}q{secrets.randbelow(10**9)}" for _ in range(count)]


async def fill(database: Database, words: Sequence[str]) -> None:
    """Put rows into every table that holds what tenants say; the words go wherever a word can go."""
    title, meta, key, text, name, called, answered, replaced = words
    drafts: list[Draft] = [
        draft(text, id="u", name=name, metadata={meta: meta}),
        draft(id="a", role="assistant", parts=[{"type": "text", "text": "wait"}, tool_call(called, called)]),
        draft(id="t", role="tool", parts=[tool_result(called, answered)]),
        draft(replaced, id="r"),
    ]
    await say(database, "main", *drafts)
    await say(database, "main", draft("other", id="r"), replace_known=True)
    description = Description(title, {meta: meta}, f'"{meta}"')
    await database.write(threads.describe, ANA, "main", description, new_uid=uid(), now=NOW, check=lambda _: None)

    async def answer(_: Tx) -> Json:
        return {"ids": ["u"]}

    await database.write(idempotency.once, ANA, Request(key, "hmac"), NOW, answer)
    await embed_all(database)
    await say(database, "main", draft(text, id=text))
    await drop(database, "main", "ids", [text], erase=True)
    await drop(database, "main", "ids", ["t"])


async def log_work(tx: Tx, scope: Scope, words: Sequence[str], made_from: str | None) -> None:
    """Steps and events with the words, made from a message (they go with it) or from none (they go with the thread)."""
    thread, origin = await threads.lock(tx, ANA, "main"), Origin("client", "record_steps")
    message_seq = None if made_from is None else (await steps.message_seqs(tx, ANA, thread, [made_from]))[made_from]
    made = [NewStep(word, "text", {word: word}, NOW, message_seq) for word in words]
    await steps.record(tx, ANA, thread, made, now=NOW)
    happened = [NewEvent("Error", {word: word}, message_seq) for word in words]
    await events.record(tx, ANA, thread, happened, origin=origin, now=NOW)
    told = NewEvent("thread_updated", {"thread_id": words[0]})
    await events.record_of_resource(tx, ANA, told, thread_uid=thread.thread_uid, origin=origin, now=NOW)
    await usage_rows.add(tx, ANA, thread.thread_uid, [UsageLine("gpt-4o", "steps", UsageSums(1, 2, 3, 4))], now=NOW)
    await daily_calls.add(
        tx, Tenant(ANA.tenant_id), [(ANA, [CallCount(NOW // 86_400_000, "tool", "plan", 1)])], today=0
    )
    part = ActPart("deletion", uid(), thread.thread_uid)
    await acts.record(tx, ANA, uid(), "delete_messages", [part], now=NOW, kept_since=0)


async def run_agents(tx: Tx, scope: Scope, words: Sequence[str]) -> None:
    """A run with the words that is under way, and one that has ended."""
    thread = await threads.lock(tx, ANA, "main")
    a, b, c, d, e, f, *_ = words
    for run_id in (a, b):
        await runs.create(tx, ANA, thread, run_id, Checkpoint(f'"{a}"', f'["{b}"]', c, {d: d}, e, None), now=NOW)
    answers = Answers(f'[{{"data":"{f}"}}]', f'["{b}"]')
    await runs.claim(tx, ANA, await runs.find(tx, ANA, a), RunClaim(1, b, c, NOW, NOW), answers=answers, now=NOW)
    await runs.spend(tx, ANA, thread, a, f'[["{e}","",1,1,1,1,0]]')
    await runs.finish(tx, ANA, await runs.find(tx, ANA, b), RunEnd("completed", f'"{f}"', c), now=NOW)


async def make_plan(tx: Tx, plan: Json, actor: str) -> None:
    await plans.change(
        tx, ANA, "main", lambda _: plan, expected_revision=None, actor=actor, new_uid=uid(), now=NOW, is_open=bool
    )


async def plan_work(tx: Tx, scope: Scope, words: Sequence[str]) -> None:
    """Two revisions of a plan, and an attempt, with the words."""
    for word in words[:2]:
        await make_plan(tx, {"goal": word}, words[2])
    await steps.log(tx, ANA, "main", NewAttempt(*words[2:8]), new_uid=uid(), now=NOW)


async def keep_in_mind(tx: Tx, scope: Scope, words: Sequence[str]) -> None:
    """A session memory with the words, in its newest version and in an older one, and a profile without them."""
    for thread_id, content in (("main", words[0]), ("main", " ".join(words)), ("", "likes tea")):
        await working_memory.change(
            tx,
            ANA,
            thread_id,
            lambda *_, content=content: content,
            how="replace",
            expected_version=None,
            origin=Origin("client", "update_working_memory"),
            new_uid=uid(),
            now=NOW,
        )


async def derive(tx: Tx, scope: Scope, words: Sequence[str]) -> None:
    """What background work makes of the thread's first message, with the words; and a job that failed over it."""
    thread = await threads.lock(tx, ANA, "main")
    of = of_thread(ANA, thread.thread_uid)
    made = {**of_scope(ANA), "model": words[0], "prompt": words[1], "created_at": NOW}
    noted = {**made, **of, "text": words[2], "from_seq": 1}
    hashed = {"entry_id": "e", "content": words[3], "content_hash": words[4], "kind": "fact", "seen_at": NOW}
    rows_of: dict[Table, dict[str, Any]] = {
        observations: noted
        | {
            "observation_id": 1,
            "to_seq": 1,
            "marker": "info",
            "said_at": NOW,
            "refers_to": words[5],
            "tokens": 1,
            "batch": 1,
        }
        | {"status": "active", "trust": "user", "level": 0},
        session_notes: noted | {"note_id": 1, "to_seq": 1, "category": words[6]},
        summaries: noted | {"upto_seq": 1, "tokens": 1},
        entries: made | hashed | {"status": "active", "origin": "extracted", "trust": "user"},
        entry_sources: of
        | {"entry_id": "e", "message_seq": 1, "revision": 1, "starts": 0, "ends": 1}
        | {"label": "user_assertion", "created_at": NOW},
        user_profiles: of_scope(ANA)
        | {"version": 2, "content": " ".join(words), "change": "replace", "actor": "m", "tool": "p", "created_at": NOW},
        document_sources: of
        | {"thread_uid": "", "version": 2, "source_thread_uid": thread.thread_uid, "from_seq": 1, "to_seq": 1},
    }
    for table, row in rows_of.items():
        await tx.run(insert(table).values(**{name: bindparam(name) for name in row}), **row)
    await tx.run(update(threads_table).values(observed_seq=1, buffered_seq=1))
    await job_rows.request(tx, ANA, thread.thread_uid, "observe", 1, due_at=NOW, now=NOW)
    claim = await job_rows.claim(tx, ["observe"], holder=words[7], now=NOW, lease_ms=1)
    assert claim is not None
    await job_rows.fail(tx, claim, error=words[7], retry_at=NOW, dead=True, now=NOW)
    await usage_rows.add_spending(tx, OfDay(1, 1), now=NOW)
    await usage_rows.add_of_tenant(tx, Tenant(ANA.tenant_id), 1, now=NOW)
    await journal_rows.append(tx, ANA, JournalLine(NOW, "key:k", "client", "tool", "done", "mark", {"messages": 1}))
    key = ApiKey("key", ANA.tenant_id, (ANA.agent_id,), ANA.resource_id, ("read",), NOW)
    await api_keys.create(tx, Tenant(ANA.tenant_id), key, "digest")


@pytest.mark.parametrize("whole_thread_at_once", [False, True])
async def test_after_the_retention_no_table_of_the_catalogue_holds_a_row(
    database: Database, whole_thread_at_once: bool
) -> None:
    empty = await contents(database)
    words = secret_words(8)
    await fill(database, words)
    for message_id in ("a", None):
        await database.write(log_work, ANA, words, message_id)
    await database.write(run_agents, ANA, words)
    await database.write(plan_work, ANA, words)
    await database.write(keep_in_mind, ANA, words)
    await database.write(derive, ANA, words)
    filled = await contents(database)
    # What is shared through a file belongs to a project, and no retention of threads touches it.
    unfilled = {name for name in filled.keys() - NO_CONTENT - {"shared_lines"} if filled[name] == empty[name]}
    assert not unfilled, f"this test must put rows into {unfilled}, to show that they are erased"
    if not whole_thread_at_once:
        await drop(database, "main", "all")
        await expire(database)
        derived = await contents(database)
        told = ("observations", "session_notes", "summaries", "entries", "entry_sources", "user_profiles")
        assert not [word for word in words for name in told if word in repr(derived[name])]
        # A gap where notes were, which has no text, and a version's number, which is never given again.
        assert [len(derived[name]) for name in told] == [1, 0, 0, 0, 0, 2]
    await drop_thread(database, "main")
    await expire(database)
    rewrite_is_owed = await database.read_installation(installation.rewrite_owed) is not None
    await database.write_installation(
        installation.rewritten, await database.read_installation(installation.rewrite_owed) or ""
    )
    # The profile stays, and its lines with it.
    indexed = await contents(database)
    assert {row[4] for row in indexed["search_rows"]} <= {PROFILE_PLACE}
    await database.write(lexical.remove_thread, ANA, PROFILE_PLACE)
    # Only how many rows went is left of them.
    await database.write_installation(execute, "UPDATE installation SET value = '0' WHERE name LIKE '%_removed'")
    erased = await contents(database)
    by_words = OPAQUE | STAYING
    assert {name: erased[name] for name in erased.keys() - by_words} == {
        name: empty[name] for name in empty.keys() - by_words
    }
    assert not [word for word in words for name in erased.keys() & by_words if word in repr(erased[name])]
    if database.backend.keeps_erased_bytes:
        assert rewrite_is_owed, "bytes of erased rows may be left in the file"


async def test_only_what_is_older_than_the_retention_is_erased(database: Database) -> None:
    await say(database, "main", *(draft(f"word{n}", id=f"m{n}") for n in range(4)))
    for n in range(3):
        await drop(database, "main", "ids", [f"m{n}"], now=NOW + n)
    assert await expire(database, NOW + 1) == 1
    assert await only(database, "SELECT count(*) FROM messages") == 3
    assert [d.deleted_at for d in await database.read(deletions.list_deletions, ANA)] == [NOW + 2, NOW + 1]
    assert [message.id for message in await everything(database, "main")] == ["m3"]


async def test_expired_deletes_are_erased_a_portion_at_a_time(database: Database) -> None:
    await say(database, "main", *(draft(f"word{n}", id=f"m{n}") for n in range(4)))
    for n in range(3):
        await drop(database, "main", "ids", [f"m{n}"])
    assert [await expire(database, most=2), await expire(database, most=2), await expire(database)] == [2, 1, 0]
    assert [message.id for message in await having(database, "word3", ANA)] == ["m3"]


async def test_the_scopes_of_all_tenants_that_have_something_to_erase_are_found_in_one_order(
    database: Database,
) -> None:
    other = Scope("another-tenant", "agent", "ana")
    nothing = Scope("local", "agent", "zoe")
    for scope in (BEN, other, ANA, nothing):
        await say(database, "main", draft("gone", id="g"), scope=scope)
        await drop(database, "main", "ids", ["g"], scope=scope, now=NOW + 50 if scope == nothing else NOW)
    times, found = retention.Times(NOW + 9, 0), [retention.FIRST]
    while page := await database.read_installation(retention.erasable, times, after=found[-1], most=2):
        found += page
    assert found[1:] == [other, ANA, BEN]
    for scope in found[1:]:
        await database.write(deletions.erase_expired, scope, deleted_before=NOW + 9, answered_before=0)
    assert await database.read_installation(retention.erasable, times, after=retention.FIRST) == []


async def test_a_thread_made_again_under_an_erased_name_is_left_alone(database: Database) -> None:
    await say(database, "main", draft("old", id="a"))
    await drop_thread(database, "main")
    await say(database, "main", draft("new", id="a"))
    assert await expire(database) == 1
    assert [message.parts[0]["text"] for message in await everything(database, "main")] == ["new"]
    assert await having(database, "old") == []


async def test_kept_answers_go_when_their_time_has_passed(database: Database) -> None:
    async def answer(_: Tx) -> Json:
        return {"n": 1}

    for n in range(3):
        await database.write(idempotency.once, ANA, Request(f"k{n}", "hmac"), NOW + n, answer)
    await database.write(deletions.erase_expired, ANA, deleted_before=0, answered_before=NOW + 2)
    assert await database.read_installation(rows, "SELECT key FROM idempotency") == [(Request("k2", "").stored_key,)]


@pytest.mark.parametrize("at_once", [False, True])
async def test_the_half_of_a_tool_call_whose_other_half_is_erased_is_erased_too(
    database: Database, at_once: bool
) -> None:
    await say(
        database,
        "main",
        draft(id="a", role="assistant", parts=[{"type": "text", "text": "wait"}, tool_call("c1", "quokka")]),
        draft(id="t", role="tool", parts=[tool_result("c1")]),
        draft(id="b", role="assistant", parts=[tool_call("c2", "numbat")]),
        draft(id="t2", role="tool", parts=[tool_result("c2")]),
    )
    await drop(database, "main", "ids", ["t"], erase=at_once)
    assert at_once or await expire(database) == 1
    stored = await database.read_installation(rows, "SELECT id, parts, hidden_calls FROM messages ORDER BY seq")
    assert [row[0] for row in stored] == ["a", "b", "t2"]
    assert "quokka" not in repr(stored)
    assert {row[2] for row in stored} == {None}
    assert [message.id for message in await having(database, "wait")] == ["a"]
    assert [message.id for message in await having(database, "numbat")] == ["b"]


async def test_a_half_in_one_delete_goes_with_its_other_half_in_another(database: Database) -> None:
    await say(
        database,
        "main",
        draft(id="a", role="assistant", parts=[tool_call("c1", "quokka"), tool_call("c2", "numbat")]),
        draft(id="t1", role="tool", parts=[tool_result("c1")]),
        draft(id="t2", role="tool", parts=[tool_result("c2")]),
    )
    await drop(database, "main", "ids", ["t1"], now=NOW)
    await drop(database, "main", "ids", ["a"], now=NOW + 1)
    assert await expire(database, NOW + 1) == 1
    stored = await database.read_installation(rows, "SELECT id, parts FROM messages ORDER BY seq")
    assert [row[0] for row in stored] == ["a", "t2"]
    assert "quokka" not in repr(stored)
    assert "numbat" in repr(stored)


VECTORS = """
    SELECT m.id, v.vector, v.code FROM search_vectors v JOIN search_rows USING (row_id)
    JOIN messages m USING (tenant_id, agent_id, resource_id, thread_uid, seq)
"""


def bytes_on_disk(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(path.parent.iterdir()) if file.name.startswith(path.name))


@pytest.mark.parametrize("how", ["a message at once", "a thread at once", "what expired"])
async def test_erasing_owes_the_file_a_rewrite_and_hiding_does_not(database: Database, how: str) -> None:
    await say(database, "main", draft(id="a"))
    if how == "what expired":
        await drop(database, "main", "all")
        assert not await database.read_installation(installation.rewrite_owed)
        await expire(database, NOW)
        assert not await database.read_installation(installation.rewrite_owed)
        await expire(database)
    elif how == "a thread at once":
        await drop_thread(database, "main", erase=True)
    else:
        await drop(database, "main", "all", erase=True)
    # Postgres reuses such space by itself.
    assert bool(await database.read_installation(installation.rewrite_owed)) == database.backend.keeps_erased_bytes
    await database.write_installation(
        installation.rewritten, await database.read_installation(installation.rewrite_owed) or ""
    )
    assert not await database.read_installation(installation.rewrite_owed)
