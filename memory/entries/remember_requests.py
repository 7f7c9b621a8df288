"""Requests to remember: entries that a caller keeps on its own account, with evidence or on its word."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from layerlore.memory.engine.engine import Engine, WriteRequest, make_undo_id, record_act, said
from layerlore.memory.entries import entries as keeping
from layerlore.memory.entries.entries import KeptEntry, tells_of_user
from layerlore.memory.entries.entry_answers import NamedEntry, RememberedEntry
from layerlore.memory.entries.evidence import LABELS, ROLES_OF, EvidenceText, Label, add_quotes
from layerlore.memory.entries.proof import (
    EvidenceRefused,
    Proof,
    find_saying,
    is_retold,
    link_replies,
    list_quotations,
    prove,
)
from layerlore.memory.language.search_words import split_words
from layerlore.memory.rules.ages import iso, read_expiry
from layerlore.memory.rules.validation import check_text, describe_choices
from layerlore.memory.text.echoes import strip_blocks
from layerlore.memory.text.quotation import make_visible
from layerlore.memory.text.trust import Trust, find_evidence_role, find_lowest_trust, find_trust
from layerlore.storage.core import scopes
from layerlore.storage.core.errors import Conflict, InvalidInput, LimitExceeded, NotFound
from layerlore.storage.core.json_text import to_json
from layerlore.storage.core.records import Message, Scope, Thread
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import entries, entry_curation
from layerlore.storage.derived.entries import Entry, EntrySource, NewEntry
from layerlore.storage.derived.subjects import read_subject
from layerlore.storage.messages import message_pages
from layerlore.storage.removal.acts import ActPart
from layerlore.storage.threads import events, threads
from layerlore.storage.threads.events import NewEvent

EntryKind = Literal["preference", "decision", "fact", "correction", "explicit_remember"]
KINDS: tuple[EntryKind, ...] = get_args(EntryKind)
OF_USERS: tuple[EntryKind, ...] = ("preference", "decision", "explicit_remember")
"""The kinds that need a user's own words: else a text that an assistant merely read could pass for a wish."""

ABOUT = ("", "user", "project")

PROMPT = "remember"
OFF = "this agent keeps no entries (entries.enabled = false): what must be known every time belongs in update_working_memory"
"""The name in place of an entry's prompt. In place of its model, the entry names the client."""
SEARCHED = 200
"""Evidence must lie among this many of the newest messages of a thread."""
SEARCHED_UNQUOTED = 50
"""Without evidence, the sentence that says an entry must lie among this many of the newest messages."""


@dataclass(frozen=True, slots=True)
class RememberRequest:
    """An entry that a caller asks to keep. ``evidence``: the words, or several quotations, that say it;
    ``source``: a label of evidence or ``caller``; ``about``: in a project, whose it is; an empty string means that it was
    not given. ``replaces``: the id of the entry whose place it takes, however that is trusted. ``expires_at``: ISO 8601.
    ``by_person``: the person whose memory it is wrote it, not a model."""

    content: str
    evidence: str | Sequence[str] = ""
    source: str = "caller"
    kind: str = ""
    about: Literal["", "user", "project"] = ""
    replaces: str = ""
    expires_at: str = ""
    by_person: bool = False


@dataclass(frozen=True, slots=True)
class Quotation:
    """An entry's content, and what is quoted for it as what kind of evidence. Without quotations the newest messages are
    searched for a sentence that says it, if ``searches``."""

    content: str
    quotations: tuple[str, ...]
    label: Label
    searches: bool = True


@dataclass(frozen=True, slots=True)
class FoundEvidence:
    """The evidence of an entry. ``label`` says whose word that is; ``said_at``, ``stored_at``: of its newest message;
    ``unproven``: names and numbers that no quotation contains; ``linked``: the server found the sentence itself."""

    sources: tuple[EntrySource, ...] = ()
    label: Label = "caller"
    trust: Trust = "assistant"
    said_at: int = 0
    stored_at: int = 0
    unproven: tuple[str, ...] = ()
    linked: bool = False


