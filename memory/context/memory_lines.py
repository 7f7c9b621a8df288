"""The lines of the ``<memory>`` block, as many as there is room for, without what the context shows already."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count

from layerlore.memory.context.blocks import ShownBlock, count_cost
from layerlore.memory.parts.tokens import TokenCounter
from layerlore.memory.recall.hit_lines import MemoryLine, find_place, mark_best, render_lines
from layerlore.memory.recall.memory_block import RecalledMemory, render_entry, wrap_memory_block
from layerlore.memory.recall.message_texts import MessageTexts, ShownTexts, fold_message, fold_text
from layerlore.memory.recall.packing import pack_ranked, rank_messages
from layerlore.memory.recall.recall_text import UNSURE
from layerlore.storage.core.records import Message

# A shorter text than this stands in much that does not repeat it.
_SHORTEST_REPEATED = 24
# With so many tokens more than the lines take, every line is there.
_LEAST_LEFT = 80
# Entries take at most this share of the room where there are lines, too.
_ENTRY_SHARE = 0.5


class FoldedTexts:
    """The texts of messages and blocks in small letters and on one line, each made once."""

    def __init__(self, fold: Callable[[Message], str] = fold_message) -> None:
        self._fold = fold
        # With the message itself, so that no other one comes to have its id.
        self._messages: dict[int, tuple[Message, str]] = {}
        self._blocks: dict[str, str] = {}

    def of_message(self, message: Message) -> str:
        known = self._messages.get(id(message))
        if known is None:
            known = self._messages[id(message)] = (message, self._fold(message))
        return known[1]

    def of_block(self, block: str) -> str:
        known = self._blocks.get(block)
        if known is None:
            known = self._blocks[block] = fold_text(block)
        return known


class ShownAlready:
    """What a context of a thread shows beside its memories: these messages (predefined ones too; of those ``cut`` not all)
    and these blocks. What came from the seq ``asked`` on is what is being answered."""

    def __init__(
        self,
        thread_id: str,
        messages: Sequence[Message],
        asked: int,
        blocks: Sequence[str],
        folded: FoldedTexts,
        *,
        cut: Collection[int] = (),
    ) -> None:
        self._thread_id = thread_id
        self._messages = messages
        self._seqs = frozenset(each.seq for each in messages if each.seq not in cut and not _is_blanked(each))
        self._asked = asked
        self._blocks = blocks
        self._folded = folded

    @cached_property
    def _text(self) -> str:
        """All that is shown, a line each."""
        return "\n".join([*map(self._folded.of_message, self._messages), *map(self._folded.of_block, self._blocks)])

    @cached_property
    def _lines(self) -> frozenset[str]:
        return frozenset(self._text.split("\n"))

    def has(self, texts: MessageTexts) -> bool:
        """Whether the message is among them, or says what stands there."""
        message = texts.message
        if (
            message.whose != "you"
            and message.thread_id == self._thread_id
            and (message.seq in self._seqs or 0 < self._asked <= message.seq)
        ):
            return True
        text = texts.folded
        return text in (self._text if len(text) >= _SHORTEST_REPEATED else self._lines)

    def has_entry(self, entry: Message) -> bool:
        """Whether all that the entry rests on is shown, or its own text is."""
        sources = entry.metadata["sources"]
        own = entry.whose != "you"
        told = [own and each["thread_id"] == self._thread_id and each["seq"] in self._seqs for each in sources]
        return (bool(told) and all(told)) or self.has(MessageTexts(entry))


def _is_blanked(message: Message) -> bool:
    """Whether the window shows nothing of the message but that there were results."""
    return all(part["type"] == "tool_result" and part["result"] == "" for part in message.parts)


@dataclass(frozen=True, slots=True)
class FittedMemory:
    """The block of memories (None: there are none that fit), and whether it has all that were found."""

    block: ShownBlock | None = None
    is_whole: bool = True

    @property
    def tokens(self) -> int:
        return self.block.tokens if self.block else 0


class MemoryFitter:
    """Fits what is recalled into a context, as often as its room is settled anew. What depends neither on the room nor on
    what is shown beside is made once, and of hits only for those that are looked at."""

    def __init__(self, recalled: RecalledMemory, counter: TokenCounter, *, now: int) -> None:
        self._recalled = recalled
        self._counter = counter
        self._entries = [(entry, render_entry(entry, now)) for entry in recalled.entries]
        self._texts = [hit.texts for hit in recalled.hits]
        self._scores = {find_place(hit.message): hit.score for hit in recalled.hits}
        self._coming = rank_messages(self._texts)
        self._ranked: list[int] = []
        self._lines: dict[int, MemoryLine] = {}

    def fit(self, shown: ShownAlready, most: int) -> FittedMemory:
        """The block of what is recalled in at most ``most`` tokens."""
        recalled, counter = self._recalled, self._counter
        kept = [line for entry, line in self._entries if not shown.has_entry(entry)]
        says_more = any(not shown.has(texts) for texts in self._texts)
        if not kept and not says_more:
            return FittedMemory()
        room = most - count_cost(counter, wrap_memory_block(["-"], [UNSURE]))
        fitting = _fit_entries(kept, int(room * _ENTRY_SHARE) if says_more else room, counter)
        packed = pack_ranked(self._list_new(shown), counter, room - _count(fitting, counter))
        unsure = [UNSURE] if packed and recalled.confidence == "unsure" else []
        text = wrap_memory_block(fitting, [*unsure, *render_lines(mark_best(packed, self._scores))])
        missing = len(kept) - len(fitting)
        tokens = count_cost(counter, text)
        # A line that does not fit is cut to what is left: where more is left, there is none.
        is_whole = not missing and tokens + _LEAST_LEFT <= most
        if not text and not missing:
            return FittedMemory(None, is_whole)
        told = f"{missing} older memories" if missing else ""
        return FittedMemory(ShownBlock("memory", text, tokens, told), is_whole)

    def _list_places(self) -> Iterator[int]:
        """The places of all hits in the order in which they are chosen, as far as they are asked for."""
        for number in count():
            if number == len(self._ranked):
                place = next(self._coming, None)
                if place is None:
                    return
                self._ranked.append(place)
            yield self._ranked[number]

    def _list_new(self, shown: ShownAlready) -> Iterator[tuple[int, MemoryLine]]:
        """The lines of the hits that are not shown and that no better hit repeats, each with its place among all hits, in
        the order in which they are chosen."""
        listed = ShownTexts()
        new: list[bool] = []
        for place in self._list_places():
            for better in range(len(new), place + 1):
                texts = self._texts[better]
                new.append(not shown.has(texts) and listed.add(texts.message))
            if new[place]:
                yield place, self._make_line(place)

    def _make_line(self, place: int) -> MemoryLine:
        known = self._lines.get(place)
        if known is None:
            chunk = self._recalled.hits[place].chunk
            known = self._lines[place] = self._texts[place].make_line(self._recalled.sought, chunk)
        return known


def _count(lines: Collection[str], counter: TokenCounter) -> int:
    return sum(counter.known(f"{line}\n") for line in lines)


def _fit_entries(lines: Sequence[str], room: int, counter: TokenCounter) -> list[str]:
    """The newest that fit."""
    fitting: list[str] = []
    for line in lines:
        room -= counter.known(f"{line}\n")
        if room < 0:
            break
        fitting.append(line)
    return fitting
