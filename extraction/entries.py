"""The extractor of entries: what a turn holds that could help in a later conversation, each with its evidence."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

from layerlore.extraction.heard import check_same, earlier, heard, locked
from layerlore.extraction.kind import Claim, Kind, Material, Refused, Stale, Thinker
from layerlore.extraction.transcript import transcript
from layerlore.extraction.wording import worded
from layerlore.memory import entries as keeping
from layerlore.memory.candidates import Query
from layerlore.memory.engine import Engine
from layerlore.memory.entries import Embedded
from layerlore.memory.entry_rules import EntryRules
from layerlore.memory.evidence import ROLES_OF, Label, Said, Span, find, told_by_others
from layerlore.memory.memory_block import fitting
from layerlore.memory.search_text import query_words
from layerlore.memory.trust import Trust, lowest, speaks, trust_of
from layerlore.prompts import render
from layerlore.storage import entries, events, messages_behind, resources, thread_cursors, threads, working_memory
from layerlore.storage.entries import NewEntry, Source
from layerlore.storage.events import NewEvent
from layerlore.storage.records import Json, Message, Origin, Scope, Thread
from layerlore.storage.transaction import Tx

MOST_MESSAGES = 100
KNOWN = 12
PROFILE_CHARS = 4_000
_BESIDE = frozenset({"known", "earlier"})

LABELS: tuple[Label, ...] = tuple(label for label in get_args(Label) if label != "caller")
SCHEMA: Json = {
    "type": "object",
    "additionalProperties": False,
    "required": ["entries"],
    "properties": {
        "entries": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["content", "source", "evidence"],  # n8n's; what corrects nothing need not say so
                "properties": {
                    "content": {"type": "string"},
                    "source": {"type": "string", "enum": list(LABELS)},
                    "evidence": {"type": "string"},
                    "corrects": {"type": ["string", "null"]},
                },
            },
        }
    },
}


@dataclass(frozen=True, slots=True)
class Basis:
    """The cursor, where reading began (what is between says nothing), the spoken messages behind it that were given, and their texts as they were given; the ids of the
    entries that were named as known. ``more``: there are others behind them. ``again``: an answer was refused before."""

    began: int
    read_from: int
    ended: int
    messages: tuple[Message, ...]
    said: tuple[Said, ...]
    known: frozenset[str]
    rules: EntryRules
    more: bool
    again: bool


@dataclass(frozen=True, slots=True)
class Candidate:
    """An entry as it was answered, its evidence found."""

    content: str
    label: Label
    span: Span
    corrects: str | None


@dataclass(frozen=True, slots=True)
class Extracted:
    """What can be kept of an answer, and why the rest cannot."""

    candidates: tuple[Candidate, ...]
    refused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ready:
    """An entry that is ready to be kept: masked, with an id and its vectors."""

    candidate: Candidate
    entry_id: str
    embedded: Embedded | None


@dataclass(frozen=True, slots=True)
class Readied:
    entries: tuple[Ready, ...]
    now: int


class EntryExtractor:
    """Kind ``entries``."""

    name: Kind = "entries"
    source = "entries"

    async def prepare(self, tx: Tx, claim: Claim, engine: Engine) -> Material | None:
        """What was spoken behind the cursor, up to the claim's seq, and what is known of it already; None when nothing
        was said there."""
        thread = await threads.find_uid(tx, claim.scope, claim.thread_uid)
        if thread is None:
            return None
        began = await thread_cursors.read(tx, claim.scope, claim.thread_uid, "entries_seq")

        async def read(after: int) -> list[Message]:
            return await messages_behind.spoken(
                tx, claim.scope, thread, after=after, upto=claim.seq, most=MOST_MESSAGES
            )

        found = await heard(read, engine, began, most=MOST_MESSAGES)
        if found is None:
            return None
        before = await earlier(tx, engine, claim.scope, thread, found.messages[0].seq)
        revisions = {message.seq: message.revision for message in found.messages}
        roles = {message.seq: speaks(message) for message in found.messages}
        said = [Said(line.seq, revisions[line.seq], roles[line.seq], line.text) for line in found.lines]
        known = await _known(tx, engine, claim, said)
        profile = await working_memory.current(tx, claim.scope, "")
        content: Json = {
            "known": {
                "profile": profile.content[:PROFILE_CHARS] if profile else "",
                "entries": [{"id": entry.id, "content": entry.parts[0]["text"]} for entry in known],
            },
            "earlier": transcript(before),
            "messages": transcript(found.lines),
        }
        basis = Basis(
            began,
            found.read_from,
            found.messages[-1].seq if found.more else claim.seq,
            found.messages,
            tuple(said),
            frozenset(entry.id for entry in known),
            engine.entries,
            found.more,
            claim.attempts > 0,
        )
        prompt = render("extract_entries", most=engine.entries.max_entries_per_turn)
        return Material(prompt.text, json.dumps(content, ensure_ascii=False), SCHEMA, prompt.version, basis, _BESIDE)

    def read(self, answer: Json, material: Material) -> Extracted:
        """The entries whose evidence stands, in n8n's order: evidence, white space, length, empty ones, repetitions, the
        most of a turn. Raises Refused for another shape; and once, when no evidence of any stands, so that whoever
        answered can quote better."""
        basis: Basis = material.basis
        candidates: dict[str, Candidate] = {}
        refused: list[str] = []
        for number, given in enumerate(_shaped(answer)):
            made = _candidate(given, f"entries[{number}]", basis)
            if isinstance(made, str):
                refused.append(made)
            elif made.content:
                candidates.setdefault(entries.content_hash(made.content), made)
        if refused and not candidates and not basis.again:
            raise Refused("; ".join(refused))
        most = basis.rules.max_entries_per_turn
        kept = tuple(candidates.values())
        refused += [f"{len(kept) - most} more than {most} entries are not kept"] if len(kept) > most else []
        return Extracted(kept[:most], tuple(refused))

    async def ready(self, engine: Engine, material: Material, result: Extracted) -> Readied:
        """Masked, embedded in one batch, and without what another entry of the turn says."""
        masked = [replace(each, content=engine.derived_text(each.content)) for each in result.candidates]
        vectors = await keeping.embedded(engine, [each.content for each in masked])
        similarity = engine.entries.dedupe_similarity
        kept: list[Ready] = []
        for candidate, embedded in zip(masked, vectors, strict=True):
            if not any(_repeats(candidate, embedded, other, similarity) for other in kept):
                kept.append(Ready(candidate, engine.new_id(), embedded))
        return Readied(tuple(kept), engine.now())

    async def commit(
        self, tx: Tx, claim: Claim, engine: Engine, material: Material, result: Readied, by: Thinker
    ) -> int | None:
        """Keep what is not known yet, and move the cursor. Raises Stale when messages or the cursor are not as they
        were."""
        basis: Basis = material.basis
        thread = await _unchanged(tx, claim, basis)
        await resources.hold(tx, claim.scope)
        changed: list[str] = []
        for each in result.entries:
            kept = await _keep(tx, engine, claim.scope, thread, basis, each, by, result.now)
            if kept.outcome in ("kept", "refreshed"):
                changed += [kept.entry_id, *kept.superseded]
        if changed:
            happened = NewEvent("entries_changed", {"ids": changed})
            origin = Origin(claim.kind, "")
            await events.record_of_resource(tx, claim.scope, happened, origin=origin, now=result.now)
        await thread_cursors.move(tx, claim.scope, claim.thread_uid, "entries_seq", basis.ended)
        return basis.ended if basis.more else None

    def digested(self, material: Material) -> Json | None:
        """Entries wait for a model."""
        return None


async def _known(tx: Tx, engine: Engine, claim: Claim, said: Sequence[Said]) -> list[Message]:
    """The entries that have most of the words that the user says."""
    words = query_words("\n".join(each.text for each in said if each.role == "user"))
    if not words:
        return []
    # What is held back from a reader as hardly relevant may still be what a new entry repeats.
    rules = replace(engine.recall, floor=0, lexical_floor=0, tail=0)
    now = claim.lease_until  # about now, and the same if it is read again
    return await fitting(tx, claim.scope, Query(tuple(words)), None, rules, most=KNOWN, now=now)


def _shaped(answer: Json) -> list[Mapping[str, Any]]:
    given = answer.get("entries") if isinstance(answer, dict) else None
    if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
        raise Refused('the answer must be {"entries": [...]}, a list of objects, which may be empty')
    for number, each in enumerate(given):
        for name in ("content", "source", "evidence"):
            if not isinstance(each.get(name), str):
                raise Refused(f"entries[{number}].{name}: must be a string")
        if each["source"] not in LABELS:
            raise Refused(f"entries[{number}].source: must be one of {', '.join(LABELS)}")
    return given


def _candidate(given: Mapping[str, Any], where: str, basis: Basis) -> Candidate | str:
    """An entry with its evidence, or why it is not kept."""
    label: Label = given["source"]
    span = find(given["evidence"], label, basis.said)
    if span is None:
        whose = " or ".join(ROLES_OF[label])
        return (
            f'{where}.evidence: stands word for word in none of the {whose} messages in "messages": quote one of them '
            "exactly"
        )
    content = keeping.normalized(worded(given["content"]))
    content = content[: basis.rules.max_entry_length].strip()
    if label == "user_assertion" and _is_retold(content, basis.said):
        label = "verified_assistant_finding"
    corrects = given.get("corrects")
    return Candidate(content, label, span, corrects if corrects in basis.known else None)


def _is_retold(content: str, said: Sequence[Said]) -> bool:
    """Whether what is put down to the user is what others said."""
    own = [each.text for each in said if each.role == "user"]
    return told_by_others(content, own, [each.text for each in said if each.role != "user"])


def _repeats(candidate: Candidate, embedded: Embedded | None, other: Ready, similarity: float) -> bool:
    if embedded is None or other.embedded is None or keeping.tells_apart(candidate.content, other.candidate.content):
        return False
    return keeping.says_the_same(embedded, other.embedded, similarity)


async def _unchanged(tx: Tx, claim: Claim, basis: Basis) -> Thread:
    """The thread, locked, if the cursor and the messages behind it are as they were given."""
    thread = await locked(tx, claim)
    if await thread_cursors.read(tx, claim.scope, claim.thread_uid, "entries_seq") != basis.began:
        raise Stale("others looked through these messages meanwhile")
    last = basis.messages[-1].seq
    now = await messages_behind.spoken(
        tx, claim.scope, thread, after=basis.read_from, upto=last, most=len(basis.messages) + 1
    )
    check_same(now, basis.messages)
    return thread


async def _keep(
    tx: Tx, engine: Engine, scope: Scope, thread: Thread, basis: Basis, each: Ready, by: Thinker, now: int
) -> keeping.Kept:
    candidate, span = each.candidate, each.candidate.span
    message = next(message for message in basis.messages if message.seq == span.seq)
    trust: Trust = trust_of(message)
    if candidate.label == "verified_assistant_finding":
        trust = lowest([trust, "assistant"])
    new = NewEntry(
        each.entry_id,
        candidate.content,
        "correction" if candidate.corrects else None,
        "extracted",
        trust,
        by.model,
        by.prompt,
        message.said_at,
        (Source(thread.thread_uid, span.seq, span.revision, span.starts, span.ends, candidate.label),),
    )
    return await keeping.keep(
        tx,
        scope,
        new,
        each.embedded,
        similarity=engine.entries.dedupe_similarity,
        said_at=message.created_at,
        corrects=[candidate.corrects] if candidate.corrects else (),
        now=now,
        search_text=engine.search_text_of,
    )
