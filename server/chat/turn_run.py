"""The run of one turn, as the memory keeps it: its lease, its events, what it costs, and what it waits for."""

import contextlib
from collections.abc import Callable
from typing import Any

import anyio
from mcp.client.subscriptions import SubscriptionLost

from layerlore.server.chat.memory import Memory, MemoryRefused
from layerlore.server.chat.model import ModelReply, ToolCall

Json = dict[str, Any]
Notify = Callable[[str, Json], None]

LEASE_SECONDS = 30
_LONGEST_RECORDED = 4_000
_APPROVAL: Json = {"type": "object", "properties": {"approved": {"type": "boolean"}}, "required": ["approved"]}


class AgentRun:
    """A run that this process holds. Every call renews its lease, and shows if the run was cancelled.

    ``state`` is what the conversation does not have: the ``input``, until it is stored, and exact ``arguments``. ``decisions`` are people's answers by the calls' ids, ``began`` the calls that were
    begun before, by whatever process.
    """

    def __init__(self, memory: Memory, run_id: str, claim: str, state: Json, notify: Notify) -> None:
        self.id = run_id
        self.state = state
        self.decisions: dict[str, Json] = {}
        self.began: set[str] = set()
        self._memory = memory
        self._claim = claim
        self._notify = notify
        self._lost = anyio.Event()

    @classmethod
    async def start(cls, memory: Memory, run_id: str, state: Json, notify: Notify) -> "AgentRun":
        answer = await memory.call("start_run", run_id=run_id, state=state, lease_seconds=LEASE_SECONDS)
        run = cls(memory, run_id, answer["claim"], state, notify)
        await run.event("AgentStart")
        return run

    @classmethod
    async def take(cls, memory: Memory, run_id: str, notify: Notify) -> "AgentRun":
        """Go on with a run that is suspended, or whose lease is over. Raises MemoryRefused if another process has it."""
        answer = await memory.call("resume_run", run_id=run_id, lease_seconds=LEASE_SECONDS)
        run = cls(memory, run_id, answer["claim"], answer["state"], notify)
        # A run may have been decided by another session while no process had it.
        run.decisions = {each["tool_call_id"]: each["data"] for each in answer["resumed"]}
        # A call that began without a result in the conversation may or may not have been done.
        run.began = {each["toolCallId"] async for each in _events(memory, run_id, "ToolExecutionStart")}
        return run

    async def event(self, kind: str, **payload: Any) -> None:
        """Record a lifecycle event."""
        self._notify(kind, payload)
        # The event and the renewal of the lease are one call to the server.
        await self._update(steps=[self._event(kind, payload)])

    async def answered(self, reply: ModelReply) -> None:
        """Record what an answer took, and the arguments of its calls as the model wrote them: in messages and in what is
        pending secrets are masked, and a call may need one."""
        self.state["arguments"] = {call.id: call.arguments for call in reply.calls}
        await self._spend(reply, {}, state=self.state)

    async def sub_agent_answered(self, name: str, reply: ModelReply) -> None:
        """Record the answer of a sub-agent's model. Its cost counts for this run."""
        await self._spend(reply, {"sub_agent_name": name, "content": reply.text[:_LONGEST_RECORDED]})

    async def _spend(self, reply: ModelReply, more: Json, **changes: Any) -> None:
        step = {"type": "text", "operation_id": self.id, "model": reply.model, "usage": reply.usage, **more}
        # A model without usage, such as a local one, would only add empty steps.
        await self._update(**changes, **({"steps": [step]} if reply.usage else {}))

    async def suspend(self, calls: list[ToolCall]) -> None:
        """Wait for people's answers to these calls. The process that resumes the run then holds it."""
        pending = [
            {
                "id": call.id,
                "name": call.name,
                "arguments": call.arguments,
                "suspended": True,
                "resume_schema": _APPROVAL,
            }
            for call in calls
        ]
        await self._memory.call(
            "suspend_run", run_id=self.id, claim=self._claim, state=self.state, pending_tool_calls=pending
        )

    async def end(self, status: str, output: Json | None = None) -> None:
        """End the run for good; a run that ends well says so with AgentEnd."""
        more: Json
        if output is None:
            more = {}
        else:
            more = {"output": output}
        if status == "completed":
            self._notify("AgentEnd", output or {})
            more["steps"] = [self._event("AgentEnd", output or {})]
        await self._memory.call("complete_run", run_id=self.id, claim=self._claim, status=status, **more)

    async def usage(self) -> Json:
        """The cost of the run so far, in all its processes, with its sub-agents; empty without a call of a model."""
        found: Json = (await self._memory.call("get_run", run_id=self.id)).get("usage", {})
        return found

    async def keep_lease(self) -> None:
        """Renew the lease as long as a model or a tool takes its time."""
        with contextlib.suppress(MemoryRefused):
            while True:
                # A third of the lease: two renewals may fail before another process can take the run over.
                await anyio.sleep(LEASE_SECONDS / 3)
                # A refusal means that another process has the run, which ends the loop above.
                await self._update()
        self._lost.set()

    async def wait_until_lost(self) -> None:
        """Returns when another process has cancelled the run, or taken it over after this machine slept."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._listen)
            await self._lost.wait()
            tasks.cancel_scope.cancel()

    async def _listen(self) -> None:
        with contextlib.suppress(SubscriptionLost):  # then the next update shows it
            async for _ in self._memory.changes(f"memory://runs/{self.id}"):
                if (await self._memory.call("get_run", run_id=self.id))["status"] == "cancelled":
                    self._lost.set()

    def _event(self, kind: str, payload: Json) -> Json:
        """The log has the events; the conversation has the whole texts."""
        # Long texts are already in the conversation, and events are limited in size.
        short = {name: each[:_LONGEST_RECORDED] if isinstance(each, str) else each for name, each in payload.items()}
        return {"type": kind, "operation_id": self.id, "payload": short}

    async def _update(self, **changes: Any) -> Json:
        answer: Json = await self._memory.call(
            "update_run", run_id=self.id, claim=self._claim, lease_seconds=LEASE_SECONDS, **changes
        )
        if answer["status"] == "cancelled":
            self._lost.set()
        return answer


async def list_open_runs(memory: Memory) -> list[Json]:
    """The runs of all conversations that have not ended, newest first."""
    runs: list[Json] = (await memory.call("list_runs", status=["suspended", "running"]))["runs"]
    return runs


def can_go_on(run: Json) -> bool:
    """Whether a run waits for people, or its process is gone."""
    return run["status"] == "suspended" or bool(run.get("resumable"))


async def waiting_calls(memory: Memory, run_id: str) -> list[ToolCall]:
    """The unanswered calls of a run."""
    run = await memory.call("get_run", run_id=run_id)
    open_ids = {each["tool_call_id"] for each in run.get("waiting", ())}
    pending = run.get("pending_tool_calls", ())
    return [ToolCall(each["id"], each["name"], each["arguments"]) for each in pending if each["id"] in open_ids]


async def decide(memory: Memory, run_id: str, call: ToolCall, *, approved: bool, reason: str = "") -> None:
    """Answer a call of a run, without running it: any process may."""
    decision = {"tool_call_id": call.id, "decision": "approve" if approved else "deny"}
    await memory.call(
        "decide_run", run_id=run_id, decisions=[decision | ({"data": {"reason": reason}} if reason else {})]
    )


async def _events(memory: Memory, run_id: str, kind: str) -> Any:
    page: Json = {"next": 0, "more": True}
    while page["more"]:
        page = await memory.call("list_events", after=page["next"], types=[kind], limit=200)
        for event in page["events"]:
            # Runs of one conversation share its log, so the events are filtered by run.
            if event["payload"].get("operation_id") == run_id:
                yield event["payload"]
