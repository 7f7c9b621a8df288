"""Deletes, undos and erasures as answers show them. This module imports nothing heavy: the list of tools needs it."""

from typing import NotRequired

from typing_extensions import TypedDict

from layerlore.memory.messages.message_answers import Totals


class DeletedMessages(TypedDict):
    thread_id: str
    deleted: int
    ids: list[str]
    restorable_until: NotRequired[str]
    undo: NotRequired[str]
    totals: Totals


class DeletedThread(TypedDict):
    thread_id: str
    deleted_messages: int
    restorable_until: NotRequired[str]
    undo: NotRequired[str]


class Undoable(TypedDict):
    """A change that can be undone, in words, and until when. ``thread_ids``: the conversations that it changed."""

    undo_id: str
    tool: str
    at: str
    until: str
    what: str
    thread_ids: NotRequired[list[str]]


class Undone(TypedDict):
    undo_id: NotRequired[str]
    tool: NotRequired[str]
    messages: NotRequired[int]
    entries: NotRequired[int]
    documents: NotRequired[int]
    plans: NotRequired[int]
    left: NotRequired[list[str]]
    already: NotRequired[bool]
    undo: NotRequired[str]
    acts: NotRequired[list[Undoable]]


class ReceiptRow(TypedDict):
    """A receipt of an erasure; without an agent it is of all agents."""

    receipt: str
    at: str
    dry_run: bool
    tenant: str
    agent: NotRequired[str]
    resource_mark: str
    thread_mark: NotRequired[str]
    rows: int
    counts: dict[str, int]
    bytes: NotRequired[str]


class ErasedMemory(TypedDict):
    receipt: str
    at: str
    dry_run: bool
    tenant: str
    agent: str
    resource_mark: str
    thread_mark: NotRequired[str]
    rows: int
    counts: dict[str, int]
    bytes: NotRequired[str]
    confirm: NotRequired[str]
    confirm_before: NotRequired[str]
