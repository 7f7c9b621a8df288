"""What hosts' hooks hand over is kept, whatever is killed; and models are shown what fits, once."""

import contextlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest
from mcp.types import Implementation

from layerlore.server.process.version import VERSION
from layerlore.server.relay.channels import connect
from layerlore.server.relay.launch import hook_folder, read_launch
from layerlore.server.relay.spool import hand_over, list_waiting
from layerlore.server.settings.project import find_project

from ..shared_machine import PATIENCE, Machine
from ..transcripts import claude, claude_call, claude_result, codex, copilot, gemini, lines, spoken

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore::mcp.MCPDeprecationWarning"), pytest.mark.programs]


class HookedMachine(Machine):
    """A machine with a project, whose hosts call hooks."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "data")
        self.project = folder / "project"
        self.project.mkdir()
        self.hooks = hook_folder(str(self.folder), "")

    def write(self, session: str, *lines: str, mode: str = "a") -> Path:
        path = self.project.parent / f"{session}.jsonl"
        with path.open(mode, encoding="utf-8") as file:
            file.writelines(lines)
        return path

    def start_hook(self, *arguments: str, **variables: str) -> "subprocess.Popen[bytes]":
        return self.start(sys.executable, "-m", "layerlore", "hook", *arguments, **variables)

    def start(self, *command: str, **variables: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment(**variables),
            cwd=self.project,
        )

    def hook_from_nowhere(self, host: str, event: str, **given: Any) -> None:
        """Call a hook in a folder that is removed before it runs."""
        gone = self.project.parent / "gone"
        gone.mkdir()
        script = f'rmdir "{gone}" && exec "{sys.executable}" -m layerlore hook {host} {event}'
        subprocess.run(
            ["sh", "-c", script], input=json.dumps(given).encode(), env=self.environment(), cwd=gone, check=True
        )

    def hook(self, host: str, event: str, session: str = "s", *flags: str, raw: bytes = b"", **given: Any) -> Any:
        """What a hook prints, read as JSON."""
        told = {"session_id": session, "cwd": str(self.project), "hook_event_name": event, **given}
        told.setdefault("transcript_path", str(self.project.parent / f"{session}.jsonl"))
        process = self.start_hook(host, event, *flags)
        out, _ = process.communicate(raw or json.dumps(told).encode(), timeout=PATIENCE)
        assert process.returncode == 0
        return json.loads(out) if out.strip() else None

    def shown(self, event: str, session: str = "s", **given: Any) -> str:
        """What Claude Code's model is shown at an event."""
        answer = self.hook("claude-code", event, session, **given)
        return str(answer.get("hookSpecificOutput", {}).get("additionalContext", ""))

    @contextlib.asynccontextmanager
    async def settled(self) -> AsyncIterator[None]:
        with anyio.fail_after(PATIENCE):
            while list_waiting(self.hooks):
                await anyio.sleep(0.01)
        yield

    async def said(self, thread: str = "s") -> list[Any]:
        """The messages of a conversation, each with its role and the text, the call or the result that it is."""
        async with self.settled(), self.host(mode="auto") as client:
            page = (
                await client.call_tool("get_messages", {"format": "json", "thread_id": thread, "limit": 200})
            ).structured_content
            assert page is not None
            return [(each["role"], _content(part)) for each in page["messages"] for part in each["parts"]]


def _content(part: dict[str, Any]) -> Any:
    match part["type"]:
        case "tool_call":
            return part["name"], part["arguments"]
        case "tool_result":
            return part["result"]
    return part["text"]


@pytest.fixture(scope="module")
def shared() -> Iterator[HookedMachine]:
    """One server for the tests that use conversations of their own."""
    yield from make_machine()


@pytest.fixture
def machine() -> Iterator[HookedMachine]:
    yield from make_machine()


def make_machine() -> Iterator[HookedMachine]:
    with tempfile.TemporaryDirectory(prefix="layerlore-") as folder:
        machine = HookedMachine(Path(folder))
        yield machine
        machine.stop()


async def test_a_session_whose_folder_was_removed_is_kept(shared: HookedMachine) -> None:
    written = shared.write("homeless", claude(1, "user", "Remove the folder that we are in."))
    shared.hook_from_nowhere("claude-code", "Stop", session_id="homeless", transcript_path=str(written))
    assert await shared.said("homeless") == [("user", "Remove the folder that we are in.")]


async def test_a_hook_with_the_flag_reads_what_the_host_noted_in_files(shared: HookedMachine) -> None:
    notes = shared.project.parent / ".claude" / "projects" / "-project" / "memory"
    notes.mkdir(parents=True)
    (notes / "harbor.md").write_text("The harbor is dredged in March.\n", "utf-8")
    transcript = notes.parent / "noted.jsonl"
    transcript.write_text("", "utf-8")
    flags = ("--agent", "noter", "--memory-files")
    shared.hook("claude-code", "SessionEnd", "noted", *flags, transcript_path=str(transcript))
    async with shared.settled(), shared.host("--agent", "noter", mode="auto") as client:
        found = await client.call_tool("recall_memory", {"query": "When is the harbor dredged?"})
        assert "The harbor is dredged in March." in str(found.content)


