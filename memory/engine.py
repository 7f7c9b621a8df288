"""What every operation of memory works with: made once, by the composition root, and passed first."""

import hashlib
import hmac
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from memstrata.memory.acceptance import check_id
from memstrata.memory.limits import Limits
from memstrata.memory.parts import MEDIA
from memstrata.memory.redaction import Redactor
from memstrata.memory.search_text import message_text
from memstrata.memory.tokens import TokenCounter
from memstrata.storage.idempotency import Request
from memstrata.storage.records import Json, Message
from memstrata.storage.statements import to_json
from memstrata.storage.transaction import Database

Redaction = Literal["all", "derived", "off"]

# Base64 is no text: looking for keys in it finds nothing but chance.
_ENCODED: dict[str, tuple[str, ...]] = {**dict.fromkeys(MEDIA, ("data",)), "reasoning": ("signature", "data")}


@dataclass(frozen=True, slots=True)
class Engine:
    """The open database and the rules. ``now`` gives milliseconds since 1970, ``new_id`` a UUIDv7.

    ``redaction``: ``all`` masks secrets where text enters, ``derived`` keeps the messages as sent and masks what is
    made from them (the search index), ``off`` masks nothing. ``deleted_days`` is how long a delete can be undone;
    0 erases at once.
    """

    database: Database
    tokens: TokenCounter
    redactor: Redactor
    hmac_key: bytes
    limits: Limits
    redaction: Redaction
    deleted_days: int
    now: Callable[[], int]
    new_id: Callable[[], str]

    def masked(self, value: Any) -> tuple[Any, int]:
        """What enters, its secrets masked, and how many there were. JSON or text."""
        return self.redactor.json(value) if self.redaction == "all" else (value, 0)

    def masked_parts(self, parts: list[Json]) -> tuple[list[Json], int]:
        """The same of a message's parts."""
        return _masked_parts(self.redactor, parts) if self.redaction == "all" else (parts, 0)

    def search_text(self, name: str | None, parts: list[Json]) -> str:
        """The words that a message is indexed by."""
        if self.redaction == "derived":
            name = self.redactor.text(name)[0] if name else name
            parts = _masked_parts(self.redactor, parts)[0]
        return message_text(name, parts)

    def search_text_of(self, message: Message) -> str:
        """The same, of a stored message."""
        return self.search_text(message.name, message.parts)

    def request(self, key: str, tool: str, arguments: Any) -> Request | None:
        """A write that may be sent again, when the caller gave a key for it; the arguments are checked JSON.

        Raises InvalidInput for an unfit key.
        """
        if not key:
            return None
        check_id(key, "idempotency_key", self.limits.id_chars)
        body = hmac.new(self.hmac_key, to_json([tool, arguments]).encode(), hashlib.sha256)
        return Request(key, body.hexdigest())


def _masked_parts(redactor: Redactor, parts: list[Json]) -> tuple[list[Json], int]:
    """Each value of each part on its own, so that how deep JSON may be is counted from where its sender counts."""
    masked: list[Json] = []
    total = 0
    for part in parts:
        entered: Json = {}
        for key, value in part.items():
            entered[key], found = (value, 0) if key in _ENCODED.get(part["type"], ()) else redactor.json(value)
            total += found
        masked.append(entered)
    return masked, total
