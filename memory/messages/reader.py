"""The reading of messages: pages of a thread and parts of a message, as programs and models get them."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar, cast

from layerlore.memory.engine.engine import Engine
from layerlore.memory.messages.message_answers import (
    CutMessage,
    MessageContent,
    MessageDetails,
    MessagePage,
    MessageSpeaker,
    NextPage,
    PageEnd,
    PageHead,
    ShownMessage,
)
from layerlore.memory.messages.threads import read_repaired
from layerlore.memory.parts.media import Media, find_media, list_media, make_media_note, replace_base64, replace_media
from layerlore.memory.parts.parts import MEDIA, is_picture, media_bytes, plain_text, result_parts
from layerlore.memory.parts.tokens import CUT_MARK, PER_IMAGE, TokenCounter
from layerlore.memory.rules.ages import iso
from layerlore.memory.rules.answers import FRAME_BYTES, PageEntry, count_entry_bytes, count_sent_bytes
from layerlore.memory.rules.validation import check_id, describe, describe_choices
from layerlore.memory.text.quotation import PREAMBLE, count_hidden, format_speaker, indent_lines, quote_line, quote_text
from layerlore.memory.text.trust import describe_speaker
from layerlore.storage.core import linear_re
from layerlore.storage.core.errors import InvalidInput, NotFound
from layerlore.storage.core.json_text import to_json
from layerlore.storage.core.records import ALL_ROLES, Json, Message, Role, Scope, StoredJson, Thread
from layerlore.storage.core.transaction import Tx
from layerlore.storage.messages import message_pages

_PLACE = linear_re.compile(r"([0-9]{1,18})\.([0-9]{1,9})(?:\.([0-9]{1,9}))?(?:~([0-9]{1,12}))?")
# An answer that holds something already does not begin a message with less room than this.
_LEAST_BYTES = 4 * 1024


@dataclass(frozen=True, slots=True)
class PartPlace:
    """A place in a message. ``SEQ.PART`` or ``SEQ.PART.INNER`` is one image or file; ``SEQ.PART~CHAR`` is the content
    from there on."""

    seq: int
    part: int
    inner: int | None = None
    char: int | None = None

    @property
    def named(self) -> str:
        return f"{self.seq}.{self.part}" + ("" if self.inner is None else f".{self.inner}")


def parse_place(text: str) -> PartPlace:
    """Parse a place. Raises InvalidInput for any other text."""
    match = _PLACE.fullmatch(text)
    if match is None:
        raise unknown_part(text)
    seq, part, inner, char = (None if group is None else int(group) for group in match.groups())
    assert seq is not None
    assert part is not None
    return PartPlace(seq, part, inner, char)


def unknown_part(text: str) -> InvalidInput:
    """The error for a place at which a thread has nothing."""
    return InvalidInput(
        f"part: there is nothing at {describe(text)}; give a `part` as an answer of get_messages has it"
    )


def slice_parts(parts: Sequence[Json], seq: int, part: int, char: int, most: int) -> tuple[list[Json], str]:
    """The parts from a place on that have at most ``most`` bytes in an answer, and the place where they go on, "" at
    the end. The last one may be cut: a text in its text, any other part in its JSON, which then stands under ``json``.

    Raises InvalidInput for a place that is beyond the end."""
    found: list[Json] = []
    left = most
    for at in range(part, len(parts)):
        begin = char if at == part else 0
        if begin > len(_text(parts[at])):
            break
        rest = _piece(parts[at], begin) if begin else parts[at]
        size = count_sent_bytes(to_json(rest))
        if size <= left:
            found.append(rest)
            left -= size
            continue
        if found and left < _LEAST_BYTES:
            return found, f"{seq}.{at}~{begin}"
        end = _end(parts[at], begin, left)
        return [*found, _piece(parts[at], begin, end)], f"{seq}.{at}~{end}"
    if not found and (part or char):
        raise unknown_part(f"{seq}.{part}~{char}")
    return found, ""


def _text(part: Json) -> str:
    if part["type"] == "text":
        return str(part["text"])
    return to_json(part)


def _piece(part: Json, begin: int, end: int | None = None) -> StoredJson:
    return {"type": part["type"], "text" if part["type"] == "text" else "json": _text(part)[begin:end]}


def _end(part: Json, begin: int, most: int) -> int:
    """The end of the longest piece of a part that has at most ``most`` bytes in an answer; at least one character."""
    fits, over = begin + 1, min(len(_text(part)), begin + most // 2) + 1
    while over - fits > 1:
        middle = (fits + over) // 2
        if count_sent_bytes(to_json(_piece(part, begin, middle))) <= most:
            fits = middle
        else:
            over = middle
    return fits


_NEXT: Mapping[str, str] = {"before": "earlier ones", "after": "later ones", "offset": "the next ones"}
_SETS: tuple[Literal["historyIds", "inputIds", "responseIds"], ...] = ("historyIds", "inputIds", "responseIds")
_DAY_CHARS = len("2026-11-22")


def render_page(page: MessagePage) -> str:
    """Render an answer of ``memory.messages.reader`` as text. The last line names what is needed to go on."""
    lines: list[str] = []
    before: ShownMessage | None = None
    thread = page.get("thread_id", "")
    for entry in page["messages"]:
        lines.append(f"{render_head(entry, before, thread)}{render_entry(entry)}")
        before = entry
    return "\n".join([*([PREAMBLE] if lines else []), *lines, render_closing(page)])


def render_head(entry: ShownMessage, before: ShownMessage | None, page_thread: str) -> str:
    """The line that the entry needs above it beside another one; "" if that is of the same thread and day."""
    thread, day = _find_place(entry, page_thread)
    thread_before, day_before = _find_place(before, page_thread) if before else ("", "")
    if (thread, day) == (thread_before, day_before):
        return ""
    return f"[{'same thread' if thread == thread_before else f'thread {quote_line(thread)}'}, {day}]\n"


def render_entry(entry: ShownMessage) -> str:
    """``#12 user Anna: the text``; behind it the places of images, files and what was cut, as ``part`` takes them."""
    speaker = entry.get("speaker") or format_speaker(entry["role"], entry.get("name"))
    text = quote_text(entry["text"]) if "text" in entry else _render_parts(entry["parts"])
    named = "".join(f' [part="{place}"]' for place in _list_places(entry.get("parts", ())))
    return f"#{entry['seq']} {speaker}: {indent_lines(text)}{named}{_describe_cut(entry)}"


