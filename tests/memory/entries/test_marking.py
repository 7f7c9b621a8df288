"""Notes that the user pinned, or marked as wrong: what every conversation is told of the ones, and none of the others."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from ...server.tools.calling import Connect, Json, Tools

pytestmark = pytest.mark.anyio

FACT = "The user is allergic to walnuts."
PROOF = {"thread_id": "kitchen", "evidence": "I am allergic to walnuts", "source": "user_assertion"}
OFF = "How long do eggs boil?"


@pytest.fixture
async def tools(connect: Connect) -> AsyncIterator[Tools]:
    """A client that has the tools of pages."""
    async with connect(pages=True, toolsets="all") as opened:
        yield opened


async def entries(tools: Tools, **request: Any) -> list[Json]:
    found: list[Json] = (await tools("explore_entries", **request))["entries"]
    return found


async def pin(tools: Tools, entry_id: str, pinned: bool = True) -> Json:
    answer: Json = await tools("mark_entry", entry_id=entry_id, pinned=pinned)
    return answer


async def mark_wrong(tools: Tools, entry_id: str, wrong: bool = True) -> Json:
    answer: Json = await tools("mark_entry", entry_id=entry_id, wrong=wrong)
    return answer


async def noted(tools: Tools, query: str = OFF, **request: Any) -> list[str]:
    """The lines of notes that a new conversation is told."""
    text: str = await tools("get_context", thread_id="new", **({"query": query} if query else {}), **request)
    return [line for line in text.splitlines() if line.startswith("- ")]


async def places(tools: Tools) -> dict[str, str]:
    """All that shows notes."""
    resource = await tools.client.read_resource("memory://entries")
    review = await tools.client.get_prompt("review_memory")
    return {
        "context": await tools("get_context", thread_id="new", query="What is the user allergic to?"),
        "unasked context": await tools("get_context", thread_id="new"),
        "briefing": await tools("get_briefing", task="Cook for the user, who may be allergic to walnuts."),
        "recall": await tools("recall_memory", query="allergic walnuts"),
        "list": json.dumps(await entries(tools)),
        "resource": resource.contents[0].text,  # type: ignore[union-attr]
        "review": "".join(message.content.text for message in review.messages),  # type: ignore[union-attr]
    }


@pytest.mark.databases
async def test_a_pinned_note_is_in_every_context_whatever_it_is_about_until_it_is_let_go(tools: Tools) -> None:
    kept = await tools("remember", content=FACT)
    await tools("remember", content="The user bakes bread on Sundays.")
    assert await noted(tools) == []
    pinned = await pin(tools, kept["id"])
    assert {**pinned, "undo": ""} == {"id": kept["id"], "pinned": True, "wrong": False, "undo": ""}
    assert await noted(tools) == [f"- [assistant] {FACT} (today)"]
    # The first of several, and the one that stays where there is little room.
    both = await noted(tools, "When does the user bake bread?")
    assert [FACT in line for line in both] == [True, False]
    assert FACT in "".join(await noted(tools, "", max_tokens=500))
    briefing = await tools("get_briefing", task=OFF)
    assert FACT in briefing
    assert [entry.get("pinned", False) for entry in await entries(tools)] == [False, True]
    assert "undo" not in await pin(tools, kept["id"]), "nothing changed"
    await pin(tools, kept["id"], False)
    assert await noted(tools) == []
    assert not [entry for entry in await entries(tools) if "pinned" in entry]


@pytest.mark.databases
async def test_a_note_that_is_marked_as_wrong_is_shown_nowhere_until_it_is_right_after_all(tools: Tools) -> None:
    kept = await tools("remember", content=FACT)
    before = await places(tools)
    assert [name for name, text in before.items() if FACT not in text] == []
    await mark_wrong(tools, kept["id"])
    assert [name for name, text in (await places(tools)).items() if FACT in text] == []
    (listed,) = await entries(tools, wrong=True)
    assert (listed["id"], listed["content"], listed["wrong"]) == (kept["id"], FACT, True)
    await mark_wrong(tools, kept["id"], False)
    assert await entries(tools, wrong=True) == []
    assert [name for name, text in (await places(tools)).items() if FACT not in text] == []


async def test_each_mark_is_listed_and_undone(tools: Tools) -> None:
    kept = await tools("remember", content=FACT)
    pinned = await pin(tools, kept["id"])
    wrong = await mark_wrong(tools, kept["id"])
    acts = [(act["tool"], act["what"]) for act in (await tools("undo"))["acts"]]
    assert acts == [
        ("mark_entry", "a note marked as wrong; a note no longer pinned"),
        ("mark_entry", "a note pinned"),
    ]
    assert (await tools("undo", undo_id=wrong["undo"]))["entries"] == 2
    assert await noted(tools) == [f"- [assistant] {FACT} (today)"], "it is pinned again, too"
    await tools("undo", undo_id=pinned["undo"])
    assert await noted(tools) == []
    let_go = await pin(tools, kept["id"])
    let_go = await pin(tools, kept["id"], False)
    await mark_wrong(tools, kept["id"])
    assert "marked as wrong, so it cannot be pinned" in await tools.refused("undo", undo_id=let_go["undo"])
    assert (await entries(tools, wrong=True))[0]["id"] == kept["id"]


async def test_nobody_but_the_user_says_again_what_is_wrong(tools: Tools) -> None:
    await tools.say("kitchen", "No, I am allergic to walnuts after all.")
    kept = await tools("remember", content=FACT)
    await mark_wrong(tools, kept["id"])
    for content in (FACT, "the user is  allergic to walnuts", "I am allergic to walnuts."):
        told = await tools.refused("remember", content=content)
        assert f"entry '{kept['id']}', which says this, is marked as wrong" in told
    # Another entry may be kept, however much it is like it.
    assert (await tools("remember", content="The user's mother is allergic to walnuts."))["status"] == "kept"
    assert (await tools("remember", content="The user is not allergic to walnuts."))["status"] == "kept"
    assert (await tools("remember", content=FACT, **PROOF))["status"] == "refreshed"
    assert await entries(tools, wrong=True) == []
    assert FACT in await tools("recall_memory", query="allergic walnuts")
    # Then others say it, too.
    assert (await tools("remember", content=FACT))["status"] == "refreshed"


async def test_a_correction_of_a_pinned_note_is_pinned_and_gives_the_pin_back(tools: Tools) -> None:
    old = await tools("remember", content=FACT)
    other = await tools("remember", content="The user is allergic to peanuts.")
    await pin(tools, old["id"])
    told = await tools("remember", content="The user is allergic to cashews.", replaces=old["id"])
    assert await noted(tools) == ["- [assistant] The user is allergic to cashews. (today)"]
    await tools("undo", undo_id=told["undo"])
    assert await noted(tools) == [f"- [assistant] {FACT} (today)"]
    # One that was there before has the pin as long as the correction stands.
    told = await tools("remember", content="The user is allergic to peanuts.", replaces=old["id"])
    assert told["id"] == other["id"]
    assert await noted(tools) == ["- [assistant] The user is allergic to peanuts. (today)"]
    await tools("undo", undo_id=told["undo"])
    assert await noted(tools) == [f"- [assistant] {FACT} (today)"]


async def test_what_was_forgotten_and_is_said_again_is_not_pinned(tools: Tools) -> None:
    kept = await tools("remember", content=FACT)
    await pin(tools, kept["id"])
    await tools("forget", ids=[kept["id"]])
    await tools("remember", content=FACT)
    assert await noted(tools) == []


@pytest.mark.databases
async def test_marks_go_with_what_they_rest_on(tools: Tools) -> None:
    await tools.say("kitchen", "I am allergic to walnuts, and I like tea.")
    kept = await tools("remember", content=FACT, **PROOF)
    tea = {**PROOF, "evidence": "I like tea"}
    liked = await tools("remember", content="The user likes tea.", **tea)
    await mark_wrong(tools, kept["id"])
    await pin(tools, liked["id"])
    deleted = await tools("delete_thread", thread_id="kitchen")
    assert (await entries(tools, wrong=True), await noted(tools)) == ([], [])
    assert "there is no entry" in await tools.refused("mark_entry", entry_id=kept["id"], wrong=False)
    await tools("undo", undo_id=deleted["undo"])
    assert [entry["id"] for entry in await entries(tools, wrong=True)] == [kept["id"]]
    assert await noted(tools) == ["- The user likes tea. (today)"]
    confirm = (await tools("erase_memory"))["confirm"]
    await tools("erase_memory", dry_run=False, confirm=confirm)
    assert (await entries(tools, wrong=True), await noted(tools)) == ([], [])
    assert (await tools("remember", content=FACT))["status"] == "kept", "nothing is left of the mark"


async def test_in_a_project_the_person_s_notes_are_marked_as_its_own_are(connect: Connect) -> None:
    async with connect(pages=True, project="shop") as tools:
        mine = await tools("remember", content=FACT, about="user")
        its = await tools("remember", content="The shop is deployed with Kamal.", about="project")
        await pin(tools, mine["id"])
        await mark_wrong(tools, its["id"])
        (listed,) = await entries(tools, wrong=True)
        assert (listed["id"], listed["whose"]) == (its["id"], "project")
    async with connect(pages=True, project="zoo") as tools:
        assert await noted(tools) == [f"- [you] [assistant] {FACT} (today)"]
        assert await entries(tools, wrong=True) == []
        told = await mark_wrong(tools, mine["id"])
        (listed,) = await entries(tools, wrong=True)
        assert (listed["id"], listed["whose"]) == (mine["id"], "you")
        await tools("undo", undo_id=told["undo"])
        assert await noted(tools) == [f"- [you] [assistant] {FACT} (today)"]


async def test_what_makes_no_sense_is_refused(tools: Tools) -> None:
    kept = await tools("remember", content=FACT)
    assert "give at least one" in await tools.refused("mark_entry", entry_id=kept["id"])
    assert "cannot be pinned" in await tools.refused("mark_entry", entry_id=kept["id"], pinned=True, wrong=True)
    assert "there is no entry 'e1'" in await tools.refused("mark_entry", entry_id="e1", pinned=True)
    await mark_wrong(tools, kept["id"])
    assert "cannot be pinned" in await tools.refused("mark_entry", entry_id=kept["id"], pinned=True)
    assert "at once" in await tools.refused("explore_entries", wrong=True, query="walnuts")


async def test_a_model_is_not_listed_the_mark(connect: Connect) -> None:
    async with connect(toolsets="all") as tools:
        kept = await tools("remember", content=FACT)
        assert "there is no tool 'mark_entry'" in await tools.unknown("mark_entry", entry_id=kept["id"], pinned=True)
