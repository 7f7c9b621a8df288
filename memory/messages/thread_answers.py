"""Threads and memories as answers list them. This module imports nothing heavy: the list of tools needs it."""

from typing import Annotated, NotRequired

from pydantic import WithJsonSchema
from typing_extensions import TypedDict

from layerlore.memory.rules.stored import Stored
from layerlore.memory.usage.usage_answers import Usage
from layerlore.storage.core.records import StoredJson


class ThreadNaming(TypedDict, total=False):
    """The keys of a thread's row that a caller set."""

    title: str
    metadata: StoredJson


class ThreadWindow(TypedDict, total=False):
    """The window of a thread, if it has one of its own."""

    window: str | StoredJson


class ThreadUsage(TypedDict, total=False):
    """The model calls of a thread, if it has any."""

    usage: Usage


class MaskedSecrets(TypedDict, total=False):
    """How many secrets a write masked, if any."""

    masked: int


class ThreadRow(TypedDict):
    thread_id: str
    title: NotRequired[Stored[str]]
    metadata: NotRequired[Stored[StoredJson]]
    window: NotRequired[Stored[str | StoredJson]]
    messages: int
    tokens: int
    created_at: str
    updated_at: str


class ListedThread(ThreadRow):
    usage: NotRequired[Usage]


class UpdatedThread(ThreadRow):
    masked: NotRequired[int]


class ThreadPage(TypedDict):
    threads: list[ListedThread]
    next_cursor: NotRequired[str]


# The page lists them for people: a schema of each thread would say nothing to it.
class ThreadsFound(TypedDict):
    threads: Stored[Annotated[list[ListedThread], WithJsonSchema({"type": "array", "items": {"type": "object"}})]]
    total: int


class TenantThreadRow(TypedDict):
    agent: str
    resource: str
    thread_id: str
    title: NotRequired[Stored[str]]
    metadata: NotRequired[Stored[StoredJson]]
    messages: int
    tokens: int
    created_at: str
    updated_at: str


class TenantThreadPage(TypedDict):
    threads: list[TenantThreadRow]
    next_cursor: NotRequired[str]


class MemoryRow(TypedDict):
    agent: str
    resource: str
    conversations: int
    messages: int
    entries: int
    last_at: NotRequired[str]


class MemoryPage(TypedDict):
    memories: list[MemoryRow]
    next_cursor: NotRequired[str]


class TenantPage(TypedDict):
    tenants: list[str]
    next_cursor: NotRequired[str]
