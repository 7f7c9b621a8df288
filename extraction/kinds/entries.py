"""The extractor of entries: statements of a turn that could help in a later conversation, each with its evidence."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import anyio

from layerlore.extraction.kinds.documents import clean_text
from layerlore.extraction.kinds.kind import (
    AnswerRefused,
    Author,
    Claim,
    JobEnd,
    JobMaterial,
    JsonSchema,
    Kind,
    Material,
    ModelAnswer,
    TurnPart,
    lines_as_json,
    lock_spoken,
    read_earlier,
    read_new,
)
from layerlore.memory.engine.engine import Engine
from layerlore.memory.entries import entries as keeping
from layerlore.memory.entries.entries import EmbeddedText
from layerlore.memory.entries.evidence import EvidenceText, Label
from layerlore.memory.entries.proof import EvidenceRefused, Proof, is_retold, link_replies, list_quotations, prove
from layerlore.memory.language.search_words import find_query_words
from layerlore.memory.language.statements import says_same
from layerlore.memory.recall.candidates import RecallQuery, match_words
from layerlore.memory.recall.recall import PreparedRecall, RecallRequest, find_current_hits
from layerlore.memory.settings.note_settings import EntryRules
from layerlore.memory.text.trust import Trust, find_evidence_role, find_lowest_trust, find_trust
from layerlore.prompts import render
from layerlore.storage.core import scopes
from layerlore.storage.core.records import Message, Origin, Scope, Thread
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import entries, working_memory
from layerlore.storage.derived.entries import EntrySource, NewEntry
from layerlore.storage.derived.subjects import subject_in
from layerlore.storage.messages import message_pages
from layerlore.storage.threads import events, threads
from layerlore.storage.threads.events import NewEvent

MOST_MESSAGES = 100
KNOWN = 8
PROFILE_CHARS = 4_000
_BESIDE = frozenset({"known", "earlier"})

Subject = Literal["case", "preference", "advice"]
"""The author's label of an entry. Only a case becomes an entry: preferences belong to the profile, and advice is not
stored."""
SUBJECTS: tuple[Subject, ...] = get_args(Subject)
_ELSEWHERE: Mapping[Subject, str] = {
    "preference": "a preference is kept in the profile, not as an entry",
    "advice": "general advice is not kept",
}
LABELS: tuple[Label, ...] = tuple(label for label in get_args(Label) if label != "caller")
SCHEMA: JsonSchema = {
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
                    "evidence": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
                    "about": {"type": ["string", "null"], "enum": [*SUBJECTS, None]},
                    "corrects": {"type": ["string", "null"]},
                },
            },
        }
    },
}


@dataclass(frozen=True, slots=True)
class EntriesInput:
    """The messages that entries are extracted from.

    ``began``: the cursor; ``read_from``: the seq after which reading began (messages in between say nothing);
    ``ended``: where the cursor moves to. ``said``: the texts of the messages as the model got them. ``known``: ids of
    the entries that the model got as known. ``more``: further messages follow.
    """

    began: int
    read_from: int
    ended: int
    messages: tuple[Message, ...]
    said: tuple[EvidenceText, ...]
    known: frozenset[str]
    rules: EntryRules
    more: bool


@dataclass(frozen=True, slots=True)
class Candidate:
    """An entry of an answer whose evidence was found. ``where``: its place in the answer."""

    content: str
    label: Label
    proof: Proof
    corrects: str | None
    where: str


@dataclass(frozen=True, slots=True)
class GivenEntry:
    """An entry of an answer. ``where``: its place in the answer; ``about``: the author's label of what it is."""

    where: str
    content: str
    quotations: tuple[str, ...]
    label: Label
    corrects: str | None
    about: Subject = "case"


@dataclass(frozen=True, slots=True)
class ExtractedEntries:
    """The entries of an answer, which are still to be proven."""

    given: tuple[GivenEntry, ...]


@dataclass(frozen=True, slots=True)
class EnrichedEntry:
    """An entry that can be stored: masked, with an id and its vectors."""

    candidate: Candidate
    entry_id: str
    embedded: EmbeddedText | None


@dataclass(frozen=True, slots=True)
class EntriesResult:
    """The entries to store, why others are not, which others say the same as one of them, and the time (ms since 1970).
    ``mendable``: which items the author can still mend, and why they are refused; ``stays_open``: the job waits for them."""

    entries: tuple[EnrichedEntry, ...]
    refused: tuple[str, ...]
    duplicates: tuple[str, ...]
    now: int
    mendable: tuple[str, ...] = ()
    stays_open: bool = False


