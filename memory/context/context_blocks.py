"""The blocks of a context, the lines of its messages, and the lines of ``<memory>``."""

from collections.abc import Callable, Collection, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count
from typing import Literal, NamedTuple

from layerlore.memory.documents.working_memory import WorkingMemoryDocument, render_block, render_readable
from layerlore.memory.language.search_words import split_words
from layerlore.memory.parts.parts import plain_text
from layerlore.memory.parts.tokens import CUT_MARK, TokenCounter
from layerlore.memory.recall.evidence_budget import Evidence, pack_lines, rank_evidence
from layerlore.memory.recall.hit_lines import (
    MessageTexts,
    Place,
    ShownTexts,
    find_place,
    fold_message,
    fold_text,
    mark_best,
    render_lines,
)
from layerlore.memory.recall.memory_block import RecalledMemory, render_entry, wrap_memory_block
from layerlore.memory.recall.newer_lines import mark_newer
from layerlore.memory.recall.recall_text import render_doubts
from layerlore.memory.text.quotation import Tag, indent_lines, quote_line, quote_text, wrap_block
from layerlore.memory.text.trust import describe_speaker
from layerlore.memory.work import attempts
from layerlore.memory.work.plan import find_current_step, render_open
from layerlore.memory.work.plan import render_lines as render_plan_lines
from layerlore.memory.work.plan_rules import OPEN
from layerlore.memory.work.work_answers import OpenWorkAnswer
from layerlore.storage.core import linear_re
from layerlore.storage.core.records import Json, Message, Plan
from layerlore.storage.work.steps import AttemptPage

BlockName = Literal[
    "user-profile",
    "observations",
    "summary",
    "session-memory",
    "current-task",
    "plan",
    "previous-attempts",
    "open-work",
    "memory",
]

OPEN_WORK = "Suspended runs, this conversation's first, and unfinished plans of others, changed last first."

# The tokens of a document's beginning, which comes before what is newer than it.
_LEAST_OF_DOCUMENT = 60
# A block and what stands between it and the next.
_BETWEEN = 2


@dataclass(frozen=True, slots=True)
class ShownBlock:
    """A block as it is in the context, its tokens, and what of it is missing ("": nothing)."""

    name: BlockName
    text: str
    tokens: int
    missing: str = ""


@dataclass(frozen=True, slots=True)
class ContextPiece:
    """A block that has something to say. ``fit`` gives it with at most ``tokens`` tokens of its own text, and what is
    missing then; an empty text where nothing fits."""

    name: BlockName
    text: str
    tokens: int
    fit: Callable[[int], tuple[str, str]]

    def within(self, most: int, counter: TokenCounter) -> ShownBlock:
        """The block in at most ``most`` tokens; empty if not even one word fits."""
        if self.text and self.tokens <= most:
            return ShownBlock(self.name, self.text, self.tokens)
        text, missing = self.fit(most - _BETWEEN)
        return ShownBlock(self.name, text, count_cost(counter, text), missing)


def count_cost(counter: TokenCounter, text: str) -> int:
    """Count the tokens that a block takes of the budget."""
    if text:
        return counter.block(text) + _BETWEEN
    return 0


def make_piece(
    name: BlockName, text: str, counter: TokenCounter, fit: Callable[[int], tuple[str, str]]
) -> ContextPiece:
    """Make a piece of a whole block, its tokens counted."""
    return ContextPiece(name, text, count_cost(counter, text), fit)


def make_document_piece(
    document: WorkingMemoryDocument, name: Literal["user-profile", "session-memory"], counter: TokenCounter
) -> ContextPiece:
    """A working memory document as a block, cut at the document's end with a mark."""
    assert document.changed is not None
    readable = render_readable(document)

    without_newer = replace(document, newer=())

    def fit(most: int) -> tuple[str, str]:
        shown = document
        if document.newer:
            # The document's beginning comes first, then what is newer, then the rest: more room never shows less.
            beginning = counter.cut_words(readable, _LEAST_OF_DOCUMENT) + CUT_MARK
            if counter.text(render_block(document, text=beginning)) > most:
                shown = without_newer
                most = min(most, counter.text(render_block(without_newer, text=beginning)))
        return _cut(readable, lambda text: render_block(shown, text=text), most, counter), f"words of {name}"

    return make_piece(name, render_block(document), counter, fit)


