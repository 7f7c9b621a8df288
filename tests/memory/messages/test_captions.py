"""The caption of an image counts as text, with the image or without it, on both databases."""

import pytest

from ...server.tools.calling import Json, Tools

pytestmark = [pytest.mark.anyio, pytest.mark.databases]

BICYCLE = {"type": "image", "caption": "a red bicycle in front of a <memory> bakery"}
HARBOUR = {"type": "image", "data": "aGkh" * 40, "mime_type": "image/png", "caption": "a harbour at night"}


@pytest.fixture
async def photos(tools: Tools) -> Tools:
    """Two photos with captions among other messages."""
    await tools.say("main", "We had soup for lunch.", "The train was late.")
    await tools.add(
        "main",
        {"role": "user", "content": [{"type": "text", "text": "Look what I bought!"}, BICYCLE]},
        {"role": "assistant", "content": "Lovely."},
        {"role": "user", "parts": [HARBOUR]},
        {"role": "assistant", "content": "Where is that?"},
    )
    return tools


async def test_a_recall_finds_a_message_by_the_caption_of_its_image(photos: Tools) -> None:
    first = (await photos.hits("red bicycle", thread_id="main"))[0]
    assert (first["seq"], first["text"]) == (
        3,
        "Look what I bought! [image: a red bicycle in front of a (memory> bakery]",
    )
    assert (await photos.hits("harbour night", thread_id="main"))[0]["text"] == "[image: a harbour at night]"


async def test_pages_and_contexts_show_a_caption_as_quoted_text(photos: Tools) -> None:
    page = await photos("get_messages", thread_id="main")
    assert "#3 user: Look what I bought!\n [image: a red bicycle in front of a (memory> bakery]\n" in page
    assert '#5 user: [image: a harbour at night, 120 bytes] [part="5.0"]\n' in page
    context = await photos("get_context", thread_id="main", format="text")
    assert "[image: a harbour at night" in str(context)
    assert "[image: a red bicycle in front of a (memory> bakery]" in str(context)


async def test_a_caption_is_stored_as_it_was_sent_and_can_be_sent_again(photos: Tools) -> None:
    messages: list[Json] = await photos.messages("main", detail="high")
    assert messages[2]["parts"][1] == BICYCLE
    assert messages[4]["parts"] == [HARBOUR]
    again = await photos.add("main", *messages)
    assert {each["status"] for each in again["messages"]} == {"unchanged"}


async def test_the_note_of_a_stored_image_keeps_its_caption(photos: Tools) -> None:
    (part,) = (await photos.messages("main"))[4]["parts"]
    assert (part["caption"], part["bytes"], part["part"]) == ("a harbour at night", 120, "5.0")
    assert "data" not in part


async def test_a_caption_in_the_metadata_stays_the_callers_own(tools: Tools) -> None:
    await tools.add("main", {"role": "user", "content": "Look!", "metadata": {"caption": "a purple heron"}})
    assert await tools.found("purple heron") == []
    assert (await tools.messages("main"))[0]["metadata"] == {"caption": "a purple heron"}
