"""Working memory: the document of a thread, and the one of a resource (its profile), as versions.

The newest version is the document. Versions are counted on for ever; of what was, the last ones are stored. One that
was made from messages is there only while they are; without it, the newest of the others is the document. An empty
``thread_id`` means the resource's document. A version that a caller wrote as a whole has no sources; an appended or
restored one has those of the version whose words it holds.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, Literal

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Delete,
    FromClause,
    Insert,
    Select,
    Table,
    Update,
    and_,
    bindparam,
    cast,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    text,
    update,
)

from layerlore.storage.core import installation, scopes
from layerlore.storage.core.errors import Conflict, NotFound
from layerlore.storage.core.records import Origin, Scope, Thread
from layerlore.storage.core.scopes import in_scope, in_thread, of_scope, of_thread
from layerlore.storage.core.statements import parameters
from layerlore.storage.core.tables import SCOPE, document_sources, messages, session_memories, user_profiles
from layerlore.storage.core.tables import threads as threads_table
from layerlore.storage.core.tables.columns import THREAD
from layerlore.storage.core.transaction import Row, Tx
from layerlore.storage.threads import threads

ERASED = "erased"
"""The change of a version whose content was erased with a message. Its number is never used again."""

_deleted = messages.alias("deleted")
_gone_thread = threads_table.alias("gone_thread")


def _lies_in(sources: FromClause) -> ColumnElement[bool]:
    """Deleted messages within ranges. Written out, as the index on such rows has it."""
    return and_(
        *(_deleted.c[name] == sources.c[name] for name in SCOPE),
        _deleted.c.thread_uid == sources.c.source_thread_uid,
        _deleted.c.seq.between(sources.c.from_seq, sources.c.to_seq),
        _deleted.c.deletion_uid.is_not(None),
    )


def _is_gone(sources: FromClause) -> ColumnElement[bool]:
    thread = and_(
        *(_gone_thread.c[name] == sources.c[name] for name in SCOPE),
        _gone_thread.c.thread_uid == sources.c.source_thread_uid,
        _gone_thread.c.deletion_uid.is_not(None),
    )
    return or_(exists().where(_lies_in(sources)).correlate(sources), exists().where(thread).correlate(sources))


_sources = document_sources.alias("sources")


def _bind_version(versions: FromClause, thread_uid: Any) -> ColumnElement[bool]:
    """The sources of versions."""
    return and_(
        *(_sources.c[name] == versions.c[name] for name in SCOPE),
        _sources.c.thread_uid == thread_uid,
        _sources.c.version == versions.c.version,
    )


def version_there(versions: FromClause) -> ColumnElement[bool]:
    """Versions of documents of which no source message, and no thread of one, is deleted."""
    uid = versions.c.thread_uid if "thread_uid" in versions.c else ""
    return and_(
        versions.c.change != ERASED,
        ~exists().where(_bind_version(versions, uid), _is_gone(_sources)).correlate(versions),
    )


_DELETED_WITHIN = (
    select(_deleted.c.seq)
    .where(
        *(_deleted.c[name] == bindparam(name) for name in (*SCOPE, "thread_uid")),
        _deleted.c.seq.between(bindparam("from_seq"), bindparam("to_seq")),
        _deleted.c.deletion_uid.is_not(None),
    )
    .order_by(_deleted.c.seq)
)


async def deleted_within(tx: Tx, scope: Scope, thread_uid: str, from_seq: int, to_seq: int) -> list[int]:
    """The seqs of a thread's deleted messages from one seq to another, both included, in order."""
    return await tx.scalars(_DELETED_WITHIN, **of_thread(scope, thread_uid), from_seq=from_seq, to_seq=to_seq)


_NAMED = ("source_thread_uid", "from_seq", "to_seq")
_TAKE_OVER = insert(document_sources).from_select(
    [*SCOPE, "thread_uid", "version", *_NAMED],
    select(
        *(document_sources.c[name] for name in (*SCOPE, "thread_uid")),
        # Postgres takes a parameter in a list of SELECT for text.
        cast(bindparam("new_version"), BigInteger),
        *(document_sources.c[name] for name in _NAMED),
    ).where(in_thread(document_sources), document_sources.c.version == bindparam("of_version")),
)


async def take_over(tx: Tx, scope: Scope, thread_uid: str, version: int, *, of_version: int) -> None:
    """Record that a new version holds the words of another, so it was made from the same messages."""
    of = of_thread(scope, thread_uid)
    await tx.run(_TAKE_OVER, **of, new_version=version, of_version=of_version)


