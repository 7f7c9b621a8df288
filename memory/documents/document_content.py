"""The content of a document: a JSON object or text, and what is added to it."""

from typing import Any

from layerlore.memory.documents.document_lines import list_dropped, list_lines
from layerlore.memory.rules.json_schema import merge_json
from layerlore.memory.rules.validation import describe, load_json
from layerlore.memory.settings.note_settings import DocumentRules
from layerlore.storage.core.errors import InvalidInput
from layerlore.storage.core.records import StoredJson


def parse_object(content: Any, where: str) -> StoredJson:
    """Check that a value is a JSON object, or a text that holds one."""
    found = content
    if isinstance(content, str):
        try:
            found = load_json(content, where)
        except ValueError as error:
            raise InvalidInput(f"{where}: this document is a JSON object, and that is no JSON ({error})") from None
    if not isinstance(found, dict):
        raise InvalidInput(f"{where}: this document is a JSON object; send one, not {describe(found)}")
    return found


def add_note(stored: str, note: str | StoredJson, rules: DocumentRules) -> str | StoredJson:
    """Append what the document lacks. Text that it has already changes nothing, and text that has all of it takes its
    place; text that has most of it is the document written anew, which an append would double. Raises InvalidInput."""
    if not isinstance(note, str):
        return append_content(stored, note, rules)
    there, given = list_lines(stored, is_json=False), list_lines(note, is_json=False)
    if any(there[at : at + len(given)] == given for at in range(len(there))):
        return stored
    lacking = list_dropped(stored, note, is_json=False)
    if not lacking:
        return note
    repeated = len(there) - len(lacking)
    if _holds_form(given, rules) or (repeated > 1 and 2 * repeated >= len(there)):
        raise InvalidInput(
            f"content: repeats {repeated} of the {len(there)} lines of this document, which it would have twice, and "
            "lacks the others; nothing was changed: send the whole document with mode='replace', or only what is new"
        )
    return append_content(stored, note, rules)


def _holds_form(lines: list[str], rules: DocumentRules) -> bool:
    """Whether lines are the form that the document is made of, filled in or not."""
    form = list_lines(rules.template, is_json=False)
    return bool(form) and all(any(line.startswith(label) for line in lines) for label in form)


def append_content(stored: str, more: str | StoredJson, _: DocumentRules) -> str | StoredJson:
    """Append text after a blank line; merge JSON deeply. Raises InvalidInput."""
    if isinstance(more, str):
        return stored.rstrip("\n") + "\n\n" + more
    try:
        merged: StoredJson = merge_json(parse_object(stored, "stored"), more)
    except InvalidInput:
        raise InvalidInput(
            "mode='append': what is stored is no JSON object, since it was written under another format; nothing was "
            "changed: read it with get_working_memory and send the whole document with mode='replace'"
        ) from None
    return merged