async def remember(
    engine: Engine, scope: Scope, thread_id: str, request: RememberRequest, *, sent: WriteRequest
) -> RememberedEntry:
    """Keep an entry. Each quotation must stand word for word in a message of the thread whose role the source allows,
    and say something (``memory.entries.proof``). Without evidence the newest messages are searched for the sentence
    that says it. A kind that only a user can want (OF_USERS) needs a user's words as evidence; without them the entry
    has no kind.

    Returns ``id``, ``status`` (kept | refreshed | similar: another says the same, and ``content`` is what it says),
    ``source`` (the label, or ``caller``), ``replaced`` (each with the text that it had) and ``masked`` where they say
    something, in ``unproven`` the names and numbers that no quotation contains, in ``evidence`` the sentence that was
    found, in ``kept_without_kind`` the kind that was requested, and in ``degraded`` why its meaning could not be
    compared with others'. ``stands``: what a correction cannot correct, as it is trusted more; ``contradicts``: what
    says otherwise and stays beside it; ``candidates``: what a correction may mean, and ``similar``: what says something
    like it, each with its text; ``note`` says what to do about them. In a project, ``whose``: an entry about the person
    goes to the person's own memory. The quotation proves it, but its place is not stored there, since that is in the
    project.

    Raises InvalidInput, LimitExceeded, NotFound.
    """
    if not engine.entries.enabled:
        raise InvalidInput(OFF)
    # Before anything is removed from the words, and again afterwards, since the removal may join the halves of a
    # secret.
    words, masked = engine.masked(check_text(request.content, "content"))
    content, again = engine.masked(_check(engine, replace(request, content=words)))
    masked += again
    label: Label = request.source  # type: ignore[assignment]  # checked above
    now, entry_id, undo_id = engine.now(), engine.new_id(), make_undo_id(engine)
    # Stored messages are masked, so a quotation is found in them only if it is masked alike.
    quotations = tuple(engine.masked(each)[0] for each in list_quotations(request.evidence))
    quoted = Quotation(content, quotations, label, searches=bool(thread_id) and not request.by_person)
    expires_at = read_expiry(request.expires_at, now) if request.expires_at else None
    owner = await _find_owner(engine, scope, content, request)
    subject = await engine.database.read(read_subject, scope, thread_id) if thread_id else ""
    if quotations:
        # A quotation that is refused waits for no vector.
        await engine.database.read(_find_evidence, scope, engine, thread_id, quoted, lock=False)
    # Before the transaction: a slow embedder must not hold its locks.
    vectors, missing = await keeping.embed_soon(engine, content)
    elsewhere: FoundEvidence | None = None
    if owner.resource_id != scope.resource_id:
        # A transaction has one scope, so the project's evidence is found in one of its own.
        elsewhere = await engine.database.write(_find_evidence, scope, engine, thread_id, quoted)
        # The place is the project's, and stays there.
        elsewhere = replace(elsewhere, sources=())

    async def write(tx: Tx) -> RememberedEntry:
        # Once more, under the thread's lock: a message may have changed since it was first read.
        found = elsewhere or await _find_evidence(tx, owner, engine, thread_id, quoted)
        trust = "user" if request.by_person else found.trust
        await scopes.hold(tx, owner)
        old = await _find_replaced(tx, owner, request.replaces)
        kind = request.kind or (old and old.kind) or ""
        loses_kind = kind in OF_USERS and trust != "user"
        new = NewEntry(
            entry_id,
            content,
            None if loses_kind else kind or None,
            "remembered" if found.sources else "caller",
            trust,
            sent.origin.actor,
            PROMPT,
            found.said_at or now,
            found.sources or await _keep_sources(tx, owner, engine, old, content, request),
            expires_at=expires_at or (old.expires_at if old is not None and not old.is_expired(now) else None),
            unproven=found.unproven,
            subject=subject,
        )
        kept = await keeping.keep_entry(
            tx,
            owner,
            new,
            vectors,
            similarity=engine.entries.dedupe_similarity,
            said_at=found.stored_at,
            replaces=request.replaces,
            now=now,
            search_text=engine.search_text_of,
        )
        if kept.outcome == "wrong":
            raise Conflict(
                f"nothing was kept: entry {kept.entry_id!r}, which says this, is marked as wrong; if it is right after all, the "
                "user's own words as evidence (source='user_assertion') bring it back"
            )
        # An entry that only repeats another one changed nothing that a reader could see.
        if kept.outcome != "similar":
            happened = NewEvent("entries_changed", {"ids": [kept.entry_id, *kept.superseded]})
            await events.record_of_resource(tx, owner, happened, origin=sent.origin, now=now)
        return {
            **_describe_kept(request, kept, found, lost_kind=kind if loses_kind else "", masked=masked),
            **await record_act(tx, engine, owner, undo_id, sent.origin.tool, _list_parts(kept), now),
        }

    evidence = request.evidence if isinstance(request.evidence, str) else to_json(list(request.evidence))
    arguments = [request.content, evidence, request.source, request.kind]
    arguments += [each for each in (request.about, request.replaces, request.expires_at) if each]
    answer = await engine.write(owner, sent, arguments, now, write)
    if scope.person:
        answer["whose"] = "project" if owner == scope else "you"
    if missing:
        answer["degraded"] = f"compared with other entries by words alone: {missing}"
    if note := _note(answer):
        answer["note"] = note
    answer = await engine.database.read(_add_kept, owner, engine, answer, request)
    return await _add_contents(engine, owner, answer)


