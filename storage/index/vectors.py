"""Vectors of the rows of the index, found by the bits of their codes and compared by numbers of 16 bits.

A code has one bit a dimension (``numpy.packbits(vector > 0)``); the Hamming distance of codes orders rows nearly as
the cosine does, so a scan of the scope's codes gives the candidates, and their floats the exact order. A model's name
stands for one dimension: vectors of another need another name. Vectors of different models are never compared.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import BigInteger, bindparam, delete, exists, func, literal_column, not_, select, update

from layerlore.storage.core.index_rows import RowIdArray, round_vectors, to_list, widen_vectors
from layerlore.storage.core.installation import Look
from layerlore.storage.core.records import Scope
from layerlore.storage.core.scopes import KINDS, Kind, in_scope, named_in_scope, of_scope, scope_token, vector_of
from layerlore.storage.core.statements import RowPlace, VectorOf, any_of, insert_or_ignore, insert_or_update, refused
from layerlore.storage.core.tables import SCOPE, installation, search_rows, search_vectors
from layerlore.storage.core.transaction import Tx
from layerlore.storage.index.lexical import TEXT_VERSION, kind_of


@dataclass(frozen=True, slots=True)
class NewVector:
    """A row's vector, as ``make_vector`` makes it, and its code."""

    row_id: int
    code: bytes
    vector: bytes


def make_vector(row_id: int, vector: NDArray[np.float32]) -> NewVector:
    """The stored form of a vector of unit length: its bits for the quick first search, and numbers of 16 bits (little
    endian) for the exact comparison. The rounding changes a cosine by less than 0.0001."""
    return NewVector(row_id, np.packbits(vector > 0).tobytes(), round_vectors(vector).astype("<i2").tobytes())


def _read_vectors(blobs: Sequence[bytes], dimension: int) -> NDArray[np.float32]:
    """Stored vectors as rows of float32."""
    if all(len(blob) == 2 * dimension for blob in blobs):
        return widen_vectors(np.frombuffer(b"".join(blobs), "<i2").reshape(len(blobs), -1))
    return np.stack([_read_vector(blob, dimension) for blob in blobs])


def _read_vector(blob: bytes, dimension: int) -> NDArray[np.float32]:
    if len(blob) == 2 * dimension:
        return widen_vectors(np.frombuffer(blob, "<i2"))
    # An earlier layerlore stored float32.
    return np.frombuffer(blob, "<f4").astype(np.float32, copy=False)


@dataclass(frozen=True, slots=True)
class Progress:
    """How many rows the index has, and how many of them have a vector of the model."""

    total: int
    done: int


@dataclass(frozen=True, slots=True)
class PendingRow:
    """A row that lacks a vector: chunk ``chunk`` of the message at ``seq``."""

    row_id: int
    scope: Scope
    thread_uid: str
    seq: int
    chunk: int


@dataclass(frozen=True, slots=True)
class StaleRow:
    """A row whose words were made by older rules."""

    row_id: int
    scope: Scope
    thread_uid: str
    seq: int


_scope_columns = [search_rows.c[name] for name in SCOPE]
_has_one = exists().where(vector_of(search_rows), search_vectors.c.model == bindparam("model"))

_LACKING = (
    select(search_rows.c.row_id, search_rows.c.role)
    .where(named_in_scope(search_rows), any_of(search_rows.c.row_id, "row_ids"), not_(_has_one))
    .order_by(search_rows.c.row_id)
)
# The lock keeps each row until its vector is stored. A row that is being deleted counts as gone.
_LACKING_LOCKED = _LACKING.with_for_update(read=True, key_share=True, skip_locked=True)


async def find_lacking(tx: Tx, scope: Scope, model: str, row_ids: Sequence[int]) -> set[int]:
    """Find which of these rows of a scope are there and have no vector of the model."""
    return set(await tx.scalars(_LACKING, **of_scope(scope), row_ids=list(row_ids), model=model))


