"""Messages added to a thread whose other messages are deleted: no half of a tool call is left alone."""

import pytest

from layerlore.storage.core.errors import Conflict
from layerlore.storage.core.records import Draft
from layerlore.storage.core.transaction import Database
from layerlore.storage.messages import orphans
from layerlore.storage.messages.message_rows import AppendResult
from layerlore.storage.removal import deletions

from ..building import (
    ANA,
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


async def add(database: Database, *drafts: Draft, replace_known: bool = False) -> AppendResult:
    return await database.write(
        orphans.add_beside_deleted,
        ANA,
        "main",
        drafts,
        new_uid=uid(),
        replace_known=replace_known,
        now=NOW,
        search_text=search_text,
    )


@pytest.fixture
async def answered(database: Database) -> Database:
    """A call with a text, and its result."""
    await add(
        database,
        draft(id="a", role="assistant", parts=[{"type": "text", "text": "wait"}, tool_call("c1", "kiwi")]),
        draft(id="t", role="tool", parts=[tool_result("c1", "quokka")]),
    )
    return database


async def test_what_is_added_is_appended(database: Database) -> None:
    added = await add(database, draft("walrus", id="m"), draft("narwhal"))
    assert [stored.seq for stored in added.stored] == [1, 2]
    assert [message.id for message in await having(database, "walrus")] == ["m"]


async def test_a_call_whose_result_was_deleted_is_shown_again_with_a_new_result(answered: Database) -> None:
    await drop(answered, "main", "ids", ["t"])
    assert await having(answered, "kiwi") == []
    await add(answered, draft(id="t2", role="tool", parts=[tool_result("c1", "numbat")]))
    caller, answer = await everything(answered, "main")
    assert tool_call("c1", "kiwi") in caller.parts
    assert answer.id == "t2"
    assert [message.id for message in await having(answered, "kiwi")] == ["a"]
    assert [message.id for message in await having(answered, "numbat")] == ["t2"]


async def test_both_results_are_shown_when_the_first_is_restored_too(answered: Database) -> None:
    deleted = await drop(answered, "main", "ids", ["t"])
    await add(answered, draft(id="t2", role="tool", parts=[tool_result("c1")]))
    assert deleted.deletion_uid is not None
    await answered.write(deletions.restore, ANA, deleted.deletion_uid, now=NOW, search_text=search_text)
    assert await seqs(answered, "main") == [1, 2, 3]


async def test_a_result_whose_call_is_deleted_is_refused_and_not_stored(answered: Database) -> None:
    await drop(answered, "main", "ids", ["a"])
    assert await seqs(answered, "main") == []
    with pytest.raises(Conflict, match=r"'t2' has nothing but halves of tool calls whose other half is deleted \(c1\)"):
        await add(answered, draft("hello"), draft(id="t2", role="tool", parts=[tool_result("c1", "numbat")]))
    assert await seqs(answered, "main") == []
    assert await having(answered, "numbat") == []


async def test_a_result_beside_a_text_is_hidden_until_its_call_is_restored(answered: Database) -> None:
    deleted = await drop(answered, "main", "ids", ["a"])
    text = {"type": "text", "text": "so"}
    await add(answered, draft(id="u", parts=[tool_result("c1", "numbat"), text]))
    (shown,) = await everything(answered, "main")
    assert shown.parts == [text]
    assert await having(answered, "numbat") == []
    assert deleted.deletion_uid is not None
    await answered.write(deletions.restore, ANA, deleted.deletion_uid, now=NOW, search_text=search_text)
    assert (await everything(answered, "main"))[-1].parts == [tool_result("c1", "numbat"), text]
    assert [message.id for message in await having(answered, "numbat")] == ["u"]


async def test_a_call_of_the_same_id_in_a_later_turn_has_nothing_to_do_with_the_deleted_one(
    answered: Database,
) -> None:
    await drop(answered, "main", "ids", ["a"])
    await add(
        answered,
        draft(id="a2", role="assistant", parts=[tool_call("c1")]),
        draft(id="t2", role="tool", parts=[tool_result("c1")]),
    )
    assert [message.id for message in await everything(answered, "main")] == ["a2", "t2"]


async def test_what_was_read_can_be_sent_again_while_a_part_of_it_is_hidden(answered: Database) -> None:
    await drop(answered, "main", "ids", ["t"])
    (shown,) = await everything(answered, "main")
    again = await add(answered, draft(id="a", role="assistant", parts=shown.parts))
    assert again.stored[0].status == "unchanged"
    whole = [{"type": "text", "text": "wait"}, tool_call("c1", "kiwi")]
    assert (await add(answered, draft(id="a", role="assistant", parts=whole))).stored[0].status == "unchanged"
    assert (await everything(answered, "main"))[0].parts == shown.parts


async def test_without_a_tool_call_nothing_else_is_looked_at(answered: Database) -> None:
    await drop(answered, "main", "ids", ["t"])
    before = await everything(answered, "main")
    await say(answered, "main", draft("plain", id="p"))
    await add(answered, draft("plain too", id="q"))
    assert (await everything(answered, "main"))[:1] == before
