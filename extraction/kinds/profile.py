"""The writer of the user profile: lasting facts that users state about themselves, kept current after each turn."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from layerlore.extraction.kinds import documents
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
    TranscriptLine,
    TurnPart,
    lines_as_json,
    lock_spoken,
    read_earlier,
    read_new,
)
from layerlore.memory.documents.document_lines import list_lines
from layerlore.memory.documents.working_memory import WorkingMemoryDocument, parse_value
from layerlore.memory.engine.engine import Engine
from layerlore.memory.entries.evidence import EvidenceText
from layerlore.memory.entries.proof import EvidenceRefused, list_quotations, list_unproven, prove
from layerlore.memory.text.trust import find_trust
from layerlore.prompts import render
from layerlore.storage.core.records import Message
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import working_memory
from layerlore.storage.derived.working_memory import DocumentSource
from layerlore.storage.messages import message_pages
from layerlore.storage.threads import threads

MOST_MESSAGES = 100

_QUOTATIONS: JsonSchema = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
SCHEMA: JsonSchema = {
    "type": "object",
    "additionalProperties": False,
    "required": ["changed", "evidence", "document"],
    "properties": {
        "changed": {"type": "boolean"},
        "evidence": _QUOTATIONS,
        "document": {"type": "string"},
    },
}
# In a job about a turn, null says that nothing changes.
_MEMBER: JsonSchema = {
    "type": ["object", "null"],
    "additionalProperties": False,
    "required": ["document", "evidence"],
    "properties": {"document": {"type": ["string", "object"]}, "evidence": _QUOTATIONS},
}


@dataclass(frozen=True, slots=True)
class ProfileInput:
    """The messages that the profile is updated from, and the present profile.

    ``began``: the cursor; ``read_from``: the seq after which reading began (no user speaks in between); ``ended``: where
    the cursor moves to. ``said``: what users say in the messages. ``more``: further messages follow.
    """

    began: int
    read_from: int
    ended: int
    messages: tuple[Message, ...]
    said: tuple[EvidenceText, ...]
    document: WorkingMemoryDocument
    more: bool


@dataclass(frozen=True, slots=True)
class ProfileAnswer:
    """A profile that a model wrote, and the words of a user for which it changes."""

    content: str
    quotations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ProfileResult:
    """The new profile, or None if it stays as it is; and the time (ms since 1970). ``repeated``: the answer is what the
    profile says already; ``refused``: why what was answered is not kept; ``unproven``: the numbers of new lines with a name or
    number that no user says."""

    content: str | None
    now: int
    repeated: bool = False
    refused: tuple[str, ...] = ()
    unproven: tuple[int, ...] = ()


class ProfileWriter:
    """Kind ``profile``: reads a thread's turns and writes the one document of its resource."""

    name: Kind = "profile"

    async def prepare(self, tx: Tx, claim: Claim, engine: Engine) -> Material | None:
        """The profile, and the messages after the cursor up to the claim's seq; None when no user says anything there."""
        thread = await threads.find_uid(tx, claim.scope, claim.thread_uid)
        if thread is None:
            return None
        began = await threads.read_cursor(tx, claim.scope, claim.thread_uid, "profile_seq")

        async def read(after: int) -> list[Message]:
            return await message_pages.read_spoken(
                tx, claim.scope, thread, after=after, upto=claim.seq, most=MOST_MESSAGES
            )

        # Only users describe themselves, so messages without their words are passed over.
        found = await read_new(
            read, engine, began, most=MOST_MESSAGES, wanted=lambda lines: any(line.role == "user" for line in lines)
        )
        if found is None:
            return None
        before = await read_earlier(tx, engine, claim.scope, thread, found.messages[0].seq)
        stored = await working_memory.read_current(tx, claim.scope, "")
        document = WorkingMemoryDocument("resource", "", engine.working_memory.of("resource"), stored)
        content: JobMaterial = {
            "profile": parse_value(document),
            "earlier": lines_as_json(before),
            "messages": lines_as_json(found.lines),
        }
        inputs = ProfileInput(
            began,
            found.read_from,
            found.messages[-1].seq if found.more else claim.seq,
            found.messages,
            tuple(_said_by_users(found.messages, found.lines)),
            document,
            found.more,
        )
        form = documents.describe_form(engine, document)
        prompt = render("profile", form=form)
        given = {"profile": content["profile"]}
        turn = TurnPart({"profile": form}, _MEMBER, _read_member, given, found.lines, tuple(before))
        text = json.dumps(content, ensure_ascii=False)
        return Material(prompt.text, text, SCHEMA, prompt.version, inputs, turn=turn, again=claim.attempts > 0)

    def read(self, answer: ModelAnswer, material: Material) -> ProfileAnswer | None:
        """The new profile and what is quoted for it, or None if it stays as it is. Raises AnswerRefused for another
        shape."""
        inputs: ProfileInput = material.inputs
        changed = answer.get("changed")
        if not isinstance(changed, bool):
            raise AnswerRefused("changed: must be true or false")
        if not changed:
            return None
        content = documents.read_document(answer, inputs.document)
        if not content:
            return None
        evidence = answer.get("evidence")
        if isinstance(evidence, str | list):
            quotations = list_quotations(evidence)
        else:
            quotations = []
        return ProfileAnswer(content, tuple(quotations))

    async def enrich(self, engine: Engine, material: Material, result: ProfileAnswer | None) -> ProfileResult:
        """Mask the profile, and find what is quoted for it. Raises AnswerRefused if the document's format, schema or limit
        does not take it; and once, if a quotation is refused: the second time nothing changes."""
        inputs: ProfileInput = material.inputs
        if result is None:
            return ProfileResult(None, engine.now())
        content = documents.fit_to_store(engine, inputs.document, result.content)
        # The same profile again needs no evidence.
        if content is None:
            return ProfileResult(None, engine.now(), repeated=True)
        # Only a user's own words may change the profile.
        found = prove("", result.quotations, "user_assertion", inputs.said)
        if not isinstance(found, EvidenceRefused):
            return ProfileResult(content, engine.now(), unproven=_list_unproven_lines(inputs, content))
        if not material.again:
            raise AnswerRefused(f"evidence: {found.reason}, or say that nothing changes")
        return ProfileResult(None, engine.now(), refused=(f"profile.evidence: {found.reason}; it stays as it is",))

    async def commit(
        self, tx: Tx, claim: Claim, engine: Engine, material: Material, result: ProfileResult, by: Author
    ) -> JobEnd:
        """Store the profile, if it changed, and move the cursor. Raises Stale when the messages, the cursor or the profile
        have changed."""
        inputs: ProfileInput = material.inputs
        thread = await lock_spoken(
            tx, claim, "profile_seq", began=inputs.began, read_from=inputs.read_from, messages=inputs.messages
        )
        if result.content is not None:
            source = DocumentSource(thread.thread_uid, inputs.messages[0].seq, inputs.messages[-1].seq)
            await documents.store_document(
                tx, engine, claim, thread, inputs.document, result.content, [source], by, now=result.now
            )
        # The cursor moves also without a change, or the same messages would be read again.
        await threads.move_cursor(tx, claim.scope, claim.thread_uid, "profile_seq", inputs.ended)
        return JobEnd(
            inputs.ended if inputs.more else None,
            kept=("profile",) if result.content is not None else (),
            duplicates=("profile: it says that already",) if result.repeated else (),
            unproven=tuple(f"profile: line {number}" for number in result.unproven),
        )


