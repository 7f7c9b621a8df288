"""Deleting messages and threads: hidden at once, everywhere; what goes with what."""

import pytest

from layerlore.storage.core.errors import InvalidInput, NotFound
from layerlore.storage.core.index_rows import IndexedRow
from layerlore.storage.core.records import Message, Scope
from layerlore.storage.core.transaction import Database, Tx
from layerlore.storage.index import lexical
from layerlore.storage.messages import indexed_rows
from layerlore.storage.removal import deletions
from layerlore.storage.removal.deletions import DeleteResult
from layerlore.storage.threads import threads

from ..building import (
    ANA,
    MINUTE,
    NOW,
    draft,
    drop,
    everything,
    having,
    only,
    say,
    seqs,
    tool_call,
    tool_result,
    uid,
)

pytestmark = pytest.mark.anyio

BOTH = pytest.mark.parametrize("erase", [False, True], ids=["hidden", "erased"])


async def drop_thread(
    database: Database, thread_id: str, *, scope: Scope = ANA, erase: bool = False, now: int = NOW
) -> DeleteResult:
    return await database.write(deletions.delete_thread, scope, thread_id, deletion_uid=uid(), erase=erase, now=now)


@pytest.fixture
async def talk(database: Database) -> Database:
    """Two turns and a system message, each with a word of its own."""
    await say(
        database,
        "main",
        draft("system", id="s", role="system", tokens=1),
        draft("ask apple", id="u1", tokens=2),
        draft("say apricot", id="a1", role="assistant", tokens=4),
        draft("ask banana", id="u2", tokens=8),
        draft("note blueberry", id="s2", role="system", tokens=16),
        draft("say boysenberry", id="a2", role="assistant", tokens=32),
    )
    return database


def ids(messages: list[Message]) -> list[str]:
    return [message.id for message in messages]


@BOTH
async def test_the_last_turn_is_everything_from_the_latest_user_message_on(talk: Database, erase: bool) -> None:
    deleted = await drop(talk, "main", "last_turn", erase=erase, now=NOW + MINUTE)
    assert ids(deleted.messages) == ["u2", "s2", "a2"]
    assert (deleted.deletion_uid is None) == erase
    assert ids(await everything(talk, "main")) == ["s", "u1", "a1"]
    thread = await talk.read(threads.find, ANA, "main")
    assert deleted.thread == thread
    assert (thread.message_count, thread.token_count, thread.updated_at) == (3, 7, NOW + MINUTE)


@BOTH
async def test_deleting_turn_after_turn_ends_with_an_error_that_says_what_is_left_to_do(
    talk: Database, erase: bool
) -> None:
    await drop(talk, "main", "last_turn", erase=erase)
    await drop(talk, "main", "last_turn", erase=erase)
    assert ids(await everything(talk, "main")) == ["s"]
    with pytest.raises(InvalidInput, match="'main' has no user message, so no last turn; which='ids' or which='all'"):
        await drop(talk, "main", "last_turn", erase=erase)


@BOTH
async def test_roles_narrow_what_is_deleted(talk: Database, erase: bool) -> None:
    deleted = await drop(talk, "main", "last_turn", roles=["assistant", "tool"], erase=erase)
    assert ids(deleted.messages) == ["a2"]
    deleted = await drop(talk, "main", "all", roles=["user"], erase=erase)
    assert ids(deleted.messages) == ["u1", "u2"]
    assert ids(await everything(talk, "main")) == ["s", "a1", "s2"]


@BOTH
async def test_all_empties_the_thread_and_leaves_it_there(talk: Database, erase: bool) -> None:
    deleted = await drop(talk, "main", "all", erase=erase)
    assert len(deleted.messages) == 6
    thread = await talk.read(threads.find, ANA, "main")
    assert (thread.message_count, thread.token_count, thread.next_seq) == (0, 0, 7)
    again = await drop(talk, "main", "all", erase=erase)
    assert (again.messages, again.deletion_uid) == ([], None)


@BOTH
async def test_an_unknown_id_is_named_and_nothing_is_deleted(talk: Database, erase: bool) -> None:
    with pytest.raises(NotFound, match="'main' has no message 'x1', 'x2'; nothing was deleted"):
        await drop(talk, "main", "ids", ["u1", "x2", "x1"], erase=erase)
    assert len(await everything(talk, "main")) == 6


@BOTH
async def test_a_deleted_message_cannot_be_deleted_again(talk: Database, erase: bool) -> None:
    await drop(talk, "main", "ids", ["u1"], erase=erase)
    with pytest.raises(NotFound, match="'u1'"):
        await drop(talk, "main", "ids", ["u1"], erase=erase)


@BOTH
async def test_a_delete_that_chooses_nothing_is_no_delete(talk: Database, erase: bool) -> None:
    deleted = await drop(talk, "main", "ids", ["u1"], roles=["tool"], erase=erase, now=NOW + MINUTE)
    assert (deleted.messages, deleted.deletion_uid) == ([], None)
    assert deleted.thread.updated_at == NOW
    assert await only(talk, "SELECT count(*) FROM deletions") == 0


@BOTH
async def test_deleted_messages_are_not_found_any_more(talk: Database, erase: bool) -> None:
    assert ids(await having(talk, "banana")) == ["u2"]
    await drop(talk, "main", "last_turn", erase=erase)
    for word in ("banana", "blueberry", "boysenberry"):
        assert await having(talk, word) == []
    assert ids(await having(talk, "apple")) == ["u1"]
    assert (await talk.read(threads.count_live, ANA))[1] == 3


