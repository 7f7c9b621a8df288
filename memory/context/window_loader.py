"""Reads as much of a thread as its window can hold: the cost follows the window, not the thread. Texts stand for the messages
that are not shown: the notes of observers, and a summary and extracts of messages without notes."""

from bisect import bisect_left
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

from layerlore.memory.context.caches import (
    NotedMessages,
    ThreadExtracts,
    ThreadObservations,
    WeighedNote,
    WindowMessages,
    weigh_notes,
)
from layerlore.memory.context.context_blocks import OVERHEAD, ShownBlock, count_cost, is_said
from layerlore.memory.digest.digest import DigestNote, rank_rated, render_notes, take_notes
from layerlore.memory.language.search_words import find_query_words, split_words
from layerlore.memory.parts.tokens import PER_MESSAGE, TokenCounter
from layerlore.memory.rules.ages import name_days
from layerlore.memory.text.quotation import indent_lines, quote_text, wrap_block
from layerlore.memory.window.fit import find_level, find_newest_from_user, holds_newest, strip_orphans
from layerlore.memory.window.policy import WindowPolicy
from layerlore.memory.window.view import count_leading, lighten_messages
from layerlore.storage.core.records import Message, Scope, Thread
from layerlore.storage.core.transaction import Tx
from layerlore.storage.messages import windows
from layerlore.storage.messages.windows import RunState

# Rows of one read. A first guess that is too small costs one more.
_MOST_ROWS = 1000
_FEWEST_ROWS = 20
_SPARE = 1.1
# An extract has no more content words.
_MOST_WORDS = 200


@dataclass(frozen=True, slots=True)
class LoadedWindow:
    """The newest messages of a thread in one run, and before it, if the policy wants them, its first ones and the
    newest from the user; ``older`` counts those that lie before the run and are not given."""

    lead: tuple[Message, ...]
    run: tuple[Message, ...]
    older: int


async def load_window(
    tx: Tx,
    scope: Scope,
    thread: Thread,
    policy: WindowPolicy,
    budget: int,
    counter: TokenCounter,
    known: WindowMessages,
    *,
    most_each: int | None = None,
) -> LoadedWindow:
    """What the window of the policy is made of, as far as ``budget`` tokens can hold it. ``known``: what the thread's
    last window held, which becomes what this one holds. ``most_each``: no message takes more of the budget."""
    run = await _read_newest(tx, scope, thread, policy, budget, counter, known, most_each)
    # Messages that left the window are forgotten: the cache stays as large as one window.
    known.keep(run)
    lead: list[Message] = []
    if run and run[0].seq > 1 and len(run) < thread.message_count:
        first = await windows.first(tx, scope, thread, most=count_leading(policy))
        lead = [message for message in first if message.seq < run[0].seq]
        # A model must see the request that it works on, even if many tool calls came after it.
        if find_newest_from_user(run) is None:
            newest_user = await windows.latest_from_user(tx, scope, thread)
            if newest_user is not None and all(message.seq != newest_user.seq for message in lead):
                lead.append(newest_user)
    return LoadedWindow(tuple(lead), tuple(run), max(0, thread.message_count - len(run) - len(lead)))


async def _read_newest(
    tx: Tx,
    scope: Scope,
    thread: Thread,
    policy: WindowPolicy,
    budget: int,
    counter: TokenCounter,
    known: WindowMessages,
    most_each: int | None,
) -> list[Message]:
    most = _count_most(policy, thread)
    # By the average of the thread one read mostly has enough rows for the budget.
    average = thread.token_count / max(1, thread.message_count) + OVERHEAD
    if most_each:
        average = min(average, most_each)
    rows = min(_MOST_ROWS, int(_SPARE * _limit_tokens(policy, budget) / average) + _FEWEST_ROWS)
    run: list[Message] = []
    while len(run) < most:
        count = min(rows, most - len(run))
        if run:
            before = run[0].seq
        else:
            before = None
        page = await windows.newest(tx, scope, thread, most=count, before=before, make=known.make)
        run = [*page, *run]
        if len(page) < count or _is_enough(run, policy, budget, counter, most_each):
            break
    return run


