"""A model that follows a script, to look around with: no key, no network, and every call of a tool is a real one."""

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any

from layerlore.server.chat.model import ModelReply, Say, ToolCall

Json = dict[str, Any]

_RULES: tuple[tuple[str, str, Callable[[str], Json]], ...] = (
    (r"\?$", "recall_memory", lambda said: {"query": said, "limit": 5}),
    (
        r"\b(i am|i'm|i like|i love|i hate|i live|my \w+ is)\b",
        "update_working_memory",
        lambda said: {"scope": "resource", "content": f"- {said}"},
    ),
    (r"^(remember|note)\b", "remember", lambda said: {"content": said.partition(" ")[2] or said}),
    (
        r"^plan\b",
        "plan",
        lambda said: {
            "action": "create",
            "plan": {"goal": said, "steps": [{"description": each} for each in ("think", "do", "check")]},
        },
    ),
)
_NOTHING = (
    'I follow a script. "I like ..." goes into your profile, "remember ..." into a note, "plan ..." makes a plan, and a '
    "question is looked up. /memories shows what is kept, /context what a model would be shown."
)


# The text that the context puts before the user's words.
_BLOCKS = re.compile(r"\A(?:<([a-z-]+)>\n.*?\n</\1>\s*)+", re.DOTALL)


class ScriptedModel:
    """Calls the tool that fits the user's words, and reports the result."""

    name = "scripted"

    async def ask(self, messages: list[Json], tools: list[Json], say: Say | None = None) -> ModelReply:
        said = [(each["role"], _BLOCKS.sub("", str(each.get("content") or ""))) for each in messages]
        role, content = next(reversed([each for each in said if each[1] or each[0] != "user"]))
        if role == "user":
            called = self._choose(content, tools)
        else:
            called = None
        text = "" if called else f"Done. The tool says:\n\n```\n{content}\n```" if role == "tool" else _NOTHING
        if say is not None:
            for piece in re.findall(r"\s*\S+", text):
                say(piece)
                await asyncio.sleep(0.01)
        spent = {"prompt_tokens": sum(len(each[1]) for each in said) // 4, "completion_tokens": len(text) // 4 + 1}
        return ModelReply(text, [called] if called else [], {**spent, "cost": 0}, self.name)

    async def close(self) -> None:
        """There is nothing to close."""

    def _choose(self, said: str, tools: list[Json]) -> ToolCall | None:
        offered = {each["function"]["name"] for each in tools}
        for pattern, name, arguments in _RULES:
            if name in offered and re.search(pattern, said, re.IGNORECASE):
                return ToolCall("call-1", name, json.dumps(arguments(said)))
        return None
