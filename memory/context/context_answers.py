"""Contexts and briefings as answers show them. This module imports nothing heavy: the list of tools needs it."""

from collections.abc import Mapping
from typing import Any, NotRequired

from typing_extensions import TypedDict

from layerlore.storage.core.records import StoredJson


class BriefingPlan(TypedDict):
    goal: str
    current_phase: str
    iteration: int
    current_step: NotRequired[str]


class BriefingMessage(TypedDict):
    seq: int
    role: str
    name: NotRequired[str]
    trust: NotRequired[str]
    text: str


class BriefingSections(TypedDict, total=False):
    """The sections of a briefing that are not empty, and in words what had no room."""

    notes: list[str]
    plan: BriefingPlan
    user_profile: str
    previous_attempts: list[str]
    memory: list[str]
    messages: list[BriefingMessage]
    left_out: list[str]


class BriefingAnswer(BriefingSections):
    thread_id: str
    task: str


class ContextMessage(TypedDict):
    id: NotRequired[str]
    seq: NotRequired[int]
    role: str
    name: NotRequired[str]
    parts: list[StoredJson]
    said_at: NotRequired[str]


class ContextBlock(TypedDict):
    """A block of a context: text, or messages."""

    block: str
    text: NotRequired[str]
    messages: NotRequired[list[ContextMessage]]


class ContextBlocks(TypedDict):
    blocks: list[ContextBlock]


class BlockTokens(TypedDict):
    block: str
    tokens: int


class ContextReportAnswer(TypedDict):
    """The tokens of each block, and in words what was left out."""

    degraded: NotRequired[list[str]]
    thread_id: str
    window: str
    tokens: int
    max_tokens: int
    blocks: list[BlockTokens]
    left_out: NotRequired[list[str]]
    note: NotRequired[str]


class ContextAnswer(ContextBlocks):
    report: ContextReportAnswer


ProviderContext = Mapping[str, Any]
"""A context as the messages of a provider, whose API names the keys, and under ``report`` the report."""