async def put(tx: Tx, scope: Scope, model: str, dimension: int, vectors: Sequence[NewVector]) -> int:
    """Store vectors of a model for rows of a scope. Those that are gone meanwhile, or have one, are skipped. Counts the
    rows that had none: of two processes at the same rows both may count them, and one vector is stored."""
    by_row = {vector.row_id: vector for vector in vectors}
    lacking = await tx.all(_LACKING_LOCKED, **of_scope(scope), row_ids=list(by_row), model=model)
    rows = [
        {
            "tenant_id": scope.tenant_id,
            "row_id": row_id,
            "model": model,
            "scope_token": scope_token(scope, kind_of(role)),
            "dimension": dimension,
            "code": tx.backend.vectors.as_code(by_row[row_id].code),
            "vector": by_row[row_id].vector,
        }
        for row_id, role in lacking
    ]
    if rows:
        await tx.many(tx.backend.vectors.PUT, rows)
    return len(rows)


async def nearest(
    tx: Tx, scope: Scope, model: str, code: bytes, *, most: int, kinds: Sequence[Kind] = KINDS
) -> RowIdArray:
    """The ids of the rows of the scope whose codes differ from ``code`` in the fewest bits, nearest first; of equally
    near ones the oldest first."""
    return await tx.backend.vectors.nearest(tx, **_part(scope, kinds), model=model, code=code, most=most)


async def nearest_among(
    tx: Tx,
    scope: Scope,
    model: str,
    code: bytes,
    row_ids: Sequence[int] | RowIdArray,
    *,
    most: int,
    kinds: Sequence[Kind] = KINDS,
) -> RowIdArray:
    """Find which of the rows ``row_ids`` have codes that differ from ``code`` in the fewest bits, nearest first; of
    equally near ones the oldest first."""
    found = await tx.scalars(
        tx.backend.vectors.NEAREST_AMONG,
        **_part(scope, kinds),
        model=model,
        code=tx.backend.vectors.as_code(code),
        most=most,
        row_ids=to_list(row_ids),
    )
    return np.array(found, np.int64)


def _tokens(scope: Scope, kinds: Sequence[Kind] = KINDS) -> dict[str, str]:
    """As two parameters, whether or not they are the same: a statement is compiled once."""
    return {"scope_token": scope_token(scope, kinds[0]), "other_token": scope_token(scope, kinds[-1])}


def _part(scope: Scope, kinds: Sequence[Kind] = KINDS) -> dict[str, str]:
    """The tenant and the tokens whose codes a statement compares."""
    return {"tenant_id": scope.tenant_id, **_tokens(scope, kinds)}


_of_tenant = VectorOf(search_vectors.c.tenant_id, bindparam("tenant_id"))


# Written so that SQLite looks the rows up by their ids instead of walking the scope's codes.
_OF_ROWS = (
    select(search_vectors.c.row_id, search_vectors.c.vector, search_vectors.c.dimension)
    .where(
        _of_tenant,
        any_of(search_vectors.c.row_id, "row_ids"),
        search_vectors.c.model == bindparam("model"),
        search_vectors.c.scope_token.op("||")("").in_([bindparam("scope_token"), bindparam("other_token")]),
    )
    .order_by(search_vectors.c.row_id)
)


async def of_rows(
    tx: Tx, scope: Scope, model: str, row_ids: Sequence[int] | RowIdArray
) -> tuple[RowIdArray, NDArray[np.float32]]:
    """The vectors that these rows have: row ids, ascending, and as many rows of float32. The rows are there, as the
    transaction sees it, or have gone since it asked for their ids."""

    async def read(wanted: RowIdArray) -> tuple[RowIdArray, NDArray[np.float32]]:
        rows = await tx.all(_OF_ROWS, row_ids=to_list(wanted), model=model, **_part(scope))
        if not rows:
            return np.empty(0, np.int64), np.empty((0, 0), np.float32)
        found, blobs, dimensions = zip(*rows, strict=True)
        return np.array(found, np.int64), _read_vectors(blobs, dimensions[0])

    return await tx.backend.vectors.of_rows(tx, [*_tokens(scope).values()], model, np.asarray(row_ids, np.int64), read)


_total = select(func.count()).select_from(search_rows)
_done = select(func.count()).select_from(search_vectors).where(search_vectors.c.model == bindparam("model"))
_TOTAL = _total.where(in_scope(search_rows))
_DONE = _done.where(_of_tenant, search_vectors.c.scope_token.in_([bindparam("scope_token"), bindparam("other_token")]))
_COUNT = (("count", "bigint"),)
_TOTAL_EVERYWHERE = Look("layerlore_count_rows", _total, _COUNT)
_DONE_EVERYWHERE = Look("layerlore_count_vectors", _done, _COUNT)


