"""The observer: a model takes notes on the messages since the observer's cursor, ahead of when the notes are shown."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict

from layerlore.extraction.kinds.documents import clean_line, find_repetition
from layerlore.extraction.kinds.kind import (
    AnswerRefused,
    Author,
    Claim,
    JobMaterial,
    Kind,
    Material,
    ModelAnswer,
    Stale,
    TranscriptLine,
    TranscriptRow,
    check_unchanged,
    lock_thread,
    read_lines,
)
from layerlore.memory.engine.engine import Engine
from layerlore.memory.entries.evidence import rests_on_others
from layerlore.memory.observations.observation_text import activate_observations, render_line
from layerlore.memory.parts.tokens import TokenCounter
from layerlore.memory.rules.ages import iso
from layerlore.memory.settings.note_settings import ObservationRules
from layerlore.memory.text.trust import TRUSTS, Trust, find_lowest_trust, find_trust
from layerlore.prompts import render
from layerlore.storage.core import linear_re
from layerlore.storage.core.records import Json, Message, Origin, Scope, Thread
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import observations
from layerlore.storage.derived.observations import MARKERS, Cursor, Marker, NewObservation, Observation
from layerlore.storage.messages import message_pages
from layerlore.storage.threads import events, threads
from layerlore.storage.threads.events import NewEvent

MOST_NOTES = 400
MOST_DETAILS = 20
NOTE_CHARS = 1000
HINT_CHARS = 500
# Notes may always have this many tokens, however short the transcript is.
_FEWEST_TOKENS = 400

_DATE = linear_re.compile(r"\d{4}-\d{2}(-\d{2})?")
_OR_NULL = {"type": ["string", "null"]}

SCHEMA: Json = {
    "type": "object",
    "additionalProperties": False,
    "required": ["observations", "nothing_to_note", "current_task", "next_step"],
    "properties": {
        "observations": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["marker", "text", "from_seq", "to_seq", "refers_to", "details"],
                "properties": {
                    "marker": {"type": "string", "enum": list(MARKERS)},
                    "text": {"type": "string"},
                    "from_seq": {"type": "integer"},
                    "to_seq": {"type": "integer"},
                    "refers_to": _OR_NULL,
                    "details": {"type": "array", "items": {"type": "string"}},
                },
            },
        },
        "nothing_to_note": {"type": "boolean"},
        "current_task": _OR_NULL,
        "next_step": _OR_NULL,
    },
}


@dataclass(frozen=True, slots=True)
class ObserverNote:
    """One observation of an answer. Its seqs lie within the messages that were to be noted."""

    marker: Marker
    text: str
    from_seq: int
    to_seq: int
    refers_to: str | None
    details: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ObserverAnswer:
    """An observer's answer after it was checked. No notes: the observer found nothing to note."""

    notes: tuple[ObserverNote, ...]
    current_task: str | None
    next_step: str | None


@dataclass(frozen=True, slots=True)
class ObserverResult:
    """The notes as they are stored, and the time (ms since 1970)."""

    made: tuple[NewObservation, ...]
    current_task: str | None
    next_step: str | None
    now: int


@dataclass(frozen=True, slots=True)
class NoteSources:
    """The messages that notes are made from, in order: the seq, the trust and the time of each.

    ``texts``: the text of each message that a model gets, by seq, if a model names the sources of its notes.
    """

    seqs: tuple[int, ...]
    trusts: Mapping[int, Trust]
    said_at: Mapping[int, int]
    texts: Mapping[int, str] = field(default_factory=dict)

    def within(self, first: int, last: int) -> list[int]:
        return [seq for seq in self.seqs if first <= seq <= last] or list(self.seqs)

    def trust(self, text: str, seqs: Sequence[int]) -> Trust:
        """The lowest trust of these messages, and of less trusted ones whose words the note repeats."""
        found = find_lowest_trust(self.trusts[seq] for seq in seqs)
        less = [seq for seq in self.texts if TRUSTS.index(self.trusts[seq]) < TRUSTS.index(found)]
        own = [self.texts[seq] for seq in seqs if seq in self.texts]
        if not less or not rests_on_others(text, own, [self.texts[seq] for seq in less]):
            return found
        return find_lowest_trust(self.trusts[seq] for seq in less)


