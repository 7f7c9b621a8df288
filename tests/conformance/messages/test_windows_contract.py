"""The messages that a window may show: the newest, the first, those between two places, the user's latest."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layerlore.storage.core.records import ROLES, Message, Scope, Thread
from layerlore.storage.core.transaction import Database
from layerlore.storage.messages import windows
from layerlore.storage.messages.windows import RunState
from layerlore.storage.threads import threads

from ..building import ANA, BEN, draft, drop, everything, examples, new_scope, say, tool_call, tool_result

pytestmark = pytest.mark.anyio


def seqs(messages: Sequence[Message]) -> list[int]:
    return [message.seq for message in messages]


async def found(database: Database, scope: Scope = ANA) -> Thread:
    return await database.read(threads.find, scope, "main")


@pytest.fixture
async def ten(database: Database) -> Database:
    """A thread of ten messages, of which 4 and 10 are deleted; another thread of the scope, and one of another."""
    await say(database, "main", *(draft(f"word{n}", id=f"m{n}") for n in range(1, 11)))
    await drop(database, "main", "ids", ["m4", "m10"])
    await say(database, "other", draft(), draft())
    await say(database, "main", draft(), draft(), draft(), scope=BEN)
    return database


async def test_the_newest_and_the_first_come_in_chronological_order(ten: Database) -> None:
    thread = await found(ten)
    assert seqs(await ten.read(windows.newest, ANA, thread, most=3)) == [7, 8, 9]
    assert seqs(await ten.read(windows.newest, ANA, thread, most=3, before=6)) == [2, 3, 5]
    assert seqs(await ten.read(windows.newest, ANA, thread, most=99)) == [1, 2, 3, 5, 6, 7, 8, 9]
    assert seqs(await ten.read(windows.first, ANA, thread, most=4)) == [1, 2, 3, 5]
    assert await ten.read(windows.newest, ANA, thread, most=0) == []
    assert await ten.read(windows.newest, ANA, thread, most=5, before=1) == []
    assert await ten.read(windows.first, ANA, thread, most=0) == []


async def test_they_are_the_messages_as_a_page_has_them(ten: Database) -> None:
    thread = await found(ten)
    assert await ten.read(windows.newest, ANA, thread, most=99) == await everything(ten, "main")


async def test_the_state_of_the_newest_differs_only_with_them(ten: Database) -> None:
    thread = await found(ten)

    async def state(**bounds: int) -> RunState:
        return await ten.read(windows.state_between, ANA, thread, **{"after": 0, "before": 10, **bounds})

    whole, newest = await state(), await state(most=3)
    assert (whole.messages, whole.first, whole.last) == (8, 1, 9)
    assert (newest.messages, newest.first, newest.last) == (3, 7, 9)
    assert await state(most=8) == await state(most=99) == whole
    assert await state(after=6) == newest
    await drop(ten, "main", "ids", ["m2"])
    assert await state(most=3) == newest
    assert await state() != whole
    await drop(ten, "main", "ids", ["m8"])
    assert (await state(most=3)).first == 6
    assert await state(after=9) == RunState(0, 0, 0, 0, 0)


async def test_a_thread_without_messages_has_none(database: Database) -> None:
    await say(database, "main", draft(id="m1"))
    await drop(database, "main", "ids", ["m1"])
    thread = await found(database)
    assert await database.read(windows.newest, ANA, thread, most=9) == []
    assert await database.read(windows.first, ANA, thread, most=9) == []
    assert await database.read(windows.latest_from_user, ANA, thread) is None


async def test_the_half_of_a_tool_call_whose_other_half_is_deleted_is_left_out(database: Database) -> None:
    wait = {"type": "text", "text": "wait"}
    await say(
        database,
        "main",
        draft(id="a", role="assistant", parts=[wait, tool_call("c")]),
        draft(id="t", role="tool", parts=[tool_result("c")]),
        draft("thanks", role="user", id="u"),
    )
    await drop(database, "main", "ids", ["t"])
    thread = await found(database)
    (request, _) = await database.read(windows.newest, ANA, thread, most=9)
    assert request.parts == [wait]


@examples(25)
@given(
    count=st.integers(0, 12),
    gone=st.sets(st.integers(1, 12)),
    span=st.tuples(st.integers(0, 13), st.integers(0, 14)),
    first=st.integers(0, 6),
    newest=st.integers(0, 6),
)
async def test_between_two_places_none_is_told_twice_and_the_rest_lies_in_the_middle(
    database: Database, count: int, gone: set[int], span: tuple[int, int], first: int, newest: int
) -> None:
    scope = new_scope()
    gone = {n for n in gone if n <= count}
    await say(database, "main", draft(id="m0"), *(draft(id=f"m{n}") for n in range(1, count + 1)), scope=scope)
    await drop(database, "main", "ids", [f"m{n}" for n in gone], scope=scope)
    after, before = span
    thread = await found(database, scope)
    earlier, later = await database.read(
        windows.between, scope, thread, after=after, before=before, first=first, newest=newest
    )
    visible = [n + 1 for n in range(count + 1) if n not in gone and after < n + 1 < before]
    assert seqs(later) == (visible[-newest:] if newest else [])
    assert seqs(earlier) == visible[: len(visible) - len(later)][:first]


@examples(25)
@given(st.lists(st.tuples(st.sampled_from(ROLES), st.booleans()), min_size=1, max_size=10))
async def test_the_latest_of_the_user_is_the_newest_visible_message_of_that_role(
    database: Database, told: list[tuple[str, bool]]
) -> None:
    scope = new_scope()
    await say(database, "main", *(draft(id=f"m{n}", role=role) for n, (role, _) in enumerate(told)), scope=scope)  # type: ignore[arg-type]
    await drop(database, "main", "ids", [f"m{n}" for n, (_, gone) in enumerate(told) if gone], scope=scope)
    thread = await found(database, scope)
    latest = await database.read(windows.latest_from_user, scope, thread)
    expected = [n + 1 for n, (role, gone) in enumerate(told) if role == "user" and not gone]
    assert (latest.seq if latest else None) == (expected[-1] if expected else None)
