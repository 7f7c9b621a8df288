"""Messages, threads and memories as answers show them. This module imports nothing heavy: the list of tools needs it."""

from typing import Annotated, Literal, NotRequired

from pydantic import WithJsonSchema
from typing_extensions import TypedDict

from layerlore.memory.rules.answers import Stored
from layerlore.memory.usage.usage_answers import Usage
from layerlore.storage.core.records import Role, StoredJson, TurnSet


class Totals(TypedDict):
    messages: int
    tokens: int


class StoredMessage(TypedDict):
    id: str
    seq: int
    status: Literal["added", "unchanged", "replaced"]


class SkippedEntry(TypedDict):
    index: int
    reason: Literal["empty"]


class AddedMessages(TypedDict):
    stored: NotRequired[int]
    seqs: NotRequired[str]
    unchanged: NotRequired[int]
    replaced: NotRequired[int]
    thread_id: NotRequired[str]
    messages: NotRequired[list[StoredMessage]]
    skipped: NotRequired[list[SkippedEntry]]
    skipped_deleted: NotRequired[list[str]]
    masked: NotRequired[int]
    totals: NotRequired[Totals]


class CutMessage(TypedDict):
    """How large a message is that an answer shows in part, and the place where it goes on."""

    bytes: int
    part: NotRequired[str]


class MessageSpeaker(TypedDict, total=False):
    """The keys of a message that stand before its content."""

    name: str
    hidden_characters: int


class MessageContent(TypedDict, total=False):
    """The content of a message: one of these."""

    text: str
    parts: list[StoredJson]


class MessageDetails(TypedDict, total=False):
    """The keys of a message that stand behind its content."""

    thread_id: str
    created_at: str
    metadata: StoredJson
    metadata_bytes: int
    turn: str
    set: TurnSet
    tokens: int
    speaker: str
    cut: CutMessage


class ShownMessage(TypedDict):
    """A message of a page. ``text`` stands for the parts with detail=low, and where a message is cut to fit."""

    id: str
    seq: int
    role: Role
    said_at: str
    thread_id: NotRequired[str]
    name: NotRequired[str]
    hidden_characters: NotRequired[int]
    text: NotRequired[str]
    parts: NotRequired[list[StoredJson]]
    created_at: NotRequired[str]
    metadata: NotRequired[StoredJson]
    metadata_bytes: NotRequired[int]
    turn: NotRequired[str]
    set: NotRequired[TurnSet]
    tokens: NotRequired[int]
    speaker: NotRequired[str]
    cut: NotRequired[CutMessage]


class NextPage(TypedDict, total=False):
    """The argument that continues a page: one of these."""

    offset: int
    before: int
    after: int
    part: str


class PageHead(TypedDict, total=False):
    """The thread of a page, or of one message of a page of all threads."""

    thread_id: str


class PageEnd(TypedDict, total=False):
    """The cursor that continues a page, and the reason why it ends there."""

    next: NextPage
    cut: str
    turn: str
    historyIds: list[str]
    inputIds: list[str]
    responseIds: list[str]


class MessagePage(TypedDict):
    """A page of messages. Without ``thread_id`` it is of all threads, and each message names its own. The sets of ids
    (seed 002's names) stand beside a ``turn``."""

    messages: list[ShownMessage]
    total: int
    thread_id: NotRequired[str]
    next: NotRequired[NextPage]
    cut: NotRequired[str]
    turn: NotRequired[str]
    historyIds: NotRequired[list[str]]
    inputIds: NotRequired[list[str]]
    responseIds: NotRequired[list[str]]


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
