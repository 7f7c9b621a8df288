"""The tools in the shortest words, as the tests call them through the official client."""

import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from mcp import Client, MCPError
from mcp.types import INVALID_PARAMS, CallToolResult, TextContent

Json = dict[str, Any]

# All that is kept: any Unicode but NUL and lone surrogates.
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))

# What lies below the tools and has no place in an answer.
_BELOW = ("Traceback", 'File "', "SELECT", "INSERT", "UPDATE ", "sqlite3", "asyncpg", "failed unexpectedly")


def examples(most: int) -> settings:
    """Property tests keep one client for all examples: each example takes threads of its own."""
    return settings(max_examples=most, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


class Tools:
    """A connected client."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def raw(self, tool: str, /, *, meta: Any = None, **arguments: Any) -> CallToolResult:
        return await self.client.call_tool(tool, arguments, meta=meta)

    async def __call__(self, tool: str, /, *, meta: Any = None, **arguments: Any) -> Any:
        """The answer of a call that must succeed: the structure where there is one, else the text."""
        result = await self.raw(tool, meta=meta, **arguments)
        assert not result.is_error, text_of(result)
        return text_of(result) if result.structured_content is None else result.structured_content

    async def refused(self, tool: str, /, *, meta: Any = None, **arguments: Any) -> str:
        """The text of a call that must fail, with nothing in it from below the tools."""
        result = await self.raw(tool, meta=meta, **arguments)
        text = text_of(result)
        assert result.is_error, text
        assert result.structured_content is None
        assert not [leaked for leaked in _BELOW if leaked in text], text
        return text

    async def unknown(self, tool: str, /, **arguments: Any) -> str:
        """What is said of a tool that is not there."""
        with pytest.raises(MCPError) as raised:
            await self.raw(tool, **arguments)
        assert raised.value.error.code == INVALID_PARAMS
        return raised.value.error.message

    async def add(self, thread_id: str, *messages: Any, **arguments: Any) -> Json:
        """Add messages; answers with the id and the seq of each."""
        call = {"ids": True, **arguments}
        answer: Json = await self("add_messages", messages=list(messages), thread_id=thread_id, **call)
        return answer

    async def say(self, thread_id: str, *texts: str, **arguments: Any) -> Json:
        """Add a user's messages, one for each text."""
        return await self.add(thread_id, *({"role": "user", "content": text} for text in texts), **arguments)

    async def page(self, thread_id: str, **arguments: Any) -> Json:
        """A page of messages as a structure."""
        page: Json = await self("get_messages", thread_id=thread_id, **{"format": "json", **arguments})
        return page

    async def messages(self, thread_id: str, **arguments: Any) -> list[Json]:
        found: list[Json] = (await self.page(thread_id, **{"limit": 200, **arguments}))["messages"]
        return found

    async def texts(self, thread_id: str, **arguments: Any) -> list[str]:
        """The text of each message that get_messages shows."""
        return [message["parts"][0]["text"] for message in await self.messages(thread_id, **arguments)]

    async def hits(self, query: str, **arguments: Any) -> list[Json]:
        answer = await self("recall_memory", query=query, format="json", **{"max_tokens": 20_000, **arguments})
        hits: list[Json] = answer["hits"]
        return hits

    async def found(self, query: str, **arguments: Any) -> list[str]:
        """The texts that a recall finds, best first."""
        return [hit["text"] for hit in await self.hits(query, **arguments)]


def text_of(result: CallToolResult) -> str:
    """The one text of an answer; beside a structure it is the same as JSON."""
    (content,) = result.content
    assert isinstance(content, TextContent)
    if result.structured_content is not None:
        assert json.loads(content.text) == result.structured_content
    return content.text


Connect = Callable[..., AbstractAsyncContextManager[Tools]]