def read_notes(answer: Json, sources: NoteSources) -> ObserverAnswer:
    """Check an answer and return its notes. Raises AnswerRefused."""
    listed = answer.get("observations", [])
    if not isinstance(listed, list):
        raise AnswerRefused("observations: must be a list of objects with marker, text, from_seq, to_seq")
    if len(listed) > MOST_NOTES:
        raise AnswerRefused(
            f"observations: there are {len(listed)}; at most {MOST_NOTES} are allowed: group what belongs"
        )
    read = [_read_note(each, f"observations[{place}]", sources) for place, each in enumerate(listed)]
    notes = [note for note in read if note is not None]
    # An empty answer has to say so, or a lazy one would pass for a quiet conversation.
    if not notes and answer.get("nothing_to_note") is not True:
        raise AnswerRefused(
            "observations: there is none; if nothing is worth a note, say so with nothing_to_note = true"
        )
    return ObserverAnswer(tuple(notes), _hint(answer, "current_task"), _hint(answer, "next_step"))


def check_repetition(noted: ObserverAnswer) -> ObserverAnswer:
    """Return the answer unchanged. Raises AnswerRefused for notes that say the same again and again."""
    repeated = find_repetition([text for note in noted.notes for text in (note.text, *note.details)])
    if repeated is not None:
        raise AnswerRefused(f"observations: {repeated}; note each thing once")
    return noted


def _read_note(raw: Any, where: str, sources: NoteSources) -> ObserverNote | None:
    """None for a note without text."""
    if not isinstance(raw, dict):
        raise AnswerRefused(f"{where}: must be an object with marker, text, from_seq, to_seq")
    # Models write markers with capitals and spaces.
    marker = next((each for each in MARKERS if each == str(raw.get("marker", "")).strip().lower()), None)
    if marker is None:
        raise AnswerRefused(f"{where}.marker: must be one of {', '.join(MARKERS)}")
    text, details = raw.get("text"), raw.get("details") or []
    if not isinstance(text, str) or not isinstance(details, list) or not all(isinstance(each, str) for each in details):
        raise AnswerRefused(f"{where}: text must be a string, and details a list of strings")
    text = clean_line(text, NOTE_CHARS)
    if not text:
        return None
    first, last = _range(raw.get("from_seq"), raw.get("to_seq"), sources.seqs)
    # A note is worth more than its date, so an unreadable date is left out.
    refers_to = raw.get("refers_to")
    if isinstance(refers_to, str):
        dated = _DATE.fullmatch(refers_to.strip())
    else:
        dated = None
    lines = tuple(filter(None, (clean_line(each, NOTE_CHARS) for each in details[:MOST_DETAILS])))
    return ObserverNote(marker, text, first, last, dated[0] if dated else None, lines)


def _range(first: Any, last: Any, seqs: Sequence[int]) -> tuple[int, int]:
    """The seqs of the answer if they lie within the messages, else all of them, which lowers the note's trust to theirs."""
    if seqs:
        whole = (seqs[0], seqs[-1])
    else:
        whole = (0, 0)
    if not all(isinstance(each, int) and not isinstance(each, bool) for each in (first, last)):
        return whole
    if whole[0] <= first <= last <= whole[1]:
        return (first, last)
    return whole


def _hint(answer: Json, name: str) -> str | None:
    hint = answer.get(name)
    if isinstance(hint, str):
        return clean_line(hint, HINT_CHARS) or None
    return None


