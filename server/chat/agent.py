"""The agent: each message of the user is a run, a loop of context, model and tools.

The work of a run is in the conversation, message by message, under ids that follow from the run's. So it can end at
any point: the process that takes the run over reads there how far it came, and stores nothing twice.
"""

import asyncio
import contextlib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import anyio

from layerlore.server.chat.memory import Memory, MemoryRefused, as_json
from layerlore.server.chat.model import ChatModel, ModelFailed, ModelReply, Say, ToolCall
from layerlore.server.chat.tools import Tool, Toolbox, ToolResult
from layerlore.server.chat.turn_run import AgentRun, Notify

MOST_ITERATIONS = 20
"""Answers of a model in one turn, each with the calls that it asks for."""

Json = dict[str, Any]
SUBAGENT_INSTRUCTIONS = (
    "You do one task for another agent. All that you know is in the briefing: its rules hold, and what failed before must "
    "be done in another way. Answer with the result alone."
)
_SCHEMA: Json = {
    "type": "object",
    "properties": {
        "task": {"type": "string", "description": "What it is to do, clear on its own."},
        "task_key": {"type": "string", "description": "The task's name, the same at each try, such as build:report."},
    },
    "required": ["task", "task_key"],
}


class SubAgent:
    """``name`` is under which its steps and its usage stand in the run of its parent."""

    def __init__(self, name: str, memory: Memory, model: ChatModel, tools: Toolbox) -> None:
        """``tools``: what it may use. It cannot ask the user, so the tools that need an approval are left out."""
        self.name = name
        self.run: AgentRun | None = None
        self._memory = memory
        self._model = model
        self._tools = tools.without_asking()

    def as_tool(self, description: str) -> Tool:
        return Tool(self.name, description, _SCHEMA, self._work)

    async def _work(self, arguments: Json) -> ToolResult:
        """Do a task, and log the attempt whatever became of it: the next attempt finds it in the briefing."""
        task, key = str(arguments["task"]), str(arguments["task_key"])
        # Earlier failures of the same task are in the briefing, so the sub-agent does not repeat them.
        briefing = await self._memory.call("get_briefing", task=task, task_key=key)
        try:
            text = await self._converse(
                [{"role": "system", "content": SUBAGENT_INSTRUCTIONS}, {"role": "user", "content": briefing}]
            )
        # The failure is logged first, so that the next attempt's briefing has it.
        except ModelFailed as error:
            await self._memory.call("log_attempt", task_key=key, action=task, result="failed", error=str(error))
            return ToolResult(str(error), is_error=True)
        await self._memory.call("log_attempt", task_key=key, action=task, result=text)
        return ToolResult(text)

    async def _converse(self, messages: list[Json]) -> str:
        for _ in range(MOST_ITERATIONS):
            reply = await self._model.ask(messages, self._tools.for_model())
            await self._log(reply)
            if not reply.calls:
                return reply.text
            messages.append(reply.as_message())
            for call in reply.calls:
                result = await self._tools.run(call)
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result.text})
        raise ModelFailed(f"it came to no end in {MOST_ITERATIONS} steps")

    async def _log(self, reply: ModelReply) -> None:
        if self.run is not None:
            await self.run.sub_agent_answered(self.name, reply)


TOOLS_AT_ONCE = 2
INSTRUCTIONS = (
    "You are a helpful assistant with a long-term memory. What you know of the user and of earlier conversations is in "
    "the messages, as data. Call recall_memory before you answer about the past if it is not there. Keep what should be "
    "known next time: remember for single notes, update_working_memory(scope='resource') for what the user is like."
)
_UNKNOWN = "It was interrupted, and nobody knows whether it was done: look before you call it again."


@dataclass(frozen=True)
class AgentTurn:
    """How a turn ended. ``status`` is that of its run: completed, suspended, failed or cancelled; ``waiting`` are the
    calls that a person has to decide, ``usage`` is what the whole run took."""

    run_id: str
    status: str
    text: str = ""
    waiting: list[ToolCall] = field(default_factory=list)
    usage: Json = field(default_factory=dict)


@dataclass(frozen=True)
class RunProgress:
    """How far the messages of a run have come: how often the model answered, the last text, the calls in it that have no
    result yet, and whether it was the answer to the user, which has no calls."""

    iterations: int = 0
    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    is_over: bool = False


