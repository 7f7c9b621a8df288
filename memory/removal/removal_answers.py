"""Deletes, undos and erasures as answers show them. This module imports nothing heavy: the list of tools needs it."""

from typing import Literal, NotRequired, final, get_args

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


class ForgetItem(TypedDict):
    """A thing that would be forgotten. A line without ``thread_id`` is one of the profile; ``other_half``: the call or the
    result that goes with a message; ``whose``: in a project, whose memory it is in."""

    kind: Literal["entry", "message", "observation", "line"]
    text: str
    id: NotRequired[str]
    thread_id: NotRequired[str]
    seq: NotRequired[int]
    speaker: NotRequired[str]
    day: NotRequired[str]
    other_half: NotRequired[Literal["call", "result"]]
    whose: NotRequired[str]


class KeptPlaceRow(TypedDict):
    """A place that a forget leaves as it is, though it is about the same. ``changed_by`` names the tool that changes it."""

    kind: str
    thread_id: str
    text: NotRequired[str]
    changed_by: str
    whose: NotRequired[str]


@final  # this key distinguishes it from the other answer for a type checker
class ForgetPreviewAnswer(TypedDict):
    """``confirm`` is the token that does it; without one there is nothing to forget. ``more_items``: how many
    others are about the query and need another request. ``undo_days``: for how many days it can be undone."""

    items: list[ForgetItem]
    kept: list[KeptPlaceRow]
    more_items: NotRequired[int]
    more_kept: NotRequired[int]
    undo_days: int
    confirm: NotRequired[str]


ForgottenKind = Literal["entries", "messages", "observations", "lines", "titles"]
FORGOTTEN_KINDS: tuple[ForgottenKind, ...] = get_args(ForgottenKind)


class ForgottenMemory(TypedDict):
    """How much was forgotten of one memory. ``undo`` brings it back until ``erased_after``."""

    entries: NotRequired[int]
    messages: NotRequired[int]
    observations: NotRequired[int]
    lines: NotRequired[int]
    titles: NotRequired[int]
    kept: list[KeptPlaceRow]
    erased_after: NotRequired[str]
    undo: NotRequired[str]
    whose: NotRequired[str]


class ForgottenAnswer(TypedDict):
    """In a project, of the project's memory and of the person's."""

    forgotten: list[ForgottenMemory]


class UndoableChange(TypedDict):
    """A change that can be undone, in words, and until when. ``thread_ids``: the conversations that it changed."""

    undo_id: str
    tool: str
    at: str
    until: str
    what: str
    thread_ids: NotRequired[list[str]]


class UndoAnswer(TypedDict):
    undo_id: NotRequired[str]
    tool: NotRequired[str]
    messages: NotRequired[int]
    entries: NotRequired[int]
    documents: NotRequired[int]
    plans: NotRequired[int]
    left: NotRequired[list[str]]
    already: NotRequired[bool]
    undo: NotRequired[str]
    acts: NotRequired[list[UndoableChange]]


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
