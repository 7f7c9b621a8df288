"""Requests to forget: entries by their ids, or everything about a query once a preview of it was confirmed.

An answer is a structure, which ``forget_text`` puts into words. A preview keeps what it showed under a token, as places
and fingerprints, so that confirming it removes exactly that.
Messages are deleted as ``delete_messages`` does it, with all that was made from them."""

import base64
import hashlib
import hmac
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NotRequired

from layerlore.memory.documents import document_lines
from layerlore.memory.engine.engine import Engine, UndoId, WriteRequest, make_undo_id, record_act
from layerlore.memory.language.topics import Topic, find_topic
from layerlore.memory.parts.parts import plain_text
from layerlore.memory.recall.recall import RecallRequest, find_hits, prepare_recall
from layerlore.memory.recall.results import RecallResult
from layerlore.memory.removal.deletion import record_deletion
from layerlore.memory.removal.removal_answers import (
    FORGOTTEN_KINDS,
    ForgetItem,
    ForgetPreviewAnswer,
    ForgottenAnswer,
    ForgottenMemory,
    KeptPlaceRow,
)
from layerlore.memory.rules.ages import day, iso
from layerlore.memory.rules.validation import check_id, check_text
from layerlore.memory.settings.note_settings import DocumentScope
from layerlore.memory.text.quotation import join_lines, quote_line, quote_text
from layerlore.memory.text.trust import describe_speaker
from layerlore.storage.core import scopes
from layerlore.storage.core.errors import InvalidInput, NotFound
from layerlore.storage.core.records import DAY_MS, ROLES, Message, Scope, StoredJson, Thread, Whose
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import entries, note_rows, observations, working_memory
from layerlore.storage.derived import observations as observation_sources
from layerlore.storage.messages import message_pages
from layerlore.storage.removal import deletions, forget_candidates
from layerlore.storage.removal.acts import ActPart
from layerlore.storage.removal.forget_candidates import KeptPlace, NoteCandidate, PlaceKind, WrittenDocument
from layerlore.storage.threads import events, threads
from layerlore.storage.threads.events import NewEvent

MOST_HITS = 50
"""Entries and messages in one preview."""
MOST_PLACES = 10
"""Places in one preview that a forget does not change."""
# The number of the newest titles, plans, attempts and runs that are searched.
_PLACES_LOOKED_AT = 200
# This many are examined: most of what a recall finds is not about the query, however well it ranks.
_LOOKED_AT = 200
# An entry without a word of the query must come this near to the best hit of a sure recall.
_BY_MEANING = 0.8


@dataclass(frozen=True, slots=True)
class ForgetPreview:
    """A preview of what would be forgotten. ``lines`` are those of each document that are about the query. ``kept``:
    places that are about it and stay as they are, each with its first text that is. ``more``: how many entries and
    messages were found beyond MOST_HITS."""

    entries: list[Message] = field(default_factory=list)
    messages: list[Message] = field(default_factory=list)
    observations: list[NoteCandidate] = field(default_factory=list)
    lines: list[tuple[WrittenDocument, list[str]]] = field(default_factory=list)
    kept: list[tuple[KeptPlace, str]] = field(default_factory=list)
    more: int = 0

    @property
    def nothing(self) -> bool:
        return not (self.entries or self.messages or self.observations or self.lines)


