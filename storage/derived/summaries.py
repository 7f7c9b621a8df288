"""Summaries of a thread's beginning, for windows that cut it off. Each covers everything up to its ``upto_seq``.

Some earlier ones are kept beside the newest: a window that reaches back further shows one of those.
"""

from dataclasses import asdict, dataclass

from sqlalchemy import bindparam, delete, insert, select

from layerlore.storage.core.records import Scope
from layerlore.storage.core.scopes import in_thread, of_thread
from layerlore.storage.core.tables import summaries
from layerlore.storage.core.transaction import Tx

MOST_KEPT = 8


@dataclass(frozen=True, slots=True)
class Summary:
    """What was said from ``from_seq`` to ``upto_seq``, in ``tokens``. ``created_at``: ms since 1970."""

    upto_seq: int
    from_seq: int
    text: str
    tokens: int
    model: str
    prompt: str
    created_at: int


_COLUMNS = tuple(
    summaries.c[name] for name in ("upto_seq", "from_seq", "text", "tokens", "model", "prompt", "created_at")
)
_NEWEST = (
    select(*_COLUMNS)
    .where(in_thread(summaries), summaries.c.upto_seq < bindparam("before"))
    .order_by(summaries.c.upto_seq.desc())
    .limit(1)
)
_INSERT = insert(summaries).values(
    **{
        name: bindparam(name)
        for name in ("tenant_id", "agent_id", "resource_id", "thread_uid", *(column.name for column in _COLUMNS))
    }
)
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
    """The summary that reaches furthest of those that end before the seq; None where there is none."""
    row = await tx.one(_NEWEST, **of_thread(scope, thread_uid), before=before)
    return None if row is None else Summary(*row)


async def add(tx: Tx, scope: Scope, thread_uid: str, made: Summary) -> None:
    """Keep a summary that reaches further than all there are, and MOST_KEPT of them; the transaction holds the
    thread."""
    of = of_thread(scope, thread_uid)
    await tx.run(_INSERT, **of, **asdict(made))
    await tx.run(_FORGET, **of)
