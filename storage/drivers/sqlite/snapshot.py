"""What a snapshot of the file is known by, read once in a transaction that only reads."""

from sqlalchemy import TextClause

from layerlore.storage.core.transaction import Row, Tx


async def read_once(tx: Tx, statement: TextClause) -> Row | None:
    """The first row of a statement without parameters; the same again where the transaction keeps what it has read."""
    known: dict[TextClause, Row | None] | None = getattr(tx, "known", None)
    if known is None:
        return await tx.one(statement)
    if statement not in known:
        known[statement] = await tx.one(statement)
    return known[statement]