def _render_parts(parts: Sequence[Json]) -> str:
    # A part that was cut inside is the beginning of its JSON.
    return "\n".join(quote_text(part["json"]) if "json" in part else plain_text([part], quote_text) for part in parts)


def _list_places(parts: Sequence[Json]) -> Iterator[str]:
    for part in parts:
        inner = result_parts(part.get("result")) if part["type"] == "tool_result" else ()
        yield from (each["part"] for each in (part, *inner) if each["type"] in MEDIA and "part" in each)


def _describe_cut(entry: ShownMessage) -> str:
    cut = entry.get("cut")
    if cut is None:
        return ""
    goes_on = f', goes on with part="{cut["part"]}"' if "part" in cut else ""
    return f" [cut: {cut['bytes']:,} bytes in all{goes_on}]"


def _find_place(entry: ShownMessage, page_thread: str) -> tuple[str, str]:
    """The thread and the day of a message."""
    return entry.get("thread_id") or page_thread, entry["said_at"][:_DAY_CHARS]


def render_closing(page: MessagePage) -> str:
    """The last line: which messages these are, whether something is cut, and what continues."""
    entries = page["messages"]
    following: NextPage = page.get("next", {})
    said = [
        f"messages{_describe_range(page, entries) if entries else _describe_empty(page)}",
        *([page["cut"]] if "cut" in page else []),
        *(f"{_NEXT[name]}: {name}={value}" for name, value in following.items() if name in _NEXT),
        *([f'goes on: part="{following["part"]}"'] if "part" in following else []),
        *(f"{name}: {', '.join(page[name])}" for name in _SETS if page.get(name)),
    ]
    return f"[{'; '.join(said)}]"


