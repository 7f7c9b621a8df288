"""A limit in tokens holds: no answer reports or takes more than was asked for, with all that is recalled."""

import random
import re

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from layerlore.memory.parts.tokens import load_counter

from ...memory.context.test_context_room import filled, make_thread
from .calling import Json, Tools, examples, text_of

pytestmark = pytest.mark.anyio

COUNTER = load_counter()
TRIALS = settings(examples(6), phases=[Phase.generate])
ROOMS = (500, 700, 1000, 2000, 3000, 8000)
LIMITS = st.sampled_from(
    [
        {"limit": "tokens", "max_tokens": 2000},
        {"limit": "tokens", "max_tokens": 1500, "drop": "middle"},
        {"limit": "tokens", "max_tokens": 900, "summarise": True},
        {"limit": "tokens", "max_tokens": 2000, "min_messages": 2},
    ]
)


async def remember_much(tools: Tools) -> None:
    """Much to recall in other conversations, and a profile."""
    for number in range(3):
        await tools.add(f"old-{number}", *make_thread(number)[:60])
    lines = "\n".join(f"- line {number} of the profile" for number in range(40))
    await tools("update_working_memory", content=lines, scope="resource", mode="replace")


async def reported(tools: Tools, form: str, **arguments: object) -> int:
    """The tokens that a context says it has."""
    answer = await tools("get_context", format=form, query="Which pods were drained before noon?", **arguments)
    if form != "text":
        return int(answer["report"]["tokens"])
    found = re.search(r"about ([\d,]+) of", answer.splitlines()[-1])
    assert found
    return int(found[1].replace(",", ""))


@TRIALS
@given(seed=st.integers(0, 10**6), form=st.sampled_from(["text", "json", "openai"]), policy=st.just({}) | LIMITS)
async def test_a_context_reports_no_more_tokens_than_were_asked_for(
    all_tools: Tools, seed: int, form: str, policy: Json
) -> None:
    await remember_much(all_tools)
    thread = await filled(all_tools, make_thread(seed), policy)
    for room in ROOMS:
        tokens = await reported(all_tools, form, thread_id=thread, max_tokens=room)
        assert tokens <= min(room, policy.get("max_tokens", room)), room


async def test_with_a_limit_in_tokens_what_is_recalled_counts_too(all_tools: Tools) -> None:
    await remember_much(all_tools)
    policy = {"limit": "tokens", "max_tokens": 2000}
    thread = await filled(all_tools, make_thread(7), policy)
    context = await all_tools("get_context", thread_id=thread, format="json", query="Which pods were drained?")
    blocks = {each["block"]: each["tokens"] for each in context["report"]["blocks"]}
    assert {"memory", "conversation"} <= blocks.keys()
    assert sum(blocks.values()) <= 2000


async def test_the_messages_that_are_always_shown_may_exceed_a_limit_in_tokens(all_tools: Tools) -> None:
    policy = {"limit": "tokens", "max_tokens": 100, "min_messages": 4}
    said = [{"role": "user", "content": f"V{number} " + "word " * 80} for number in range(8)]
    thread = await filled(all_tools, said, policy)
    shown = await all_tools("get_context", thread_id=thread, format="json")
    text = str(shown)
    assert [number for number in range(8) if f"V{number} " in text] == [4, 5, 6, 7]


@TRIALS
@given(seed=st.integers(0, 10**6), over=st.integers(0, 2500))
async def test_the_line_on_a_default_thread_counts_too(all_tools: Tools, seed: int, over: int) -> None:
    draw = random.Random(seed)
    await all_tools("add_messages", messages=make_thread(seed)[:80])
    calls: list[tuple[str, int, Json]] = [
        ("get_context", 500, {}),
        ("get_messages", 200, {"detail": draw.choice(["low", "normal"])}),
        ("get_briefing", 300, {"task": "Drain the pods."}),
    ]
    for tool, least, more in calls:
        answer = text_of(await all_tools.raw(tool, max_tokens=least + over, **more))
        assert "default thread" in answer
        assert COUNTER.text(answer) <= least + over, tool
