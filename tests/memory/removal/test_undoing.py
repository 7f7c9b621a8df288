"""What a call took away or replaced comes back by the id that its answer names, as long as it is not erased."""

from typing import Any

import pytest

from ...server.tools.calling import Connect, Json, Tools

pytestmark = pytest.mark.anyio

PROFILE = "# Ana\n- gate code: 4711\n- likes tea\n"
RESOURCE = {"scope": "resource"}
MAIN = {"thread_id": "main"}


def undo_id(answer: str) -> str:
    """The id in an answer that is text."""
    return answer.partition('undo(undo_id="')[2].partition('"')[0]


async def content(tools: Tools, **which: Any) -> str:
    answer: Json = await tools("get_working_memory", format="json", **which)
    return str(answer["content"])


async def listed(tools: Tools) -> list[str]:
    return [f"{act['tool']}: {act['what']}" for act in (await tools("undo"))["acts"]]


@pytest.mark.databases
async def test_each_act_names_what_undoes_it_and_is_undone_once(tools: Tools) -> None:
    await tools.say("main", "My gate code is 4711.", "Tea, please.")
    await tools.say("side", "Hello.")
    kept = await tools("remember", content="Ana's gate code is 4711.")
    await tools("update_working_memory", content="Planning a trip.", **MAIN)
    before = await tools("recall_memory", query="gate code")
    done = {
        "delete_messages": (await tools("delete_messages", which="last_turn", **MAIN))["undo"],
        "delete_thread": (await tools("delete_thread", thread_id="side"))["undo"],
        "forget": undo_id(await tools("forget", ids=[kept["id"]])),
        "clear_working_memory": (await tools("clear_working_memory", **MAIN))["undo"],
    }
    assert all(each.startswith("u_") for each in done.values())
    assert await listed(tools) == [
        "clear_working_memory: the session memory of 'main' changed from version 1",
        "forget: 1 note forgotten",
        "delete_thread: conversation 'side' deleted",
        "delete_messages: messages of 'main' deleted",
    ]
    back = {"delete_messages": {"messages": 2}, "delete_thread": {"messages": 1}, "forget": {"entries": 1}}
    for tool, each in done.items():
        counts = back.get(tool, {"documents": 1})
        assert await tools("undo", undo_id=each) == {"undo_id": each, "tool": tool, **counts}
        assert await tools("undo", undo_id=each.upper()) == {"undo_id": each, "tool": tool, "already": True}
    assert await tools.texts("main") == ["My gate code is 4711.", "Tea, please."]
    assert await tools.texts("side") == ["Hello."]
    assert await content(tools, **MAIN) == "Planning a trip."
    assert await tools("recall_memory", query="gate code") == before
    assert await listed(tools) == []
    assert "nothing to undo" in await tools.refused("undo", undo_id="last")


@pytest.mark.databases
async def test_all_that_a_query_did_away_with_comes_back_at_once(tools: Tools) -> None:
    await tools.say("main", "My gate code is 4711.", "Tea, please.")
    await tools("remember", content="Ana's gate code is 4711.")
    await tools("update_working_memory", mode="replace", content=PROFILE, **RESOURCE)
    before = await tools("recall_memory", query="gate code", opening=False)
    preview = await tools("forget", query="gate code")
    answer = await tools("forget", confirm=preview.partition('confirm="')[2].partition('"')[0])
    assert answer.startswith("Forgotten: 1 entry, 1 message, 1 line of a document.")
    assert "4711" not in await tools("recall_memory", query="gate code")
    told = await tools("undo", undo_id=undo_id(answer))
    assert {name: told[name] for name in ("messages", "documents", "entries")} == {
        "messages": 1,
        "documents": 1,
        "entries": 1,
    }
    assert await tools("recall_memory", query="gate code") == before
    assert await content(tools, **RESOURCE) == PROFILE


async def test_last_undoes_the_newest_first(tools: Tools) -> None:
    for word in ("one", "two", "three"):
        await tools("update_working_memory", content=word, **MAIN)
    await tools("undo", undo_id="last")
    assert await content(tools, **MAIN) == "two"


async def test_what_was_written_since_is_not_lost_and_the_refusal_says_how_to_go_on(tools: Tools) -> None:
    await tools("update_working_memory", content="likes tea", **RESOURCE)
    told = await tools("update_working_memory", content="has a cat", mode="replace", **RESOURCE)
    await tools("update_working_memory", content="lives in Graz", **RESOURCE)
    refused = await tools.refused("undo", undo_id=told["undo"])
    assert "the user profile was changed since, and is now version 3, by update_working_memory" in refused
    assert f"undo(undo_id='{told['undo']}', force=true)" in refused
    assert await content(tools, **RESOURCE) == "has a cat\nlives in Graz"
    forced = await tools("undo", undo_id=told["undo"], force=True)
    assert forced["documents"] == 1
    assert await content(tools, **RESOURCE) == "likes tea"
    # The forced undo is an act of its own, so nothing is lost.
    await tools("undo", undo_id=forced["undo"])
    assert await content(tools, **RESOURCE) == "has a cat\nlives in Graz"


