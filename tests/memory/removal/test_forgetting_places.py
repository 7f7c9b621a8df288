"""Places that forget leaves as they are: the preview and the answer name them, with what changes each."""

import pytest

from ...server.tools.calling import Tools

pytestmark = [pytest.mark.anyio, pytest.mark.databases]

MAIN = {"thread_id": "main"}


async def test_places_that_stay_are_named_with_what_changes_them(all_tools: Tools) -> None:
    tools = all_tools
    await tools.say("main", "The depot code is 4471.", "Tea, please.")
    await tools.say("side", "Hello.")
    steps = [{"description": "Enter the depot code"}, {"description": "Call Petra"}]
    await tools("plan", action="create", plan={"goal": "Deliver", "steps": steps}, **MAIN)
    await tools("update_thread", title="The depot code", metadata={"note": "depot code 4471"}, **MAIN)
    await tools("update_thread", title="Tea", thread_id="side")
    await tools("log_attempt", task_key="d", action="Tried the depot code", result="failure", error="no", **MAIN)
    await tools("suspend_run", run_id="r", state={"at": "the depot code"}, reason="Waiting", **MAIN)
    preview = await tools("forget", query="the depot code")
    for line in (
        "- stays, though about it: title of thread main: The depot code (update_thread changes it)",
        "- stays, though about it: metadata of thread main: note: depot code 4471 (update_thread changes it)",
        "- stays, though about it: plan of thread main: steps.0.description: Enter the depot code (plan changes it",
        "- stays, though about it: attempt of thread main: Tried the depot code (it goes with delete_thread)",
        "- stays, though about it: run of thread main: at: the depot code (it goes with delete_thread",
    ):
        assert line in preview
    assert "side" not in preview
    assert "Petra" not in preview
    answer = await tools("forget", confirm=preview.partition('confirm="')[2].partition('"')[0])
    assert answer.startswith(
        "Forgotten: 1 message. Not changed, though about it too: title of thread main (update_thread"
    )
    assert "run of thread main" in answer


async def test_few_of_many_places_are_shown(tools: Tools) -> None:
    for number in range(13):
        await tools("update_thread", thread_id=f"t{number}", title="Zebra talk")
    preview = await tools("forget", query="zebra talk")
    assert preview.startswith("Nothing that is remembered is about this; nothing to forget.\n- stays")
    assert preview.count("- stays, though about it: title of thread") == 10
    assert preview.endswith("- stays, though about it: 3 more")


async def test_a_preview_names_the_other_half_of_a_tool_call_that_goes_with_a_message(tools: Tools) -> None:
    function = {"name": "look", "arguments": '{"at": "the shelf of the attic"}'}
    await tools.add(
        "main",
        {"role": "user", "content": "Look for it."},
        {"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "c1", "content": "The samovar is in the attic."},
    )
    for query, half in (("samovar", ", with its call: "), ("shelf", ", with its result: ")):
        preview = await tools("forget", query=query)
        assert preview.count("- message #") == 1
        assert half in preview
    both = await tools("forget", query="attic")
    assert (both.count("- message #"), ", with its" in both) == (2, False)
    token = preview.partition('confirm="')[2].partition('"')[0]
    assert (await tools("forget", confirm=token)).startswith("Forgotten: 2 messages.")