async def search(engine: Engine, scope: Scope, query: str) -> ForgetPreview:
    """Search one memory for what is about a query."""
    topic = find_topic(query)
    request = RecallRequest([query], limit=_LOOKED_AT, neighbours=False, min_score=0.0)
    # Without what a recall shows beside: an entry that says otherwise is not what is to be forgotten.
    recalled = await engine.database.read(find_hits, scope, await prepare_recall(engine, scope, request, engine.recall))
    noted = await engine.database.read(forget_candidates.list_notes, scope)
    written = await engine.database.read(forget_candidates.list_documents, scope)
    places = await engine.database.read(forget_candidates.list_kept_places, scope, most=_PLACES_LOOKED_AT)
    # Notes are searched below, all of them.
    about = [hit for hit in recalled.hits if not hit.is_note and topic.covers(show_text(hit.message))]
    found = [hit.message for hit in about if hit.is_entry] or _find_by_meaning(topic, recalled)
    spoken = [hit.message for hit in about if not hit.is_entry]
    return ForgetPreview(
        found[:MOST_HITS],
        spoken[: MOST_HITS - len(found[:MOST_HITS])],
        [each for each in noted if topic.covers(each.text)],
        [
            (each, some)
            for each in written
            if (some := [line for line in _list_lines(engine, each) if topic.covers(line)])
        ],
        [(each, text) for each in places if (text := _find_in_place(topic, each))],
        max(0, len(found) + len(spoken) - MOST_HITS),
    )


def _find_in_place(topic: Topic, place: KeptPlace) -> str:
    """The first text of a place that is about a topic; empty if none is."""
    for text in place.texts:
        lines = document_lines.list_lines(text, is_json=text.startswith("{"))
        if found := next((line for line in lines if topic.covers(line)), None):
            return found
    # An attempt is one story in several texts, and the query may have words of more than one.
    if place.kind == "attempt":
        whole = " ".join(place.texts)
    else:
        whole = ""
    if topic.covers(whole):
        return whole
    return ""


def _find_by_meaning(topic: Topic, recalled: RecallResult) -> list[Message]:
    """The entries that surely mean the query, though they have none of its words: *dentist* for *dental appointment*."""
    hits = recalled.hits
    if not (topic.by_meaning and hits and recalled.confidence == "sure" and "semantic" in recalled.signals):
        return []
    least = _BY_MEANING * hits[0].score
    return [
        hit.message
        for hit in hits
        if hit.is_entry and hit.score >= least and not topic.resembles(show_text(hit.message))
    ]


def _list_lines(engine: Engine, written: WrittenDocument) -> list[str]:
    as_json = is_json(engine, "thread" if written.thread_uid else "resource")
    return document_lines.list_lines(written.content, is_json=as_json)


def is_json(engine: Engine, of: DocumentScope) -> bool:
    """Whether documents of this scope are JSON."""
    return engine.working_memory.of(of).format == "json"


def show_text(message: Message) -> str:
    """The text of a message or an entry in one line."""
    return join_lines(plain_text(message.parts, quote_text))


_SHOWN_CHARS = 160
# The tools that change the places that forget does not touch.
_CHANGED_BY: dict[PlaceKind, str] = {
    "title": "update_thread changes it",
    "metadata": "update_thread changes it",
    "plan": "plan changes it; its revisions go with delete_thread",
    "attempt": "it goes with delete_thread",
    "run": "it goes with delete_thread; complete_run or cancel_run ends it",
}


async def forget(
    engine: Engine, scope: Scope, *, ids: Sequence[str], query: str, confirm: str, sent: WriteRequest
) -> ForgetPreviewAnswer | ForgottenAnswer:
    """Forget entries, preview what is about a query, or do what a preview showed.

    In a project this reaches the person's memory, too, and each part of the answer says whose it is.

    Raises InvalidInput, LimitExceeded, NotFound (then nothing was forgotten).
    """
    if sum(map(bool, (ids, query.strip(), confirm))) != 1:
        raise InvalidInput("give one of: ids (of entries), query (shows what would go), confirm (the token it gave)")
    if query.strip():
        return await _preview(engine, scope, check_text(query, "query"))
    if confirm:
        token = check_id(confirm, "confirm", engine.limits.id_chars)
        return {"forgotten": await _confirm_both(engine, scope, token, sent)}
    for index, id_ in enumerate(ids):
        check_id(id_, f"ids[{index}]", engine.limits.id_chars)
    if scope.person:
        return {"forgotten": await _forget_of_both(engine, scope, ids, sent)}
    return {"forgotten": [await _forget_entries(engine, scope, ids, sent)]}


