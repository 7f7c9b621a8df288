"""Marks of entries: pinned or wrong, in one scope alone, with the index and what rests on deleted messages."""

import pytest

from layerlore.storage.core.records import Scope
from layerlore.storage.core.transaction import Database
from layerlore.storage.derived import entries, entry_curation
from layerlore.storage.removal import deletions

from ..building import ANA, BEN, NOW, draft, say, search_text
from ..removal.test_erasure_contract import drop_thread
from .test_entries_contract import entry, found, keep, seen, source

pytestmark = pytest.mark.anyio


async def pin(database: Database, entry_id: str, at: int | None = NOW, scope: Scope = ANA) -> None:
    await database.write(entry_curation.pin, scope, entry_id, at=at)


async def mark_wrong(database: Database, entry_id: str, now: int = NOW, scope: Scope = ANA) -> None:
    await database.write(entry_curation.mark_wrong, scope, entry_id, now=now)


async def pinned(database: Database, scope: Scope = ANA) -> list[str]:
    return [each.content for each in await database.read(entry_curation.read_pinned, scope)]


async def wrong(database: Database, scope: Scope = ANA) -> list[str]:
    return [each.content for each in await database.read(entry_curation.list_wrong, scope)]


async def test_pinned_entries_are_read_those_pinned_last_first_until_they_are_let_go(database: Database) -> None:
    first, second, _ = await keep(database, entry("a quokka"), entry("a walrus"), entry("a bear"))
    await pin(database, first, NOW + 1)
    await pin(database, second, NOW + 2)
    assert await pinned(database) == ["a walrus", "a quokka"]
    assert (await seen(database, [first]))[first].pinned_at == NOW + 1
    assert await pinned(database, BEN) == []
    await pin(database, second, None)
    assert await pinned(database) == ["a quokka"]


async def test_an_entry_that_is_marked_as_wrong_is_seen_no_more_and_pinned_no_more(database: Database) -> None:
    one, two = await keep(database, entry("a quokka sleeps"), entry("a quokka eats"))
    await pin(database, one)
    await mark_wrong(database, one, NOW + 1)
    await mark_wrong(database, two, NOW + 2)
    assert await wrong(database) == ["a quokka eats", "a quokka sleeps"]
    assert await wrong(database, BEN) == []
    assert (await pinned(database), await found(database, "quokka"), await seen(database, [one, two])) == ([], [], {})
    await pin(database, one)
    await database.write(entry_curation.unmark_wrong, ANA, one, search_text=search_text)
    assert await found(database, "quokka") == ["a quokka sleeps"]
    assert await pinned(database) == [], "what is wrong is not pinned"
    assert (await seen(database, [one]))[one].seen_at == NOW


async def test_another_s_entry_is_neither_pinned_nor_wrong_nor_right_again(database: Database) -> None:
    (kept,) = await keep(database, entry("a quokka"))
    await pin(database, kept, scope=BEN)
    await mark_wrong(database, kept, scope=BEN)
    assert (await seen(database, [kept]))[kept].pinned_at is None
    await mark_wrong(database, kept)
    await database.write(entry_curation.unmark_wrong, BEN, kept, search_text=search_text)
    assert await wrong(database) == ["a quokka"]
    assert await database.read(entry_curation.read_markable, BEN, kept) is None


async def test_what_takes_the_place_of_a_pinned_entry_is_pinned(database: Database) -> None:
    old, plain, new, other = await keep(
        database, entry("a quokka"), entry("a bear"), entry("a walrus"), entry("an eagle")
    )
    await pin(database, old)
    await database.write(entries.supersede, ANA, [old], new, now=NOW)
    assert await database.write(entry_curation.inherit_pin, ANA, new, [old], now=NOW + 5)
    assert not await database.write(entry_curation.inherit_pin, ANA, new, [old], now=NOW + 9), "it is pinned already"
    assert not await database.write(entry_curation.inherit_pin, ANA, other, [plain], now=NOW + 5)
    assert not await database.write(entry_curation.inherit_pin, ANA, other, [], now=NOW + 5)
    assert await pinned(database) == ["a walrus"]


async def test_marks_are_hidden_with_the_last_source_and_are_there_again_with_it(database: Database) -> None:
    await say(database, "main", draft("the quokka sleeps"))
    where = await source(database, 1)
    good, bad = await keep(database, entry("a quokka was seen", where), entry("a quokka was heard", where))
    await pin(database, good)
    await mark_wrong(database, bad)
    await drop_thread(database, "main")
    assert (await pinned(database), await wrong(database)) == ([], [])
    assert await database.read(entry_curation.read_markable, ANA, bad) is None
    (gone,) = await database.read(deletions.list_deletions, ANA)
    await database.write(deletions.restore, ANA, gone.deletion_uid, now=NOW, search_text=search_text)
    assert (await pinned(database), await wrong(database)) == (["a quokka was seen"], ["a quokka was heard"])
    assert await found(database, "quokka") == ["a quokka was seen"]


async def test_what_was_dropped_and_is_said_again_begins_without_its_pin(database: Database) -> None:
    dropped, active = await keep(database, entry("a quokka"), entry("a walrus"))
    for each in (dropped, active):
        await pin(database, each)
    await database.write(entries.drop, ANA, [dropped], now=NOW)
    for content in ("a quokka", "a walrus"):
        known = await database.read(entries.of_content, ANA, content)
        assert known is not None
        await database.write(entries.revive, ANA, known, entry(content), now=NOW, search_text=search_text)
    assert sorted(await seen(database, [dropped, active])) == sorted([dropped, active])
    assert await pinned(database) == ["a walrus"]