_ERASE, _ERASE_OF_THREAD = (
    tuple(
        update(table)
        .where(
            in_scope(table),
            table.c.change != ERASED,
            exists().where(_bind_version(table, uid), *which).correlate(table),
        )
        .values(content="", change=ERASED)
        for table, uid in ((session_memories, session_memories.c.thread_uid), (user_profiles, ""))
    )
    for which in (
        (
            _sources.c.source_thread_uid == bindparam("thread_uid"),
            exists()
            .where(_lies_in(_sources), _deleted.c.deletion_uid == bindparam("deletion_uid"))
            .correlate(_sources),
        ),
        (_sources.c.source_thread_uid == bindparam("thread_uid"),),
    )
)


async def erase(tx: Tx, scope: Scope, thread_uid: str, deletion_uid: str) -> None:
    """Erase the versions that were made from the messages of one delete, just before these are erased."""
    for statement in _ERASE:
        await tx.run(statement, **of_thread(scope, thread_uid), deletion_uid=deletion_uid)


async def erase_of_thread(tx: Tx, scope: Scope, thread_uid: str) -> None:
    """Erase the versions that were made from a thread, just before it is erased."""
    for statement in _ERASE_OF_THREAD:
        await tx.run(statement, **of_thread(scope, thread_uid))


MOST_VERSIONS = 20

Change = Literal["replace", "append", "restore", "clear"]
# A clear whose earlier versions are erased; shown as a clear.
_ERASED = "cleared"
FORGETTING = "forget"
"""The tool of a clear that hides the versions before it: they hold what was forgotten. Only an undo of it reads them."""
# Under another name the clear hides nothing any more.
_UNDONE = "undone forget"

Rule = Callable[[str, str], str]
"""Makes the new content from the current one ("" if none exists) and that of the requested version ("" if none is
requested). It may refuse by raising."""


@dataclass(frozen=True, slots=True)
class Version:
    """A document as it was. ``change`` says how it came to be, by the actor with the tool."""

    version: int
    change: str
    actor: str
    tool: str
    created_at: int
    content: str


@dataclass(frozen=True, slots=True)
class DocumentChange:
    """The versions before and after a change, the same one if it changed nothing; None: there was never any."""

    thread: Thread | None
    before: Version | None
    after: Version | None


@dataclass(frozen=True, slots=True)
class DocumentHistory:
    """The current version, and every kept one newest first, without their contents but the one asked for."""

    newest: Version | None
    chosen: Version | None
    versions: Sequence[Version]


@dataclass(frozen=True, slots=True)
class _Statements:
    last: Select[Any]
    newest: Select[Any]
    one: Select[Any]
    one_shown: Select[Any]
    all: Select[Any]
    put: Insert
    forget: Delete
    cleared: Select[Any]
    mark: Update
    show: Update


_NAMES = ("version", "change", "actor", "tool", "created_at")


@dataclass(frozen=True, slots=True, order=True)
class DocumentSource:
    """A run of messages of one thread that a version was made from, both ends included."""

    source_thread_uid: str
    from_seq: int
    to_seq: int


@cache
def _of(table: Table) -> _Statements:
    if "thread_uid" in table.c:
        own = in_thread(table)
    else:
        own = in_scope(table)
    key = [column.name for column in table.primary_key if column.name != "version"]
    if "thread_uid" in table.c:
        owner = [table.c.thread_uid]
    else:
        owner = []
    shown = [table.c[name] for name in _NAMES]
    there = version_there(table)
    full = select(*shown, table.c.content).where(own, there)
    this = table.c.version == bindparam("which")
    # Versions before the newest forget hold what was forgotten, so readers do not see them.
    hiding = table.alias("hiding")
    last_hiding = (
        select(func.coalesce(func.max(hiding.c.version), 0))
        .where(*(hiding.c[name] == table.c[name] for name in key))
        .where(hiding.c.change != "replace", hiding.c.tool == FORGETTING)
        .correlate(table)
        .scalar_subquery()
    )
    shown_version = table.c.version >= last_hiding
    return _Statements(
        # Numbers of versions that are hidden or erased count as well, so that none is used again.
        last=select(func.max(table.c.version)).where(own),
        newest=full.order_by(table.c.version.desc()).limit(1),
        one=full.where(this),
        one_shown=full.where(this, shown_version),
        all=select(*shown).where(own, there, shown_version).order_by(table.c.version.desc()),
        put=insert(table).values(**parameters(*key, *_NAMES, "content")),
        forget=delete(table).where(own, table.c.version < bindparam("first_kept")),
        cleared=select(*owner, table.c.version)
        # Written out, since an index on some of the rows serves no statement that has a parameter there.
        .where(in_scope(table), text("change = 'clear'"), table.c.created_at < bindparam("before"))
        .order_by(table.c.created_at)
        .limit(bindparam("most"))
        .with_for_update(skip_locked=True),
        mark=update(table).where(own, this).values(change=_ERASED),
        show=update(table)
        .where(
            own, table.c.tool == FORGETTING, table.c.version > bindparam("after"), table.c.version <= bindparam("upto")
        )
        .values(tool=_UNDONE),
    )