def _list_memories(scope: Scope) -> list[tuple[Scope, Whose]]:
    """The memories that a request to forget reaches, nearest first."""
    if scope.person:
        return [(scope, "project"), (scope.of_person, "you")]
    return [(scope, "")]


async def _forget_of_both(
    engine: Engine, scope: Scope, ids: Sequence[str], sent: WriteRequest
) -> list[ForgottenMemory]:
    """Forget entries of a project, of its person, or of both. Raises NotFound, then nothing was done: ids of both
    differ visibly."""
    own = await engine.database.read(entries.read_seen, scope, ids)
    persons = await engine.database.read(entries.read_seen, scope.of_person, ids)
    split = [[id_ for id_ in ids if id_ in own], [id_ for id_ in ids if id_ in persons and id_ not in own]]
    if all(split) and len(split[0]) + len(split[1]) == len(set(ids)):
        return [
            await _forget_entries(engine, of, some, sent)
            for of, some in zip((scope, scope.of_person), split, strict=True)
        ]
    # The ids are not all known: each call checks every id first, so nothing goes if one is wrong.
    try:
        return [await _forget_entries(engine, scope, ids, sent)]
    except NotFound:
        return [await _forget_entries(engine, scope.of_person, ids, sent)]


class _ForgetResult(UndoId):
    """How much was forgotten, and the places that are about it and stay."""

    entries: NotRequired[int]
    messages: NotRequired[int]
    observations: NotRequired[int]
    lines: NotRequired[int]
    titles: NotRequired[int]
    kept: NotRequired[list[tuple[PlaceKind, str]]]


async def _forget_entries(engine: Engine, scope: Scope, ids: Sequence[str], sent: WriteRequest) -> ForgottenMemory:
    now, wanted, undo_id = engine.now(), list(dict.fromkeys(ids)), make_undo_id(engine)

    async def write(tx: Tx) -> _ForgetResult:
        # The lock comes before the check, so that no other call changes these entries before they go.
        await scopes.hold(tx, scope)
        known = await entries.read_seen(tx, scope, wanted)
        if unknown := [id_ for id_ in wanted if id_ not in known]:
            raise NotFound(
                f"there is no entry {', '.join(map(repr, unknown[:5]))}; nothing was forgotten. recall_memory names the "
                "ids of entries; delete_messages deletes messages"
            )
        dropped = await _drop_entries(tx, engine, scope, wanted, sent, now)
        parts = [ActPart("dropped", id_) for id_ in wanted]
        return {
            "entries": dropped,
            **await record_act(tx, engine, scope, undo_id, sent.origin.tool, parts, now),
        }

    answer = await engine.write(scope, sent, [wanted, "", ""], now, write)
    return _present_result(engine, answer, now)


async def _drop_entries(tx: Tx, engine: Engine, scope: Scope, ids: Sequence[str], sent: WriteRequest, now: int) -> int:
    """Drop entries, in a transaction that holds the resource. Returns how many there were."""
    if not ids:
        return 0
    dropped = await entries.drop(tx, scope, ids, now=now)
    if engine.deleted_days == 0:
        await entries.erase(tx, scope, ids)
    happened = NewEvent("entries_changed", {"ids": list(ids)})
    await events.record_of_resource(tx, scope, happened, origin=sent.origin, now=now)
    return dropped


async def _preview(engine: Engine, scope: Scope, query: str) -> ForgetPreviewAnswer:
    # A model has to repeat the token without an error, so it has only 40 bits in 8 characters.
    token = base64.b32encode(hashlib.sha256(engine.new_id().encode()).digest()[:5]).decode().lower()
    answer: ForgetPreviewAnswer = {"items": [], "kept": [], "undo_days": engine.deleted_days}
    more_items = more_kept = 0
    for of, whose in _list_memories(scope):
        found = await search(engine, of, query)
        answer["kept"] += [_present_place(place, text, whose) for place, text in found.kept[:MOST_PLACES]]
        more_items += found.more
        more_kept += len(found.kept[MOST_PLACES:])
        if not found.nothing:
            chosen = _fingerprint_all(engine, found)
            await engine.database.write(forget_candidates.keep_chosen, of, token, chosen, now=engine.now())
            answer["items"] += _list_items(found, whose)
    if more_items:
        answer["more_items"] = more_items
    if more_kept:
        answer["more_kept"] = more_kept
    if answer["items"]:
        answer["confirm"] = token
    return answer