async def test_a_session_is_kept_with_its_tool_calls_and_without_ours_sub_agents_and_the_hosts_notes(
    shared: HookedMachine,
) -> None:
    shared.write(
        "kept",
        claude(1, "user", "<system-reminder>Be brief.</system-reminder>Why does the build fail?"),
        claude(2, "assistant", [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "I look."}]),
        claude_call(3, "t1", "Bash", command="make"),
        claude_result(4, "t1", [{"type": "text", "text": "No rule to make target"}]),
        claude_call(5, "t2", "mcp__layerlore__recall_memory", query="build"),
        claude_result(6, "t2", "Nothing relevant is remembered about this."),
        claude(7, "assistant", [{"type": "text", "text": "I am a sub-agent."}], isSidechain=True),
        claude(8, "user", "This session is being continued.", isCompactSummary=True),
        claude(9, "user", "An earlier session said so.", forkedFrom={"sessionId": "other", "messageUuid": "x"}),
        claude(10, "attachment", "", attachment={"type": "queued_command", "prompt": "Use make all."}),
        claude(11, "user", "<command-name>/clear</command-name>"),
        "not even JSON\n",
        claude(12, "assistant", [{"type": "text", "text": "Fixed."}]),
    )
    assert shared.hook("claude-code", "Stop", "kept") == {}
    assert await shared.said("kept") == [
        ("user", "Why does the build fail?"),
        ("assistant", "I look."),
        ("assistant", ("Bash", {"command": "make"})),
        ("tool", "No rule to make target"),
        ("user", "Use make all."),
        ("assistant", "Fixed."),
    ]


async def test_what_a_session_says_is_of_the_project_that_its_host_was_opened_in(shared: HookedMachine) -> None:
    name = find_project(str(shared.project), "").name
    elsewhere = shared.project.parent / "elsewhere"
    elsewhere.mkdir()
    shared.write("of-project", claude(1, "user", "The kettle is red."))
    shared.hook("claude-code", "Stop", "of-project", "--project", "auto")
    async with shared.settled(), shared.host("--project", name, mode="auto") as client:
        page = await client.call_tool("get_messages", {"format": "json", "thread_id": "of-project"})
        assert "The kettle is red." in str(page.structured_content)
    # It goes on there, also where the session moved.
    process = shared.start_hook(
        "claude-code", "UserPromptSubmit", "--project", "auto", CLAUDE_PROJECT_DIR=str(shared.project)
    )
    told = {"session_id": "new", "cwd": str(elsewhere), "prompt": "Which colour is the kettle?"}
    out, _ = process.communicate(json.dumps(told).encode(), timeout=PATIENCE)
    assert "[project] #1 user: The kettle is red." in json.loads(out)["hookSpecificOutput"]["additionalContext"]
    assert "kettle" not in shared.shown("UserPromptSubmit", "beside", prompt="Which colour is the kettle?")


async def test_a_hook_is_of_the_launch_that_its_flags_name_before_its_command_or_behind_it(
    shared: HookedMachine,
) -> None:
    for place, flags in (("before", ["--resource", "ben"]), ("behind", ["--resource=ben"])):
        written = shared.write(place, claude(1, "user", f"The gauge {place} is green."))
        named = ["hook", "claude-code", "Stop"]
        command = [*flags, *named] if place == "before" else [*named, *flags]
        told = {"session_id": place, "transcript_path": str(written), "cwd": str(shared.project)}
        process = shared.start(sys.executable, "-m", "layerlore", *command)
        process.communicate(json.dumps(told).encode(), timeout=PATIENCE)
        assert process.returncode == 0
        async with shared.settled(), shared.host("--resource", "ben", mode="auto") as client:
            page = await client.call_tool("get_messages", {"format": "json", "thread_id": place})
            assert f"The gauge {place} is green." in str(page.structured_content)
        assert await shared.said(place) == []


async def test_lines_are_kept_once_also_of_a_transcript_that_is_rewritten(shared: HookedMachine) -> None:
    first, second, third = (claude(n, "user", f"Line {n}.") for n in (1, 2, 3))
    shared.write("once", first, second[:40])
    for _ in range(2):
        shared.hook("claude-code", "Stop", "once")
    shared.write("once", second[40:])
    shared.hook("claude-code", "Stop", "once")
    # A hook waits for nobody for long: what was written is read before it is written anew.
    assert await shared.said("once") == [("user", f"Line {n}.") for n in (1, 2)]
    shared.write("once", third, second, first, mode="w")
    shared.hook("claude-code", "SessionEnd", "once")
    assert await shared.said("once") == [("user", f"Line {n}.") for n in (1, 2, 3)]