def _count_most(policy: WindowPolicy, thread: Thread) -> int:
    """How many messages the window can have at most; one more shows that something lies before it."""
    if policy.limit != "messages":
        return thread.message_count
    if policy.trim == "continuous":
        return policy.max_messages
    return policy.threshold


def _limit_tokens(policy: WindowPolicy, budget: int) -> int:
    if policy.limit == "tokens":
        return min(budget, policy.max_tokens)
    return budget


def _is_enough(
    run: Sequence[Message], policy: WindowPolicy, budget: int, counter: TokenCounter, most_each: int | None
) -> bool:
    """Whether what lies before the run cannot be in the window."""
    floor = max(1, find_floor(policy))
    # A window that moves in steps has the least number before its last step, too.
    newest = holds_newest(run, 2 * floor if most_each else floor)
    # More messages than that can never be shown, whatever the policy wants to keep.
    if not newest and len(run) < budget // (PER_MESSAGE + OVERHEAD):
        return False
    light = strip_orphans(lighten_messages(run, policy, counter), counter)
    spent = sum(min(message.tokens, most_each or message.tokens) for message in light)
    if policy.limit == "tokens" and spent > policy.max_tokens:
        return True
    return spent + len(light) * OVERHEAD > budget


def find_floor(policy: WindowPolicy) -> int:
    """How many of the newest messages the policy keeps whatever they cost."""
    return {"observed": policy.last_messages, "tokens": policy.min_messages, "messages": 0}[policy.limit]


# The frame of a summary, and what stands between it and the next block.
_SUMMARY_FRAME = 70
# The fewest tokens of a note that is cut, and its mark.
_FEWEST = 12
_MARK = 2


@dataclass(frozen=True, slots=True)
class ModelSummary:
    """A model's summary. ``covered``: the messages that it was made of."""

    text: str
    covered: RunState


@dataclass(frozen=True, slots=True)
class LoadedNotes:
    """The notes about messages that are not shown: a thread's observations; extracts of messages that no observation
    covers, those behind the seq ``after``, and before these a model's summary. ``most``: the longest summary, in tokens
    (None: as long as there is room)."""

    noted: ThreadObservations | None = None
    extracts: ThreadExtracts | None = None
    summary: ModelSummary | None = None
    most: int | None = None
    after: int = 0

    @property
    def waiting(self) -> int:
        """The tokens of the messages that are still to be read for extracts."""
        if self.extracts:
            return self.extracts.waiting
        return 0


