"""Newer lines: the messages and notes of a thread since its session memory was last changed. They stand below the
document until the document is brought up to date, and beside each line that they deny. The stored document stays as it
is."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from layerlore.memory.documents.document_lines import NewerRow, list_lines
from layerlore.memory.language.sentences import (
    LONGEST,
    Sentence,
    bound_text,
    read_of_person,
    shorten,
    split_sentences,
)
from layerlore.memory.language.statements import contradicts, is_other_value, read_statement, rejects_value
from layerlore.memory.rules.ages import day, iso
from layerlore.memory.text.echoes import strip_echoes
from layerlore.memory.text.quotation import quote_line
from layerlore.memory.text.trust import describe_speaker, find_trust
from layerlore.storage.core import linear_re
from layerlore.storage.core.records import Message, Scope, Thread
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import session_notes, working_memory
from layerlore.storage.derived.session_notes import Note
from layerlore.storage.derived.working_memory import DocumentHistory, Version
from layerlore.storage.messages import message_pages
from layerlore.storage.threads import threads

BY_A_JOB = "session_document/"
"""The prefix of the tool name of a version that background work wrote."""
# Only the newest user messages are read, so that a context costs the same however long a document was left alone.
_MOST_READ = 40
_MOST_SAID = 6
_MOST_NOTED = 12
_MARK_CHARS = 120
_MOST_OTHER_WORDS = 6
# "Deadline: 1 December" says that the deadline is the 1 December.
_LABEL = linear_re.compile(r"([\p{L}\p{N}][^:.!?]{0,40}):\s+(\S.*)", engine="regex")


NewerKind = Literal["note", "correction", "statement", "word"]
"""The kind of a newer line: a note; a user's sentence that corrects something; one that rules, decides or gives a
value; or any other, which is shown only beside a line that it denies."""


@dataclass(frozen=True, slots=True)
class NewerLine:
    """A sentence of the user, or a note that waits to be written into the document. ``by``: its message and speaker, or
    the messages that were noted."""

    said_at: int
    seq: int
    by: str
    text: str
    kind: NewerKind


@dataclass(frozen=True, slots=True)
class MarkedContent:
    """The content with a mark on each line that a newer one denies, the newer lines that stand in no mark, and by each
    newer line the line that it denies."""

    text: str
    others: tuple[NewerLine, ...]
    denied: dict[NewerLine, str]


async def read_newer(tx: Tx, scope: Scope, thread: Thread, changed: Version | None) -> tuple[NewerLine, ...]:
    """Read what is newer than the current version of a thread's session memory: the notes that wait, and the user's
    words behind them."""
    if changed is None or not changed.content:
        return ()
    since = find_since(changed)
    queued = await session_notes.queued(tx, scope, thread.thread_uid)
    noted = [note for note in queued if note.created_at > since][-_MOST_NOTED:]
    cursor = await threads.read_cursor(tx, scope, thread.thread_uid, "session_seq")
    said = await message_pages.read_newest_of_users(
        tx, scope, thread, after=cursor, created_after=since, most=_MOST_READ
    )
    return (*map(_show_note, noted), *list_said(said))


async def read_with_newer(
    tx: Tx, scope: Scope, thread_id: str, version: int
) -> tuple[DocumentHistory, tuple[NewerLine, ...]]:
    """Read a document and its versions, as ``working_memory.read_history`` does, with what is newer. Raises NotFound."""
    kept = await working_memory.read_history(tx, scope, thread_id, version=version)
    # An earlier version is shown as it was.
    if version or not thread_id:
        return kept, ()
    return kept, await read_newer(tx, scope, await threads.find(tx, scope, thread_id), kept.newest)


def find_since(changed: Version) -> int:
    """The time (ms since 1970) after which messages and notes are newer than the document. A caller has seen all
    messages before its change; background work only those that its cursor covers."""
    if changed.tool.startswith(BY_A_JOB):
        return 0
    return changed.created_at


def _show_note(note: Note) -> NewerLine:
    if note.from_seq == note.to_seq:
        place = f"#{note.from_seq}"
    else:
        place = f"#{note.from_seq}-{note.to_seq}"
    return NewerLine(note.created_at, note.to_seq, f"noted from {place}", note.text, "note")


def list_said(messages: Sequence[Message]) -> list[NewerLine]:
    """The sentences with which a user states something, in their order."""
    said = [message for message in messages if find_trust(message) == "user"]
    found: list[NewerLine] = []
    for message in said:
        by = f"#{message.seq} {describe_speaker(message)}"
        for part in message.parts:
            if part["type"] == "text":
                found += [
                    NewerLine(message.said_at, message.seq, by, text, kind) for text, kind in _read_said(part["text"])
                ]
    return found


@lru_cache(maxsize=1024)
def _read_said(text: str) -> tuple[tuple[str, NewerKind], ...]:
    # Blocks that came from this memory are not the user's words.
    sentences = read_of_person(bound_text(strip_echoes(text)))
    return tuple((shorten(each.text), _find_kind(each)) for each in sentences if not each.question and not each.pasted)


def _find_kind(sentence: Sentence) -> NewerKind:
    if not sentence.kinds.isdisjoint(("correction", "amending")):
        return "correction"
    if sentence.ruling or sentence.values or "decision" in sentence.kinds:
        return "statement"
    return "word"


def corrects_document(messages: Sequence[Message], content: str, *, is_json: bool) -> bool:
    """Whether a user's words put something right, or deny a line of the document."""
    said = list_said(messages)
    return any(line.kind == "correction" for line in said) or bool(
        mark_denied(content, tuple(said), is_json=is_json).denied
    )


