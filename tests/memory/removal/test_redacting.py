"""Masking what is stored: what hangs on a message follows it, others go on meanwhile, and nothing of it is left."""

import asyncio
import dataclasses
import random
import re
import string
from collections.abc import Callable
from typing import Any, cast

import pytest
from sqlalchemy import insert, text
from told_embedder import ToldEmbedder

from layerlore.conformance.seeing_all import see_all
from layerlore.memory.embedding.service import EmbeddingService
from layerlore.memory.engine.engine import Redaction, said
from layerlore.memory.language.search_words import split_words
from layerlore.memory.messages import addition
from layerlore.memory.recall.vector_writer import VectorWriter
from layerlore.memory.removal import deletion as removal_deletion
from layerlore.memory.removal import undo
from layerlore.memory.removal.stored_redaction import RedactionResult, redact
from layerlore.memory.work import attempts, steps
from layerlore.storage.audit import journal_rows
from layerlore.storage.audit.journal_rows import JournalFilter
from layerlore.storage.core import installation
from layerlore.storage.core.records import ROLES, Json, Message, Origin, Scope, Tenant
from layerlore.storage.core.tables import observations
from layerlore.storage.core.transaction import Row, Tx
from layerlore.storage.derived import entries
from layerlore.storage.index import lexical
from layerlore.storage.jobs import job_rows
from layerlore.storage.messages import message_pages, place_rows
from layerlore.storage.removal import masked_rows as removal_redaction
from layerlore.storage.removal.masked_rows import Change
from layerlore.storage.threads import threads

from ..entry_memory import ANA, BEN, COUNTER, NOW, Memory

pytestmark = pytest.mark.anyio

BY = Origin("command line", "redact", "command:redact")
MARK = re.compile(r"\[masked:github-token:[0-9a-f]{8}\]")
MemoryOf = Callable[..., Memory]


def made_up(seed: int) -> str:
    return "gh" + "p_" + "".join(random.Random(seed).choices(string.ascii_letters + string.digits, k=36))


ONE, TWO = made_up(1), made_up(2)


def under(memory: Memory, redaction: Redaction) -> Memory:
    """The same memory, as under another setting."""
    return Memory(dataclasses.replace(memory.engine, redaction=redaction))


async def masked(memory: Memory, tenant: Tenant | None = None, **given: Any) -> RedactionResult:
    return await redact(memory.engine, lambda scope: tenant in (None, Tenant(scope.tenant_id)), origin=BY, **given)


async def rows(memory: Memory, query: str) -> list[Row]:
    async def read(tx: Tx) -> list[Row]:
        await see_all(tx)
        return [tuple(row) for row in await tx.all(text(query))]

    return await memory.engine.database.read_installation(read)


async def is_searched(memory: Memory, secret: str) -> bool:
    """Whether the words of a secret are in the index."""
    longest = max(split_words(secret), key=len)
    found = await memory.engine.database.read(lexical.postings, ANA, [longest], most=100)
    return len(found[longest]) > 0


async def told(memory: Memory, thread: str = "main", scope: Scope = ANA) -> list[Message]:
    page = await memory.engine.database.read(message_pages.page, scope, thread, roles=ROLES, limit=1000, offset=0)
    return page.messages


async def texts(memory: Memory, thread: str = "main") -> list[str]:
    return [message.parts[0]["text"] for message in await told(memory, thread)]


async def test_a_masked_message_is_found_by_its_other_words_and_its_vector_is_made_anew(
    memory_of: MemoryOf, embedding: EmbeddingService
) -> None:
    memory = memory_of(embedding)
    embedder = cast("ToldEmbedder", embedding.embedder)
    before = under(memory, "off")
    await before.say("main", f"an apple, and {ONE}", "a pear")
    writer = VectorWriter(memory.engine, embedding, "one")
    await writer.scan()
    assert len(await rows(memory, "SELECT * FROM search_vectors")) == 2
    assert await is_searched(memory, ONE)
    embedder.texts.clear()

    await masked(memory)
    kept = await rows(memory, "SELECT seq FROM search_rows JOIN search_vectors USING (row_id)")
    assert kept == [(2,)]
    await writer.scan()
    (remade,) = embedder.texts
    assert MARK.search(remade)
    assert ONE not in remade
    found = (await memory.found("apple"))[0]
    assert MARK.search(found)
    assert not await is_searched(memory, ONE)