def _read_member(given: Any) -> ModelAnswer:
    if given is None:
        return {"changed": False, "evidence": "", "document": ""}
    return {"changed": True, **given}


def _said_by_users(messages: Sequence[Message], lines: Sequence[TranscriptLine]) -> list[EvidenceText]:
    """The users' own words. Text that tools bring under a user's name does not count."""
    revisions = {message.seq: message.revision for message in messages}
    trusted = {message.seq for message in messages if find_trust(message) == "user"}
    return [EvidenceText(line.seq, revisions[line.seq], line.role, line.text) for line in lines if line.seq in trusted]


def _list_unproven_lines(inputs: ProfileInput, content: str) -> tuple[int, ...]:
    """The numbers of the new lines with a name or number that neither a user nor the profile before says."""
    is_json = inputs.document.rules.format == "json"
    known = list_lines(inputs.document.content, is_json=is_json)
    # Lines that were there before, and those of the template, need no proof.
    there = {_fold(line) for line in (*known, *list_lines(inputs.document.rules.template, is_json=False))}
    texts = [*known, *(each.text for each in inputs.said)]
    new = (
        (number, line)
        for number, line in enumerate(list_lines(content, is_json=is_json), 1)
        if _fold(line) not in there and not line.startswith("#")
    )
    return tuple(number for number, line in new if list_unproven(line, texts))


def _fold(line: str) -> str:
    # A line that only got another bullet or full stop is not new.
    return " ".join(line.casefold().split()).strip(" .,;*-•")
