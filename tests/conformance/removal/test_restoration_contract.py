"""Undoing deletes: what is listed, what comes back, and what stands in the way."""

import pytest

from layerlore.storage.core.errors import Conflict, NotFound
from layerlore.storage.core.records import Scope
from layerlore.storage.core.transaction import Database
from layerlore.storage.removal import deletions
from layerlore.storage.removal.deletions import Deletion
from layerlore.storage.threads import threads

from ..building import (
    ANA,
    BEN,
    MINUTE,
    NOW,
    draft,
    drop,
    everything,
    having,
    say,
    search_text,
    seqs,
    tool_call,
    tool_result,
    uid,
)

pytestmark = pytest.mark.anyio


async def restore(database: Database, deletion_uid: str | None, *, scope: Scope = ANA, now: int = NOW) -> Deletion:
    assert deletion_uid is not None
    return await database.write(deletions.restore, scope, deletion_uid, now=now, search_text=search_text)


async def drop_thread(database: Database, thread_id: str, *, now: int = NOW) -> str:
    deleted = await database.write(deletions.delete_thread, ANA, thread_id, deletion_uid=uid(), erase=False, now=now)
    assert deleted.deletion_uid is not None
    return deleted.deletion_uid


async def test_deletes_are_listed_newest_first_until_they_are_undone(database: Database) -> None:
    assert await database.read(deletions.list_deletions, ANA) == []
    made = await say(database, "one", draft(id="a"), draft(id="b"), draft(id="c"))
    await say(database, "two", draft())
    first = await drop(database, "one", "ids", ["a", "b"], now=NOW + 1)
    second = await drop_thread(database, "two", now=NOW + 2)
    listed = await database.read(deletions.list_deletions, ANA)
    assert [(d.deletion_uid, d.thread_id, d.kind, d.message_count, d.deleted_at) for d in listed] == [
        (second, "two", "thread", 1, NOW + 2),
        (first.deletion_uid, "one", "messages", 2, NOW + 1),
    ]
    assert listed[1].thread_uid == made.thread.thread_uid
    assert await restore(database, first.deletion_uid) == listed[1]
    assert await database.read(deletions.list_deletions, ANA) == listed[:1]


async def test_restored_messages_are_back_in_their_places_and_found_again(database: Database) -> None:
    await say(database, "main", draft("walrus", id="a", tokens=2), draft("b", id="b", tokens=3))
    before = await everything(database, "main")
    deleted = await drop(database, "main", "ids", ["a"])
    await say(database, "main", draft("later", id="c", tokens=7))
    await restore(database, deleted.deletion_uid, now=NOW + MINUTE)
    assert (await everything(database, "main"))[:2] == before
    assert await having(database, "walrus") == before[:1]
    thread = await database.read(threads.find, ANA, "main")
    assert (thread.message_count, thread.token_count, thread.updated_at) == (3, 12, NOW + MINUTE)
    assert (await say(database, "main", draft("walrus", id="a"))).stored[0].status == "unchanged"


async def test_a_restored_thread_is_as_it_was_and_found_again(database: Database) -> None:
    await say(database, "main", draft("walrus"), draft("narwhal", id="b"), draft("seal"))
    await drop(database, "main", "ids", ["b"])
    before = await everything(database, "main"), await database.read(threads.find, ANA, "main")
    gone = await drop_thread(database, "main", now=NOW + MINUTE)
    await restore(database, gone, now=NOW + 2 * MINUTE)
    assert (await everything(database, "main"), await database.read(threads.find, ANA, "main")) == before
    assert [len(await having(database, word)) for word in ("walrus", "narwhal", "seal")] == [1, 0, 1]
    assert (await database.read(threads.count_live, ANA))[1] == 2


async def test_an_unknown_delete_cannot_be_undone(database: Database) -> None:
    with pytest.raises(NotFound, match="there is no delete 'nothing' to undo: it is unknown, undone, or erased"):
        await restore(database, "nothing")


