"""get_briefing: what a sub-agent without memory is told."""

import json
import random

import pytest

from layerlore.memory.context.briefing import resume_work
from layerlore.memory.text.quotation import MARK
from layerlore.server.runtime.engines import open_engine
from layerlore.storage.core.records import Scope

from ...conftest import SettingsFor
from ...server.tools.calling import Connect, Json, Tools

pytestmark = pytest.mark.anyio


ME = Scope("local", "default", "default")
PLAN: Json = {"goal": "Serve tea", "steps": [{"description": "Boil", "status": "in_progress"}, {"description": "Pour"}]}


async def test_a_briefing_tells_the_task_the_plan_the_user_the_talk_and_what_was_tried(all_tools: Tools) -> None:
    tools = all_tools
    await tools("plan", action="create", plan=PLAN, thread_id="main")
    await tools("update_working_memory", content="Likes it strong.", scope="resource")
    await tools.add("main", {"role": "user", "content": "tea\nplease"}, {"role": "assistant", "content": "coming"})
    await tools("log_attempt", task_key="boil", action="heat", result="", error="no power", thread_id="main")
    await tools("log_attempt", task_key="other", action="bake", result="brown", thread_id="main")
    text = await tools("get_briefing", task="Boil the water", task_key="boil", thread_id="main")
    told = await tools("get_briefing", task="Boil the water", task_key="boil", thread_id="main", format="json")
    assert text.startswith("<task>\nBoil the water\n</task>\n<plan>\n")
    for part in (
        "Goal: Serve tea\nPhase: build, iteration 1\nCurrent step: s1 [in_progress] build: Boil\n</value>\n</plan>",
        "<value>\nLikes it strong.\n</value>\n</user-profile>",
        "<value>\n#1 user: tea please\n#2 assistant: coming\n</value>\n</conversation>",
        "<value>\nAttempt 1: heat → FAILED: no power\n</value>\n</previous-attempts>",
    ):
        assert part in text
    assert told == {
        "thread_id": "main",
        "task": "Boil the water",
        "plan": {
            "goal": "Serve tea",
            "current_phase": "build",
            "iteration": 1,
            "current_step": "s1 [in_progress] build: Boil",
        },
        "user_profile": "Likes it strong.",
        "messages": [
            {"seq": 1, "role": "user", "text": "tea please"},
            {"seq": 2, "role": "assistant", "text": "coming"},
        ],
        "previous_attempts": ["Attempt 1: heat → FAILED: no power"],
    }
    assert "previous" not in await tools("get_briefing", task="x", thread_id="main")
    assert "previous" not in await tools("get_briefing", task="x", task_key="nothing", thread_id="main")


async def test_of_a_conversation_that_has_nothing_yet_a_briefing_is_the_task_and_the_user(all_tools: Tools) -> None:
    alone = "<task>\nBoil\n</task>"
    assert await all_tools("get_briefing", task="Boil", task_key="k", thread_id="main") == alone
    assert (await all_tools("get_briefing", task="Boil")).startswith(alone)
    await all_tools("update_working_memory", content="Likes it strong.", scope="resource")
    assert "Likes it strong." in await all_tools("get_briefing", task="Boil")
    assert (await all_tools("list_threads"))["threads"] == []


async def test_the_last_messages_are_told_and_how_many_are_left_out(all_tools: Tools) -> None:
    for _ in range(2):
        await all_tools.say("main", *(f"message {n} about tea" for n in range(60)))
    told = await all_tools("get_briefing", task="x", thread_id="main", format="json", max_tokens=20_000)
    assert [entry["seq"] for entry in told["messages"]] == list(range(71, 121))
    assert told["left_out"] == ["70 earlier messages"]
    text = await all_tools("get_briefing", task="x", thread_id="main", max_tokens=300)
    assert "#120 user: message 59 about tea" in text
    assert text.endswith(" earlier messages]")


