"""Remembered messages as lines for a model: each on one line with its number and its speaker, under a head that says
thread and day.

    [thread kitchen, 2026-11-22]
    * #1 user Ana: I am allergic to peanuts.
      #2 assistant: Noted.
    [same thread, 2026-11-24]
    #9 user Ana (newer than #4): My appointment is on Friday.

Lines stand in time order. ``*`` marks the best ones. Where two lines give different values for the same thing, the later
one says so. A line that begins with two spaces is not a hit: it stands beside
a hit and explains it. In a project, each line begins with its owner: ``[project] #1 user: ...``, ``[you] #2 user:
...``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo
from typing import Any, Literal

from layerlore.memory.language.search_words import find_query_words
from layerlore.memory.language.sentence_values import TextValues, read_values
from layerlore.memory.messages.reader import Detail
from layerlore.memory.parts.index_texts import make_embedding_texts
from layerlore.memory.parts.own_parts import strip_parts
from layerlore.memory.parts.parts import plain_text, searchable_text
from layerlore.memory.parts.tokens import TokenCounter
from layerlore.memory.recall.excerpts import cut_end, pick_sentence, pick_sentences
from layerlore.memory.rules.ages import day, name_end
from layerlore.memory.rules.time_zones import current_zone
from layerlore.memory.text.quotation import join_lines, quote_line, quote_text
from layerlore.memory.text.trust import describe_speaker
from layerlore.storage.core.records import Message, Scope
from layerlore.storage.core.scopes import NOTE_KINDS
from layerlore.storage.core.stamped_cache import StampedCache
from layerlore.storage.core.transaction import Row
from layerlore.storage.derived.entries import PLACE
from layerlore.storage.messages.message_rows import MakeMessage, message_of

Beside = Literal["before", "after"]

WHOLE_CHARS = 500
"""A text up to this length is shown whole."""
EXCERPT_CHARS = 400
"""Of a longer one so much: the sentences that match."""
SHORT_CHARS = 150
"""Of a short line: some 25 words."""
BESIDE_CHARS = 160
"""Of a message that only stands beside a hit."""
QUOTE_CHARS = 60
"""Of what an entry quotes."""
_LABELS = {"user_accepted_assistant_proposal": " (accepted)", "verified_assistant_finding": " (found)"}
# The number of an entry's sources that are named.
_MOST_SOURCES = 2
_NOTE_NAMES = {
    "session_memory": "session memory of",
    "plan": "plan of",
    "attempt": "attempt in",
    "observation": "observation of",
}
_ORDINARY_TRUST = "user"


BEST = "* "
"""Begins the line of one of the best hits."""
_MOST_BEST = 3
_LEAST_OF_BEST = 0.1


Place = tuple[str, str, int]
"""Where a message stands: whose memory, its thread, its seq."""


def find_place(message: Message) -> Place:
    """Where a message stands among those of all memories that are shown together."""
    return message.whose, message.thread_id, message.seq


def mark_whose(message: Message) -> str:
    """The beginning of a line of a message or an entry in a project: ``[project] `` or ``[you] ``."""
    if message.whose:
        return f"[{message.whose}] "
    return ""


@dataclass(slots=True)
class MemoryLine:
    """A message, the text that is shown of it (on one line), whether it only stands beside a hit, and a note for the
    line below; ``is_whole``: that is all of its text, ``shortened``: less of it than would be shown with more room. An
    entry has the shape of a message here. ``best``: it is one of the best hits; ``newer_than``: the place of an earlier line
    that gives another value for the same thing. A line does not change: what is made of it is kept.

    ``group``: the owner of the memory, the thread and the day. Lines of one group share a head."""

    message: Message
    text: str
    beside: bool = False
    note: str = ""
    is_whole: bool = False
    shortened: bool = False
    best: bool = False
    newer_than: str = ""
    place: Place = field(init=False)
    group: tuple[str, str, str] = field(init=False)
    _shown: str = field(default="", init=False, repr=False, compare=False)
    _values: TextValues | None = field(default=None, init=False, repr=False, compare=False)
    _counter: TokenCounter | None = field(default=None, init=False, repr=False, compare=False)
    _tokens: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        message = self.message
        self.place = find_place(message)
        self.group = (message.whose, message.thread_id, day(message.said_at))

    @property
    def is_entry(self) -> bool:
        return self.message.thread_id.startswith(PLACE)

    @property
    def values(self) -> TextValues:
        """The values of the shown text."""
        if self._values is None:
            self._values = read_values(self.text)
        return self._values

    def count(self, counter: TokenCounter) -> int:
        """Its tokens, with the line's end."""
        if self._counter is not counter:
            # The number comes first: another thread may read both at any time.
            self._tokens, self._counter = counter.known(f"{self}\n"), counter
        return self._tokens

    def __str__(self) -> str:
        if not self._shown:
            self._shown = self._write()
        return self._shown

    def _write(self) -> str:
        if self.newer_than:
            newer = f" (newer than {self.newer_than})"
        else:
            newer = ""
        who = f"#{self.message.seq} {describe_speaker(self.message)}{newer}:"
        if self.note:
            note = f"\n   {self.note}"
        else:
            note = ""
        # A line beside a hit is indented, so that it cannot pass for a hit.
        start = BEST if self.best else "  " if self.beside else ""
        whose = mark_whose(self.message)
        if is_note(self.message):
            newer = f" (newer, {self.message.metadata['newer']})" if "newer" in self.message.metadata else ""
            return f"{start}{whose}[{describe_note(self.message)}] {self.text}{newer}{note}"
        if self.is_entry:
            return f"{start}{whose}[{describe_entry(self.message)}] {self.text}{note}"
        return f"{start}{whose}{who} {self.text}{note}"


