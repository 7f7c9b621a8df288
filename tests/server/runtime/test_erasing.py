"""What is erased leaves no byte in the SQLite file of a running server."""

from pathlib import Path

import anyio
import pytest
from mcp import Client

from layerlore.server.runtime.tool_server import build_server
from layerlore.server.settings.settings import load_settings

pytestmark = pytest.mark.anyio


async def test_erased_words_leave_the_file_while_the_server_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("layerlore.server.runtime.upkeep.ERASE_EVERY_SECONDS", 0.05)
    given = {"data_dir": str(tmp_path), "retention": {"deleted_days": 0}, "embedding": {"embedder": "none"}}
    settings = load_settings(given, environ={})
    words = [f"marker{n}zyx" for n in range(300)]
    async with Client(build_server(settings)) as client:
        for start in range(0, len(words), 100):
            messages = [{"role": "user", "content": word} for word in words[start : start + 100]]
            await client.call_tool("add_messages", {"messages": messages, "thread_id": "main"})
        assert markers(tmp_path) > 0
        await client.call_tool("delete_thread", {"thread_id": "main"})
        with anyio.fail_after(120):
            while markers(tmp_path):
                await anyio.sleep(0)
    assert markers(tmp_path) == 0


def markers(folder: Path) -> int:
    return sum(path.read_bytes().count(b"zyx") for path in folder.glob("memory.db*"))
