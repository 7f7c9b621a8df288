"""What was made from messages goes with them, and comes back with them or is made again from what remains."""

from typing import Any

import pytest

from layerlore.storage.core import installation
from layerlore.storage.core.errors import Conflict
from layerlore.storage.core.records import Origin, Scope
from layerlore.storage.core.transaction import Database, Tx
from layerlore.storage.derived import session_notes, working_memory
from layerlore.storage.derived.session_notes import NewNote, Summary
from layerlore.storage.derived.working_memory import Change, DocumentSource, Version
from layerlore.storage.jobs import job_rows
from layerlore.storage.jobs.job_rows import Kind
from layerlore.storage.removal import deletions
from layerlore.storage.threads import events, threads
from layerlore.storage.threads.events import NewEvent

from ..building import ANA, NOW, draft, drop, everything, rows, say, search_text, uid

pytestmark = pytest.mark.anyio

JOB, CALLER = Origin("a model", "profile/1"), Origin("claude", "update_working_memory")
BOTH = pytest.mark.parametrize("of", ["main", ""], ids=["session memory", "profile"])


async def uid_of(database: Database, thread_id: str = "main") -> str:
    return (await database.read(threads.find, ANA, thread_id)).thread_uid


async def ten(database: Database, thread_id: str = "main") -> str:
    await say(database, thread_id, *(draft(f"{thread_id}word{n}", id=f"m{n}") for n in range(1, 11)))
    return await uid_of(database, thread_id)


async def write(
    database: Database,
    of: str,
    content: str,
    *sources: tuple[str, int, int],
    how: Change = "replace",
    version: int | None = None,
    now: int = NOW,
) -> int:
    """Write a document as a job does it, or, without sources, as a caller does. Returns the version."""

    async def unit(tx: Tx, scope: Scope) -> int:
        before = await working_memory.read_current(tx, ANA, of)
        changed = await working_memory.change(
            tx,
            ANA,
            of,
            lambda stored, request: request or (stored + content if how == "append" else content),
            how=how,
            expected_version=None,
            restore_version=version,
            origin=JOB if sources else CALLER,
            new_uid=uid(),
            now=now,
        )
        assert changed.after is not None
        if sources:
            owner = (await threads.find(tx, ANA, of)).thread_uid if of else ""
            known = await working_memory.sources_of_version(tx, ANA, owner, before.version) if before else []
            made = [DocumentSource(*source) for source in sources]
            await working_memory.record_sources(tx, ANA, owner, changed.after.version, [*known, *made])
        return changed.after.version

    return await database.write(unit, ANA)


async def document(database: Database, of: str) -> Version | None:
    return await database.read(working_memory.read_current, ANA, of)


async def content(database: Database, of: str) -> str:
    found = await document(database, of)
    return found.content if found else ""


async def ask(database: Database, thread_uid: str, seq: int, *kinds: Kind) -> None:
    """Ask for jobs of a thread and do them."""

    async def unit(tx: Tx, scope: Scope) -> None:
        await job_rows.request_many(tx, ANA, thread_uid, [(kind, seq, NOW) for kind in kinds], now=NOW)
        for kind in kinds:
            claim = await job_rows.claim(tx, [kind], holder="h", now=NOW, lease_ms=1)
            assert claim is not None
            await job_rows.finish(tx, claim, now=NOW)
        for cursor in ("profile_seq", "session_seq"):
            await threads.move_cursor(tx, ANA, thread_uid, cursor, seq)

    await database.write(unit, ANA)


async def done(database: Database) -> dict[tuple[str, str], int]:
    """How far the jobs are done that are due again, by thread and kind."""
    found = await database.read_installation(
        rows,
        "SELECT thread_id, kind, done_seq FROM jobs JOIN threads USING (tenant_id, agent_id, resource_id, thread_uid) "
        "WHERE requested_seq > done_seq AND threads.deletion_uid IS NULL",
    )
    return {(thread_id, kind): seq for thread_id, kind, seq in found}


