"""Caches of the context. For threads that are requested often they hold the notes, the extracts from messages outside
the window, the window's messages and the whole text. Each is made once until it changes."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from layerlore.memory.context.context_blocks import render_message, weigh_message
from layerlore.memory.digest.digest import (
    OF_USERS,
    DigestNote,
    MessageNotes,
    RatedNote,
    note_messages,
    rank_rated,
    rate_note,
    render_notes,
)
from layerlore.memory.observations.observation_text import EXTRACTED, count_observations, render_observations
from layerlore.memory.parts.tokens import TokenCounter
from layerlore.memory.recall.hit_lines import fold_message
from layerlore.memory.rules.ages import MINUTE_MS
from layerlore.storage.core.records import Message, Scope, Thread
from layerlore.storage.core.stamped_cache import StampedCache
from layerlore.storage.core.transaction import Row, Tx
from layerlore.storage.derived import observations
from layerlore.storage.derived.observations import Observation
from layerlore.storage.messages import windows
from layerlore.storage.messages.message_rows import message_of

# A thread has up to 48,000 tokens of notes, half a megabyte.
_THREADS = 16
_BLOCKS = 8
# Extracts take a quarter of a megabyte, and as long to make as all the rest of a context.
_THREADS_OF_EXTRACTS = 40
# The newest messages, which are read to make extracts.
_MOST_MESSAGES = 800
_WINDOWS = 20
# A window of this number of messages takes about half a megabyte.
_WINDOW_TOKENS = 20_000

# Two megabytes or so.
_ANSWERS = 40
_ANSWER_CHARACTERS = 64_000


class _Blocks:
    """Texts by the tokens that there were for them."""

    def __init__(self, make: Callable[[int], str]) -> None:
        self._make = make
        self._made: dict[int, str] = {}

    def within(self, most: int) -> str:
        made = self._made.get(most)
        if made is None:
            # Budgets differ from call to call, and the texts of one thread must not pile up.
            if len(self._made) >= _BLOCKS:
                self._made.clear()
            made = self._made[most] = self._make(most)
        return made


class NotedMessages:
    """Observations that stand in a context together, and the blocks that were made of them."""

    def __init__(self, rows: Sequence[Observation], counter: TokenCounter) -> None:
        self.rows = rows
        self.tokens = count_observations(rows)
        self._blocks = _Blocks(lambda most: render_observations(rows, counter, most))

    def within(self, most: int) -> str:
        """The block in at most ``most`` tokens: its most important notes."""
        # More room than the notes take gives the same text, so it must not be another key.
        return self._blocks.within(min(most, self.tokens))


class ThreadObservations:
    """A thread's observations: the active ones, and those that were made ahead. ``by_a_model``: not all are extracts."""

    def __init__(self, rows: Sequence[Observation]) -> None:
        self._active = [row for row in rows if row.status == "active"]
        self._ahead = [row for row in rows if row.status != "active"]
        self._before: dict[int, NotedMessages] = {}
        self.has_active = bool(self._active)
        self.by_a_model = any(not row.prompt.startswith(EXTRACTED) for row in rows)

    def before(self, seq: int, counter: TokenCounter) -> NotedMessages:
        """The active observations, and those made ahead that cover a message before the seq."""
        ahead = [row for row in self._ahead if row.from_seq < seq]
        # A later seq has all notes of an earlier one, so their number distinguishes the sets.
        noted = self._before.get(len(ahead))
        if noted is None:
            if len(self._before) >= _BLOCKS:
                self._before.clear()
            noted = self._before[len(ahead)] = NotedMessages([*self._active, *ahead], counter)
        return noted


class ObservationCache:
    """The observations of the threads asked for last."""

    def __init__(self) -> None:
        self._threads = StampedCache[tuple[Scope, str], Hashable, ThreadObservations](_THREADS)

    async def get(self, tx: Tx, scope: Scope, thread_uid: str) -> ThreadObservations | None:
        """The observations of a thread; None if none exist. Each call reads their mark, and reads them again only if
        the mark has changed."""
        state = await observations.state(tx, scope, thread_uid)
        if not state:
            return None
        found = self._threads.find((scope, thread_uid), state)
        if found is not None:
            return found
        rows = await observations.read(tx, scope, thread_uid, "active", "buffered")
        return self._threads.keep((scope, thread_uid), state, ThreadObservations(rows))

    def forget(self, scope: Scope) -> None:
        """Forget the threads of a scope."""
        self._threads.forget(lambda key: key[0] == scope)


class WeighedNote(NamedTuple):
    """A note as it is rated, its line, and the tokens of that with its break."""

    note: DigestNote
    said: int
    worth: float
    line: str
    tokens: int


