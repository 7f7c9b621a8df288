"""The tools work in the conversation that the hooks store, whatever way a host names it: at the launch, with each call, or
by its hooks alone. The shapes are those that the hosts send."""

import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import Implementation

from layerlore.server.relay.launch import hook_folder
from layerlore.server.relay.spool import list_waiting

from ..gated_server import answer
from ..shared_machine import PATIENCE, Machine
from ..transcripts import claude, codex, copilot, gemini, lines, spoken

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning"), pytest.mark.programs]

SAID = "I am Ana, and I never eat meat."
ASKED = "Which meat can Ana cook, and what does she never eat?"
QUOTE = "I never eat meat"
LAUNCHED = "71546d0c-8ce9-4ddb-981b-30e6973aecc3"
LATER = "d475f095-7b8b-46ea-b4b4-88112c223ce6"
CODEX = "01a22269-e442-79a2-bd5b-d7ae5e77e55b"


class HostMachine(Machine):
    """A machine whose host is this process: it launches servers and hooks."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "data")
        self.project = folder / "project"
        self.project.mkdir()
        self._hooks = hook_folder(str(self.folder), "")

    async def hook(self, host: str, event: str, session: str, *said: str, **given: Any) -> None:
        """Run a hook as the host does, and wait until what was said is stored."""
        path = self.project.parent / f"{session}.jsonl"
        with path.open("a", encoding="utf-8") as file:
            file.writelines(said)
        named = {"sessionId" if host == "vscode" else "session_id": session, "transcript_path": str(path)}
        told = {**named, "cwd": str(self.project), "hook_event_name": event, **given}
        command = [sys.executable, "-m", "layerlore", "hook", host, event]
        with anyio.fail_after(PATIENCE):
            await anyio.run_process(command, input=json.dumps(told).encode(), env=self.environment())
            while list_waiting(self._hooks):
                await anyio.sleep(0.01)

    async def layerlore(self, *arguments: str) -> None:
        home = self.environment(HOME=str(self.project.parent))
        with anyio.fail_after(PATIENCE):
            await anyio.run_process([sys.executable, "-m", "layerlore", *arguments], env=home)

    async def asked_to_store(self, *client_names: str) -> list[str]:
        """Those of the hosts whose model is asked to store messages. The first of their sessions begins with no server."""
        self.stop()
        asked = []
        for name in client_names:
            async with self.host(client_info=Implementation(name=name, version="1")) as client:
                if "call add_messages once" in (client.instructions or ""):
                    asked.append(name)
        return asked

    def other_host(self) -> AbstractAsyncContextManager[Client]:
        """A client whose server another process launches."""
        command = f'"{sys.executable}" -m layerlore; exit $?'
        return Client(stdio_client(StdioServerParameters(command="sh", args=["-c", command], env=self.environment())))


@pytest.fixture
def machine() -> Iterator[HostMachine]:
    with tempfile.TemporaryDirectory(prefix="layerlore-") as folder:
        machine = HostMachine(Path(folder))
        yield machine
        machine.stop()


async def thread_of(client: Client, meta: Any = None) -> str:
    return str((await answer(client, "get_messages", format="json", meta=meta))["thread_id"])


async def quote(client: Client, meta: Any = None) -> str:
    """Remember with a quote of what the host's user said. Returns the thread that the answer names."""
    kept = await answer(client, "remember", content="Ana eats no meat.", evidence=QUOTE, meta=meta)
    return str(kept["thread_id"])


CLAUDE_CODE = ("CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_CHILD_SESSION")
COPILOT_CLI = ("COPILOT_AGENT_SESSION_ID", "COPILOT_CLI")


# Each pair of a host, a kind of server and an era.
@pytest.mark.parametrize(
    ("mode", "alone", "named", "child"),
    [
        ("auto", (), *CLAUDE_CODE),
        ("legacy", ("--alone",), *CLAUDE_CODE),
        ("legacy", (), *COPILOT_CLI),
        ("auto", ("--alone",), *COPILOT_CLI),
    ],
    ids=["claude-code-shared", "claude-code-alone", "copilot-cli-shared", "copilot-cli-alone"],
)
async def test_a_server_works_in_the_conversation_that_it_was_launched_for(
    machine: HostMachine, mode: str, alone: tuple[str, ...], named: str, child: str
) -> None:
    await machine.hook("claude-code", "Stop", LAUNCHED, claude(1, "user", SAID))
    launched = {named: LAUNCHED}
    async with machine.host(*alone, mode=mode, variables=launched) as client:
        assert await quote(client) == LAUNCHED
        assert "this session's own conversation" in (client.instructions or "")
    # The host's own tools give the id to all programs that they run, and those have conversations of their own.
    inherited = {**launched, child: "1"}
    async with machine.host(*alone, mode=mode, variables=inherited) as client:
        assert (await thread_of(client)).startswith("session-")
    # A name that cannot be a thread's is no error of the call.
    async with machine.host(*alone, mode=mode, variables={named: "x" * 300}) as client:
        assert (await thread_of(client)).startswith("session-")