async def change(
    tx: Tx,
    scope: Scope,
    thread_id: str,
    rule: Rule,
    *,
    how: Change,
    expected_version: int | None,
    restore_version: int | None = None,
    forgotten: bool = False,
    erase: bool = False,
    origin: Origin,
    new_uid: str,
    now: int,
) -> DocumentChange:
    """Give a document the content that ``rule`` makes, under the lock of its thread or resource.

    An equal content makes no new version. A thread that is absent is made, unless there is nothing to clear or to
    restore in it. ``erase``: what was before is not kept. ``forgotten``: a version that a forget hides may be restored.
    Raises Conflict when the version is not the one expected
    (0: none yet), NotFound for a version that is not kept (and for the thread, see above), and whatever ``rule``
    raises; then nothing happened.
    """
    # A restore or a clear makes no thread: there is nothing in a new one.
    thread = await _held(tx, scope, thread_id, None if how in ("restore", "clear") else new_uid, now)
    statements, of = _owner(scope, thread)
    before = _version(await tx.one(statements.newest, **of))
    # Under the lock, so that no other writer comes between the check and the write.
    _expect(before, expected_version)
    restored = None
    if restore_version is not None:
        if forgotten:
            one = statements.one
        else:
            one = statements.one_shown
        restored = _version(await tx.one(one, **of, which=restore_version))
        if restored is None:
            kept = ", ".join(str(version.version) for version in await _listed(tx, statements, of))
            raise NotFound(f"version {restore_version} is not kept; kept: {kept or 'none, nothing was written yet'}")
    content = rule(before.content if before else "", restored.content if restored else "")
    if content == (before.content if before else ""):
        return DocumentChange(thread, before, before)
    number = (await tx.scalar(statements.last, **of) or 0) + 1
    after = Version(number, how, origin.actor, origin.tool, now, content)
    written = {**asdict(after), "change": _ERASED if erase else how}
    await tx.run(statements.put, **of, **written)
    await tx.run(statements.forget, **of, first_kept=after.version if erase else after.version - MOST_VERSIONS + 1)
    if words := {"append": before, "restore": restored}.get(how):
        if thread:
            uid = thread.thread_uid
        else:
            uid = ""
        await take_over(tx, scope, uid, after.version, of_version=words.version)
    if erase:
        await installation.owe_rewrite(tx)
    return DocumentChange(thread, before, after)


async def _held(tx: Tx, scope: Scope, thread_id: str, new_uid: str | None, now: int) -> Thread | None:
    if not thread_id:
        await scopes.hold(tx, scope)
        return None
    if new_uid is None:
        return await threads.lock(tx, scope, thread_id)
    return await threads.lock_or_make(tx, scope, thread_id, new_uid, now)


def _owner(scope: Scope, thread: Thread | None) -> tuple[_Statements, dict[str, Any]]:
    if thread is None:
        return _of(user_profiles), of_scope(scope)
    return _of(session_memories), of_thread(scope, thread.thread_uid)


def _expect(found: Version | None, expected: int | None) -> None:
    if found:
        version = found.version
    else:
        version = 0
    if expected is not None and expected != version:
        raise Conflict(
            f"expected_version={expected}, but the document is at version {version}"
            + (f", by {found.tool} of {found.actor}" if found else " (nothing was written yet)")
            + "; nothing was changed: read it with get_working_memory, and send the change again if it still fits"
        )


async def read_history(tx: Tx, scope: Scope, thread_id: str, *, version: int = 0) -> DocumentHistory:
    """The current version, the one asked for (0: none) if it is stored, and all that are. Raises NotFound."""
    if thread_id:
        thread = await threads.find(tx, scope, thread_id)
    else:
        thread = None
    statements, of = _owner(scope, thread)
    if version:
        chosen = _version(await tx.one(statements.one_shown, **of, which=version))
    else:
        chosen = None
    newest = _version(await tx.one(statements.newest, **of))
    return DocumentHistory(newest, chosen, await _listed(tx, statements, of) if newest else ())


async def read_contents(
    tx: Tx, scope: Scope, thread_id: str, versions: Sequence[int], *, forgotten: bool = False
) -> dict[int, str]:
    """The contents of those of these versions that are stored, by their numbers; also (``forgotten``) of those that a
    forget hides. Raises NotFound for the thread."""
    statements, of = _owner(scope, await threads.find(tx, scope, thread_id) if thread_id else None)
    if forgotten:
        one = statements.one
    else:
        one = statements.one_shown
    rows = [_version(await tx.one(one, **of, which=number)) for number in versions]
    return {version.version: version.content for version in rows if version is not None}


