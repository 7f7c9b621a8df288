"""Session memory that the conversation has passed: the newer lines below it, and the marks on the lines that they deny."""

import re

import pytest

from ...server.tools.calling import Connect, Tools
from ...server.tools.documents import MAIN, content, get, update

pytestmark = pytest.mark.anyio

VENUE = "Venue: the old mill\n- Pay by card.\n- Launch: 1 December 2026"
TURNS = (
    "No, invoice only, please.",
    "The launch is on 8 December now.",
    "Correction: the launch is on 8 December, not 1 December.",
)


def lines_of(text: str) -> list[str]:
    """The lines of the session memory in a text, without dates."""
    block = re.search(r"<session-memory>.*?<value>\n(.*?)\n</value>", text, re.DOTALL)
    assert block is not None, text
    return re.sub(r"\d{4}-\d\d-\d\d", "DAY", block[1]).split("\n")


async def answered(tools: Tools, said: str) -> None:
    await tools.add("main", {"role": "user", "content": said}, {"role": "assistant", "content": "I see."})


async def shown_everywhere(tools: Tools) -> list[list[str]]:
    """The lines of session memory in the answer of each tool and resource that shows it."""
    resource = await tools.client.read_resource("memory://threads/main/session-memory", cache_mode="bypass")
    resumed = await tools.client.get_prompt("resume_work", {"thread_id": "main"})
    return [
        lines_of(await tools("get_working_memory", **MAIN)),
        lines_of(await tools("get_context", **MAIN)),
        lines_of(resource.contents[0].text),  # type: ignore[union-attr]
        lines_of("\n".join(message.content.text for message in resumed.messages)),  # type: ignore[union-attr]
    ]


@pytest.mark.databases
async def test_what_the_user_corrects_stands_beside_the_line_that_it_denies_or_below_the_document(tools: Tools) -> None:
    await answered(tools, "We need a venue.")
    await update(tools, VENUE, **MAIN)
    for said in TURNS:
        await answered(tools, said)
    expected = [
        "Venue: the old mill",
        "- Pay by card.",
        f"- Launch: 1 December 2026 (newer, DAY: {TURNS[2]})",
        "",
        "Newer than this document:",
        f"- DAY, #3 user: {TURNS[0]}",
        f"- DAY, #5 user: {TURNS[1]}",
    ]
    for shown in await shown_everywhere(tools):
        assert shown == expected
    assert await content(tools, **MAIN) == VENUE


async def test_a_document_that_was_changed_after_the_correction_has_no_newer_lines(tools: Tools) -> None:
    await update(tools, VENUE, **MAIN)
    await answered(tools, TURNS[2])
    await update(tools, "Launch: 8 December", **MAIN)
    assert lines_of(await tools("get_working_memory", **MAIN)) == ["Launch: 8 December"]


async def test_questions_thanks_and_the_words_of_assistants_and_tools_are_not_newer_than_the_document(
    tools: Tools,
) -> None:
    await update(tools, VENUE, **MAIN)
    await answered(tools, "Is the launch on 8 December?")
    await answered(tools, "Thanks!")
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    await tools.add("main", {"role": "assistant", "content": "The launch is on 9 December.", "tool_calls": [call]})
    await tools.add("main", {"role": "tool", "tool_call_id": "c", "content": "The launch is on 10 December."})
    for shown in await shown_everywhere(tools):
        assert shown == VENUE.split("\n")