async def test_what_is_private_or_ignored_stays_out(shared: HookedMachine) -> None:
    (shared.project / ".layerloreignore").write_text("secrets/\n*.key\n")
    shared.write(
        "private",
        claude(1, "user", "The code is <Private >4711\nand 0815</private >in my head."),
        claude(2, "user", "<private>nothing else"),
        claude_call(3, "t1", "Read", file_path=str(shared.project / "secrets" / "list.txt")),
        claude_result(4, "t1", "the list"),
        claude_call(5, "t2", "Bash", command="cat ./deploy.key"),
        claude_result(6, "t2", "-----BEGIN"),
        claude_call(7, "t3", "Grep", pattern="port"),
        claude_result(8, "t3", "secrets/a.txt:1:port 1\nsrc/b.txt:1:port 2"),
    )
    shared.hook("claude-code", "Stop", "private")
    assert await shared.said("private") == [
        ("user", "The code is in my head."),
        ("assistant", ("Grep", {"pattern": "port"})),
        ("tool", "src/b.txt:1:port 2"),
    ]
    elsewhere = shared.project / "hidden"
    elsewhere.mkdir()
    (elsewhere / ".layerloreignore").write_text("*\n")
    shared.write("hidden", claude(1, "user", "Nobody is to know."))
    shared.hook("claude-code", "Stop", "hidden", cwd=str(elsewhere))
    assert await shared.said("hidden") == []


async def test_a_model_is_shown_what_fits_its_prompt_once_and_nothing_where_nothing_fits(
    shared: HookedMachine,
) -> None:
    shared.write("told", claude(1, "user", "The ferry to Hydra leaves from gate E8 at seven."))
    shared.hook("claude-code", "Stop", "told")
    async with shared.settled():
        request = {"prompt": "From which gate does the Hydra ferry leave?"}
        assert "#1 user: The ferry to Hydra leaves from gate E8 at seven." in shared.shown(
            "UserPromptSubmit", "asking", **request
        )
        assert shared.shown("UserPromptSubmit", "asking", **request) == ""
        assert shared.shown("UserPromptSubmit", "told", **request) == ""  # its own words
        assert shared.shown("UserPromptSubmit", "other", prompt="Quarterly zinc tariffs?") == ""
        # Its model has forgotten what it was shown.
        shared.hook("claude-code", "SessionStart", "asking", source="compact")
        assert "gate E8" in shared.shown("UserPromptSubmit", "asking", **request)


async def test_gemini_cli_looking_whether_to_compact_is_no_compaction(machine: HookedMachine) -> None:
    machine.write("told", claude(1, "user", "The ferry to Hydra leaves from gate E8 at seven."))
    machine.hook("claude-code", "Stop", "told")
    async with machine.settled():
        request = {"prompt": "From which gate does the Hydra ferry leave?"}
        # A hook that gave up showed nothing, and the next one does.
        with anyio.fail_after(PATIENCE):
            while "gate E8" not in str(machine.hook("gemini-cli", "BeforeAgent", "asking", **request)):
                pass
    for trigger, is_shown_again in (("auto", False), ("manual", True)):
        machine.hook("gemini-cli", "PreCompress", "asking", trigger=trigger)
        async with machine.settled():
            answer = machine.hook("gemini-cli", "BeforeAgent", "asking", **request)
            assert ("gate E8" in str(answer)) is is_shown_again


async def test_a_session_begins_with_the_profile_within_the_tokens_that_are_allowed(shared: HookedMachine) -> None:
    content = "\n".join(f"- Fact {n} about the user, who likes the number {n * n}." for n in range(200))
    async with shared.host("--agent", "coach", mode="auto") as client:
        await client.call_tool("update_working_memory", {"content": content[:3900], "scope": "resource"})
    answer = shared.hook("claude-code", "SessionStart", "coached", "--agent", "coach", source="startup")
    text = answer["hookSpecificOutput"]["additionalContext"]
    assert text.startswith("<user-profile>")
    assert "- Fact 0 about" in text
    assert 1500 < len(text) < 800 * 5
    assert shared.hook("claude-code", "SessionStart", "coached", "--agent", "coach", source="resume") == {}
    assert shared.shown("SessionStart", "default-agent", source="startup") == ""


