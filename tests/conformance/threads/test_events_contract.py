"""The log of what changed: every seq once and in order, whoever writes and whoever reads on at the same time."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layerlore.storage.core.errors import NotFound
from layerlore.storage.core.records import Json, Origin, Scope
from layerlore.storage.core.transaction import Database, Tx
from layerlore.storage.drivers.dialect import open_database
from layerlore.storage.removal import deletions
from layerlore.storage.threads import events, threads
from layerlore.storage.threads.events import EventPage, NewEvent

from ..building import ANA, BEN, NOW, draft, drop, examples, new_scope, only, say, search_text, uid

pytestmark = pytest.mark.anyio

CODER = Origin("coder 1.0", "add_messages")
JOB = Origin("observer", "")


async def tell(
    database: Database,
    *happened: NewEvent,
    thread_id: str = "main",
    scope: Scope = ANA,
    origin: Origin = CODER,
    now: int = NOW,
) -> int:
    """Record events in a thread, which the first makes. Returns the seq of the last."""
    new_uid = uid()

    async def write(tx: Tx, scope: Scope) -> int:
        thread = await threads.lock_or_make(tx, scope, thread_id, new_uid, now)
        return await events.record(tx, scope, thread, happened, origin=origin, now=now)

    return await database.write(write, scope)


async def log(
    database: Database,
    *,
    thread_id: str = "main",
    scope: Scope = ANA,
    after: int = 0,
    types: Sequence[str] = (),
    limit: int = 200,
) -> EventPage:
    return await database.read(events.read_page, scope, thread_id, after=after, types=types, limit=limit)


async def log_of_resource(
    database: Database, *, scope: Scope = ANA, after: int = 0, types: Sequence[str] = (), limit: int = 200
) -> EventPage:
    return await database.read(events.read_page_of_resource, scope, after=after, types=types, limit=limit)


def told(page: EventPage) -> list[tuple[int, str]]:
    return [(event.seq, event.type) for event in page.events]


async def test_events_stand_in_the_order_given_with_who_wrote_them_when_and_how(database: Database) -> None:
    assert await tell(database, NewEvent("a", {"n": 1}), NewEvent("b")) == 2
    assert await tell(database, NewEvent("c"), origin=JOB, now=NOW + 5) == 3
    page = await log(database)
    assert [(each.seq, each.type, each.payload) for each in page.events] == [
        (1, "a", {"n": 1}),
        (2, "b", {}),
        (3, "c", {}),
    ]
    assert [(each.actor, each.tool, each.created_at) for each in page.events] == [
        ("coder 1.0", "add_messages", NOW),
        ("coder 1.0", "add_messages", NOW),
        ("observer", "", NOW + 5),
    ]
    assert (page.more, page.last_seq) == (False, 3)


async def test_a_page_goes_on_after_a_seq_and_says_whether_there_is_more(database: Database) -> None:
    await tell(database, *(NewEvent(f"e{n}") for n in range(1, 6)))
    first = await log(database, limit=2)
    assert (told(first), first.more, first.last_seq) == ([(1, "e1"), (2, "e2")], True, 5)
    rest = await log(database, after=2, limit=3)
    assert (told(rest), rest.more) == ([(3, "e3"), (4, "e4"), (5, "e5")], False)
    none = await log(database, after=5)
    assert (none.events, none.more, none.last_seq) == ([], False, 5)


async def test_types_narrow_a_page_and_the_last_seq_is_that_of_all(database: Database) -> None:
    await tell(database, *(NewEvent("odd" if n % 2 else "even") for n in range(1, 8)))
    page = await log(database, types=["even"], limit=2)
    assert (told(page), page.more, page.last_seq) == ([(2, "even"), (4, "even")], True, 7)
    page = await log(database, types=["even"], after=4, limit=2)
    assert (told(page), page.more, page.last_seq) == ([(6, "even")], False, 7)
    assert len((await log(database, types=["even", "odd"])).events) == 7
    assert (await log(database, types=["other"])).last_seq == 7


async def test_each_thread_counts_for_itself_and_an_unknown_one_has_no_log(database: Database) -> None:
    await tell(database, NewEvent("a"), NewEvent("b"))
    await tell(database, NewEvent("c"), thread_id="other")
    await tell(database, NewEvent("d"), scope=BEN)
    assert told(await log(database, thread_id="other")) == [(1, "c")]
    assert told(await log(database, scope=BEN)) == [(1, "d")]
    for scope, name in ((ANA, "nobody"), (BEN, "other")):
        with pytest.raises(NotFound, match=name):
            await log(database, thread_id=name, scope=scope)


async def test_a_thread_that_an_event_made_is_told_of_once_in_the_log_of_its_resource(database: Database) -> None:
    await tell(database, NewEvent("a"))
    await tell(database, NewEvent("b"))
    await tell(database, NewEvent("c"), thread_id="other", now=NOW + 1)
    page = await log_of_resource(database)
    assert [(each.seq, each.type, each.payload, each.actor, each.tool) for each in page.events] == [
        (1, "thread_created", {"thread_id": "main"}, "coder 1.0", "add_messages"),
        (2, "thread_created", {"thread_id": "other"}, "coder 1.0", "add_messages"),
    ]
    assert (await log_of_resource(database, scope=BEN)) == EventPage([], False, 0)


async def test_a_thread_of_a_time_before_there_was_a_log_is_not_told_of_as_new(database: Database) -> None:
    await say(database, "main", draft())
    await tell(database, NewEvent("a"), now=NOW + 1)
    assert told(await log(database)) == [(1, "a")]
    assert (await log_of_resource(database)).last_seq == 0


async def test_events_of_a_resource_are_numbered_and_paged_on_their_own(database: Database) -> None:
    for n in range(1, 5):
        seq = await database.write(
            events.record_of_resource, ANA, NewEvent("even" if n % 2 == 0 else "odd", {"n": n}), origin=JOB, now=NOW + n
        )
        assert seq == n
    page = await log_of_resource(database, after=1, limit=2)
    assert (told(page), page.more, page.last_seq) == ([(2, "even"), (3, "odd")], True, 4)
    assert [(each.payload, each.actor, each.tool, each.created_at) for each in page.events] == [
        ({"n": 2}, "observer", "", NOW + 2),
        ({"n": 3}, "observer", "", NOW + 3),
    ]
    assert told(await log_of_resource(database, types=["even"])) == [(2, "even"), (4, "even")]
    assert await database.read(events.last_of_resource, ANA) == 4
    assert await database.read(events.last_of_resource, BEN) == 0


async def test_nothing_that_happened_is_no_event(database: Database) -> None:
    await tell(database, NewEvent("a"))
    assert await tell(database) == 1
    assert told(await log(database)) == [(1, "a")]


async def test_a_transaction_that_fails_leaves_no_event_and_no_gap(database: Database) -> None:
    await tell(database, NewEvent("a"))

    async def fail(tx: Tx, scope: Scope) -> None:
        thread = await threads.lock(tx, ANA, "main")
        await events.record(tx, ANA, thread, [NewEvent("never")], origin=CODER, now=NOW)
        await events.record_of_resource(tx, ANA, NewEvent("never"), origin=CODER, now=NOW)
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        await database.write(fail, ANA)
    await tell(database, NewEvent("b"))
    assert told(await log(database)) == [(1, "a"), (2, "b")]
    assert (await log_of_resource(database)).last_seq == 1


async def test_an_event_made_from_a_message_is_hidden_restored_and_erased_with_it(database: Database) -> None:
    await say(database, "main", draft(id="m1"), draft(id="m2"))
    await tell(database, NewEvent("plain"), NewEvent("of m1", {"k": 1}, 1), NewEvent("of m2", {}, 2))
    deleted = await drop(database, "main", "ids", ["m1"])
    page = await log(database)
    assert (told(page), page.last_seq) == ([(1, "plain"), (3, "of m2")], 3)
    assert told(await log(database, limit=2)) == [(1, "plain"), (3, "of m2")]
    assert deleted.deletion_uid is not None
    await database.write(deletions.restore, ANA, deleted.deletion_uid, now=NOW, search_text=search_text)
    assert told(await log(database)) == [(1, "plain"), (2, "of m1"), (3, "of m2")]
    await drop(database, "main", "ids", ["m1"], erase=True)
    await tell(database, NewEvent("later"))
    assert told(await log(database)) == [(1, "plain"), (3, "of m2"), (4, "later")]
    assert await only(database, "SELECT count(*) FROM events") == 3


@pytest.mark.parametrize("at_once", [False, True])
async def test_events_go_with_their_thread_and_its_seqs_begin_anew(database: Database, at_once: bool) -> None:
    await tell(database, NewEvent("a"), NewEvent("b"))
    await tell(database, NewEvent("c"), thread_id="other")
    await database.write(deletions.delete_thread, ANA, "main", deletion_uid=uid(), erase=at_once, now=NOW)
    with pytest.raises(NotFound):
        await log(database)
    await tell(database, NewEvent("anew"), now=NOW + 1)
    assert told(await log(database)) == [(1, "anew")]
    await database.write(deletions.erase_expired, ANA, deleted_before=NOW + 9, answered_before=NOW + 9)
    assert await only(database, "SELECT count(*) FROM events") == 2
    page = await log_of_resource(database)
    assert [(each.seq, each.payload["thread_id"]) for each in page.events] == [(2, "other"), (3, "main")]
    assert page.last_seq == 3


PAYLOADS = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=8),
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**80), 2**80)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=3), inner, max_size=3),
        max_leaves=6,
    ),
    max_size=4,
)


@examples(30)
@given(payloads=st.lists(PAYLOADS, min_size=1, max_size=4))
async def test_any_payload_comes_back_as_it_was(database: Database, payloads: list[Json]) -> None:
    scope = new_scope()
    await tell(database, *(NewEvent("e", payload) for payload in payloads), scope=scope)
    page = await log(database, scope=scope)
    assert [event.payload for event in page.events] == payloads


@pytest.fixture
async def second(database: Database, database_url: str) -> AsyncIterator[Database]:
    """The same database, opened once more, as by another process."""
    opened = await open_database(database_url, Path())
    yield opened
    await opened.close()


class Undone(Exception):
    pass


async def change(database: Database, thread_id: str, rng: random.Random) -> int:
    """A write of one to three events, which fails now and then. Returns how many it left."""
    count, fails, new_uid = rng.randint(1, 3), rng.random() < 0.2, uid()

    async def write(tx: Tx, scope: Scope) -> None:
        thread = await threads.lock_or_make(tx, ANA, thread_id, new_uid, NOW)
        await events.record(tx, ANA, thread, [NewEvent(rng.choice("ab")) for _ in range(count)], origin=CODER, now=NOW)
        await events.record_of_resource(tx, ANA, NewEvent("r"), thread_uid=thread.thread_uid, origin=CODER, now=NOW)
        if fails:
            raise Undone

    try:
        await database.write(write, ANA)
    except Undone:
        return 0
    return count


async def follow(
    database: Database, done: asyncio.Event, *, of_resource: bool, types: Sequence[str] = ()
) -> tuple[list[int], int]:
    """All seqs that a reader sees who reads on from where it was until the writers have ended."""
    seen: list[int] = []
    after = 0
    while True:
        last_look = done.is_set()
        if of_resource:
            page = await log_of_resource(database, after=after, types=types, limit=7)
        else:
            page = await log(database, after=after, types=types, limit=7)
        seen += [event.seq for event in page.events]
        after = page.events[-1].seq if page.more else page.last_seq
        if last_look and not page.more:
            return seen, page.last_seq


async def test_a_reader_that_reads_on_sees_every_seq_once_and_in_order_while_others_write(
    database: Database, second: Database
) -> None:
    await tell(database, NewEvent("a"))
    done = asyncio.Event()

    async def writer(on: Database, seed: int) -> int:
        rng = random.Random(seed)
        return sum([await change(on, rng.choice(["main", "other"]), rng) for _ in range(12)])

    async def write_all() -> None:
        await asyncio.gather(*(writer((database, second)[seed % 2], seed) for seed in range(6)))
        done.set()

    async with asyncio.TaskGroup() as group:
        whole = [
            group.create_task(follow(on, done, of_resource=way)) for on in (database, second) for way in (False, True)
        ]
        narrowed = group.create_task(follow(second, done, of_resource=False, types=["a"]))
        group.create_task(write_all())
    for reader in whole:
        seqs, last_seq = reader.result()
        assert seqs == list(range(1, last_seq + 1))
        assert last_seq > 10
    page = await log(database, types=["a"])
    assert narrowed.result() == ([event.seq for event in page.events], page.last_seq)