@pytest.mark.databases
@pytest.mark.parametrize("where", [RESOURCE, MAIN])
async def test_each_earlier_version_of_a_document_comes_back_by_the_act_that_the_versions_name(
    tools: Tools, where: dict[str, str]
) -> None:
    texts = ("one", "one\ntwo", "three", "four")
    await tools.say("main", "Hello.")
    for text in texts:
        await tools("update_working_memory", content=text, mode="replace", **where)
    await tools("clear_working_memory", **where)
    versions = (await tools("get_working_memory", format="json", **where))["versions"]
    acts = {each["version"]: each.get("undo") for each in versions}
    assert acts.pop(5) is None
    assert set(acts.values()) == {act["undo_id"] for act in (await tools("undo"))["acts"]}
    for _ in range(2):
        for version, text in enumerate(texts, 1):
            assert (await tools("undo", undo_id=acts[version], force=True))["documents"] == 1
            assert await content(tools, **where) == text
            assert (await tools("undo", undo_id=acts[version]))["already"]
    assert (await tools("undo", undo_id=acts[4], force=True))["already"]


@pytest.mark.databases
async def test_each_kind_of_act_is_undone_once_and_in_turn_by_last(tools: Tools) -> None:
    await tools.say("main", "My gate code is 4711.")
    old = await tools("remember", content="Ana's gate code is 4711.")
    await tools("update_working_memory", content="one", **MAIN)
    steps = [{"description": "boil"}]
    await tools("plan", action="create", plan={"goal": "Serve tea", "steps": steps}, **MAIN)
    await tools("update_working_memory", content="two", mode="append", **MAIN)
    (appended,) = (await tools("undo"))["acts"]
    await tools("update_working_memory", content="three", **MAIN)
    await tools("undo", undo_id=appended["undo_id"], force=True)
    await tools("plan", action="create", plan={"goal": "Bake", "steps": steps}, **MAIN)
    await tools("remember", content="Ana's gate code is 4712.", kind="correction")
    await tools("delete_messages", which="all", **MAIN)
    await tools("delete_thread", **MAIN)
    undone = []
    for _ in range(6):
        done = await tools("undo", undo_id="last")
        undone.append(done["tool"])
        assert (await tools("undo", undo_id=done["undo_id"])) == {**_name(done), "already": True}
        if done["tool"] == "undo":
            assert await content(tools, **MAIN) == "three"
    assert undone == ["delete_thread", "delete_messages", "remember", "plan", "undo", "update_working_memory"]
    assert "nothing to undo" in await tools.refused("undo", undo_id="last")
    assert await tools.texts("main") == ["My gate code is 4711."]
    assert await content(tools, **MAIN) == "one\ntwo"
    assert "Ana's gate code is 4711." in await tools.found("gate code")
    assert old["id"]


def _name(done: Json) -> Json:
    return {"undo_id": done["undo_id"], "tool": done["tool"]}


async def test_of_several_things_those_come_back_that_nobody_changed_since(tools: Tools) -> None:
    await tools.say("main", "My gate code is 4711.")
    await tools("update_working_memory", mode="replace", content=PROFILE, **RESOURCE)
    preview = await tools("forget", query="gate code")
    answer = await tools("forget", confirm=preview.partition('confirm="')[2].partition('"')[0])
    await tools("update_working_memory", content="has a cat", **RESOURCE)
    told = await tools("undo", undo_id=undo_id(answer))
    assert told["messages"] == 1
    (left,) = told["left"]
    assert "the user profile was changed since" in left
    assert await tools.texts("main") == ["My gate code is 4711."]
    # What is left stays in the list, and can be undone once nothing is in the way.
    assert [each.partition(":")[0] for each in await listed(tools)] == ["update_working_memory", "forget"]


async def test_a_plan_that_was_replaced_or_lost_steps_comes_back(tools: Tools) -> None:
    steps = [{"description": "boil"}, {"description": "pour"}]
    await tools("plan", action="create", plan={"goal": "Serve tea", "steps": steps}, **MAIN)
    replaced = await tools("plan", action="create", plan={"goal": "Bake", "steps": [{"description": "mix"}]}, **MAIN)
    assert "boil" in await tools("plan", action="review", revision=1, **MAIN)
    assert (await tools("undo", undo_id=undo_id(replaced)))["plans"] == 1
    assert "boil" in await tools("plan", action="review", **MAIN)
    whole = {"goal": "Serve tea", "steps": [{"id": "s1", "description": "boil"}]}
    dropped = await tools("plan", action="update", plan=whole, format="json", **MAIN)
    await tools("plan", action="update", plan={"iteration": 2}, **MAIN)
    assert "changed since, and is now revision 5" in await tools.refused("undo", undo_id=dropped["change"]["undo"])


