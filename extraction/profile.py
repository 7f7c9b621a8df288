"""The user profile: what lasts of what users say of themselves, kept current after each turn."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from memstrata.extraction import documents
from memstrata.extraction.kind import Claim, Kind, Material, Refused, Stale, Thinker
from memstrata.extraction.transcript import Line, lines_of, transcript, trust_of
from memstrata.memory.engine import Engine
from memstrata.memory.evidence import Said, find
from memstrata.memory.working_memory import Document
from memstrata.prompts import render
from memstrata.storage import document_cursors, entry_cursor, threads, working_memory
from memstrata.storage.document_sources import DocumentSource
from memstrata.storage.records import Json, Message, Thread
from memstrata.storage.transaction import Tx

MOST_MESSAGES = 100
MOST_CHARS = 40_000
"""Of what one job reads; the rest is the next one's. Of one message that alone is longer, the beginning."""
EARLIER = 6
EARLIER_CHARS = 1_000

SCHEMA: Json = {
    "type": "object",
    "additionalProperties": False,
    "required": ["changed", "evidence", "document"],
    "properties": {
        "changed": {"type": "boolean"},
        "evidence": {"type": "string"},
        "document": {"type": "string"},
    },
}


@dataclass(frozen=True, slots=True)
class Basis:
    """The cursor, where reading began (in what is between, no user says anything), the spoken messages behind it that
    were given, and what users say in them; the profile that there was. ``more``: there are others behind them.
    ``again``: an answer was refused before."""

    began: int
    read_from: int
    ended: int
    messages: tuple[Message, ...]
    said: tuple[Said, ...]
    document: Document
    more: bool
    again: bool


@dataclass(frozen=True, slots=True)
class Readied:
    """The new profile, or None if it stays as it is; and when (ms since 1970)."""

    content: str | None
    now: int


class Profile:
    """Kind ``profile``: of a thread's turns, for the one document of its resource."""

    name: Kind = "profile"
    source = "profile"

    async def prepare(self, tx: Tx, engine: Engine, claim: Claim) -> Material | None:
        """The profile, and what was spoken behind the cursor up to the claim's seq; None when no user said anything
        there."""
        thread = await threads.find_uid(tx, claim.scope, claim.thread_uid)
        if thread is None:
            return None
        began = await document_cursors.read(tx, claim.scope, claim.thread_uid, "profile_seq")
        found = await _spoken(tx, engine, claim, thread, began)
        if found is None:
            return None
        read_from, messages, lines, more = found
        earlier = await entry_cursor.spoken_before(tx, claim.scope, thread, upto=messages[0].seq - 1, most=EARLIER)
        before = [replace(line, text=line.text[-EARLIER_CHARS:]) for line in lines_of(engine, earlier, tools=False)]
        stored = await working_memory.current(tx, claim.scope, "")
        document = Document("resource", "", engine.working_memory.of("resource"), stored)
        content: Json = {
            "profile": documents.shown(document),
            "earlier": transcript(before),
            "messages": transcript(lines),
        }
        basis = Basis(
            began,
            read_from,
            messages[-1].seq if more else claim.seq,
            tuple(messages),
            tuple(_said_by_users(messages, lines)),
            document,
            more,
            claim.attempts > 0,
        )
        prompt = render("profile", form=documents.form(engine, document))
        return Material(prompt.text, json.dumps(content, ensure_ascii=False), SCHEMA, prompt.version, basis)

    def read(self, answer: Json, material: Material) -> str | None:
        """The new profile, or None if it stays as it is. Without a user's word for it nothing changes: that is Refused
        once, so that whoever answered can quote better."""
        basis: Basis = material.basis
        changed = answer.get("changed")
        if not isinstance(changed, bool):
            raise Refused("changed: must be true or false")
        if not changed:
            return None
        content = documents.read_document(answer, basis.document)
        if not content:
            return None
        evidence = answer.get("evidence")
        if not isinstance(evidence, str) or find(evidence, "user_assertion", basis.said) is None:
            if basis.again:
                return None
            raise Refused(
                'evidence: stands word for word in none of the user messages in "messages": quote the words for which '
                "the profile changes exactly, or answer with changed = false"
            )
        return content

    async def ready(self, engine: Engine, material: Material, result: str | None) -> Readied:
        """Fit to be stored. Raises Refused for what the document's format, schema or limit does not take."""
        basis: Basis = material.basis
        content = None if result is None else documents.fit_to_store(engine, basis.document, result)
        return Readied(content, engine.now())

    async def commit(
        self, tx: Tx, engine: Engine, claim: Claim, material: Material, result: Readied, by: Thinker
    ) -> int | None:
        """Store the profile, if it changed, and move the cursor. Raises Stale when messages, the cursor or the profile
        are not as they were."""
        basis: Basis = material.basis
        thread = await _unchanged(tx, claim, basis)
        if result.content is not None:
            source = DocumentSource(thread.thread_uid, basis.messages[0].seq, basis.messages[-1].seq)
            await documents.store(tx, claim, thread, basis.document, result.content, [source], by, now=result.now)
        await document_cursors.move(tx, claim.scope, claim.thread_uid, "profile_seq", basis.ended)
        return basis.ended if basis.more else None

    def digested(self, material: Material) -> Json | None:
        """The profile waits for a model."""
        return None


async def _spoken(
    tx: Tx, engine: Engine, claim: Claim, thread: Thread, began: int
) -> tuple[int, list[Message], list[Line], bool] | None:
    """Where reading began, as many messages as one job takes, what they say, and whether there are more. None when no
    user says anything."""
    while True:
        found = await entry_cursor.spoken_after(
            tx, claim.scope, thread, after=began, upto=claim.seq, most=MOST_MESSAGES
        )
        if not found:
            return None
        taken, lines = _fitting(found, {line.seq: line for line in lines_of(engine, found, tools=False)})
        if any(line.role == "user" for line in lines):
            return began, taken, lines, len(taken) < len(found) or len(found) == MOST_MESSAGES
        began = taken[-1].seq


def _fitting(found: Sequence[Message], told: dict[int, Line]) -> tuple[list[Message], list[Line]]:
    taken: list[Message] = []
    lines: list[Line] = []
    chars = 0
    for message in found:
        line = told.get(message.seq)
        chars += len(line.text) if line else 0
        if chars > MOST_CHARS and lines:
            break
        taken.append(message)
        if line:
            lines.append(replace(line, text=line.text[:MOST_CHARS]))
    return taken, lines


def _said_by_users(messages: Sequence[Message], lines: Sequence[Line]) -> list[Said]:
    """What is a user's own word: what tools bring under a user's name is not."""
    trusted = {message.seq: message for message in messages if trust_of(message) == "user"}
    return [Said(line.seq, trusted[line.seq].revision, line.role, line.text) for line in lines if line.seq in trusted]


async def _unchanged(tx: Tx, claim: Claim, basis: Basis) -> Thread:
    """The thread, locked, if the cursor and the messages behind it are as they were given."""
    thread = await threads.lock_uid(tx, claim.scope, claim.thread_uid)
    if thread is None:
        raise Stale("the thread was deleted")
    if await document_cursors.read(tx, claim.scope, claim.thread_uid, "profile_seq") != basis.began:
        raise Stale("others read these messages meanwhile")
    last = basis.messages[-1].seq
    now = await entry_cursor.spoken_after(
        tx, claim.scope, thread, after=basis.read_from, upto=last, most=len(basis.messages) + 1
    )
    if now != list(basis.messages):
        raise Stale("messages were changed or deleted meanwhile")
    return thread
