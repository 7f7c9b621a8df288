"""The log of what changed: every change by every tool is in it, and a reader who reads on misses none."""

import asyncio
import json
import random
from collections.abc import Sequence
from typing import Any

import pytest
from mcp.client.session import DEFAULT_CLIENT_INFO

from layerlore.memory.rules.validation import Limits
from layerlore.memory.work.steps import AGENT_EVENTS, SERVER_EVENTS
from layerlore.server.tools.toolsets import OF_PAGES, list_writers

from .calling import Connect, Json, Tools
from .sample_calls import SAMPLE_CALLS, sample_call

pytestmark = pytest.mark.anyio

BY = f"{DEFAULT_CLIENT_INFO.name} {DEFAULT_CLIENT_INFO.version}"


@pytest.fixture
def tools(all_tools: Tools) -> Tools:
    return all_tools


async def log(tools: Tools, **arguments: Any) -> Json:
    answer: Json = await tools("list_events", **{"limit": 200, **arguments})
    return answer


async def types_of(tools: Tools, **arguments: Any) -> list[str]:
    return [event["type"] for event in (await log(tools, **arguments))["events"]]


def step(content: str = "hello") -> Json:
    return {"type": "text", "operation_id": "op", "content": content}


# In every text that the calls below send. Names and ids (threads, messages, runs) may be in the log, so it is in none.
WORD = "quokka"
CLAIM = "the claim that resume_run gave"
KEPT = ["the id that remember gave"]
MAIN: Json = {"thread_id": "main"}
TOLD = [{"role": "user", "content": f"a {WORD}", "id": "m1", "name": WORD, "metadata": {WORD: WORD}}]
STATE: Json = {"run_id": "r1", "state": {"saw": WORD}, "workflow_id": WORD, "reason": WORD, "metadata": {WORD: WORD}}
RESUME: Json = {"run_id": "r1"}

# What they change is the job's, and their events say so.
OF_JOBS = {"next_memory_job", "submit_memory_job"}
# It takes the token of a dry run first, and of everything leaves nothing: its tests have it.
OF_ERASING = {"erase_memory"}
# Calls that leave every kind of event, so that each call changes something.
CHANGES: list[tuple[str, Json]] = [
    ("add_messages", {**MAIN, "messages": TOLD}),
    ("add_messages", {**MAIN, "messages": [{**TOLD[0], "content": f"two {WORD}s"}], "replace": True}),
    ("update_thread", {**MAIN, "title": WORD, "metadata": {WORD: WORD}}),
    ("update_thread", {**MAIN, "window": {"summary_prompt": WORD, "predefined": [{"role": "user", "content": WORD}]}}),
    ("update_working_memory", {**MAIN, "content": WORD}),
    ("update_working_memory", {"scope": "resource", "content": WORD}),
    ("update_working_memory", {**MAIN, "content": f"more {WORD}", "mode": "append"}),
    ("clear_working_memory", MAIN),
    ("clear_working_memory", {"scope": "resource"}),
    ("plan", {**MAIN, "action": "create", "plan": {"goal": WORD, "steps": [{"phase": "build", "description": WORD}]}}),
    ("plan", {**MAIN, "action": "update", "plan": {"goal": f"another {WORD}"}}),
    ("log_attempt", {**MAIN, "task_key": WORD, "action": WORD, "result": WORD, "error": WORD, "diagnosis": WORD}),
    ("record_steps", {**MAIN, "steps": [{**step(WORD), "model": WORD, "usage": {"input_tokens": 1}}]}),
    ("suspend_run", {**MAIN, **STATE}),
    ("resume_run", {**RESUME, "data": {"like": WORD}}),
    ("suspend_run", {**STATE, "claim": CLAIM}),
    ("decide_run", {"run_id": "r1", "decisions": [{"decision": "deny", "data": {"why": WORD}}]}),
    ("cancel_run", {"run_id": "r1", "reason": WORD}),
    ("start_run", {**MAIN, "run_id": "r2", "state": WORD, "workflow_id": WORD}),
    ("update_run", {"run_id": "r2", "claim": CLAIM, "state": {"saw": WORD}, "steps": [step(WORD)]}),
    *(
        write
        for status in ("completed", "failed", "cancelled")
        for write in (
            ("suspend_run", {**MAIN, **STATE, "run_id": status}),
            ("resume_run", {"run_id": status}),
            ("complete_run", {"run_id": status, "claim": CLAIM, "status": status, "output": WORD}),
        )
    ),
    ("remember", {"content": f"likes a {WORD}"}),
    ("forget", {"ids": KEPT}),
]
DELETIONS: list[tuple[str, Json]] = [
    ("delete_messages", {**MAIN, "which": "last_turn"}),
    ("delete_thread", MAIN),
]
# Every tool that writes: of those without a call above, the sample call.
_OTHERS = (list_writers() & SAMPLE_CALLS.keys()) - OF_JOBS - OF_ERASING - {tool for tool, _ in [*CHANGES, *DELETIONS]}
WRITES = [*CHANGES, *((tool, sample_call(tool, {"tea": WORD})) for tool in sorted(_OTHERS)), *DELETIONS]