def _present_place(place: KeptPlace, text: str, whose: Whose) -> KeptPlaceRow:
    row: KeptPlaceRow = {
        "kind": place.kind,
        "thread_id": place.thread_id,
        "text": _shorten(quote_line(text)),
        "changed_by": _CHANGED_BY[place.kind],
    }
    if whose:
        row["whose"] = whose
    return row


def _list_items(found: ForgetPreview, whose: Whose) -> list[ForgetItem]:
    """Each thing that would be forgotten."""
    items: list[ForgetItem] = []
    for entry in found.entries:
        items.append({"kind": "entry", "id": entry.id, "text": _shorten(show_text(entry))})
    items += _list_messages(found.messages)
    for noted in found.observations:
        text = _shorten(quote_line(noted.text))
        items.append({"kind": "observation", "thread_id": noted.thread_id, "text": text})
    for written, lines in found.lines:
        for line in lines:
            item: ForgetItem = {"kind": "line", "text": _shorten(quote_line(line))}
            if written.thread_uid:
                item["thread_id"] = written.thread_id
            items.append(item)
    if whose:
        for item in items:
            item["whose"] = whose
    return items


def _list_messages(messages: Sequence[Message]) -> list[ForgetItem]:
    """The messages that would be forgotten. The other half of a tool call goes with it."""
    parts = [part for each in messages for part in each.parts]
    calls = {part["id"] for part in parts if part["type"] == "tool_call"}
    results = {part["tool_call_id"] for part in parts if part["type"] == "tool_result"}
    items: list[ForgetItem] = []
    for message in messages:
        item: ForgetItem = {
            "kind": "message",
            "thread_id": message.thread_id,
            "seq": message.seq,
            "speaker": describe_speaker(message),
            "day": day(message.said_at),
            "text": _shorten(show_text(message)),
        }
        if any(part["type"] == "tool_result" and part["tool_call_id"] not in calls for part in message.parts):
            item["other_half"] = "call"
        elif any(part["type"] == "tool_call" and part["id"] not in results for part in message.parts):
            item["other_half"] = "result"
        items.append(item)
    return items


def _fingerprint_all(engine: Engine, found: ForgetPreview) -> StoredJson:
    """The places and fingerprints of the things found; of messages the ids."""
    of_threads: dict[str, list[str]] = defaultdict(list)
    for message in found.messages:
        of_threads[message.thread_id].append(message.id)
    noted: dict[str, list[int]] = defaultdict(list)
    for each in found.observations:
        noted[each.thread_uid].append(each.observation_id)
    return {
        "entries": [each.id for each in found.entries],
        "messages": dict(of_threads),
        "observations": dict(noted),
        "lines": {written.thread_uid: [_fingerprint(engine, line) for line in some] for written, some in found.lines},
        "kept": [[place.kind, place.thread_id] for place, _ in found.kept[:MOST_PLACES]],
    }


def _fingerprint(engine: Engine, line: str) -> str:
    # The kept preview must not hold the text that is to be forgotten, so it has an HMAC of it.
    return hmac.new(engine.hmac_key, line.encode(), hashlib.sha256).hexdigest()[:32]


async def _confirm_both(engine: Engine, scope: Scope, token: str, sent: WriteRequest) -> list[ForgottenMemory]:
    """Do what a preview showed, of each memory that it showed something of. Raises NotFound."""
    done: list[ForgottenMemory] = []
    unknown: NotFound | None = None
    for of, whose in _list_memories(scope):
        try:
            result = await _confirm(engine, of, token, sent)
        except NotFound as error:
            unknown = error
            continue
        if whose:
            result["whose"] = whose
        done.append(result)
    if unknown is not None and not done:
        raise unknown
    return done