async def test_a_correction_that_was_wrong_gives_its_place_back(tools: Tools) -> None:
    old = await tools("remember", content="Ana's gate code is 4711.")
    told = await tools("remember", content="Ana's gate code is 4712.", kind="correction")
    assert told["replaced"] == [{"id": old["id"], "content": "Ana's gate code is 4711."}]
    again = await tools("remember", content="Ana's gate code is 4713.", kind="correction")
    assert "itself corrected since" in await tools.refused("undo", undo_id=told["undo"])
    assert (await tools("undo", undo_id=again["undo"]))["entries"] == 1
    assert (await tools("undo", undo_id=told["undo"]))["entries"] == 1
    assert (await tools("undo", undo_id=told["undo"]))["already"]
    assert await tools.found("gate code") == ["Ana's gate code is 4711."]


async def test_what_is_erased_is_gone_and_of_what_is_erased_at_once_nothing_is_named(connect: Connect) -> None:
    async with connect(toolsets="all") as tools:
        await tools.say("main", "My gate code is 4711.")
        deleted = await tools("delete_thread", thread_id="main")
        confirm = (await tools("erase_memory", thread_id="main"))["confirm"]
        await tools("erase_memory", thread_id="main", dry_run=False, confirm=confirm)
        assert "it is unknown, or what it did is erased" in await tools.refused("undo", undo_id=deleted["undo"])
    async with connect(retention={"deleted_days": 0}) as tools:
        kept = await tools("remember", content="Ana likes tea.")
        assert await tools("forget", ids=[kept["id"]]) == "Forgotten: 1 entry."
        await tools.say("main", "Hello.")
        assert "undo" not in await tools("delete_thread", thread_id="main")
        assert await listed(tools) == []


async def test_an_entry_whose_messages_are_deleted_waits_for_them(tools: Tools) -> None:
    await tools.say("main", "My gate code is 4711.")
    proof = {"evidence": "gate code is 4711", "source": "user_assertion", **MAIN}
    kept = await tools("remember", content="Ana's gate code is 4711.", **proof)
    forgotten = undo_id(await tools("forget", ids=[kept["id"]]))
    deleted = await tools("delete_messages", which="all", **MAIN)
    assert kept["id"] in await tools.refused("undo", undo_id=forgotten)
    await tools("undo", undo_id=deleted["undo"])
    assert (await tools("undo", undo_id=forgotten))["entries"] == 1
    assert "Ana's gate code is 4711." in await tools.found("gate code")


async def test_a_request_that_is_sent_again_undoes_nothing_more(all_tools: Tools) -> None:
    tools = all_tools
    for word in ("one", "two", "three"):
        await tools("update_working_memory", content=word, **MAIN)
    key = {"layerlore/idempotency-key": "once"}
    told = await tools("undo", undo_id="last", meta=key)
    assert await tools("undo", undo_id="last", meta=key) == told
    assert await content(tools, **MAIN) == "two"
    (event,) = (await tools("list_events", types=["working_memory_updated"], after=0, limit=200, **MAIN))["events"][3:]
    assert (event["tool"], event["payload"]["mode"]) == ("undo", "restore")


@pytest.mark.databases
@pytest.mark.parametrize("where", [RESOURCE, MAIN])
async def test_earlier_versions_of_what_was_forgotten_are_gone_until_that_is_undone(
    tools: Tools, where: dict[str, str]
) -> None:
    await tools.say("main", "Hello.")
    for text in ("Works for Crate Co.\nDiagnosis: epilepsy", "Works for Crate Co.\nDiagnosis: epilepsy\nHas a cat"):
        await tools("update_working_memory", mode="replace", content=text, **where)
    preview = await tools("forget", query="epilepsy")
    answer = await tools("forget", confirm=preview.partition('confirm="')[2].partition('"')[0])
    assert await content(tools, **where) == "Works for Crate Co.\nHas a cat"
    for version in (1, 2):
        assert "is not kept" in await tools.refused("get_working_memory", version=version, **where)
    assert [each["version"] for each in (await tools("get_working_memory", format="json", **where))["versions"]] == [
        4,
        3,
    ]
    await tools("update_working_memory", mode="replace", content="Has a dog", **where)
    refused = await tools.refused("undo", undo_id=undo_id(answer))
    assert f"undo(undo_id='{undo_id(answer)}', force=true)" in refused
    await tools("undo", undo_id=undo_id(answer), force=True)
    assert await content(tools, **where) == "Works for Crate Co.\nDiagnosis: epilepsy\nHas a cat"
    assert "epilepsy" in str(await tools("get_working_memory", version=1, **where))


async def test_a_document_that_ends_without_a_line_break_still_does_after_a_forget(tools: Tools) -> None:
    await tools("update_working_memory", mode="replace", content="Likes tea\nDiagnosis: epilepsy", **RESOURCE)
    preview = await tools("forget", query="epilepsy")
    await tools("forget", confirm=preview.partition('confirm="')[2].partition('"')[0])
    assert await content(tools, **RESOURCE) == "Likes tea"
