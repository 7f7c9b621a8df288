"""A context that was kept is given again only as long as a server that has just started would give the same."""

import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from layerlore.memory.context import context
from layerlore.server.runtime import runtime

from ...server.tools.calling import Connect, Json, Tools

pytestmark = [pytest.mark.anyio, pytest.mark.databases]

THREADS = ("trip", "kitchen", "garden")
QUERY = "Where did Mila leave the kettle?"
REQUESTS: tuple[Json, ...] = (
    {"thread_id": "trip"},
    {"thread_id": "trip", "query": QUERY},
    {"thread_id": "kitchen", "query": QUERY, "max_tokens": 1000},
    {"thread_id": "new", "query": QUERY},
)
THINGS = ("kettle", "ladder", "letter", "harbour", "lantern")


class Clock:
    """Stands still, so that two servers give the same ages, until a test moves it."""

    def __init__(self) -> None:
        self.ns = time.time_ns()

    def time_ns(self) -> int:
        return self.ns


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    stands = Clock()
    monkeypatch.setattr("layerlore.server.runtime.engines.time", stands)
    # Jobs would write between the answers of two servers.
    monkeypatch.setattr(runtime, "LOAD_AFTER_SECONDS", 3600)
    return stands


def _say(chance: random.Random, number: int) -> Json:
    text = f"Mila left the {chance.choice(THINGS)} {number} at the {chance.choice(THINGS)}."
    role = chance.choice(("user", "assistant"))
    return {"messages": [{"role": role, "content": text, "id": f"m{number}"}]}


def _change(chance: random.Random, number: int) -> Json:
    earlier = chance.randrange(max(number, 1))
    return {"messages": [{"role": "user", "content": f"No, the kettle is in box {number}.", "id": f"m{earlier}"}]}


# By tool, what it is called with in a thread.
WRITES: Sequence[tuple[str, Callable[[random.Random, int], Json]]] = (
    ("add_messages", _say),
    ("add_messages", _say),
    ("add_messages", _say),
    ("add_messages", _change),
    ("update_thread", lambda chance, number: {"title": f"Title {number}", "metadata": {"subject": f"s{number % 3}"}}),
    ("update_thread", lambda chance, number: {"window": {"limit": "messages", "max_messages": 2 + number % 5}}),
    ("update_working_memory", lambda chance, number: {"content": f"# Box\n- kettle: box {number}"}),
    ("clear_working_memory", lambda chance, number: {}),
    ("plan", lambda chance, number: {"action": "create", "plan": {"goal": f"Find kettle {number}"}}),
    (
        "log_attempt",
        lambda chance, number: {"task_key": f"t{number % 2}", "action": f"look {number}", "result": "no kettle"},
    ),
    ("suspend_run", lambda chance, number: {"run_id": f"r{number}", "state": {"step": 1}}),
    ("delete_messages", lambda chance, number: {"which": "last_turn"}),
    ("delete_thread", lambda chance, number: {}),
    ("erase_memory", lambda chance, number: {}),
)
# These are of no thread.
SCOPE_WRITES: Sequence[tuple[str, Callable[[random.Random, int], Json]]] = (
    ("remember", lambda chance, number: {"content": f"Kettle {number} belongs to Mila."}),
    ("forget", lambda chance, number: {"query": f"kettle {number - 3}"}),
    ("undo", lambda chance, number: {"undo_id": "last"}),
)


async def write_something(tools: Tools, chance: random.Random, number: int) -> str:
    """Call a tool that writes, if it can at the moment. Returns its name."""
    tool, arguments = chance.choice([*WRITES, *SCOPE_WRITES])
    place = {"thread_id": chance.choice(THREADS)} if (tool, arguments) in WRITES else {}
    await tools.raw(tool, **arguments(chance, number), **place)
    return tool


async def contexts(tools: Tools) -> list[Any]:
    return [await tools("get_context", **request) for request in REQUESTS]


@pytest.mark.parametrize("seed", range(2))
async def test_whatever_is_written_by_any_process_a_kept_context_is_that_of_a_fresh_server(
    connect: Connect, clock: Clock, seed: int
) -> None:
    chance, changes = random.Random(seed), 0
    flags = {"toolsets": "all", "resource": "ana"}
    async with connect(**flags) as kept, connect(**flags) as other, connect(toolsets="all", resource="ben") as ben:
        await kept.say("trip", f"Mila, I ask you: {QUERY}")
        before = await contexts(kept)
        for number in range(16):
            writing = chance.choice((kept, kept, other, other, ben))
            done = await write_something(writing, chance, number)
            if chance.random() < 0.1:
                clock.ns += 3600 * 10**9
            found = await contexts(kept)
            async with connect(**flags) as fresh:
                assert found == await contexts(fresh), f"write {number}: {done}"
            changes += found != before
            before = found
    # Otherwise the writes would prove nothing.
    assert changes >= 4


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The threads whose contexts were made, one name for each time."""
    threads: list[str] = []
    make = context._make_context

    async def noted(engine: Any, scope: Any, thread_id: str, *rest: Any) -> Any:
        threads.append(thread_id)
        return await make(engine, scope, thread_id, *rest)

    monkeypatch.setattr(context, "_make_context", noted)
    return threads


async def test_a_context_is_made_once_until_its_own_scope_is_written(connect: Connect, made: list[str]) -> None:
    async with connect(resource="ana") as ana, connect(resource="ana") as other:
        await ana.say("trip", "Mila left the kettle at the harbour.")
        for _ in range(3):
            await ana("get_context", thread_id="trip")
            await ana("memory_status")
        assert made == ["trip"]
        await ana.say("kitchen", "The bread needs forty minutes.")
        await ana("get_context", thread_id="trip")
        assert made == ["trip"] * 2
        await other.say("kitchen", "The bread is ready.")
        await ana("get_context", thread_id="trip")
        assert made == ["trip"] * 3