def enrich_notes(
    engine: Engine, noted: ObserverAnswer, sources: NoteSources, *, batch: int, transcript_tokens: int
) -> ObserverResult:
    """Add tokens, trust and times to the notes. Raises AnswerRefused for notes that are longer than the messages."""
    made: list[NewObservation] = []
    # Some models repeat a note within one answer.
    for note in dict.fromkeys(noted.notes):
        seqs = sources.within(note.from_seq, note.to_seq)
        row = NewObservation(
            marker=note.marker,
            text=engine.derived_text(note.text),
            said_at=sources.said_at[seqs[0]],
            refers_to=note.refers_to,
            from_seq=note.from_seq,
            to_seq=note.to_seq,
            tokens=0,
            trust=sources.trust("\n".join([note.text, *note.details]), seqs),
            batch=batch,
        )
        parent = len(made)
        made.append(count_tokens(engine, row))
        for detail in note.details:
            made.append(
                count_tokens(engine, replace(row, text=engine.derived_text(detail), refers_to=None, parent=parent))
            )
    tokens = sum(each.tokens for each in made)
    most = max(_FEWEST_TOKENS, transcript_tokens)
    if tokens > most:
        raise AnswerRefused(
            f"observations: {tokens} tokens, more than the messages have ({most}); notes are to be shorter"
        )
    task, step = (engine.derived_text(hint) if hint else None for hint in (noted.current_task, noted.next_step))
    return ObserverResult(tuple(made), task, step, engine.now())


def count_tokens(engine: Engine, row: NewObservation) -> NewObservation:
    """The row with its tokens: those of the line that shows it."""
    shown = render_line(row.marker, row.said_at, row.text, row.refers_to, child=row.parent is not None)
    return replace(row, tokens=engine.tokens.text(shown + "\n"))


# The most rows that one job reads.
MOST_MESSAGES = 500
# The newest notes, for the observer to continue from: n8n's and Mastra's numbers.
_KNOWN_ROWS, _KNOWN_TOKENS = 20, 2000
# Around each line: its seq, role and time.
_LINE_TOKENS = 30
_BESIDE = frozenset({"already_noted", "current_task", "next_step"})
# A call waits for its result, to be noted together with it, while at most this many messages follow it.
_WAITING = 4


@dataclass(frozen=True, slots=True)
class ObserverInput:
    """The messages from one cursor to another, and how many tokens a model reads of them.

    ``more``: enough messages follow to go on at once.
    """

    began: Cursor
    ended: Cursor
    messages: tuple[Message, ...]
    lines: tuple[TranscriptRow, ...]
    sources: NoteSources
    tokens: int
    more: bool