async def test_a_briefing_begins_with_what_the_user_rules_and_corrects_however_far_back(all_tools: Tools) -> None:
    rules = ("Never boil it twice.", "No, the kettle is K-12, not K-21.")
    await all_tools.say("main", *rules, "My teapot is T-4411.")
    for _ in range(3):
        await all_tools.say("main", *(f"message {n} about cake" for n in range(60)))
    text = await all_tools("get_briefing", task="Boil the water", thread_id="main", max_tokens=500)
    assert all(f"user: {rule}" in text for rule in rules)
    told = await all_tools("get_briefing", task="Boil the water", thread_id="main", format="json", max_tokens=20_000)
    assert set(told["notes"][:2]) == {f"#2 user: {rules[1]}", f"#1 user: {rules[0]}"}
    assert "#3 user: My teapot is T-4411." in told["notes"]


async def test_a_manual_that_somebody_pasted_takes_no_room_from_the_task_and_from_the_users_own_rules(
    all_tools: Tools,
) -> None:
    parts = ("pump", "valve", "filter", "gauge", "hose", "motor", "panel", "tank")
    manual = " ".join(
        f"The {part} must be checked before step {8 * n + at}." for n in range(6) for at, part in enumerate(parts)
    )
    rules = ("Always put dates as in 2026-11-25.", "Never promise a delivery on a Sunday.")
    await all_tools.say("main", rules[0], f"Here is the manual of my supplier. {manual}", rules[1])
    await all_tools.say("main", "By the way, the customer Yamaguchi wants it at dock 9.")
    await all_tools.say("main", *(f"message {n} about cake" for n in range(60)))
    briefing = {"task": "Write the delivery note for Yamaguchi with the dock", "thread_id": "main", "format": "json"}
    told = await all_tools("get_briefing", **briefing, max_tokens=600)
    # The one that has a word of the task comes first.
    assert told["notes"][:2] == [f"#3 user: {rules[1]}", f"#1 user: {rules[0]}"]
    assert "dock 9" in told["memory"][0]
    assert 0 < sum("must be checked" in note for note in told["notes"]) < 12


async def test_rules_of_a_briefing_stand_in_the_order_in_which_they_were_said(all_tools: Tools) -> None:
    rules = ["Always grease the tin.", "You must sift the flour first.", "Never use salt."]
    changed = ["From now on we always bake in the steam oven.", "No, not in the steam oven: we bake in the clay oven."]
    await all_tools.say("main", f"We bake bread. {' '.join(rules)}", changed[0], "The tin is blue.", changed[1])
    for task in ("Bake a loaf", "Clean the steam oven", "Sift it"):
        told = await all_tools("get_briefing", task=task, thread_id="main", format="json", max_tokens=4000)
        shown = [note.partition("user: ")[2] for note in told["notes"]]
        assert [note for note in shown if note in changed] == changed
        assert [note for note in shown if note in rules and note != rules[1]] == [rules[0], rules[2]]


async def test_a_briefing_tells_what_other_conversations_said_about_the_task(all_tools: Tools) -> None:
    await all_tools.say("old", "The descaling powder for the samovar is in the blue cupboard.")
    told = await all_tools("get_briefing", task="Descale the samovar with the powder", thread_id="new", format="json")
    assert "blue cupboard" in told["memory"][0]
    assert "thread old" in told["memory"][0]
    assert "memory" not in await all_tools("get_briefing", task="Zzyzx", thread_id="new", format="json")


async def test_a_briefing_that_cannot_be_given_says_why(all_tools: Tools) -> None:
    assert "task: must not be empty" in await all_tools.refused("get_briefing", task=" ")
    assert "NUL" in await all_tools.refused("get_briefing", task="\x00")
    assert "at most 20,000" in await all_tools.refused("get_briefing", task="word " * 3000)
    assert "task_key: 256 characters" in await all_tools.refused("get_briefing", task="x", task_key="k" * 256)
    for tokens in (299, 20_001):
        assert "max_tokens" in await all_tools.refused("get_briefing", task="x", max_tokens=tokens)


