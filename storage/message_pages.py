"""Pages of a thread's messages, of any sizes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Protocol, TypeVar

from sqlalchemy import Select, bindparam, func, select

from layerlore.storage import threads
from layerlore.storage.light_parts import without_data
from layerlore.storage.messages import COLUMNS, message_of
from layerlore.storage.records import ROLES, Message, Scope, Thread
from layerlore.storage.scoping import in_thread, of_thread
from layerlore.storage.statements import any_of
from layerlore.storage.tables import messages
from layerlore.storage.transaction import Tx

_LAST_SEQ = 2**62
_visible = messages.c.deletion_uid.is_(None)


@dataclass(frozen=True, slots=True)
class Page:
    """Messages in chronological order, and how many of the thread's match the roles asked for."""

    thread: Thread
    messages: list[Message]
    total: int


@cache
def _page(newest_first: bool, by_offset: bool) -> Select[Any]:
    query = (
        select(*COLUMNS)
        .where(
            in_thread(messages),
            _visible,
            messages.c.seq > bindparam("after"),
            messages.c.seq < bindparam("before"),
            any_of(messages.c.role, "roles"),
        )
        .order_by(messages.c.seq.desc() if newest_first else messages.c.seq.asc())
        .limit(bindparam("page_size"))
    )
    return query.offset(bindparam("skipped")) if by_offset else query


_COUNT = (
    select(func.count()).select_from(messages).where(in_thread(messages), _visible, any_of(messages.c.role, "roles"))
)


class Filled(Protocol):
    """What a page is read into. ``take`` is given each message, whole, as it is read, and says whether it wants more."""

    def take(self, message: Message) -> bool: ...


FilledT = TypeVar("FilledT", bound=Filled)


async def fill(
    tx: Tx,
    scope: Scope,
    thread_id: str,
    new: Callable[[], FilledT],
    *,
    roles: Sequence[str],
    limit: int,
    offset: int | None = None,
    before: int | None = None,
    after: int | None = None,
) -> tuple[FilledT, Thread, int]:
    """Read one page of a thread into what ``new`` makes: from the oldest on with an offset or ``after``, else from the
    newest before ``before`` back. Only what it takes is read, so that a page may hold any sizes.

    ``before`` and ``after`` are seqs and exclusive. Returns the thread and how many of its messages have these roles,
    too. Raises NotFound.
    """
    thread = await threads.find(tx, scope, thread_id)
    of = {**of_thread(scope, thread.thread_uid), "roles": list(roles)}
    filled = new()
    await tx.each(
        _page(_newest_first(offset, before, after), offset is not None),
        lambda row: filled.take(message_of(thread_id, row, light=False)),
        **of,
        page_size=limit,
        after=after if after is not None else 0,
        before=before if before is not None else _LAST_SEQ,
        **({"skipped": offset} if offset is not None else {}),
    )
    total = None if len(roles) == len(ROLES) else await tx.one(_COUNT, **of)
    return filled, thread, total[0] if total else thread.message_count


def _newest_first(offset: int | None, before: int | None, after: int | None) -> bool:
    return offset is None and (after is None or before is not None)


class Light:
    """All of a page, light."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    def take(self, message: Message) -> bool:
        self.messages.append(replace(message, parts=without_data(message.parts, message.seq)))
        return True


async def page(
    tx: Tx,
    scope: Scope,
    thread_id: str,
    *,
    roles: Sequence[str],
    limit: int,
    offset: int | None = None,
    before: int | None = None,
    after: int | None = None,
) -> Page:
    """The same page as light messages. Raises NotFound."""
    places = {"offset": offset, "before": before, "after": after}
    filled, thread, total = await fill(tx, scope, thread_id, Light, roles=roles, limit=limit, **places)
    return Page(thread, filled.messages[::-1] if _newest_first(**places) else filled.messages, total)
