"""Which entries, in the shape of messages, have ended."""

from collections.abc import Iterable

from layerlore.storage.core.records import Message
from layerlore.storage.derived.entries import PLACE


def is_expired(found: Message, now: int) -> bool:
    """Whether it is an entry that has ended."""
    # The metadata of any other message are its client's own.
    expires_at = found.metadata.get("expires_at") if found.thread_id.startswith(PLACE) else None
    return isinstance(expires_at, int) and expires_at <= now


def drop_expired(found: Iterable[Message], now: int) -> list[Message]:
    """The messages without the entries that have ended."""
    return [message for message in found if not is_expired(message, now)]
