"""recall_memory over what is noted beside messages: profile, session memory, plans, attempts."""

import pytest

from ...server.tools.calling import Connect, Json, Tools

pytestmark = [pytest.mark.anyio, pytest.mark.databases]

PLAN = {
    "goal": "Move to Linz",
    "steps": [
        {"description": "Compare the moving companies: Huber is cheaper than Trans Austria"},
        {"description": "Swap the battery of the van", "status": "completed", "result": "It cost 340 euros"},
    ],
}


@pytest.fixture
def tools(all_tools: Tools) -> Tools:
    """Attempts are not in the default list."""
    return all_tools


async def _note(tools: Tools) -> None:
    """A note of each kind that a caller writes."""
    await tools("update_working_memory", scope="resource", content="# Health\n- Allergic to penicillin\n- Type A+")
    await tools("update_working_memory", thread_id="garden", content="The tomatoes stand behind the shed.")
    await tools("plan", action="create", thread_id="move", plan=PLAN)
    await tools(
        "log_attempt", thread_id="build", task_key="wheel", action="Ran the linker", result="", error="undefined symbol"
    )


async def _found(tools: Tools, query: str, **arguments: object) -> list[tuple[str, str]]:
    return [(hit["kind"], hit["text"]) for hit in await tools.hits(query, **arguments)]


@pytest.mark.parametrize(
    ("query", "kind", "said", "shown"),
    [
        ("penicillin allergy", "profile", "Health: Allergic to penicillin", "[profile, "),
        ("Where do the tomatoes stand?", "session_memory", "The tomatoes stand", "[session memory of thread garden, "),
        ("Which moving company is cheaper?", "plan", "Huber is cheaper", ", step pending] Compare"),
        ("What did the swap cost?", "plan", "340 euros", ", step completed] Swap the battery of the van → It cost 340"),
        ("what failed?", "attempt", "undefined symbol", "[attempt in thread build, "),
        ("linker undefined symbol", "attempt", "undefined symbol", "[attempt in thread build, "),
    ],
)
async def test_a_note_is_found_and_says_what_it_is(tools: Tools, query: str, kind: str, said: str, shown: str) -> None:
    await _note(tools)
    found = await _found(tools, query)
    assert found[0][0] == kind
    assert said in found[0][1]
    assert shown in await tools("recall_memory", query=query)


async def test_a_note_is_found_where_no_message_is(tools: Tools) -> None:
    await tools("update_working_memory", scope="resource", content="Allergic to penicillin")
    (hit,) = await tools.hits("penicillin")
    assert hit["kind"] == "profile"
    assert "thread_id" not in hit


async def test_a_failed_attempt_says_so(tools: Tools) -> None:
    await _note(tools)
    (hit,) = await tools.hits("undefined symbol", kinds=["attempt"])
    assert hit["status"] == "failed"
    assert ", failed] wheel: Ran the linker → FAILED: undefined symbol" in await tools(
        "recall_memory", query="undefined symbol"
    )


async def test_kinds_and_roles_and_threads_narrow_what_is_found(tools: Tools) -> None:
    await _note(tools)
    await tools.say("move", "Is Huber cheaper?", "Huber has a red van")
    words = "Huber tomatoes penicillin linker van"
    kinds = {kind for kind, _ in await _found(tools, words)}
    assert kinds == {"profile", "session_memory", "plan", "attempt", "message"}
    for kind in kinds:
        assert {each for each, _ in await _found(tools, words, kinds=[kind])} == {kind}
    assert {each for each, _ in await _found(tools, words, roles=["user"])} == {"message"}
    assert {each for each, _ in await _found(tools, words, thread_id="move")} == {"plan", "message"}
    assert {each for each, _ in await _found(tools, words, thread_id="garden")} == {"session_memory"}


async def test_times_compare_with_when_a_note_was_written(tools: Tools) -> None:
    await _note(tools)
    assert await _found(tools, "tomatoes", until="2001-01-01") == []
    assert len(await _found(tools, "tomatoes", since="2001-01-01")) == 1


async def test_only_the_newest_version_is_found(tools: Tools) -> None:
    await _note(tools)
    await tools("update_working_memory", thread_id="garden", content="The tomatoes stand in the greenhouse.")
    assert [text for _, text in await _found(tools, "tomatoes")] == ["The tomatoes stand in the greenhouse."]
    await tools(
        "plan", action="update", thread_id="move", plan={"steps": [{"index": 0, "description": "Call Huber at noon"}]}
    )
    assert "Trans" not in str(await _found(tools, "Huber Trans Austria"))
    await tools("clear_working_memory", scope="resource")
    assert await _found(tools, "penicillin") == []