class EntryExtractor:
    """Kind ``entries``."""

    name: Kind = "entries"

    async def prepare(self, tx: Tx, claim: Claim, engine: Engine) -> Material | None:
        """The messages after the cursor, up to the claim's seq, and the known entries about them; None when the messages
        say nothing, or the agent keeps no entries."""
        if not engine.entries.enabled:
            return None
        thread = await threads.find_uid(tx, claim.scope, claim.thread_uid)
        if thread is None:
            return None
        began = await threads.read_cursor(tx, claim.scope, claim.thread_uid, "entries_seq")

        async def read(after: int) -> list[Message]:
            return await message_pages.read_spoken(
                tx, claim.scope, thread, after=after, upto=claim.seq, most=MOST_MESSAGES
            )

        found = await read_new(read, engine, began, most=MOST_MESSAGES)
        if found is None:
            return None
        before = await read_earlier(tx, engine, claim.scope, thread, found.messages[0].seq)
        revisions = {message.seq: message.revision for message in found.messages}
        roles = {message.seq: find_evidence_role(message) for message in found.messages}
        spoken = [EvidenceText(line.seq, 0, line.role, line.text) for line in before] + [
            EvidenceText(line.seq, revisions[line.seq], roles[line.seq], line.text) for line in found.lines
        ]
        # The lines before them show what a short reply such as "yes" answers.
        said = [each for each in link_replies(spoken) if each.seq in revisions]
        known = await _known(tx, engine, claim, said, subject_in(thread.metadata))
        profile = await working_memory.read_current(tx, claim.scope, "")
        content: JobMaterial = {
            "known": {
                "profile": profile.content[:PROFILE_CHARS] if profile else "",
                "entries": [{"id": entry.id, "content": entry.parts[0]["text"]} for entry in known],
            },
            "earlier": lines_as_json(before),
            "messages": lines_as_json(found.lines),
        }
        inputs = EntriesInput(
            began,
            found.read_from,
            found.messages[-1].seq if found.more else claim.seq,
            found.messages,
            tuple(said),
            frozenset(entry.id for entry in known),
            engine.entries,
            found.more,
        )
        prompt = render("extract_entries", most=engine.entries.max_entries_per_turn)
        turn = TurnPart(
            {"entries": True, "most": engine.entries.max_entries_per_turn},
            SCHEMA["properties"]["entries"],
            lambda given: {"entries": given},
            {"known": content["known"]["entries"]},
            found.lines,
            tuple(before),
        )
        text = json.dumps(content, ensure_ascii=False)
        return Material(prompt.text, text, SCHEMA, prompt.version, inputs, _BESIDE, turn=turn, again=claim.attempts > 0)

    def read(self, answer: ModelAnswer, material: Material) -> ExtractedEntries:
        """The entries of an answer. Raises AnswerRefused for another shape."""
        inputs: EntriesInput = material.inputs
        read = [_read_entry(each, f"entries[{at}]", inputs) for at, each in enumerate(_read_entries(answer))]
        return ExtractedEntries(tuple(given for given in read if given.content))

    async def enrich(self, engine: Engine, material: Material, result: ExtractedEntries) -> EntriesResult:
        """Mask the entries, prove them, embed them in one batch, and leave out those that repeat another one of the turn.
        Raises AnswerRefused once, when no entry is proven, so that the answer's author can quote better; if some are
        proven, the others are named as mendable."""
        inputs: EntriesInput = material.inputs
        cases = [given for given in result.given if given.about == "case"]
        masked = [replace(given, content=engine.derived_text(given.content)) for given in cases]
        # In a thread, since the search takes some milliseconds for each.
        proofs = await anyio.to_thread.run_sync(_prove, inputs, masked)
        candidates, mendable, duplicates = _choose_proven(proofs, inputs)
        # This happens only once: a model that cannot quote must not hold up the job.
        if mendable and not candidates and not material.again:
            raise AnswerRefused("; ".join(mendable))
        elsewhere = [f"{each.where}: {_ELSEWHERE[each.about]}" for each in result.given if each.about != "case"]
        refused = [*mendable, *elsewhere]
        most = inputs.rules.max_entries_per_turn
        if len(candidates) > most:
            refused.append(f"{len(candidates) - most} more than {most} entries are not kept")
        chosen = candidates[:most]
        vectors = await keeping.embed_contents(engine, [each.content for each in chosen])
        is_compared = engine.entries.dedupe_similarity > 0
        kept: list[EnrichedEntry] = []
        for candidate, embedded in zip(chosen, vectors, strict=True):
            same = next(
                (other for other in kept if is_compared and says_same(candidate.content, other.candidate.content)), None
            )
            if same is None:
                kept.append(EnrichedEntry(candidate, engine.new_id(), embedded))
            else:
                duplicates.append(f"{candidate.where}: says the same as {same.candidate.where}")
        left = () if material.again else tuple(mendable)
        return EntriesResult(tuple(kept), tuple(refused), tuple(duplicates), engine.now(), left)

    def join(self, first: EntriesResult, second: EntriesResult, material: Material) -> EntriesResult:
        """The entries of both answers, each text once. The second says what is refused in the end."""
        inputs: EntriesInput = material.inputs
        found = {entries.content_hash(each.candidate.content): each for each in (*second.entries, *first.entries)}
        both = tuple(found.values())[: inputs.rules.max_entries_per_turn]
        return replace(second, entries=both, duplicates=(*first.duplicates, *second.duplicates))

    async def commit(
        self, tx: Tx, claim: Claim, engine: Engine, material: Material, result: EntriesResult, by: Author
    ) -> JobEnd:
        """Store the entries that are not known yet, and move the cursor unless the job stays open. Raises Stale when the messages or the cursor
        have changed."""
        inputs: EntriesInput = material.inputs
        thread = await lock_spoken(
            tx, claim, "entries_seq", began=inputs.began, read_from=inputs.read_from, messages=inputs.messages
        )
        # The resource after the thread: every writer locks them in this order.
        await scopes.hold(tx, claim.scope)
        changed: list[str] = []
        places: list[str] = []
        duplicates = list(result.duplicates)
        refused: list[str] = []
        unproven: list[str] = []
        for each in result.entries:
            kept = await _keep(tx, engine, claim.scope, thread, inputs, each, by, result.now)
            where = each.candidate.where
            if kept.outcome in ("kept", "refreshed"):
                changed += [kept.entry_id, *kept.superseded]
                places.append(where)
                if each.candidate.proof.unproven:
                    unproven += [where]
            elif kept.outcome == "similar":
                duplicates.append(f"{where}: the entry {kept.entry_id} says it already")
            else:
                refused.append(f"{where}: it was forgotten, superseded or marked as wrong after it had been said")
        if changed:
            happened = NewEvent("entries_changed", {"ids": changed})
            origin = Origin(claim.kind, "")
            await events.record_of_resource(tx, claim.scope, happened, origin=origin, now=result.now)
        if not result.stays_open:
            await threads.move_cursor(tx, claim.scope, claim.thread_uid, "entries_seq", inputs.ended)
        if inputs.more:
            done_seq = inputs.ended
        else:
            done_seq = None
        return JobEnd(done_seq, tuple(places), tuple(duplicates), tuple(refused), tuple(unproven))


