"""Idempotency: a request that is sent again gets its first answer again, and does nothing."""

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from sqlalchemy import bindparam, select, update

from layerlore.storage.core.errors import Conflict
from layerlore.storage.core.json_text import intact, to_json
from layerlore.storage.core.records import Scope, StoredJson
from layerlore.storage.core.scopes import in_scope, of_scope
from layerlore.storage.core.statements import insert_or_ignore
from layerlore.storage.core.tables import idempotency
from layerlore.storage.core.transaction import Tx

Answer = TypeVar("Answer", bound=Mapping[str, Any])
"""The answer of a write: an object of JSON."""

_key = idempotency.c.key == bindparam("key")
# The empty answer marks a claim. The request that made it fills it in before its transaction ends.
_CLAIM = insert_or_ignore(
    idempotency,
    {**{column.name: bindparam(column.name) for column in idempotency.c if column.name != "answer"}, "answer": ""},
)
_FIND = select(idempotency.c.body_hmac, idempotency.c.answer).where(in_scope(idempotency), _key)
_KEEP = update(idempotency).where(in_scope(idempotency), _key).values(answer=bindparam("new_answer"))
_KEEP_OF_BODY = _KEEP.where(idempotency.c.body_hmac == bindparam("of_body"))


@dataclass(frozen=True, slots=True)
class Request:
    """A write that may be sent again: the caller's key, and a fingerprint (HMAC) of the tool and its arguments.

    ``stored_key`` is what is stored of the key: a hash, since callers put into keys whatever they like."""

    key: str
    body_hmac: str

    @property
    def stored_key(self) -> str:
        return hashlib.sha256(self.key.encode()).hexdigest()


async def once(
    tx: Tx, scope: Scope, request: Request | None, now: int, write: Callable[[Tx], Awaitable[Answer]]
) -> tuple[Answer, bool]:
    """Run the write, unless its key was used before: then give that answer. Returns it, and whether it is an old one.

    Raises Conflict when the key was used for another request.
    """
    if request is None:
        return await write(tx), False
    of = {**of_scope(scope), "key": request.stored_key}
    # On Postgres a second request of the same key waits here until the first has ended.
    if await tx.run(_CLAIM, **of, body_hmac=request.body_hmac, created_at=now):
        answer = await write(tx)
        await tx.run(_KEEP, **of, new_answer=to_json(answer))
        return answer, False
    # The claim met a row, so an earlier request of this key has stored its answer.
    first = await find_kept(tx, scope, request)
    assert first is not None
    return cast("Answer", first), True


async def keep(tx: Tx, scope: Scope, request: Request, now: int, answer: Mapping[str, Any]) -> None:
    """Store an answer for a request in place of an earlier one, unless its key was used for another request."""
    of = {**of_scope(scope), "key": request.stored_key}
    # The claim does nothing where an answer is stored already. The update below replaces that one.
    await tx.run(_CLAIM, **of, body_hmac=request.body_hmac, created_at=now)
    await tx.run(_KEEP_OF_BODY, **of, of_body=request.body_hmac, new_answer=to_json(answer))


async def find_kept(tx: Tx, scope: Scope, request: Request | None) -> StoredJson | None:
    """The stored answer for a request; None: it is a new one. Raises Conflict when its key was used for another
    request."""
    if request is None:
        row = None
    else:
        row = await tx.one(_FIND, **of_scope(scope), key=request.stored_key)
    if request is None or row is None:
        return None
    body_hmac, stored = row
    if body_hmac != request.body_hmac:
        raise Conflict(f"idempotency key {request.key!r} was used for another request: a new request needs a new key")
    answer: StoredJson = intact(stored, f"the answer that is kept for idempotency key {request.key!r}")
    return answer