async def restore(database: Database, deletion_uid: str | None, *, now: int = NOW) -> None:
    assert deletion_uid is not None
    await database.write(deletions.restore, ANA, deletion_uid, now=now, search_text=search_text)


async def erase(database: Database) -> None:
    await database.write(deletions.erase_expired, ANA, deleted_before=NOW + 10_000, answered_before=0)


@BOTH
async def test_a_document_falls_back_to_the_newest_version_whose_messages_are_all_there(
    database: Database, of: str
) -> None:
    main = await ten(database)
    for first, last in ((1, 3), (4, 6), (7, 9)):
        await write(database, of, f"upto {last}", (main, first, last))
        assert await content(database, of) == f"upto {last}"
    await ask(database, main, 10, "profile", "session_memory")
    deleted = await drop(database, "main", "ids", ["m5"])
    assert await content(database, of) == "upto 3"
    kept = await database.read(working_memory.read_history, ANA, of, version=3)
    assert (kept.chosen, [version.version for version in kept.versions]) == (None, [1])
    kind: Kind = "session_memory" if of else "profile"
    assert deleted.fell_back == {kind}
    assert await done(database) == {("main", kind): 3}, "what the version does not tell is read again"
    assert await database.read(threads.read_cursor, ANA, main, "session_seq" if of else "profile_seq") == 3
    await drop(database, "main", "ids", ["m1"])
    assert await content(database, of) == ""
    assert await done(database) == {("main", kind): 0}


@BOTH
async def test_a_restored_message_brings_the_version_back_unless_a_newer_one_was_made(
    database: Database, of: str
) -> None:
    main = await ten(database)
    await write(database, of, "old", (main, 1, 3))
    await write(database, of, "new", (main, 4, 6))
    deleted = await drop(database, "main", "ids", ["m5"])
    await restore(database, deleted.deletion_uid)
    assert await content(database, of) == "new"
    deleted = await drop(database, "main", "ids", ["m5"])
    assert await write(database, of, "made again", (main, 4, 6)) == 3, "a number is given once"
    assert await content(database, of) == "made again", "it was made without the message"
    await ask(database, main, 10, "profile", "session_memory")
    await restore(database, deleted.deletion_uid)
    assert await content(database, of) == "made again"
    assert (await done(database))["main", "session_memory" if of else "profile"] == 4, "the message is read again"


@BOTH
async def test_a_version_that_was_made_without_a_deleted_message_stays_with_its_neighbours(
    database: Database, of: str
) -> None:
    main = await ten(database)
    await drop(database, "main", "ids", ["m2", "m5", "m6"])
    await write(database, of, "all", (main, 1, 10))
    owner = main if of else ""
    found = await database.read(working_memory.sources_of_version, ANA, owner, 1)
    assert [(each.from_seq, each.to_seq) for each in found] == [(1, 1), (3, 4), (7, 10)]
    assert await content(database, of) == "all"
    await drop(database, "main", "ids", ["m4"])
    assert await content(database, of) == ""


@BOTH
async def test_what_a_caller_wrote_stays_and_what_was_appended_or_restored_goes_with_what_it_holds(
    database: Database, of: str
) -> None:
    main = await ten(database)
    await write(database, of, "derived", (main, 1, 3))
    await write(database, of, ", and a word of the caller's", how="append")
    await write(database, of, "a caller's own")
    await write(database, of, "", how="restore", version=1)
    assert await content(database, of) == "derived"
    deleted = await drop(database, "main", "ids", ["m2"])
    found = await document(database, of)
    assert found is not None
    assert (found.version, found.content) == (3, "a caller's own")
    kept = await database.read(working_memory.read_history, ANA, of)
    assert [version.version for version in kept.versions] == [3]
    with pytest.raises(Conflict, match="is at version 3"):
        await database.write(
            working_memory.change,
            ANA,
            of,
            lambda *_: "mine",
            how="replace",
            expected_version=4,
            origin=CALLER,
            new_uid=uid(),
            now=NOW,
        )
    await restore(database, deleted.deletion_uid)
    assert await content(database, of) == "derived"