GEMINI_CALL = {"id": "c1", "name": "run_shell_command", "args": {"command": "make"}}
GEMINI_DONE = {
    **GEMINI_CALL,
    "status": "success",
    "result": [{"functionResponse": {"id": "c1", "name": "run_shell_command", "response": {"output": "done"}}}],
}
TRANSCRIPTS = {
    "codex": (
        lines({"type": "session_meta", "payload": {"id": "x", "cwd": "/", "source": "cli"}}),
        codex("message", **spoken("developer", "Be careful.")),
        codex("message", **spoken("user", "<environment_context>cwd</environment_context>")),
        codex("message", **spoken("user", "Build it.")),
        codex("reasoning", summary=[]),
        codex("function_call", name="shell", call_id="c1", arguments='{"command": "make"}'),
        codex("function_call_output", call_id="c1", output='{"output": "done", "metadata": {"exit_code": 0}}'),
        codex("message", 1, **spoken("assistant", "Built.")),
        codex("message", 2, **spoken("assistant", "Built.")),
    ),
    "gemini-cli": (
        lines({"sessionId": "x", "projectHash": "y", "kind": "main"}),
        lines(gemini("1", "user", [{"text": "Build it."}]), gemini("2", "info", "Updated.")),
        lines(gemini("3", "gemini", "", toolCalls=[GEMINI_CALL])),
        lines(gemini("3", "gemini", "", toolCalls=[GEMINI_DONE]), {"$set": {"lastUpdated": "now"}}),
        lines(gemini("4", "gemini", "Built."), gemini("5", "gemini", "Built.")),
    ),
    "vscode": (
        lines(copilot("1", "session.start", sessionId="x"), copilot("2", "user.message", content="Build it.")),
        lines(copilot("3", "tool.execution_start", toolCallId="c1", toolName="shell", arguments='{"command": "make"}')),
        lines(copilot("4", "tool.execution_complete", toolCallId="c1", success=True, result={"content": "done"})),
        lines(copilot("5", "user.message", content="Be brief.", source="system")),
        lines(copilot("6", "assistant.message", content="Built."), copilot("7", "assistant.message", content="Built.")),
    ),
    "copilot-cli": (
        lines(copilot("1", "session.start", sessionId="x"), copilot("2", "hook.start", hookType="sessionStart")),
        # As its version 1.0.102 writes it.
        lines(
            copilot(
                "3",
                "user.message",
                content="Build it.",
                transformedContent="<current_datetime>now</current_datetime>\n\nBuild it.",
                delivery="idle",
                parentAgentTaskId="d0691e43-08ef-4029-9093-9a03b9059922",
            )
        ),
        lines(copilot("4", "system.message", role="system", content="You are the GitHub Copilot CLI.")),
        lines(copilot("5", "tool.execution_start", toolCallId="c1", toolName="shell", arguments={"command": "make"})),
        lines(copilot("6", "tool.execution_complete", toolCallId="c1", success=True, result={"content": "done"})),
        lines(
            *(copilot(id_, "assistant.message", content="Built.", messageId=id_, toolRequests=[]) for id_ in ("7", "8"))
        ),
        lines({**copilot("9", "assistant.message", content="Of a sub-agent."), "agentId": "a"}),
    ),
    "cursor": (
        lines(
            {"role": "user", "message": {"content": [{"type": "text", "text": "<user_query>Build it.</user_query>"}]}}
        ),
        lines(
            {
                "role": "assistant",
                "message": {"content": [{"type": "tool_use", "name": "shell", "input": {"command": "make"}}]},
            }
        ),
        *2 * [lines({"role": "assistant", "message": {"content": [{"type": "text", "text": "Built."}]}})],
    ),
}


@pytest.mark.parametrize("host", TRANSCRIPTS)
async def test_the_transcripts_of_each_host_are_read_once_as_they_grow(shared: HookedMachine, host: str) -> None:
    name = {"vscode": "sessionId", "cursor": "conversation_id", "copilot-cli": "sessionId"}.get(host, "session_id")
    stop = {"cursor": "stop", "gemini-cli": "AfterAgent", "copilot-cli": "agentStop"}.get(host, "Stop")
    for line in TRANSCRIPTS[host]:
        told_too = lines(copilot("h", "hook.start", hookType=stop)) if host == "copilot-cli" else ""
        path = str(shared.write(host, line, told_too))
        paths = {"transcript_path": None, "transcriptPath": path} if host == "copilot-cli" else {}
        shared.hook(host, stop, host, **{"session_id": None, name: host, **paths})
    calls = {"gemini-cli": "run_shell_command"}
    assert await shared.said(host) == [
        ("user", "Build it."),
        ("assistant", (calls.get(host, "shell"), {"command": "make"})),
        *([] if host == "cursor" else [("tool", "done")]),
        ("assistant", "Built."),
        ("assistant", "Built."),
    ]


async def test_copilot_cli_is_shown_memories_and_its_calls_of_other_hosts_hooks_do_nothing(
    shared: HookedMachine,
) -> None:
    async with shared.host() as client:
        await client.call_tool("remember", {"content": "The user never eats nuts."})
    report = {"sessionId": "c", "cwd": str(shared.project), "source": "new", "initialPrompt": "Which cake may I eat?"}
    # Copilot CLI also calls the hooks of VS Code, and of Claude Code in a repository.
    for host, event in (("vscode", "SessionStart"), ("claude-code", "Stop")):
        other = shared.start_hook(host, event, COPILOT_PROJECT_DIR=str(shared.project))
        out, _ = other.communicate(json.dumps({"session_id": "c", "cwd": "/"}).encode(), timeout=PATIENCE)
        assert (other.returncode, json.loads(out)) == (0, {})
    assert not list_waiting(shared.hooks)
    own = shared.start_hook("copilot-cli", "sessionStart", COPILOT_PROJECT_DIR=str(shared.project))
    out, _ = own.communicate(json.dumps(report).encode(), timeout=PATIENCE)
    assert "never eats nuts" in json.loads(out)["additionalContext"]


