"""remember: an entry that a caller keeps on its own account, with evidence or on its word."""

from dataclasses import dataclass, replace
from typing import Literal, get_args

from layerlore.memory import entries as keeping
from layerlore.memory.acceptance import check_text, one_of
from layerlore.memory.blocks import without_blocks
from layerlore.memory.engine import Engine, Sent
from layerlore.memory.evidence import LABELS, ROLES_OF, Label, Said, find
from layerlore.memory.quoting import visible
from layerlore.memory.said import said
from layerlore.memory.trust import Trust, lowest, speaks, trust_of
from layerlore.storage import entries, events, message_pages, resources, threads
from layerlore.storage.entries import NewEntry, Source
from layerlore.storage.errors import InvalidInput, LimitExceeded, NotFound
from layerlore.storage.events import NewEvent
from layerlore.storage.records import Json, Scope, Thread
from layerlore.storage.transaction import Tx

EntryKind = Literal["preference", "decision", "fact", "correction", "explicit_remember"]
KINDS: tuple[EntryKind, ...] = get_args(EntryKind)
OF_USERS: tuple[EntryKind, ...] = ("preference", "decision", "explicit_remember")
"""What only a user's own words make of an entry: else a text that an assistant merely read could pass for a wish."""

PROMPT = "remember"
"""Stands where an entry names its prompt; where it names its model stands the client."""
SEARCHED = 200
"""Among so many of the newest messages of a thread evidence is looked for."""


@dataclass(frozen=True, slots=True)
class Told:
    """What a caller wants to be kept; ``evidence``: a quotation that proves it; empty strings: not given; ``source``: a
    label of evidence, or ``caller``."""

    content: str
    evidence: str = ""
    source: str = "caller"
    kind: str = ""


async def remember(engine: Engine, scope: Scope, thread_id: str, told: Told, *, sent: Sent) -> Json:
    """Keep an entry. Evidence must stand word for word in a message of the thread whose role the source allows. What
    only a user can want (OF_USERS) is kept as that kind with a user's words as evidence, and else without a kind.

    Returns ``id``, ``status`` (kept | refreshed | similar: another says the same, and ``content`` is what it says),
    ``source`` (the label, or ``caller``), ``superseded`` and ``masked`` where they say something, and in ``unproven`` a kind that it was kept without.
    Raises InvalidInput, LimitExceeded, NotFound.
    """
    # Before anything is taken out of the words, and once more where that joined what a secret was parted by.
    words, masked = engine.masked(check_text(told.content, "content"))
    content, again = engine.masked(_checked(engine, replace(told, content=words)))
    masked += again
    label: Label = told.source  # type: ignore[assignment]  # checked above
    now, entry_id = engine.now(), engine.new_id()
    vectors = await keeping.embedded_soon(engine, content)

    async def write(tx: Tx) -> Json:
        source, trust, said_at, stored_at = await _source(tx, engine, scope, thread_id, told.evidence, label)
        unproven = told.kind in OF_USERS and trust != "user"
        await resources.hold(tx, scope)
        new = NewEntry(
            entry_id,
            content,
            None if unproven else told.kind or None,
            "remembered" if source else "caller",
            trust,
            sent.origin.actor,
            PROMPT,
            said_at if source else now,
            (source,) if source else (),
        )
        kept = await keeping.keep(
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
        return {
            "id": kept.entry_id,
            "status": kept.outcome,
            "source": label,
            **({"superseded": list(kept.superseded)} if kept.superseded else {}),
            **({"unproven": told.kind} if unproven else {}),
            **({"masked": masked} if masked else {}),
        }

    asked = [told.content, told.evidence, told.source, told.kind]
    answer = await engine.write(scope, sent, asked, now, write)
    if answer["status"] != "similar":
        return answer
    there = (await engine.database.read(entries.seen, scope, [answer["id"]])).get(answer["id"])
    return {**answer, **({"content": there.content} if there else {})}


def _checked(engine: Engine, told: Told) -> str:
    """The content as it is kept, before masking."""
    content = keeping.normalized(without_blocks(visible(told.content, engine.derived_text)))
    if not any(character.isalnum() for character in content):
        raise InvalidInput("content: say in 1 to 3 sentences what is to be remembered, so that it is clear on its own")
    most = engine.entries.max_entry_length
    if len(content) > most:
        raise LimitExceeded(f"content: {len(content):,} characters; {most:,} are allowed: shorten it, or split it")
    check_text(told.evidence, "evidence")
    if told.kind and told.kind not in KINDS:
        raise InvalidInput(f"kind: {one_of(told.kind, KINDS)}")
    if told.source not in LABELS:
        raise InvalidInput(f"source: {one_of(told.source, LABELS)}")
    if told.source != "caller" and not told.evidence.strip():
        raise InvalidInput("source: says what kind of evidence it is, so it needs evidence; without, leave both out")
    return content


async def _source(
    tx: Tx, engine: Engine, scope: Scope, thread_id: str, evidence: str, label: Label
) -> tuple[Source | None, Trust, int, int]:
    """Where the evidence stands; whose word it is, and when it was said and stored. None without evidence."""
    if not evidence.strip():
        return None, "assistant", 0, 0
    try:
        thread = await threads.lock(tx, scope, thread_id)
    except NotFound:
        raise InvalidInput(
            f"evidence: conversation {thread_id!r} has no messages yet to quote: store them with add_messages first, or "
            "leave evidence out"
        ) from None
    return await _found(tx, engine, scope, thread, evidence, label)


async def _found(
    tx: Tx, engine: Engine, scope: Scope, thread: Thread, evidence: str, label: Label
) -> tuple[Source, Trust, int, int]:
    roles = list(ROLES_OF[label])
    page = await message_pages.page(tx, scope, thread.thread_id, roles=roles, limit=SEARCHED)
    texts = [Said(message.seq, message.revision, speaks(message), said(engine, message)) for message in page.messages]
    span = find(engine.masked(evidence)[0], label, texts)
    if span is None:
        whose = " or ".join(roles)
        raise InvalidInput(
            f"evidence: stands word for word in none of the {whose} messages of conversation {thread.thread_id!r} "
            f"(the newest {SEARCHED} are looked at): quote one exactly, or leave evidence out, and it is kept as your word"
        )
    message = next(message for message in page.messages if message.seq == span.seq)
    source = Source(thread.thread_uid, span.seq, span.revision, span.starts, span.ends, label)
    trust = lowest(["assistant" if label == "verified_assistant_finding" else "user", trust_of(message)])
    return source, trust, message.said_at, message.created_at