class ThreadExtracts:
    """Extracts from the messages of a part of a thread, those that matter most first. ``seqs``: the messages' own, in
    order. Of the messages up to the seq ``noted``, of which a model took notes as it saw fit, only what the user ruled,
    put right and said of themselves. ``former``: those of another part of the thread, whose notes are reused for equal
    messages. Where there are such, the window has moved and will again, and the notes are stored by message, too."""

    def __init__(self, sample: Sequence[Message], noted: int = 0, former: "ThreadExtracts | None" = None) -> None:
        self._noted = noted
        self.seqs = [message.seq for message in sample]
        self._sample: Sequence[Message] = sample
        self._ranked: list[WeighedNote] | None = None
        self._former = former
        self._by_message: Mapping[int, _NotedMessage] = {}

    @property
    def waiting(self) -> int:
        """The tokens of the messages that are still to be read for it."""
        return sum(message.tokens for message in self._sample)

    def before(self, seq: int, counter: TokenCounter) -> Sequence[WeighedNote]:
        """The notes on messages before the seq."""
        if self._ranked is None:
            former = self._former
            by_message = _note_messages(self._sample, former._by_message if former else {}, counter)
            weighed = chain.from_iterable(noted.weighed for noted in by_message.values())
            self._ranked = rank_rated(each for each in weighed if self._is_wanted(each.note))
            self._by_message = by_message if former else {}
            # The messages are large and needed no more: the cache holds their notes alone.
            self._sample, self._former = (), None
        if not self.seqs or self.seqs[-1] < seq:
            return self._ranked
        return [each for each in self._ranked if each.note.seq < seq]

    def _is_wanted(self, note: DigestNote) -> bool:
        """Whether no observation covers the note, or it is one that observations do not replace."""
        return note.seq > self._noted or (note.role == "user" and note.kind in OF_USERS)


class _NotedMessage(NamedTuple):
    """The content of ``MessageNotes``, weighed."""

    made_of: int
    weighed: tuple[WeighedNote, ...]


def _note_messages(
    messages: Sequence[Message], former: Mapping[int, _NotedMessage], counter: TokenCounter
) -> dict[int, _NotedMessage]:
    """The messages' notes by their seqs."""
    known = {seq: MessageNotes(noted.made_of, [each.note for each in noted.weighed]) for seq, noted in former.items()}
    found: dict[int, _NotedMessage] = {}
    for seq, noted in note_messages(messages, known).items():
        same = noted is known.get(seq)
        found[seq] = former[seq] if same else _NotedMessage(noted.made_of, tuple(weigh_notes(noted.notes, counter)))
    return found


def weigh_notes(notes: Iterable[DigestNote], counter: TokenCounter) -> list[WeighedNote]:
    """Each note with its line."""
    return [_weigh_note(rate_note(note), counter) for note in notes]


def _weigh_note(rated: RatedNote, counter: TokenCounter) -> WeighedNote:
    line = render_notes([rated.note])
    return WeighedNote(*rated, line, counter.text(f"{line}\n"))


class _ThreadPart(NamedTuple):
    """The messages that extracts are made from. ``is_whole``: nothing was taken out of them."""

    thread_uid: str
    is_whole: bool
    state: Hashable
    noted: int


class ExtractCache:
    """The extracts of the threads asked for last."""

    def __init__(self) -> None:
        # By the part of the thread: calls with room for more or fewer messages ask for different parts of one thread.
        self._threads = StampedCache[tuple[Scope, _ThreadPart], None, ThreadExtracts](_THREADS_OF_EXTRACTS)

    async def get(
        self,
        tx: Tx,
        scope: Scope,
        thread: Thread,
        after: int,
        before: int,
        *,
        noted: int = 0,
        lighten: Callable[[Message], Message] | None = None,
    ) -> ThreadExtracts | None:
        """Extracts from the messages with ``after`` < seq < ``before``, as ``lighten`` leaves them; None where there are
        none. Which messages these are is read each time; the messages are read only when they are others."""
        state = await windows.state_between(tx, scope, thread, after=after, before=before, most=_MOST_MESSAGES)
        if not state.messages:
            return None
        part = _ThreadPart(thread.thread_uid, lighten is None, state, noted)
        found = self._threads.find((scope, part), None)
        if found is not None:
            return found
        _, sample = await windows.between(tx, scope, thread, after=after, before=before, first=0, newest=_MOST_MESSAGES)
        if lighten is not None:
            sample = [lighten(message) for message in sample]
        made = ThreadExtracts(sample, noted, self._find_former(scope, part))
        return self._threads.keep((scope, part), None, made)

    def _find_former(self, scope: Scope, part: _ThreadPart) -> ThreadExtracts | None:
        """The extracts that were made last from another part of the same thread."""
        # The part used last shares most messages with the new one, since a window moves forward.
        for other_scope, other in reversed(self._threads.list_keys()):
            if other_scope == scope and (other.thread_uid, other.is_whole) == (part.thread_uid, part.is_whole):
                return self._threads.find((scope, other), None)
        return None

    def forget(self, scope: Scope) -> None:
        """Forget the threads of a scope."""
        self._threads.forget(lambda key: key[0] == scope)