def make_plan_piece(plan: Plan, counter: TokenCounter) -> ContextPiece:
    """The plan as a block; where it is too long, its goal, its phase and the steps that matter most."""
    description = "The plan of this conversation's work."

    def shown(text: str) -> str:
        return wrap_block("plan", text, description)

    lines = render_plan_lines(plan)

    def fit(most: int) -> tuple[str, str]:
        kept = _choose_plan_lines(plan, lines, lambda text: counter.text(shown(text)) <= most)
        if kept:
            return shown("\n".join(kept)), "steps of the plan"
        return _cut("\n".join(lines[:2]), shown, most, counter), "steps of the plan"

    return make_piece("plan", shown("\n".join(lines)), counter, fit)


def _choose_plan_lines(plan: Plan, lines: Sequence[str], fits: Callable[[str], bool]) -> list[str]:
    """The lines of a plan that fit, in its order: goal and phase, the step that is next, the open steps, then the
    others, the newest first."""
    if plan["steps"]:
        head = len(lines) - len(plan["steps"])
    else:
        head = len(lines)
    current = find_current_step(plan)
    places = range(len(lines) - head)

    def rank(place: int) -> tuple[bool, bool, int]:
        step = plan["steps"][place]
        is_open = step["status"] in OPEN
        return step is not current, not is_open, place if is_open else -place

    order = [*range(head), *(head + place for place in sorted(places, key=rank))]
    # Goal and phase are never dropped: steps mean nothing without them.
    for kept in range(len(order), head - 1, -1):
        chosen = [lines[place] for place in sorted(order[:kept])]
        if fits("\n".join(chosen)):
            return chosen
    return []


def make_attempts_piece(logged: AttemptPage, counter: TokenCounter) -> ContextPiece:
    """The attempts as a block, by task, the newest where not all fit."""
    # The log is in order of tasks; the block drops the oldest attempts, whatever their task.
    newest = sorted(logged.attempts, key=lambda attempt: (attempt.created_at, attempt.attempt))
    rows = [
        f"{quote_line(attempt.task_key)}: {line}"
        for attempt, line in zip(newest, attempts.render_attempts(newest), strict=True)
    ]
    text, _ = _newest_lines("previous-attempts", rows, "What was tried before, newest last.", None, counter)

    def fit(most: int) -> tuple[str, str]:
        shown, kept = _newest_lines("previous-attempts", rows, "What was tried before, newest last.", most, counter)
        return shown, f"{logged.total - kept} earlier attempts"

    return make_piece("previous-attempts", text, counter, fit)


def make_open_work_piece(found: OpenWorkAnswer, counter: TokenCounter) -> ContextPiece:
    """The open work as a block; its first lines if not everything fits."""
    lines = render_open(found)

    def fit(most: int) -> tuple[str, str]:
        kept = len(lines)
        while kept and counter.text(wrap_open_work(lines[:kept])) > most:
            kept -= 1
        return wrap_open_work(lines[:kept]), f"{len(lines) - kept} lines of open-work"

    return make_piece("open-work", wrap_open_work(lines), counter, fit)


def wrap_open_work(lines: Sequence[str]) -> str:
    """The lines of ``render_open`` as a block; empty without any."""
    if lines:
        return wrap_block("open-work", "\n".join(lines), OPEN_WORK)
    return ""


def make_task_piece(current_task: str | None, next_step: str | None, counter: TokenCounter) -> ContextPiece:
    """The current task and the next step as a block, as the observer noted them."""
    rows = [("Current task", current_task), ("Suggested next step", next_step)]
    text = "\n".join(f"{name}: {quote_line(value)}" for name, value in rows if value)

    def shown(text: str) -> str:
        return wrap_block("current-task", text, "What was being done, as it was last noted.")

    def fit(most: int) -> tuple[str, str]:
        return _cut(text, shown, most, counter), "words of current-task"

    return make_piece("current-task", shown(text), counter, fit)


def _newest_lines(
    tag: Tag, rows: Sequence[str], description: str, most: int | None, counter: TokenCounter
) -> tuple[str, int]:
    """A block of the last lines that fit, and how many those are; empty where none does."""
    kept = len(rows)
    while kept:
        text = wrap_block(tag, "\n".join(rows[-kept:]), description)
        if most is None or counter.text(text) <= most:
            return text, kept
        kept -= 1
    return "", 0


def _cut(text: str, shown: Callable[[str], str], most: int, counter: TokenCounter) -> str:
    """The block with the beginning of a text that fits, and a mark; empty where not a word of it does."""
    left = most - counter.known(shown(CUT_MARK))
    while left > 0 and (beginning := counter.cut_words(text, left)):
        made = shown(beginning + CUT_MARK)
        over = counter.text(made) - most
        if over <= 0:
            return made
        # Tokens do not add up: a text and its frame together may take more than each alone.
        left -= over
    return ""


