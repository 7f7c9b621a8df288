"""A call of each tool that works in a small world.

A new tool needs one line here. The tests that try every tool take its call from this table, and its rights, hints and
schema from its declaration."""

from collections.abc import Mapping
from typing import Any

from .calling import Json, Tools

THREAD, MESSAGE = "main", "m1"
"""The conversation of the small world, and its one message."""
HERE: Json = {"thread_id": THREAD}

# Tools that delete stand last, so that what the others name is there when all are called in order.
SAMPLE_CALLS: dict[str, Json] = {
    "add_messages": {"messages": [{"role": "user", "content": "tea"}], **HERE},
    "get_messages": HERE,
    "get_context": HERE,
    "recall_memory": {"query": "tea"},
    "remember": {"content": "Tea is served at four."},
    "get_working_memory": HERE,
    "update_working_memory": {"content": "tea", **HERE},
    "plan": {"action": "create", "plan": {"goal": "Serve tea"}, **HERE},
    "list_threads": {},
    "update_thread": {"title": "Tea", **HERE},
    "start_run": {"run_id": "run", "thread_id": "tea"},
    "update_run": {"run_id": "run", "claim": "the one that start_run gave", "state": {"step": 1}},
    "suspend_run": {"run_id": "r1", "state": {"step": 1}, "thread_id": "tea"},
    "decide_run": {"run_id": "r1", "decisions": [{"decision": "approve"}]},
    "resume_run": {"run_id": "r1"},
    "complete_run": {"run_id": "done", "thread_id": "tea"},
    "cancel_run": {"run_id": "run"},
    "get_run": {"run_id": "r1"},
    "list_runs": {},
    "record_steps": {"steps": [{"type": "text", "operation_id": "op", "content": "tea"}], **HERE},
    "list_steps": HERE,
    "list_events": HERE,
    "log_attempt": {"task_key": "tea", "action": "boil", "result": "hot", **HERE},
    "get_briefing": {"task": "serve tea", **HERE},
    "next_memory_job": {},
    "submit_memory_job": {"job_id": "t.e1-012345", "result": {"entries": []}},
    "memory_status": {},
    "list_all_threads": {},
    "forget": {"query": "tea"},
    "clear_working_memory": HERE,
    "delete_messages": {"which": "last_turn", **HERE},
    "delete_thread": HERE,
    "undo": {"undo_id": "last"},
    "erase_memory": HERE,
}


async def make_small_world(tools: Tools) -> None:
    await tools.add(THREAD, {"role": "user", "content": "tea", "id": MESSAGE})


def sample_call(tool: str, names: Mapping[str, str]) -> Json:
    """The arguments of the tool's call, each text that is a key of ``names`` replaced by what it is called elsewhere."""
    renamed: Json = _rename(SAMPLE_CALLS[tool], names)
    return renamed


def _rename(value: Any, names: Mapping[str, str]) -> Any:
    match value:
        case dict():
            return {key: _rename(inner, names) for key, inner in value.items()}
        case list():
            return [_rename(inner, names) for inner in value]
        case str():
            return names.get(value, value)
    return value