# Those that no tool's call above writes: a restore on the command line, what maintenance does, and background work.
OF_OTHERS = {
    "thread_restored",
    "messages_restored",
    "run_expired",
    "summary_updated",
    "memory_redacted",
    "memory_erased",
}
OF_OTHERS |= {"observations_added", "observations_activated", "observations_reflected"}


def test_every_tool_that_writes_is_among_the_writes() -> None:
    pages = {each.name for each in OF_PAGES}
    assert list_writers() - pages == {tool for tool, _ in WRITES} | OF_JOBS | OF_ERASING


async def test_every_change_leaves_an_event_with_who_and_how_and_without_a_word_of_it(tools: Tools) -> None:
    places: list[Json] = [{"thread_id": "main"}, {"scope": "resource"}]
    covered = [0, 0]
    claim = kept = ""
    seen: set[str] = set()
    for tool, arguments in WRITES:
        told = {CLAIM: claim, str(KEPT): [kept]}
        given = {key: told.get(str(value), value) for key, value in arguments.items()}
        answer = await tools(tool, **given)
        kept = answer.get("id", "") if isinstance(answer, dict) else ""
        claim = answer.get("claim", "") if isinstance(answer, dict) else ""
        news: list[Json] = []
        for place, arguments_of in enumerate(places):
            if tool == "delete_thread" and place == 0:
                continue
            page = await log(tools, after=covered[place], **arguments_of)
            news += page["events"]
            covered[place] = page["next"]
        assert news, f"{tool} left no event"
        assert {(event["tool"], event["by"]) for event in news} == {(tool, BY)}, tool
        assert WORD not in json.dumps(news), tool
        seen.update(event["type"] for event in news)
    assert seen == set(SERVER_EVENTS) - OF_OTHERS


async def test_what_changes_nothing_and_what_is_refused_leaves_no_event(tools: Tools) -> None:
    await tools.add("main", {"role": "user", "content": "hello", "id": "m1"})
    before = [await log(tools, thread_id="main"), await log(tools, scope="resource")]
    await tools.add("main", {"role": "user", "content": "hello", "id": "m1"})
    await tools.refused("add_messages", messages=[{"role": "user", "content": "other", "id": "m1"}], thread_id="main")
    await tools.refused("delete_messages", which="ids", ids=["m9"], thread_id="main")
    await tools.refused("record_steps", steps=[step(), {"type": "text"}], thread_id="main")
    await tools("list_steps", thread_id="main")
    await tools("get_messages", thread_id="main")
    await tools("list_threads")
    assert [await log(tools, thread_id="main"), await log(tools, scope="resource")] == before


async def test_an_event_tells_its_seq_its_type_who_how_when_and_what(tools: Tools) -> None:
    await tools.say("main", "hello", "there")
    page = await log(tools, thread_id="main")
    (event,) = page["events"]
    thread = (await tools("list_threads", thread_id="main"))["threads"][0]
    assert event == {
        "seq": 1,
        "type": "messages_added",
        "by": BY,
        "tool": "add_messages",
        "at": thread["updated_at"],
        "payload": {"seqs": [1, 2]},
    }
    assert (page["next"], page["last_seq"], page["more"]) == (1, 1, False)


async def test_next_continues_pages_and_looks_without_a_gap(tools: Tools) -> None:
    for n in range(5):
        await tools("update_thread", thread_id="main", title=str(n))
    seen, after = [], 0
    for expected in ([1, 2], [3, 4], [5], []):
        page = await log(tools, thread_id="main", after=after, limit=2)
        assert [event["seq"] for event in page["events"]] == expected
        assert (page["more"], page["last_seq"]) == (len(expected) == 2, 5)
        after = page["next"]
        seen += expected
    assert after == 5
    await tools.say("main", "hello")
    assert await types_of(tools, thread_id="main", after=after) == ["messages_added"]


async def test_types_narrow_the_log_and_next_passes_over_the_others(tools: Tools) -> None:
    await tools.say("main", "hello")
    for n in range(3):
        await tools("update_thread", thread_id="main", title=str(n))
    page = await log(tools, thread_id="main", types=["messages_added"])
    assert ([event["seq"] for event in page["events"]], page["next"], page["more"]) == ([1], 4, False)
    page = await log(tools, thread_id="main", types=["steps_recorded", "Error"])
    assert (page["events"], page["next"], page["last_seq"]) == ([], 4, 4)
    page = await log(tools, thread_id="main", types=["thread_updated"], limit=2)
    assert ([event["seq"] for event in page["events"]], page["next"], page["more"]) == ([2, 3], 3, True)
    error = await tools.refused("list_events", thread_id="main", types=["message_added"])
    assert "types: unknown type 'message_added'" in error
    assert "did you mean 'messages_added'?" in error
    assert all(type_ in error for type_ in (*SERVER_EVENTS, *AGENT_EVENTS))