OVERHEAD = 2
"""Tokens of a line beside its message's own, which have some for number and role: the break of the line, and one."""
# A number takes one token for each three digits, and OVERHEAD counts the first.
_DIGITS = 3
# Counting this number of tokens again costs little.
_SHORT = 100
# A part in brackets: "[tool result name: ...]".
_BRACKETS = 6
# Between two parts.
_BREAK = 2
# The extra tokens of "(" over "<", and of a space at the beginning of a line.
_MORE_A_SIGN = 2
_SIGNS = ("<", "&", "[")
_PARTED = linear_re.compile(r"[\r\n](?=[\d\s])")


def render_message(message: Message) -> str:
    """``#12 user Anna: the text``; predefined messages have no number. Only its first line begins without a space, so
    that nothing in the text passes for another message."""
    number = f"#{message.seq} " if message.seq > 0 else ""
    return f"{number}{describe_speaker(message)}: {indent_lines(plain_text(message.parts, quote_text))}"


def weigh_message(message: Message, counter: TokenCounter) -> Message:
    """Give the message the most tokens that it takes, less OVERHEAD. A short one is counted as it is shown; stored counts
    leave out names, brackets and addresses, and may be of another encoding."""
    # The parts are in the key, since a cut copy of a message shares its id but not its tokens.
    seen = (message.seq, message.role, message.name, message.tokens, message.encoding, repr(message.parts))
    tokens = counter.once(hash(seen), lambda: _count_tokens(message, counter))
    if tokens == message.tokens:
        return message
    return replace(message, tokens=tokens)


def _count_tokens(message: Message, counter: TokenCounter) -> int:
    if message.tokens <= _SHORT:
        line = render_message(message)
        # The break may merge with the last token or be one more: the larger count is safe.
        return max(counter.text(line), counter.text(f"{line}\n")) - OVERHEAD
    if message.encoding == counter.name:
        tokens = message.tokens
    else:
        tokens = counter.parts(message.parts)
    tokens += (len(str(message.seq)) - 1) // _DIGITS
    speaker = describe_speaker(message)
    if speaker != message.role:
        tokens += counter.known(speaker)
    return tokens + sum(_count_more(part, counter) for part in message.parts) + _BREAK * (len(message.parts) - 1)


def _count_more(part: Json, counter: TokenCounter) -> int:
    if part["type"] == "text":
        return _count_framing(part["text"])
    shown = plain_text([part])
    more = _BRACKETS + _count_framing(shown)
    if part["type"] == "file":
        return more + counter.known(shown)
    # The name of a call is counted with its arguments.
    return more + (counter.known(part["name"]) if part.get("name") and part["type"] != "tool_call" else 0)


def _count_framing(text: str) -> int:
    """The characters that quoting and indenting may add to a text: a break of a line and a space are one token, but
    before a digit and another break."""
    if text.isascii() and not any(sign in text for sign in _SIGNS):
        return len(_PARTED.findall(text))
    shown = quote_text(text)
    return len(_PARTED.findall(shown)) + _MORE_A_SIGN * sum(shown.count(sign) - text.count(sign) for sign in "(")


# A shorter text than this stands in much that does not repeat it.
_SHORTEST_REPEATED = 24
# A message with more content words than this says more than an entry.
_MOST_REPEATED = 40
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


class ShownContext:
    """The part of a context that is not memory: these messages (predefined ones too; of those ``cut`` not all)
    and these blocks. The caller's model answers what came from the seq ``answered_from`` on."""

    def __init__(
        self,
        thread_id: str,
        messages: Sequence[Message],
        answered_from: int,
        blocks: Sequence[str],
        folded: FoldedTexts,
        *,
        cut: Collection[int] = (),
    ) -> None:
        self._thread_id = thread_id
        self._messages = messages
        # A cut or blanked message does not show all that it says, so memories may repeat it.
        self._seqs = frozenset(each.seq for each in messages if each.seq not in cut and not _is_blanked(each))
        self._answered_from = answered_from
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
            and (message.seq in self._seqs or 0 < self._answered_from <= message.seq)
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
        if self.block:
            return self.block.tokens
        return 0


class EntryWords(NamedTuple):
    """The words of an entry, and the places of the messages that it was made of."""

    words: Set[str]
    sources: Set[Place]