async def test_what_copilot_cli_writes_after_its_hook_began_is_stored(shared: HookedMachine) -> None:
    home = shared.project.parent / "copilot"
    transcript = home / "session-state" / "c" / "events.jsonl"
    transcript.parent.mkdir(parents=True)
    transcript.write_text(lines(copilot("1", "user.message", content="Build it.")))

    def call(event: str, **given: str) -> None:
        process = shared.start_hook("copilot-cli", event, COPILOT_HOME=str(home))
        process.communicate(json.dumps({"sessionId": "c", **given}).encode(), timeout=PATIENCE)

    call("agentStop", transcriptPath=str(transcript))
    async with shared.settled():
        later = copilot("2", "assistant.message", content="Built."), copilot("3", "hook.start", hookType="sessionEnd")
        transcript.write_text(transcript.read_text() + lines(*later))
    # This event names no transcript.
    call("sessionEnd", reason="complete")
    assert await shared.said("c") == [("user", "Build it."), ("assistant", "Built.")]


async def test_a_prompt_that_the_host_writes_after_its_hooks_is_stored_before_the_next_event(
    shared: HookedMachine,
) -> None:
    shared.shown("UserPromptSubmit", "prompt", prompt="Build it.")
    shared.write("prompt", claude(1, "user", "Build it."))
    assert await shared.said("prompt") == [("user", "Build it.")]


async def test_an_event_whose_hook_ended_before_it_reached_the_server_is_stored(machine: HookedMachine) -> None:
    transcript = machine.write("unreached", claude(1, "user", "Build it."))
    given = {"session_id": "unreached", "transcript_path": str(transcript), "cwd": str(machine.project)}
    async with machine.host():
        handed = {"host": "claude-code", "event": "Stop", "given": given, "flags": {}, "variables": {}}
        hand_over(machine.hooks, {**handed, "folder": str(machine.project)})
        with anyio.fail_after(PATIENCE):
            while not (said := await machine.said("unreached")):
                pass
        assert said == [("user", "Build it.")]


async def test_calls_of_our_tools_in_codex_are_left_out_by_their_namespace(shared: HookedMachine) -> None:
    for at, namespace in enumerate(("mcp__layerlore", "mcp__mail")):
        call = {"name": "get_messages", "namespace": namespace, "arguments": "{}", "call_id": namespace}
        shared.write("namespaces", codex("function_call", at, **call))
        shared.write("namespaces", codex("function_call_output", at, call_id=namespace, output="Hello."))
    shared.hook("codex", "Stop", "namespaces")
    assert await shared.said("namespaces") == [("assistant", ("mcp__mail__get_messages", {})), ("tool", "Hello.")]


async def test_hosts_without_a_transcript_hand_over_what_was_said(shared: HookedMachine) -> None:
    for word in ("first", "second"):
        told = {"trajectory_id": "cascade", "session_id": None, "transcript_path": None}
        assert shared.hook("windsurf", "pre_user_prompt", tool_info={"user_prompt": f"My {word}."}, **told) is None
        shared.hook("windsurf", "post_cascade_response", tool_info={"response": f"Your {word}."}, **told)
    assert await shared.said("cascade") == [
        (role, f"{whose} {word}.")
        for word in ("first", "second")
        for role, whose in (("user", "My"), ("assistant", "Your"))
    ]
    told = {"conversation_id": "composer", "session_id": None, "transcript_path": None}
    assert shared.hook("cursor", "beforeSubmitPrompt", prompt="Where is it?", **told) == {"continue": True}
    shared.hook("cursor", "afterAgentResponse", text="In the cellar.", **told)
    assert await shared.said("composer") == [("user", "Where is it?"), ("assistant", "In the cellar.")]


async def test_a_session_of_gemini_cli_in_one_document_and_a_sub_agents_rollout(shared: HookedMachine) -> None:
    path = shared.write("old", mode="w").with_suffix(".json")
    messages = [gemini("1", "user", "One."), gemini("2", "gemini", "Two.")]
    for end in (1, 2, 2):
        path.write_text(json.dumps({"sessionId": "old", "messages": messages[:end]}))
        shared.hook("gemini-cli", "AfterAgent", "old", transcript_path=str(path))
    assert await shared.said("old") == [("user", "One."), ("assistant", "Two.")]
    shared.write(
        "sub",
        lines({"type": "session_meta", "payload": {"id": "x", "source": {"subagent": "review"}}}),
        codex("message", **spoken("user", "Review this.")),
    )
    shared.hook("codex", "Stop", "sub")
    shared.write("sub", codex("message", **spoken("assistant", "Reviewed.")))
    shared.hook("codex", "Stop", "sub")
    assert await shared.said("sub") == []