def _describe_range(page: MessagePage, entries: Sequence[ShownMessage]) -> str:
    if "thread_id" not in page:
        return f": {len(entries):,} shown; {page['total']:,} in all"
    first, last = entries[0]["seq"], entries[-1]["seq"]
    return f" #{first}{'' if first == last else f'-#{last}'}; {page['total']:,} in all"


def _describe_empty(page: MessagePage) -> str:
    if page["total"]:
        return f": none from here on; {page['total']:,} in all"
    if "thread_id" in page:
        return f": none in thread {quote_line(page['thread_id'])}"
    return ": none"


Detail = Literal["low", "high"]
PageDetail = Literal["low", "normal", "high"]
"""low: a line of text; normal: the message, with notes in place of base64; high: with the base64, as far as an answer
holds it."""

EntryT = TypeVar("EntryT", bound=Mapping[str, Any])

# The part of one message that detail="low" shows.
LOW_TEXT_CHARS = 200

READ_BYTES = 6 * 1024 * 1024
"""Base64 of images and files that is read for the notes of one page."""


@dataclass(frozen=True, slots=True)
class PageRequest:
    """Which messages: see ``get_messages``. ``before`` and ``after`` are seqs, both exclusive; ``since`` and ``until``
    their times (``said_at``), in milliseconds since 1970, both inclusive. ``as_text``: the page is for
    ``render_page``, and ``max_tokens`` are those of its text. ``reserved``: the tokens of ``max_tokens`` that the
    caller needs for a line of its own."""

    limit: int = 50
    offset: int | None = None
    before: int | None = None
    after: int | None = None
    roles: Sequence[Role] = ALL_ROLES
    detail: PageDetail = "normal"
    max_tokens: int | None = None
    since: int | None = None
    until: int | None = None
    as_text: bool = False
    reserved: int = 0

    @property
    def from_oldest(self) -> bool:
        return self.offset is not None or (self.after is not None and self.before is None)


def check_roles(roles: Sequence[str], allowed: Sequence[Role] = ALL_ROLES) -> list[Role]:
    """Check the roles asked for and put them in order; none means all that are allowed. Raises InvalidInput."""
    for role in roles:
        if role not in allowed:
            raise InvalidInput(f"roles: unknown role {role!r}; {describe_choices(role, allowed)}")
    return [role for role in allowed if not roles or role in roles]


async def get_messages(engine: Engine, scope: Scope, thread_id: str, request: PageRequest) -> MessagePage:
    """Read one page, in chronological order: the newest ``limit`` messages, or those from ``offset`` on, counted from
    the oldest (seed 001's paging), or those before or after a seq; all of them in a time, if one is passed.

    The page ends where an answer is full (``limits.answer_bytes``), and with ``max_tokens``, which the whole answer
    takes, where the next message would not fit in those, but has at least one, cut if it alone is too large; ``cut``
    says so. An image counts as in a
    message's ``tokens``, also where a note stands for it, and base64 does not. ``next`` holds the argument that
    continues a page that is not the last. An unknown thread has no messages yet.

    Raises InvalidInput.
    """
    if request.offset is not None and (request.before is not None or request.after is not None):
        raise InvalidInput("offset pages from the oldest message, before and after from a seq: give one or the other")

    async def read(tx: Tx, scope: Scope) -> tuple[_PageDraft, Thread, int]:
        return await message_pages.fill(
            tx,
            scope,
            thread_id,
            lambda: _PageDraft(request, count_entry_bytes(engine.limits.answer_bytes), thread_id),
            roles=list(request.roles),
            limit=request.limit + 1,
            offset=request.offset,
            before=request.before,
            after=request.after,
            since=request.since,
            until=request.until,
        )

    try:
        page, _, total = await read_repaired(engine, scope, read, lambda found: [found[1]])
    except NotFound:
        return {"thread_id": thread_id, "messages": [], "total": 0}
    return await _answer(engine, request, page, total, thread_id)


