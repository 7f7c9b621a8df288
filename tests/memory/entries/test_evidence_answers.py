"""Evidence as a caller of the tools meets it: what is kept, what is marked, and what an error says."""

import pytest
from sqlalchemy import text

from layerlore.conformance.seeing_all import see_all
from layerlore.storage.core.transaction import Tx

from ...server.tools.calling import Json, Tools
from ...server.tools.queueing import Queue

pytestmark = pytest.mark.anyio


async def entry_of(tools: Tools, query: str) -> Json:
    (entry,) = [hit for hit in await tools.hits(query) if hit.get("kind") == "entry"]
    return entry


async def test_a_name_that_is_not_in_the_quote_is_marked_wherever_the_entry_is_shown(tools: Tools) -> None:
    await tools.say("main", "I joined Bosch in May.")
    kept = await tools("remember", content="The user joined Siemens.", evidence="I joined Bosch", thread_id="main")
    assert (kept["status"], kept["unproven"]) == ("kept", ["Siemens"])
    assert (await entry_of(tools, "joined Siemens"))["unproven"] == ["Siemens"]
    assert "(not in the quote: Siemens)" in await tools("recall_memory", query="joined Siemens")
    assert "(not in the quote: Siemens)" in await tools("get_context", query="joined Siemens", thread_id="other")
    shown = await tools.client.read_resource(f"memory://entries/{kept['id']}")
    assert '"unproven":["Siemens"]' in shown.contents[0].text.replace(" ", "")  # type: ignore[union-attr]


@pytest.mark.parametrize("evidence", [["export fails", "token had expired"], '["export fails", "token had expired"]'])
async def test_evidence_may_be_a_list_of_quotations_of_several_messages(
    tools: Tools, evidence: list[str] | str
) -> None:
    await tools.say("main", "The export fails.", "Its token had expired.")
    content = "The export failed since its token had expired."
    await tools("remember", content=content, evidence=evidence, source="user_assertion", thread_id="main")
    assert [source["seq"] for source in (await entry_of(tools, "export token"))["sources"]] == [1, 2]
    error = await tools.refused(
        "remember", content=content, evidence=["export fails", "Does it?"], source="user_assertion", thread_id="main"
    )
    assert error.startswith("evidence[1]: stands word for word in none of the user messages")


async def test_without_evidence_the_answer_shows_the_sentence_that_was_found(tools: Tools) -> None:
    await tools.say("main", "Hi! My cat is called Mila and she is 3. How are you?")
    kept = await tools("remember", content="The user's cat is called Mila.", kind="preference", thread_id="main")
    assert kept["evidence"] == "My cat is called Mila and she is 3."
    assert (kept["source"], "kept_without_kind" in kept) == ("user_assertion", False)
    unsaid = await tools("remember", content="The user's dog is called Rex.", kind="preference", thread_id="main")
    assert (unsaid["source"], unsaid["kept_without_kind"]) == ("caller", "preference")


@pytest.mark.databases
async def test_no_text_of_a_message_or_an_entry_is_kept_with_the_answer(tools: Tools, queue: Queue) -> None:
    await tools.say("main", "My cat is called Mila and she is 3.")
    meta = {"layerlore/idempotency-key": "k1"}
    request = {"content": "The user's cat is called Mila, not Tom.", "evidence": "My cat is called Mila"}
    first = await tools("remember", **request, thread_id="main", meta=meta)
    assert first["unproven"] == ["Tom"]
    assert await tools("remember", **request, thread_id="main", meta=meta) == first

    async def read(tx: Tx) -> str:
        await see_all(tx)
        return str(await tx.all(text("SELECT answer FROM idempotency")))

    kept = await queue.database.write_installation(read)
    assert "kept" in kept
    assert "Tom" not in kept