async def test_what_a_host_did_not_wait_for_is_shown_the_next_time_and_a_prompt_is_no_message_of_its_own(
    shared: HookedMachine,
) -> None:
    shared.write("facts", claude(1, "user", "The museum of Naxos closes at three."))
    shared.hook("claude-code", "Stop", "facts")
    request = {"session_id": "impatient", "prompt": "When does the museum of Naxos close?"}
    async with shared.settled():
        (launch,) = filter(None, [read_launch({}, shared.environment())])
        name = hand_over(shared.hooks, {"host": "claude-code", "event": "UserPromptSubmit", "given": request})
        connection, key = connect(launch.base)
        with connection:
            greeting = {"layerlore": VERSION, "key": key, "want": "hook", "name": name, "shows": True}
            connection.sendall(json.dumps(greeting).encode() + b"\n")
            assert b"closes at three" in connection.recv(10_000)
        assert "closes at three" in shared.shown("UserPromptSubmit", "impatient", prompt=request["prompt"])
        assert shared.shown("UserPromptSubmit", "impatient", prompt=request["prompt"]) == ""
    assert await shared.said("impatient") == []


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("claude-code", "Stop"), b""),
        (("claude-code", "UserPromptSubmit"), b"\xff\xfe{"),
        (("claude-code", "SessionStart"), b'["no object"]'),
        (("claude-code", "NoSuchEvent"), b"{}"),
        (("no-such-host", "Stop"), b"{}"),
        (("claude-code", "Stop", "--config", "/no/such/file"), b"{}"),
        (("cursor", "beforeSubmitPrompt"), b"null"),
    ],
)
def test_a_hook_never_stops_its_host(shared: HookedMachine, arguments: tuple[str, ...], text: bytes) -> None:
    process = shared.start_hook(*arguments)
    out, _ = process.communicate(text, timeout=PATIENCE)
    assert process.returncode == 0
    assert json.loads(out) == ({"continue": True} if arguments[0] == "cursor" else {})


@pytest.mark.skipif(os.name == "nt", reason="a process cannot be paused there")
async def test_a_server_that_does_not_answer_is_named_in_plain_words_and_keeps_the_event_later(
    machine: HookedMachine,
) -> None:
    machine.write("s", claude(1, "user", "The server sleeps."))
    machine.hook("claude-code", "SessionStart", source="startup")
    server = psutil.Process(machine.server())
    server.suspend()
    try:
        process = machine.start_hook("claude-code", "UserPromptSubmit")
        told = {"session_id": "s", "transcript_path": str(machine.project.parent / "s.jsonl")}
        out, noted = process.communicate(json.dumps(told).encode(), timeout=PATIENCE)
    finally:
        server.resume()
    assert (process.returncode, json.loads(out)) == (0, {})
    assert noted.decode().startswith("layerlore: the shared server did not answer within ")
    assert await machine.said("s") == [("user", "The server sleeps.")]


async def test_nothing_is_lost_and_nothing_comes_twice_when_hooks_and_servers_are_killed(
    machine: HookedMachine,
) -> None:
    lines = [claude(n, "user", f"Line {n}.") for n in range(1, 17)]
    for n, line in enumerate(lines):
        machine.write("s", line)
        told = {"session_id": "s", "transcript_path": str(machine.project.parent / "s.jsonl")}
        process = machine.start_hook("claude-code", "Stop" if n % 2 else "UserPromptSubmit")
        assert process.stdin is not None
        process.stdin.write(json.dumps(told).encode())
        process.stdin.close()
        if n % 3 == 0:  # a host's timeout
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.02 * (n % 7))
            process.kill()
        process.wait(PATIENCE)
        for stream in (process.stdout, process.stderr):
            assert stream is not None
            stream.close()
        if n % 8 == 7:
            await machine.kill()
    machine.write("t", claude(1, "user", "A later session."))
    machine.hook("claude-code", "SessionStart", "t", source="startup")
    machine.hook("claude-code", "Stop", "s")
    assert await machine.said("s") == [("user", f"Line {n}.") for n in range(1, 17)]


async def test_what_was_handed_over_without_a_server_is_stored_by_the_next_one(machine: HookedMachine) -> None:
    machine.write("s", claude(1, "user", "Nobody answered."))
    spool = Path(machine.hooks) / "spool"
    spool.mkdir(parents=True)
    handed = {
        "host": "claude-code",
        "event": "Stop",
        "given": {"session_id": "s", "transcript_path": str(machine.project.parent / "s.jsonl")},
    }
    (spool / "00000000000000000001-a.json").write_text(json.dumps(handed))
    (spool / "00000000000000000002-b.json").write_text("{half")
    async with machine.host(mode="auto") as client:
        await client.list_tools()
        assert await machine.said("s") == [("user", "Nobody answered.")]
    assert [each.name for each in spool.iterdir()] == ["00000000000000000002-b.json.unfit"]