@dataclass(frozen=True, slots=True)
class NotesOnLeftOut:
    """The notes on messages that are not shown, or not as a whole: ``observations``; a model's ``summary`` of
    ``summary_tokens`` tokens; and ``extracts`` from the ``messages`` with these seqs, those that matter most first, of
    together ``extract_tokens``."""

    observations: NotedMessages | None = None
    summary: ModelSummary | None = None
    summary_tokens: int = 0
    extracts: Sequence[WeighedNote] = ()
    extract_tokens: int = 0
    messages: Sequence[int] = ()
    most: int | None = None

    @property
    def tokens(self) -> int:
        """The tokens of all of them."""
        return self._observed + self._summarised

    @property
    def _observed(self) -> int:
        if self.observations:
            return self.observations.tokens
        return 0

    @property
    def _summarised(self) -> int:
        if not self.summary and not self.extracts:
            return 0
        tokens = self.summary_tokens + self.extract_tokens
        return (tokens if self.most is None else min(tokens, self.most)) + _SUMMARY_FRAME

    def render(self, room: int, counter: TokenCounter) -> list[ShownBlock]:
        """The blocks ``observations`` and ``summary`` that fit. With more room of each note at least as much is shown."""
        level = max(0, find_level([self._observed, self._summarised], room))
        blocks: list[ShownBlock] = []
        if self.observations:
            text = self.observations.within(level)
            if level < self._observed:
                missing = "older observations"
            else:
                missing = ""
            blocks.append(ShownBlock("observations", text, count_cost(counter, text), missing))
        if self.extracts:
            said = [frozenset(split_words(line)) for block in blocks for line in block.text.split("\n")]
        else:
            said = []
        text = self._summarise(min(self._summarised, level) - _SUMMARY_FRAME, counter, said)
        if text:
            blocks.append(ShownBlock("summary", text, count_cost(counter, text)))
        return blocks

    def _summarise(self, left: int, counter: TokenCounter, said: Sequence[Set[str]]) -> str:
        """The summary of what fell out of the window: a model's, if there is one, and extracts from what it does not
        cover. ``said``: the words of each line of the observations above it."""
        if left <= 0:
            return ""
        if self.summary:
            made = counter.cut(self.summary.text, left)
        else:
            made = ""
        if made:
            left -= counter.known(made)
        kept = self._extract(left, counter, said)
        lines = "\n".join(line for _, line in kept)
        if not made and not lines:
            return ""
        covered = self._list_covered(made=bool(made), extracted=bool(lines))
        count = sum(messages for messages, _, _ in covered)
        what = "Extracts from"
        if made:
            if lines:
                what = "A summary of, and extracts from,"
            else:
                what = "A summary of"
        counted = f"{count:,} earlier message{'' if count == 1 else 's'}, #{covered[0][1]} to #{covered[-1][2]}"
        # A model's text: only the lines of extracts begin without a space.
        if made:
            own = indent_lines(f" {quote_text(made)}")
        else:
            own = ""
        # A model's text says by itself when things were.
        if kept and not made:
            days = f", of {name_days([note.said_at for note, _ in kept])}"
        else:
            days = ""
        return wrap_block("summary", "\n".join(filter(None, [own, lines])), f"{what} {counted}{days}.")

    def _list_covered(self, *, made: bool, extracted: bool) -> list[tuple[int, int, int]]:
        """For the summary and for the extracts: how many messages they cover, and the first and last seq of these."""
        covered: list[tuple[int, int, int]] = []
        if self.summary and made:
            run = self.summary.covered
            covered.append((run.messages, run.first, run.last))
        if extracted:
            covered.append((len(self.messages), self.messages[0], self.messages[-1]))
        return covered

    def _extract(self, left: int, counter: TokenCounter, said: Sequence[Set[str]]) -> list[tuple[DigestNote, str]]:
        """The extracts that fit, with their lines, in time order. The first that does not fit is cut. Extracts that an
        observation repeats word for word are left out."""
        kept: list[tuple[DigestNote, str]] = []
        for note, _, _, line, tokens in self.extracts:
            if said and is_said(frozenset(find_query_words(note.text, most=_MOST_WORDS)), said):
                continue
            if tokens > left:
                # The tokens of the line beside the note's own text, and the mark, stay out of the room for its words.
                text = counter.cut_words(note.text, left - tokens + counter.known(note.text) - _MARK)
                if counter.known(text) >= _FEWEST:
                    kept.append((note, render_notes([replace(note, text=f"{text.rstrip()}…")])))
                break
            left -= tokens
            kept.append((note, line))
        return sorted(kept, key=lambda each: (each[0].seq, each[0].place))


def take_notes_on(source: LoadedNotes, before: int, cut: Sequence[Message], counter: TokenCounter) -> NotesOnLeftOut:
    """The notes that stand for the messages before the seq, and for those that are shown ``cut``."""
    # A message that is shown cut needs notes, too, though it lies behind the others.
    furthest = max([before, *(message.seq + 1 for message in cut)])
    if source.noted:
        observations = source.noted.before(furthest, counter)
    else:
        observations = None
    summary, extracts = source.summary, source.extracts
    if extracts:
        seqs = extracts.seqs[: bisect_left(extracts.seqs, before)]
        lines = extracts.before(before, counter)
    else:
        seqs = []
        lines = []
    more = [message for message in cut if message.seq not in seqs and message.seq > source.after]
    if more:
        lines = rank_rated([*lines, *weigh_notes(take_notes(more), counter)])
        seqs = sorted([*seqs, *(message.seq for message in more)])
    return NotesOnLeftOut(
        observations,
        summary,
        counter.known(summary.text) if summary else 0,
        lines,
        sum(each.tokens for each in lines),
        seqs,
        source.most,
    )
