"""Anthropic's memory tool, with its files as documents of this memory instead of files on a disk.

The model calls ``memory`` (memory_20250818) with paths below /memories. Each file is the session memory of a thread of
its name, with versions and an undo. The second run reads what the first one wrote::

    .venv/bin/python examples/anthropic_memory_tool.py "I am Ana, and I never eat meat. Remember that."
    .venv/bin/python examples/anthropic_memory_tool.py "Where shall we eat in Lisbon?"
"""

import argparse
import asyncio
import os
from collections.abc import Sequence
from typing import Any

from anthropic import AsyncAnthropic
from anthropic.lib.tools import BetaAsyncAbstractMemoryTool, ToolError
from anthropic.types.beta import (
    BetaMemoryTool20250818CreateCommand,
    BetaMemoryTool20250818DeleteCommand,
    BetaMemoryTool20250818InsertCommand,
    BetaMemoryTool20250818RenameCommand,
    BetaMemoryTool20250818StrReplaceCommand,
    BetaMemoryTool20250818ViewCommand,
)
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

PROGRAM = os.environ.get("MEMORY_PROGRAM", ".venv/bin/layerlore")
MODEL = os.environ.get("ANTHROPIC_MODEL", "claude-haiku-4-5")
# The memory's tools for documents and for conversations.
ARGUMENTS = ["--toolsets", "core,threads"]
BETAS = ["context-management-2025-06-27"]
MOST_CALLS = 20
ROOT = "/memories"
# Marks the threads that are files, among the conversations of the same user.
MARK = {"memory_file": True}
NUMBER_WIDTH = 6


def check_path(path: str) -> str:
    """The path without a slash at its end. Nothing here reaches a disk; a path that would leave the folder is still refused, as
    the model expects."""
    parts = path.rstrip("/").split("/")
    if parts[:2] != ["", "memories"]:
        raise ToolError(f"Path must start with {ROOT}, got: {path}")
    if any(part in ("", ".", "..") for part in parts[1:]) or "\\" in path:
        raise ToolError(f"Path {path} would escape {ROOT} directory")
    return "/".join(parts)


def number_lines(lines: Sequence[str], first: int) -> str:
    return "\n".join(f"{number:>{NUMBER_WIDTH}}\t{line}" for number, line in enumerate(lines, first))


def show_size(size: int) -> str:
    """A size as `du -h` has it."""
    for unit in "BKM":
        if size < 1024 or unit == "M":
            break
        size /= 1024
    return f"{size:.1f}{unit}".replace(".0", "")