async def _confirm(engine: Engine, scope: Scope, token: str, sent: WriteRequest) -> ForgottenMemory:
    now = engine.now()
    # A delete for each thread, named beforehand.
    named: list[str] = [engine.new_id() for _ in range(MOST_HITS)]
    undo_id = make_undo_id(engine)

    async def write(tx: Tx) -> _ForgetResult:
        chosen = await forget_candidates.chosen_by(tx, scope, token.strip().lower())
        if chosen is None:
            raise NotFound(
                f"confirm: no preview gave {token!r}, or it is older than a day; nothing was forgotten: call forget "
                "with the query again"
            )
        act = _ForgetTransaction(tx, engine, scope, sent, now)
        seen = await entries.read_seen(tx, scope, chosen["entries"])
        # Every thread before the resource, and in one order, so that no two writers wait for each other.
        uids = {*chosen["observations"], *chosen["lines"], *await act.uids(chosen["messages"])} - {""}
        held = {uid: thread for uid in sorted(uids) if (thread := await threads.lock_uid(tx, scope, uid))}
        forgotten: _ForgetResult = {
            "messages": await act.messages(chosen["messages"], held.values(), named),
            "observations": await act.observations(chosen["observations"], held.keys()),
            "lines": await act.lines(chosen["lines"], held),
        }
        await act.entries(chosen["entries"])
        # An entry that rests on a message goes with it, and a title that was made of one, too.
        forgotten["entries"] = await act.count_gone({*seen, *act.rested})
        forgotten["titles"] = len(act.untitled)
        return {
            **forgotten,
            "kept": [each for each in chosen.get("kept", []) if each[0] != "title" or each[1] not in act.untitled],
            **await record_act(tx, engine, scope, undo_id, sent.origin.tool, act.parts, now),
        }

    answer = await engine.write(scope, sent, [[], "", token], now, write)
    return _present_result(engine, answer, now)