def _is_of_person(scope: Scope, content: str, request: RememberRequest) -> bool:
    """Whether an entry belongs to the person's memory. Only in a project is it asked. Raises InvalidInput."""
    if request.about not in ABOUT:
        raise InvalidInput(f"about: {describe_choices(request.about, ABOUT[1:])}")
    if not scope.person:
        return False
    return request.about == "user" or (not request.about and tells_of_user(content, request.kind))


async def _find_owner(engine: Engine, scope: Scope, content: str, request: RememberRequest) -> Scope:
    """The owner of the entry: in a project the person's, if it is about the person; and that which has the entry
    whose place it takes. Raises InvalidInput."""
    of_person = _is_of_person(scope, content, request)
    if request.replaces and scope.person:
        of_person = not await engine.database.read(entries.read_seen, scope, [request.replaces])
    if of_person:
        return scope.of_person
    return scope


async def _keep_sources(
    tx: Tx, scope: Scope, engine: Engine, old: Entry | None, content: str, request: RememberRequest
) -> tuple[EntrySource, ...]:
    """The sources of the replaced entry that still say what the changed text says: it has each word that the quote and the old
    text have in common."""
    if old is None or request.by_person:
        return ()
    (shown,) = await add_quotes(tx, scope, engine, [entries.as_message(old, ())])
    places = (await entries.sources_of(tx, scope, [old.entry_id]))[old.entry_id]
    was, now = set(split_words(old.content)), set(split_words(content))
    kept: list[EntrySource] = []
    for place, quoted in zip(places, shown.metadata["sources"], strict=True):
        # A quotation proves nothing of a text that drops a word which both had.
        proven = was & set(split_words(quoted.get("quote", "")))
        if proven and proven <= now:
            kept.append(EntrySource(place.thread_uid, place.seq, place.revision, place.starts, place.ends, place.label))
    return tuple(kept)


async def _find_replaced(tx: Tx, scope: Scope, entry_id: str) -> Entry | None:
    """The entry to replace; None if the request names none. Raises NotFound."""
    if not entry_id:
        return None
    check_text(entry_id, "replaces")
    found = (await entries.read_seen(tx, scope, [entry_id])).get(entry_id)
    if found is None:
        raise NotFound(f"there is no entry {entry_id!r}; nothing was kept. recall_memory names the ids of entries")
    return found


def _list_parts(kept: KeptEntry) -> list[ActPart]:
    """The changes that undo takes back after an entry was stored: that it took the place of others. One that was there
    before stays, without the pin that it has of them."""
    if not kept.superseded:
        return []
    new = ActPart("kept" if kept.outcome == "kept" else "refreshed", kept.entry_id)
    if kept.pinned and kept.outcome == "refreshed":
        pinned = [ActPart("pinned", kept.entry_id, None, 0, 1)]
    else:
        pinned = []
    return [new, *(ActPart("superseded", entry_id) for entry_id in kept.superseded), *pinned]


async def _add_contents(engine: Engine, scope: Scope, answer: RememberedEntry) -> RememberedEntry:
    """The answer with what the entries say that it names, as far as they are still there. They are read here, since
    the stored answer of a request that may be sent again has no text."""
    named = [*answer.get("replaced", []), *answer.get("candidates", []), *answer.get("similar", [])]
    ids = [each["id"] for each in named]
    if answer["status"] == "similar":
        ids.append(answer["id"])
    if not ids:
        return answer
    there = await engine.database.read(entry_curation.read_named, scope, ids)
    texts = {entry_id: engine.derived_text(entry.content) for entry_id, entry in there.items()}
    for each in named:
        if each["id"] in texts:
            each["content"] = texts[each["id"]]
    if answer["status"] == "similar" and answer["id"] in texts:
        answer["content"] = texts[answer["id"]]
    return answer


