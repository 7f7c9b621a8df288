"""Delete any messages, restore the deletes in any order: the thread is as it was, and never shows half a tool call."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layerlore.storage.core.errors import NotFound
from layerlore.storage.core.records import Draft, Json, Message, Role, Scope
from layerlore.storage.core.transaction import Database
from layerlore.storage.messages.message_rows import call_ids, result_ids
from layerlore.storage.removal import deletions
from layerlore.storage.threads import threads

from ..building import (
    NOW,
    draft,
    drop,
    everything,
    examples,
    index_of,
    new_scope,
    say,
    search_text,
    tool_call,
    tool_result,
    words_of,
)

pytestmark = pytest.mark.anyio


@dataclass(frozen=True)
class Talk:
    """Drafts, and the answered calls among them: the id of the call, of its message, and of its result's message."""

    drafts: list[Draft]
    pairs: list[tuple[str, str, str]]


def talk(turns: list[tuple[bool, int, int, bool, bool]]) -> Talk:
    """Each turn: whether the message that calls says something too, how many calls it makes, how many of them are
    answered, whether the answers come together in one message (with a text) or one by one, and whether the calls
    are counted anew. Each part has a word of its own."""
    made = Talk([], [])

    def add(role: Role, parts: list[Json]) -> str:
        made.drafts.append(draft(id=f"m{len(made.drafts)}", role=role, parts=parts, tokens=len(made.drafts) + 1))
        return made.drafts[-1].id

    for number, (speaks, count, answered, together, anew) in enumerate(turns):
        said = [{"type": "text", "text": f"says{number}"}] if speaks or not count else []
        ids = [f"c{n}" if anew else f"c{n}x{number}" for n in range(count)]
        caller = add("assistant", [*said, *(tool_call(id_, f"calls{n}x{number}") for n, id_ in enumerate(ids))])
        results = [tool_result(id_, f"answers{n}x{number}") for n, id_ in enumerate(ids[:answered])]
        if together:
            one = add("user", [*results, {"type": "text", "text": f"asks{number}"}])
            made.pairs.extend((id_, caller, one) for id_ in ids[:answered])
        else:
            made.pairs.extend((part["tool_call_id"], caller, add("tool", [part])) for part in results)
    return made


talks = st.lists(
    st.tuples(st.booleans(), st.integers(0, 3), st.integers(0, 3), st.booleans(), st.booleans()),
    min_size=1,
    max_size=4,
).map(talk)
actions = st.lists(
    st.tuples(st.just("delete"), st.sets(st.integers(0, 12), min_size=1, max_size=4))
    | st.tuples(st.just("restore"), st.integers(0, 5)),
    max_size=6,
)


async def check(database: Database, scope: Scope, told: Talk, whole: list[Message]) -> list[Message]:
    """What must hold after every step."""
    shown = await everything(database, "main", scope)
    assert all(message.parts for message in shown), "a message without a part is shown"
    calls = {(id_, message.id) for message in shown for id_ in call_ids(message.parts)}
    results = {(id_, message.id) for message in shown for id_ in result_ids(message.parts)}
    for id_, caller, answerer in told.pairs:
        assert ((id_, caller) in calls) == ((id_, answerer) in results), "half a tool call is shown"
    thread = await database.read(threads.find, scope, "main")
    assert thread.message_count == len(shown)
    # Nothing is observed yet: all that is shown waits to be.
    assert thread.raw_tokens == thread.token_count == sum(message.tokens for message in shown)
    expected = {(word, message.seq) for message in shown for word in words_of(message.parts).split()}
    words = {word for message in whole for word in words_of(message.parts).split()}
    index = await index_of(database, words, scope)
    assert {(word, message.seq) for word in words for message in index[word]} == expected, (
        "the index does not say what is shown"
    )
    return shown


@examples(40)
@given(told=talks, steps=actions, order=st.lists(st.integers(0, 5), min_size=6, max_size=6))
async def test_after_every_delete_and_restore_the_thread_is_whole_and_at_last_as_it_was(
    database: Database, told: Talk, steps: list[tuple[str, set[int] | int]], order: list[int]
) -> None:
    scope = new_scope()
    await say(database, "main", *told.drafts, scope=scope)
    whole = await everything(database, "main", scope)
    before = await database.read(threads.find, scope, "main")
    undoable: list[str] = []
    for _kind, which in steps:
        shown = await check(database, scope, told, whole)
        if isinstance(which, set):
            ids = sorted({shown[n % len(shown)].id for n in which} if shown else set())
            deleted = await drop(database, "main", "ids", ids, scope=scope)
            undoable += [deleted.deletion_uid] if deleted.deletion_uid else []
        elif undoable:
            await undo(database, scope, undoable.pop(which % len(undoable)))
        assert {d.deletion_uid for d in await database.read(deletions.list_deletions, scope)} == set(undoable)
    for place in order[: len(undoable)]:
        await check(database, scope, told, whole)
        await undo(database, scope, undoable.pop(place % len(undoable)))
    assert await check(database, scope, told, whole) == whole
    after = await database.read(threads.find, scope, "main")
    assert (after.message_count, after.token_count, after.next_seq) == (
        before.message_count,
        before.token_count,
        before.next_seq,
    )


async def undo(database: Database, scope: Scope, deletion_uid: str) -> None:
    await database.write(deletions.restore, scope, deletion_uid, now=NOW, search_text=search_text)
    try:
        await database.write(deletions.restore, scope, deletion_uid, now=NOW, search_text=search_text)
    except NotFound:
        return
    raise AssertionError("a delete was undone twice")
