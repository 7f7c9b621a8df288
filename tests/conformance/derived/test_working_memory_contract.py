"""Working memory documents as versions, on both databases."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layerlore.storage.core import installation
from layerlore.storage.core.errors import Conflict, InvalidInput, NotFound
from layerlore.storage.core.records import Origin, Scope
from layerlore.storage.core.transaction import Database
from layerlore.storage.derived import working_memory
from layerlore.storage.derived.working_memory import MOST_VERSIONS, DocumentChange, DocumentHistory, Rule, Version
from layerlore.storage.removal import deletions
from layerlore.storage.threads import threads

from ..building import ANA, BEN, NOW, draft, examples, new_scope, only, rows, say, uid

pytestmark = pytest.mark.anyio

BY = Origin("client 1.0", "update_working_memory")
# A thread's document, and the resource's.
BOTH = pytest.mark.parametrize("thread_id", ["main", ""], ids=["thread", "resource"])
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1)


async def change(
    database: Database, thread_id: str, rule: Rule | str, *, scope: Scope = ANA, now: int = NOW, **given: Any
) -> DocumentChange:
    made: Rule = rule if callable(rule) else lambda *_: rule
    values = {"how": "replace", "expected_version": None, "origin": BY, **given}
    return await database.write(working_memory.change, scope, thread_id, made, new_uid=uid(), now=now, **values)


async def kept(database: Database, thread_id: str, *, scope: Scope = ANA, version: int = 0) -> DocumentHistory:
    return await database.read(working_memory.read_history, scope, thread_id, version=version)


async def content(database: Database, thread_id: str, *, scope: Scope = ANA) -> str | None:
    found = await database.read(working_memory.read_current, scope, thread_id)
    return found.content if found else None


async def erase(database: Database, before: int, *, most: int = 100) -> int:
    return await database.write(working_memory.erase_cleared, ANA, cleared_before=before, most=most)


def numbers(versions: Sequence[Version]) -> list[int]:
    return [version.version for version in versions]


@BOTH
async def test_the_newest_version_is_the_document_and_says_who_made_it(database: Database, thread_id: str) -> None:
    await change(database, thread_id, "one")
    await change(database, thread_id, "two", now=NOW + 5, how="append", origin=Origin("other", "tool"))
    found = await kept(database, thread_id, version=1)
    assert found.newest == Version(2, "append", "other", "tool", NOW + 5, "two")
    assert found.chosen == Version(1, "replace", BY.actor, BY.tool, NOW, "one")
    assert [(each.version, each.change, each.content) for each in found.versions] == [
        (2, "append", ""),
        (1, "replace", ""),
    ]
    assert (await kept(database, thread_id, version=3)).chosen is None


async def test_what_was_never_written_is_nothing(database: Database) -> None:
    assert await kept(database, "") == DocumentHistory(None, None, ())
    assert await content(database, "") is None
    with pytest.raises(NotFound):
        await kept(database, "main")
    await say(database, "main", draft())
    assert await kept(database, "main", version=7) == DocumentHistory(None, None, ())


async def test_a_thread_is_made_by_its_first_document_and_by_nothing_else(database: Database) -> None:
    for how in ("clear", "restore"):
        with pytest.raises(NotFound):
            await change(database, "main", "", how=how)
    with pytest.raises(InvalidInput):
        await change(database, "main", refusing)
    with pytest.raises(Conflict):
        await change(database, "main", "one", expected_version=1)
    assert await only(database, "SELECT count(*) FROM threads") == 0
    await change(database, "main", "one")
    assert (await database.read(threads.find, ANA, "main")).message_count == 0


def refusing(*_: str) -> str:
    raise InvalidInput("no")


@BOTH
async def test_an_equal_content_makes_no_new_version(database: Database, thread_id: str) -> None:
    first = await change(database, thread_id, "one")
    again = await change(database, thread_id, "one", now=NOW + 1)
    assert again.after is again.before
    assert again.after == first.after
    assert numbers((await kept(database, thread_id)).versions) == [1]


@BOTH
async def test_only_the_version_that_was_expected_is_changed(database: Database, thread_id: str) -> None:
    await change(database, thread_id, "one", expected_version=0)
    await change(database, thread_id, "two", expected_version=1)
    for stale in (0, 1, 3):
        with pytest.raises(Conflict, match=f"expected_version={stale}, but the document is at version 2, by update_w"):
            await change(database, thread_id, "three", expected_version=stale)
    assert await content(database, thread_id) == "two"


@BOTH
async def test_what_the_rule_refuses_changes_nothing(database: Database, thread_id: str) -> None:
    await change(database, thread_id, "one")
    with pytest.raises(InvalidInput):
        await change(database, thread_id, refusing)
    assert numbers((await kept(database, thread_id)).versions) == [1]


@BOTH
async def test_the_last_twenty_versions_are_kept(database: Database, thread_id: str) -> None:
    for number in range(1, MOST_VERSIONS + 6):
        await change(database, thread_id, f"text {number}")
    assert numbers((await kept(database, thread_id)).versions) == list(range(25, 5, -1))
    assert (await kept(database, thread_id, version=6)).chosen is not None
    assert (await kept(database, thread_id, version=5)).chosen is None
    with pytest.raises(NotFound, match=r"version 5 is not kept; kept: 25, 24, .*, 6$"):
        await change(database, thread_id, "", how="restore", restore_version=5)


@BOTH
async def test_many_appends_at_once_are_all_in_the_result(database: Database, thread_id: str) -> None:
    words = [f"word{number}" for number in range(60)]
    await asyncio.gather(
        *(change(database, thread_id, lambda stored, _, word=word: f"{stored} {word}", how="append") for word in words)
    )
    found = await kept(database, thread_id)
    assert found.newest is not None
    assert sorted(found.newest.content.split()) == sorted(words)
    assert found.newest.version == 60
    assert numbers(found.versions) == list(range(60, 40, -1))


@BOTH
async def test_of_many_who_expect_the_same_version_one_wins(database: Database, thread_id: str) -> None:
    await change(database, thread_id, "first")
    done = await asyncio.gather(
        *(change(database, thread_id, f"by {number}", expected_version=1) for number in range(20)),
        return_exceptions=True,
    )
    assert sum(isinstance(each, DocumentChange) for each in done) == 1
    assert sum(isinstance(each, Conflict) for each in done) == 19
    assert numbers((await kept(database, thread_id)).versions) == [2, 1]


async def test_documents_of_threads_and_resources_are_apart(database: Database) -> None:
    await change(database, "main", "of main")
    await change(database, "other", "of other")
    await change(database, "", "of ana")
    await change(database, "", "of ben", scope=BEN)
    await change(database, "main", "of ben's main", scope=BEN)
    assert await content(database, "main") == "of main"
    assert await content(database, "other") == "of other"
    assert await content(database, "") == "of ana"
    assert await content(database, "", scope=BEN) == "of ben"
    assert await content(database, "main", scope=BEN) == "of ben's main"


async def test_a_thread_made_again_has_no_document_yet_and_the_restored_one_has_its_own(database: Database) -> None:
    await change(database, "main", "old")
    await database.write(deletions.delete_thread, ANA, "main", deletion_uid="d", erase=False, now=NOW)
    with pytest.raises(NotFound):
        await kept(database, "main")
    await say(database, "main", draft())
    assert await content(database, "main") is None


@BOTH
async def test_what_was_cleared_long_enough_ago_is_erased_with_all_before(database: Database, thread_id: str) -> None:
    await change(database, thread_id, "secret one")
    await change(database, thread_id, "secret two")
    await change(database, thread_id, "", how="clear", now=NOW + 10)
    await change(database, thread_id, "new", now=NOW + 11)
    assert await erase(database, NOW + 10) == 0
    assert not await database.read_installation(installation.rewrite_owed)
    assert await erase(database, NOW + 11) == 1
    assert bool(await database.read_installation(installation.rewrite_owed)) == database.backend.keeps_erased_bytes
    found = await kept(database, thread_id)
    assert [(each.version, each.change) for each in found.versions] == [(4, "replace"), (3, "clear")]
    assert await content(database, thread_id) == "new"
    assert await erase(database, NOW + 100) == 0, "there is nothing left to do"


@BOTH
async def test_a_version_restored_after_a_clear_outlives_the_erasing(database: Database, thread_id: str) -> None:
    await change(database, thread_id, "one")
    await change(database, thread_id, "", how="clear", now=NOW + 1)
    await change(database, thread_id, lambda _, was: was, how="restore", restore_version=1, now=NOW + 2)
    assert await erase(database, NOW + 9) == 1
    assert await content(database, thread_id) == "one"
    assert numbers((await kept(database, thread_id)).versions) == [3, 2]


@BOTH
async def test_a_clear_may_erase_at_once(database: Database, thread_id: str) -> None:
    await change(database, thread_id, "secret")
    await change(database, thread_id, "", how="clear", erase=True)
    table = "session_memories" if thread_id else "user_profiles"
    assert await database.read_installation(rows, f"SELECT version, content FROM {table}") == [(2, "")]
    assert bool(await database.read_installation(installation.rewrite_owed)) == database.backend.keeps_erased_bytes
    assert [(each.version, each.change) for each in (await kept(database, thread_id)).versions] == [(2, "clear")]
    await change(database, thread_id, "next")
    assert numbers((await kept(database, thread_id)).versions) == [3, 2]


async def test_cleared_documents_are_erased_a_portion_at_a_time_and_no_other_scope_s(database: Database) -> None:
    for scope in (ANA, BEN):
        for thread_id in ("main", "side", "third", ""):
            await change(database, thread_id, "kept for now", scope=scope)
            await change(database, thread_id, "", scope=scope, how="clear")
    assert [await erase(database, NOW + 1, most=2) for _ in range(3)] == [3, 1, 0]
    assert await only(database, "SELECT count(*) FROM session_memories") == 3 + 6
    assert await only(database, "SELECT count(*) FROM user_profiles") == 1 + 2


async def test_a_newer_clear_erases_what_an_older_one_left(database: Database) -> None:
    await change(database, "", "one")
    await change(database, "", "", how="clear")
    await change(database, "", "two")
    await change(database, "", "", how="clear")
    assert await erase(database, NOW + 1) == 2
    assert numbers((await kept(database, "")).versions) == [4]
    assert await erase(database, NOW + 1) == 0


@examples(25)
@given(texts=st.lists(TEXTS, min_size=2, max_size=4, unique=True), of_thread=st.booleans())
async def test_any_text_is_kept_and_restored_as_it_was(database: Database, texts: list[str], of_thread: bool) -> None:
    scope, thread_id = new_scope(), "main" if of_thread else ""
    for text in texts:
        await change(database, thread_id, text, scope=scope)
    assert await content(database, thread_id, scope=scope) == texts[-1]
    await change(database, thread_id, lambda _, was: was, how="restore", restore_version=1, scope=scope)
    found = await kept(database, thread_id, scope=scope, version=1)
    assert found.newest is not None
    assert found.chosen is not None
    assert found.newest.content == found.chosen.content == texts[0]