def make_line(
    message: Message,
    sought: Mapping[str, float],
    *,
    chunk: int | None = None,
    beside: Beside | None = None,
    detail: Detail = "low",
    note: str = "",
) -> MemoryLine:
    """A message as a line: its text, or of a long one the sentences that match, with marks where something is cut.

    ``sought``: the words looked for and their weights; ``chunk``: the number of the chunk that was found; ``beside``:
    on which side of a hit it stands, if it is none."""
    text = _render_text(message, detail)
    if _fits(text, beside, detail):
        return MemoryLine(message, join_lines(text), beside is not None, note, is_whole=True)
    return MemoryLine(message, _cut_text(message, text, sought, chunk, beside), beside is not None, note)


def shorten_line(line: MemoryLine, sought: Mapping[str, float]) -> MemoryLine:
    """The line with the sentence that matches, of some 25 words; the same line if it has no more.

    It has no text that the whole line lacks, so that with more room nothing is missing."""
    if len(line.text) <= SHORT_CHARS:
        return line
    return MemoryLine(line.message, pick_sentence(line.text, sought, SHORT_CHARS), line.beside, line.note)


def show_text(
    message: Message,
    sought: Mapping[str, float],
    chunk: int | None = None,
    *,
    beside: Beside | None = None,
    detail: Detail = "low",
) -> str:
    """The shown part of a message's text, see ``make_line``. Echoes are shown with ``detail="high"`` alone. A long text
    before a hit is cut to its end, one behind it to its beginning."""
    text = _render_text(message, detail)
    if _fits(text, beside, detail):
        return join_lines(text)
    return _cut_text(message, text, sought, chunk, beside)


def _render_text(message: Message, detail: Detail) -> str:
    return plain_text(message.parts if detail == "high" else strip_parts(message.parts), quote_text)


def _fits(text: str, beside: Beside | None, detail: Detail) -> bool:
    return detail == "high" or len(text) <= (BESIDE_CHARS if beside else WHOLE_CHARS)


