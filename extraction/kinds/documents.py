"""The two documents of working memory, as a model writes them: how one is requested, checked, and stored beside the
versions of callers."""

from collections.abc import Sequence

from layerlore.extraction.kinds.kind import AnswerRefused, Author, Claim, Stale
from layerlore.memory.documents.document_lines import list_lines
from layerlore.memory.documents.working_memory import (
    WorkingMemoryDocument,
    check_storable,
    parse_value,
    record_document_act,
)
from layerlore.memory.engine.engine import Engine, make_undo_id
from layerlore.memory.rules.json_schema import make_equality_key
from layerlore.memory.rules.validation import load_json
from layerlore.memory.settings.note_settings import DocumentRules
from layerlore.memory.text.echoes import strip_blocks
from layerlore.memory.text.quotation import join_lines, make_visible
from layerlore.prompts import render
from layerlore.storage.core.errors import Conflict, InvalidInput, LimitExceeded
from layerlore.storage.core.json_text import to_json
from layerlore.storage.core.records import Json, Origin, Thread
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import working_memory
from layerlore.storage.derived.working_memory import DocumentSource
from layerlore.storage.threads import events
from layerlore.storage.threads.events import NewEvent

# Mastra's rule for long texts: more than two fifths of all windows of this many characters occurred before.
_LONG, _WINDOW, _REPEATED = 2000, 200, 0.4
# The same within one note.
_NOTE, _NOTE_WINDOW, _NOTE_REPEATED = 200, 20, 0.6
# If there are this many notes or more, over half must differ.
_NOTES = 4


def clean_text(text: str) -> str:
    """Remove our own blocks, invisible characters, and what no database takes: NUL and lone surrogates."""
    return strip_blocks(make_visible(text.encode(errors="replace").decode()))


def clean_line(text: str, most: int) -> str:
    """Clean a text and put it on one line of at most ``most`` characters."""
    line = join_lines(clean_text(text))
    if len(line) <= most:
        return line
    return line[: most - 1] + "…"


def find_repetition(notes: Sequence[str]) -> str | None:
    """How notes repeat themselves, in words for their author; None if they do not."""
    normalized = [" ".join(note.lower().split()) for note in notes]
    distinct = len(set(normalized))
    if len(normalized) >= _NOTES and distinct <= len(normalized) / 2:
        return f"{len(normalized) - distinct} of {len(normalized)} notes repeat another one"
    for place, note in enumerate(normalized, 1):
        if len(note) >= _NOTE and _share_repeated(note, _NOTE_WINDOW) > _NOTE_REPEATED:
            return f"note {place} repeats itself"
    joined = "\n".join(normalized)
    if len(joined) >= _LONG and _share_repeated(joined, _WINDOW) > _REPEATED:
        return "the notes repeat long passages"
    return None


def _share_repeated(text: str, window: int) -> float:
    """The share of windows, one starting at each character, that occurred before."""
    count = len(text) - window + 1
    return 1 - len({text[at : at + window] for at in range(count)}) / count


# Values of a JSON document that say nothing.
_NOTHING = ("", "null", "[]", "{}", '""')


def describe_form(engine: Engine, document: WorkingMemoryDocument) -> str:
    """The format, template or schema, and size limit of a document, in words for a model."""
    rules = document.rules
    return render(
        "document_form",
        format=rules.format,
        template=rules.template,
        schema=rules.json_schema or None,
        most=engine.working_memory.max_bytes,
    ).text


def has_content(content: str, rules: DocumentRules) -> bool:
    """Whether a document holds anything beyond its template and headings."""
    if rules.format == "json":
        return any(line.partition(": ")[2] not in _NOTHING for line in list_lines(content, is_json=True))
    # Lines of the template say nothing by themselves.
    given = set(list_lines(rules.template, is_json=False))
    return any(
        line not in given and not line.startswith("#") and any(map(str.isalnum, line))
        for line in list_lines(content, is_json=False)
    )


