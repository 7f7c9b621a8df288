"""Text that a host adds to a conversation: at each prompt, and once when a connection opens."""

import hashlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from layerlore.memory.context.context_blocks import EntryWords, ShownBlock, count_cost, read_entry, repeats_entry
from layerlore.memory.context.material import find_thread, find_with_person, make_pieces, share_blocks
from layerlore.memory.engine.engine import Engine
from layerlore.memory.recall.candidates import cut_question
from layerlore.memory.recall.evidence_budget import Evidence, pack_lines, rank_evidence
from layerlore.memory.recall.hit_lines import MemoryLine, render_lines
from layerlore.memory.recall.memory_block import (
    PersonMemory,
    RecalledMemory,
    prepare_memory,
    read_person,
    read_subject,
    render_entry,
    wrap_memory_block,
)
from layerlore.memory.recall.newer_lines import mark_newer
from layerlore.memory.recall.recall import PreparedRecall
from layerlore.memory.recall.recall_text import drop_repeated, render_doubts
from layerlore.memory.work.plan_rules import is_open
from layerlore.storage.core.records import Message, Scope
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import working_memory
from layerlore.storage.work import plans

# A host did not ask, so only the best messages are shown: at most 8, each at least 0.3 times as likely as the best.
_MOST_MESSAGES = 8
_LEAST_SHARE = 0.3
# The fewest tokens that stay for recalled memories.
_MEMORY_SHARE = 0.3
# Entries take at most this share of the room where there are lines, too.
_ENTRY_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Injection:
    """A text for the model, its tokens, and the marks of its lines, for the next one. The text is "" if nothing is worth
    showing."""

    text: str = ""
    tokens: int = 0
    marks: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Lines:
    """Lines of the ``<memory>`` block: of entries, and of messages. Each with its mark."""

    entries: Sequence[tuple[str, str]]
    messages: Sequence[tuple[str, MemoryLine]]
    doubts: Sequence[str]
    sought: Collection[str]

    def render(self) -> str:
        said = render_lines(mark_newer([line for _, line in self.messages], self.sought))
        if said:
            doubts = self.doubts
        else:
            doubts = ()
        return wrap_memory_block([*(text for _, text in self.entries), *doubts, *said])

    def without_last(self) -> "_Lines":
        if self.messages:
            return replace(self, messages=self.messages[:-1])
        return replace(self, entries=self.entries[:-1])


async def make_injection(
    engine: Engine,
    scope: Scope,
    thread_id: str,
    question: str,
    *,
    max_tokens: int,
    shown: Collection[str] = (),
    gone: int = 0,
) -> Injection:
    """The memory that a conversation should be shown now.

    ``question``: the user's message; "" at the start. ``shown``: the marks of the lines shown before. ``gone``: the host no
    longer shows its model the conversation's own messages up to this seq, so that recall may show them."""
    questions = cut_question(question, engine.limits.query_bytes)
    prepared = await prepare_memory(engine, scope, questions, asking=thread_id)
    person = await read_person(engine, scope, questions, await read_subject(engine, scope, thread_id))
    blocks, recalled = await engine.database.read(_gather, scope, engine, thread_id, prepared, person, max_tokens, gone)
    kept: list[tuple[str, frozenset[str]]] = []
    for block in blocks:
        text = _drop_shown(block.text, shown)
        marks = _mark_lines(text)
        if marks:
            kept.append((text, marks))
    new = _find_new(recalled, thread_id, shown, gone)
    return _fit(engine, kept, new, max_tokens)


async def _gather(
    tx: Tx,
    scope: Scope,
    engine: Engine,
    thread_id: str,
    prepared: PreparedRecall | None,
    person: PersonMemory | None,
    max_tokens: int,
    gone: int,
) -> tuple[list[ShownBlock], RecalledMemory]:
    """The blocks about the user and open work, cut to their share; and what is recalled."""
    thread = await find_thread(tx, scope, thread_id)
    pieces = await make_pieces(tx, engine, scope, thread, person, now=engine.now(), seen_after=gone)
    recalled = await find_with_person(tx, engine, scope, prepared, person, thread)
    needs: dict[str, int] = {each.name: each.tokens for each in pieces}
    # The same whatever is recalled: a block that is cut elsewhere would show the line of the cut again.
    given = share_blocks(needs, max_tokens, int(max_tokens * _MEMORY_SHARE))
    return [each.within(given.get(each.name, 0), engine.tokens) for each in pieces], recalled


def _find_new(recalled: RecalledMemory, thread_id: str, shown: Collection[str], gone: int) -> RecalledMemory:
    """The best of what is recalled, without lines that were shown before or that the conversation shows itself."""
    if recalled.hits:
        least = recalled.hits[0].score * _LEAST_SHARE
    else:
        least = 0.0
    best = [hit for hit in recalled.hits if hit.score >= least][:_MOST_MESSAGES]
    hits = [
        hit for hit in best if _mark_message(hit.message) not in shown and not _is_shown(hit.message, thread_id, gone)
    ]
    kept = [entry for entry in recalled.entries if _mark(entry.id) not in shown]
    return replace(recalled, hits=tuple(drop_repeated(hits)), entries=tuple(kept))


def _is_shown(message: Message, thread_id: str, gone: int) -> bool:
    """Whether the host shows its model the message as one of the conversation's own."""
    return message.whose != "you" and message.thread_id == thread_id and message.seq > gone


