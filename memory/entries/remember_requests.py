"""Requests to remember: entries that a caller keeps on its own account, with evidence or on its word."""

from dataclasses import dataclass, replace
from typing import Literal, get_args

from layerlore.memory.engine.engine import Engine, Sent
from layerlore.memory.engine.speech import said
from layerlore.memory.entries import entries as keeping
from layerlore.memory.entries.claim import EvidenceRefused
from layerlore.memory.entries.entries import KeptEntry
from layerlore.memory.entries.evidence import LABELS, ROLES_OF, EvidenceText, Label
from layerlore.memory.entries.proof import link_replies, list_compared, prove
from layerlore.memory.entries.telling_words import TellingWord
from layerlore.memory.entries.word_meanings import WordMeanings, compare_meanings
from layerlore.memory.rules.validation import check_text, describe_choices
from layerlore.memory.text.echoes import strip_blocks
from layerlore.memory.text.quotation import make_visible
from layerlore.memory.text.trust import Trust, find_evidence_role, find_lowest_trust, find_trust
from layerlore.storage.core import resource_lock
from layerlore.storage.core.errors import InvalidInput, LimitExceeded, NotFound
from layerlore.storage.core.records import Json, Message, Scope, Thread
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import entries
from layerlore.storage.derived.entries import EntrySource, NewEntry
from layerlore.storage.jobs import jobs
from layerlore.storage.messages import pages
from layerlore.storage.threads import events, threads
from layerlore.storage.threads.events import NewEvent

EntryKind = Literal["preference", "decision", "fact", "correction", "explicit_remember"]
KINDS: tuple[EntryKind, ...] = get_args(EntryKind)
OF_USERS: tuple[EntryKind, ...] = ("preference", "decision", "explicit_remember")
"""What only a user's own words make of an entry: else a text that an assistant merely read could pass for a wish."""

PROMPT = "remember"
OFF = "this agent keeps no entries (entries.enabled = false): what must be known every time belongs in update_working_memory"
"""Stands where an entry names its prompt; where it names its model stands the client."""
SEARCHED = 200
"""Among so many of the newest messages of a thread evidence is looked for."""


@dataclass(frozen=True, slots=True)
class RememberRequest:
    """An entry that a caller asks to keep. ``evidence`` is a quotation that proves it, ``source`` a label of evidence
    or ``caller``; an empty string means that it was not given."""

    content: str
    evidence: str = ""
    source: str = "caller"
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Quotation:
    """An entry's content, and what is quoted for it as what kind of evidence."""

    content: str
    evidence: str
    label: Label