PLUGINS = Path(__file__).parents[3] / "plugins"
BEGINNINGS = {"codex": TRANSCRIPTS["codex"][0], "gemini-cli": TRANSCRIPTS["gemini-cli"][0]}
SPOKEN = {
    "claude-code": lambda text: claude(1, "user", text),
    "codex": lambda text: codex("message", **spoken("user", text)),
    "gemini-cli": lambda text: lines(gemini("1", "user", [{"text": text}])),
}


@pytest.mark.parametrize(
    ("host", "prompt", "stop"),
    [
        ("claude-code", "UserPromptSubmit", "Stop"),
        ("codex", "UserPromptSubmit", "Stop"),
        ("gemini-cli", "BeforeAgent", "AfterAgent"),
    ],
)
async def test_the_hooks_of_a_plugin_keep_what_is_said_and_show_it_in_the_next_session(
    shared: HookedMachine, host: str, prompt: str, stop: str
) -> None:
    hooks = json.loads((PLUGINS / host / "hooks" / "hooks.json").read_text(encoding="utf-8"))["hooks"]

    def fire(event: str, session: str, **given: Any) -> Any:
        ((hook,),) = [group["hooks"] for group in hooks[event]]
        command = [hook["command"], *hook["args"]] if "args" in hook else shlex.split(hook["command"])
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        process = shared.start(*command, PATH=path)
        told = {"session_id": session, "cwd": str(shared.project), "hook_event_name": event, **given}
        out, _ = process.communicate(json.dumps(told).encode(), timeout=PATIENCE)
        assert process.returncode == 0
        return json.loads(out)

    said = f"The spare key of {host} hangs behind the blue boiler."
    transcript = shared.write(f"plugin-{host}", BEGINNINGS.get(host, ""), SPOKEN[host](said))
    fire(stop, f"plugin-{host}", transcript_path=str(transcript))
    assert await shared.said(f"plugin-{host}") == [("user", said)]
    answer = fire(prompt, f"next-{host}", prompt=f"Where hangs the spare key of {host}?")
    assert said in answer["hookSpecificOutput"]["additionalContext"]


async def test_a_host_whose_hooks_keep_its_conversations_is_not_asked_to_store_them(machine: HookedMachine) -> None:
    named = Implementation(name="claude-code", version="2.1")
    other = Implementation(name="another", version="1")
    async with machine.host(mode="auto", client_info=named) as client:
        assert "call add_messages once" in (client.instructions or "")
    machine.write("s", claude(1, "user", "The kettle is red."))
    machine.hook("claude-code", "Stop")
    async with machine.settled(), machine.host(mode="auto", client_info=other) as client:
        assert "call add_messages once" in (client.instructions or "")
    for mode in ("auto", "legacy"):
        async with machine.host(mode=mode, client_info=named) as client:
            assert "This host stores its conversations by itself" in (client.instructions or "")
            assert "call add_messages once" not in (client.instructions or "")


OF_A_FILE = "I prefer tabs and live in Graz."
QUERY_IN_A_FILE = f"<user_query>{OF_A_FILE}</user_query>"
# What a host adds, with a file, an output or a selection in it that ends the host's own tag.
ADDED = {
    "a file that looks like another host's request": (
        "codex",
        codex(
            "message", **spoken("user", f"# AGENTS.md instructions for /work\n\n<INSTRUCTIONS>\n{QUERY_IN_A_FILE}\n")
        ),
    ),
    "instructions that end themselves": (
        "codex",
        codex("message", **spoken("user", f"<user_instructions>a</user_instructions>{OF_A_FILE}</user_instructions>")),
    ),
    "an output that ends itself": (
        "claude-code",
        claude(
            1, "user", f"<bash-stdout>a</bash-stdout>{OF_A_FILE}<bash-stdout></bash-stdout><bash-stderr></bash-stderr>"
        ),
    ),
    "a selection that ends itself": (
        "claude-code",
        claude(1, "user", [{"type": "text", "text": f"<ide_selection>a</ide_selection>{OF_A_FILE}</ide_selection>"}]),
    ),
    "a note whose end was cut off": ("claude-code", claude(1, "user", f"<system-reminder>{OF_A_FILE}")),
    "a file that a prompt names": (
        "gemini-cli",
        lines(gemini("1", "user", [{"text": "\n--- Content from referenced files ---"}, {"text": OF_A_FILE}])),
    ),
    "an attached file with a request": (
        "cursor",
        lines(
            {
                "role": "user",
                "message": {
                    "content": f"<attached_files>{QUERY_IN_A_FILE}</attached_files><user_query>Build it.</user_query>"
                },
            }
        ),
    ),
}


