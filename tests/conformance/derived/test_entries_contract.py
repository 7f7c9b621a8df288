"""Entries: kept, found while they can be seen, hidden and shown with their sources, ended."""

from collections.abc import Sequence

import numpy as np
import pytest

from layerlore.storage.core import installation
from layerlore.storage.core.records import Scope
from layerlore.storage.core.transaction import Database, Tx
from layerlore.storage.derived import entries, entry_curation
from layerlore.storage.derived.entries import Entry, EntrySource, NewEntry, Origin
from layerlore.storage.index import lexical
from layerlore.storage.messages import indexed_rows
from layerlore.storage.removal import deletions
from layerlore.storage.threads import threads

from ..building import ANA, BEN, NOW, draft, drop, only, rows, say, search_text, uid
from ..removal.test_erasure_contract import drop_thread, expire
from ..vectoring import embed_all

pytestmark = pytest.mark.anyio


def entry(
    content: str,
    *sources: EntrySource,
    origin: Origin | None = None,
    seen_at: int = NOW,
    trust: str = "user",
    **given: str,
) -> NewEntry:
    kind = given.get("kind")
    made = origin or ("extracted" if sources else "caller")
    return NewEntry(uid(), content, kind, made, trust, "model", "extract_entries/1", seen_at, sources)


async def source(
    database: Database, seq: int, thread_id: str = "main", *, revision: int = 1, scope: Scope = ANA
) -> EntrySource:
    thread = await database.read(threads.find, scope, thread_id)
    return EntrySource(thread.thread_uid, seq, revision, 0, 5, "user_assertion")


async def keep(database: Database, *new: NewEntry, scope: Scope = ANA, now: int = NOW) -> list[str]:
    for each in new:
        await database.write(entries.insert_new, scope, each, now=now, search_text=search_text)
    return [each.entry_id for each in new]


async def seen(database: Database, ids: Sequence[str], scope: Scope = ANA) -> dict[str, Entry]:
    return await database.read(entries.read_seen, scope, ids)


async def found(database: Database, word: str, scope: Scope = ANA) -> list[str]:
    """Contents of the entries that the index has for a word; each can be seen."""

    async def look(tx: Tx, scope: Scope) -> list[str]:
        row_ids = (await lexical.postings(tx, scope, [word], most=100, kinds=["entry"]))[word]
        places = list((await indexed_rows.places(tx, scope, row_ids)).values())
        messages = await indexed_rows.messages_of(tx, scope, places)
        assert messages.keys() == set(places), "the index has an entry that nobody sees"
        return sorted(message.parts[0]["text"] for message in messages.values())

    return await database.read(look, scope)


async def test_an_entry_is_found_by_its_words_in_its_scope_alone(database: Database) -> None:
    await say(database, "main", draft("the quokka sleeps"))
    (kept,) = await keep(database, entry("a quokka was seen", await source(database, 1)))
    assert await found(database, "quokka") == ["a quokka was seen"]
    assert await found(database, "quokka", BEN) == []
    assert (await seen(database, [kept]))[kept].content == "a quokka was seen"
    assert await seen(database, [kept], BEN) == {}


async def test_entries_and_messages_are_searched_together_or_apart(database: Database) -> None:
    await say(database, "main", draft("the quokka sleeps"))
    await keep(database, entry("a quokka was seen"))
    counts = {
        kinds: len((await database.read(lexical.postings, ANA, ["quokka"], most=10, kinds=kinds))["quokka"])
        for kinds in (("entry", "message"), ("entry",), ("message",))
    }
    assert counts == {("entry", "message"): 2, ("entry",): 1, ("message",): 1}


@pytest.mark.parametrize("how", ["message", "thread"])
async def test_an_entry_is_hidden_with_its_last_source_and_shown_again_with_it(database: Database, how: str) -> None:
    for thread in ("main", "other"):
        await say(database, thread, draft("the quokka sleeps", id="q"))
    one, two = await source(database, 1), await source(database, 1, "other")
    (kept,) = await keep(database, entry("a quokka was seen", one, two))

    async def delete(thread_id: str) -> str:
        if how == "message":
            gone = (await drop(database, thread_id, "ids", ["q"])).deletion_uid
            assert gone is not None
            return gone
        await drop_thread(database, thread_id)
        return (await database.read(deletions.list_deletions, ANA))[0].deletion_uid

    await delete("main")
    assert await found(database, "quokka") == ["a quokka was seen"]
    second = await delete("other")
    assert await found(database, "quokka") == []
    assert await seen(database, [kept]) == {}
    await database.write(deletions.restore, ANA, second, now=NOW, search_text=search_text)
    assert await found(database, "quokka") == ["a quokka was seen"]
    assert list(await seen(database, [kept])) == [kept]