async def show_forgotten(tx: Tx, scope: Scope, thread: Thread | None, *, after: int, upto: int) -> None:
    """Show again what forgets hid, after they were undone: those that made the versions after one and up to another."""
    statements, of = _owner(scope, thread)
    await tx.run(statements.show, **of, after=after, upto=upto)


async def read_current(tx: Tx, scope: Scope, thread_id: str) -> Version | None:
    """The current version; None when nothing was written yet. Raises NotFound."""
    return await read_newest(tx, scope, await threads.find(tx, scope, thread_id) if thread_id else None)


async def read_newest(tx: Tx, scope: Scope, thread: Thread | None) -> Version | None:
    """The current version of the document of a thread that was found in this transaction, or (None) of the resource;
    None when nothing was written yet."""
    statements, of = _owner(scope, thread)
    return _version(await tx.one(statements.newest, **of))


async def read_newest_of(tx: Tx, scope: Scope, thread_uid: str) -> Version | None:
    """The current version of the document of the thread with this uid, or (empty) of the resource; None when nothing was
    written yet."""
    statements = _of(session_memories if thread_uid else user_profiles)
    if thread_uid:
        of = of_thread(scope, thread_uid)
    else:
        of = of_scope(scope)
    return _version(await tx.one(statements.newest, **of))


async def erase_cleared(tx: Tx, scope: Scope, *, cleared_before: int, most: int = 100) -> int:
    """Erase what was in at most ``most`` documents of each kind before they were cleared, where that was before the
    time (milliseconds since 1970). Returns how many documents that were."""
    erased = 0
    for table in (session_memories, user_profiles):
        statements = _of(table)
        for *owner, version in await tx.all(statements.cleared, **of_scope(scope), before=cleared_before, most=most):
            if owner:
                of = of_thread(scope, *owner)
            else:
                of = of_scope(scope)
            await tx.run(statements.forget, **of, first_kept=version)
            # The mark takes the version out of the index, so that the next run does not find it again.
            await tx.run(statements.mark, **of, which=version)
            erased += 1
    if erased:
        await installation.owe_rewrite(tx)
    return erased


async def _listed(tx: Tx, statements: _Statements, of: dict[str, Any]) -> list[Version]:
    rows = await tx.all(statements.all, **of)
    return [version for version in map(_version, rows) if version is not None]


def _version(row: Row | None) -> Version | None:
    if row is None:
        return None
    version, how, actor, tool, created_at, *content = row
    return Version(version, "clear" if how == _ERASED else how, actor, tool, created_at, *(content or ("",)))


_SOURCE_COLUMNS = tuple(document_sources.c[name] for name in ("source_thread_uid", "from_seq", "to_seq"))
_own_sources = in_thread(document_sources)
_SOURCES_OF = (
    select(*_SOURCE_COLUMNS)
    .where(_own_sources, document_sources.c.version == bindparam("of_version"))
    .order_by(*_SOURCE_COLUMNS)
)
_INSERT_SOURCE = insert(document_sources).values(
    **parameters(*THREAD, "version", *(column.name for column in _SOURCE_COLUMNS))
)
_FORGET_SOURCES = delete(document_sources).where(_own_sources, document_sources.c.version < bindparam("first_kept"))


async def sources_of_version(tx: Tx, scope: Scope, thread_uid: str, version: int) -> list[DocumentSource]:
    """The sources of a version, with those of the earlier versions whose words it holds."""
    rows = await tx.all(_SOURCES_OF, **of_thread(scope, thread_uid), of_version=version)
    return [DocumentSource(*row) for row in rows]


async def record_sources(
    tx: Tx, scope: Scope, thread_uid: str, version: int, sources: Iterable[DocumentSource]
) -> Sequence[DocumentSource]:
    """Write down what a new version was made from, and forget it for versions that are not kept any more. Returns the
    sources, with those that touch made one, and parted where messages are deleted by now: it was made without them."""
    of = of_thread(scope, thread_uid)
    joined = [run for source in _joined(sources) for run in await _there(tx, scope, source)]
    await tx.many(_INSERT_SOURCE, [{**of, "version": version, **asdict(source)} for source in joined])
    await tx.run(_FORGET_SOURCES, **of, first_kept=version - MOST_VERSIONS + 1)
    return joined


async def _there(tx: Tx, scope: Scope, source: DocumentSource) -> list[DocumentSource]:
    """The runs of a source between its deleted messages."""
    runs: list[DocumentSource] = []
    uid, begins = source.source_thread_uid, source.from_seq
    holes = await deleted_within(tx, scope, uid, source.from_seq, source.to_seq)
    # The seq behind the end closes the last run.
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
