"""What a provider's prompt cache could reuse of consecutive contexts, over many turns."""

import contextlib
import json
from collections.abc import AsyncIterator
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from mcp import Client

from benchmarks.servers import call
from benchmarks.turns import TOOL_EVERY, Call, converse, shared_beginning
from layerlore.server.runtime.tool_server import build_server
from layerlore.server.settings.settings import load_settings

pytestmark = pytest.mark.anyio

TURNS = 200

Json = dict[str, Any]


@contextlib.asynccontextmanager
async def opened(**flags: Any) -> AsyncIterator[Call]:
    """The calls of a client whose server keeps nothing."""
    settings = load_settings({"database": "sqlite://:memory:", "embedding": {"embedder": "none"}, **flags}, environ={})
    async with Client(build_server(settings)) as client:
        yield partial(call, client)


@pytest.fixture
async def tools() -> AsyncIterator[Call]:
    """Calls where contexts tell no memories: these stand behind all that a cache keeps, and are others every turn."""
    async with opened(context={"memory": False}) as call_tools:
        yield call_tools


def contexts_of(kept: list[str]) -> list[list[Json]]:
    return [[json.loads(line) for line in context.split("\n")] for context in kept]


def stable(messages: list[Json]) -> list[Json]:
    """A context up to the newest user message, in front of which its turn has what is recalled for it."""
    # In the middle of a turn the plan stands at the end.
    in_turn = [message["role"] for message in messages[-2:-1]] == ["tool"]
    asked = max(at for at, message in enumerate(messages[: -1 if in_turn else None]) if message["role"] == "user")
    return messages[:asked]


@pytest.mark.parametrize(
    ("memory", "turns"),
    [(True, 60), (False, 100), *(pytest.param(memory, TURNS, marks=pytest.mark.soak) for memory in (True, False))],
)
async def test_over_many_turns_a_context_begins_like_the_one_before_until_its_window_moves_on(
    memory: bool, turns: int
) -> None:
    async with opened(context={"memory": memory}) as tools:
        reuse = await converse(tools, "main", turns, keep=True)
    contexts = contexts_of(reuse.contexts)
    assert len(contexts) == turns + turns // TOOL_EVERY
    moved = 0
    for before, after in pairwise(contexts):
        if stable(before) == after[: len(stable(before))]:
            continue
        moved += 1
        assert after[0] != before[0], "the window moved on, and its summary with it"
    # A window that leaves a quarter to memories is shorter, and moves on more often.
    assert 1 <= moved <= (turns // 3 if memory else turns // 7)
    assert memory or reuse.share > 0.8
    assert memory == any("<memory>" in context for context in reuse.contexts)
    assert max(len(context) for context in reuse.contexts) < 8000 * 8


async def test_continuous_trimming_loses_the_cache_every_turn_and_threshold_trimming_does_not(tools: Call) -> None:
    await tools("update_thread", thread_id="continuous", window={"limit": "messages"})
    threshold = {"limit": "messages", "trim": "threshold", "threshold": 60, "target": 20}
    await tools("update_thread", thread_id="threshold", window=threshold)
    continuous = await converse(tools, "continuous", 60)
    kept = await converse(tools, "threshold", 60)
    assert continuous.share < 0.5 < 0.75 < kept.share
    assert kept.lost < 10 < continuous.lost


def test_what_two_texts_begin_with_in_common_is_counted_in_characters() -> None:
    assert [shared_beginning(*pair) for pair in (("", "a"), ("abc", "abd"), ("ab", "ab"), ("xa", "a"))] == [0, 2, 2, 0]