async def progress(tx: Tx, scope: Scope, model: str) -> Progress:
    """How many rows of a scope have vectors of the model."""
    total: int = await tx.scalar(_TOTAL, **of_scope(scope))
    done: int = await tx.scalar(_DONE, model=model, **_part(scope))
    return Progress(total, done)


_THERE = select(func.count()).select_from(search_rows).where(in_scope(search_rows), any_of(search_rows.c.row_id, "ids"))


async def count_there(tx: Tx, scope: Scope, row_ids: Collection[int]) -> int:
    """How many of these rows of a scope are still there."""
    if not row_ids:
        return 0
    return int(await tx.scalar(_THERE, **of_scope(scope), ids=list(row_ids)))


async def progress_everywhere(tx: Tx, model: str) -> Progress:
    """How many rows of all scopes have vectors of the model."""
    ((total,),) = await _TOTAL_EVERYWHERE.rows(tx)
    ((done,),) = await _DONE_EVERYWHERE.rows(tx, model=model)
    return Progress(total, done)


# Beyond the ids of both databases.
_LAST_ID = 2**63 - 1
_NEXT = select(search_rows.c.row_id).where(search_rows.c.row_id > bindparam("after")).order_by(search_rows.c.row_id)
_ROW_ID = (("row_id", "bigint"),)
_REACH = Look("layerlore_row_behind", _NEXT.limit(1).offset(bindparam("rows", type_=BigInteger())), _ROW_ID)
_LAST_ROW = Look("layerlore_last_row", select(func.coalesce(func.max(search_rows.c.row_id), 0)), _ROW_ID)


async def last_row(tx: Tx) -> int:
    """The greatest id of a row; 0 if none exists."""
    row_id: int
    ((row_id,),) = await _LAST_ROW.rows(tx)
    return row_id


async def reach(tx: Tx, *, after: int, rows: int) -> int:
    """An id that lies about ``rows`` rows behind ``after``: for going through all of them in short reads."""
    found = await _REACH.rows(tx, after=after, rows=rows)
    for (row_id,) in found:
        return int(row_id)
    return _LAST_ID


_PLACED = (*_ROW_ID, *((name, "text") for name in (*SCOPE, "thread_uid")), ("seq", "bigint"))
_PENDING = Look(
    "layerlore_rows_without_vector",
    select(search_rows.c.row_id, *_scope_columns, search_rows.c.thread_uid, search_rows.c.seq, search_rows.c.chunk)
    .where(search_rows.c.row_id > bindparam("after"), search_rows.c.row_id <= bindparam("upto"), not_(_has_one))
    .order_by(search_rows.c.row_id)
    .limit(bindparam("most", type_=BigInteger())),
    (*_PLACED, ("chunk", "integer")),
)


async def pending(tx: Tx, model: str, *, after: int, most: int, upto: int | None = None) -> list[PendingRow]:
    """The next rows of all scopes behind ``after``, up to ``upto``, that lack a vector of the model, ascending. Without
    ``upto`` it looks at every row behind ``after`` until it has found ``most``.

    Row ids are assigned before they are committed: a pass that found no more begins again at 0 to meet the late ones.
    """
    rows = await _PENDING.rows(tx, model=model, after=after, upto=_LAST_ID if upto is None else upto, most=most)
    return [
        PendingRow(row_id, Scope(tenant_id, agent_id, resource_id), *place)
        for row_id, tenant_id, agent_id, resource_id, *place in rows
    ]


# The version is written out because the index on such rows serves no other form.
_STALE = Look(
    "layerlore_stale_rows",
    select(search_rows.c.row_id, *_scope_columns, search_rows.c.thread_uid, search_rows.c.seq)
    .where(search_rows.c.text_version < literal_column(str(TEXT_VERSION)), search_rows.c.row_id > bindparam("after"))
    .order_by(search_rows.c.row_id)
    .limit(bindparam("most", type_=BigInteger())),
    _PLACED,
)