class Observer:
    """Kind ``observe``."""

    name: Kind = "observe"

    async def prepare(self, tx: Tx, claim: Claim, engine: Engine) -> Material | None:
        """The messages up to the claim's seq, as many as one call takes; None when they are too few to note."""
        rules = engine.observation
        thread = await threads.find_uid(tx, claim.scope, claim.thread_uid)
        if thread is None:
            return None
        began = Cursor(thread.buffered_seq, thread.buffered_chars)
        found = await message_pages.read_between(
            tx, claim.scope, thread, after=began.seq, upto=claim.seq, most=MOST_MESSAGES
        )
        full = len(found) == MOST_MESSAGES
        # The rest of a message of which a part is noted must follow, however short it is.
        enough = full or began.chars or sum(message.tokens for message in found) >= rules.step // 2
        if not found or not enough:
            return None
        inputs = _take_batch(engine, rules, began, found, full)
        known = await observations.newest(
            tx, claim.scope, claim.thread_uid, upto=max(inputs.ended.seq, began.seq + 1), most=_KNOWN_ROWS
        )
        content: JobMaterial = {
            "already_noted": _known(known, engine.tokens),
            "current_task": thread.current_task,
            "next_step": thread.next_step,
            "messages": list(inputs.lines),
        }
        prompt = render("observe")
        text = json.dumps(content, ensure_ascii=False)
        return Material(prompt.text, text, SCHEMA, prompt.version, inputs, _BESIDE, silent=not inputs.lines)

    def read(self, answer: ModelAnswer, material: Material) -> ObserverAnswer:
        return check_repetition(read_notes(answer, material.inputs.sources))

    async def enrich(self, engine: Engine, material: Material, result: ObserverAnswer) -> ObserverResult:
        inputs: ObserverInput = material.inputs
        batch = inputs.sources.seqs[-1]
        return enrich_notes(engine, result, inputs.sources, batch=batch, transcript_tokens=inputs.tokens)

    async def commit(
        self, tx: Tx, claim: Claim, engine: Engine, material: Material, result: ObserverResult, by: Author
    ) -> int | None:
        """Store the notes ahead, and show them once the thread is past its threshold. Raises Stale when the messages or
        the cursor have changed."""
        inputs: ObserverInput = material.inputs
        thread = await lock_unchanged(tx, claim, inputs.began, inputs.messages)
        await store_notes(tx, claim.scope, thread, inputs.ended, result, by)
        await publish_notes(tx, engine, claim, thread, inputs.messages, result)
        if inputs.more:
            return inputs.ended.seq
        return None

    def digest(self, material: Material) -> ModelAnswer | None:
        """Without a model only silence is noted; extracts stand in later (kind ``digest``)."""
        if material.inputs.lines:
            return None
        content = json.loads(material.content)
        return {**NOTHING, "current_task": content["current_task"], "next_step": content["next_step"]}


NOTHING: ModelAnswer = {"observations": [], "nothing_to_note": True, "current_task": None, "next_step": None}


async def lock_unchanged(tx: Tx, claim: Claim, began: Cursor, messages: Sequence[Message]) -> Thread:
    """The thread, locked. Raises Stale if its cursor, or the messages that follow it, have changed since they were read."""
    thread = await lock_thread(tx, claim)
    if (thread.buffered_seq, thread.buffered_chars) != (began.seq, began.chars):
        raise Stale("others noted these messages meanwhile")
    now = await message_pages.read_between(
        tx, claim.scope, thread, after=began.seq, upto=messages[-1].seq, most=len(messages) + 1
    )
    check_unchanged(now, messages)
    return thread


async def store_notes(tx: Tx, scope: Scope, thread: Thread, ended: Cursor, result: ObserverResult, by: Author) -> None:
    """Add the notes to those made ahead, and move the observer's cursor."""
    await observations.add(
        tx,
        scope,
        thread.thread_uid,
        result.made,
        status="buffered",
        model=by.model,
        prompt=by.prompt,
        now=result.now,
    )
    await observations.buffer(tx, scope, thread, ended, current_task=result.current_task, next_step=result.next_step)


async def publish_notes(
    tx: Tx, engine: Engine, claim: Claim, thread: Thread, messages: Sequence[Message], result: ObserverResult
) -> None:
    """Record that these messages were noted, and activate the notes if the thread is past its threshold."""
    # Storing the notes changed the thread's counts, so the thread is read again.
    after = await threads.lock_uid(tx, claim.scope, claim.thread_uid)
    assert after is not None
    payload = {"from_seq": messages[0].seq, "to_seq": messages[-1].seq, "count": len(result.made)}
    happened = [NewEvent("observations_added", payload)]
    if after.raw_tokens >= engine.observation.message_tokens:
        _, activated = await activate_observations(tx, claim.scope, after, engine.observation, now=result.now)
        happened += activated
    await events.record(tx, claim.scope, thread, happened, origin=Origin(claim.kind, ""), now=result.now)


def collect_sources(messages: Sequence[Message], lines: Iterable[TranscriptRow] = ()) -> NoteSources:
    """The messages as sources of notes. ``lines``: what a model gets of them."""
    return NoteSources(
        tuple(message.seq for message in messages),
        {message.seq: find_trust(message) for message in messages},
        {message.seq: message.said_at for message in messages},
        {line["seq"]: line["text"] for line in lines},
    )