def _fit(
    engine: Engine, kept: Sequence[tuple[str, frozenset[str]]], recalled: RecalledMemory, max_tokens: int
) -> Injection:
    """As much as the tokens hold."""
    counter = engine.tokens
    room = max_tokens - sum(count_cost(counter, text) for text, _ in kept)
    lines = _choose_lines(engine, recalled, room)
    blocks = list(kept)
    while True:
        text = "\n".join(filter(None, [*(block for block, _ in blocks), lines.render()]))
        # Joined blocks may count otherwise than each alone, so the whole text is counted.
        tokens = counter.text(text)
        if tokens <= max_tokens:
            break
        if lines.messages or lines.entries:
            lines = lines.without_last()
        else:
            blocks.pop()
    marks = [mark for mark, _ in (*lines.entries, *lines.messages)]
    return Injection(text, tokens, frozenset(marks).union(*(marks for _, marks in blocks)))


def _choose_lines(engine: Engine, recalled: RecalledMemory, room: int) -> _Lines:
    counter = engine.tokens
    doubts = render_doubts(recalled.confidence, recalled.silent)
    room -= count_cost(counter, wrap_memory_block(["-", *render_doubts("unsure", recalled.silent)]))
    entries: list[tuple[str, str]] = []
    said: list[EntryWords] = []
    if recalled.hits:
        left = int(room * _ENTRY_SHARE)
    else:
        left = room
    for entry in recalled.entries:
        text = render_entry(entry, engine.now())
        left -= counter.known(f"{text}\n")
        if left < 0:
            break
        entries.append((_mark(entry.id), text))
        said.append(read_entry(entry))
    room -= sum(counter.known(f"{text}\n") for _, text in entries)
    found = [
        Evidence(hit.texts, recalled.sought, hit.chunk) for hit in recalled.hits if not repeats_entry(hit.texts, said)
    ]
    ranked = rank_evidence(len(found), lambda at: found[at].texts.tokens_of_line)
    # The few hits that come unasked are shown whole.
    packed = pack_lines(((at, found[at]) for at in ranked), counter, max(room, 0), short_share=0.0).lines
    return _Lines(entries, [(_mark_message(line.message), line) for line in packed], doubts, recalled.sought)


def _drop_shown(block: str, shown: Collection[str]) -> str:
    """The block without the lines that were already shown; "" if no other is left."""
    lines = block.split("\n")
    values = set(_find_value(lines))
    # Tags and descriptions stay: only the lines of the value can be known already.
    kept = [at for at in range(len(lines)) if at not in values or _mark(lines[at]) not in shown]
    if any(at in values and lines[at].strip() for at in kept):
        return "\n".join(lines[at] for at in kept)
    return ""


def _mark_lines(block: str) -> frozenset[str]:
    lines = block.split("\n")
    return frozenset(_mark(lines[at]) for at in _find_value(lines) if lines[at].strip())


def _find_value(lines: Sequence[str]) -> Iterator[int]:
    """The places of a block's own lines, between its tags."""
    if "<value>" in lines:
        # The last two lines close the value and the block.
        return iter(range(lines.index("<value>") + 1, len(lines) - 2))
    return iter(())


def _mark_message(message: Message) -> str:
    # Marks from before a project was in force stay good for the project's own messages.
    if message.whose == "you":
        return _mark(f"you {message.thread_id}#{message.seq}")
    return mark_place(message.thread_id, message.seq)


def mark_place(thread_id: str, seq: int) -> str:
    """The mark of a message of the scope itself, as ``shown`` takes it."""
    return _mark(f"{thread_id}#{seq}")


def _mark(what: str) -> str:
    # A host keeps the marks between prompts: eight bytes are short, and disclose no text.
    return hashlib.blake2b(what.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


OPENING_TOKENS = 250
"""The most that an opening takes."""


async def make_opening(engine: Engine, scope: Scope, thread_id: str, max_tokens: int) -> str:
    """The profile, the thread's open plan and the work that is open, as the blocks of a context, cut to ``max_tokens``; "" if there
    is nothing of these."""
    person = None
    if scope.person:
        person = PersonMemory(await engine.database.read(working_memory.read_newest, scope.of_person, None))
    return await engine.database.read(_gather_opening, scope, engine, thread_id, person, max_tokens)


async def _gather_opening(
    tx: Tx, scope: Scope, engine: Engine, thread_id: str, person: PersonMemory | None, max_tokens: int
) -> str:
    thread = await find_thread(tx, scope, thread_id)
    pieces = await make_pieces(tx, engine, scope, thread, person, now=engine.now())
    if thread:
        kept = await plans.read_newest(tx, scope, thread)
    else:
        kept = None
    # A context shows a plan that is done, too: what comes unasked is what is still open.
    if kept is not None and is_open(kept.plan):
        open_plan = ["plan"]
    else:
        open_plan = []
    chosen = [piece for piece in pieces if piece.name in ("user-profile", *open_plan, "open-work")]
    shares = share_blocks({piece.name: piece.tokens for piece in chosen}, max_tokens, 0)
    shown = [piece.within(shares.get(piece.name, 0), engine.tokens) for piece in chosen]
    return "\n".join(block.text for block in shown if block.text)
