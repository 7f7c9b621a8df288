"""Which action serves which tool. A module of them is loaded with the first call that needs it, so that the first call of
a process waits for no other's."""

from collections.abc import Awaitable, Callable
from typing import Any

from layerlore.server.late import load

Action = Callable[..., Awaitable[Any]]

MODULES: dict[str, tuple[str, ...]] = {
    "messages": ("add_messages", "get_messages", "delete_messages"),
    "recall": ("recall_memory",),
    "context": ("get_context",),
    "entries": ("remember", "forget"),
    "working_memory": ("get_working_memory", "update_working_memory", "clear_working_memory"),
    "plan": ("plan",),
    "threads": ("list_threads", "update_thread", "delete_thread"),
    "runs": ("suspend_run", "resume_run", "complete_run", "list_runs"),
    "steps": ("record_steps", "list_steps", "list_events"),
    "attempts": ("log_attempt", "get_briefing"),
    "curation": ("next_memory_job", "submit_memory_job", "memory_status"),
    "erasing": ("erase_memory",),
}
"""The modules of this folder, in the order in which they are loaded when there is time."""
MODULE_OF = {tool: module for module, tools in MODULES.items() for tool in tools}

ACTIONS: dict[str, Action] = {}
"""Those that were loaded."""


async def action_of(tool: str) -> Action:
    """The action that serves a tool."""
    if tool not in ACTIONS:
        ACTIONS[tool] = await load_action(MODULE_OF[tool], tool)
    return ACTIONS[tool]


async def load_action(module: str, name: str) -> Action:
    """An action of a module of this folder."""
    action: Action = getattr(await load(f"{__package__}.{module}"), name)
    return action


async def load_all() -> None:
    """Load every action that serves a tool, one module after the other."""
    for tool in MODULE_OF:
        await action_of(tool)