async def stale(tx: Tx, *, after: int, most: int) -> list[StaleRow]:
    """The next rows of all scopes behind ``after``, ascending, that ``indexed_rows.rebuild_rows`` has to make
    again."""
    rows = await _STALE.rows(tx, after=after, most=most)
    return [
        StaleRow(row_id, Scope(tenant_id, agent_id, resource_id), *place)
        for row_id, tenant_id, agent_id, resource_id, *place in rows
    ]


# Postgres has no DELETE with a LIMIT, so a subquery picks the rows.
_place = RowPlace(search_vectors)
_FORGET = Look(
    "layerlore_forget_vectors",
    delete(search_vectors).where(
        _place.in_(
            select(_place)
            .select_from(search_vectors)
            .where(not_(any_of(search_vectors.c.model, "keep")))
            .limit(bindparam("most", type_=BigInteger()))
        )
    ),
)


async def forget_models(tx: Tx, keep: Collection[str], most: int) -> int:
    """Remove at most ``most`` vectors of the models that are not among ``keep``; counts them. 0: there are no more."""
    return await _FORGET.count(tx, keep=list(keep), most=most)


_IN_USE = "embedder:"
_LEASE = "vectors-lease:"
_DIMENSION = "dimension:"

_row: dict[str, Any] = {"name": bindparam("name"), "value": bindparam("value")}
_NOTE = insert_or_update(installation, _row, keys=("name",), changes={"value": refused(installation).value})
_ADD = insert_or_ignore(installation, _row)
_named = installation.c.name == bindparam("name")
_VALUE = select(installation.c.value).where(_named)
# The old value is compared in the statement, so that of two processes only one gets the lease.
_UNCHANGED = installation.c.value == bindparam("was")
_CHANGE = update(installation).where(_named, _UNCHANGED).values(value=bindparam("value"))
_DROP = delete(installation).where(_named, _UNCHANGED)
_DROP_ANY = delete(installation).where(_named)
_ALL = select(installation.c.name, installation.c.value).where(installation.c.name.startswith(_IN_USE))


async def note_use(tx: Tx, model: str, now: int) -> None:
    """Note that a process uses an embedder now: to be done before it writes vectors, and now and then while it runs."""
    await tx.run(_NOTE, name=_IN_USE + model, value=str(now))


async def last_used(tx: Tx) -> dict[str, int]:
    """Every embedder that may have vectors, and when one was last noted to use it, in milliseconds since 1970."""
    return {name.removeprefix(_IN_USE): int(value) for name, value in await tx.all(_ALL)}


async def forget_use(tx: Tx, used: Mapping[str, int]) -> None:
    """Forget embedders, except those used again since ``last_used`` returned these times."""
    for model, at in used.items():
        if await tx.run(_DROP, name=_IN_USE + model, was=str(at)):
            # The model has no user left: its next one may have another dimension.
            await tx.run(_DROP_ANY, name=_DIMENSION + model)


async def dimension_of(tx: Tx, model: str) -> int:
    """How many dimensions the vectors stored under a name have; 0 where none were stored yet."""
    return int(await tx.scalar(_VALUE, name=_DIMENSION + model) or 0)


async def agree_on_dimension(tx: Tx, model: str, dimension: int) -> int:
    """How many dimensions the vectors under a name must have, to be asked before they are stored: the first who asks
    decides."""
    agreed = await dimension_of(tx, model)
    if agreed or await tx.run(_ADD, name=_DIMENSION + model, value=str(dimension)):
        return agreed or dimension
    # Another process was first, so its number holds.
    return await dimension_of(tx, model)


async def take_lease(tx: Tx, model: str, holder: str, *, now: int, until: int) -> bool:
    """Take or prolong the lease on making a model's missing vectors. False while another process has it."""
    name, value = _LEASE + model, f"{until} {holder}"
    stored = await tx.scalar(_VALUE, name=name)
    if stored is None:
        return await tx.run(_ADD, name=name, value=value) == 1
    expires, _, owner = stored.partition(" ")
    if owner != holder and int(expires) > now:
        return False
    return await tx.run(_CHANGE, name=name, value=value, was=stored) == 1


async def return_lease(tx: Tx, model: str, holder: str) -> None:
    """Release the lease, if this process still has it."""
    stored = await tx.scalar(_VALUE, name=_LEASE + model)
    if stored is not None and stored.partition(" ")[2] == holder:
        await tx.run(_DROP, name=_LEASE + model, was=stored)