async def get_turn(engine: Engine, scope: Scope, thread_id: str, turn: str, request: PageRequest) -> MessagePage:
    """Read a turn as it was marked: the page that ends with it, and beside it the ids of its ``historyIds``, ``inputIds``
    and ``responseIds`` (seed 002's names), as far as they are in the page. Raises InvalidInput, NotFound."""
    check_id(turn, "turn", engine.limits.id_chars)
    end = await engine.database.read(message_pages.find_turn, scope, thread_id, turn)
    if end is None:
        raise NotFound(f"conversation {thread_id!r} has no messages of a turn {turn!r}")
    page = await get_messages(engine, scope, thread_id, replace(request, before=end + 1))
    page["turn"] = turn
    page["historyIds"] = []
    page["inputIds"] = []
    page["responseIds"] = []
    for entry in page["messages"]:
        if entry.get("turn") != turn:
            page["historyIds"].append(entry["id"])
        elif entry["set"] == "input":
            page["inputIds"].append(entry["id"])
        else:
            page["responseIds"].append(entry["id"])
    return page


async def get_messages_of_all(engine: Engine, scope: Scope, request: PageRequest) -> MessagePage:
    """Read one page of the messages of a time in all threads, from the oldest on; each message has its ``thread_id``.
    Otherwise as ``get_messages``. Raises InvalidInput."""
    if request.before is not None or request.after is not None:
        raise InvalidInput(
            "before and after are seqs of one conversation: give its thread_id, or page through all with offset"
        )
    offset = request.offset or 0
    request = replace(request, offset=offset)
    page, total = await engine.database.read(
        message_pages.fill_of_all,
        scope,
        lambda: _PageDraft(request, count_entry_bytes(engine.limits.answer_bytes)),
        roles=list(request.roles),
        limit=request.limit + 1,
        offset=offset,
        since=request.since,
        until=request.until,
    )
    return await _answer(engine, request, page, total)


async def _answer(
    engine: Engine, request: PageRequest, page: "_PageDraft", total: int, thread_id: str = ""
) -> MessagePage:
    entries, more, cut = page.entries, page.more, False
    head: PageHead = {}
    if thread_id:
        head["thread_id"] = thread_id

    def answer(entries: Sequence[PageEntry], *, more: bool, cut: bool) -> MessagePage:
        kept = [_read_entry(entry) for entry in entries]
        ordered = kept if request.from_oldest else kept[::-1]
        end: PageEnd = {}
        if more:
            end["next"] = _next(request, kept)
        if cut:
            end["cut"] = f"max_tokens={request.max_tokens} reached"
        return {**head, "messages": ordered, "total": total, **end}

    if request.max_tokens is not None and entries:
        # The longest form of the frame, so that the page fits with any.
        frame = answer(entries, more=True, cut=True)
        most = request.max_tokens - request.reserved - engine.tokens.text(_render_frame(frame, request))
        # To count the tokens of a full page takes too long for the event loop.
        entries, cut = await asyncio.to_thread(_fit_tokens, engine.tokens, page, most)
        more = more or len(entries) < len(page.entries)
    return answer(entries, more=more, cut=cut)


def _render_frame(page: MessagePage, request: PageRequest) -> str:
    """All of an answer but its messages, as it is shown."""
    if request.as_text:
        return f"{PREAMBLE}\n{render_closing(page)}"
    return to_json({**page, "messages": []})


def _read_entry(entry: PageEntry) -> ShownMessage:
    """The message that an entry of a page is."""
    return cast("ShownMessage", entry)


