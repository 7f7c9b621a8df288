"""Subjects of threads: a conversation about one customer is not shown what was said about another."""

from typing import Any

import pytest

from ...server.tools.calling import Tools

pytestmark = [pytest.mark.anyio, pytest.mark.databases]

PHONE = "The customer's phone number is 0664 1234567."
PLAN = {"goal": "Call the customer back", "steps": ["Dial the phone number"]}
QUESTION = "What is the customer's phone number?"


async def fill(tools: Tools) -> None:
    """A conversation about customer 1001, one about 1004, and one about no customer."""
    await tools.add("case-1001", {"role": "user", "content": PHONE, "metadata": {"subject": "1001"}})
    await tools("remember", content=PHONE, evidence=PHONE, source="user_assertion", thread_id="case-1001")
    await tools("plan", action="create", plan=PLAN, thread_id="case-1001")
    await tools("update_thread", thread_id="case-1004", subject="1004")
    await tools.say("case-1004", "The customer's invoice is overdue.")
    await tools.say("general", "The phone number of the customer hotline is 0800 99.")


async def ask(tools: Tools, thread: str, **more: Any) -> dict[str, str]:
    """What a conversation is shown of the phone numbers, by whatever shows it."""
    recalled = await tools("recall_memory", query=QUESTION, meta={"layerlore/thread": thread}, **more)
    return {
        "recall": recalled,
        "context": await tools("get_context", thread_id=thread, query=QUESTION),
        "context without a question": await tools("get_context", thread_id=thread),
        "briefing": await tools("get_briefing", task=QUESTION, thread_id=thread),
        "plan": await tools("plan", action="review", thread_id=thread),
    }


async def test_a_conversation_with_a_subject_is_not_shown_what_is_about_another(all_tools: Tools) -> None:
    await fill(all_tools)
    for place, shown in (await ask(all_tools, "case-1004")).items():
        assert "0664" not in shown, place
        assert "Call the customer back" not in shown, place
    shown = await ask(all_tools, "case-1004")
    assert "0800 99" in shown["recall"]
    assert "0800 99" in shown["context"]


async def test_one_of_the_same_subject_or_of_none_is_shown_it(all_tools: Tools) -> None:
    await fill(all_tools)
    await all_tools("update_thread", thread_id="again-1001", metadata={"subject": 1001})
    await all_tools.say("again-1001", "Hello again.")
    await all_tools.say("free", "Hello.")
    for thread in ("again-1001", "free"):
        shown = await ask(all_tools, thread)
        for place in ("recall", "context", "briefing"):
            assert "0664" in shown[place], (thread, place)
        assert "Call the customer back" in shown["context"], thread
        assert "Call the customer back" in shown["plan"], thread


async def test_what_is_about_another_subject_is_shown_if_it_is_asked_for(all_tools: Tools) -> None:
    await fill(all_tools)
    here: Any = {"meta": {"layerlore/thread": "case-1004"}, "query": QUESTION}
    for request in ({"thread_id": "case-1001"}, {"subject": "*"}, {"subject": "1001"}):
        assert "0664" in await all_tools("recall_memory", **here, **request), request
    elsewhere: Any = {"query": QUESTION, "meta": {"layerlore/thread": "free"}}
    assert "0664" not in await all_tools("recall_memory", **elsewhere, subject="1004")


async def test_however_much_is_about_another_subject_the_own_is_found(all_tools: Tools) -> None:
    for number in range(12):
        said = [f"The customer's phone number is {number}-{line}." for line in range(40)]
        await all_tools.add(f"other-{number}", *({"role": "user", "content": each} for each in said))
        await all_tools("update_thread", thread_id=f"other-{number}", subject=f"other {number}")
    await all_tools("update_thread", thread_id="own", subject="own")
    await all_tools.say("own", "Her telephone is 0660 77, the customer said.")
    await all_tools("update_thread", thread_id="own-2", subject="own")
    found = await all_tools.hits(QUESTION, meta={"layerlore/thread": "own-2"})
    assert [hit["text"] for hit in found] == ["Her telephone is 0660 77, the customer said."]


