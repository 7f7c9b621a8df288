"""The rows that were stored last, as a recall meets them: few that still lack a vector get it now, so that who stores a
message and asks at once finds it by its meaning; many are left to the writer of vectors, and the answer says so."""

import contextlib
from collections.abc import Sequence

import anyio

from layerlore.memory.embedding.port import EmbeddingFailed
from layerlore.memory.embedding.service import EmbeddingService
from layerlore.memory.engine.engine import Engine
from layerlore.memory.recall.row_vectors import embed_awaited
from layerlore.storage.core.errors import LayerloreError
from layerlore.storage.core.records import Scope
from layerlore.storage.core.row_ids import RowIdArray
from layerlore.storage.core.transaction import Tx
from layerlore.storage.index.vectors import PendingRow
from layerlore.storage.messages import indexed_rows

MOST_ROWS = 8
"""Rows that a recall embeds itself: the chunks of a turn or two, some 30 ms with an embedder on this machine."""
WAIT_SECONDS = 1.0
"""How long it waits for that at most, or for others who are at them."""
# Beyond those that it embeds, it only has to know whether there are more.
_MOST_READ = 2 * MOST_ROWS


async def find_unembedded(
    tx: Tx, scope: Scope, embedding: EmbeddingService | None, asking: RowIdArray
) -> Sequence[PendingRow]:
    """The rows among those stored last that still wait for a vector of the embedder in use; none without one. Those of the
    caller's own question (``asking``) answer nothing, and nobody waits for them."""
    if embedding is None:
        return ()
    left_out = {*embedding.refused.get(scope, ())}
    asked = set(asking.tolist())
    rows = await indexed_rows.find_unembedded(
        tx, scope, embedding.embedder.name, most=_MOST_READ + len(left_out) + len(asked)
    )
    lacking = [row for row in rows if row.row_id not in left_out]
    others = [row for row in lacking if row.row_id not in asked]
    # Behind so many of the question's own, others would not be seen.
    return others if len(lacking) - len(others) < indexed_rows.RECENT_MESSAGES else lacking


async def embed_recent(engine: Engine, embedding: EmbeddingService, rows: Sequence[PendingRow]) -> bool:
    """Embed the rows, if they are few and the embedder is on this machine. Whether all of them have their vectors now;
    a text that the model refuses needs none. Raises nothing but cancellation."""
    if not rows:
        return True
    if len(rows) > MOST_ROWS or not embedding.embedder.local:
        return False
    with anyio.move_on_after(WAIT_SECONDS), contextlib.suppress(EmbeddingFailed, LayerloreError):
        await embed_awaited(engine, embedding, rows)
        return True
    return False
