"""Which action serves which tool."""

from collections.abc import Awaitable, Callable
from typing import Any

from memstrata.server.actions import (
    attempts,
    context,
    curation,
    entries,
    erasing,
    messages,
    plan,
    recall,
    runs,
    steps,
    threads,
    working_memory,
)

Action = Callable[..., Awaitable[Any]]

ACTIONS: dict[str, Action] = {
    action.__name__: action
    for action in (
        messages.add_messages,
        messages.get_messages,
        messages.delete_messages,
        context.get_context,
        recall.recall_memory,
        entries.remember,
        entries.forget,
        working_memory.get_working_memory,
        working_memory.update_working_memory,
        working_memory.clear_working_memory,
        plan.plan,
        threads.list_threads,
        threads.update_thread,
        threads.delete_thread,
        runs.suspend_run,
        runs.resume_run,
        runs.complete_run,
        runs.list_runs,
        steps.record_steps,
        steps.list_steps,
        steps.list_events,
        attempts.log_attempt,
        attempts.get_briefing,
        curation.next_memory_job,
        curation.submit_memory_job,
        curation.memory_status,
        erasing.erase_memory,
    )
}