async def _add_kept(
    tx: Tx, scope: Scope, engine: Engine, answer: RememberedEntry, request: RememberRequest
) -> RememberedEntry:
    """The answer with what is to be said of the entry that was stored: its unproven words; the sentence it rests on,
    if the server found that itself; and the end that it has from the entry it replaces."""
    entry = (await entries.read_seen(tx, scope, [answer["id"]])).get(answer["id"])
    if entry is None or answer["status"] == "similar":
        return answer
    answer = answer.copy()
    if entry.unproven:
        answer["unproven"] = entry.unproven_words
    if answer["source"] != request.source:
        (message,) = await add_quotes(tx, scope, engine, [entries.as_message(entry, ())])
        quotes = [source["quote"] for source in message.metadata["sources"] if "quote" in source]
        if quotes:
            answer["evidence"] = quotes[-1]
    if "replaced" in answer and not request.expires_at and entry.expires_at is not None:
        end = f"it ends on {iso(entry.expires_at)}, as the entry that it replaces did; expires_at sets another end"
        answer["note"] = "; ".join(filter(None, [answer.get("note", ""), end]))
    return answer


def _describe_kept(
    request: RememberRequest, kept: KeptEntry, found: FoundEvidence, *, lost_kind: str, masked: int
) -> RememberedEntry:
    """The answer for an entry that was stored, or that another repeats: what says nothing is left out."""
    outcome = kept.outcome
    # Only background extraction leaves a forgotten entry forgotten.
    assert outcome != "forgotten"
    assert outcome != "wrong"
    answer: RememberedEntry = {
        "id": kept.entry_id,
        "status": outcome,
        "source": found.label if found.linked else request.source,
    }
    if kept.superseded:
        answer["replaced"] = _name_entries(kept.superseded)
    if kept.standing:
        answer["stands"] = list(kept.standing)
    if kept.against:
        answer["contradicts"] = list(kept.against)
    if kept.candidates:
        answer["candidates"] = _name_entries(kept.candidates)
    # The answer names the candidates apart.
    others = dict.fromkeys((*kept.against, *kept.similar))
    similar = [entry_id for entry_id in others if entry_id not in kept.candidates]
    if similar:
        answer["similar"] = _name_entries(similar)
    if lost_kind:
        answer["kept_without_kind"] = lost_kind
    if masked:
        answer["masked"] = masked
    return answer


def _name_entries(ids: Iterable[str]) -> list[NamedEntry]:
    return [{"id": each} for each in ids]


def _note(answer: RememberedEntry) -> str:
    """The advice that an answer gives to its reader."""
    if "stands" in answer:
        return (
            "the old entry stands, since it is trusted more: a correction of it needs a user's words as evidence, with "
            'source="user_assertion"'
        )
    if "contradicts" in answer:
        return (
            "another entry says otherwise, and both are shown, the newer first: if it is wrong, call remember again with "
            "replaces=ID, or forget it"
        )
    if "candidates" in answer:
        return "nothing was replaced: if it corrects one of the candidates, call remember again with replaces=ID"
    return ""


def _check(engine: Engine, request: RememberRequest) -> str:
    """The content as it is stored, before masking."""
    content = keeping.normalize(strip_blocks(make_visible(request.content, engine.derived_text)))
    if not any(character.isalnum() for character in content):
        raise InvalidInput("content: say in 1 to 3 sentences what is to be remembered, so that it is clear on its own")
    most = engine.entries.max_entry_length
    if len(content) > most:
        raise LimitExceeded(
            f"content: {len(content):,} characters; at most {most:,} are allowed: shorten it, or split it"
        )
    for quotation in list_quotations(request.evidence):
        check_text(quotation, "evidence")
    if request.kind and request.kind not in KINDS:
        raise InvalidInput(f"kind: {describe_choices(request.kind, KINDS)}")
    if request.source not in LABELS:
        raise InvalidInput(f"source: {describe_choices(request.source, LABELS)}")
    if request.source != "caller" and not list_quotations(request.evidence):
        raise InvalidInput("source: says what kind of evidence it is, so it needs evidence; without, leave both out")
    return content