async def test_evidence_follows_its_words_in_the_masked_message(memory: Memory) -> None:
    before = under(memory, "off")
    await before.say("main", f"red, red, {ONE} my bike is red, I say, with the token {ONE} on it")
    quotes = {"The bike is red.": "bike is red, I say", "A token is on it.": f"token {ONE} on", "Red, red.": "red, red"}
    for content, evidence in quotes.items():
        await before.remember(content, evidence=evidence, source="user_assertion")
    await masked(memory)
    (message,) = await told(memory)
    assert message.revision == 2
    now = said(memory.engine, message)
    shown = {}
    for entry_id, content in await rows(memory, "SELECT entry_id, content FROM entries"):
        (source,) = (await memory.engine.database.read(entries.sources_of, ANA, [entry_id]))[entry_id]
        shown[content] = now[source.starts : source.ends]
    assert shown["The bike is red."] == "bike is red, I say"
    assert MARK.sub("*", shown["A token is on it."]) == "token * on"
    assert shown["Red, red."] == "red, red"
    assert quotes.keys() <= set(await memory.found("red bike, token"))


async def test_evidence_that_ends_within_a_secret_is_the_whole_message(memory: Memory) -> None:
    before = under(memory, "off")
    await before.say("main", "the db is postgres://app:hunter-two-pass@db/x, remember that")
    await before.remember("The db is postgres.", evidence="postgres://app:hunter", source="user_assertion")
    await masked(memory)
    (message,) = await told(memory)
    assert "hunter" not in message.parts[0]["text"]
    ((entry_id,),) = await rows(memory, "SELECT entry_id FROM entries")
    (source,) = (await memory.engine.database.read(entries.sources_of, ANA, [entry_id]))[entry_id]
    assert (source.starts, source.ends) == (0, len(said(memory.engine, message)))


async def test_of_two_entries_that_say_the_same_once_they_are_masked_the_older_stays(memory: Memory) -> None:
    before = under(memory, "off")
    older = (await before.remember(f"The key is {ONE}."))["id"]
    memory.now += 1
    newer = (await memory.remember(f"The key is {ONE}."))["id"]
    other = (await before.remember(f"Another key is {TWO}."))["id"]
    assert (await masked(memory)).rows == {"entries": 2}
    kept = {row[0]: row[1:] for row in await rows(memory, "SELECT entry_id, status, superseded_by FROM entries")}
    assert kept == {older: ("active", None), newer: ("superseded", older), other: ("active", None)}
    assert len(await memory.found("key")) == 2
    assert not await is_searched(memory, ONE)
    assert not await is_searched(memory, TWO)
    # It is found by what it says, so that it is not kept a second time.
    assert (await memory.remember(f"the key is  {ONE}."))["id"] == older
    assert (await memory.remember(f"Another key is {TWO}."))["id"] == other


@pytest.mark.parametrize("dropped", ["masked", "plain"])
async def test_an_entry_that_was_forgotten_does_not_stand_for_one_that_was_not(memory: Memory, dropped: str) -> None:
    before = under(memory, "off")
    ids = {"masked": (await before.remember(f"The key is {ONE}."))["id"]}
    memory.now += 1
    ids["plain"] = (await memory.remember(f"The key is {ONE}."))["id"]
    await memory.engine.database.write(entries.drop, ANA, [ids.pop(dropped)], now=NOW)
    await masked(memory)
    (left,) = ids.values()
    assert (await memory.remember(f"The key is {ONE}."))["id"] == left
    assert len(await memory.found("key")) == 1
    assert ONE not in repr(await rows(memory, "SELECT * FROM entries"))


async def test_attempts_at_a_task_that_gets_the_name_of_another_follow_those(memory: Memory) -> None:
    async def attempt(memory: Memory, action: str) -> None:
        empty = dict.fromkeys(("error", "diagnosis", "fix_applied"), "")
        await attempts.log_attempt(
            memory.engine, ANA, "main", task_key=f"use {ONE}", action=action, result="ok", **empty, sent=memory.sent()
        )

    for action in ("a", "b"):
        await attempt(under(memory, "off"), action)
    await attempt(memory, "c")
    assert (await masked(memory)).rows == {"attempts": 2}
    page = await attempts.list_attempts(memory.engine, ANA, "main", task_key=f"use {ONE}", limit=10)
    assert [(each.attempt, each.action) for each in page.attempts] == [(1, "c"), (2, "a"), (3, "b")]


