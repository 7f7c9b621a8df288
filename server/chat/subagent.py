"""An agent as a tool of another one (seed 002's asTool): it knows what its briefing says, and nothing else."""

from typing import Any

from layerlore.server.chat.memory import Memory
from layerlore.server.chat.model import ChatModel, ModelFailed, ModelReply
from layerlore.server.chat.tools import Tool, Toolbox, ToolResult
from layerlore.server.chat.turn_run import AgentRun

Json = dict[str, Any]

MOST_ITERATIONS = 20
"""Answers of a model in one turn, each with the calls that it asks for."""

INSTRUCTIONS = (
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
        briefing = await self._memory.call("get_briefing", task=task, task_key=key)
        try:
            text = await self._converse(
                [{"role": "system", "content": INSTRUCTIONS}, {"role": "user", "content": briefing}]
            )
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
