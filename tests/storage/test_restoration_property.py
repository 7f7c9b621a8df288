"""Delete any messages, restore the deletes in any order: the thread is as it was, and never shows half a tool call."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memstrata.storage import restoration, threads
from memstrata.storage.errors import NotFound
from memstrata.storage.records import Draft, Json, Message, Role, Scope
from memstrata.storage.tool_pairs import call_ids, result_ids
from memstrata.storage.transaction import Database

from .building import (
    NOW,
    draft,
    drop,
    everything,
    examples,
    having,
    new_scope,
    say,
    search_text,
    tool_call,
    tool_result,
)

pytestmark = pytest.mark.anyio


def conversation(turns: list[tuple[bool, int, int, bool]]) -> list[Draft]:
    """Each turn: whether the message that calls says something too, how many calls it makes, how many of them are
    answered, and whether the answers come together in one message (with a text) or one by one. Each part has a word
    of its own."""
    drafts: list[Draft] = []

    def add(role: Role, parts: list[Json]) -> None:
        if parts:
            drafts.append(draft(id=f"m{len(drafts)}", role=role, parts=parts, tokens=len(drafts) + 1))

    for number, (speaks, calls, answered, together) in enumerate(turns):
        spoken = [{"type": "text", "text": f"says{number}"}]
        made = [f"c{number}x{n}" for n in range(calls)]
        add("assistant", (spoken if speaks else []) + [tool_call(id_, f"calls{id_}") for id_ in made])
        results = [tool_result(id_, f"answers{id_}") for id_ in made[:answered]]
        if together:
            add("user", [*results, {"type": "text", "text": f"asks{number}"}])
        else:
            for result in results:
                add("tool", [result])
    return drafts


turns = st.lists(
    st.tuples(st.booleans(), st.integers(0, 3), st.integers(0, 3), st.booleans()), min_size=1, max_size=4
).map(conversation)
actions = st.lists(
    st.tuples(st.just("delete"), st.sets(st.integers(0, 12), min_size=1, max_size=4))
    | st.tuples(st.just("restore"), st.integers(0, 5)),
    max_size=6,
)


def halves(messages: list[Message]) -> tuple[set[str], set[str]]:
    calls = {id_ for message in messages for id_ in call_ids(message.parts)}
    results = {id_ for message in messages for id_ in result_ids(message.parts)}
    return calls, results


async def check(database: Database, scope: Scope, whole: list[Message]) -> list[Message]:
    """What must hold after every step."""
    shown = await everything(database, "main", scope)
    assert all(message.parts for message in shown), "a message without a part is shown"
    calls, results = halves(whole)
    shown_calls, shown_results = halves(shown)
    pairs = calls & results
    assert shown_calls & pairs == shown_results & pairs, "half a tool call is shown"
    thread = await database.read(threads.find, scope, "main")
    assert thread.message_count == len(shown)
    assert thread.token_count == sum(message.tokens for message in shown)
    expected = {(word, message.seq) for message in shown for word in search_text(message).split()}
    words = {word for message in whole for word in search_text(message).split()}
    found = {(word, message.seq) for word in words for message in await having(database, word, scope)}
    assert found == expected, "the index does not say what is shown"
    return shown


@examples(60)
@given(drafts=turns.filter(bool), steps=actions, order=st.lists(st.integers(0, 5), min_size=6, max_size=6))
async def test_after_every_delete_and_restore_the_thread_is_whole_and_at_last_as_it_was(
    database: Database, drafts: list[Draft], steps: list[tuple[str, set[int] | int]], order: list[int]
) -> None:
    scope = new_scope()
    await say(database, "main", *drafts, scope=scope)
    whole = await everything(database, "main", scope)
    before = await database.read(threads.find, scope, "main")
    undoable: list[str] = []
    for _kind, which in steps:
        shown = await check(database, scope, whole)
        if isinstance(which, set):
            ids = sorted({shown[n % len(shown)].id for n in which} if shown else set())
            deleted = await drop(database, "main", "ids", ids, scope=scope)
            undoable += [deleted.deletion_uid] if deleted.deletion_uid else []
        elif undoable:
            await undo(database, scope, undoable.pop(which % len(undoable)))
        assert {d.deletion_uid for d in await database.read(restoration.listed, scope)} == set(undoable)
    for place in order[: len(undoable)]:
        await check(database, scope, whole)
        await undo(database, scope, undoable.pop(place % len(undoable)))
    assert await check(database, scope, whole) == whole
    after = await database.read(threads.find, scope, "main")
    assert (after.message_count, after.token_count, after.next_seq) == (
        before.message_count,
        before.token_count,
        before.next_seq,
    )


async def undo(database: Database, scope: Scope, deletion_uid: str) -> None:
    await database.write(restoration.restore, scope, deletion_uid, now=NOW, search_text=search_text)
    try:
        await database.write(restoration.restore, scope, deletion_uid, now=NOW, search_text=search_text)
    except NotFound:
        return
    raise AssertionError("a delete was undone twice")
