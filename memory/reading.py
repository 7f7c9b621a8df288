"""The way out: pages of a thread, as programs and models read them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from memstrata.memory.acceptance import one_of
from memstrata.memory.ages import iso
from memstrata.memory.engine import Engine
from memstrata.memory.parts import plain_text
from memstrata.storage import messages
from memstrata.storage.errors import InvalidInput
from memstrata.storage.records import ROLES, Json, Message, Role, Scope
from memstrata.storage.statements import to_json

Detail = Literal["low", "high"]

LARGEST_PAGE = 200
# What detail="low" shows of one message.
LOW_TEXT_CHARS = 200
CUT_MARK = "… [cut]"


@dataclass(frozen=True, slots=True)
class PageRequest:
    """Which messages of a thread: see ``get_messages``. ``before`` and ``after`` are seqs, both exclusive."""

    limit: int = 50
    offset: int | None = None
    before: int | None = None
    after: int | None = None
    roles: Sequence[Role] = ROLES
    detail: Detail = "high"
    max_tokens: int | None = None


def checked_roles(roles: Sequence[str]) -> list[Role]:
    """The roles asked for; none means all. Raises InvalidInput."""
    for role in roles:
        if role not in ROLES:
            raise InvalidInput(f"roles: unknown role {role!r}; {one_of(role, ROLES)}")
    return [role for role in ROLES if not roles or role in roles]


async def get_messages(engine: Engine, scope: Scope, thread_id: str, asked: PageRequest) -> Json:
    """One page, in chronological order: the newest ``limit`` messages, or those from ``offset`` on, counted from the
    oldest (seed 001's paging), or those before or after a seq.

    With ``max_tokens`` the page ends where the next message would not fit, but has at least one. ``next`` holds the
    argument that continues a page that is not the last. Raises NotFound, InvalidInput.
    """
    if asked.offset is not None and (asked.before is not None or asked.after is not None):
        raise InvalidInput("offset pages from the oldest message, before and after from a seq: give one or the other")
    page = await engine.database.read(
        messages.page,
        scope,
        thread_id,
        roles=list(asked.roles),
        limit=asked.limit + 1,
        offset=asked.offset,
        before=asked.before,
        after=asked.after,
    )
    from_oldest = asked.offset is not None or (asked.after is not None and asked.before is None)
    ordered = page.messages if from_oldest else page.messages[::-1]
    kept = _fitting(engine, ordered[: asked.limit], asked)
    more = len(kept) < len(ordered)
    return {
        "thread_id": thread_id,
        "messages": [entry for _, entry in (kept if from_oldest else kept[::-1])],
        "total": page.total,
        **({"next": _next(asked, [message for message, _ in kept], from_oldest)} if more else {}),
        **({"cut": f"max_tokens={asked.max_tokens} reached"} if len(kept) < min(asked.limit, len(ordered)) else {}),
    }


def _fitting(engine: Engine, ordered: Sequence[Message], asked: PageRequest) -> list[tuple[Message, Json]]:
    shown = [(message, shown_message(message, asked.detail)) for message in ordered]
    if asked.max_tokens is None:
        return shown
    left = asked.max_tokens
    kept: list[tuple[Message, Json]] = []
    for message, entry in shown:
        cost = engine.tokens.text(to_json(entry))
        if cost > left and kept:
            break
        if cost > left:
            entry = _cut(engine, message, left)
        left -= cost
        kept.append((message, entry))
    return kept


def _cut(engine: Engine, message: Message, most: int) -> Json:
    """A message that is larger than the whole budget: as much of its text as fits, and a mark."""
    entry = shown_message(message, "low")
    room = most - engine.tokens.text(to_json({**entry, "text": CUT_MARK}))
    return {**entry, "text": engine.tokens.cut(plain_text(message.parts), max(room, 0)) + CUT_MARK}


def _next(asked: PageRequest, kept: list[Message], from_oldest: bool) -> Json:
    if asked.offset is not None:
        return {"offset": asked.offset + len(kept)}
    return {"after": kept[-1].seq} if from_oldest else {"before": kept[-1].seq}


def shown_message(message: Message, detail: Detail) -> Json:
    """A message as an answer has it: whole with its parts, or (``low``) as a line of text cut at LOW_TEXT_CHARS."""
    entry: dict[str, Any] = {"id": message.id, "seq": message.seq, "role": message.role}
    if message.name:
        entry["name"] = message.name
    if detail == "low":
        text = plain_text(message.parts)
        shown = text if len(text) <= LOW_TEXT_CHARS else text[:LOW_TEXT_CHARS] + CUT_MARK
        return {**entry, "text": shown, "said_at": iso(message.said_at)}
    entry |= {"parts": message.parts, "said_at": iso(message.said_at), "created_at": iso(message.created_at)}
    if message.metadata:
        entry["metadata"] = message.metadata
    return {**entry, "tokens": message.tokens}
