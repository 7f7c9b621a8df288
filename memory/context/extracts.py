"""Extracts from what fell out of a window, made once for the same messages: a window's start stays where it is for a
while, and noting takes longer than reading."""

import hashlib
from collections.abc import Callable, Sequence

from layerlore.storage.records import Message

# A digest has about 1 KB.
_REMEMBERED = 256


class Extracts:
    """The extracts made last, by what they were made of."""

    def __init__(self) -> None:
        self._made: dict[bytes, str] = {}

    def of(self, thread_uid: str, sample: Sequence[Message], most_tokens: int, make: Callable[[], str]) -> str:
        """The lines worth keeping of a thread's messages, in at most so many tokens, made if need be; empty where there
        are none."""
        # A message whose text changes has another revision; one that lost the half of a tool call, fewer parts.
        told = [(message.seq, message.revision, len(message.parts)) for message in sample]
        key = hashlib.blake2b(repr((thread_uid, told, most_tokens)).encode(), digest_size=16).digest()
        lines = self._made.get(key)
        if lines is None:
            if len(self._made) >= _REMEMBERED:
                self._made.clear()
            lines = self._made[key] = make()
        return lines

    def forget(self) -> None:
        """Forget all of them: none says whose it is."""
        self._made.clear()
