"""A message that an entry repeats takes no room beside it."""

import pytest

from ...server.tools.calling import Tools

pytestmark = pytest.mark.anyio

SAID = "I'm allergic to peanuts and sesame."


async def _remember(tools: Tools) -> None:
    await tools.say("kitchen", SAID, "Please cook for six people on Friday.")
    await tools("remember", thread_id="kitchen", content="The user is allergic to peanuts and sesame.", quote=SAID)


async def test_a_message_that_an_entry_repeats_is_shown_once(tools: Tools) -> None:
    await _remember(tools)
    context = await tools("get_context", thread_id="new", query="What am I allergic to?")
    assert "The user is allergic to peanuts and sesame." in context
    assert SAID not in context


async def test_a_message_that_says_more_than_an_entry_is_shown(tools: Tools) -> None:
    await _remember(tools)
    longer = "I'm allergic to peanuts and sesame, and my sister Ines is allergic to shrimps."
    await tools.say("dinner", longer)
    context = await tools("get_context", thread_id="new", query="What am I allergic to?")
    assert longer in context


async def test_a_correction_is_shown_beside_the_note_that_an_assistant_made_of_it(tools: Tools) -> None:
    corrected = "No, it's Tuesday, the dentist. 15 December."
    await tools.say("teeth", "My dentist appointment is on Monday, 14 December.", corrected)
    note = (
        "The dentist appointment is on Tuesday, 15 December, and no other day; it's no longer on Monday, 14 December."
    )
    await tools("remember", thread_id="teeth", content=note)
    context = await tools("get_context", thread_id="new", query="When is my dentist appointment?")
    assert note in context
    assert corrected in context


async def test_recall_shows_the_message_beside_the_entry(tools: Tools) -> None:
    await _remember(tools)
    assert SAID in await tools("recall_memory", query="What am I allergic to?")
