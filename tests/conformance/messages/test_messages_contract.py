"""Appending messages: seqs, times, what becomes of a known id, and all or nothing."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layerlore.storage.core.errors import Conflict
from layerlore.storage.core.transaction import Database
from layerlore.storage.messages.message_rows import AHEAD_MS

from ..building import (
    ANA,
    MINUTE,
    NOW,
    draft,
    drop,
    everything,
    examples,
    having,
    new_scope,
    only,
    say,
    seqs,
    tool_call,
)

pytestmark = pytest.mark.anyio


async def test_the_first_message_makes_its_thread(database: Database) -> None:
    appended = await say(database, "main", draft("one", tokens=2), draft("two", tokens=5))
    thread = appended.thread
    assert (thread.thread_id, thread.title, thread.metadata) == ("main", None, {})
    assert (thread.message_count, thread.token_count, thread.next_seq) == (2, 7, 3)
    assert (thread.created_at, thread.updated_at) == (NOW, NOW)
    assert [stored.status for stored in appended.stored] == ["added", "added"]


async def test_a_message_comes_back_as_it_was_stored(database: Database) -> None:
    parts = [{"type": "text", "text": "see"}, tool_call("c1"), {"type": "image", "url": "https://x.test/a.png"}]
    sent = draft("", id="m", role="assistant", name="bob", parts=parts, metadata={"k": [1, None, {"z": 0.5}]}, tokens=9)
    await say(database, "main", sent)
    (kept,) = await everything(database, "main")
    assert (kept.thread_id, kept.seq, kept.id, kept.role, kept.name) == ("main", 1, "m", "assistant", "bob")
    assert (kept.parts, kept.metadata, kept.tokens, kept.encoding) == (parts, sent.metadata, 9, "o200k_base")
    assert (kept.created_at, kept.said_at, kept.revision) == (NOW, NOW, 1)


async def test_keys_of_parts_keep_their_order(database: Database) -> None:
    await say(database, "main", draft(parts=[{"type": "text", "zulu": 1, "alpha": 2, "text": "x"}]))
    (kept,) = await everything(database, "main")
    assert list(kept.parts[0]) == ["type", "zulu", "alpha", "text"]


async def test_seqs_have_no_gap_and_are_never_given_again(database: Database) -> None:
    await say(database, "main", draft(id="a"), draft(id="b"))
    await say(database, "main", draft(id="c"))
    assert await seqs(database, "main") == [1, 2, 3]
    await drop(database, "main", "ids", ["b", "c"])
    await drop(database, "main", "all", erase=True)
    appended = await say(database, "main", draft(id="d"))
    assert [stored.seq for stored in appended.stored] == [4]
    assert await seqs(database, "main") == [4]


async def test_each_thread_counts_its_own_seqs(database: Database) -> None:
    await say(database, "one", draft(), draft())
    appended = await say(database, "two", draft())
    assert appended.stored[0].seq == 1


async def test_an_append_of_nothing_changes_nothing(database: Database) -> None:
    await say(database, "main", draft(), now=NOW)
    appended = await say(database, "main", now=NOW + MINUTE)
    assert appended.stored == []
    assert (appended.thread.next_seq, appended.thread.updated_at) == (2, NOW)


@examples(40)
@given(
    batches=st.lists(
        st.tuples(
            st.integers(-10 * AHEAD_MS, 10 * AHEAD_MS),
            st.lists(st.none() | st.integers(-20 * AHEAD_MS, 20 * AHEAD_MS), min_size=1, max_size=6),
        ),
        min_size=1,
        max_size=5,
    )
)
async def test_created_at_strictly_increases_and_is_at_most_five_minutes_ahead(
    database: Database, batches: list[tuple[int, list[int | None]]]
) -> None:
    scope = new_scope()
    clock, written = NOW, 0
    for step, offsets in batches:
        clock = max(clock, NOW + step)  # the clock may jump ahead; it does not run backwards
        said = [None if offset is None else NOW + offset for offset in offsets]
        await say(database, "main", *(draft(said_at=at) for at in said), scope=scope, now=clock)
        written += len(said)
        kept = await everything(database, "main", scope)
        times = [message.created_at for message in kept]
        assert all(earlier < later for earlier, later in itertools.pairwise(times))
        # Only what must stay apart from its forerunner goes beyond the limit, a millisecond each.
        assert times[-1] <= clock + AHEAD_MS + written
        for message, at in zip(kept[-len(said) :], said, strict=True):
            assert message.said_at == (min(message.created_at, clock) if at is None else at)


async def test_a_message_from_the_past_keeps_its_time_when_it_is_the_first(database: Database) -> None:
    await say(database, "main", draft(said_at=1_000), draft(said_at=500), draft(said_at=2_000))
    kept = await everything(database, "main")
    assert [message.created_at for message in kept] == [1_000, 1_001, 2_000]
    assert [message.said_at for message in kept] == [1_000, 500, 2_000]


async def test_the_same_message_again_is_unchanged_and_stays_in_place(database: Database) -> None:
    await say(database, "main", draft("first", id="a"), draft("second", id="b"))
    again = await say(database, "main", draft("first", id="a"), draft("third", id="c"), now=NOW + MINUTE)
    assert [(stored.id, stored.seq, stored.status) for stored in again.stored] == [
        ("a", 1, "unchanged"),
        ("c", 3, "added"),
    ]
    assert again.thread.message_count == 3
    unchanged = await say(database, "main", draft("first", id="a"), now=NOW + 2 * MINUTE)
    assert unchanged.thread.updated_at == NOW + MINUTE


@pytest.mark.parametrize("replace_known", [False, True])
async def test_unchanged_messages_are_left_alone_even_when_replacing(database: Database, replace_known: bool) -> None:
    await say(database, "main", draft("same", id="a"))
    await say(database, "main", draft("same", id="a"), replace_known=replace_known)
    (kept,) = await everything(database, "main")
    assert kept.revision == 1


async def test_other_content_under_a_known_id_is_a_conflict_and_nothing_is_stored(database: Database) -> None:
    await say(database, "main", draft("first", id="a"))
    with pytest.raises(Conflict, match=r"'a' is stored with other content \(seq 1\).*replace=true"):
        await say(database, "main", draft("new", id="b"), draft("changed", id="a"))
    (kept,) = await everything(database, "main")
    assert kept.id == "a"
    assert (await say(database, "main", draft("next", id="c"))).stored[0].seq == 2
    assert await having(database, "new") == []


@pytest.mark.parametrize("change", [{"role": "assistant"}, {"name": "bob"}, {"words": "other"}])
async def test_role_name_and_parts_are_what_makes_content_other(database: Database, change: dict[str, str]) -> None:
    await say(database, "main", draft("same", id="a"))
    with pytest.raises(Conflict):
        await say(database, "main", draft(**{"words": "same", "id": "a", **change}))  # type: ignore[arg-type]


async def test_a_replaced_message_keeps_its_place_and_is_counted_and_indexed_anew(database: Database) -> None:
    await say(database, "main", draft("walrus", id="a", tokens=3, said_at=5_000), draft("narwhal", id="b", tokens=4))
    before = await everything(database, "main")
    replaced = await say(
        database, "main", draft("penguin", id="a", tokens=10, metadata={"v": 2}), replace_known=True, now=NOW + MINUTE
    )
    assert [(stored.seq, stored.status) for stored in replaced.stored] == [(1, "replaced")]
    assert (replaced.thread.message_count, replaced.thread.token_count) == (2, 14)
    assert replaced.thread.updated_at == NOW + MINUTE
    kept = await everything(database, "main")
    assert kept[1] == before[1]
    assert (kept[0].created_at, kept[0].said_at) == (before[0].created_at, 5_000)
    assert (kept[0].revision, kept[0].metadata, kept[0].tokens) == (2, {"v": 2}, 10)
    assert await having(database, "walrus") == []
    assert await having(database, "penguin") == [kept[0]]


async def test_other_metadata_alone_is_replaced_when_asked_for_and_else_passed_over(database: Database) -> None:
    await say(database, "main", draft("same", id="a", metadata={"v": 1}))
    passed_over = await say(database, "main", draft("same", id="a", metadata={"v": 2}))
    assert passed_over.stored[0].status == "unchanged"
    replaced = await say(database, "main", draft("same", id="a", metadata={"v": 2}), replace_known=True)
    assert replaced.stored[0].status == "replaced"
    (kept,) = await everything(database, "main")
    assert (kept.metadata, kept.revision) == ({"v": 2}, 2)


async def test_a_replacement_may_bring_its_own_time(database: Database) -> None:
    await say(database, "main", draft("walrus", id="a", said_at=5_000))
    await say(database, "main", draft("penguin", id="a", said_at=7_000), replace_known=True)
    (kept,) = await everything(database, "main")
    assert (kept.created_at, kept.said_at) == (5_000, 7_000)


@pytest.mark.parametrize("replace_known", [False, True])
@pytest.mark.parametrize(("erase", "seq"), [(False, 1), (True, 0)], ids=["hidden", "erased"])
async def test_what_was_deleted_is_left_out_when_it_is_sent_again(
    database: Database, replace_known: bool, erase: bool, seq: int
) -> None:
    await say(database, "main", draft("first", id="a"), draft("second", id="b"))
    await drop(database, "main", "ids", ["a"], erase=erase)
    sent = [draft("first", id="a"), draft("second", id="b"), draft("third", id="c")]
    appended = await say(database, "main", *sent, replace_known=replace_known)
    assert [(stored.seq, stored.status) for stored in appended.stored] == [
        (seq, "deleted"),
        (2, "unchanged"),
        (3, "added"),
    ]
    assert await seqs(database, "main") == [2, 3]
    assert appended.thread.message_count == 2


async def test_an_erased_id_is_free_in_another_thread(database: Database) -> None:
    await say(database, "main", draft("first", id="a"), draft("second", id="b"))
    await drop(database, "main", "ids", ["a"], erase=True)
    other = await say(database, "other", draft("first", id="a"))
    assert [(stored.seq, stored.status) for stored in other.stored] == [(1, "added")]


async def test_an_id_belongs_to_its_thread_only(database: Database) -> None:
    await say(database, "one", draft("first", id="a"))
    appended = await say(database, "two", draft("other", id="a"))
    assert appended.stored[0].status == "added"


async def test_a_message_that_fails_late_leaves_nothing_of_the_earlier_ones(database: Database) -> None:
    with pytest.raises(Exception, match=r"(?i)unique|duplicate"):
        await say(database, "main", draft("walrus", id="a"), draft("walrus", id="a"))
    assert await only(database, "SELECT count(*) FROM threads") == 0
    assert await only(database, "SELECT count(*) FROM messages") == 0
    assert await having(database, "walrus", ANA) == []