def _take_batch(
    engine: Engine, rules: ObservationRules, began: Cursor, found: Sequence[Message], full: bool
) -> ObserverInput:
    """As many of the messages as one call takes; of one that is too long by itself, its next part."""
    lines = {line.seq: line for line in read_lines(engine, found, tools=True)}
    first = found[0]
    if first.seq in lines:
        text = lines[first.seq].text
    else:
        text = ""
    rest = text[began.chars :]
    # A message that is too long for one call is noted part by part.
    if engine.tokens.text(rest) > rules.batch:
        return _take_part(engine, rules, began, first, lines[first.seq])
    taken: list[Message] = []
    tokens = 0
    for message in found:
        more = _line_tokens(engine.tokens, message, lines, rest if message is first else None)
        if taken and tokens + more > rules.batch:
            break
        taken.append(message)
        tokens += more
    # A call noted without its result would read as work that never ended.
    taken = _without_open_calls(taken)
    given: list[TranscriptRow] = []
    for message in taken:
        if message is first and began.chars and rest:
            given.append(_part(lines[first.seq], began.chars, len(text)))
        elif message.seq in lines:
            given.append(lines[message.seq].as_json())
    left = sum(message.tokens for message in found[len(taken) :])
    return ObserverInput(
        began=began,
        ended=Cursor(taken[-1].seq),
        messages=tuple(taken),
        lines=tuple(given),
        sources=collect_sources(taken, given),
        tokens=tokens,
        more=full or left >= max(1, rules.step // 2),
    )


def _take_part(
    engine: Engine, rules: ObservationRules, began: Cursor, message: Message, line: TranscriptLine
) -> ObserverInput:
    """The next part of a message that is too long for one call."""
    part = engine.tokens.cut(line.text[began.chars :], rules.batch)
    ended = Cursor(began.seq, began.chars + len(part))
    shown = _part(line, began.chars, ended.chars)
    return ObserverInput(
        began=began,
        ended=ended,
        messages=(message,),
        lines=(shown,),
        sources=collect_sources([message], [shown]),
        tokens=engine.tokens.text(part) + _LINE_TOKENS,
        more=True,
    )


def _line_tokens(counter: TokenCounter, message: Message, lines: Mapping[int, TranscriptLine], rest: str | None) -> int:
    """Tokens that a message takes in the transcript. ``rest``: the part of the message that the model gets, if not all
    of it."""
    text = rest
    if text is None:
        if message.seq in lines:
            text = lines[message.seq].text
        else:
            text = ""
    if text:
        return counter.text(text) + _LINE_TOKENS
    return 0


def _without_open_calls(messages: list[Message]) -> list[Message]:
    """The messages up to a call that still waits for its result."""
    results = {part["tool_call_id"] for each in messages for part in each.parts if part["type"] == "tool_result"}
    for place, message in enumerate(messages):
        waits = any(part["type"] == "tool_call" and part["id"] not in results for part in message.parts)
        # The first message always goes along, or a call without a result would stop the notes.
        if waits and place and len(messages) - place <= _WAITING:
            return messages[:place]
    return messages


def _part(line: TranscriptLine, starts: int, ends: int) -> TranscriptRow:
    part = f"characters {starts + 1} to {ends} of {len(line.text)}"
    return {**line.as_json(), "part": part, "text": line.text[starts:ends]}


class KnownNote(TypedDict):
    marker: str
    said_at: str
    text: str


def _known(rows: Sequence[Observation], counter: TokenCounter) -> list[KnownNote]:
    """The newest notes within their tokens, oldest first."""
    kept: list[KnownNote] = []
    left = _KNOWN_TOKENS
    for row in reversed(rows):
        left -= counter.text(row.text)
        if left < 0:
            break
        kept.append({"marker": row.marker, "said_at": iso(row.said_at), "text": row.text})
    return kept[::-1]
