"""The memory behind hooks, as an interface, and its implementation in this process."""

import logging
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol, TypedDict

from layerlore.memory.context.injection import Injection, make_injection, mark_place
from layerlore.memory.engine.engine import Engine, WriteRequest
from layerlore.memory.messages import addition
from layerlore.storage.audit.stored_bytes import Quota
from layerlore.storage.core.errors import InvalidInput, LimitExceeded, NotFound, QuotaExceeded
from layerlore.storage.core.records import Origin, Role, Scope, StoredJson
from layerlore.storage.messages import message_pages
from layerlore.storage.threads import threads

log = logging.getLogger(__name__)


class CapturedMessage(TypedDict):
    id: str
    role: Role
    parts: list[StoredJson]
    created_at: int | None


@dataclass(frozen=True, slots=True)
class CapturedThread:
    """The thread that has a name now, and the seq of its last message."""

    thread_uid: str
    last_seq: int


@dataclass(frozen=True, slots=True)
class StoredMessages:
    """The number of added messages, and their last seq. ``copied``: the marks of the messages that a forked thread
    inherits."""

    added: int = 0
    last_seq: int = 0
    copied: frozenset[str] = frozenset()


class HookMemory(Protocol):
    """A memory for the hooks of one scope. Its methods raise LayerloreError."""

    async def find_thread(self, thread_id: str) -> CapturedThread | None:
        """The thread of that name; None if it does not exist."""

    async def store(self, host: str, thread_id: str, messages: Sequence[CapturedMessage]) -> StoredMessages:
        """Store messages. An invalid one does not block the others."""

    async def show(
        self, host: str, thread_id: str, question: str, *, max_tokens: int, told: Collection[str], gone: int
    ) -> Injection:
        """The text for the model of a session."""

    def count_shown(self, host: str, tokens: int) -> None:
        """Count a text that the host has shown."""


class LocalMemory:
    """The memory of this process. ``principal``: the name of the writer; ``quota``: the most that it may store."""

    def __init__(self, engine: Engine, scope: Scope, principal: str, quota: Quota | None = None) -> None:
        self._engine = engine
        self._scope = scope
        self._principal = principal
        self._quota = quota

    async def find_thread(self, thread_id: str) -> CapturedThread | None:
        try:
            thread = await self._engine.database.read(threads.find, self._scope, thread_id)
        except NotFound:
            return None
        return CapturedThread(thread.thread_uid, thread.next_seq - 1)

    async def store(self, host: str, thread_id: str, messages: Sequence[CapturedMessage]) -> StoredMessages:
        # A forked session begins with a copy of the first one, with the same ids.
        times = {each["id"]: each["created_at"] for each in messages if each["created_at"] is not None}
        copied = await self._engine.database.read(message_pages.find_copied, self._scope, thread_id, times)
        new = [each for each in messages if each["id"] not in copied.ids]
        added, last_seq = 0, 0
        most = self._engine.limits.messages_per_call
        for at in range(0, len(new), most):
            more, seq = await self._add(host, thread_id, new[at : at + most])
            added, last_seq = added + more, max(last_seq, seq)
        return StoredMessages(added, last_seq, frozenset(mark_place(*place) for place in copied.places))

    async def _add(self, host: str, thread_id: str, messages: Sequence[CapturedMessage]) -> tuple[int, int]:
        """Add messages. Returns how many were added, and the last seq."""
        sent = WriteRequest(Origin(f"layerlore hook {host}", "hook", self._principal), quota=self._quota)
        try:
            answer = await addition.add_messages(
                self._engine, self._scope, thread_id, messages, replace=False, sent=sent
            )
        # There may be room again later; until then the host's transcript has the messages.
        except QuotaExceeded:
            raise
        except (InvalidInput, LimitExceeded) as error:
            if len(messages) == 1:
                log.warning("a message of a transcript is not stored: %s", error)
                return 0, 0
            # One invalid message fails the whole call, so each one gets a call of its own.
            added, last_seq = 0, 0
            for message in messages:
                more, seq = await self._add(host, thread_id, [message])
                added, last_seq = added + more, max(last_seq, seq)
            return added, last_seq
        added = sum(each["status"] == "added" for each in answer["messages"])
        self._engine.counts.count_hook(self._scope, host, self._engine.now(), kept=added)
        return added, max([0, *(each["seq"] for each in answer["messages"])])

    async def show(
        self, host: str, thread_id: str, question: str, *, max_tokens: int, told: Collection[str], gone: int
    ) -> Injection:
        return await make_injection(
            self._engine, self._scope, thread_id, question, max_tokens=max_tokens, shown=frozenset(told), gone=gone
        )

    def count_shown(self, host: str, tokens: int) -> None:
        self._engine.counts.count_hook(self._scope, host, self._engine.now(), shown=1, tokens=tokens)