async def _known(tx: Tx, engine: Engine, claim: Claim, said: Sequence[EvidenceText], subject: str) -> list[Message]:
    """The stored entries that share most words with what the user says."""
    # An assistant's answer mentions many things, so only the user's words choose the known entries.
    words = find_query_words("\n".join(each.text for each in said if each.role == "user"))
    if not words:
        return []
    now = claim.lease_until  # about now, and the same when the material is read again
    # No floor: an entry that a reader is not shown may still be the one that a new entry repeats.
    request = RecallRequest((), limit=KNOWN, kinds=("entry",), min_score=0.0, subject=subject)
    matches = await match_words(tx, claim.scope, words, None, engine.recall, request.kinds, subject=subject)
    query = RecallQuery(tuple(words))
    prepared = PreparedRecall(request, [query], query.words, matches, None, engine.recall, now, ())
    found = await find_current_hits(tx, claim.scope, prepared)
    return [hit.message for hit in found.hits]


def _read_entries(answer: ModelAnswer) -> list[Mapping[str, Any]]:
    if isinstance(answer, dict):
        given = answer.get("entries")
    else:
        given = None
    if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
        raise AnswerRefused('the answer must be {"entries": [...]}, a list of objects, which may be empty')
    for number, each in enumerate(given):
        for name in ("content", "source"):
            if not isinstance(each.get(name), str):
                raise AnswerRefused(f"entries[{number}].{name}: must be a string")
        evidence = each.get("evidence")
        # Models give a single quotation without a list.
        if isinstance(evidence, list):
            quotations = evidence
        else:
            quotations = [evidence]
        if not all(isinstance(quotation, str) for quotation in quotations):
            raise AnswerRefused(f"entries[{number}].evidence: must be a string or a list of strings")
        if each["source"] not in LABELS:
            raise AnswerRefused(f"entries[{number}].source: must be one of {', '.join(LABELS)}")
    return given