@dataclass(slots=True)
class _ReadMessage:
    row: int
    message: Message
    weighed: Message | None = None
    line: str | None = None
    folded: str | None = None


class WindowMessages:
    """The messages of a thread's last window, each with the hash of the row that it was made of, and with its texts once
    they were requested."""

    def __init__(self) -> None:
        self._read: dict[int, _ReadMessage] = {}

    def make(self, thread_id: str, row: Row) -> Message:
        """The message of a row of ``messages.COLUMNS``, the same one again as long as every column is."""
        # Every edit changes a column of the row, so an equal hash stands for an equal message.
        known, hashed = self._read.get(row[0]), hash(tuple(row))
        if known is None or known.row != hashed:
            known = self._read[row[0]] = _ReadMessage(hashed, message_of(thread_id, row))
        return known.message

    def weigh(self, message: Message, counter: TokenCounter) -> Message:
        """The message as ``weigh_message`` weighs it."""
        known = self._read.get(message.seq)
        # A window may have cut or lightened its copy, and the cached texts are of the uncut message.
        if known is None or known.message is not message:
            return weigh_message(message, counter)
        if known.weighed is None:
            known.weighed = weigh_message(message, counter)
        return known.weighed

    def render(self, message: Message) -> str:
        """The line of a message that the window shows, as ``render_message`` renders it."""
        known = self._find(message)
        if known is None:
            return render_message(message)
        if known.line is None:
            known.line = render_message(message)
        return known.line

    def fold(self, message: Message) -> str:
        """The text of a message that the window shows, as ``fold_message`` folds it."""
        known = self._find(message)
        if known is None:
            return fold_message(message)
        if known.folded is None:
            known.folded = fold_message(message)
        return known.folded

    def _find(self, message: Message) -> _ReadMessage | None:
        """The entry for exactly this message, uncut, since it was last weighed."""
        known = self._read.get(message.seq)
        if known is not None and known.weighed is message:
            return known
        return None

    def keep(self, run: Sequence[Message]) -> None:
        """Keep these messages alone, and none of a large window."""
        small = sum(message.tokens for message in run) <= _WINDOW_TOKENS
        # Another call for the same thread may have kept others meanwhile.
        read = self._read
        self._read = {message.seq: read[message.seq] for message in run if message.seq in read} if small else {}


class WindowCache:
    """The messages of the windows asked for last. Their rows are read each time, and made into messages only when they
    are others."""

    def __init__(self) -> None:
        self._threads = StampedCache[tuple[Scope, str], str, WindowMessages](_WINDOWS)

    def get(self, scope: Scope, thread: Thread) -> WindowMessages:
        """The content of the thread's last window."""
        key = (scope, thread.thread_uid)
        found = self._threads.find(key, thread.thread_id)
        if found is not None:
            return found
        return self._threads.keep(key, thread.thread_id, WindowMessages())

    def forget(self, scope: Scope) -> None:
        """Forget the threads of a scope."""
        self._threads.forget(lambda key: key[0] == scope)


class AnswerCache:
    """The contexts given last, as text. Each is shown again until its scope is written, by whatever
    process, and within the minute, since it shows how long ago things were."""

    def __init__(self) -> None:
        self._answers = StampedCache[tuple[Scope, Hashable], tuple[Hashable, int], str](_ANSWERS)

    def find(self, scope: Scope, request: Hashable, version: Hashable | None, now: int) -> str | None:
        """The answer to the query; None if it may have changed."""
        # Without a version nothing shows whether the answer is still right.
        if version is None:
            return None
        return self._answers.find((scope, request), (version, now // MINUTE_MS))

    def keep(self, scope: Scope, request: Hashable, version: Hashable | None, now: int, text: str) -> None:
        """Keep an answer that was made after the ``version`` was read."""
        if version is not None and len(text) <= _ANSWER_CHARACTERS:
            self._answers.keep((scope, request), (version, now // MINUTE_MS), text)

    def forget(self, scope: Scope) -> None:
        """Forget the answers of a scope."""
        self._answers.forget(lambda key: key[0] == scope)