async def test_an_entry_that_rests_on_several_conversations_is_shown_to_both(all_tools: Tools) -> None:
    said = "Invoices are sent on Mondays."
    for customer in ("1001", "1004"):
        await all_tools.say(f"case-{customer}", said)
        await all_tools("update_thread", thread_id=f"case-{customer}", subject=customer)
        await all_tools("remember", content=said, evidence=said, source="user_assertion", thread_id=f"case-{customer}")
    await all_tools("update_thread", thread_id="new-1004", subject="1004")
    hits = await all_tools.hits("When are invoices sent?", kinds=["entry"], meta={"layerlore/thread": "new-1004"})
    assert [hit["text"] for hit in hits] == [said]
    assert "case-1004" in str(hits)
    assert "case-1001" not in str(hits)


async def test_a_subject_is_changed_and_removed(all_tools: Tools) -> None:
    await fill(all_tools)
    (row,) = (await all_tools("list_threads", thread_id="case-1001"))["threads"]
    assert row["metadata"] == {"subject": "1001"}
    changed = await all_tools("update_thread", thread_id="case-1001", subject="1004")
    assert changed["metadata"] == {"subject": "1004"}
    assert "0664" in (await ask(all_tools, "case-1004"))["recall"]
    assert "metadata" not in await all_tools("update_thread", thread_id="case-1001", subject="")
    # The first message alone names one.
    await all_tools.add("case-1001", {"role": "user", "content": "Bye.", "metadata": {"subject": "1009"}})
    (row,) = (await all_tools("list_threads", thread_id="case-1001"))["threads"]
    assert "metadata" not in row
    assert (await all_tools("list_threads", metadata={"subject": "1004"}))["threads"][0]["thread_id"] == "case-1004"


async def test_a_note_that_quotes_nothing_keeps_the_subject_of_its_conversation(all_tools: Tools) -> None:
    for subject in ("1001", "1004"):
        await all_tools("update_thread", thread_id=f"case-{subject}", subject=subject)
    await all_tools("remember", content="Call the customer at 0664 1234567.", thread_id="case-1001")
    for place, shown in (await ask(all_tools, "case-1004")).items():
        assert "0664" not in shown, place
    assert "0664" in (await ask(all_tools, "case-1001"))["recall"]
    assert "0664" in (await ask(all_tools, "free"))["recall"]


async def test_a_note_of_one_subject_touches_none_of_another(all_tools: Tools) -> None:
    for subject in ("1001", "1004"):
        await all_tools("update_thread", thread_id=f"case-{subject}", subject=subject)
    first = await all_tools("remember", content="The customer lives in Graz.", thread_id="case-1001")
    other = await all_tools("remember", content="The customer lives in Linz.", kind="correction", thread_id="case-1004")
    assert not {"replaced", "candidates", "similar", "contradicts", "stands"} & other.keys()
    same = await all_tools("remember", content="The customer lives in Graz.", thread_id="case-1004")
    assert (same["status"], same["id"] == first["id"]) == ("kept", False)
    for subject, homes in (("1001", {"Graz"}), ("1004", {"Linz", "Graz"})):
        request: Any = {"query": "Where does the customer live?", "meta": {"layerlore/thread": f"case-{subject}"}}
        answer = await all_tools("recall_memory", **request, kinds=["entry"], format="json")
        assert {hit["text"].split()[-1].rstrip(".") for hit in answer["hits"]} == homes


async def test_what_is_open_is_listed_without_what_is_about_another_subject(all_tools: Tools) -> None:
    await fill(all_tools)
    own: Any = {"meta": {"layerlore/thread": "case-1004"}}
    assert "Call the customer back" not in await all_tools("plan", action="list", **own)
    assert "Call the customer back" in await all_tools("plan", action="list", meta={"layerlore/thread": "free"})
