"""Which messages the versions of a working memory document were made from, where a job made them.

An empty ``thread_uid`` means the resource's profile. What a caller wrote as a whole has no sources; what was appended or
restored has those of the version whose words it holds.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from sqlalchemy import bindparam, delete, insert, select

from layerlore.storage import sources_there
from layerlore.storage.records import Scope
from layerlore.storage.scoping import in_thread, of_thread
from layerlore.storage.tables import document_sources
from layerlore.storage.transaction import Tx
from layerlore.storage.working_memory import MOST_VERSIONS


@dataclass(frozen=True, slots=True, order=True)
class DocumentSource:
    """A run of messages of one thread, both ends included."""

    source_thread_uid: str
    from_seq: int
    to_seq: int


_COLUMNS = tuple(document_sources.c[name] for name in ("source_thread_uid", "from_seq", "to_seq"))
_own = in_thread(document_sources)
_OF = select(*_COLUMNS).where(_own, document_sources.c.version == bindparam("of_version")).order_by(*_COLUMNS)
_INSERT = insert(document_sources).values(
    **{
        name: bindparam(name)
        for name in (
            *("tenant_id", "agent_id", "resource_id", "thread_uid", "version"),
            *(column.name for column in _COLUMNS),
        )
    }
)
_FORGET = delete(document_sources).where(_own, document_sources.c.version < bindparam("first_kept"))


async def of_version(tx: Tx, scope: Scope, thread_uid: str, version: int) -> list[DocumentSource]:
    """What a version was made from, with what went into the versions before it whose words it holds."""
    rows = await tx.all(_OF, **of_thread(scope, thread_uid), of_version=version)
    return [DocumentSource(*row) for row in rows]


async def record(
    tx: Tx, scope: Scope, thread_uid: str, version: int, sources: Iterable[DocumentSource]
) -> Sequence[DocumentSource]:
    """Write down what a new version was made from, and forget it for versions that are not kept any more. Returns the
    sources, with those that touch made one, and parted where messages are deleted by now: it was made without them."""
    of = of_thread(scope, thread_uid)
    joined = [run for source in _joined(sources) for run in await _there(tx, scope, source)]
    await tx.many(_INSERT, [{**of, "version": version, **asdict(source)} for source in joined])
    await tx.run(_FORGET, **of, first_kept=version - MOST_VERSIONS + 1)
    return joined


async def _there(tx: Tx, scope: Scope, source: DocumentSource) -> list[DocumentSource]:
    """The runs of a source between its deleted messages."""
    runs: list[DocumentSource] = []
    uid, begins = source.source_thread_uid, source.from_seq
    holes = await sources_there.deleted_within(tx, scope, uid, source.from_seq, source.to_seq)
    for seq in (*holes, source.to_seq + 1):
        if begins < seq:
            runs.append(DocumentSource(uid, begins, seq - 1))
        begins = seq + 1
    return runs


def _joined(sources: Iterable[DocumentSource]) -> list[DocumentSource]:
    found: list[DocumentSource] = []
    for source in sorted(sources):
        last = found[-1] if found else None
        if last and last.source_thread_uid == source.source_thread_uid and source.from_seq <= last.to_seq + 1:
            found[-1] = DocumentSource(last.source_thread_uid, last.from_seq, max(last.to_seq, source.to_seq))
        else:
            found.append(source)
    return found