async def remember(engine: Engine, scope: Scope, thread_id: str, asked: RememberRequest, *, sent: Sent) -> Json:
    """Keep an entry. Evidence must stand word for word in a message of the thread whose role the source allows, and prove
    what the entry says (``memory.entries.proof``). What only a user can want (OF_USERS) is kept as that kind with a user's words as evidence, and else without a kind.

    Returns ``id``, ``status`` (kept | refreshed | similar: another says the same, and ``content`` is what it says),
    ``source`` (the label, or ``caller``), ``superseded`` and ``masked`` where they say something, in ``unproven`` a
    kind that it was kept without, and in ``degraded`` why its meaning could not be compared with others'. ``stands``:
    what a correction cannot correct, as it is trusted more; ``contradicts``: what says otherwise and stays beside it;
    ``note`` says what to do about either.

    Raises InvalidInput, LimitExceeded, NotFound.
    """
    if not engine.entries.enabled:
        raise InvalidInput(OFF)
    # Before anything is taken out of the words, and once more where that joined what a secret was parted by.
    words, masked = engine.masked(check_text(asked.content, "content"))
    content, again = engine.masked(_check(engine, replace(asked, content=words)))
    masked += again
    label: Label = asked.source  # type: ignore[assignment]  # checked above
    now, entry_id = engine.now(), engine.new_id()
    vectors, missing = await keeping.embed_soon(engine, content)
    quoted = Quotation(content, engine.masked(asked.evidence)[0], label)
    meanings = None
    if asked.evidence.strip() and not missing:
        words = await engine.database.read(_find_unlike, scope, thread_id, engine, quoted)
        meanings = await compare_meanings(engine, words) if words else None

    async def write(tx: Tx) -> Json:
        source, trust, said_at, stored_at = await _find_source(tx, engine, scope, thread_id, quoted, meanings)
        unproven = asked.kind in OF_USERS and trust != "user"
        await resource_lock.hold(tx, scope)
        new = NewEntry(
            entry_id,
            content,
            None if unproven else asked.kind or None,
            "remembered" if source else "caller",
            trust,
            sent.origin.actor,
            PROMPT,
            said_at if source else now,
            (source,) if source else (),
        )
        kept = await keeping.keep_entry(
            tx,
            scope,
            new,
            vectors,
            similarity=engine.entries.dedupe_similarity,
            said_at=stored_at,
            now=now,
            search_text=engine.search_text_of,
        )
        if kept.outcome != "similar":
            happened = NewEvent("entries_changed", {"ids": [kept.entry_id, *kept.superseded]})
            await events.record_of_resource(tx, scope, happened, origin=sent.origin, now=now)
        # What it corrects may be found by its meaning alone.
        found = kept.outcome == "similar" or kept.superseded or kept.standing
        if asked.kind == "correction" and missing and not found:
            await jobs.request(tx, scope, "", "corrections", now, due_at=now, now=now, revive=True)
        return _describe_kept(asked, kept, unproven=unproven, masked=masked)

    arguments = [asked.content, asked.evidence, asked.source, asked.kind]
    answer = await engine.write(scope, sent, arguments, now, write)
    if missing:
        later = "; what it corrects is looked for again once that is over" if asked.kind == "correction" else ""
        answer = {**answer, "degraded": f"compared with other entries by words alone: {missing}{later}"}
    if note := _note(answer):
        answer = {**answer, "note": note}
    return await _add_content(engine, scope, answer) if answer["status"] == "similar" else answer


async def _add_content(engine: Engine, scope: Scope, answer: Json) -> Json:
    """The answer with what the entry says that it names, if that is still there."""
    there = (await engine.database.read(entries.read_seen, scope, [answer["id"]])).get(answer["id"])
    return {**answer, **({"content": there.content} if there else {})}


def _describe_kept(asked: RememberRequest, kept: KeptEntry, *, unproven: bool, masked: int) -> Json:
    """The answer for an entry that was kept, or that another repeats: what says nothing is left out."""
    return {
        "id": kept.entry_id,
        "status": kept.outcome,
        "source": asked.source,
        **({"superseded": list(kept.superseded)} if kept.superseded else {}),
        **({"stands": list(kept.standing)} if kept.standing else {}),
        **({"contradicts": list(kept.against)} if kept.against else {}),
        **({"unproven": asked.kind} if unproven else {}),
        **({"masked": masked} if masked else {}),
    }


def _note(answer: Json) -> str:
    """What follows of an answer for who gets it."""
    if "stands" in answer:
        return (
            "the old entry stands, since it is trusted more: a correction of it needs a user's words as evidence, with "
            'source="user_assertion"'
        )
    if "contradicts" in answer:
        return (
            "an older entry says otherwise, and both are shown, the newer first: if the old one is wrong, say it again with "
            'kind="correction" and a user\'s words as evidence, or forget the old one'
        )
    return ""


