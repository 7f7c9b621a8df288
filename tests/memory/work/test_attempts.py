"""log_attempt: numbered by task, kept as given, masked."""

import asyncio
import random

import pytest

from ...server.tools.calling import Connect, Json, Tools

pytestmark = pytest.mark.anyio


KEY = "layerlore/idempotency-key"
MOST = 8 * 1024


async def log(tools: Tools, action: str = "boil", task_key: str = "tea", **arguments: object) -> Json:
    answer: Json = await tools(
        "log_attempt", **{"task_key": task_key, "action": action, "result": "hot", "thread_id": "main", **arguments}
    )
    return answer


async def lines(tools: Tools, task_key: str = "tea", thread_id: str = "main") -> list[str]:
    told = await tools(
        "get_briefing", task="x", task_key=task_key, thread_id=thread_id, max_tokens=20_000, format="json"
    )
    found: list[str] = told.get("previous_attempts", [])
    return found


@pytest.mark.databases
async def test_attempts_are_numbered_by_task_and_conversation(all_tools: Tools) -> None:
    assert await log(all_tools) == {"thread_id": "main", "task_key": "tea", "attempt": 1}
    assert await log(all_tools) == {"thread_id": "main", "task_key": "tea", "attempt": 2}
    assert (await log(all_tools, task_key="cake"))["attempt"] == 1
    assert (await log(all_tools, thread_id="other"))["attempt"] == 1
    assert len(await lines(all_tools)) == 2
    assert len(await lines(all_tools, "cake")) == 1
    assert await lines(all_tools, "bread") == []


async def test_an_attempt_is_one_line_with_what_it_has(all_tools: Tools) -> None:
    await log(all_tools, "boil\r\n the water", result="x" * 201)
    await log(all_tools, result="y" * 200, diagnosis="cold\nkettle", fix_applied="plugged\u2028in")
    await log(all_tools, result="", error="  no\n\npower ")
    await log(all_tools, result="sparks", error="fuse", fix_applied="new fuse", diagnosis=" ")
    assert await lines(all_tools) == [
        f"Attempt 1: boil the water → {'x' * 199}…",
        f"Attempt 2: boil → {'y' * 200} | Diagnosis: cold kettle | Fix applied: plugged in",
        "Attempt 3: boil → FAILED: no power",
        "Attempt 4: boil → FAILED: fuse | Fix applied: new fuse",
    ]


@pytest.mark.databases
async def test_concurrent_attempts_are_numbered_without_a_gap(connect: Connect) -> None:
    async with connect(toolsets="all") as one, connect(toolsets="all") as two:
        logged = await asyncio.gather(*(log(tools, str(n)) for n, tools in enumerate([one, two] * 10)))
        assert sorted(each["attempt"] for each in logged) == list(range(1, 21))
        told = {f"Attempt {each['attempt']}: {n} → hot" for n, each in enumerate(logged)}
        assert set(await lines(one)) == told


async def test_attempts_outlive_the_connection_and_are_their_scopes_own(connect: Connect) -> None:
    async with connect(toolsets="all") as tools:
        await log(tools)
    async with connect(toolsets="all") as tools, connect(toolsets="all", resource="ben") as other:
        assert (await log(other))["attempt"] == 1
        assert (await log(tools))["attempt"] == 2
        assert len(await lines(other)) == 1


async def test_a_request_sent_again_logs_once(connect: Connect) -> None:
    body: Json = {"task_key": "tea", "action": "boil", "result": "hot"}
    async with connect(toolsets="all") as tools:
        first = await tools("log_attempt", **body, meta={KEY: "k"})
    async with connect(toolsets="all") as tools:
        assert await tools("log_attempt", **body, meta={KEY: "k"}) == first
        assert "new key" in await tools.refused("log_attempt", **{**body, "action": "fry"}, meta={KEY: "k"})
        assert len(await lines(tools, thread_id=first["thread_id"])) == 1


async def test_each_text_has_at_most_8_kib(all_tools: Tools) -> None:
    fits = "é" * (MOST // 2)
    await log(all_tools, fits, result=fits, error=fits, diagnosis=fits, fix_applied=fits)
    for name in ("action", "result", "error", "diagnosis", "fix_applied"):
        body = {"task_key": "tea", "action": "boil", "result": "hot", name: fits + "x", "thread_id": "main"}
        assert f"{name}: 8,193 bytes; at most 8,192 are allowed" in await all_tools.refused("log_attempt", **body)
    assert len(await lines(all_tools)) == 1


WRONG: list[tuple[Json, str]] = [
    ({"task_key": ""}, "task_key: must not be empty"),
    ({"task_key": "k" * 256}, "task_key: 256 characters; at most 255 are allowed"),
    ({"task_key": "a\nb"}, "task_key: character 1 is the control character"),
    ({"action": " "}, "action: must not be empty; say what was tried"),
    ({"result": ""}, "result: must not be empty; say how it ended, here or in error"),
    ({"result": " ", "error": "\n"}, "result: must not be empty"),
    ({"error": "\ud800"}, "error: character 0 is half of a surrogate pair"),
    ({"diagnosis": "\x00"}, "diagnosis: character 0 is NUL"),
    ({"result": {"ok": True}}, "result: "),
]


async def test_an_attempt_that_says_nothing_is_refused(all_tools: Tools) -> None:
    for wrong, told in WRONG:
        body = {"task_key": "tea", "action": "boil", "result": "hot", "thread_id": "main", **wrong}
        assert told in await all_tools.refused("log_attempt", **body), wrong
    assert (await all_tools("list_threads"))["threads"] == []


async def test_secrets_are_masked_everywhere_and_a_key_with_one_is_still_one_key(all_tools: Tools) -> None:
    secret = "gh" + "p_" + "".join(random.Random(6).choices("abcdefghijkLMNOP0123456789", k=36))
    named = {name: f"{name} {secret}" for name in ("action", "result", "error", "diagnosis", "fix_applied")}
    logged = await log(all_tools, **{**named, "task_key": f"use {secret}"})
    assert (logged["masked"], logged["attempt"]) == (6, 1)
    assert secret not in logged["task_key"]
    assert (await log(all_tools, task_key=f"use {secret}"))["attempt"] == 2
    (first, _) = await lines(all_tools, f"use {secret}")
    assert secret not in first
    assert await lines(all_tools, logged["task_key"]) == await lines(all_tools, f"use {secret}")