async def test_a_row_id_from_before_the_delete_leads_nowhere(talk: Database) -> None:
    async def rows(tx: Tx, scope: Scope) -> list[IndexedRow]:
        row_ids = (await lexical.postings(tx, ANA, ["banana"], most=9))["banana"].tolist()
        return [row for row in await indexed_rows.around(tx, ANA, row_ids) if row.row_id in row_ids]

    (before,) = await talk.read(rows, ANA)
    place = (before.thread_uid, before.seq)
    assert list(await talk.read(indexed_rows.messages_of, ANA, [place])) == [place]
    await drop(talk, "main", "ids", ["u2"])
    assert await talk.read(indexed_rows.messages_of, ANA, [place]) == {}
    assert before.row_id not in {row.row_id for row in await talk.read(indexed_rows.around, ANA, [before.row_id])}


@BOTH
@pytest.mark.parametrize("chosen", ["a", "t"])
async def test_a_tool_call_and_its_result_go_together(database: Database, chosen: str, erase: bool) -> None:
    await say(
        database,
        "main",
        draft("hi", id="u"),
        draft(id="a", role="assistant", parts=[tool_call("c1")]),
        draft(id="t", role="tool", parts=[tool_result("c1", "quokka")]),
        draft("so", id="b", role="assistant"),
    )
    deleted = await drop(database, "main", "ids", [chosen], roles=["assistant", "tool"], erase=erase)
    assert ids(deleted.messages) == ["a", "t"]
    assert ids(await everything(database, "main")) == ["u", "b"]
    assert deleted.thread.message_count == 2
    assert await having(database, "quokka") == []


@BOTH
async def test_only_the_half_goes_from_a_message_that_holds_more(database: Database, erase: bool) -> None:
    await say(
        database,
        "main",
        draft(
            id="a",
            role="assistant",
            parts=[{"type": "text", "text": "wait"}, tool_call("c1", "kiwi"), tool_call("c2", "lemur")],
        ),
        draft(id="t1", role="tool", parts=[tool_result("c1")]),
        draft(id="t2", role="tool", parts=[tool_result("c2")]),
    )
    await drop(database, "main", "ids", ["t1"], erase=erase)
    caller, answer = await everything(database, "main")
    assert caller.parts == [{"type": "text", "text": "wait"}, tool_call("c2", "lemur")]
    assert (caller.revision, answer.id) == (1, "t2")
    assert await having(database, "kiwi") == []
    assert ids(await having(database, "lemur")) == ["a"]
    assert ids(await having(database, "wait")) == ["a"]


@BOTH
async def test_an_earlier_call_of_the_same_id_keeps_its_result(database: Database, erase: bool) -> None:
    """Some models count their calls anew in each turn."""
    for turn in (1, 2):
        await say(
            database,
            "main",
            draft("hi", id=f"u{turn}"),
            draft(id=f"a{turn}", role="assistant", parts=[tool_call("call_0")]),
            draft(id=f"t{turn}", role="tool", parts=[tool_result("call_0")]),
        )
    await drop(database, "main", "last_turn", erase=erase)
    assert ids(await everything(database, "main")) == ["u1", "a1", "t1"]


@BOTH
async def test_a_call_without_a_result_stays(database: Database, erase: bool) -> None:
    await say(database, "main", draft("hi", id="u"), draft(id="a", role="assistant", parts=[tool_call("c1")]))
    await drop(database, "main", "ids", ["u"], erase=erase)
    assert ids(await everything(database, "main")) == ["a"]


@BOTH
async def test_a_deleted_thread_is_gone_and_its_name_is_free(talk: Database, erase: bool) -> None:
    deleted = await drop_thread(talk, "main", erase=erase)
    assert deleted.thread.message_count == 6
    assert (deleted.deletion_uid is None) == erase
    with pytest.raises(NotFound):
        await talk.read(threads.find, ANA, "main")
    assert await having(talk, "apple") == []
    assert (await talk.read(threads.count_live, ANA))[1] == 0
    made = await say(talk, "main", draft("apple pie", id="u1"))
    assert made.thread.thread_uid != deleted.thread.thread_uid
    assert (made.stored[0].seq, made.stored[0].status) == (1, "added")
    assert await seqs(talk, "main") == [1]
    assert [message.parts[0]["text"] for message in await having(talk, "apple")] == ["apple pie"]


@BOTH
async def test_a_thread_goes_together_with_what_was_deleted_in_it_before(talk: Database, erase: bool) -> None:
    await drop(talk, "main", "last_turn")
    await drop_thread(talk, "main", erase=erase)
    assert await having(talk, "apple") == []
    if erase:
        for table in ("threads", "messages", "deletions", "search_rows"):
            assert await only(talk, f"SELECT count(*) FROM {table}") == 0


async def test_a_name_can_be_deleted_again_and_again(database: Database) -> None:
    for round_ in range(3):
        await say(database, "main", draft(f"round{round_}"))
        await drop_thread(database, "main")
    assert await only(database, "SELECT count(*) FROM threads") == 3
    with pytest.raises(NotFound):
        await drop_thread(database, "main")