async def test_an_undo_finds_again_what_it_brings_back(tools: Tools) -> None:
    await _note(tools)
    answer = await tools("update_working_memory", thread_id="garden", content="Nothing grows here.")
    assert "shed" not in str(await _found(tools, "tomatoes shed"))
    await tools("undo", undo_id=answer["undo"])
    assert "shed" in str(await _found(tools, "tomatoes shed"))


async def test_a_deleted_thread_takes_its_notes_along_until_it_is_restored(tools: Tools) -> None:
    await _note(tools)
    for thread, query in (("garden", "tomatoes"), ("move", "Huber"), ("build", "linker")):
        answer: Json = await tools("delete_thread", thread_id=thread)
        assert await _found(tools, query) == []
        await tools("undo", undo_id=answer["undo"])
        assert len(await _found(tools, query)) == 1


async def test_others_find_nothing(connect: Connect) -> None:
    async with connect(toolsets="all") as tools:
        await _note(tools)
    for stranger in ({"resource": "other"}, {"agent": "other"}):
        async with connect(toolsets="all", **stranger) as tools:
            assert await _found(tools, "penicillin tomatoes Huber linker") == []


async def test_a_context_repeats_neither_the_profile_nor_its_own_notes(tools: Tools) -> None:
    await _note(tools)
    await tools.say("garden", "Which tomatoes and which moving company, with penicillin, are cheaper?")
    context = str(await tools("get_context", thread_id="garden"))
    assert context.count("behind the shed") == 1
    assert context.count("Allergic to penicillin") == 1
    assert "Huber is cheaper" in context


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("We use 🚀 for releases", "What is 🚀 for?"),
        ("She sent ❤ again", "❤️"),
        ("The code of the door is ٤٢١", "421"),
        ("Zimmer １２ ist frei", "12"),
        ("Kapı sıcak değil", "KAPI SICAK"),
        ("My blood type is A+", "A+"),
        ("The parser is written in C++", "C++"),
    ],
)
async def test_signs_and_digits_of_any_script_are_found(tools: Tools, said: str, asked: str) -> None:
    await tools.say("other", "We use a bus", "The code of the car is 17", "The parser is written in C", "Type A")
    await tools.say("main", said, "Good night")
    assert (await tools.found(asked))[0] == said


async def test_what_is_forgotten_of_the_profile_is_not_found(tools: Tools) -> None:
    await _note(tools)
    preview = str(await tools("forget", query="penicillin"))
    await tools("forget", confirm=preview.partition('confirm="')[2].partition('"')[0])
    assert await _found(tools, "penicillin") == []
    assert len(await _found(tools, "tomatoes")) == 1


async def test_an_erased_thread_leaves_no_note(tools: Tools) -> None:
    await _note(tools)
    told = await tools("erase_memory", thread_id="garden")
    assert told["counts"]["search_rows"] == 1
    await tools("erase_memory", thread_id="garden", dry_run=False, confirm=told["confirm"])
    assert await _found(tools, "tomatoes") == []
    assert len(await _found(tools, "penicillin")) == 1


async def test_a_recalled_note_that_a_host_stores_is_an_echo(tools: Tools) -> None:
    await _note(tools)
    answer = await tools("recall_memory", query="penicillin tomatoes Huber battery linker")
    await tools.add("host", {"role": "assistant", "content": answer})
    assert await tools.hits("penicillin tomatoes Huber battery linker", thread_id="host") == []


async def test_a_briefing_has_the_notes_of_other_conversations(tools: Tools) -> None:
    await _note(tools)
    briefing = str(await tools("get_briefing", thread_id="other", task="Call the cheaper moving company"))
    assert "- [plan of thread move, " in briefing
    assert "Huber is cheaper" in briefing


async def test_programs_get_an_id_and_the_fields_of_a_note(tools: Tools) -> None:
    await _note(tools)
    (step,) = await tools.hits("swap battery", kinds=["plan"], limit=1)
    assert {"id", "kind", "thread_id", "step", "status", "text", "said_at", "age", "score"} == set(step)
    assert (step["thread_id"], step["step"], step["status"]) == ("move", "s2", "completed")
    assert step["id"].startswith("plan-")


async def test_steps_stand_in_the_order_of_their_plan(tools: Tools) -> None:
    steps = [{"description": f"{what} of the greenhouse"} for what in ("Floor", "Walls", "Door", "Roof", "Paint")]
    await tools("plan", action="create", thread_id="build", plan={"goal": "A greenhouse", "steps": steps})
    answer = await tools("recall_memory", query="greenhouse", kinds=["plan"])
    places = [answer.index(step["description"]) for step in steps]
    assert places == sorted(places)
