"""The user profile: what lasts of what users say of themselves, kept current after each turn."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from layerlore.extraction import documents
from layerlore.extraction.heard import check_same, earlier, heard, locked
from layerlore.extraction.kind import Claim, Kind, Material, Refused, Stale, Thinker
from layerlore.extraction.transcript import Line, transcript
from layerlore.memory.engine import Engine
from layerlore.memory.evidence import Said, find
from layerlore.memory.trust import trust_of
from layerlore.memory.working_memory import Document
from layerlore.prompts import render
from layerlore.storage import messages_behind, thread_cursors, threads, working_memory
from layerlore.storage.document_sources import DocumentSource
from layerlore.storage.records import Json, Message, Thread
from layerlore.storage.transaction import Tx

MOST_MESSAGES = 100

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

    async def prepare(self, tx: Tx, claim: Claim, engine: Engine) -> Material | None:
        """The profile, and what was spoken behind the cursor up to the claim's seq; None when no user said anything
        there."""
        thread = await threads.find_uid(tx, claim.scope, claim.thread_uid)
        if thread is None:
            return None
        began = await thread_cursors.read(tx, claim.scope, claim.thread_uid, "profile_seq")

        async def read(after: int) -> list[Message]:
            return await messages_behind.spoken(
                tx, claim.scope, thread, after=after, upto=claim.seq, most=MOST_MESSAGES
            )

        found = await heard(read, engine, began, most=MOST_MESSAGES, wanted=_a_user_speaks)
        if found is None:
            return None
        before = await earlier(tx, engine, claim.scope, thread, found.messages[0].seq)
        stored = await working_memory.current(tx, claim.scope, "")
        document = Document("resource", "", engine.working_memory.of("resource"), stored)
        content: Json = {
            "profile": documents.shown(document),
            "earlier": transcript(before),
            "messages": transcript(found.lines),
        }
        basis = Basis(
            began,
            found.read_from,
            found.messages[-1].seq if found.more else claim.seq,
            found.messages,
            tuple(_said_by_users(found.messages, found.lines)),
            document,
            found.more,
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
        self, tx: Tx, claim: Claim, engine: Engine, material: Material, result: Readied, by: Thinker
    ) -> int | None:
        """Store the profile, if it changed, and move the cursor. Raises Stale when messages, the cursor or the profile
        are not as they were."""
        basis: Basis = material.basis
        thread = await _unchanged(tx, claim, basis)
        if result.content is not None:
            source = DocumentSource(thread.thread_uid, basis.messages[0].seq, basis.messages[-1].seq)
            await documents.store(tx, claim, thread, basis.document, result.content, [source], by, now=result.now)
        await thread_cursors.move(tx, claim.scope, claim.thread_uid, "profile_seq", basis.ended)
        return basis.ended if basis.more else None

    def digested(self, material: Material) -> Json | None:
        """The profile waits for a model."""
        return None


def _a_user_speaks(lines: Sequence[Line]) -> bool:
    return any(line.role == "user" for line in lines)


def _said_by_users(messages: Sequence[Message], lines: Sequence[Line]) -> list[Said]:
    """What is a user's own word: what tools bring under a user's name is not."""
    trusted = {message.seq: message for message in messages if trust_of(message) == "user"}
    return [Said(line.seq, trusted[line.seq].revision, line.role, line.text) for line in lines if line.seq in trusted]


async def _unchanged(tx: Tx, claim: Claim, basis: Basis) -> Thread:
    """The thread, locked, if the cursor and the messages behind it are as they were given."""
    thread = await locked(tx, claim)
    if await thread_cursors.read(tx, claim.scope, claim.thread_uid, "profile_seq") != basis.began:
        raise Stale("others read these messages meanwhile")
    last = basis.messages[-1].seq
    now = await messages_behind.spoken(
        tx, claim.scope, thread, after=basis.read_from, upto=last, most=len(basis.messages) + 1
    )
    check_same(now, basis.messages)
    return thread
