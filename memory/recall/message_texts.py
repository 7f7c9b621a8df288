"""What is made of a message alone to show it among others: its line, its words, its text in small letters. A conversation
finds many of the same messages turn after turn, so they are kept as they were read, with what was made of them."""

from collections import OrderedDict
from collections.abc import Mapping
from threading import Lock
from typing import NamedTuple

from layerlore.memory.parts.parts import plain_text, searchable_text
from layerlore.memory.recall.hit_lines import EXCERPT_CHARS, WHOLE_CHARS, MemoryLine, make_line
from layerlore.memory.text.quotation import join_lines
from layerlore.storage.core.records import Message, Scope
from layerlore.storage.core.transaction import Row
from layerlore.storage.messages.messages import MakeMessage, message_of

# As many characters have at least about one token: an estimate is rather too small.
_CHARS_PER_TOKEN = 5

# Of all scopes together, those read last: some 8 MB. Long messages are few, and hardly quicker from here.
_MOST_MESSAGES = 2_000
_LONGEST_ROW = 2_000


class MessageTexts:
    """The texts of one message, each made when it is first asked for. Threads may ask at the same time: two that make the
    same do no harm, and a lock would cost more than most of them."""

    __slots__ = ("_chars", "_folded", "_line", "message")

    def __init__(self, message: Message) -> None:
        self.message = message
        self._chars: int | None = None
        self._folded: str | None = None
        self._line: MemoryLine | None = None

    @property
    def chars(self) -> int:
        if self._chars is None:
            self._chars = len(plain_text(self.message.parts))
        return self._chars

    @property
    def tokens(self) -> int:
        """About what its text takes, in tokens."""
        return self.chars // _CHARS_PER_TOKEN

    @property
    def tokens_of_line(self) -> int:
        """About what its line takes, in tokens."""
        chars = self.chars
        return (chars if chars <= WHOLE_CHARS else EXCERPT_CHARS) // _CHARS_PER_TOKEN

    @property
    def folded(self) -> str:
        """What a search should find it by, in small letters and on one line."""
        if self._folded is None:
            self._folded = fold_message(self.message)
        return self._folded

    def make_line(self, sought: Mapping[str, float], chunk: int | None) -> MemoryLine:
        """Its line, as ``hit_lines.make_line`` makes it: of a long text what was looked for."""
        if self._line is not None:
            return self._line
        line = make_line(self.message, sought, chunk=chunk)
        if line.is_whole:
            self._line = line
        return line


def fold_message(message: Message) -> str:
    """What a search should find a message by, in small letters and on one line."""
    return fold_text(searchable_text(message.parts))


def fold_text(text: str) -> str:
    """A text in small letters and on one line."""
    return join_lines(text).casefold()


class _KeptMessage(NamedTuple):
    row: int
    texts: MessageTexts


class MessageCache:
    """The messages that were found last, each with the hash of the row that it was made of, which takes less than the row.
    The rows are read each time, and made into messages only when they are others."""

    def __init__(self, most: int = _MOST_MESSAGES) -> None:
        self._kept: OrderedDict[tuple[Scope, str, int], _KeptMessage] = OrderedDict()
        self._most = most
        self._lock = Lock()

    def maker(self, scope: Scope) -> MakeMessage:
        """What makes the messages of a scope of their rows, the same one again as long as every column is."""

        def make(thread_id: str, row: Row) -> Message:
            return self._read(scope, thread_id, row).message

        return make

    def texts_of(self, scope: Scope, message: Message) -> MessageTexts:
        """The texts of a message; those that are kept, if it was read from here."""
        with self._lock:
            known = self._kept.get((scope, message.thread_id, message.seq))
        return known.texts if known is not None and known.texts.message is message else MessageTexts(message)

    def forget(self, scope: Scope) -> None:
        """Forget the messages of a scope."""
        with self._lock:
            for key in [key for key in self._kept if key[0] == scope]:
                del self._kept[key]

    def _read(self, scope: Scope, thread_id: str, row: Row) -> MessageTexts:
        key, hashed = (scope, thread_id, int(row[0])), hash(tuple(row))
        with self._lock:
            known = self._kept.get(key)
            if known is not None and known.row == hashed:
                self._kept.move_to_end(key)
                return known.texts
        texts = MessageTexts(message_of(thread_id, row))
        if len(row[4]) <= _LONGEST_ROW:
            with self._lock:
                self._kept[key] = _KeptMessage(hashed, texts)
                self._kept.move_to_end(key)
                while len(self._kept) > self._most:
                    self._kept.popitem(last=False)
        return texts


class ShownTexts:
    """The texts already shown in one answer, each with its speaker."""

    def __init__(self) -> None:
        self._shown: set[tuple[str, str | None, str]] = set()

    def add(self, message: Message) -> bool:
        """Add a message unless the same speaker already said the same, to the letter. Returns whether it was added."""
        text = join_lines(plain_text(message.parts))
        if not text:
            return True
        before = len(self._shown)
        self._shown.add((message.role, message.name, text))
        return len(self._shown) > before
