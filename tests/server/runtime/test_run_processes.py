"""A run that several processes work on: the agent that dies, two approvers, and whoever runs it next."""

import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from launch_environment import own_environment
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

pytestmark = [pytest.mark.anyio, pytest.mark.programs]

APPROVAL = {"type": "object", "properties": {"approved": {"type": "boolean"}}, "required": ["approved"]}
CALLS = [
    {"id": "c1", "name": "send_mail", "arguments": {"to": "ann"}, "resume_schema": APPROVAL},
    {"id": "c2", "name": "delete_file", "arguments": {"path": "a"}, "resume_schema": APPROVAL},
    {"id": "c3", "name": "read_file", "arguments": {"path": "b"}, "suspended": False, "result": "42 lines"},
]


@contextlib.asynccontextmanager
async def process(folder: Path) -> AsyncIterator[Any]:
    """Calls tools of a server of its own, which ends with the block."""
    args = ["-m", "layerlore.server", "--database", f"sqlite:///{folder}/memory.db", "--toolsets", "runs"]
    launched = StdioServerParameters(
        command=sys.executable, args=args, env=own_environment(LAYERLORE_EMBEDDING__EMBEDDER="none")
    )

    async with Client(stdio_client(launched)) as client:

        async def call(tool: str, **arguments: Any) -> Any:
            result = await client.call_tool(tool, arguments)
            assert not result.is_error, result.content
            return result.structured_content

        yield call


async def test_two_approvers_and_one_runner_in_three_processes_after_the_first_agent_is_gone(tmp_path: Path) -> None:
    async with process(tmp_path) as agent:
        claim = (await agent("start_run", run_id="trip", state={"turn": 1}, thread_id="main"))["claim"]
        await agent("suspend_run", run_id="trip", claim=claim, state={"turn": 2}, pending_tool_calls=CALLS)
    async with process(tmp_path) as ann, process(tmp_path) as ben, process(tmp_path) as runner:
        (listed,) = (await ann("list_runs", status="suspended"))["runs"]
        assert [each["tool_name"] for each in listed["waiting"]] == ["send_mail", "delete_file"]
        assert (await runner("list_runs", status="resumable"))["runs"] == []
        first = {"tool_call_id": "c1", "decision": "approve"}
        assert (await ann("decide_run", run_id="trip", decisions=[first]))["waiting"] == 1
        second = {"tool_call_id": "c2", "decision": "deny", "data": {"why": "still needed"}}
        assert (await ben("decide_run", run_id="trip", decisions=[second]))["waiting"] == 0
        (ready,) = (await runner("list_runs", status="resumable"))["runs"]
        taken = await runner("resume_run", run_id=ready["run_id"])
        assert (taken["state"], taken["pending_tool_calls"][2]["result"]) == ({"turn": 2}, "42 lines")
        decided = {each["tool_call_id"]: each["data"]["approved"] for each in taken["resumed"]}
        assert decided == {"c1": True, "c2": False}
        await ben("cancel_run", run_id="trip", reason="the trip is off")
        told = await runner("update_run", run_id="trip", claim=taken["claim"])
        assert (told["status"], told["reason"]) == ("cancelled", "the trip is off")
        await runner("complete_run", run_id="trip", claim=taken["claim"], status="cancelled", output="mail sent")
        seen = await ann("get_run", run_id="trip")
        assert (seen["status"], seen["output"]) == ("cancelled", "mail sent")
        types = [event["type"] for event in (await ann("list_events", thread_id="main"))["events"]]
        assert types == [
            *("run_started", "run_suspended", "run_decided", "run_decided", "run_resumed"),
            *("run_cancelled", "run_updated"),
        ]
