"""Which entries, and which lines of documents, have ended. Both are in the shape of messages here."""

from collections.abc import Iterable

from layerlore.memory.rules.expiry import is_line_expired
from layerlore.storage.core.records import Message
from layerlore.storage.core.scopes import read_note_place
from layerlore.storage.derived.entries import PLACE


def is_expired(found: Message, now: int) -> bool:
    """Whether it is an entry or a line of a document that has ended."""
    if read_note_place(found.thread_id) is not None:
        return any(is_line_expired(part["text"], now) for part in found.parts if part["type"] == "text")
    # The metadata of any other message are its client's own.
    expires_at = found.metadata.get("expires_at") if found.thread_id.startswith(PLACE) else None
    return isinstance(expires_at, int) and expires_at <= now


def drop_expired(found: Iterable[Message], now: int) -> list[Message]:
    """The messages without those that have ended."""
    return [message for message in found if not is_expired(message, now)]