class Agent:
    """``notify`` gets each lifecycle event (seed 002: AgentStart, TurnStart, ToolExecutionStart ...) as it is recorded.
    ``shown`` is the last request to the model, with the report of the blocks in it."""

    def __init__(
        self,
        memory: Memory,
        model: ChatModel,
        tools: Toolbox,
        *,
        max_tokens: int = 8_000,
        notify: Notify = lambda kind, payload: None,
        sub_agents: Sequence[SubAgent] = (),
    ) -> None:
        self.memory = memory
        self.model = model
        self.tools = tools
        self.max_tokens = max_tokens
        self.sub_agents = sub_agents
        self.shown: tuple[list[Json], Json] = ([], {})
        self._notify = notify
        self._scope = anyio.CancelScope()

    async def generate(self, text: str) -> AgentTurn:
        """One turn, whose answer comes whole."""
        return await self._begin(text, None)

    async def stream(self, text: str, say: Say) -> AgentTurn:
        """One turn, whose answer goes to ``say`` as it comes."""
        return await self._begin(text, say)

    async def resume(self, run_id: str, say: Say | None = None) -> AgentTurn:
        """Go on with a run that was suspended, or whose process is gone. Raises MemoryRefused if another has it."""
        return await self._keep(await AgentRun.take(self.memory, run_id, self._notify), say)

    def abort(self) -> None:
        """Cancel the turn that is under way; it ends as cancelled."""
        self._scope.cancel()

    async def _begin(self, text: str, say: Say | None) -> AgentTurn:
        run_id = f"run-{uuid.uuid4().hex[:12]}"
        # The id follows from the run's, so a process that takes the run over stores the message once only.
        given = {"input": {"id": f"{run_id}-0", "role": "user", "content": text}}
        return await self._keep(await AgentRun.start(self.memory, run_id, given, self._notify), say)

    async def _keep(self, run: AgentRun, say: Say | None) -> AgentTurn:
        """The turn, while the run's lease is renewed and news of it are listened for."""
        turn = None
        for sub_agent in self.sub_agents:
            sub_agent.run = run
        with anyio.CancelScope() as self._scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run.keep_lease)
                tasks.start_soon(self._abort_with, run)
                turn = await self._settle(run, say)
                tasks.cancel_scope.cancel()
        # None means that the scope was cancelled before the turn had a result.
        if turn is None:
            with contextlib.suppress(MemoryRefused):  # another process has taken the run over
                await run.end("cancelled")
            turn = AgentTurn(run.id, "cancelled")
        return replace(turn, usage=await run.usage())

    async def _abort_with(self, run: AgentRun) -> None:
        await run.wait_until_lost()
        self.abort()

    async def _settle(self, run: AgentRun, say: Say | None) -> AgentTurn:
        try:
            return await self._loop(run, say)
        except (ModelFailed, MemoryRefused) as error:
            with contextlib.suppress(MemoryRefused):  # another process has taken the run over
                await run.event("Error", message=str(error))
                await run.end("failed", {"error": str(error)})
            return AgentTurn(run.id, "failed", str(error))

    async def _loop(self, run: AgentRun, say: Say | None) -> AgentTurn:
        # Read from the conversation, not from memory: the run may have been begun by another process.
        progress = await self._read_progress(run)
        while not progress.is_over:
            waiting = await self._use_tools(run, progress.calls)
            if waiting:
                await run.suspend(waiting)
                return AgentTurn(run.id, "suspended", progress.text, waiting)
            # The results of the last answer complete an iteration; a fresh run has none yet.
            if progress.iterations:
                await run.event("TurnEnd", iteration=progress.iterations, toolResults=len(progress.calls))
            if progress.iterations < MOST_ITERATIONS:
                progress = await self._ask(run, progress.iterations + 1, say)
            else:
                progress = await self._stop(run)
        await run.end("completed", {"text": progress.text})
        return AgentTurn(run.id, "completed", progress.text)

    async def _ask(self, run: AgentRun, iteration: int, say: Say | None) -> RunProgress:
        """One answer of the model, stored before anything that it asks for is done."""
        await run.event("TurnStart", iteration=iteration)
        self.shown = await self.memory.context(self.max_tokens)
        prompt = [{"role": "system", "content": INSTRUCTIONS}, *self.shown[0]]
        reply = await self.model.ask(prompt, self.tools.for_model(), say)
        if not reply.text and not reply.calls:
            raise ModelFailed(f"{reply.model}: it said nothing")
        message_id = f"{run.id}-{iteration}"
        # Ids of our own: some providers leave them out, and others give the same one in each answer.
        calls = [replace(call, id=f"{message_id}-{place}") for place, call in enumerate(reply.calls, 1)]
        reply = replace(reply, calls=calls)
        # The answer is recorded before it is stored, so that its usage counts even if the store fails.
        await run.answered(reply)
        await self.memory.store({"id": message_id, **reply.as_message()})
        if not calls:
            await run.event("TurnEnd", iteration=iteration, toolResults=0)
        return RunProgress(iteration, reply.text, tuple(calls), is_over=not calls)

    async def _stop(self, run: AgentRun) -> RunProgress:
        text = f"I stopped after {MOST_ITERATIONS} steps. Shall I go on?"
        await self.memory.store({"id": f"{run.id}-end", "role": "assistant", "content": text})
        return RunProgress(MOST_ITERATIONS, text, is_over=True)

    async def _use_tools(self, run: AgentRun, calls: tuple[ToolCall, ...]) -> list[ToolCall]:
        """Do the calls that may be done, two at a time. Returns those that wait for a person."""
        waiting = [call for call in calls if call.id not in run.decisions and self.tools.asks(call)]
        # One that waits for a person does not hold up the calls that need no approval.
        at_once = asyncio.Semaphore(TOOLS_AT_ONCE)
        ready = [self._use_tool(run, call, at_once) for call in calls if call not in waiting]
        # All calls are awaited before one failure is raised, so that no call runs on unobserved.
        for failure in await asyncio.gather(*ready, return_exceptions=True):
            if failure is not None:
                raise failure
        return waiting

    async def _use_tool(self, run: AgentRun, call: ToolCall, at_once: asyncio.Semaphore) -> None:
        decision = run.decisions.get(call.id, {})
        async with at_once:
            # The process ended during the call: it may have been done, so only a repeatable tool is called again.
            if call.id in run.began and not self.tools.repeatable(call):
                result = ToolResult(_UNKNOWN, is_error=True)
            elif decision.get("approved", True) is not True:
                result = ToolResult(f"The user denied this call. {decision.get('reason', '')}".strip(), is_error=True)
            else:
                await run.event("ToolExecutionStart", toolCallId=call.id, toolName=call.name, args=call.arguments)
                result = await self.tools.run(call)
            part: Json = {"type": "tool_result", "tool_call_id": call.id, "name": call.name, "result": result.text}
            if result.is_error:
                part["is_error"] = True
            # Stored before the event: after a crash the conversation decides whether the call is done.
            await self.memory.store({"id": call.id, "role": "tool", "parts": [part]})
            ended = {"toolCallId": call.id, "toolName": call.name, "result": result.text, "isError": result.is_error}
            await run.event("ToolExecutionEnd", **ended)

    async def _read_progress(self, run: AgentRun) -> RunProgress:
        """The messages of this run that the conversation already has. The user's message is stored if it is not
        there."""
        progress = RunProgress()
        async for message in self.memory.messages_after(await self.memory.store(run.state["input"])):
            # A message of another run may stand between, for example from a second terminal.
            if not message["id"].startswith(f"{run.id}-"):
                continue
            parts = message["parts"]
            if message["role"] == "assistant":
                text = "".join(part["text"] for part in parts if part["type"] == "text")
                calls = tuple(_read_call(part, run) for part in parts if part["type"] == "tool_call")
                progress = RunProgress(progress.iterations + 1, text, calls, is_over=not calls)
            else:
                # A tool's message has the id of its call, which is thereby answered.
                progress = replace(progress, calls=tuple(c for c in progress.calls if c.id != message["id"]))
        return progress


def _read_call(part: Json, run: AgentRun) -> ToolCall:
    # In the conversation secrets are masked, and a call may need one; the run's state has the exact text.
    exact = run.state.get("arguments", {}).get(part["id"])
    return ToolCall(part["id"], part["name"], as_json(part["arguments"]) if exact is None else exact)
