"""One key for an application with many users: all of their agents are served, at once, within the default limits."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from ..http.test_http_command import ServedClients, environment, serving

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning"), pytest.mark.programs]

TURNS = 5
PATIENCE = 300.0  # for all of it, on a busy machine


async def answered(client: Client, tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result


async def converse(served: ServedClients, key: str, user: int) -> int:
    """A user's conversation from connecting to its end: how many messages there are of it then. A client of either
    era of the protocol, by turns."""
    headers = {"Authorization": f"Bearer {key}", "Layerlore-Resource": f"user-{user}", "Layerlore-Thread": "support"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http,
        Client(
            streamable_http_client(f"{served.url}/mcp", http_client=http), mode="legacy" if user % 2 else "auto"
        ) as client,
    ):
        assert (await client.list_tools()).tools
        for turn in range(TURNS):
            said = {"role": "user", "content": f"User {user}, turn {turn}: where is my parcel number {user}{turn}?"}
            await answered(client, "add_messages", messages=[said])
            await answered(client, "recall_memory", query=f"parcel number {user}{turn}")
            await answered(client, "get_context")
            reply = {"role": "assistant", "content": f"Parcel {user}{turn} is on its way."}
            await answered(client, "add_messages", messages=[reply])
        page = await answered(client, "get_messages", format="json")
        return int(page.structured_content["total"])


@pytest.mark.parametrize("users", [6, pytest.param(30, marks=pytest.mark.soak)])
async def test_the_users_of_one_key_with_five_turns_each_at_once_are_all_answered(tmp_path: Path, users: int) -> None:
    create = ["keys", "create", "--tenant", "acme", "--any-resource", "--data-dir", str(tmp_path)]
    made = subprocess.run(
        [sys.executable, "-m", "layerlore.server", *create],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    totals: dict[int, int] = {}

    async def one(user: int) -> None:
        totals[user] = await converse(served, made.stdout.strip(), user)

    with serving(tmp_path) as served, anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            for user in range(users):
                tasks.start_soon(one, user)
    assert totals == dict.fromkeys(range(users), 2 * TURNS)
