"""Trust: whose word a message is, and how far anything made from it can be trusted."""

from collections.abc import Iterable
from typing import Literal, get_args

from layerlore.memory.text.quotation import format_speaker
from layerlore.storage.core import linear_re
from layerlore.storage.core.records import Message, Role

Trust = Literal["web", "tool", "shared", "assistant", "user"]
TRUSTS: tuple[Trust, ...] = get_args(Trust)
"""Lowest first. A derived text has the lowest trust of its sources. ``shared``: an entry that a file brought, as long
as the user neither accepts it nor says it; no message has this trust."""

_NAME_WORD = linear_re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_WEB = frozenset(
    ["web", "website", "webpage", "browser", "browse", "internet", "http", "https", "url", "crawl", "scrape"]
)


def find_trust(message: Message) -> Trust:
    """Find whose word a message is. If a user's message carries a tool's result, the result counts. A system message
    counts as an assistant's."""
    results = [part for part in message.parts if part["type"] == "tool_result"]
    if any(_is_web(part.get("name") or message.name or "") for part in results):
        return "web"
    if results or message.role == "tool":
        if _is_web(message.name or ""):
            return "web"
        return "tool"
    if message.role == "user":
        return "user"
    return "assistant"


def find_evidence_role(message: Message) -> Role:
    """The role that a message's words count for as evidence: what a tool brings under a user's name is not a user's
    word."""
    if message.role == "user" and find_trust(message) != "user":
        return "tool"
    return message.role


def find_lowest_trust(trusts: Iterable[Trust]) -> Trust:
    """The lowest of these trusts; of none, the lowest possible."""
    return min(trusts, key=TRUSTS.index, default=TRUSTS[0])


def find_outside_trust(message: Message) -> str:
    """``tool`` or ``web`` for a message from outside, else ""."""
    trust = find_trust(message)
    if trust in ("tool", "web"):
        return trust
    return ""


def describe_speaker(message: Message) -> str:
    """The speaker at the head of a line: ``user Anna``, ``tool fetch (web)``, and ``user (tool)`` for what a tool
    brought under a user's name."""
    trust = find_outside_trust(message)
    return format_speaker(message.role, message.name, "" if trust == message.role else trust)


def _is_web(tool: str) -> bool:
    return any(word.lower() in _WEB for word in _NAME_WORD.findall(tool))
