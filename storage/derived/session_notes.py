"""Notes and summaries of a thread that background jobs made and windows or session memory use."""

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from typing import Literal, get_args

from sqlalchemy import bindparam, delete, func, insert, select

from layerlore.storage.core.records import Scope
from layerlore.storage.core.scopes import in_thread, of_thread
from layerlore.storage.core.statements import any_of, parameters
from layerlore.storage.core.tables import session_notes, summaries
from layerlore.storage.core.tables.columns import THREAD
from layerlore.storage.core.transaction import Tx

Category = Literal["objective", "decision", "state", "follow_up"]
CATEGORIES: tuple[Category, ...] = get_args(Category)


@dataclass(frozen=True, slots=True)
class NewNote:
    category: Category
    text: str


@dataclass(frozen=True, slots=True)
class Note:
    """A note made from the messages ``from_seq`` to ``to_seq``. ``created_at``: ms since 1970."""

    note_id: int
    category: Category
    text: str
    from_seq: int
    to_seq: int
    created_at: int


_COLUMNS = tuple(session_notes.c[name] for name in ("note_id", "category", "text", "from_seq", "to_seq", "created_at"))
_QUEUED = select(*_COLUMNS).where(in_thread(session_notes)).order_by(session_notes.c.note_id)
_LAST_ID = select(func.coalesce(func.max(session_notes.c.note_id), 0)).where(in_thread(session_notes))
_INSERT = insert(session_notes).values(**parameters(*THREAD, *(column.name for column in _COLUMNS), "model", "prompt"))
_TAKE_OUT = delete(session_notes).where(in_thread(session_notes), any_of(session_notes.c.note_id, "ids"))


async def queued(tx: Tx, scope: Scope, thread_uid: str) -> list[Note]:
    """All that wait, in their order."""
    return [Note(*row) for row in await tx.all(_QUEUED, **of_thread(scope, thread_uid))]


async def add(
    tx: Tx,
    scope: Scope,
    thread_uid: str,
    notes: Sequence[NewNote],
    *,
    from_seq: int,
    to_seq: int,
    model: str,
    prompt: str,
    now: int,
) -> None:
    """Queue notes; the transaction holds the thread."""
    of = of_thread(scope, thread_uid)
    # The transaction holds the thread, so no other writer takes these numbers.
    last = int(await tx.scalar(_LAST_ID, **of) or 0)
    made = {**of, "from_seq": from_seq, "to_seq": to_seq, "model": model, "prompt": prompt, "created_at": now}
    rows = [
        {**made, "note_id": note_id, "category": note.category, "text": note.text}
        for note_id, note in enumerate(notes, last + 1)
    ]
    if rows:
        await tx.many(_INSERT, rows)


async def take_out(tx: Tx, scope: Scope, thread_uid: str, ids: Collection[int]) -> int:
    """Remove notes, which the document holds now. Returns how many there were."""
    return await tx.run(_TAKE_OUT, **of_thread(scope, thread_uid), ids=list(ids))


MOST_KEPT = 8


@dataclass(frozen=True, slots=True)
class Summary:
    """The note on the messages from ``from_seq`` to ``upto_seq``, in ``tokens``. ``created_at``: ms since 1970."""

    upto_seq: int
    from_seq: int
    text: str
    tokens: int
    model: str
    prompt: str
    created_at: int


_SUMMARY_COLUMNS = tuple(
    summaries.c[name] for name in ("upto_seq", "from_seq", "text", "tokens", "model", "prompt", "created_at")
)
_NEWEST = (
    select(*_SUMMARY_COLUMNS)
    .where(in_thread(summaries), summaries.c.upto_seq < bindparam("before"))
    .order_by(summaries.c.upto_seq.desc())
    .limit(1)
)
_INSERT_SUMMARY = insert(summaries).values(**parameters(*THREAD, *(column.name for column in _SUMMARY_COLUMNS)))
# NULL while there are fewer than MOST_KEPT. Then the comparison with it deletes nothing.
_kept = (
    select(summaries.c.upto_seq)
    .where(in_thread(summaries))
    .order_by(summaries.c.upto_seq.desc())
    .limit(1)
    .offset(MOST_KEPT - 1)
    .scalar_subquery()
)
_FORGET = delete(summaries).where(in_thread(summaries), summaries.c.upto_seq < _kept)


async def newest(tx: Tx, scope: Scope, thread_uid: str, *, before: int) -> Summary | None:
    """The summary that reaches furthest of those that end before the seq; None if none exists."""
    row = await tx.one(_NEWEST, **of_thread(scope, thread_uid), before=before)
    if row is None:
        return None
    return Summary(*row)


async def add_summary(tx: Tx, scope: Scope, thread_uid: str, made: Summary) -> None:
    """Keep a summary that reaches further than all there are, and MOST_KEPT of them; the transaction holds the
    thread."""
    of = of_thread(scope, thread_uid)
    await tx.run(_INSERT_SUMMARY, **of, **asdict(made))
    await tx.run(_FORGET, **of)