def mark_denied(content: str, newer: tuple[NewerLine, ...], *, is_json: bool) -> MarkedContent:
    """Mark the lines of a document that newer ones deny. A mark would make JSON unreadable, so there they are only
    found."""
    by_line: dict[str, NewerLine] = {}
    # The newest is the last and holds.
    for each in newer:
        by_line.update(dict.fromkeys(_find_denied(content, is_json, each.text, each.kind), each))
    denied = {denying: line for line, denying in by_line.items()}
    if is_json:
        return MarkedContent(content, _choose(newer, denied), denied)
    text = "".join(_mark(line, by_line.get(line.strip())) for line in content.splitlines(keepends=True))
    return MarkedContent(text, _choose([line for line in newer if line not in denied]), denied)


def _mark(line: str, newer: NewerLine | None) -> str:
    if newer is None:
        return line
    written = line.rstrip()
    return f"{written} (newer, {describe_denial(newer)}){line[len(written) :]}"


def find_denial(line: str, newer: Sequence[NewerLine]) -> NewerLine | None:
    """The newest of the lines that deny a line of a document; None if no line does."""
    return next((each for each in reversed(newer) if _find_denied(line, False, each.text, each.kind)), None)


def describe_denial(newer: NewerLine) -> str:
    """The day of a newer line and its text: ``2026-11-28: No, 8 December, not 1 December.``"""
    return f"{day(newer.said_at)}: {shorten(quote_line(newer.text), _MARK_CHARS)}"


def _choose(newer: Sequence[NewerLine], needed: Collection[NewerLine] = ()) -> tuple[NewerLine, ...]:
    """The lines to show below the document, newest last: those that are ``needed``, the notes, and of the user's other
    sentences the newest, but those first that correct something."""
    said = [line for line in newer if line.kind in ("correction", "statement") and line not in needed]
    said.sort(key=lambda line: (line.kind == "correction", line.seq))
    chosen = {*needed, *said[-_MOST_SAID:]}
    return tuple(sorted((line for line in newer if line.kind == "note" or line in chosen), key=lambda line: line.seq))


def list_newer(marked: MarkedContent) -> list[NewerRow]:
    """The newer lines as an answer has them, each with the line of the document that it denies."""
    rows: list[NewerRow] = []
    for line in sorted({*marked.denied, *marked.others}, key=lambda line: line.seq):
        row: NewerRow = {"said_at": iso(line.said_at), "by": line.by, "text": line.text}
        if line in marked.denied:
            row["denies"] = marked.denied[line]
        rows.append(row)
    return rows


def render_newer(lines: Sequence[NewerLine], seen_after: int | None = None) -> str:
    """Render the lines that stand below a document; "" without any. ``seen_after``: the reader sees the messages after
    this seq elsewhere."""
    unseen = [line for line in lines if seen_after is None or line.seq <= seen_after]
    if not unseen:
        return ""
    shown = [f"- {day(line.said_at)}, {line.by}: {quote_line(line.text)}" for line in unseen]
    return "\n".join(["Newer than this document:", *shown])


# Each turn brings one more message, so that most of what a context compares was compared for the last one.
@lru_cache(maxsize=4096)
def _find_denied(content: str, is_json: bool, newer: str, kind: NewerKind) -> tuple[str, ...]:
    """The lines of a document that a newer line denies."""
    words = _find_keys(newer)
    # Statements of the same thing share their beginning, and differ in a short value.
    near = [
        (line, known)
        for line, known, keys in _read_document(content, is_json)
        if len(words & keys) > 1 and len(keys - words) <= _MOST_OTHER_WORDS
    ]
    denied = tuple(line for line, known in near if contradicts(newer, known) or is_other_value(newer, known))
    if denied or kind != "correction":
        return denied
    rejected = {line for line, known, _ in _read_document(content, is_json) if rejects_value(newer, known)}
    # Where the old value stands in several lines, the one that is meant cannot be known.
    if len(rejected) == 1:
        return tuple(rejected)
    return ()


@lru_cache(maxsize=64)
def _read_document(content: str, is_json: bool) -> tuple[tuple[str, str, frozenset[str]], ...]:
    """The statements of a document: each with its line, and with its words."""
    return tuple(
        (line, known, _find_keys(known))
        for line in list_lines(content, is_json=is_json)
        for known in _list_statements(line)
    )


def _find_keys(text: str) -> frozenset[str]:
    return frozenset(word.key for word in read_statement(text).words)


def _list_statements(line: str) -> list[str]:
    """The sentences of a line. A label and its value are one statement, and the value alone is another."""
    if len(line) > 4 * LONGEST:
        return []
    found: list[str] = []
    for sentence in split_sentences(line):
        found.append(sentence)
        rest = sentence
        # A heading may stand before the label: "Facts: Deadline: 1 December".
        while label := _LABEL.fullmatch(rest):
            rest = label[2]
            found += [f"{label[1]} is {rest}", rest]
    return found