class _PageDraft:
    """A page that is being read, in the order of reading. ``costs`` has for each entry the text whose tokens count, and
    the number of its images, which a text only names. ``thread_id``: all messages are of this thread."""

    def __init__(self, request: PageRequest, most: int, thread_id: str = "") -> None:
        self.entries: list[PageEntry] = []
        self.costs: list[tuple[str, int]] = []
        self.first: ShownMessage | None = None
        self.first_text = ""
        self.more = False
        self._asked, self._most = request, most
        self._thread_id = thread_id
        self._left, self._to_read = most, READ_BYTES

    def take(self, message: Message) -> bool:
        if len(self.entries) == self._asked.limit or min(self._left, self._to_read) <= 0:
            self.more = True
            return False
        noted = PageEntry(self._show(message, "low" if self._asked.detail == "low" else "normal"))
        entry = noted
        if self._asked.detail == "high":
            entry = PageEntry(self._show(message, "high"))
            # The first message is shown in any case: notes stand for its images where these do not fit.
            if entry.bytes > self._left and not self.entries:
                entry = PageEntry({**entry, "parts": replace_media(message.parts, message.seq)})
        if entry.bytes > self._left and self.entries:
            self.more = True
            return False
        if entry.bytes > self._left:
            entry = _cut_inside(entry, message, self._most)
            noted = noted if noted.bytes <= entry.bytes else entry
        if not self.entries:
            self.first = self._show(message, "low")
            self.first_text = plain_text(_note_parts(message))
        self.entries.append(entry)
        self.costs.append(self._cost(noted, message))
        self._left -= entry.bytes
        # Images are read whole even if notes stand for them, so their bytes end the page, too.
        self._to_read -= sum(map(media_bytes, message.parts))
        return True

    def show(self, entry: ShownMessage, before: ShownMessage | None = None) -> str:
        """An entry as it stands in the answer, beside the one before it."""
        if self._asked.as_text:
            return f"{render_head(entry, before, self._thread_id)}{render_entry(entry)}"
        return to_json(entry)

    def _cost(self, noted: PageEntry, message: Message) -> tuple[str, int]:
        if self._asked.as_text:
            before = _read_entry(self.entries[-2]) if len(self.entries) > 1 else None
            return f"{self.show(_read_entry(noted), before)}\n", 0
        return f"{noted.text},", 0 if self._asked.detail == "low" else _count_images(message.parts)

    def _show(self, message: Message, detail: PageDetail) -> ShownMessage:
        thread: PageHead = {}
        if not self._thread_id:
            thread["thread_id"] = message.thread_id
        shown: ShownMessage = {**thread, **show_message(message, detail)}
        if self._asked.as_text:
            shown["speaker"] = describe_speaker(message)
        return shown


def _note_parts(message: Message) -> list[Json]:
    return [replace_base64(part) for part in replace_media(message.parts, message.seq)]


def _count_images(parts: Sequence[Json]) -> int:
    inside = [each for part in parts for each in (part, *result_parts(part.get("result")))]
    return sum(map(is_picture, inside))


def _cut_inside(entry: PageEntry, message: Message, most: int) -> PageEntry:
    """A message that is too large for an answer, its beginning: ``cut`` says how large it is and where it goes on."""
    head = _head(_read_entry(entry), most)
    # Its own texts have the room that the names around them leave.
    room = most - PageEntry(head).bytes - FRAME_BYTES
    parts, rest = slice_parts(entry["parts"], message.seq, 0, 0, room)
    cut: CutMessage = {"bytes": len(entry.text.encode())}
    if rest:
        cut["part"] = rest
    return PageEntry({**head, "parts": parts, "cut": cut})


def _head(entry: ShownMessage, most: int) -> ShownMessage:
    """A message without its parts, and without metadata that would fill an answer alone."""
    head = entry.copy()
    head["parts"] = []
    if "metadata" in head and (size := count_sent_bytes(to_json(head["metadata"]))) > most // 2:
        head["metadata"] = {}
        head["metadata_bytes"] = size
    return head


async def get_part(
    engine: Engine, scope: Scope, thread_id: str, part: str, detail: PageDetail
) -> tuple[MessagePage, Media | None]:
    """Read a part of a message that a note or ``next`` named: one image or file as it is, with its note, or the content
    from there on, as much as an answer holds; ``next`` continues. Places in a content are those of the ``detail`` that
    named them: texts have notes in place of base64 unless it is ``high``. Raises InvalidInput."""
    place, most = parse_place(part), count_entry_bytes(engine.limits.answer_bytes)
    try:
        found, _, total = await engine.database.read(
            message_pages.fill,
            scope,
            thread_id,
            lambda: _Inside(place, most, raw=detail == "high"),
            roles=ALL_ROLES,
            limit=1,
            after=place.seq - 1,
            before=place.seq + 1,
        )
    except NotFound:
        raise unknown_part(part) from None
    if found.entry is None:
        raise unknown_part(part)
    page: MessagePage = {"thread_id": thread_id, "messages": [_read_entry(found.entry)], "total": total}
    if found.rest:
        page["next"] = {"part": found.rest}
    return page, found.media