async def test_what_is_deleted_is_masked_too_and_comes_back_masked(memory: Memory) -> None:
    before = under(memory, "off")
    await before.say("main", f"the plum {ONE}", "and nothing")
    await before.say("gone", f"the quince {ONE}")
    sent = memory.sent("delete_messages")
    deleted = await removal_deletion.delete_messages(memory.engine, ANA, "main", "all", ids=[], roles=ROLES, sent=sent)
    thread = await removal_deletion.delete_thread(memory.engine, ANA, "gone", sent=sent)
    assert (await masked(memory)).rows == {"messages": 2}
    assert await rows(memory, "SELECT * FROM search_rows") == []
    for undo_id in (deleted["undo"], thread["undo"]):
        await undo.undo(memory.engine, ANA, undo_id, sent=memory.sent("undo"))
    for word, thread_id in (("plum", "main"), ("quince", "gone")):
        found = await memory.found(word)
        assert MARK.search(found[0])
        counted = await memory.engine.database.read(threads.find, ANA, thread_id)
        assert counted.token_count == sum(message.tokens for message in await told(memory, thread_id))
    assert not await is_searched(memory, ONE)


async def note(memory: Memory, told: str) -> None:
    """An observation, as a model wrote it."""
    ((uid,),) = await rows(memory, "SELECT thread_uid FROM threads")
    values: Json = {
        **{name: getattr(ANA, name) for name in ("tenant_id", "agent_id", "resource_id")},
        "thread_uid": uid,
        "observation_id": 1,
        "marker": "info",
        "text": told,
        "said_at": NOW,
        "from_seq": 1,
        "to_seq": 1,
        "tokens": 1,
        "status": "active",
        "trust": "user",
        "level": 0,
        "batch": 1,
        "model": "m",
        "prompt": "p",
        "created_at": NOW,
    }

    async def write(tx: Tx, scope: Scope) -> None:
        await tx.run(insert(observations).values(values))

    await memory.engine.database.write(write, ANA)


async def test_under_derived_only_what_was_made_of_messages_is_masked_unless_all_is_asked_for(memory: Memory) -> None:
    sent = f"the deploy token is {ONE}"
    await under(memory, "off").say("main", sent, "nothing here", f"never {TWO}")
    await note(memory, f"uses {ONE}")
    derived = under(memory, "derived")
    await derived.say("main", f"since then {TWO}")
    expected = await masked(derived, dry_run=True)
    assert await is_searched(memory, ONE)
    done = await masked(derived)
    assert done.left
    assert done.rows == expected.rows == {"observations": 1, "search_rows": 2}
    assert done.secrets == expected.secrets == {"observations": 1, "search_rows": 2}
    assert (await texts(memory))[0] == sent
    assert not await is_searched(memory, ONE)
    assert not await is_searched(memory, TWO)
    assert (await derived.found("deploy"))[0] == sent
    assert (await masked(derived)).rows == {}

    whole = await masked(derived, everything=True)
    assert not whole.left
    assert whole.rows == {"messages": 3}
    assert ONE not in repr(await told(memory))
    assert (await masked(derived, everything=True)).rows == {}


async def test_tokens_of_notes_are_those_of_their_masked_lines(memory: Memory) -> None:
    await memory.say("main", "hello")
    await note(memory, f"uses {ONE}")
    await masked(memory)
    ((line, tokens),) = await rows(memory, "SELECT text, tokens FROM observations")
    assert tokens == COUNTER.text(f"- [info] 15:06 {line}\n")


async def test_only_rows_that_are_as_they_were_read_are_changed(memory: Memory) -> None:
    await under(memory, "off").say("main", f"first {ONE}", id="a")
    database = memory.engine.database
    (row,) = await database.read(removal_redaction.page, ANA, "messages", after=None, most=10)
    await memory.say("main", "another text", id="a")
    change = Change(
        row.key,
        {"parts": row.values["parts"], "revision": row.values["revision"]},
        {"parts": '[{"type":"text","text":"masked"}]', "tokens": 99, "encoding": "x"},
        1,
    )
    uid = row.key[0]
    put = await database.write(
        removal_redaction.put, ANA, "messages", uid, [change], search_text=memory.engine.search_text_of, now=NOW
    )
    assert put.made == []
    assert await texts(memory) == ["another text"]
    thread = await database.read(threads.find, ANA, "main")
    assert thread.token_count == sum(message.tokens for message in await told(memory))
    assert await database.read_installation(installation.rewrite_owed) is None


async def test_others_go_on_meanwhile_and_nothing_of_theirs_is_lost(memory: Memory) -> None:
    before = under(memory, "off")
    raw = [{"role": "user", "content": f"word{n} {made_up(n)}", "id": f"m{n}"} for n in range(100)]
    await addition.add_messages(before.engine, ANA, "main", raw, replace=False, sent=memory.sent())

    async def write(n: int) -> None:
        if n % 2:
            await before.say("main", f"later{n}")
        else:
            await before.say("main", f"edited{n} {made_up(n)}", id=f"m{n}")

    await asyncio.gather(masked(memory), *map(write, range(30)), masked(memory))
    await masked(memory)
    kept = await told(memory)
    assert len(kept) == 115
    found = {message.parts[0]["text"].split()[0] for message in kept}
    expected = {f"later{n}" if n % 2 else f"edited{n}" for n in range(30)}
    assert found == expected | {f"word{n}" for n in range(100) if n >= 30 or n % 2}
    assert not [n for n in range(100) if made_up(n) in repr(kept)]
    thread = await memory.engine.database.read(threads.find, ANA, "main")
    assert thread.token_count == thread.raw_tokens == sum(message.tokens for message in kept)
    for name in ("word31", "edited0", "later29"):
        assert (await memory.found(name, neighbours=False))[0].startswith(name)
    assert (await masked(memory)).rows == {}