def _cut_text(
    message: Message, text: str, sought: Mapping[str, float], chunk: int | None, beside: Beside | None
) -> str:
    if beside:
        if beside == "before":
            return cut_end(text, BESIDE_CHARS)
        return pick_sentences(text, {}, BESIDE_CHARS)
    if chunk is None:
        # The excerpt prefers the chunk that matched, so the text is cut into chunks as the index cut it.
        chunks = []
    else:
        chunks = make_embedding_texts(message.parts)
    if chunk is not None and chunk < len(chunks):
        found = chunks[chunk]
    else:
        found = ""
    return pick_sentences(text, sought, EXCERPT_CHARS, found)


def make_head(line: MemoryLine, before: MemoryLine | None) -> str:
    """The head that the line needs behind another one; "" if it shares that one's, and for an entry or a note, whose line
    says it all."""
    if (before is not None and before.group == line.group) or line.is_entry or is_note(line.message):
        return ""
    thread, on = line.group[1:]
    same = before is not None and before.group[:2] == line.group[:2]
    return f"[{'same thread' if same else f'thread {quote_line(thread)}'}, {on}]"


def mark_best(lines: Sequence[MemoryLine], scores: Mapping[Place, float]) -> list[MemoryLine]:
    """The lines, best first, with a mark on the three best hits, as far as each has a tenth of the best score; without marks
    where there are no more hits than three. ``scores``: those of the hits."""
    hits = [line for line in lines if not line.beside]
    if len(hits) <= _MOST_BEST:
        return list(lines)
    least = _LEAST_OF_BEST * max(scores.values(), default=0.0)
    best = {line.place for line in hits[:_MOST_BEST] if scores.get(line.place, 0.0) >= least}
    return [replace(line, best=True) if line.place in best and not line.beside else line for line in lines]


def render_lines(lines: Sequence[MemoryLine]) -> list[str]:
    """The lines and their heads as text, in time order. The lines of one thread and day stand together."""
    first: dict[tuple[str, ...], int] = {}
    for line in lines:
        first[line.group] = min(line.message.said_at, first.get(line.group, line.message.said_at))
    # A group is ordered by its first line, so that a thread's lines of one day are never torn apart.
    ordered = sorted(lines, key=lambda line: (line.group[2], first[line.group], line.group, _find_order(line.message)))
    shown: list[str] = []
    before: MemoryLine | None = None
    for line in ordered:
        shown += filter(None, (make_head(line, before), str(line)))
        before = line
    return shown


def _find_order(message: Message) -> tuple[int | str, ...]:
    """The place of a message or a note among those of its thread."""
    if not is_note(message):
        return (message.seq,)
    # The seq of a note is made of its text. All steps of a plan are as old as the plan, and have their ids.
    step = str(message.metadata.get("step", ""))
    return message.said_at, len(step), step


def describe_entry(entry: Message) -> str:
    """An entry's id, its day, its kind, whose word it is, and where that stands. It comes before the text, so that
    nothing in the text can pass for it."""
    source = entry.metadata
    if "kind" in source:
        kind = f"; {source['kind']}"
    else:
        kind = ""
    if "newer" in source:
        newer = "; a newer entry says otherwise"
    else:
        newer = ""
    if "older" in source:
        older = "; newer than what says otherwise"
    else:
        older = ""
    if "expires_at" in source:
        until = f"; until {name_end(source['expires_at'])}"
    else:
        until = ""
    sources = f"{describe_sources(entry.metadata)}{mark_unproven(entry)}"
    return f"entry {entry.id}, {day(entry.said_at)}{kind}{until}{newer or older}; {sources}"


def is_note(message: Message) -> bool:
    """Whether this has the shape of a message, and is a note (``storage.derived.note_rows``)."""
    return str(message.role) in NOTE_KINDS