def _check(engine: Engine, asked: RememberRequest) -> str:
    """The content as it is kept, before masking."""
    content = keeping.normalize(strip_blocks(make_visible(asked.content, engine.derived_text)))
    if not any(character.isalnum() for character in content):
        raise InvalidInput("content: say in 1 to 3 sentences what is to be remembered, so that it is clear on its own")
    most = engine.entries.max_entry_length
    if len(content) > most:
        raise LimitExceeded(
            f"content: {len(content):,} characters; at most {most:,} are allowed: shorten it, or split it"
        )
    check_text(asked.evidence, "evidence")
    if asked.kind and asked.kind not in KINDS:
        raise InvalidInput(f"kind: {describe_choices(asked.kind, KINDS)}")
    if asked.source not in LABELS:
        raise InvalidInput(f"source: {describe_choices(asked.source, LABELS)}")
    if asked.source != "caller" and not asked.evidence.strip():
        raise InvalidInput("source: says what kind of evidence it is, so it needs evidence; without, leave both out")
    return content


async def _find_unlike(tx: Tx, scope: Scope, thread_id: str, engine: Engine, quoted: Quotation) -> list[TellingWord]:
    """The words that must be compared by meaning before it is known whether the quotation proves the entry; none where
    words alone decide."""
    try:
        said_there = await _read_said(tx, engine, scope, thread_id)
    except NotFound:
        return []
    texts = [text for _, text in said_there]
    found = prove(quoted.content, quoted.evidence, quoted.label, texts)
    if not isinstance(found, EvidenceRefused) or not found.mendable:
        return []
    return list_compared(quoted.content, quoted.evidence, quoted.label, texts)


async def _find_source(
    tx: Tx, engine: Engine, scope: Scope, thread_id: str, quoted: Quotation, meanings: WordMeanings | None
) -> tuple[EntrySource | None, Trust, int, int]:
    """Where the evidence stands; whose word it is, and when it was said and stored. None without evidence."""
    if not quoted.evidence.strip():
        return None, "assistant", 0, 0
    try:
        thread = await threads.lock(tx, scope, thread_id)
    except NotFound:
        raise InvalidInput(
            f"evidence: conversation {thread_id!r} has no messages yet to quote: store them with add_messages first, or "
            "leave evidence out"
        ) from None
    return await _find_span(tx, engine, scope, thread, quoted, meanings)


async def _find_span(
    tx: Tx, engine: Engine, scope: Scope, thread: Thread, quoted: Quotation, meanings: WordMeanings | None
) -> tuple[EntrySource, Trust, int, int]:
    said_there = await _read_said(tx, engine, scope, thread.thread_id)
    found = prove(quoted.content, quoted.evidence, quoted.label, [text for _, text in said_there], meanings)
    if isinstance(found, EvidenceRefused):
        raise InvalidInput(f"evidence: {_describe(found, quoted.label, thread.thread_id)}")
    message = next(message for message, _ in said_there if message.seq == found.seq)
    source = EntrySource(thread.thread_uid, found.seq, found.revision, found.starts, found.ends, quoted.label)
    of_label: Trust = "assistant" if quoted.label == "verified_assistant_finding" else "user"
    return source, find_lowest_trust([of_label, find_trust(message)]), message.said_at, message.created_at


def _describe(refused: EvidenceRefused, label: Label, thread_id: str) -> str:
    if refused.rule == "found":
        return (
            f"stands word for word in none of the {' or '.join(ROLES_OF[label])} messages of conversation {thread_id!r} "
            f"(the newest {SEARCHED} are looked at): quote one exactly, or leave evidence out, and it is kept as your word"
        )
    return f"{refused.describe()}; or leave evidence out, and it is kept as your word"


async def _read_said(tx: Tx, engine: Engine, scope: Scope, thread_id: str) -> list[tuple[Message, EvidenceText]]:
    """The newest messages of users and agents, the first first, and what each says."""
    page = await pages.page(tx, scope, thread_id, roles=["user", "assistant"], limit=SEARCHED)
    ordered = sorted(page.messages, key=lambda message: message.seq)
    texts = [
        EvidenceText(
            message.seq, message.revision, find_evidence_role(message), said(engine, message), said_at=message.said_at
        )
        for message in ordered
    ]
    return list(zip(ordered, link_replies(texts), strict=True))
