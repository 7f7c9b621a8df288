"""More room never shows less, and room is used while something is left out: random threads, policies and rooms."""

import random
import re
import uuid
from itertools import count

import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

from layerlore.memory.parts.tokens import load_counter

from ...server.tools.calling import Json, Tools, examples

pytestmark = pytest.mark.anyio

COUNTER = load_counter()
LEAST_USED = 0.92
ONE_PIECE = 250
"""The tokens that may stay in a small room: less than the next line of a memory and the next message need."""
SUMMARY = 200
"""The tokens of a summary by default."""
# With less, the newest messages have no room as a whole: one may be cut shorter for the sake of one that had none.
ROOMS = (3000, 4100, 6000, 8000, 12_000, 16_000)
WORDS = [
    "the",
    "pods",
    "were",
    "drained",
    "before",
    "noon",
    "and",
    "nobody",
    "noticed",
    "while",
    "graphs",
    "stayed",
    "flat",
    "over",
    "lunch",
    "again",
]


def make_thread(seed: int) -> list[Json]:
    """Messages in which every value stands once: short talk, long texts, calls and their results."""
    draw = random.Random(seed)
    said: list[Json] = []
    values = count()

    def text(words: int) -> str:
        pieces = draw.choices(WORDS, k=words)
        pieces.insert(draw.randint(0, words), f"V{seed}-{next(values)}")
        return " ".join(pieces) + "."

    for turn in range(draw.randint(1, 40)):
        size = draw.choice((5, 20, 60, 300))
        rule = draw.choice(("", "Never do that again: ", "I live at ", "No, I meant "))
        said.append({"role": "user", "content": rule + text(draw.choice((4, 12, 40)))})
        for call in range(draw.randint(0, 3)):
            id_ = f"c{turn}-{call}"
            function = {"name": "search", "arguments": f'{{"q": "{text(3)}"}}'}
            said.append({"role": "assistant", "tool_calls": [{"id": id_, "type": "function", "function": function}]})
            said.append({"role": "tool", "tool_call_id": id_, "content": text(size)})
        said.append({"role": "assistant", "content": text(draw.choice((5, 30, 80)))})
    return said


SHAPES = ["openai", "responses", "anthropic", "gemini", "ai-sdk"]
# A smaller seed is no simpler thread.
TRIALS = settings(examples(5), phases=[Phase.generate])
POLICIES = st.sampled_from(
    [
        {},
        {},
        {"last_messages": 5},
        {"blank_tool_results": True},
        {"limit": "messages", "max_messages": 30},
        {"limit": "messages", "max_messages": 12, "summarise": True},
        {"limit": "tokens", "max_tokens": 1500, "min_messages": 4},
        {"limit": "tokens", "max_tokens": 3000, "drop": "middle", "summarise": True},
    ]
)


async def filled(tools: Tools, said: list[Json], policy: Json) -> str:
    thread = f"t-{uuid.uuid4()}"
    if policy:
        await tools("update_thread", thread_id=thread, window=policy)
    for start in range(0, len(said), 100):
        await tools.add(thread, *said[start : start + 100])
    return thread


@TRIALS
@given(seed=st.integers(0, 10**6), policy=POLICIES, form=st.sampled_from(["text", "json", *SHAPES]))
async def test_with_more_room_all_that_was_shown_is_still_shown(
    all_tools: Tools, seed: int, policy: Json, form: str
) -> None:
    thread = await filled(all_tools, make_thread(seed), policy)
    if policy.get("summarise") and policy.get("max_tokens"):
        # Messages and summary share such a limit: where a thread just fits, its summary has what its messages leave.
        (listed,) = (await all_tools("list_threads", thread_id=thread))["threads"]
        assume(not policy["max_tokens"] - SUMMARY < listed["tokens"] <= policy["max_tokens"])
    before: set[str] = set()
    for room in ROOMS:
        told = await all_tools("get_context", thread_id=thread, max_tokens=room, format=form)
        shown = {*re.findall(rf"V{seed}-\d+(?![\d…]|\\u2026)", str(told))}
        assert before <= shown, f"with {room} tokens {before - shown} are not shown any more"
        before = shown


@TRIALS
@given(seed=st.integers(0, 10**6), policy=st.sampled_from([{}, {"last_messages": 3}, {"last_messages": 60}]))
async def test_room_is_used_while_something_is_left_out(all_tools: Tools, seed: int, policy: Json) -> None:
    thread = await filled(all_tools, make_thread(seed), policy)
    for room in (2000, *ROOMS):
        text = await all_tools("get_context", thread_id=thread, max_tokens=room)
        used = COUNTER.text(text)
        assert used <= room
        is_used = used >= min(LEAST_USED * room, room - ONE_PIECE)
        assert is_used or "left out:" not in text.splitlines()[-1], f"{used} of {room}"


async def test_beside_a_message_that_must_be_cut_room_is_used_whatever_is_recalled(all_tools: Tools) -> None:
    for pier in range(2, 5):
        await all_tools.say("old", f"The depot on pier {pier} stores {pier * 40} crates of slate.")
    lines = "\n".join(f"crate {crate} weighs {crate % 97} kg on row {crate % 31}" for crate in range(3000))
    report = [f"On row {row} the slate from pier {row + 4} is wrapped {row * 3} times." for row in range(1, 25)]
    await all_tools.say("main", "Here is the list.", lines, *(f"Row {row} is checked." for row in range(6)))
    await all_tools.say("main", " ".join(report), "Which depot stores the crates of slate, on which pier?")
    for room in range(1600, 3200, 200):
        text = await all_tools("get_context", thread_id="main", max_tokens=room)
        used = COUNTER.text(text)
        assert LEAST_USED * room <= used <= room, f"{used} of {room}: {text.splitlines()[-1]}"