async def test_a_deleted_thread_takes_the_profile_versions_along_that_others_must_be_read_again_for(
    database: Database,
) -> None:
    one, two = await ten(database, "one"), await ten(database, "two")
    await write(database, "", "one", (one, 1, 10))
    await write(database, "", "one and two", (two, 1, 4))
    await write(database, "", "one and two and one", (one, 7, 10))
    for thread in (one, two):
        await ask(database, thread, 10, "profile")
    deleted = await database.write(deletions.delete_thread, ANA, "two", deletion_uid=uid(), erase=False, now=NOW)
    assert deleted.fell_back == {"profile"}
    assert await content(database, "") == "one"
    assert await database.read(threads.read_cursor, ANA, two, "profile_seq") == 0
    await restore(database, deleted.deletion_uid)
    assert await content(database, "") == "one and two and one"
    await database.write(deletions.delete_thread, ANA, "one", deletion_uid=uid(), erase=False, now=NOW)
    assert await content(database, "") == ""
    assert await done(database) == {("two", "profile"): 0}


async def test_a_thread_that_comes_back_is_read_again_for_a_profile_written_meanwhile(database: Database) -> None:
    one = await ten(database, "one")
    await write(database, "", "one", (one, 2, 9))
    await ask(database, one, 10, "profile")
    deleted = await database.write(deletions.delete_thread, ANA, "one", deletion_uid=uid(), erase=False, now=NOW + 1)
    await write(database, "", "a caller's", now=NOW + 2)
    await restore(database, deleted.deletion_uid, now=NOW + 3)
    assert await content(database, "") == "a caller's"
    assert (await done(database))["one", "profile"] <= 1


async def tell(database: Database, main: str) -> None:
    """Notes, summaries and a title that were made of some of the messages."""

    async def unit(tx: Tx, scope: Scope) -> None:
        thread = await threads.lock(tx, ANA, "main")
        for first, last in ((1, 3), (4, 6), (7, 9)):
            made: Any = {"from_seq": first, "to_seq": last, "model": "m", "prompt": "p", "now": NOW}
            await session_notes.add(tx, ANA, main, [NewNote("state", f"upto {last}")], **made)
            await session_notes.add_summary(tx, ANA, main, Summary(last, 1, f"upto {last}", 3, "m", "p", NOW))
        await threads.put_title(tx, ANA, main, "About two", by="m")
        titled = NewEvent("thread_updated", {"changed": ["title"]}, 2)
        await events.record(tx, ANA, thread, [titled], origin=Origin("title", ""), now=NOW)

    await database.write(unit, ANA)


async def told(database: Database, main: str) -> tuple[list[str], str, str | None]:
    queued = await database.read(session_notes.queued, ANA, main)
    summary = await database.read(session_notes.newest, ANA, main, before=100)
    title = (await database.read(threads.find, ANA, "main")).title
    return [note.text for note in queued], summary.text if summary else "", title


async def test_notes_summaries_and_a_title_go_with_a_message_and_are_asked_for_again(database: Database) -> None:
    main = await ten(database)
    await tell(database, main)
    await ask(database, main, 10, "session_memory", "summary", "title")
    await drop(database, "main", "ids", ["m10"])
    assert await told(database, main) == (["upto 3", "upto 6", "upto 9"], "upto 9", "About two")
    await drop(database, "main", "ids", ["m5"])
    assert await told(database, main) == (["upto 3"], "upto 3", "About two")
    assert await done(database) == {("main", "session_memory"): 3, ("main", "summary"): 0}
    assert (await drop(database, "main", "ids", ["m2"])).fell_back == {"session_memory", "summary", "title"}
    assert await told(database, main) == ([], "", None)
    assert await done(database) == {("main", kind): 0 for kind in ("session_memory", "summary", "title")}