class MemoryTool(BetaAsyncAbstractMemoryTool):
    """The six commands, over a connection to the memory."""

    def __init__(self, memory: Client) -> None:
        super().__init__()
        self._memory = memory

    async def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        path = check_path(command.path)
        if path != ROOT and await self._is_file(path):
            return await self._view_file(path, command.view_range)
        below = [each for each in await self._list_files() if each.startswith(f"{path}/")]
        if path != ROOT and not below:
            raise ToolError(f"The path {path} does not exist. Please provide a valid path.")
        sizes: dict[str, int] = {path: 0}
        for file in below:
            size = len((await self._read(file)).encode())
            sizes[path] += size
            # The file, or the folders above it, as far as they are shown.
            steps = file.removeprefix(f"{path}/").split("/")
            for depth in range(1, min(len(steps), 2) + 1):
                shown = "/".join((path, *steps[:depth])) + ("/" if depth < len(steps) else "")
                sizes[shown] = sizes.get(shown, 0) + size
        listed = [f"{show_size(size)}\t{shown}" for shown, size in sorted(sizes.items())]
        head = f"Here're the files and directories up to 2 levels deep in {path}, excluding hidden items:"
        return "\n".join([head, *(line for line in listed if "/." not in line)])

    async def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        path = check_path(command.path)
        if path == ROOT or await self._exists(path):
            raise ToolError(f"File {command.path} already exists")
        await self._make(path, command.file_text)
        return f"File created successfully at: {command.path}"

    async def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        path = await self._find_file(command.path)
        content = await self._read(path)
        old, new = command.old_str, command.new_str or ""
        if not old or old not in content:
            raise ToolError(f"No replacement was performed, old_str `{old}` did not appear verbatim in {command.path}.")
        if content.count(old) > 1:
            starts = [at for at in range(len(content)) if content.startswith(old, at)]
            lines = ", ".join(str(content.count("\n", 0, at) + 1) for at in starts)
            raise ToolError(
                f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {lines}. Please "
                "ensure it is unique"
            )
        edited = content.replace(old, new)
        await self._write(path, edited)
        line = content.count("\n", 0, content.index(old))
        first = max(0, line - 2)
        snippet = number_lines(edited.split("\n")[first : line + 3], first + 1)
        return (
            f"The memory file has been edited. Here is the snippet showing the change (with line numbers):\n{snippet}"
        )

    async def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        path = await self._find_file(command.path)
        lines = (await self._read(path)).removesuffix("\n").split("\n")
        if lines == [""]:
            lines = []
        if not 0 <= command.insert_line <= len(lines):
            raise ToolError(
                f"Invalid `insert_line` parameter: {command.insert_line}. It should be within the range "
                f"[0, {len(lines)}]."
            )
        lines.insert(command.insert_line, command.insert_text.rstrip("\n"))
        await self._write(path, "\n".join(lines) + "\n")
        return f"The file {command.path} has been edited."

    async def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        path = check_path(command.path)
        if path == ROOT:
            raise ToolError(f"Cannot delete the {ROOT} directory itself")
        for file in await self._list_below(path):
            await self._call("delete_thread", thread_id=file)
        return f"Successfully deleted {command.path}"

    async def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        old, new = check_path(command.old_path), check_path(command.new_path)
        if old == ROOT:
            raise ToolError(f"Cannot rename the {ROOT} directory itself")
        if await self._exists(new) or new == ROOT:
            raise ToolError(f"The destination {command.new_path} already exists")
        if new.startswith(f"{old}/"):
            raise ToolError(f"Cannot move {command.old_path} into itself")
        for file in await self._list_below(old):
            # Written before the old one goes, so that an interruption loses nothing.
            await self._make(new + file.removeprefix(old), await self._read(file))
            await self._call("delete_thread", thread_id=file)
        return f"Successfully renamed {command.old_path} to {command.new_path}"

    async def _view_file(self, path: str, view_range: Sequence[int] | None) -> str:
        lines = (await self._read(path)).split("\n")
        first, last = 1, len(lines)
        if view_range and len(view_range) == 2:
            first = max(1, view_range[0])
            last = len(lines) if view_range[1] == -1 else view_range[1]
        return f"Here's the content of {path} with line numbers:\n{number_lines(lines[first - 1 : last], first)}"

    async def _find_file(self, path: str) -> str:
        found = check_path(path)
        if not await self._exists(found):
            raise ToolError(f"The path {path} does not exist. Please provide a valid path.")
        if not await self._is_file(found):
            raise ToolError(f"The path {path} is not a file.")
        return found

    async def _is_file(self, path: str) -> bool:
        return path in await self._list_files()

    async def _exists(self, path: str) -> bool:
        return any(file == path or file.startswith(f"{path}/") for file in await self._list_files())

    async def _list_below(self, path: str) -> list[str]:
        """The file of that path, or all files of that folder."""
        found = [file for file in await self._list_files() if file == path or file.startswith(f"{path}/")]
        if not found:
            raise ToolError(f"The path {path} does not exist")
        return found

    async def _list_files(self) -> list[str]:
        files: list[str] = []
        cursor = ""
        while True:
            page = await self._call("list_threads", metadata=MARK, limit=100, cursor=cursor)
            files += [each["thread_id"] for each in page["threads"]]
            cursor = page.get("next_cursor") or ""
            if not cursor:
                return sorted(files)

    async def _read(self, path: str) -> str:
        document = await self._call("get_working_memory", thread_id=path, format="json")
        return str(document["content"])

    async def _make(self, path: str, content: str) -> None:
        await self._call("update_thread", thread_id=path, metadata=MARK)
        await self._write(path, content)

    async def _write(self, path: str, content: str) -> None:
        if content:
            await self._call("update_working_memory", thread_id=path, content=content, mode="replace")
        else:
            await self._call("clear_working_memory", thread_id=path)

    async def _call(self, tool: str, **arguments: Any) -> Any:
        """The structured answer of one of the memory's tools; its error is for the model to read."""
        result = await self._memory.call_tool(tool, arguments)
        if result.is_error:
            raise ToolError(result.content[0].text)
        return result.structured_content


async def answer(memory: Client, prompt: str) -> str:
    """One prompt, with all calls of the memory tool that the model makes for it."""
    model, tool = AsyncAnthropic(), MemoryTool(memory)
    messages: list[Any] = [{"role": "user", "content": prompt}]
    for _ in range(MOST_CALLS):
        said = await model.beta.messages.create(
            model=MODEL, max_tokens=4096, messages=messages, tools=[tool.to_dict()], betas=BETAS
        )
        calls = [block for block in said.content if block.type == "tool_use"]
        if not calls:
            return "".join(block.text for block in said.content if block.type == "text")
        results = [await run_call(tool, call.id, call.input) for call in calls]
        messages += [{"role": "assistant", "content": said.content}, {"role": "user", "content": results}]
    raise RuntimeError(f"no answer after {MOST_CALLS} calls of the model")


async def run_call(tool: MemoryTool, call_id: str, command: object) -> dict[str, Any]:
    """The result of a command, for the model to read: errors, too."""
    try:
        content, is_error = await tool.call(command), False
    except ToolError as error:
        content, is_error = error.content, True
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, "is_error": is_error}


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prompt", help="what you say")
    given = parser.parse_args()
    server = StdioServerParameters(command=PROGRAM, args=ARGUMENTS, env=dict(os.environ))
    async with Client(stdio_client(server)) as memory:
        print(await answer(memory, given.prompt))


if __name__ == "__main__":
    asyncio.run(main())
