"""An agent of 30 turns, as a script, and its own book of what was acknowledged."""

from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

THREAD = "voyage"
TURNS = 30
TASK = "build:1"
RUN = {10: "suspend", 15: "resume", 16: "suspend", 20: "resume", 21: "suspend", 25: "resume", 26: "suspend"}
PENDING = [{"tool_call_id": "c1", "tool_name": "sail", "suspended": True, "resume_schema": {"type": "object"}}]


@dataclass(frozen=True)
class Call:
    """A tool, its arguments, and its idempotency key: sent again, it is the same request."""

    tool: str
    arguments: Json
    key: str


@dataclass
class Book:
    """What the server acknowledged, as the agent would expect to find it."""

    messages: list[tuple[str, str]] = field(default_factory=list)
    memory: list[str] = field(default_factory=list)
    profile: list[str] = field(default_factory=list)
    steps_of_plan: list[tuple[str, str | None]] = field(default_factory=lambda: [("pending", None)] * TURNS)
    attempts: list[str] = field(default_factory=list)
    run_state: Any = None
    claim: str = ""
    steps: list[tuple[str, str]] = field(default_factory=list)
    tools: list[str] = field(default_factory=list)  # that wrote to the thread

    def enter(self, call: Call, answer: Any) -> None:
        """Write down what one acknowledged call did."""
        given = call.arguments
        if given.get("scope") != "resource":
            self.tools.append(call.tool)
        match call.tool:
            case "add_messages":
                self.messages += [(each["id"], each["content"]) for each in given["messages"]]
            case "update_working_memory":
                (self.profile if given.get("scope") == "resource" else self.memory).append(given["content"])
            case "plan" if given["action"] == "update":
                (step,) = given["plan"]["steps"]
                self.steps_of_plan[step["index"]] = (step["status"], step["result"])
            case "log_attempt":
                assert answer["attempt"] == len(self.attempts) + 1
                self.attempts.append(f"Attempt {answer['attempt']}: {given['action']} → {given['result']}")
            case "record_steps":
                self.steps += [(each["operation_id"], each["type"]) for each in given["steps"]]
            case "suspend_run":
                self.run_state, self.claim = given["state"], ""
            case "resume_run":
                assert answer["state"] == self.run_state
                self.claim = answer["claim"]


def script(turn: int, book: Book) -> list[Call]:
    """The calls of one turn; what the run needs is in the book."""
    messages = [
        {"id": f"u{turn}", "role": "user", "content": f"question {turn}"},
        {"id": f"a{turn}", "role": "assistant", "content": f"answer {turn}"},
    ]
    steps = [
        {"type": "TurnStart", "operation_id": f"op{turn}"},
        {"type": "tool_call", "operation_id": f"op{turn}", "tool_name": "wind", "arguments": {"turn": turn}},
        {"type": "tool_result", "operation_id": f"op{turn}", "tool_name": "wind", "result": f"{turn} knots"},
        {"type": "TurnEnd", "operation_id": f"op{turn}"},
    ]
    done = {"steps": [{"index": turn - 1, "status": "completed", "result": f"done {turn}"}]}
    calls: list[tuple[str, Json]] = [("add_messages", {"messages": messages, "thread_id": THREAD})]
    if turn == 1:
        plan = {"goal": "sail around the world", "steps": [{"description": f"step {n}"} for n in range(TURNS)]}
        calls.append(("plan", {"action": "create", "plan": plan, "thread_id": THREAD}))
    calls.append(("plan", {"action": "update", "plan": done, "thread_id": THREAD}))
    note = {"content": f"- note {turn}", "mode": "append", "thread_id": THREAD}
    calls.append(("update_working_memory", note))
    if turn % 5 == 0:
        calls.append(("update_working_memory", {"content": f"likes {turn}", "mode": "append", "scope": "resource"}))
    if turn % 3 == 0:
        tried = {"task_key": TASK, "action": f"try {turn}", "result": f"out {turn}", "thread_id": THREAD}
        calls.append(("log_attempt", tried))
    calls.append(("record_steps", {"steps": steps, "thread_id": THREAD}))
    calls += _run(turn, book)
    return [Call(tool, arguments, f"{turn}.{place}") for place, (tool, arguments) in enumerate(calls)]


def _run(turn: int, book: Book) -> list[tuple[str, Json]]:
    match RUN.get(turn):
        case "suspend":
            state = {"turn": turn, "messageList": {"messages": [], "historyIds": [f"u{n}" for n in range(turn)]}}
            run = {"run_id": "r1", "state": state, "pending_tool_calls": PENDING, "thread_id": THREAD}
            return [("suspend_run", {**run, **({"claim": book.claim} if book.claim else {})})]
        case "resume":
            return [("resume_run", {"run_id": "r1", "tool_call_id": "c1", "data": {"approved": True}})]
    return []