async def test_a_briefing_tells_nothing_of_others_and_nothing_that_was_deleted(connect: Connect) -> None:
    async with connect(toolsets="all") as tools, connect(toolsets="all", resource="ben") as other:
        for each, word in ((tools, "hers"), (other, "his")):
            await each("plan", action="create", plan={"goal": word}, thread_id="main")
            await each("update_working_memory", content=word, scope="resource")
            await each("log_attempt", task_key="k", action=word, result=word, thread_id="main")
            await each.add("main", {"role": "user", "content": word, "id": "m"})
        told = json.dumps(await tools("get_briefing", task="x", task_key="k", thread_id="main", format="json"))
        assert told.count("hers") == 5  # the attempt has it twice
        assert "his" not in told
        await tools("delete_messages", which="ids", ids=["m"], thread_id="main")
        assert "messages" not in await tools("get_briefing", task="x", thread_id="main", format="json")
        await tools("delete_thread", thread_id="main")
        left = await tools("get_briefing", task="x", task_key="k", thread_id="main", format="json")
        assert left.keys() == {"thread_id", "task", "user_profile"}


async def test_a_secret_in_a_task_is_masked(all_tools: Tools) -> None:
    secret = "gh" + "p_" + "".join(random.Random(7).choices("abcdefghijkLMNOP0123456789", k=36))
    assert secret not in await all_tools("get_briefing", task=f"use {secret}")


async def test_who_resumes_work_reads_the_plan_the_attempts_by_task_and_the_session_memory(
    all_tools: Tools, settings_for: SettingsFor
) -> None:
    tools = all_tools
    await tools.say("bare", "hello")
    await tools("plan", action="create", plan=PLAN, thread_id="main")
    for key, action in (("pour", "tilt"), ("boil", "heat"), ("pour", "tilt more")):
        await tools("log_attempt", task_key=key, action=action, result="</plan>", thread_id="main")
    await tools("update_working_memory", content="The kettle is red.", thread_id="main")
    engine = await open_engine(settings_for())
    try:
        plan, attempts, session_memory = (await resume_work(engine, ME, "main")).own
        assert (await resume_work(engine, ME, "bare")).own == []
        assert (await resume_work(engine, ME, "nothing")).own == []
    finally:
        await engine.database.close()
    assert plan.splitlines() == [
        "<plan>",
        "<description>",
        MARK,
        "</description>",
        "<value>",
        "Goal: Serve tea",
        "Phase: build, iteration 1",
        "s1 [in_progress] build: Boil",
        "s2 [pending] build: Pour",
        "</value>",
        "</plan>",
    ]
    assert attempts.splitlines() == [
        "<previous-attempts>",
        "<description>",
        MARK,
        "</description>",
        "<value>",
        "Task boil:",
        "Attempt 1: heat → (/plan>",
        "Task pour:",
        "Attempt 1: tilt → (/plan>",
        "Attempt 2: tilt more → (/plan>",
        "</value>",
        "</previous-attempts>",
    ]
    assert session_memory.startswith("<session-memory>")
    assert "The kettle is red." in session_memory


async def test_the_notes_of_one_message_stand_in_the_order_in_which_it_says_them(all_tools: Tools) -> None:
    tools = all_tools
    steps = [
        "Always close valve 12.",
        "Always open drain 7 for 20 minutes.",
        "Never flush pipe 3 with more than 5 litres.",
        "Always open valve 12 again.",
    ]
    await tools.say("main", "I live at Elm Road 9.")
    await tools.say("main", " ".join(steps))
    text = await tools("get_briefing", task="Order tiles", thread_id="main", max_tokens=2_000)
    notes = text.split("<observations>")[1].split("</observations>")[0]
    assert [notes.index(step) for step in steps] == sorted(notes.index(step) for step in steps)
