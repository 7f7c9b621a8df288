"""The way out: pages of a thread, as programs and models read them."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from layerlore.memory.acceptance import one_of
from layerlore.memory.ages import iso
from layerlore.memory.clock_mending import read_mended
from layerlore.memory.engine import Engine
from layerlore.memory.parts import plain_text
from layerlore.memory.quoting import hidden
from layerlore.memory.tokens import TokenCounter
from layerlore.storage import messages
from layerlore.storage.errors import InvalidInput, NotFound
from layerlore.storage.records import ROLES, Json, Message, Role, Scope
from layerlore.storage.statements import to_json
from layerlore.storage.transaction import Tx

Detail = Literal["low", "high"]

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

    With ``max_tokens`` the page ends where the next message would not fit, but has at least one, cut if it alone is
    too large; ``cut`` says so. ``next`` holds the argument that continues a page that is not the last. An unknown
    thread has no messages yet.

    Raises InvalidInput.
    """
    if asked.offset is not None and (asked.before is not None or asked.after is not None):
        raise InvalidInput("offset pages from the oldest message, before and after from a seq: give one or the other")

    async def read(tx: Tx, scope: Scope) -> messages.Page:
        return await messages.page(
            tx,
            scope,
            thread_id,
            roles=list(asked.roles),
            limit=asked.limit + 1,
            offset=asked.offset,
            before=asked.before,
            after=asked.after,
        )

    try:
        page = await read_mended(engine, scope, read, lambda page: [page.thread])
    except NotFound:
        return {"thread_id": thread_id, "messages": [], "total": 0}
    from_oldest = asked.offset is not None or (asked.after is not None and asked.before is None)
    ordered = page.messages if from_oldest else page.messages[::-1]
    wanted = ordered[: asked.limit]
    cut = False
    if asked.max_tokens is None:
        entries = [shown_message(message, asked.detail) for message in wanted]
    else:
        entries, cut = await asyncio.to_thread(_fitting, engine.tokens, wanted, asked.detail, asked.max_tokens)
    more = len(entries) < len(ordered)
    return {
        "thread_id": thread_id,
        "messages": entries if from_oldest else entries[::-1],
        "total": page.total,
        **({"next": _next(asked, wanted[: len(entries)], from_oldest)} if more else {}),
        **({"cut": f"max_tokens={asked.max_tokens} reached"} if cut else {}),
    }


def _fitting(counter: TokenCounter, wanted: Sequence[Message], detail: Detail, most: int) -> tuple[list[Json], bool]:
    """As many of the messages as fit, and whether anything is missing."""
    entries: list[Json] = []
    left = most
    for message in wanted:
        entry = shown_message(message, detail)
        left -= counter.text(to_json(entry))
        if left < 0:
            first = cut_to_fit(counter, shown_message(message, "low"), plain_text(message.parts), most)
            return entries or [first], True
        entries.append(entry)
    return entries, False


def cut_to_fit(counter: TokenCounter, entry: Json, text: str, most: int) -> Json:
    """An entry with as much of a text as ``most`` tokens of JSON have room for, and a mark."""

    def shown(tokens: int) -> Json:
        return {**entry, "text": counter.cut(beginning, tokens) + CUT_MARK}

    fits, over = 0, max(most, 0) + 1
    beginning = counter.cut(text, over)
    while over - fits > 1:
        middle = (fits + over) // 2
        if counter.text(to_json(shown(middle))) <= most:
            fits = middle
        else:
            over = middle
    return shown(fits)


def _next(asked: PageRequest, kept: Sequence[Message], from_oldest: bool) -> Json:
    if asked.offset is not None:
        return {"offset": asked.offset + len(kept)}
    return {"after": kept[-1].seq} if from_oldest else {"before": kept[-1].seq}


def shown_message(message: Message, detail: Detail) -> Json:
    """A message as an answer has it, as it was stored: whole with its parts, or (``low``) as a line of text cut at
    LOW_TEXT_CHARS. ``hidden_characters``: so many in its texts nobody sees; models are shown it without them."""
    entry: dict[str, Any] = {"id": message.id, "seq": message.seq, "role": message.role}
    if message.name:
        entry["name"] = message.name
    if unseen := hidden(plain_text(message.parts)):
        entry["hidden_characters"] = unseen
    if detail == "low":
        text = plain_text(message.parts)
        shown = text if len(text) <= LOW_TEXT_CHARS else text[:LOW_TEXT_CHARS] + CUT_MARK
        return {**entry, "text": shown, "said_at": iso(message.said_at)}
    entry |= {"parts": message.parts, "said_at": iso(message.said_at), "created_at": iso(message.created_at)}
    if message.metadata:
        entry["metadata"] = message.metadata
    return {**entry, "tokens": message.tokens}