def read_document(answer: Json, document: WorkingMemoryDocument) -> str:
    """The document in an answer, as text; "" if it is empty and the stored one is, too. Raises AnswerRefused."""
    given = answer.get("document")
    if isinstance(given, dict):
        given = to_json(given)
    if not isinstance(given, str):
        raise AnswerRefused("document: must be a string that holds the whole document")
    content = clean_text(given).strip()
    rules = document.rules
    if rules.format == "json" and content:
        _check_json(content)
    if not has_content(content, rules):
        # A model that returns an empty document has lost it. Storing that would wipe what is known.
        if has_content(document.content, rules):
            raise AnswerRefused(
                "document: there is nothing in it, but the present one has content: write the whole document"
            )
        return ""
    # If the stored document repeats itself already, a refusal would block every update.
    if _repeats(content, rules) and not _repeats(document.content, rules):
        raise AnswerRefused("document: it says the same again and again; say each thing once")
    return content


def _repeats(content: str, rules: DocumentRules) -> bool:
    return find_repetition(list_lines(content, is_json=rules.format == "json")) is not None


def _check_json(content: str) -> None:
    try:
        found = load_json(content, "document")
    except (ValueError, LimitExceeded):
        raise AnswerRefused("document: must be a JSON object, written as text") from None
    if not isinstance(found, dict):
        raise AnswerRefused("document: must be a JSON object, written as text")


def fit_to_store(engine: Engine, document: WorkingMemoryDocument, content: str) -> str | None:
    """Mask the secrets of a document and check its size and schema; None if it equals the stored one. Raises
    AnswerRefused."""
    try:
        made = check_storable(engine, document.scope, content)
    except LimitExceeded:
        most = engine.working_memory.max_bytes
        raise AnswerRefused(
            f"document: {len(content.encode()):,} bytes; at most {most:,} are allowed: write less"
        ) from None
    except InvalidInput as error:
        raise AnswerRefused(
            f"document: does not fit its JSON Schema at {_place(str(error), document.rules.json_schema)}"
        ) from None
    if _same(document, made):
        return None
    return made


def _place(violation: str, schema: Json | None) -> str:
    """Where a violation is, in names of the schema only: other names may be a person's words."""
    known = to_json(schema or {})
    names = violation.partition(":")[0].split(".")[1:]
    kept: list[str] = []
    for name in names:
        if f'"{name.partition("[")[0]}"' not in known:
            break
        kept.append(name)
    return ".".join(kept) or "its top level"


def _same(document: WorkingMemoryDocument, made: str) -> bool:
    if document.content.strip() == made.strip():
        return True
    if document.rules.format != "json" or not document.content:
        return False
    stored = parse_value(document)
    return isinstance(stored, dict) and make_equality_key(stored) == make_equality_key(load_json(made, "document"))


async def store_document(
    tx: Tx,
    engine: Engine,
    claim: Claim,
    thread: Thread,
    document: WorkingMemoryDocument,
    content: str,
    sources: Sequence[DocumentSource],
    by: Author,
    *,
    now: int,
) -> None:
    """Store ``content`` as the document's next version, with the sources of both; the transaction holds the thread. Raises
    Stale when there is another version by now."""
    scope = claim.scope
    of_resource = document.scope == "resource"
    try:
        changed = await working_memory.change(
            tx,
            scope,
            "" if of_resource else thread.thread_id,
            lambda *_: content,
            how="replace",
            expected_version=document.version,
            origin=Origin(by.model, by.prompt),
            new_uid=thread.thread_uid,
            now=now,
        )
    except Conflict:
        raise Stale("somebody changed the document meanwhile") from None
    if changed.after is None or changed.after is changed.before:
        return
    await record_document_act(tx, engine, scope, changed, make_undo_id(engine), claim.kind, now)
    version = changed.after.version
    if of_resource:
        uid = ""
    else:
        uid = thread.thread_uid
    # The new version was written from the one before, so it rests on the sources of both.
    if document.content:
        before = await working_memory.sources_of_version(tx, scope, uid, document.version)
    else:
        before = []
    await working_memory.record_sources(tx, scope, uid, version, [*before, *sources])
    payload = {"scope": document.scope, "version": version, "mode": "replace"}
    origin = Origin(claim.kind, "")
    if of_resource:
        await events.record_of_resource(tx, scope, NewEvent("profile_updated", payload), origin=origin, now=now)
    else:
        await events.record(tx, scope, thread, [NewEvent("working_memory_updated", payload)], origin=origin, now=now)
