"""Steps, events and attempts as answers show them. This module imports nothing heavy: the list of tools needs it."""

from typing import Any, NotRequired

from typing_extensions import TypedDict

from layerlore.memory.rules.stored import Stored
from layerlore.memory.usage.usage_answers import Usage


class RecordedSteps(TypedDict):
    thread_id: str
    first: NotRequired[int]
    last: NotRequired[int]
    events: int
    masked: NotRequired[int]
    usage: NotRequired[Usage]


class ListedSteps(TypedDict):
    thread_id: str
    steps: Stored[list[dict[str, Any]]]
    next_cursor: NotRequired[str]


class EventRow(TypedDict):
    seq: int
    type: str
    by: str
    tool: NotRequired[str]
    at: str
    payload: Stored[dict[str, Any]]


class ListedEvents(TypedDict):
    events: list[EventRow]
    next: int
    last_seq: int
    more: bool


class LoggedAttempt(TypedDict):
    thread_id: str
    task_key: str
    attempt: int
    masked: NotRequired[int]