def describe_note(note: Message) -> str:
    """The kind of a note: its kind, its thread and its day, and of a step or an attempt how it stands."""
    on, about = day(note.said_at), note.metadata
    if "thread_id" not in about:
        return f"profile, {on}"
    said = [f"{_NOTE_NAMES[str(note.role)]} thread {quote_line(about['thread_id'])}", on]
    if "status" in about:
        said.append(f"step {quote_line(about['status'])}" if "step" in about else quote_line(about["status"]))
    if about.get("trust", _ORDINARY_TRUST) != _ORDINARY_TRUST:
        said.append(f"{about['trust']}'s words")
    return ", ".join(said)


def mark_unproven(entry: Message) -> str:
    """The names and numbers of an entry that no quotation contains, as they stand beside its text; "" without any."""
    words = entry.metadata.get("unproven")
    if words:
        return f" (not in the quote: {quote_line(', '.join(words))})"
    return ""


def describe_sources(source: Mapping[str, Any]) -> str:
    """The speaker of an entry with this ``trust`` and these ``sources``, and the place of the first sources."""
    if source.get("trust") == "shared":
        return "shared by others"
    if not source["sources"]:
        # Said in a project, and kept with the person's memory: without its place.
        if source.get("trust") == "user":
            return "user's words"
        return "kept as an assistant's own word"
    places = ", ".join(_describe_source(each) for each in source["sources"][:_MOST_SOURCES])
    more = len(source["sources"]) - _MOST_SOURCES
    return f"{source['trust']}'s words in {places}" + (f" and {more} more" if more > 0 else "")


def _describe_source(source: Mapping[str, Any]) -> str:
    """The place of an entry's source, its kind, and the beginning of the quotation."""
    place = f"thread {quote_line(source['thread_id'])} #{source['seq']}"
    label = _LABELS.get(source["label"], "")
    if "quote" not in source:
        return place
    return f"{place}{label}: {show_beginning(source['quote'])}"


def show_beginning(text: str) -> str:
    """The beginning of a stored text, in quotes on one line."""
    line = quote_line(text)
    return f'"{line if len(line) <= QUOTE_CHARS else line[: QUOTE_CHARS - 1].rstrip() + "…"}"'


# As many characters have at least about one token: an estimate is rather too small.
_CHARS_PER_TOKEN = 5

# The memory that the texts read last may take, over all scopes together: some 4,000 short messages. Long ones are few,
# and hardly quicker from here.
_MOST_BYTES = 16 * 2**20
_LONGEST_ROW = 2_000
# Measured on messages of 130 to 1,500 characters, with all that is made of their texts.
_BYTES_A_MESSAGE = 3_000
_BYTES_A_CHARACTER = 10
# More content words than these show nothing that matters about a message.
_MOST_WORDS = 200


class MessageTexts:
    """The texts of one message, each made when it is first asked for. Threads may ask at the same time: two that make the
    same do no harm, and a lock would cost more than most of them."""

    __slots__ = ("_folded", "_line", "_plain", "_said", "_words", "_zone", "message")

    def __init__(self, message: Message) -> None:
        self.message = message
        self._plain: str | None = None
        self._folded: str | None = None
        self._said: int | None = None
        self._words: frozenset[str] | None = None
        self._line: MemoryLine | None = None
        self._zone: tzinfo = UTC

    @property
    def plain(self) -> str:
        """Its text as ``plain_text`` gives it; of a message with one text that text itself, so that keeping it costs nothing."""
        if self._plain is None:
            self._plain = plain_text(self.message.parts)
        return self._plain

    @property
    def tokens(self) -> int:
        """About what its text takes, in tokens."""
        return len(self.plain) // _CHARS_PER_TOKEN

    @property
    def tokens_of_line(self) -> int:
        """About what its line takes, in tokens."""
        chars = len(self.plain)
        return (chars if chars <= WHOLE_CHARS else EXCERPT_CHARS) // _CHARS_PER_TOKEN

    @property
    def folded(self) -> str:
        """The text by which a search should find it, in small letters and on one line."""
        if self._folded is None:
            self._folded = fold_message(self.message)
        return self._folded

    @property
    def said(self) -> int:
        """The hash of its speaker and its text: equal if one speaker says the same to the letter. 0 without a text."""
        if self._said is None:
            text = join_lines(self.plain)
            self._said = hash((self.message.role, self.message.name, text)) if text else 0
        return self._said

    @property
    def words(self) -> frozenset[str]:
        """Its content words, with names and numbers; of a text that has none all its words."""
        if self._words is None:
            self._words = frozenset(find_query_words(self.plain, most=_MOST_WORDS))
        return self._words

    def make_line(self, sought: Mapping[str, float], chunk: int | None) -> MemoryLine:
        """Its line, as ``hit_lines.make_line`` makes it: of a long text what was searched for."""
        # A line names its day, which is another one in another time zone.
        zone = current_zone()
        if self._line is not None and self._zone is zone:
            return self._line
        line = make_line(self.message, sought, chunk=chunk)
        # A whole line depends on the message alone; an excerpt depends on the query, too.
        if line.is_whole:
            self._line, self._zone = line, zone
        return line