def _read_entry(each: Mapping[str, Any], where: str, inputs: EntriesInput) -> GivenEntry:
    content = keeping.normalize(clean_text(each["content"]))
    corrects = each.get("corrects")
    quotations = tuple(list_quotations(each["evidence"]))
    about: Subject
    if each.get("about") in SUBJECTS:
        about = each["about"]
    else:
        about = "case"
    # An entry can correct only one that the model was shown.
    return GivenEntry(where, content, quotations, each["source"], corrects if corrects in inputs.known else None, about)


def _prove(inputs: EntriesInput, given: Sequence[GivenEntry]) -> list[tuple[GivenEntry, Proof | EvidenceRefused]]:
    """The places of each entry's quotations, or why one of them is refused."""
    return [(each, prove(each.content, each.quotations, each.label, inputs.said)) for each in given]


def _choose_proven(
    found: Sequence[tuple[GivenEntry, Proof | EvidenceRefused]], inputs: EntriesInput
) -> tuple[list[Candidate], list[str], list[str]]:
    """The proven entries, each text once; the reasons why others are refused; and the entries that repeat another's
    text."""
    candidates: dict[str, Candidate] = {}
    refused: list[str] = []
    duplicates: list[str] = []
    for given, how in found:
        if isinstance(how, EvidenceRefused):
            if len(given.quotations) > 1:
                of_several = f"[{how.at}]"
            else:
                of_several = ""
            refused.append(f"{given.where}.evidence{of_several}: {how.reason}")
            continue
        # An entry under the user's name may only repeat what others said.
        retold = is_retold(given.content, given.label, inputs.said)
        label: Label
        if retold:
            label = "verified_assistant_finding"
        else:
            label = given.label
        content = keeping.cut_at_word(given.content, inputs.rules.max_entry_length)
        made = Candidate(content, label, how, given.corrects, given.where)
        first = candidates.setdefault(entries.content_key(content), made)
        if first is not made:
            duplicates.append(f"{made.where}: says the same as {first.where}")
    return list(candidates.values()), refused, duplicates


async def _keep(
    tx: Tx,
    engine: Engine,
    scope: Scope,
    thread: Thread,
    inputs: EntriesInput,
    each: EnrichedEntry,
    by: Author,
    now: int,
) -> keeping.KeptEntry:
    candidate = each.candidate
    quoted = {span.seq for span in candidate.proof.spans}
    messages = [message for message in inputs.messages if message.seq in quoted]
    of_label: Trust
    # A finding of the assistant is not the user's word, whatever it quotes.
    if candidate.label == "verified_assistant_finding":
        of_label = "assistant"
    else:
        of_label = "user"
    trust = find_lowest_trust([of_label, *map(find_trust, messages)])
    new = NewEntry(
        each.entry_id,
        candidate.content,
        "correction" if candidate.corrects else None,
        "extracted",
        trust,
        by.model,
        by.prompt,
        # An entry is as old as the newest of its sources.
        max(message.said_at for message in messages),
        tuple(
            EntrySource(thread.thread_uid, span.seq, span.revision, span.starts, span.ends, candidate.label)
            for span in candidate.proof.spans
        ),
        unproven=candidate.proof.unproven,
        subject=subject_in(thread.metadata),
    )
    return await keeping.keep_entry(
        tx,
        scope,
        new,
        each.embedded,
        similarity=engine.entries.dedupe_similarity,
        said_at=max(message.created_at for message in messages),
        corrects=[candidate.corrects] if candidate.corrects else (),
        now=now,
        search_text=engine.search_text_of,
    )