@pytest.mark.parametrize("added", ADDED)
async def test_what_a_host_added_is_never_the_users_word(shared: HookedMachine, added: str) -> None:
    host, line = ADDED[added]
    number = [*ADDED].index(added)
    session = f"added-{number}"
    says = {
        "codex": codex("message", 10 + number, **spoken("user", "Build it.")),
        "claude-code": claude(10 + number, "user", "Build it."),
        "gemini-cli": lines(gemini("2", "user", [{"text": "Build it."}])),
        "cursor": "",
    }
    name = {"cursor": "conversation_id"}.get(host, "session_id")
    stop = {"cursor": "stop", "gemini-cli": "AfterAgent"}.get(host, "Stop")
    if host == "gemini-cli":
        shared.write(session, lines({"sessionId": "x", "projectHash": "y", "kind": "main"}))
    shared.write(session, line + says[host])
    shared.hook(host, stop, session, **{"session_id": None, name: session})
    assert await shared.said(session) == [("user", "Build it.")]


async def test_another_hosts_tags_are_words_like_others(shared: HookedMachine) -> None:
    shared.write("words", claude(1, "user", "What does <user_query>x</user_query> mean in <environment_context>?"))
    shared.hook("claude-code", "Stop", "words")
    assert await shared.said("words") == [
        ("user", "What does <user_query>x</user_query> mean in <environment_context>?")
    ]


HOSTILE_RULES = {
    "a pipe": os.mkfifo,
    "a link to a pipe": lambda path: (os.mkfifo(f"{path}-pipe"), path.symlink_to(f"{path}-pipe")),
    "a folder": lambda path: path.mkdir(),
    "rules that many engines never finish": lambda path: path.write_text("*a" * 200 + "b\n" + "**/a*" * 50 + "\n"),
    "no text": lambda path: path.write_bytes(b"\xff\x00\xfe" * 1000),
}


@pytest.mark.parametrize("brought", HOSTILE_RULES)
async def test_no_ignore_file_of_a_repository_keeps_sessions_from_being_stored(
    shared: HookedMachine, brought: str
) -> None:
    repository = shared.project.parent / f"repository-{[*HOSTILE_RULES].index(brought)}"
    repository.mkdir()
    HOSTILE_RULES[brought](repository / ".layerloreignore")
    session = repository.name
    # A line that two sessions have alike is one that was copied, and stored once.
    shared.write(session, claude(1, "user", f"Build {session}."))
    shared.write(session, claude_call(2, "t1", "Read", file_path="a" * 3000))
    shared.hook("claude-code", "Stop", session, cwd=str(repository))
    assert (await shared.said(session))[0] == ("user", f"Build {session}.")


async def test_an_ignore_file_above_the_repository_or_of_another_user_does_not_count(shared: HookedMachine) -> None:
    above = shared.project.parent / "above"
    repository = above / "repository"
    (repository / ".git").mkdir(parents=True)
    (above / ".layerloreignore").write_text("*\n")
    if os.geteuid() == 0:
        theirs = repository / ".layerloreignore"
        theirs.write_text("*\n")
        os.chown(theirs, 12345, 12345)
    shared.write("above", claude(1, "user", "Build above."))
    shared.hook("claude-code", "Stop", "above", cwd=str(repository))
    assert await shared.said("above") == [("user", "Build above.")]


async def test_a_pipe_in_place_of_a_transcript_keeps_no_other_session_waiting(shared: HookedMachine) -> None:
    os.mkfifo(shared.project.parent / "pipe.jsonl")
    shared.hook("claude-code", "Stop", "pipe")
    shared.write("beside-a-pipe", claude(1, "user", "Build beside a pipe."))
    shared.hook("claude-code", "Stop", "beside-a-pipe")
    assert await shared.said("beside-a-pipe") == [("user", "Build beside a pipe.")]
    assert not list_waiting(shared.hooks)


async def test_an_event_that_failed_twice_is_set_aside_without_its_secrets(machine: HookedMachine) -> None:
    """Counted beside the event, so that a new server does not begin anew."""
    spool = Path(machine.hooks) / "spool"
    spool.mkdir(parents=True)
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    handed = {"host": "claude-code", "event": "UserPromptSubmit", "given": {"session_id": "s", "prompt": token}}
    (spool / "00000000000000000001-a.json").write_text(json.dumps(handed))
    (spool / "00000000000000000001-a.json.tries").write_text("2 2")
    machine.write("s", claude(1, "user", "Build it."))
    machine.hook("claude-code", "Stop")
    assert await machine.said("s") == [("user", "Build it.")]
    assert [each.name for each in spool.iterdir()] == ["00000000000000000001-a.json.unfit"]
    kept = (spool / "00000000000000000001-a.json.unfit").read_text()
    assert "[masked:github-token" in kept
    assert token not in kept
