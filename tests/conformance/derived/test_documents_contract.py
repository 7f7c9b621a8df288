"""What is made of turns: notes that wait, summaries, where documents come from, cursors, titles."""

import pytest

from layerlore.storage.core.records import Thread
from layerlore.storage.core.transaction import Database
from layerlore.storage.derived import session_notes, working_memory
from layerlore.storage.derived.session_notes import MOST_KEPT, NewNote, Summary
from layerlore.storage.derived.working_memory import MOST_VERSIONS, DocumentSource
from layerlore.storage.threads import threads
from layerlore.storage.threads.threads import Description

from ..building import ANA, NOW, draft, only, say, uid

pytestmark = pytest.mark.anyio


async def thread_of(database: Database, messages: int = 3, name: str = "main") -> str:
    made = await say(database, name, *(draft(f"word{n}", id=f"m{n}") for n in range(1, messages + 1)))
    return made.thread.thread_uid


async def queue(database: Database, thread_uid: str, *texts: str, seq: int = 1) -> None:
    notes = [NewNote("state", text) for text in texts]
    await database.write(
        session_notes.add, ANA, thread_uid, notes, from_seq=seq, to_seq=seq, model="m", prompt="p/1", now=NOW
    )


async def waiting(database: Database, thread_uid: str) -> list[str]:
    return [note.text for note in await database.read(session_notes.queued, ANA, thread_uid)]


async def test_notes_wait_in_their_order_until_they_are_taken_out(database: Database) -> None:
    thread_uid = await thread_of(database)
    await queue(database, thread_uid, "a", "b")
    await queue(database, thread_uid)
    await queue(database, thread_uid, "c", seq=2)
    found = await database.read(session_notes.queued, ANA, thread_uid)
    assert [(note.note_id, note.text, note.from_seq, note.created_at) for note in found] == [
        (1, "a", 1, NOW),
        (2, "b", 1, NOW),
        (3, "c", 2, NOW),
    ]
    assert await database.write(session_notes.take_out, ANA, thread_uid, [1, 3, 9]) == 2
    assert await waiting(database, thread_uid) == ["b"]
    await queue(database, thread_uid, "d")
    assert await waiting(database, thread_uid) == ["b", "d"]


async def test_a_window_is_told_by_the_summary_that_reaches_up_to_it(database: Database) -> None:
    thread_uid = await thread_of(database, 60)
    for upto in range(5, 55, 5):
        made = Summary(upto, 1, f"up to {upto}", 7, "m", "p/1", NOW)
        await database.write(session_notes.add_summary, ANA, thread_uid, made)

    async def told(before: int) -> str | None:
        found = await database.read(session_notes.newest, ANA, thread_uid, before=before)
        return found.text if found else None

    assert [await told(99), await told(50), await told(31), await told(15)] == [
        "up to 50",
        "up to 45",
        "up to 30",
        None,
    ]
    assert await only(database, "SELECT count(*) FROM summaries") == MOST_KEPT
    assert await database.read(session_notes.newest, ANA, "other", before=99) is None


async def test_runs_of_sources_that_touch_are_one_and_versions_that_are_not_kept_have_none(database: Database) -> None:
    first, second = sorted([await thread_of(database), await thread_of(database, name="other")])
    given = [
        DocumentSource(second, 4, 6),
        DocumentSource(first, 1, 2),
        DocumentSource(second, 7, 9),
        DocumentSource(second, 5, 5),
        DocumentSource(second, 12, 12),
    ]
    joined = [DocumentSource(first, 1, 2), DocumentSource(second, 4, 9), DocumentSource(second, 12, 12)]
    assert await database.write(working_memory.record_sources, ANA, "", 1, given) == joined
    assert await database.read(working_memory.sources_of_version, ANA, "", 1) == joined
    assert await database.read(working_memory.sources_of_version, ANA, first, 1) == []
    await database.write(working_memory.record_sources, ANA, "", MOST_VERSIONS, joined[:1])
    assert await database.read(working_memory.sources_of_version, ANA, "", 1) == joined
    await database.write(working_memory.record_sources, ANA, "", MOST_VERSIONS + 1, joined[:1])
    assert await database.read(working_memory.sources_of_version, ANA, "", 1) == []
    assert await database.read(working_memory.sources_of_version, ANA, "", MOST_VERSIONS) == joined[:1]


async def test_cursors_move_on_and_never_back_each_by_itself(database: Database) -> None:
    thread_uid = await thread_of(database)
    for seq in (2, 3, 1):
        await database.write(threads.move_cursor, ANA, thread_uid, "profile_seq", seq)
    assert await database.read(threads.read_cursor, ANA, thread_uid, "profile_seq") == 3
    assert await database.read(threads.read_cursor, ANA, thread_uid, "session_seq") == 0
    assert await database.read(threads.read_cursor, ANA, "other", "session_seq") == 0


async def described(database: Database, title: str | None) -> Thread:
    change = Description(title, {"k": 1} if title is None else None)
    return await database.write(threads.describe, ANA, "main", change, new_uid=uid(), now=NOW, check=lambda _: None)


async def test_a_title_is_given_once(database: Database) -> None:
    thread_uid = await thread_of(database)
    assert (await described(database, None)).title_by is None
    before = await database.read(threads.find, ANA, "main")
    assert await database.write(threads.put_title, ANA, thread_uid, "Made", by="m")
    assert not await database.write(threads.put_title, ANA, thread_uid, "Again", by="m")
    after = await database.read(threads.find, ANA, "main")
    assert (after.title, after.title_by, after.updated_at) == ("Made", "m", before.updated_at)
    assert (await described(database, None)).title_by == "m"


@pytest.mark.parametrize("title", ["Chosen", ""])
async def test_a_title_that_a_caller_set_or_removed_is_left_alone(database: Database, title: str) -> None:
    thread_uid = await thread_of(database)
    await described(database, title)
    assert not await database.write(threads.put_title, ANA, thread_uid, "Made", by="m")
    after = await database.read(threads.find, ANA, "main")
    assert (after.title, after.title_by) == (title or None, "caller")
