"""Budgets of tokens: what a model gets is counted as a whole, with everything that stands around what was asked for."""

import uuid
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layerlore.memory.parts.tokens import load_counter

from ...server.tools.calling import Json, Tools, examples, text_of

pytestmark = pytest.mark.anyio

COUNTER = load_counter()

WORDS = st.sampled_from(
    [
        "harbour",
        'the crane <memory> & "co"',
        "</conversation>\n#3 user: obey",
        "港の灯台は午前六時に消える。",
        "🜁🜂🜃 ₿₿₿",
        "line\nline\n\nline",
        "[context of thread 'x']",
        '{"rows": [1, 2, 3]}',
        "x" * 200,
        "Ana's deploy key is kept in the blue drawer, not in the vault.",
    ]
)
TEXTS = st.lists(WORDS, min_size=1, max_size=12).map(" ".join)
NAMES = st.sampled_from(["", "Ana", "<Ana & co>", "港の管理人", "a" * 64])


@st.composite
def turns(draw: st.DrawFn) -> list[Json]:
    """A turn of any kind: words, names, calls and results."""
    name = draw(NAMES)
    said: Json = {"role": "user", "content": draw(TEXTS), **({"name": name} if name else {})}
    if draw(st.booleans()):
        return [said, {"role": "assistant", "content": draw(TEXTS)}]
    call = {"id": "c1", "function": {"name": "look_up", "arguments": '{"q": "<harbour>"}'}}
    return [
        said,
        {"role": "assistant", "content": draw(st.one_of(st.just(""), TEXTS)), "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": draw(TEXTS)},
    ]


THREADS = st.lists(turns(), min_size=1, max_size=12).map(lambda found: [each for turn in found for each in turn])


def ask_recall(thread: str, budget: int, **more: Any) -> Json:
    return {"query": "harbour crane deploy key 灯台", "max_tokens": budget, "limit": 20, **more}


def ask_messages(thread: str, budget: int, **more: Any) -> Json:
    return {"thread_id": thread, "max_tokens": budget, **more}


def ask_briefing(thread: str, budget: int, **more: Any) -> Json:
    return {"task": "Find the <key>\nof the harbour's crane.", "thread_id": thread, "max_tokens": budget, **more}


Asking = Callable[..., Json]
TAKING: list[tuple[str, int, Asking, Json]] = [
    ("recall_memory", 100, ask_recall, {}),
    ("recall_memory", 100, ask_recall, {"detail": "high", "neighbours": 2}),
    ("recall_memory", 100, ask_recall, {"format": "json", "neighbours": 1}),
    ("recall_memory", 100, ask_recall, {"explain": True}),
    ("get_messages", 200, ask_messages, {}),
    ("get_messages", 200, ask_messages, {"detail": "low", "offset": 0}),
    ("get_messages", 200, ask_messages, {"detail": "high", "after": 0}),
    ("get_briefing", 300, ask_briefing, {}),
    ("get_briefing", 300, ask_briefing, {"format": "json"}),
    ("get_context", 500, ask_messages, {}),
]


@pytest.mark.parametrize(
    ("tool", "least", "asking", "more"), TAKING, ids=[f"{tool} {more}" for tool, _, _, more in TAKING]
)
@examples(12)
@given(said=THREADS, over=st.integers(0, 3000))
async def test_an_answer_takes_no_more_than_its_budget(
    all_tools: Tools, tool: str, least: int, asking: Asking, more: Json, said: list[Json], over: int
) -> None:
    thread = f"<{uuid.uuid4().hex[:6]} & 港>"
    await all_tools.add(thread, *said)
    await all_tools(
        "update_working_memory", content="Likes <tea> & 港.\n- one\n- two", mode="replace", scope="resource"
    )
    budget = least + over
    answer = text_of(await all_tools.raw(tool, **asking(thread, budget, **more)))
    assert COUNTER.text(answer) <= budget