class _Inside:
    """The part at a place of a message, as it is read."""

    def __init__(self, place: PartPlace, most: int, *, raw: bool) -> None:
        self.entry: PageEntry | None = None
        self.media: Media | None = None
        self.rest = ""
        self._place, self._most, self._raw = place, most, raw

    def take(self, message: Message) -> bool:
        place = self._place
        shown = show_message(message, "normal")
        if self._raw:
            shown["parts"] = replace_media(message.parts, message.seq)
        head = _head(shown, self._most)
        if place.char is not None and place.inner is None:
            left = self._most - PageEntry(head).bytes
            parts, self.rest = slice_parts(shown["parts"], message.seq, place.part, place.char, left)
        else:
            self.media = find_media(message.parts, message.seq, place.named)
            if self.media is None:
                raise unknown_part(place.named)
            kept = dict(list_media(message.parts, message.seq))[place.named]
            parts = [make_media_note(kept, place.named)]
        self.entry = PageEntry({**head, "parts": parts})
        return True


def _fit_tokens(counter: TokenCounter, page: _PageDraft, most: int) -> tuple[list[PageEntry], bool]:
    """Keep as many of the messages as fit into ``most`` tokens, and say whether anything is missing."""
    left = most
    for count, (text, images) in enumerate(page.costs):
        left -= counter.text(text) + PER_IMAGE * images
        if left < 0:
            if count:
                return page.entries[:count], True
            assert page.first is not None
            beginning: ShownMessage = cut_to_fit(counter, page.first, page.first_text, most, page.show)
            return [PageEntry(beginning)], True
    return page.entries, False


def cut_to_fit(
    counter: TokenCounter, entry: EntryT, text: str, most: int, show: Callable[[EntryT], str] = to_json
) -> EntryT:
    """Add as much of a text to an entry as ``most`` tokens have room for where ``show`` shows it, with a mark."""

    def shown(tokens: int) -> EntryT:
        return cast("EntryT", {**entry, "text": counter.cut(beginning, tokens) + CUT_MARK})

    fits, over = 0, max(most, 0) + 1
    beginning = counter.cut(text, over)
    while over - fits > 1:
        middle = (fits + over) // 2
        if counter.text(show(shown(middle))) <= most:
            fits = middle
        else:
            over = middle
    return shown(fits)


def _next(request: PageRequest, kept: Sequence[ShownMessage]) -> NextPage:
    if request.offset is not None:
        return {"offset": request.offset + len(kept)}
    if request.from_oldest:
        return {"after": kept[-1]["seq"]}
    return {"before": kept[-1]["seq"]}


def show_message(message: Message, detail: PageDetail) -> ShownMessage:
    """A message as an answer has it: as it was stored (``high``), with notes in place of base64 (``normal``), or
    (``low``) as a text cut at LOW_TEXT_CHARS. ``hidden_characters`` counts the invisible characters in its texts, which
    models are not shown."""
    speaker: MessageSpeaker = {}
    if message.name:
        speaker["name"] = message.name
    if unseen := count_hidden(plain_text(message.parts)):
        speaker["hidden_characters"] = unseen
    content: MessageContent = {}
    if detail == "low":
        text = plain_text(_note_parts(message))
        content["text"] = text if len(text) <= LOW_TEXT_CHARS else text[:LOW_TEXT_CHARS] + CUT_MARK
    else:
        content["parts"] = message.parts if detail == "high" else _note_parts(message)
    details: MessageDetails = {}
    if detail != "low":
        details["created_at"] = iso(message.created_at)
        if message.metadata:
            details["metadata"] = message.metadata
        if message.mark:
            details["turn"] = message.mark.turn
            details["set"] = message.mark.set
        details["tokens"] = message.tokens
    return {
        "id": message.id,
        "seq": message.seq,
        "role": message.role,
        **speaker,
        **content,
        "said_at": iso(message.said_at),
        **details,
    }