async def test_a_callers_own_word_needs_no_source(database: Database) -> None:
    await say(database, "main", draft("the quokka sleeps", id="q"))
    where = await source(database, 1)
    await keep(database, entry("said by the caller"), entry("said and seen", where, origin="caller"))
    await drop_thread(database, "main")
    await expire(database)
    assert await found(database, "said") == ["said and seen", "said by the caller"]


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("how", ["message", "thread"])
async def test_an_entry_is_erased_with_its_last_source(database: Database, how: str, at_once: bool) -> None:
    for thread in ("main", "other"):
        await say(database, thread, draft("the quokka sleeps", id="q"))
    where = [await source(database, 1, thread) for thread in ("main", "other")]
    _, both = await keep(database, entry("on one", where[0]), entry("on both", *where))
    await embed_all(database)

    async def delete(thread_id: str) -> None:
        if how == "message":
            await drop(database, thread_id, "ids", ["q"], erase=at_once)
        else:
            await drop_thread(database, thread_id, erase=at_once)
        if not at_once:
            await expire(database)

    await delete("main")
    assert await database.read_installation(rows, "SELECT entry_id FROM entries") == [(both,)]
    assert await only(database, "SELECT count(*) FROM entry_sources") == 1
    await delete("other")
    for table in ("entries", "entry_sources", "search_rows", "search_vectors"):
        assert await only(database, f"SELECT count(*) FROM {table}") == 0
    assert bool(await database.read_installation(installation.rewrite_owed)) == database.backend.keeps_erased_bytes


async def test_a_source_follows_a_message_that_says_the_same_and_not_one_that_does_not(database: Database) -> None:
    await say(database, "main", draft("the quokka sleeps", id="q"))
    (kept,) = await keep(database, entry("a quokka was seen", await source(database, 1)))
    await say(database, "main", draft("the quokka sleeps", id="q", metadata={"n": 1}), replace_known=True)
    assert list(await seen(database, [kept])) == [kept]
    await say(database, "main", draft("the numbat sleeps", id="q"), replace_known=True)
    assert await seen(database, [kept]) == {}
    assert await found(database, "quokka") == []
    assert await only(database, "SELECT count(*) FROM entries") == 0


async def test_a_known_content_is_revived_refreshed_and_found_once(database: Database) -> None:
    await say(database, "main", draft("the quokka sleeps"), draft("yes, a quokka"))
    (kept,) = await keep(database, entry("A quokka  was seen", await source(database, 1), trust="assistant"))
    assert await database.write(entries.drop, ANA, [kept], now=NOW + 5) == 1
    assert await found(database, "quokka") == []
    assert await database.read(entries.of_content, ANA, "a QUOKKA was seen") is None
    known = await database.read(entries.of_content, ANA, " A quokka was  seen ")
    assert known is not None
    assert (known.entry_id, known.status, known.seen_at) == (kept, "dropped", NOW + 5)
    again = entry("a quokka was seen", await source(database, 2), seen_at=NOW + 9, kind="fact")
    await database.write(entries.revive, ANA, known, again, now=NOW + 9, search_text=search_text)
    assert await found(database, "quokka") == ["a quokka was seen"]
    revived = (await seen(database, [kept]))[kept]
    assert (revived.status, revived.kind, revived.seen_at, revived.trust) == ("active", "fact", NOW + 9, "user")
    sources = await database.read(entries.sources_of, ANA, [kept])
    assert [(each.thread_id, each.seq) for each in sources[kept]] == [("main", 1), ("main", 2)]


async def test_a_superseded_entry_is_kept_and_not_found(database: Database) -> None:
    old, new = await keep(database, entry("port is 8080"), entry("port is 9090"))
    assert await database.write(entries.supersede, ANA, [old], new, now=NOW) == 1
    assert await database.write(entries.supersede, ANA, [old], new, now=NOW) == 0
    assert await found(database, "port") == ["port is 9090"]
    told = await database.read_installation(
        rows, "SELECT status, superseded_by FROM entries WHERE superseded_by IS NOT NULL"
    )
    assert told == [("superseded", new)]


async def test_what_was_dropped_long_ago_is_erased(database: Database) -> None:
    first, second, _ = await keep(database, entry("one"), entry("two"), entry("three"))
    await database.write(entries.drop, ANA, [first], now=NOW)
    await database.write(entries.drop, ANA, [second], now=NOW + 1)
    assert await database.write(entry_curation.erase_dropped, ANA, dropped_before=NOW + 1) == 1
    assert await only(database, "SELECT count(*) FROM entries") == 2
    assert await database.write(entry_curation.erase_dropped, ANA, dropped_before=NOW + 1) == 0


async def test_entries_pass_a_filter_by_role_by_day_and_by_the_thread_of_a_source(database: Database) -> None:
    for thread in ("main", "other"):
        await say(database, thread, draft("words"))
    here, there, nowhere = (
        entry("here", await source(database, 1)),
        entry("there", await source(database, 1, "other")),
        entry("nowhere", seen_at=NOW + 10),
    )
    await keep(database, here, there, nowhere)

    async def passing(thread_id: str | None, since: int | None, *roles: str) -> set[str]:
        async def look(tx: Tx, scope: Scope) -> set[str]:
            ids = await indexed_rows.passing(tx, ANA, thread_id=thread_id, since=since, until=None, roles=roles)
            assert np.array_equal(ids, np.unique(ids))
            return {place[0] for place in (await indexed_rows.places(tx, ANA, ids)).values()}

        return await database.read(look, ANA)

    places = [entries.place_of(each.entry_id) for each in (here, there, nowhere)]
    assert await passing(None, None, "entry") == set(places)
    assert await passing(None, NOW + 10, "entry") == {places[2]}
    assert await passing("main", None, "entry") == {places[0]}
    assert len(await passing("main", None, "entry", "user")) == 2
    assert await passing("main", NOW + 10, "entry") == set()
