"""Which action serves which tool."""

from collections.abc import Awaitable, Callable
from typing import Any

from memstrata.server.actions import curation, messages, recall, threads

Action = Callable[..., Awaitable[Any]]

ACTIONS: dict[str, Action] = {
    action.__name__: action
    for action in (
        messages.add_messages,
        messages.get_messages,
        messages.delete_messages,
        recall.recall_memory,
        threads.list_threads,
        threads.update_thread,
        threads.delete_thread,
        curation.memory_status,
    )
}
