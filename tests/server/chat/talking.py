"""What the tests ask of a reference agent's memory and its model."""

from typing import Any

from fake_openai import FakeOpenAI

from layerlore.server.chat.agent import Agent
from layerlore.server.chat.tools import Tool, ToolResult

Json = dict[str, Any]
ANY_OBJECT: Json = {"type": "object"}


async def stored(agent: Agent) -> list[tuple[str, str]]:
    """The messages of the conversation: who, and the text, the calls' names, or the result."""
    page = await agent.memory.call("get_messages", format="json", limit=200, offset=0)
    return [(message["role"], "".join(_said(part) for part in message["parts"])) for message in page["messages"]]


def _said(part: Json) -> str:
    match part["type"]:
        case "tool_call":
            return f"[{part['name']}]"
        case "tool_result":
            return str(part["result"])
    return str(part["text"])


async def events(agent: Agent, *kinds: str) -> list[Json]:
    found: list[Json] = (await agent.memory.call("list_events", types=list(kinds), limit=200))["events"]
    return found


def asked(provider: FakeOpenAI) -> list[list[Json]]:
    """The messages of each request to the model."""
    return [request["messages"] for request in provider.requests]


def sent_text(provider: FakeOpenAI) -> str:
    """All that the newest request told the model."""
    return "\n".join(str(message.get("content")) for message in provider.requests[-1]["messages"])


def telling(name: str, text: str = "done", **options: Any) -> Tool:
    """A tool that answers so."""

    async def run(arguments: Json) -> ToolResult:
        return ToolResult(text.format(**arguments))

    return Tool(name, f"Tells {name}.", ANY_OBJECT, run, **options)
