"""What the two documents of working memory have in common when a model writes them: how they are asked for, what is no
document, and how a new version is stored beside those of callers."""

from collections.abc import Sequence
from typing import Any

from layerlore.extraction.degenerate import repetition
from layerlore.extraction.kind import Claim, Refused, Stale, Thinker
from layerlore.extraction.wording import worded
from layerlore.memory.acceptance import load_json
from layerlore.memory.document_lines import lines
from layerlore.memory.document_rules import DocumentRules
from layerlore.memory.engine import Engine
from layerlore.memory.json_equality import equality_key
from layerlore.memory.working_memory import Document, storable, value_of
from layerlore.prompts import render
from layerlore.storage import document_sources, events, working_memory
from layerlore.storage.document_sources import DocumentSource
from layerlore.storage.errors import Conflict, InvalidInput, LimitExceeded
from layerlore.storage.events import NewEvent
from layerlore.storage.json_text import to_json
from layerlore.storage.records import Json, Origin, Thread
from layerlore.storage.transaction import Tx

# What of a document a model may leave without a word, beside headings and its form.
_NOTHING = ("", "null", "[]", "{}", '""')


def form(engine: Engine, document: Document) -> str:
    """What a document has to look like, in words for a model."""
    rules = document.rules
    return render(
        "document_form",
        format=rules.format,
        template=rules.template,
        schema=rules.schema,
        most=engine.working_memory.max_bytes,
    ).text


def shown(document: Document) -> Any:
    """The document as material: an object where it is one, else text; empty: there is none."""
    return value_of(document)


def says_something(content: str, rules: DocumentRules) -> bool:
    """Whether there is anything in a document but its form."""
    if rules.format == "json":
        return any(line.partition(": ")[2] not in _NOTHING for line in lines(content, is_json=True))
    given = set(lines(rules.template, is_json=False))
    return any(
        line not in given and not line.startswith("#") and any(map(str.isalnum, line))
        for line in lines(content, is_json=False)
    )


def read_document(answer: Json, document: Document) -> str:
    """The document in an answer, as text; "" for one in which nothing is said where there was nothing before. Raises
    Refused."""
    given = answer.get("document")
    if isinstance(given, dict):
        given = to_json(given)
    if not isinstance(given, str):
        raise Refused("document: must be a string that holds the whole document")
    content = worded(given).strip()
    rules = document.rules
    if rules.format == "json" and content:
        _check_json(content)
    if not says_something(content, rules):
        if says_something(document.content, rules):
            raise Refused("document: there is nothing in it, and something in the one that there is: write it whole")
        return ""
    if _repeats(content, rules) and not _repeats(document.content, rules):
        raise Refused("document: it says the same again and again; say each thing once")
    return content


def _repeats(content: str, rules: DocumentRules) -> bool:
    return repetition(lines(content, is_json=rules.format == "json")) is not None


def _check_json(content: str) -> None:
    try:
        found = load_json(content, "document")
    except (ValueError, LimitExceeded):
        raise Refused("document: must be a JSON object, written as text") from None
    if not isinstance(found, dict):
        raise Refused("document: must be a JSON object, written as text")


def fit_to_store(engine: Engine, document: Document, content: str) -> str | None:
    """The document as it is stored, its secrets masked; None if it is the one that there is. Raises Refused."""
    try:
        made = storable(engine, document.scope, content)
    except LimitExceeded:
        most = engine.working_memory.max_bytes
        raise Refused(f"document: {len(content.encode()):,} bytes; {most:,} are allowed: write less") from None
    except InvalidInput as error:
        raise Refused(
            f"document: does not fit its JSON Schema at {_place(str(error), document.rules.schema)}"
        ) from None
    return None if _same(document, made) else made


def _place(violation: str, schema: Json | None) -> str:
    """Where a violation is, in names that the schema has: others may be a person's words."""
    known = to_json(schema or {})
    names = violation.partition(":")[0].split(".")[1:]
    kept: list[str] = []
    for name in names:
        if f'"{name.partition("[")[0]}"' not in known:
            break
        kept.append(name)
    return ".".join(kept) or "its top level"


def _same(document: Document, made: str) -> bool:
    if document.content.strip() == made.strip():
        return True
    if document.rules.format != "json" or not document.content:
        return False
    stored = value_of(document)
    return isinstance(stored, dict) and equality_key(stored) == equality_key(load_json(made, "document"))


async def store(
    tx: Tx,
    claim: Claim,
    thread: Thread,
    document: Document,
    content: str,
    sources: Sequence[DocumentSource],
    by: Thinker,
    *,
    now: int,
) -> None:
    """Make ``content`` the document in the place of the version that it was made from, with what went into both; the
    transaction holds the thread. Raises Stale when there is another version by now."""
    scope, of_resource = claim.scope, document.scope == "resource"
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
    version, uid = changed.after.version, "" if of_resource else thread.thread_uid
    before = await document_sources.of_version(tx, scope, uid, document.version) if document.content else []
    await document_sources.record(tx, scope, uid, version, [*before, *sources])
    told, origin = {"scope": document.scope, "version": version, "mode": "replace"}, Origin(claim.kind, "")
    if of_resource:
        await events.record_of_resource(tx, scope, NewEvent("profile_updated", told), origin=origin, now=now)
    else:
        await events.record(tx, scope, thread, [NewEvent("working_memory_updated", told)], origin=origin, now=now)