class MemoryFitter:
    """Fits what is recalled into a context, as often as its room is settled anew. What depends neither on the room nor on
    what is shown beside is made once, and of hits only for those that are examined."""

    def __init__(self, recalled: RecalledMemory, counter: TokenCounter, *, now: int) -> None:
        self._recalled = recalled
        self._counter = counter
        self._entries = [(entry, render_entry(entry, now)) for entry in recalled.entries]
        self._texts = [hit.texts for hit in recalled.hits]
        self._evidence: dict[int, Evidence] = {}
        self._scores = {find_place(hit.message): hit.score for hit in recalled.hits}
        # An iterator, so that hits are ranked only as far as the room lasts.
        self._coming = rank_evidence(len(self._texts), lambda at: self._texts[at].tokens_of_line)
        self._ranked: list[int] = []

    def fit(self, shown: ShownContext, most: int) -> FittedMemory:
        """The block of what is recalled in at most ``most`` tokens."""
        recalled, counter = self._recalled, self._counter
        kept = [(entry, line) for entry, line in self._entries if not shown.has_entry(entry)]
        says_more = any(not shown.has(texts) for texts in self._texts)
        if not kept and not says_more:
            return FittedMemory()
        # The frame and a line of doubt are set aside first; entries and lines share the rest.
        room = most - count_cost(counter, wrap_memory_block(["-", *render_doubts("unsure", recalled.silent)]))
        lines = [line for _, line in kept]
        fitting = _fit_entries(lines, int(room * _ENTRY_SHARE) if says_more else room, counter)
        said = [read_entry(entry) for entry, _ in kept[: len(fitting)]]
        packed = pack_lines(self._list_new(shown, said), counter, room - _count(fitting, counter))
        if packed.lines:
            doubts = render_doubts(recalled.confidence, recalled.silent)
        else:
            doubts = []
        chosen = mark_best(packed.lines, self._scores)
        text = wrap_memory_block([*fitting, *doubts, *render_lines(mark_newer(chosen, recalled.sought))])
        if count_cost(counter, text) > most:
            text = wrap_memory_block([*fitting, *doubts, *render_lines(chosen)])
        missing = len(kept) - len(fitting)
        tokens = count_cost(counter, text)
        is_whole = not missing and packed.is_whole
        if not text and not missing:
            return FittedMemory(None, is_whole)
        if missing:
            told = f"{missing} older memories"
        else:
            told = ""
        return FittedMemory(ShownBlock("memory", text, tokens, told), is_whole)

    def _list_places(self) -> Iterator[int]:
        """The places of all hits in the order in which they are chosen, as far as they are requested."""
        for number in count():
            if number == len(self._ranked):
                place = next(self._coming, None)
                if place is None:
                    return
                self._ranked.append(place)
            yield self._ranked[number]

    def _list_new(self, shown: ShownContext, said: Sequence[EntryWords]) -> Iterator[tuple[int, Evidence]]:
        """The hits that are not shown, and that neither a better hit nor an entry (``said``) repeats, each with its place
        among all hits, in the order in which they are chosen."""

        def is_told(texts: MessageTexts) -> bool:
            return shown.has(texts) or repeats_entry(texts, said)

        listed = ShownTexts()
        new: list[bool] = []
        for place in self._list_places():
            # Better hits are judged first: among those that say the same only the best is shown.
            for better in range(len(new), place + 1):
                texts = self._texts[better]
                new.append(not is_told(texts) and listed.add(texts))
            if new[place]:
                yield place, self._find_evidence(place).without(is_told)

    def _find_evidence(self, place: int) -> Evidence:
        known = self._evidence.get(place)
        if known is None:
            hit = self._recalled.hits[place]
            known = Evidence(self._texts[place], self._recalled.sought, hit.chunk, hit.before, hit.after)
            self._evidence[place] = known
        return known


def read_entry(entry: Message) -> EntryWords:
    """The words and the sources of an entry."""
    words = frozenset(split_words(str(entry.parts[0]["text"])))
    sources = frozenset((entry.whose, each["thread_id"], each["seq"]) for each in entry.metadata["sources"])
    return EntryWords(words, sources)


def repeats_entry(texts: MessageTexts, entries: Sequence[EntryWords]) -> bool:
    """Whether a message is a source of one of the shown entries, which has each of its content words. Another message may
    say the opposite in the same words, or be the user's where the entry is the assistant's."""
    place = find_place(texts.message)
    of_message = [entry.words for entry in entries if place in entry.sources]
    return bool(of_message) and len(texts.words) <= _MOST_REPEATED and is_said(texts.words, of_message)


def is_said(words: Set[str], said: Sequence[Set[str]]) -> bool:
    """Whether one of the lines, given by their words, has each of some words; no line says what has no words."""
    return bool(words) and any(line >= words for line in said)


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
