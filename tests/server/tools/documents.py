"""The two documents of working memory in the shortest words."""

from typing import Any

from .calling import Json, Tools

# The arguments that name each.
MAIN = {"thread_id": "main"}
PROFILE = {"scope": "resource"}

TOKEN = f"sk-ant-api03-{'aB3dE5fG7hI9' * 5}"
TEMPLATE = "# About the user\n- Name:\n- Likes:\n"
MARKDOWN = {"resource": {"format": "markdown", "template": TEMPLATE}}


async def get(tools: Tools, **which: Any) -> Json:
    answer: Json = await tools("get_working_memory", format="json", **which)
    return answer


async def content(tools: Tools, **which: Any) -> Any:
    return (await get(tools, **which))["content"]


async def update(tools: Tools, new: Any, **arguments: Any) -> Json:
    answer: Json = await tools("update_working_memory", content=new, **arguments)
    return answer


async def refused(tools: Tools, **arguments: Any) -> str:
    return await tools.refused("update_working_memory", **arguments)
