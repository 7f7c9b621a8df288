"""What was forgotten by mistake comes back by the calls that the answer names, as long as it is not erased."""

import ast
import re
from typing import Any

import pytest

from .calling import Connect, Tools

pytestmark = pytest.mark.anyio

PROFILE = "# Ana\n- gate code: 4711\n- likes tea\n"


def calls_in(answer: str) -> list[tuple[str, dict[str, Any]]]:
    """The calls that an answer names as what undoes it."""
    named = re.search(r"until then (.*) undoes it", answer)
    assert named, answer
    found = []
    for each in named[1].split("; "):
        call = ast.parse(each.replace("=true", "=True"), mode="eval").body
        assert isinstance(call, ast.Call)
        assert isinstance(call.func, ast.Name)
        found.append((call.func.id, {str(word.arg): ast.literal_eval(word.value) for word in call.keywords}))
    return found


async def undo(tools: Tools, answer: str) -> None:
    for name, arguments in calls_in(answer):
        await tools(name, **arguments)


async def test_an_entry_comes_back_with_its_evidence_and_is_found_again(tools: Tools) -> None:
    await tools.say("main", "My gate code is 4711.")
    proof = {"evidence": "gate code is 4711", "source": "user_assertion", "thread_id": "main"}
    kept = await tools("remember", content="Ana's gate code is 4711.", **proof)
    before = await tools("recall_memory", query="gate code", kinds=["entry"])
    answer = await tools("forget", ids=[kept["id"]])
    assert "4711" not in await tools("recall_memory", query="gate code", kinds=["entry"])
    await undo(tools, answer)
    assert await tools("recall_memory", query="gate code", kinds=["entry"]) == before
    # A second time changes nothing.
    assert await tools("forget", ids=[kept["id"]], undo=True) == "Brought back: 1 entry."


async def test_all_that_a_query_did_away_with_comes_back(tools: Tools) -> None:
    await tools.say("main", "My gate code is 4711.", "Tea, please.")
    await tools("remember", content="Ana's gate code is 4711.")
    await tools("update_working_memory", scope="resource", mode="replace", content=PROFILE)
    preview = await tools("forget", query="gate code")
    answer = await tools("forget", confirm=preview.partition('confirm="')[2].partition('"')[0])
    assert answer.startswith("Forgotten: 1 entry, 1 message, 1 line of a document.")
    await undo(tools, answer)
    found = await tools("recall_memory", query="gate code")
    assert "#1 user: My gate code is 4711." in found
    assert "Ana's gate code is 4711." in found
    assert "gate code: 4711" in str(await tools("get_working_memory", scope="resource"))


async def test_what_cannot_come_back_is_refused_and_nothing_comes(connect: Connect) -> None:
    async with connect() as tools:
        await tools.say("main", "My gate code is 4711.")
        proof = {"evidence": "gate code is 4711", "source": "user_assertion", "thread_id": "main"}
        kept = await tools("remember", content="Ana's gate code is 4711.", **proof)
        other = await tools("remember", content="Ana likes tea.")
        await tools("forget", ids=[kept["id"], other["id"]])
        await tools("delete_messages", which="all", thread_id="main")
        why = await tools.refused("forget", ids=[kept["id"], other["id"]], undo=True)
        assert kept["id"] in why
        assert other["id"] not in why
        assert "tea" not in await tools("recall_memory", query="What does Ana like?", kinds=["entry"])
        assert "give ids, too" in await tools.refused("forget", query="tea", undo=True)
    async with connect(retention={"deleted_days": 0}) as tools:
        kept = await tools("remember", content="Ana likes tea.")
        assert await tools("forget", ids=[kept["id"]]) == "Forgotten: 1 entry."
        assert "unknown or erased" in await tools.refused("forget", ids=[kept["id"]], undo=True)
