"""forget: by id, or by what a preview showed, on both databases."""

import re

import pytest

from layerlore.memory.documents import working_memory
from layerlore.memory.removal import deletion, forget_requests
from layerlore.storage.core.errors import InvalidInput, NotFound
from layerlore.storage.core.records import Scope
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import observations
from layerlore.storage.derived.observations import NewObservation
from layerlore.storage.threads import threads

from ..entry_memory import ANA, BEN, DAY, NOW, Memory

pytestmark = pytest.mark.anyio


async def test_forgetting_by_id_hides_at_once_and_erases_when_its_time_has_come(memory: Memory) -> None:
    kept, other = await memory.remember("The gate code is 4711."), await memory.remember("The gate is green.")
    with pytest.raises(NotFound, match="nothing was forgotten"):
        await memory.forget(kept["id"], "unknown")
    assert (await memory.forget(kept["id"])).startswith("Forgotten: 1 entry. Erased for good after 2025-07-15")
    assert await memory.found("gate") == ["The gate is green."]
    assert (await memory.remember("The gate code is 4711."))["status"] == "refreshed"
    await memory.forget(kept["id"])
    memory.now += 31 * DAY
    assert await deletion.erase_expired(memory.engine) == 1
    assert (await memory.remember("The gate code is 4711."))["id"] not in (kept["id"], other["id"])


async def _note(memory: Memory, thread_id: str, *texts: str) -> None:
    async def write(tx: Tx, scope: Scope) -> None:
        thread = await threads.lock(tx, ANA, thread_id)
        made = [NewObservation("info", text, NOW, None, 1, 1, 5, "user", 1) for text in texts]
        await observations.add(tx, ANA, thread.thread_uid, made, status="active", model="m", prompt="p", now=NOW)

    await memory.engine.database.write(write, ANA)


async def test_a_query_previews_and_its_token_does_away_with_exactly_that(memory: Memory) -> None:
    await memory.say("main", "My gate code is 4711.", "Tea, please.")
    await memory.say("other", "The gate code again: 4711")
    await _note(memory, "other", "Ana gave her gate code", "Ana likes tea")
    entry = await memory.remember("Ana's gate code is 4711.", thread="")
    await memory.remember("Ana likes tea.")
    profile = "# Ana\n- gate code: 4711\n- likes tea\n"
    await working_memory.update_document(
        memory.engine, ANA, "resource", "", profile, mode="replace", expected_version=None, sent=memory.sent()
    )
    preview = await memory.forget(query="gate code")
    assert f"- entry {entry['id']}: Ana's gate code is 4711." in preview
    assert "- message #1 of thread main, user, " in preview
    assert "- message #1 of thread other, user, " in preview
    assert "- observation of thread other: Ana gave her gate code" in preview
    assert "- line of the user profile: - gate code: 4711" in preview
    assert "ikes tea" not in preview
    assert {"Ana's gate code is 4711.", "My gate code is 4711."} < set(await memory.found("gate code", limit=20))
    token = preview.partition('confirm="')[2].partition('"')[0]
    await memory.say("main", "The gate code was changed to 1234.")
    told = await memory.forget(confirm=token)
    assert told.startswith(
        "Forgotten: 1 entry, 2 messages, 1 observation, 1 line of a document. Erased for good after 2025-07-15"
    )
    left = await memory.found("gate code", limit=20)
    assert left[0] == "The gate code was changed to 1234."
    assert not [text for text in left if "4711" in text]
    document = await working_memory.read_current(memory.engine, ANA, "resource")
    assert document.content == "# Ana\n- likes tea\n"
    assert await memory.forget(confirm=token) == "Nothing was left to forget."
    memory.now += 31 * DAY
    await deletion.erase_expired(memory.engine)
    _, kept = await working_memory.read_document(memory.engine, ANA, "resource", "", version=0)
    assert [version.version for version in kept.versions] == [3, 2]


async def test_a_preview_says_how_much_it_does_not_reach_and_the_next_one_reaches_it(memory: Memory) -> None:
    for number in range(6):
        await memory.say("fleet", *(f"The zeppelin {number}{each} flies." for each in range(10)))
    preview = await memory.forget(query="zeppelin")
    assert "- about it too, and not forgotten with these: 10 more; forget the same again afterwards" in preview
    token = preview.partition('confirm="')[2].partition('"')[0]
    assert (await memory.forget(confirm=token)).startswith("Forgotten: 50 messages.")
    preview = await memory.forget(query="zeppelin")
    assert preview.count("- message #") == 10
    assert "afterwards" not in preview


async def test_observations_alone_are_forgotten_without_a_call_that_would_undo_it(memory: Memory) -> None:
    await memory.say("other", "Four digits, as ever.")
    await _note(memory, "other", "Ana gave her gate code")
    token = (await memory.forget(query="gate code")).partition('confirm="')[2].partition('"')[0]
    told = await memory.forget(confirm=token)
    assert re.fullmatch(
        r"Forgotten: 1 observation\. Erased for good after \S+Z\. Observations are made anew, if at all\.", told
    )


async def test_a_token_that_no_preview_gave_is_refused(memory: Memory) -> None:
    await memory.say("main", "My gate code is 4711.")
    token = (await memory.forget(query="gate code")).partition('confirm="')[2].partition('"')[0]
    with pytest.raises(NotFound, match="no preview gave 'nothing'"):
        await memory.forget(confirm="nothing")
    elsewhere = forget_requests.forget(memory.engine, BEN, ids=[], query="", confirm=token, sent=memory.sent("forget"))
    with pytest.raises(NotFound):
        await elsewhere
    assert await memory.forget(query="submarine") == "Nothing that is remembered is about this; nothing to forget."
    for given in ({}, {"query": "x", "confirm": "y"}):
        with pytest.raises(InvalidInput, match="give one of"):
            await memory.forget(**given)