@pytest.mark.parametrize(
    ("host", "start", "stop", "spoke", "asks"),
    [
        ("claude-code", "SessionStart", "Stop", claude(1, "user", SAID), claude(2, "user", ASKED)),
        (
            "gemini-cli",
            "SessionStart",
            "AfterAgent",
            lines({"sessionId": "x", "projectHash": "y", "kind": "main"}, gemini("1", "user", [{"text": SAID}])),
            lines(gemini("2", "user", [{"text": ASKED}])),
        ),
    ],
)
async def test_tools_follow_the_hooks_of_their_host(
    machine: HostMachine, host: str, start: str, stop: str, spoke: str, asks: str
) -> None:
    # As after `claude --continue`: the server was launched for a session that the host then gave up.
    launched = {"CLAUDE_CODE_SESSION_ID": "given-up"} if host == "claude-code" else {}
    async with machine.host(variables=launched) as client, machine.other_host() as other:
        await machine.hook(host, start, LAUNCHED, source="startup")
        await machine.hook(host, stop, LAUNCHED, spoke)
        assert await quote(client) == LAUNCHED
        await answer(client, "update_working_memory", content="Planning a dinner.")
        # What the user asks now stands in the conversation, and not once more among the memories.
        await machine.hook(host, stop, LAUNCHED, asks)
        context = (await client.call_tool("get_context", {})).content[0].text  # type: ignore[union-attr]
        assert context.count(ASKED) == 1
        assert SAID in context

        await machine.hook(host, start, LATER, source="clear")
        assert await thread_of(client) == LATER
        assert "dinner" not in str(await client.call_tool("get_working_memory", {}))

        await machine.hook(host, start, LAUNCHED, source="resume")
        assert "Planning a dinner." in str(await client.call_tool("get_working_memory", {}))
        assert (await thread_of(other)).startswith("session-")
    async with machine.host(variables=launched) as client:
        # A server that is launched later learns it from the hooks before.
        assert await thread_of(client) == LAUNCHED


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_host_names_its_conversation_with_each_call(machine: HostMachine, mode: str) -> None:
    told = codex("message", **spoken("user", SAID))
    await machine.hook("codex", "Stop", CODEX, codex("message", **spoken("assistant", "Hello.")), told)
    await machine.hook("vscode", "Stop", LATER, lines(copilot("1", "user.message", content=SAID)))
    of_codex = {
        "callId": "call_1",
        "x-codex-turn-metadata": {"session_id": CODEX, "thread_id": "of-a-sub-agent"},
        "threadId": "of-a-sub-agent",
        "sessionId": CODEX,
    }
    async with machine.host(mode=mode) as client:
        assert await quote(client, of_codex) == CODEX
        assert await quote(client, {"vscode.conversationId": LATER, "vscode.requestId": "1"}) == LATER
        own = await thread_of(client)
        assert own.startswith("session-")
        for unusable in ("", "x" * 300, "line\nbreak", 7, None, ["x"]):
            assert await thread_of(client, {"sessionId": unusable}) == own
        assert await thread_of(client, {"layerlore/thread": "mine", "sessionId": CODEX}) != CODEX


async def test_no_model_is_asked_to_store_what_hooks_store_from_the_first_session_on(machine: HostMachine) -> None:
    assert await machine.asked_to_store("claude-code") == ["claude-code"]
    await machine.layerlore("install", "claude-code", "codex", "--capture")
    # The user of Codex has not trusted its hooks yet.
    found = await machine.asked_to_store("claude-code", "another", "codex-mcp-client")
    assert found == ["another", "codex-mcp-client"]
    await machine.hook("codex", "Stop", CODEX, codex("message", **spoken("user", SAID)))
    assert await machine.asked_to_store("codex-mcp-client") == []
    await machine.layerlore("uninstall")
    assert await machine.asked_to_store("claude-code") == ["claude-code"]
