"""Entries that contradict each other are both shown, the newer first, until one takes the other's place."""

import pytest

from layerlore.memory.parts.tokens import load_counter
from layerlore.memory.recall.recall import RecallRequest, recall
from layerlore.memory.recall.recall_text import render_text

from ..entry_memory import ANA, DAY, NOW, Memory

pytestmark = pytest.mark.anyio


async def test_both_are_shown_with_their_days_and_marked_until_the_old_one_is_superseded(
    memory: Memory,
) -> None:
    await memory.say("main", "I live in Graz.")
    old = await memory.remember("Ana lives in Graz.", evidence="I live in Graz", source="user_assertion")
    memory.now += 3 * DAY
    new = await memory.remember("Ana lives in Linz.")
    assert (new["status"], new["contradicts"]) == ("kept", [old["id"]])
    assert "replaces=ID" in new["note"]
    for query in ("Where does Ana live?", "Graz", "Linz"):
        lines = (await _recalled(memory, query)).splitlines()
        (older,) = [line for line in lines if line.endswith("Ana lives in Graz.")]
        (newer,) = [line for line in lines if line.endswith("Ana lives in Linz.")]
        assert "a newer entry says otherwise" in older
        assert "newer than what says otherwise" in newer
    assert await memory.block("Graz") == [
        "- [assistant] Ana lives in Linz. (2025-06-18; newer than what says otherwise)",
        "- Ana lives in Graz. (2025-06-15; a newer entry says otherwise)",
    ]
    await memory.say("main", "I live in Linz now.")
    memory.now += 1
    told = await memory.remember(
        "Ana lives in Linz.", evidence="I live in Linz now", source="user_assertion", kind="correction"
    )
    assert told["replaced"] == [{"id": old["id"], "content": "Ana lives in Graz."}]
    assert await memory.block("Linz") == ["- Ana lives in Linz. (today)"]


async def test_forgetting_the_old_one_takes_along_no_newer_one(memory: Memory) -> None:
    await memory.remember("Ana lives in Graz.")
    memory.now += DAY
    await memory.remember("Ana lives in Linz.")
    preview = await memory.forget(query="Graz")
    assert "Graz" in preview
    assert "Linz" not in preview


async def test_what_was_said_earlier_is_the_older_one_whenever_it_is_kept(memory: Memory) -> None:
    await memory.say("main", "I live in Graz.")
    memory.now += DAY
    await memory.remember("Ana lives in Linz.")
    memory.now += DAY
    await memory.remember("Ana lives in Graz.", evidence="I live in Graz", source="user_assertion")
    assert [line.split(" (")[0] for line in await memory.block("Graz")] == [
        "- [assistant] Ana lives in Linz.",
        "- Ana lives in Graz.",
    ]


async def test_a_recall_says_what_an_entry_quotes_where_and_as_what(memory: Memory) -> None:
    await memory.say("main", "My gate code is 4711, please keep it.")
    await memory.say("main", "The lock of the gate was jammed.", role="assistant")
    await memory.remember("Ana's gate code is 4711.", evidence="gate code is 4711", source="user_assertion")
    await memory.remember(
        "The lock of the gate was jammed.", evidence="lock of the gate was jammed", source="verified_assistant_finding"
    )
    shown = await _recalled(memory, "gate", kinds=("entry",))
    assert 'user\'s words in thread main #1: "gate code is 4711"]' in shown
    assert 'assistant\'s words in thread main #2 (found): "lock of the gate was jammed"]' in shown


async def test_a_correction_without_evidence_says_that_what_a_user_said_stands(memory: Memory) -> None:
    await memory.say("main", "I live in Graz, near the river.")
    old = await memory.remember("Ana lives in Graz.", evidence="I live in Graz", source="user_assertion")
    memory.now += 1
    new = await memory.remember("Ana lives in Linz.", kind="correction")
    assert new["stands"] == [old["id"]]
    assert "replaced" not in new
    assert "stands" in new["note"]
    assert 'source="user_assertion"' in new["note"]
    assert len(await memory.block("Where does Ana live?")) == 2


async def _recalled(memory: Memory, query: str, **given: object) -> str:
    found = await recall(memory.engine, ANA, RecallRequest([query], **given))  # type: ignore[arg-type]
    return render_text(found, load_counter(), now=NOW, detail="low", max_tokens=1500)