async def test_a_delete_that_was_undone_or_erased_cannot_be_undone(database: Database) -> None:
    await say(database, "main", draft(id="a"), draft(id="b"))
    undone = await drop(database, "main", "ids", ["a"])
    await restore(database, undone.deletion_uid)
    with pytest.raises(NotFound):
        await restore(database, undone.deletion_uid)
    erased = await drop(database, "main", "ids", ["a"], now=NOW)
    await database.write(deletions.erase_expired, ANA, deleted_before=NOW + 1, answered_before=0)
    with pytest.raises(NotFound):
        await restore(database, erased.deletion_uid)
    assert await seqs(database, "main") == [2]


async def test_another_scope_cannot_undo_a_delete(database: Database) -> None:
    await say(database, "main", draft(id="a"), draft(id="b"))
    deleted = await drop(database, "main", "ids", ["a"])
    with pytest.raises(NotFound, match="it is unknown"):
        await restore(database, deleted.deletion_uid, scope=BEN)
    await restore(database, deleted.deletion_uid)


async def test_a_thread_is_not_restored_over_one_that_took_its_name(database: Database) -> None:
    await say(database, "main", draft("old"))
    gone = await drop_thread(database, "main")
    await say(database, "main", draft("new"))
    with pytest.raises(Conflict, match="a thread 'main' was made again since this one was deleted"):
        await restore(database, gone)
    assert [m.parts[0]["text"] for m in await everything(database, "main")] == ["new"]
    assert await having(database, "old") == []
    newer = await drop_thread(database, "main")
    await restore(database, gone)
    assert [m.parts[0]["text"] for m in await everything(database, "main")] == ["old"]
    with pytest.raises(Conflict):
        await restore(database, newer)


@pytest.mark.parametrize("made_again", [False, True])
async def test_messages_of_a_deleted_thread_wait_for_their_thread(database: Database, made_again: bool) -> None:
    await say(database, "main", draft("a", id="a"), draft("b", id="b"))
    messages = await drop(database, "main", "ids", ["a"])
    thread = await drop_thread(database, "main")
    if made_again:
        await say(database, "main", draft("new", id="a"))
    with pytest.raises(Conflict, match="thread 'main', which these messages belong to, is deleted: restore it first"):
        await restore(database, messages.deletion_uid)
    if made_again:
        await drop_thread(database, "main")
    await restore(database, thread)
    await restore(database, messages.deletion_uid)
    assert [message.id for message in await everything(database, "main")] == ["a", "b"]


async def test_a_restored_result_waits_for_its_call_that_another_delete_hid(database: Database) -> None:
    await say(
        database,
        "main",
        draft("hi", id="u"),
        draft(id="a", role="assistant", parts=[{"type": "text", "text": "wait"}, tool_call("c1")]),
        draft(id="t", role="tool", parts=[tool_result("c1", "quokka")]),
    )
    before = await everything(database, "main")
    result = await drop(database, "main", "ids", ["t"])
    caller = await drop(database, "main", "ids", ["a"])
    await restore(database, result.deletion_uid)
    assert [message.id for message in await everything(database, "main")] == ["u"]
    assert await having(database, "quokka") == []
    await restore(database, caller.deletion_uid)
    assert await everything(database, "main") == before
    assert await having(database, "quokka") == before[2:]


async def test_what_a_restore_hides_counts_no_more_among_what_waits_to_be_observed(database: Database) -> None:
    """The result came after its call was deleted: the next look at halves, that of the restore, hides it."""
    await say(database, "main", draft("hi", id="u"), draft(id="a", role="assistant", parts=[tool_call("c1")]))
    first = await drop(database, "main", "ids", ["u"])
    await drop(database, "main", "ids", ["a"])
    await say(database, "main", draft(id="t", role="tool", parts=[tool_result("c1", "quokka")]))
    assert [message.id for message in await everything(database, "main")] == ["t"]
    await restore(database, first.deletion_uid)
    shown = await everything(database, "main")
    assert [message.id for message in shown] == ["u"]
    thread = await database.read(threads.find, ANA, "main")
    assert (thread.message_count, thread.token_count) == (1, shown[0].tokens)
    assert thread.raw_tokens == shown[0].tokens