async def _find_evidence(
    tx: Tx, scope: Scope, engine: Engine, thread_id: str, quoted: Quotation, *, lock: bool = True
) -> FoundEvidence:
    """The evidence of an entry in a thread; nothing without quotations if no sentence says it. Raises InvalidInput."""
    if not quoted.quotations and not quoted.searches:
        return FoundEvidence()
    try:
        # Locked, so that no quoted message is edited or deleted before the entry is stored.
        thread = await (threads.lock if lock else threads.find)(tx, scope, thread_id)
    except NotFound:
        if not quoted.quotations:
            return FoundEvidence()
        raise InvalidInput(
            f"evidence: conversation {thread_id!r} has no messages yet to quote: store them with add_messages first, or "
            "leave evidence out"
        ) from None
    if quoted.quotations:
        said_there = await _read_said(tx, engine, scope, thread_id, SEARCHED)
        found = prove(quoted.content, quoted.quotations, quoted.label, [text for _, text in said_there])
        if isinstance(found, EvidenceRefused):
            if len(quoted.quotations) > 1:
                where = f"evidence[{found.at}]"
            else:
                where = "evidence"
            raise InvalidInput(f"{where}: {_describe(found, quoted.label, thread.thread_id)}")
        return _make_evidence(thread, said_there, quoted, found)
    said_there = await _read_said(tx, engine, scope, thread_id, SEARCHED_UNQUOTED)
    texts = [text for _, text in said_there]
    saying = find_saying(quoted.content, texts)
    if saying is None:
        return FoundEvidence()
    sentence, label = saying
    linked = Quotation(quoted.content, (sentence,), label)
    found = prove(linked.content, linked.quotations, label, texts)
    if isinstance(found, EvidenceRefused):
        # The caller quoted nothing, so nothing is refused: the entry counts as the caller's own word.
        return FoundEvidence()
    return replace(_make_evidence(thread, said_there, linked, found), linked=True)


def _make_evidence(
    thread: Thread, said_there: Sequence[tuple[Message, EvidenceText]], quoted: Quotation, found: Proof
) -> FoundEvidence:
    texts = [text for _, text in said_there]
    # A quotation may be the user's while the content repeats what an assistant said.
    retold = is_retold(quoted.content, quoted.label, texts)
    label: Label
    if retold:
        label = "verified_assistant_finding"
    else:
        label = quoted.label
    messages = {message.seq: message for message, _ in said_there}
    quoted_messages = [messages[span.seq] for span in found.spans]
    of_label: Trust
    if label == "verified_assistant_finding":
        of_label = "assistant"
    else:
        of_label = "user"
    return FoundEvidence(
        tuple(
            EntrySource(thread.thread_uid, span.seq, span.revision, span.starts, span.ends, label)
            for span in found.spans
        ),
        label,
        # An entry is trusted no more than the least trusted message that it quotes.
        find_lowest_trust([of_label, *map(find_trust, quoted_messages)]),
        max(message.said_at for message in quoted_messages),
        max(message.created_at for message in quoted_messages),
        found.unproven,
    )


def _describe(refused: EvidenceRefused, label: Label, thread_id: str) -> str:
    if refused.rule == "found":
        return (
            f"stands word for word in none of the {' or '.join(ROLES_OF[label])} messages of conversation {thread_id!r} "
            f"(the newest {SEARCHED} are looked at): quote one exactly, or leave evidence out, and it is kept as your word"
        )
    return f"{refused.reason}; or leave evidence out, and it is kept as your word"


async def _read_said(
    tx: Tx, engine: Engine, scope: Scope, thread_id: str, most: int
) -> list[tuple[Message, EvidenceText]]:
    """The newest messages of users and agents, the first first, and what each says."""
    page = await message_pages.page(tx, scope, thread_id, roles=["user", "assistant"], limit=most)
    ordered = sorted(page.messages, key=lambda message: message.seq)
    texts = [
        EvidenceText(message.seq, message.revision, find_evidence_role(message), said(engine, message))
        for message in ordered
    ]
    return list(zip(ordered, link_replies(texts), strict=True))