def fold_message(message: Message) -> str:
    """What a search should find a message by, in small letters and on one line."""
    return fold_text(searchable_text(message.parts))


def fold_text(text: str) -> str:
    """A text in small letters and on one line."""
    return join_lines(text).casefold()


_Owner = tuple[str, str, str]


def _owner_of(scope: Scope) -> _Owner:
    """The scope as plain strings. An answer looks up hundreds of messages, and these hash faster than a scope."""
    return scope.tenant_id, scope.agent_id, scope.resource_id


def _estimate_bytes(texts: MessageTexts) -> int:
    return _BYTES_A_MESSAGE + _BYTES_A_CHARACTER * len(texts.plain)


class MessageCache:
    """The messages that were found last, each with the hash of the row that it was made of, which takes less than the row.
    The rows are read each time, and made into messages only when they are others."""

    def __init__(self, most_bytes: int = _MOST_BYTES) -> None:
        most = most_bytes // _BYTES_A_MESSAGE
        self._kept = StampedCache[tuple[_Owner, str, int], int, MessageTexts](
            most, size=_estimate_bytes, most_size=most_bytes
        )

    def maker(self, scope: Scope) -> MakeMessage:
        """A converter from rows to the messages of a scope; a message stays the same while every column does."""
        owner = _owner_of(scope)

        def make(thread_id: str, row: Row) -> Message:
            return self._read(owner, thread_id, row).message

        return make

    def texts_of(self, scope: Scope, message: Message) -> MessageTexts:
        """The texts of a message; those that are stored, if it was read from here."""
        known = self._kept.find_any((_owner_of(scope), message.thread_id, message.seq))
        if known is not None:
            _, texts = known
            # Another object is another state of the message, and its texts may differ.
            if texts.message is message:
                return texts
        return MessageTexts(message)

    def forget(self, scope: Scope) -> None:
        """Forget the messages of a scope."""
        owner = _owner_of(scope)
        self._kept.forget(lambda key: key[0] == owner)

    def _read(self, owner: _Owner, thread_id: str, row: Row) -> MessageTexts:
        key, hashed = (owner, thread_id, int(row[0])), hash(tuple(row))
        known = self._kept.find(key, hashed)
        if known is not None:
            return known
        texts = MessageTexts(message_of(thread_id, row))
        if len(row[4]) <= _LONGEST_ROW:
            self._kept.keep(key, hashed, texts)
        return texts


class ShownTexts:
    """The texts already shown in one answer, each with its speaker."""

    def __init__(self) -> None:
        self._shown = set[int]()

    def add(self, texts: MessageTexts) -> bool:
        """Add a message unless the same speaker already said the same, to the letter. Returns whether it was added."""
        is_new = texts.said not in self._shown
        self._shown.add(texts.said)
        return is_new or not texts.said