async def test_an_earlier_version_is_shown_as_it_was(tools: Tools) -> None:
    await update(tools, VENUE, **MAIN)
    await update(tools, "Launch: 8 December", **MAIN)
    await answered(tools, "Correction: we open on 9 December, not 8 December.")
    assert lines_of(await tools("get_working_memory", version=1, **MAIN)) == VENUE.split("\n")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("Launch: 8 December (was 1 December)", "Correction: we open on 8 December, not 1 December."),
        ("Ana opens on 1 March.", "Correction: we open on 8 December, not 1 December."),
        ("The budget is 500 euros.", "The budget for food is 200 euros."),
        ("Ana arrives on 1 December.\nWe open on 1 December.", "No, 8 December, not 1 December."),
        ("Ana arrives on 1 December.", "Correction: we open on 8 December, not 1 December."),
        ("Ana likes tea.", "I like coffee, not tea."),
        ("The launch needs a permit.", "No, the launch is fun."),
    ],
)
async def test_a_line_that_the_user_does_not_deny_has_no_mark(tools: Tools, line: str, said: str) -> None:
    await update(tools, line, **MAIN)
    await answered(tools, said)
    assert "(newer, " not in await tools("get_working_memory", **MAIN)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("The launch is on 1 December.", "The launch is on 8 December now."),
        ("- Deadline: 1 December 2026", "The deadline is 8 December."),
        ("Facts: Deadline: 1 December", "The deadline is 8 December."),
        ("Tea at four. Launch on 1 December at noon.", "No, 8 December, not 1 December."),
        ("1. We pay by card.", "We pay by invoice, not by card."),
        ("Der Start ist am 1. Dezember.", "Der Start ist jetzt am 8. Dezember statt am 1. Dezember."),
        ("Ana eats meat.", "Ana does not eat meat."),
    ],
)
async def test_a_line_that_the_user_denies_has_a_mark(tools: Tools, line: str, said: str) -> None:
    await update(tools, line, **MAIN)
    await answered(tools, said)
    (shown,) = lines_of(await tools("get_working_memory", **MAIN))
    assert shown == f"{line} (newer, DAY: {said})"


@pytest.mark.databases
async def test_a_denied_line_that_is_recalled_in_another_conversation_has_the_mark(tools: Tools) -> None:
    await update(tools, "# Facts\n- Launch of the old mill: 1 December", **MAIN)
    await answered(tools, "No, 8 December, not 1 December.")
    mark = re.compile(r"Launch of the old mill: 1 December \(newer, \S+: No, 8 December, not 1 December\.\)")
    assert mark.search(await tools("recall_memory", query="launch of the old mill"))
    await tools.say("other", "When is the launch of the old mill?")
    assert mark.search(await tools("get_context", thread_id="other"))
    (hit,) = [hit for hit in await tools.hits("launch of the old mill") if hit["kind"] == "session_memory"]
    assert hit["newer"].endswith(": No, 8 December, not 1 December.")


async def test_a_json_document_stays_readable_and_its_newer_lines_stand_below(connect: Connect) -> None:
    async with connect(working_memory={"thread": {"format": "json"}}) as tools:
        await update(tools, {"launch": "1 December", "pay": "card"}, **MAIN)
        await answered(tools, "The launch is 8 December.")
        assert lines_of(await tools("get_working_memory", **MAIN)) == [
            *("{", '  "launch": "1 December",', '  "pay": "card"', "}", ""),
            *("Newer than this document:", "- DAY, #1 user: The launch is 8 December."),
        ]
        (newer,) = (await get(tools, **MAIN))["newer"]
        assert (newer["by"], newer["denies"]) == ("#1 user", "launch: 1 December")


async def test_a_deleted_message_is_shown_no_more(tools: Tools) -> None:
    await update(tools, VENUE, **MAIN)
    added = await tools.say("main", TURNS[2])
    await tools("delete_messages", thread_id="main", which="ids", ids=[added["messages"][0]["id"]])
    assert lines_of(await tools("get_working_memory", **MAIN)) == VENUE.split("\n")


async def test_with_little_room_the_document_is_cut_and_the_newer_lines_stay(tools: Tools) -> None:
    await update(tools, "\n".join(f"Room {number} is painted." for number in range(200)), **MAIN)
    await answered(tools, TURNS[0])
    text = await tools("get_context", max_tokens=800, **MAIN)
    shown = lines_of(text)
    assert shown[0] == "Room 0 is painted."
    assert shown[-1] == f"- DAY, #1 user: {TURNS[0]}"


async def test_more_room_never_shows_less_of_a_document_and_of_what_is_newer(tools: Tools) -> None:
    await update(tools, " ".join(f"word{number}" for number in range(300)), **MAIN)
    await answered(tools, TURNS[0])
    before: set[str] = set()
    for most in range(500, 3000, 100):
        block = re.search(
            r"<session-memory>.*?</session-memory>", await tools("get_context", max_tokens=most, **MAIN), re.DOTALL
        )
        shown = set(re.findall(r"\bword\d+\b|invoice", block[0] if block else ""))
        assert before <= shown
        before = shown
    assert len(before) == 301