async def test_a_title_that_a_caller_gave_stays(database: Database) -> None:
    main = await ten(database)
    await tell(database, main)
    description = threads.Description("Mine", None)
    await database.write(threads.describe, ANA, "main", description, new_uid=uid(), now=NOW, check=lambda _: None)
    await drop(database, "main", "all")
    assert (await told(database, main))[2] == "Mine"


async def test_what_is_replaced_is_told_again(database: Database) -> None:
    main = await ten(database)
    await tell(database, main)
    await say(database, "main", draft("other", id="m5"), replace_known=True)
    assert await told(database, main) == (["upto 3"], "upto 3", "About two")
    await say(database, "main", draft("other", id="m2"), replace_known=True)
    assert await told(database, main) == ([], "", None)


async def test_who_thinks_about_anything_of_the_resource_meanwhile_is_fenced_off(database: Database) -> None:
    main, other = await ten(database), await ten(database, "other")
    for thread in (main, other):
        await database.write(job_rows.request, ANA, thread, "observe", 10, due_at=NOW, now=NOW)
    claims = [
        await database.write_installation(job_rows.claim, ["observe"], holder="h", now=NOW, lease_ms=30_000)
        for _ in range(2)
    ]
    await drop(database, "main", "ids", ["m5"])
    for claim in claims:
        assert claim is not None
        assert not await database.write(job_rows.prolong, claim, now=NOW, lease_ms=1)
        with pytest.raises(job_rows.Fenced):
            await database.write(job_rows.finish, claim, now=NOW)
    again = await database.write_installation(job_rows.claim, ["observe"], holder="h", now=NOW, lease_ms=30_000)
    assert again is not None
    assert (again.epoch, again.attempts) == (3, 0)


@BOTH
@pytest.mark.parametrize("at_once", [False, True])
async def test_what_was_made_from_an_erased_message_is_erased_and_its_number_never_given_again(
    database: Database, of: str, at_once: bool
) -> None:
    main = await ten(database)
    await write(database, of, "plain", (main, 1, 3))
    await write(database, of, "walrus", (main, 4, 6))
    await tell(database, main)
    await drop(database, "main", "ids", ["m5"], erase=at_once)
    if not at_once:
        await erase(database)
    assert await content(database, of) == "plain"
    table = "session_memories" if of else "user_profiles"
    found = await database.read_installation(rows, f"SELECT version, content, change FROM {table} ORDER BY version")
    assert found == [(1, "plain", "replace"), (2, "", "erased")]
    assert await database.read_installation(rows, "SELECT count(*) FROM session_notes WHERE text <> 'upto 3'") == [(0,)]
    assert await database.read_installation(rows, "SELECT count(*) FROM summaries WHERE text <> 'upto 3'") == [(0,)]
    assert await write(database, of, "new") == 3
    if database.backend.keeps_erased_bytes:
        assert await database.read_installation(installation.rewrite_owed)


@pytest.mark.parametrize("at_once", [False, True])
async def test_an_erased_thread_takes_the_profile_versions_along_for_good(database: Database, at_once: bool) -> None:
    one = await ten(database, "one")
    await write(database, "", "plain")
    await write(database, "", "walrus", (one, 4, 6))
    await database.write(deletions.delete_thread, ANA, "one", deletion_uid=uid(), erase=at_once, now=NOW)
    if not at_once:
        await erase(database)
    assert await content(database, "") == "plain"
    assert await database.read_installation(rows, "SELECT version, content FROM user_profiles ORDER BY version") == [
        (1, "plain"),
        (2, ""),
    ]
    assert await database.read_installation(rows, "SELECT * FROM document_sources") == []


async def test_a_message_deleted_twice_hides_as_long_as_one_of_the_deletes_does(database: Database) -> None:
    main = await ten(database)
    await write(database, "", "derived", (main, 1, 10))
    deletes = [await drop(database, "main", "ids", [f"m{n}"]) for n in (3, 7)]
    for deleted in deletes:
        assert await content(database, "") == ""
        await restore(database, deleted.deletion_uid)
    assert await content(database, "") == "derived"
    assert len(await everything(database, "main")) == 10