async def test_the_resource_has_a_log_of_the_coming_and_going_of_threads(tools: Tools) -> None:
    assert await log(tools, scope="resource") == {"events": [], "next": 0, "last_seq": 0, "more": False}
    await tools.say("a", "hello")
    await tools.say("b", "hello")
    await tools.say("a", "again")
    await tools("delete_thread", thread_id="a")
    events = (await log(tools, scope="resource"))["events"]
    assert [(event["seq"], event["type"], event["payload"]) for event in events] == [
        (1, "thread_created", {"thread_id": "a"}),
        (2, "thread_created", {"thread_id": "b"}),
        (3, "thread_deleted", {"thread_id": "a"}),
    ]
    assert await types_of(tools, scope="resource", types=["thread_deleted"]) == ["thread_deleted"]
    assert "thread_id: belongs to scope='thread'" in await tools.refused("list_events", scope="resource", thread_id="b")


async def test_a_cursor_beyond_the_log_is_told_that_the_log_began_anew(tools: Tools) -> None:
    for _ in range(3):
        await tools.say("main", "hello")
    after = (await log(tools, thread_id="main"))["next"]
    assert (await log(tools, thread_id="main", after=after))["events"] == []
    await tools("delete_thread", thread_id="main")
    assert "beyond the newest event, 0" in await tools.refused("list_events", thread_id="main", after=after)
    assert (await log(tools, thread_id="main"))["events"] == []
    await tools.say("main", "anew")
    error = await tools.refused("list_events", thread_id="main", after=after)
    assert "after: 3 is beyond the newest event, 1" in error
    assert "after=0" in error
    assert await types_of(tools, thread_id="main") == ["messages_added"]
    await tools.refused("list_events", thread_id="main", after=2**63)
    await tools.refused("list_events", thread_id="main", after=-1)


async def test_a_page_of_large_events_ends_early(tools: Tools) -> None:
    large = {"type": "TurnEnd", "payload": {"text": "x" * 60_000}}
    await tools("record_steps", steps=[large] * 9, thread_id="main")
    page = await log(tools, thread_id="main")
    assert (len(page["events"]), page["next"], page["more"]) == (Limits().answer_bytes // (2 * 60_200), 8, True)
    seqs = [event["seq"] for event in page["events"]]
    while page["more"]:
        page = await log(tools, thread_id="main", after=page["next"])
        seqs += [event["seq"] for event in page["events"]]
    assert seqs == list(range(1, 10))


async def test_the_log_is_of_the_callers_scope_alone(connect: Connect) -> None:
    async with connect(toolsets="all", resource="ana") as ana, connect(toolsets="all", resource="ben") as ben:
        await ana.say("main", "hello")
        assert await log(ben, thread_id="main") == await log(ben, thread_id="nobody")
        foreign = await ben.refused("list_events", thread_id="main", after=1)
        assert foreign == await ben.refused("list_events", thread_id="nobody", after=1)
        assert (await log(ben, scope="resource"))["last_seq"] == 0
        await ben.say("main", "mine")
        assert (await log(ben, thread_id="main"))["last_seq"] == 1


async def write(tools: Tools, seed: int) -> None:
    """Any of the writes, in one of two threads, or in one of its own that comes and goes."""
    rng = random.Random(seed)
    for _ in range(8):
        thread = rng.choice(["main", "other"])
        match rng.randrange(5):
            case 0:
                await tools.say(thread, *["hello"] * rng.randint(1, 3))
            case 1:
                events = [{"type": type_} for type_ in rng.sample(AGENT_EVENTS, 2)]
                await tools("record_steps", steps=[events[0], step(), events[1]], thread_id=thread)
            case 2:
                await tools("update_thread", thread_id=thread, title=str(rng.random()))
            case 3:
                await tools.refused("record_steps", steps=[step() | {"message_id": "none"}], thread_id=thread)
            case _:
                await tools.say(f"brief {seed}", "hello")
                await tools("delete_thread", thread_id=f"brief {seed}")


async def follow(tools: Tools, done: asyncio.Event, **arguments: Any) -> list[int]:
    """The seqs that a reader sees who goes on from ``next``, until the writers have ended and all is read."""
    seen: list[int] = []
    after = 0
    while True:
        last_look = done.is_set()
        page = await log(tools, after=after, limit=5, **arguments)
        seen += [event["seq"] for event in page["events"]]
        assert page["next"] <= page["last_seq"]
        after = page["next"]
        if last_look and not page["more"]:
            return seen


@pytest.mark.databases
async def test_a_reader_sees_every_seq_once_and_in_order_while_two_servers_write(connect: Connect) -> None:
    done = asyncio.Event()
    async with connect(toolsets="all") as one, connect(toolsets="all") as two:
        for name in ("main", "other"):
            await one.say(name, "hello")

        async def write_all() -> None:
            await asyncio.gather(*(write((one, two)[seed % 2], seed) for seed in range(4)))
            done.set()

        places: Sequence[Json] = ({"thread_id": "main"}, {"thread_id": "other"}, {"scope": "resource"})
        async with asyncio.TaskGroup() as group:
            readers = [group.create_task(follow(on, done, **place)) for on in (one, two) for place in places]
            group.create_task(write_all())
        last = [(await log(one, **place))["last_seq"] for place in places]
        assert min(last) > 5
        assert [reader.result() for reader in readers] == [list(range(1, seq + 1)) for seq in last] * 2
