"""The way out: pages of a thread, as programs and models read them."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from layerlore.memory.acceptance import one_of
from layerlore.memory.ages import iso
from layerlore.memory.clock_mending import read_mended
from layerlore.memory.engine import Engine
from layerlore.memory.inside_messages import Place, parts_from, place_of, unknown
from layerlore.memory.media import Media, media_at, media_in, note, noted
from layerlore.memory.pages import FRAME_BYTES, Entry, room, sent_bytes
from layerlore.memory.parts import media_bytes, plain_text
from layerlore.memory.quoting import hidden
from layerlore.memory.tokens import TokenCounter
from layerlore.storage import message_pages
from layerlore.storage.errors import InvalidInput, NotFound
from layerlore.storage.json_text import to_json
from layerlore.storage.light_parts import without_data
from layerlore.storage.records import ROLES, Json, Message, Role, Scope, Thread
from layerlore.storage.transaction import Tx

Detail = Literal["low", "high"]

# What detail="low" shows of one message.
LOW_TEXT_CHARS = 200
CUT_MARK = "… [cut]"
READ_BYTES = 6 * 1024 * 1024
"""Base64 of images and files that is read for the notes of one page."""


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

    The page ends where an answer is full (``limits.answer_bytes``), and with ``max_tokens`` where the next message would
    not fit in those, but has at least one, cut if it alone is too large; ``cut`` says so. ``next`` holds the argument
    that continues a page that is not the last. Images and files are notes. An unknown thread has no messages yet.

    Raises InvalidInput.
    """
    if asked.offset is not None and (asked.before is not None or asked.after is not None):
        raise InvalidInput("offset pages from the oldest message, before and after from a seq: give one or the other")

    async def read(tx: Tx, scope: Scope) -> tuple[_Filling, Thread, int]:
        return await message_pages.fill(
            tx,
            scope,
            thread_id,
            lambda: _Filling(asked, room(engine.limits.answer_bytes)),
            roles=list(asked.roles),
            limit=asked.limit + 1,
            offset=asked.offset,
            before=asked.before,
            after=asked.after,
        )

    try:
        page, _, total = await read_mended(engine, scope, read, lambda found: [found[1]])
    except NotFound:
        return {"thread_id": thread_id, "messages": [], "total": 0}
    from_oldest = asked.offset is not None or (asked.after is not None and asked.before is None)
    entries, more, cut = page.entries, page.more, False
    if asked.max_tokens is not None:
        entries, cut = await asyncio.to_thread(_fitting, engine.tokens, page, asked.max_tokens)
        more = more or len(entries) < len(page.entries)
    return {
        "thread_id": thread_id,
        "messages": entries if from_oldest else entries[::-1],
        "total": total,
        **({"next": _next(asked, entries, from_oldest)} if more else {}),
        **({"cut": f"max_tokens={asked.max_tokens} reached"} if cut else {}),
    }


class _Filling:
    """A page that is being read, in the order of reading."""

    def __init__(self, asked: PageRequest, most: int) -> None:
        self.entries: list[Entry] = []
        self.first: Message | None = None
        self.more = False
        self._asked, self._most = asked, most
        self._left, self._to_read = most, READ_BYTES

    def take(self, message: Message) -> bool:
        if len(self.entries) == self._asked.limit or min(self._left, self._to_read) <= 0:
            self.more = True
            return False
        entry = Entry(shown_message(message, self._asked.detail))
        if entry.bytes > self._left and self.entries:
            self.more = True
            return False
        if entry.bytes > self._left:
            entry = _cut_inside(entry, message, self._most)
        self.first = self.first or replace(message, parts=without_data(message.parts, message.seq))
        self.entries.append(entry)
        self._left -= entry.bytes
        self._to_read -= sum(map(media_bytes, message.parts))
        return True


def _cut_inside(entry: Entry, message: Message, most: int) -> Entry:
    """A message that is too large for an answer, its beginning: ``cut`` says how large it is and where it goes on."""
    size = len(entry.text.encode())
    head = _head(entry, most)
    # Its own texts have the room that the names around them leave.
    parts, rest = parts_from(entry["parts"], message.seq, 0, 0, most - Entry(head).bytes - FRAME_BYTES)
    return Entry({**head, "parts": parts, "cut": {"bytes": size, **({"part": rest} if rest else {})}})


def _head(entry: Json, most: int) -> Json:
    """A message without its parts, and without metadata that would fill an answer alone."""
    head = {**entry, "parts": []}
    if "metadata" in head and (size := sent_bytes(to_json(head["metadata"]))) > most // 2:
        head["metadata"] = {}
        head["metadata_bytes"] = size
    return head


async def get_part(engine: Engine, scope: Scope, thread_id: str, part: str) -> tuple[Json, Media | None]:
    """A message from inside, as a note or ``next`` named it: one image or file as it is, with its note, or what is said
    from there on, as much as an answer holds; ``next`` continues. Raises InvalidInput."""
    place, most = place_of(part), room(engine.limits.answer_bytes)
    try:
        found, _, total = await engine.database.read(
            message_pages.fill,
            scope,
            thread_id,
            lambda: _Inside(place, most),
            roles=ROLES,
            limit=1,
            after=place.seq - 1,
            before=place.seq + 1,
        )
    except NotFound:
        raise unknown(part) from None
    if found.entry is None:
        raise unknown(part)
    following = {"next": {"part": found.rest}} if found.rest else {}
    return {"thread_id": thread_id, "messages": [found.entry], "total": total, **following}, found.media


class _Inside:
    """What stands at a place of a message."""

    def __init__(self, place: Place, most: int) -> None:
        self.entry: Entry | None = None
        self.media: Media | None = None
        self.rest = ""
        self._place, self._most = place, most

    def take(self, message: Message) -> bool:
        place = self._place
        shown = shown_message(message, "high")
        head = _head(shown, self._most)
        if place.char is not None and place.inner is None:
            left = self._most - Entry(head).bytes
            parts, self.rest = parts_from(shown["parts"], message.seq, place.part, place.char, left)
        else:
            self.media = media_at(message.parts, message.seq, place.named)
            if self.media is None:
                raise unknown(place.named)
            kept = dict(media_in(message.parts, message.seq))[place.named]
            parts = [note(kept, place.named)]
        self.entry = Entry({**head, "parts": parts})
        return True


def _fitting(counter: TokenCounter, page: _Filling, most: int) -> tuple[list[Entry], bool]:
    """As many of the messages as fit, and whether anything is missing."""
    left = most
    for count, entry in enumerate(page.entries):
        left -= counter.text(entry.text)
        if left < 0:
            if count or page.first is None:
                return page.entries[:count], True
            text = plain_text(page.first.parts)
            return [Entry(cut_to_fit(counter, shown_message(page.first, "low"), text, most))], True
    return page.entries, False


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


def _next(asked: PageRequest, kept: Sequence[Json], from_oldest: bool) -> Json:
    if asked.offset is not None:
        return {"offset": asked.offset + len(kept)}
    return {"after": kept[-1]["seq"]} if from_oldest else {"before": kept[-1]["seq"]}


def shown_message(message: Message, detail: Detail) -> Json:
    """A message as an answer has it, as it was stored, images and files as notes, or (``low``) as a line of text cut at
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
    entry |= {
        "parts": noted(message.parts, message.seq),
        "said_at": iso(message.said_at),
        "created_at": iso(message.created_at),
    }
    if message.metadata:
        entry["metadata"] = message.metadata
    return {**entry, "tokens": message.tokens}
