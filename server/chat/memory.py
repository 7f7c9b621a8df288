"""The memory of one conversation: the tools of a layerlore server, called over MCP."""

import json
from collections.abc import AsyncIterator
from typing import Any

from mcp import Client
from mcp.types import TextContent, TextResourceContents

Json = dict[str, Any]


class MemoryRefused(Exception):
    """The server refused a call; the text says what is allowed."""


class Memory:
    """Every call names the conversation beside its arguments, so that no model has to know it."""

    def __init__(self, client: Client, thread_id: str) -> None:
        self.client = client
        self.thread_id = thread_id

    async def call(self, tool: str, /, **arguments: Any) -> Any:
        """The answer of a tool: its structure, else its text. Raises MemoryRefused."""
        meta: Any = {"layerlore/thread": self.thread_id}
        result = await self.client.call_tool(tool, arguments, meta=meta)
        text = "\n".join(each.text for each in result.content if isinstance(each, TextContent))
        if result.is_error:
            raise MemoryRefused(text)
        return text if result.structured_content is None else result.structured_content

    async def context(self, max_tokens: int) -> tuple[list[Json], Json]:
        """The messages of the next model call, and the report of what is in them."""
        answer = await self.call("get_context", format="openai", max_tokens=max_tokens)
        return answer["messages"], answer["report"]

    async def store(self, *messages: Json) -> int:
        """Store messages under their own ids: one that is stored already stays unchanged. Returns the last seq."""
        answer = await self.call("add_messages", messages=list(messages), ids=True)
        return max((each.get("seq", 0) for each in answer["messages"]), default=0)

    async def messages_after(self, seq: int) -> AsyncIterator[Json]:
        """Every message behind a seq, in order."""
        page: Json = {"next": {"after": seq}}
        while page.get("next"):
            page = await self.call("get_messages", limit=200, detail="high", format="json", **page["next"])
            for message in page["messages"]:
                yield message

    async def thread(self) -> Json:
        """The conversation's title, counts and usage; empty without messages."""
        found = (await self.call("list_threads", thread_id=self.thread_id))["threads"]
        return found[0] if found else {}

    async def changes(self, uri: str) -> AsyncIterator[None]:
        """One item for the present state of a resource, and one for each change of it from then on."""
        # The first item comes before any news, so the caller shows the present state even if nothing changes.
        async with self.client.listen(resource_subscriptions=[uri]) as news:
            yield None
            async for _ in news:
                yield None

    async def read(self, uri: str) -> Json:
        """A resource that is JSON."""
        (content,) = (await self.client.read_resource(uri)).contents
        found: Json
        if isinstance(content, TextResourceContents):
            found = json.loads(content.text)
        else:
            found = {}
        return found


def as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