async def test_who_was_stopped_in_the_middle_goes_on_when_run_again(memory: Memory) -> None:
    before = under(memory, "off")
    for thread in "abc":
        await before.say(thread, *(f"word {made_up(n)}" for n in range(40)))

    class Stopped(Exception):
        pass

    looked = 0

    def stop(count: int) -> None:
        nonlocal looked
        looked += count
        if looked > 60:
            raise Stopped

    with pytest.raises(Stopped):
        await masked(memory, report=stop)
    ((left,),) = await rows(memory, "SELECT count(*) FROM messages WHERE parts NOT LIKE '%masked%'")
    assert 0 < left < 120
    done = await masked(memory)
    assert done.rows == {"messages": left}
    assert (await masked(memory)).rows == {}
    assert await rows(memory, "SELECT count(*) FROM messages WHERE parts NOT LIKE '%masked%'") == [(0,)]
    if memory.engine.database.backend.name == "sqlite":
        assert done.bytes == "erased"


async def test_watchers_and_the_journal_are_told_how_much_and_not_what(memory: Memory) -> None:
    before = under(memory, "off")
    await before.say("main", f"first {ONE}", f"second {TWO} {ONE}")
    await before.remember(f"The key is {ONE}.")
    await masked(memory)
    request = {"after": 0, "types": ["memory_redacted"], "limit": 10}
    of_thread = (await steps.list_events(memory.engine, ANA, "main", **request))["events"]
    of_resource = (await steps.list_events(memory.engine, ANA, None, **request))["events"]
    assert [event["payload"] for event in of_thread] == [{"what": "messages", "rows": 2}]
    assert [event["payload"] for event in of_resource] == [{"what": "entries", "rows": 1}]
    assert {(event["by"], event["tool"]) for event in (*of_thread, *of_resource)} == {("command line", "redact")}
    lines = await memory.engine.database.read_installation(
        journal_rows.read_lines, JournalFilter(principal="command:redact"), limit=10
    )
    assert [dict(each.line.counts) for each in lines] == [{"rows": 2, "masked": 3}, {"rows": 1, "masked": 1}]
    assert {each.tenant_id for each in lines} == {"t"}


async def test_who_thinks_about_a_message_that_is_masked_is_fenced_off(memory: Memory) -> None:
    await under(memory, "off").say("main", f"first {ONE}")
    database = memory.engine.database
    ((uid,),) = await rows(memory, "SELECT thread_uid FROM threads")
    await database.write(job_rows.request, ANA, uid, "observe", 1, due_at=NOW, now=NOW)
    claim = await database.write_installation(job_rows.claim, ["observe"], holder="a", now=NOW, lease_ms=60_000)
    assert claim is not None
    await masked(memory)
    assert await rows(memory, "SELECT holder FROM jobs WHERE kind = 'observe'") == [(None,)]


async def test_all_tenants_or_one_are_gone_through_scope_by_scope(memory: Memory) -> None:
    before = under(memory, "off")
    scopes = [Scope(tenant, agent, "ana") for tenant in ("t", "tt", "u") for agent in ("a", "b")]
    for scope in scopes:
        await before.remember(f"The key is {ONE}.", scope=scope)
        raw = [{"role": "user", "content": ONE}]
        await addition.add_messages(before.engine, scope, "main", raw, replace=False, sent=memory.sent())
    database = memory.engine.database
    found: list[Scope] = []
    while some := await database.read_installation(
        place_rows.scopes_after, found[-1] if found else Scope("", "", ""), 2
    ):
        found += some
    assert found == sorted(scopes, key=dataclasses.astuple)
    snapshot = "SELECT * FROM messages WHERE tenant_id <> 't' ORDER BY tenant_id, agent_id"
    others = await rows(memory, snapshot)
    assert (await masked(memory, Tenant("t"))).rows == {"messages": 2, "entries": 2}
    assert await rows(memory, snapshot) == others
    assert (await masked(memory)).rows == {"messages": 4, "entries": 4}
    assert await database.read_installation(place_rows.scopes_after, Scope("t", BEN.agent_id, ""), 9) != []