@dataclass(frozen=True, slots=True)
class _ForgetTransaction:
    """One transaction that forgets. Rows that are gone by now are skipped."""

    tx: Tx
    engine: Engine
    scope: Scope
    sent: WriteRequest
    now: int
    parts: list[ActPart] = field(default_factory=list)
    """What was done so far that can be undone."""
    rested: set[str] = field(default_factory=set)
    """The ids of the entries that rested on the messages."""
    untitled: set[str] = field(default_factory=set)
    """The threads whose title was made of one of the messages."""

    async def uids(self, of_threads: Iterable[str]) -> set[str]:
        found = set()
        for thread_id in of_threads:
            try:
                found.add((await threads.find(self.tx, self.scope, thread_id)).thread_uid)
            except NotFound:
                continue
        return found

    async def messages(self, of_threads: dict[str, list[str]], held: Iterable[Thread], named: Sequence[str]) -> int:
        gone = 0
        live = {thread.thread_id: thread for thread in held}
        for deletion_uid, (thread_id, ids) in zip(named, of_threads.items(), strict=False):
            if thread_id not in live:
                continue
            there = await message_pages.ids_there(self.tx, self.scope, live[thread_id].thread_uid, ids)
            if not there:
                continue
            deleted = await deletions.delete_messages(
                self.tx,
                self.scope,
                thread_id,
                "ids",
                ids=there,
                roles=ROLES,
                deletion_uid=deletion_uid,
                erase=self.engine.deleted_days == 0,
                now=self.now,
                search_text=self.engine.search_text_of,
            )
            await record_deletion(self.tx, self.scope, deleted, self.sent.origin, now=self.now)
            self.parts.append(ActPart("deletion", deletion_uid, live[thread_id].thread_uid))
            self.rested.update(deleted.entries)
            if "title" in deleted.fell_back:
                self.untitled.add(thread_id)
            gone += len(deleted.messages)
        return gone

    async def observations(self, of_threads: dict[str, list[int]], held: Iterable[str]) -> int:
        gone = 0
        for uid in held:
            if ids := of_threads.get(uid):
                there = await observations.read(self.tx, self.scope, uid, "active", "buffered")
                wanted = {each.observation_id for each in there} & set(ids)
                await observation_sources.erase(self.tx, self.scope, uid, wanted)
                await note_rows.refresh(self.tx, self.scope, uid, self.engine.search_text_of, ("observation",))
                gone += len(wanted)
        return gone

    async def lines(self, of_documents: dict[str, list[str]], held: dict[str, Thread]) -> int:
        gone = 0
        for uid, prints in of_documents.items():
            if uid and uid not in held:
                continue
            if uid:
                thread_id = held[uid].thread_id
            else:
                thread_id = ""
            gone += await self._cut(thread_id, uid, set(prints))
        return gone

    async def _cut(self, thread_id: str, uid: str, prints: set[str]) -> int:
        """Clear a document and write what is left of it: its earlier versions are hidden, and go when their time has
        come."""
        kept = await working_memory.read_current(self.tx, self.scope, thread_id)
        if kept is None:
            return 0
        as_json = is_json(self.engine, "thread" if thread_id else "resource")
        there = document_lines.list_lines(kept.content, is_json=as_json)
        matched = sum(_fingerprint(self.engine, line) in prints for line in there)
        if not matched:
            return 0
        left = document_lines.remove_lines(
            kept.content, lambda line: _fingerprint(self.engine, line) in prints, is_json=as_json
        )
        version = kept.version
        for how, content in (("clear", ""), ("replace", left)):
            if how == "clear" or content:
                changed = await working_memory.change(
                    self.tx,
                    self.scope,
                    thread_id,
                    lambda *_, content=content: content,
                    how="clear" if how == "clear" else "replace",
                    expected_version=None,
                    erase=how == "clear" and self.engine.deleted_days == 0,
                    origin=replace(self.sent.origin, tool=working_memory.FORGETTING),
                    new_uid="",
                    now=self.now,
                )
                if changed.after:
                    version = changed.after.version
        await note_rows.refresh(
            self.tx, self.scope, uid, self.engine.search_text_of, ("session_memory",) if uid else ("profile",)
        )
        self.parts.append(ActPart("document", "", uid or None, kept.version, version))
        return matched

    async def entries(self, ids: Sequence[str]) -> None:
        await scopes.hold(self.tx, self.scope)
        there = sorted(await entries.read_seen(self.tx, self.scope, ids))
        self.parts.extend(ActPart("dropped", id_) for id_ in there)
        await _drop_entries(self.tx, self.engine, self.scope, there, self.sent, self.now)

    async def count_gone(self, ids: Iterable[str]) -> int:
        """How many of these entries are seen no more."""
        wanted = sorted(ids)
        return len(set(wanted) - set(await entries.read_seen(self.tx, self.scope, wanted)))


def _present_result(engine: Engine, answer: _ForgetResult, now: int) -> ForgottenMemory:
    """The counts that are not 0, the places that stay, each once, and until when it can be undone."""
    shown: ForgottenMemory = {"kept": []}
    for kind, thread_id in dict.fromkeys((kind, thread_id) for kind, thread_id in answer.get("kept", [])):
        shown["kept"].append({"kind": kind, "thread_id": thread_id, "changed_by": _CHANGED_BY[kind]})
    for name in FORGOTTEN_KINDS:
        if number := answer.get(name):
            shown[name] = number
    if any(name in shown for name in FORGOTTEN_KINDS) and engine.deleted_days:
        shown["erased_after"] = iso(now + engine.deleted_days * DAY_MS)
        if undo_id := answer.get("undo"):
            shown["undo"] = undo_id
    return shown


def _shorten(text: str) -> str:
    if len(text) <= _SHOWN_CHARS:
        return text
    return text[:_SHOWN_CHARS] + "…"
