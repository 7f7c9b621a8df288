"""A conversation of many turns, and how much of each context a provider's prompt cache could reuse: the part that it
begins with in common with the context before."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from benchmarks.sample_text import SampleText

Call = Callable[..., Awaitable[Any]]

TOOL_EVERY = 5
PLAN_EVERY = 10


@dataclass(slots=True)
class Reuse:
    """Characters of all contexts but the first, how many of them were the same as in the one before, and how often a
    context began otherwise before the volatile part (the cache was lost)."""

    characters: int = 0
    shared: int = 0
    lost: int = 0
    contexts: list[str] = field(default_factory=list)

    @property
    def share(self) -> float:
        return self.shared / self.characters if self.characters else 1.0


async def converse(call: Call, thread_id: str, turns: int, *, max_tokens: int = 8000, keep: bool = False) -> Reuse:
    """So many turns in a thread: a user's message, the context for the model, its answer; now and then a tool call in
    between, with a context of its own, and a change of the plan. ``keep`` keeps the contexts."""
    text = SampleText(7)
    reuse = Reuse()
    before = ""

    async def context() -> None:
        nonlocal before
        answer = await call("get_context", thread_id=thread_id, format="openai", max_tokens=max_tokens)
        sent = "\n".join(json.dumps(message, ensure_ascii=False, sort_keys=True) for message in answer["messages"])
        if before:
            shared = shared_beginning(before, sent)
            reuse.characters += len(sent)
            reuse.shared += shared
            reuse.lost += shared < len(before) // 2
        if keep:
            reuse.contexts.append(sent)
        before = sent

    steps = [{"description": f"Step {number}"} for number in range(1, 6)]
    await call("plan", action="create", plan={"goal": "Talk for a while", "steps": steps}, thread_id=thread_id)
    for turn in range(turns):
        await call("add_messages", thread_id=thread_id, messages=[{"role": "user", "content": text.text(10, 40)}])
        await context()
        if turn % TOOL_EVERY == TOOL_EVERY - 1:
            await call("add_messages", thread_id=thread_id, messages=_tool_call(turn, text.text(40, 120)))
            await context()
        if turn % PLAN_EVERY == PLAN_EVERY - 1:
            await call("plan", action="update", plan={"iteration": turn // PLAN_EVERY + 1}, thread_id=thread_id)
        await call("add_messages", thread_id=thread_id, messages=[{"role": "assistant", "content": text.text(20, 80)}])
    return reuse


def shared_beginning(one: str, other: str) -> int:
    """How many characters two texts begin with in common."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _tool_call(turn: int, result: str) -> list[dict[str, Any]]:
    call = {
        "id": f"call-{turn}",
        "type": "function",
        "function": {"name": "search", "arguments": f'{{"turn": {turn}}}'},
    }
    return [
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call-{turn}", "name": "search", "content": result},
    ]
