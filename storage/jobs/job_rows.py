"""Background work as rows: one for each thread (or resource) and kind, due while more is requested than done.

A request is written in the transaction that made the work due. A claim is a lease with an epoch. A worker ends a job in
the transaction of its effects, which is undone (``Fenced``) once another worker has claimed the job. A model is called
between the two, outside of any transaction.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, get_args

from sqlalchemy import (
    BigInteger,
    BindParameter,
    CompoundSelect,
    Executable,
    Select,
    and_,
    bindparam,
    case,
    cast,
    delete,
    func,
    literal,
    null,
    or_,
    select,
    union_all,
    update,
)

from layerlore.storage.core.errors import Conflict
from layerlore.storage.core.installation import Look
from layerlore.storage.core.records import Scope, Tenant
from layerlore.storage.core.scopes import in_scope, in_thread, of_scope, of_thread, same_thread
from layerlore.storage.core.statements import any_of, insert_or_update, parameters, refused
from layerlore.storage.core.tables import job_turns, jobs, threads
from layerlore.storage.core.tables.columns import THREAD
from layerlore.storage.core.transaction import Row, Tx

Kind = Literal["observe", "reflect", "digest", "entries", "profile", "session_memory", "title", "summary"]
KINDS: tuple[Kind, ...] = get_args(Kind)
State = Literal["running", "due", "later", "dead"]

MOST_FAILURES = 5
"""After this many failures in a row a job is dead: it waits to be resumed."""
ERROR_CHARS = 300


class Fenced(Conflict):
    """The claim is not the job's newest any more, or the job has ended: what was to be stored is not."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A job that a worker has claimed: everything requested up to ``seq``, until ``lease_until`` (milliseconds).

    ``thread_uid`` is empty for work of the resource; ``attempts`` counts the failures since it was last done.
    """

    scope: Scope
    thread_uid: str
    kind: Kind
    seq: int
    done_seq: int
    epoch: int
    lease_until: int
    attempts: int


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job that waits, as its owner sees it. ``thread_id`` is None for work of the resource; ``error`` is what went
    wrong at the last attempt, without any text of a message."""

    thread_uid: str
    thread_id: str | None
    kind: Kind
    state: State
    requested_seq: int
    done_seq: int
    due_at: int
    attempts: int
    dead_at: int | None
    error: str | None
    created_at: int
    lease_until: int | None = None


@dataclass(frozen=True, slots=True)
class GatheringRule:
    """Small requests wait for others: their jobs are due at ``soon_at`` once ``most`` seqs lie between what was
    requested and what is done, else when each request says."""

    soon_at: int
    most: int


_KEY = (*THREAD, "kind")

# As the index on such rows says it, so that it serves.
_open = and_(jobs.c.requested_seq > jobs.c.done_seq, jobs.c.dead_at.is_(None))
_free = or_(jobs.c.lease_until.is_(None), jobs.c.lease_until <= bindparam("now"))
_held = jobs.c.lease_until > bindparam("now")
_this = and_(in_thread(jobs), jobs.c.kind == bindparam("of_kind"))
# A holder that was fenced off has a lower epoch, so its statements change no row.
_ours = and_(_this, jobs.c.epoch == bindparam("of_epoch"), jobs.c.holder.is_not(None))


@cache
def _request(revive: bool, gathers: bool = False) -> Executable:
    values = {
        **parameters(*_KEY, "requested_seq", "due_at"),
        "done_seq": 0,
        "epoch": 0,
        "attempts": 0,
        "created_at": bindparam("now"),
        "updated_at": bindparam("now"),
    }
    wanted = refused(jobs)
    # A done or running job gets the new time, a waiting one keeps the earlier one, and a failed one waits as long as it
    # has to.
    new_due_at = wanted.due_at
    if gathers:
        most, soon_at, late_at = (cast(bindparam(name), BigInteger) for name in ("most", "soon_at", "late_at"))
        new_due_at = case((wanted.requested_seq - jobs.c.done_seq >= most, soon_at), else_=late_at)
    due_at = case(
        (or_(jobs.c.requested_seq <= jobs.c.done_seq, jobs.c.lease_until > wanted.updated_at), new_due_at),
        (and_(jobs.c.attempts == 0, new_due_at < jobs.c.due_at), new_due_at),
        else_=jobs.c.due_at,
    )
    changed: dict[str, Any] = {
        # A later request for less takes nothing back.
        "requested_seq": case(
            (wanted.requested_seq > jobs.c.requested_seq, wanted.requested_seq), else_=jobs.c.requested_seq
        ),
        "due_at": due_at,
        "updated_at": wanted.updated_at,
    }
    # A dead job begins anew: without its failures, and due when this request says.
    if revive:
        dead = jobs.c.dead_at.is_not(None)
        changed |= {
            "due_at": case((dead, wanted.due_at), else_=due_at),
            "attempts": case((dead, 0), else_=jobs.c.attempts),
            "dead_at": null(),
        }
    return insert_or_update(jobs, values, keys=_KEY, changes=changed)


async def request(
    tx: Tx,
    scope: Scope,
    thread_uid: str,
    kind: Kind,
    seq: int,
    *,
    due_at: int,
    now: int,
    revive: bool = False,
) -> None:
    """Ask for a job of a thread (empty: of the resource) up to ``seq``, in the transaction that makes it due.

    A seq that is not above what was done asks for nothing. A dead job stays dead unless ``revive``.
    """
    await request_many(tx, scope, thread_uid, [(kind, seq, due_at)], now=now, revive=revive)


async def request_many(
    tx: Tx,
    scope: Scope,
    thread_uid: str,
    wanted: Sequence[tuple[Kind, int, int]],
    *,
    now: int,
    revive: bool = False,
    gathering: GatheringRule | None = None,
) -> None:
    """Make several kinds of jobs of a thread due, in one statement. ``wanted``: each kind, its seq, when it is due."""
    rows: list[dict[str, Any]] = [
        {**of_thread(scope, thread_uid), "kind": kind, "requested_seq": seq, "due_at": due_at, "now": now}
        for kind, seq, due_at in sorted(wanted)  # in one order, so that no two writers wait for each other
    ]
    if gathering is not None:
        for row in rows:
            row |= {"most": gathering.most, "soon_at": gathering.soon_at, "late_at": row["due_at"]}
            if row["requested_seq"] >= gathering.most:
                row["due_at"] = gathering.soon_at  # holds where no row is met: of that job nothing is done yet
    if rows:
        await tx.many(_request(revive, gathering is not None), rows)


# More than claims at one moment, each of which passes over what the others have locked.
_CANDIDATES = 64


@cache
def _next(of_one_scope: bool) -> Select[Any]:
    """The job that is next: the resource that was served longest ago first, and of it what is due the longest."""
    turn = and_(*(job_turns.c[name] == jobs.c[name] for name in _KEY[:3]))
    due, put_off = jobs.c.due_at <= bindparam("now"), jobs.c.due_at == bindparam("also_at")
    can_be_had = and_(_open, or_(due, put_off) if of_one_scope else due, _free)
    candidates = (
        # A resource that was never served comes first.
        select(*(jobs.c[name] for name in _KEY), func.coalesce(job_turns.c.served_at, 0).label("served_at"))
        .select_from(jobs.outerjoin(job_turns, turn))
        .where(can_be_had, any_of(jobs.c.kind, "kinds"))
        .order_by("served_at", jobs.c.due_at, *(jobs.c[name] for name in _KEY))
        .limit(_CANDIDATES)
    )
    if of_one_scope:
        candidates = candidates.where(in_scope(jobs))
    # Postgres would sort all jobs that are due if it had to lock the first one of them.
    first = candidates.subquery("candidates")
    found = (
        select(*(jobs.c[name] for name in _KEY), jobs.c.requested_seq, jobs.c.done_seq, jobs.c.epoch, jobs.c.attempts)
        .select_from(first.join(jobs, and_(*(jobs.c[name] == first.c[name] for name in _KEY))))
        # Looked at again once the row is locked: another worker may have taken it meanwhile.
        .where(can_be_had)
        .order_by(first.c.served_at, jobs.c.due_at, *(jobs.c[name] for name in _KEY))
        .limit(1)
        .with_for_update(of=jobs, skip_locked=True)
    )
    if of_one_scope:
        return found.where(in_scope(jobs))
    return found


_NEXT = Look(
    "layerlore_next_job",
    _next(False),
    (
        *((name, "text") for name in _KEY),
        *((name, "bigint") for name in ("requested_seq", "done_seq", "epoch", "attempts")),
    ),
)

_TAKE = (
    update(jobs)
    .where(_this)
    .values(
        epoch=jobs.c.epoch + 1,
        holder=bindparam("new_holder"),
        lease_until=bindparam("new_lease_until"),
        claimed_seq=jobs.c.requested_seq,
        updated_at=bindparam("now"),
    )
)
# The resource goes to the end of the queue.
_SERVE = insert_or_update(
    job_turns,
    parameters(*_KEY[:3], "served_at"),
    keys=_KEY[:3],
    changes={"served_at": refused(job_turns).served_at},
)


async def claim(tx: Tx, kinds: Collection[Kind], *, holder: str, now: int, lease_ms: int) -> Claim | None:
    """Take a job of one of the kinds, of any scope, for ``lease_ms``; None when none is due. Also one whose lease has
    run out: its holder is dead, or held up, and fenced off from now on."""
    found = await _NEXT.rows(tx, now=now, kinds=list(kinds))
    if not found:
        return None
    (due,) = found
    tenant_id, agent_id, resource_id, *_ = due
    # The look saw all tenants. From here on the policies hold the transaction to this scope.
    await tx.enter(Scope(tenant_id, agent_id, resource_id))
    return await _claim(tx, due, holder, now, lease_ms)


async def claim_in(
    tx: Tx, scope: Scope, kinds: Collection[Kind], *, holder: str, now: int, lease_ms: int, also_at: int = 0
) -> Claim | None:
    """Take a job of one of the kinds, of one scope, for ``lease_ms``; None when none is due. A job that was put off
    until ``also_at`` counts as due."""
    due = await tx.one(_next(True), **of_scope(scope), now=now, also_at=also_at, kinds=list(kinds))
    if due is None:
        return None
    return await _claim(tx, due, holder, now, lease_ms)


_BESIDE = (
    select(*(jobs.c[name] for name in _KEY), jobs.c.requested_seq, jobs.c.done_seq, jobs.c.epoch, jobs.c.attempts)
    .where(
        in_thread(jobs),
        _open,
        or_(jobs.c.due_at <= bindparam("now"), jobs.c.due_at == bindparam("also_at")),
        _free,
        any_of(jobs.c.kind, "kinds"),
    )
    .order_by(jobs.c.kind)
    .with_for_update(of=jobs, skip_locked=True)
)


async def claim_beside(
    tx: Tx,
    scope: Scope,
    thread_uid: str,
    kinds: Collection[Kind],
    *,
    holder: str,
    now: int,
    lease_ms: int,
    also_at: int,
) -> list[Claim]:
    """Take the jobs of these kinds, of one thread, that are due like another claimed one of it."""
    due = await tx.all(_BESIDE, **of_thread(scope, thread_uid), now=now, also_at=also_at, kinds=list(kinds))
    return [await _claim(tx, row, holder, now, lease_ms) for row in due]


_HELD_BY = (
    select(jobs.c.thread_uid, jobs.c.kind, jobs.c.claimed_seq, jobs.c.done_seq, jobs.c.epoch, jobs.c.lease_until)
    .add_columns(jobs.c.attempts)
    .where(in_scope(jobs), jobs.c.holder == bindparam("of_holder"), _held, any_of(jobs.c.kind, "kinds"))
    .order_by(jobs.c.lease_until, jobs.c.thread_uid, jobs.c.kind)
)


async def list_held(tx: Tx, scope: Scope, kinds: Collection[Kind], *, holder: str, now: int) -> list[Claim]:
    """The claims of a holder whose lease lasts, the oldest first."""
    found = await tx.all(_HELD_BY, **of_scope(scope), of_holder=holder, now=now, kinds=list(kinds))
    return [Claim(scope, thread_uid, kind, *rest) for thread_uid, kind, *rest in found]


async def _claim(tx: Tx, due: Row, holder: str, now: int, lease_ms: int) -> Claim:
    tenant_id, agent_id, resource_id, thread_uid, kind, seq, done_seq, epoch, attempts = due
    scope = Scope(tenant_id, agent_id, resource_id)
    taken = Claim(scope, thread_uid, kind, seq, done_seq, epoch + 1, now + lease_ms, attempts)
    await tx.run(
        _TAKE,
        **of_thread(scope, thread_uid),
        of_kind=kind,
        new_holder=holder,
        new_lease_until=taken.lease_until,
        now=now,
    )
    await tx.run(_SERVE, **of_scope(scope), served_at=now)
    return taken


_HELD = select(jobs.c.claimed_seq, jobs.c.done_seq, jobs.c.epoch, jobs.c.lease_until, jobs.c.attempts).where(_ours)


async def find_held(tx: Tx, scope: Scope, thread_uid: str, kind: Kind, epoch: int) -> Claim | None:
    """The claim with that epoch, as it was made, while it is the job's newest and the job has not ended."""
    row = await tx.one(_HELD, **of_thread(scope, thread_uid), of_kind=kind, of_epoch=epoch)
    if row is None:
        return None
    return Claim(scope, thread_uid, kind, *row)


_PROLONG = update(jobs).where(_ours).values(lease_until=bindparam("new_lease_until"), updated_at=bindparam("now"))
_ended: dict[str, Any] = {"holder": None, "lease_until": None, "updated_at": bindparam("now")}
_FINISH = (
    update(jobs)
    .where(_ours)
    .values(
        **_ended,
        done_seq=case((jobs.c.done_seq > bindparam("new_done_seq"), jobs.c.done_seq), else_=bindparam("new_done_seq")),
        # A request that came meanwhile says itself when it is due.
        due_at=case(
            (jobs.c.requested_seq > jobs.c.claimed_seq, jobs.c.due_at),
            else_=func.coalesce(cast(bindparam("new_due_at"), BigInteger), jobs.c.due_at),
        ),
        attempts=0,
        error=None,
    )
)
_FAIL = (
    update(jobs)
    .where(_ours)
    .values(
        **_ended,
        attempts=jobs.c.attempts + 1,
        error=bindparam("new_error"),
        due_at=bindparam("new_due_at"),
        dead_at=bindparam("new_dead_at"),
    )
)
# The claim goes on: its holder may try again until the lease ends.
_NOTE_FAILURE = (
    update(jobs)
    .where(_ours)
    .values(attempts=jobs.c.attempts + 1, error=bindparam("new_error"), updated_at=bindparam("now"))
)
# due_at and attempts stay, so that another worker may have the job at once.
_HAND_BACK = update(jobs).where(_ours).values(**_ended)


def _values(claim: Claim, now: int) -> dict[str, str | int]:
    return {**of_thread(claim.scope, claim.thread_uid), "of_kind": claim.kind, "of_epoch": claim.epoch, "now": now}


async def prolong(tx: Tx, claim: Claim, *, now: int, lease_ms: int) -> bool:
    """Keep the job for ``lease_ms`` from now. False: another worker has it by now, or it has ended."""
    return await tx.run(_PROLONG, **_values(claim, now), new_lease_until=now + lease_ms) == 1


async def finish(tx: Tx, claim: Claim, *, now: int, due_at: int | None = None) -> None:
    """End a job in the transaction of its effects; it stays due if more was requested meanwhile. ``due_at``: when the
    rest of it is due, if it is done only in part.

    Raises Fenced if another worker has it by now, or it has ended: then the whole transaction must be undone.
    """
    if not await tx.run(_FINISH, **_values(claim, now), new_done_seq=claim.seq, new_due_at=due_at):
        raise Fenced(
            "the job is not yours any more: its lease ran out and somebody else took it, or it has ended. "
            "Nothing was stored; take another job"
        )


async def fail(tx: Tx, claim: Claim, *, error: str, retry_at: int, dead: bool, now: int) -> bool:
    """Note why an attempt failed: the job is due again at ``retry_at``, or dead. The text is masked and names no
    content; its first ERROR_CHARS are stored. False: another worker has the job by now, or it has ended."""
    changed = await tx.run(
        _FAIL,
        **_values(claim, now),
        new_error=error[:ERROR_CHARS],
        new_due_at=retry_at,
        new_dead_at=now if dead else None,
    )
    return changed == 1


async def note_failure(tx: Tx, claim: Claim, *, error: str, now: int) -> bool:
    """Note why an attempt failed, and leave the job to its holder until the lease ends, to try again. False: another
    worker has the job by now, or it has ended."""
    return await tx.run(_NOTE_FAILURE, **_values(claim, now), new_error=error[:ERROR_CHARS]) == 1


async def hand_back(tx: Tx, claim: Claim, *, now: int) -> bool:
    """Let another worker have the job at once; it does not count as a failure. False: it is not ours any more."""
    return await tx.run(_HAND_BACK, **_values(claim, now)) == 1


_live = and_(same_thread(threads, jobs), threads.c.deletion_uid.is_(None))
_WAITING = (
    select(
        jobs.c.thread_uid,
        threads.c.thread_id,
        jobs.c.kind,
        case(
            (jobs.c.dead_at.is_not(None), "dead"),
            (_held, "running"),
            (jobs.c.due_at <= bindparam("now"), "due"),
            else_="later",
        ),
        jobs.c.requested_seq,
        jobs.c.done_seq,
        jobs.c.due_at,
        jobs.c.attempts,
        jobs.c.dead_at,
        jobs.c.error,
        jobs.c.created_at,
        jobs.c.lease_until,
    )
    .select_from(jobs.outerjoin(threads, _live))
    .where(
        in_scope(jobs),
        jobs.c.requested_seq > jobs.c.done_seq,
        # Work of the resource has no thread. A job of a deleted thread is not shown.
        or_(jobs.c.thread_uid == "", threads.c.thread_id.is_not(None)),
    )
    .order_by(jobs.c.due_at, jobs.c.thread_uid, jobs.c.kind)
)


async def list_waiting(tx: Tx, scope: Scope, now: int) -> list[JobRow]:
    """The jobs of a scope that are not done: running, due, due later, dead. Those of deleted threads are not shown."""
    return [JobRow(*row) for row in await tx.all(_WAITING, **of_scope(scope), now=now)]


_RESUME = (
    update(jobs)
    .where(in_scope(jobs), jobs.c.dead_at.is_not(None), any_of(jobs.c.kind, "kinds"))
    .values(dead_at=None, attempts=0, due_at=bindparam("now"), updated_at=bindparam("now"))
)


async def resume(tx: Tx, scope: Scope, kinds: Collection[Kind] | None, now: int) -> int:
    """Make dead jobs of a scope due again, of the kinds (None: of all). Returns how many there were."""
    return await tx.run(_RESUME, **of_scope(scope), kinds=list(KINDS if kinds is None else kinds), now=now)


def oldest_of_each_kind(some: Select[Any], most: int | BindParameter[int]) -> CompoundSelect[Any]:
    """The rows of a query for open jobs that are due first, at most ``most`` of each kind. Each kind has a query of its
    own, which an index serves however many jobs wait."""
    parts = [
        some.where(_open, jobs.c.kind == literal(kind)).order_by(jobs.c.due_at).limit(most).subquery() for kind in KINDS
    ]
    return union_all(*map(select, parts))


def _find_soonest() -> Select[Any]:
    """When the next job can be claimed."""
    free = oldest_of_each_kind(select(jobs.c.due_at).where(_free, any_of(jobs.c.kind, "kinds")), 1)
    # A claimed job is free again once its lease has run out. Few jobs are claimed, so their own index is better than
    # that of a kind.
    any_kind = any_of(jobs.c.kind + "", "kinds")
    held = select(func.min(jobs.c.lease_until).label("due_at")).where(_open, _held, any_kind)
    times = union_all(*free.selects, held).subquery()
    return select(func.min(times.c.due_at))


_SOONEST = Look("layerlore_soonest_job", _find_soonest(), (("due_at", "bigint"),))


async def find_soonest(tx: Tx, kinds: Collection[Kind], *, now: int) -> int | None:
    """When the next job of the kinds can be claimed in any scope, in milliseconds: when it is due, or its lease runs
    out. None without such a job."""
    soonest: int | None
    ((soonest,),) = await _SOONEST.rows(tx, kinds=list(kinds), now=now)
    return soonest


_SET_BACK = (
    update(jobs)
    .where(_this, jobs.c.done_seq > bindparam("upto_seq"))
    .values(
        done_seq=bindparam("upto_seq"),
        # A job that waits anyway keeps its time.
        due_at=case((jobs.c.requested_seq > jobs.c.done_seq, jobs.c.due_at), else_=bindparam("new_due_at")),
        updated_at=bindparam("now"),
    )
)


async def set_back(tx: Tx, scope: Scope, thread_uid: str, kind: Kind, upto: int, *, due_at: int, now: int) -> None:
    """Let a job that was done count as done up to a seq only: what is behind is due again. A dead job stays dead."""
    of = of_thread(scope, thread_uid)
    await tx.run(_SET_BACK, **of, of_kind=kind, upto_seq=upto, new_due_at=due_at, now=now)


_FENCE_OFF = (
    update(jobs)
    .where(in_scope(jobs), jobs.c.holder.is_not(None))
    # With the next epoch a holder that ends later is refused.
    .values(epoch=jobs.c.epoch + 1, holder=None, lease_until=None, updated_at=bindparam("now"))
)


async def fence_off(tx: Tx, scope: Scope, *, now: int) -> int:
    """Take all running jobs of a scope from their holders: their work is not stored, and another worker begins anew.
    The transaction holds the resource, so that no two of them wait for each other. Counts them."""
    return await tx.run(_FENCE_OFF, **of_scope(scope), now=now)


_FORGET_THREAD = delete(jobs).where(in_thread(jobs))


async def forget_thread(tx: Tx, scope: Scope, thread_uid: str) -> None:
    """Erase the jobs of a thread that is erased; a worker that holds one is fenced off."""
    await tx.run(_FORGET_THREAD, **of_thread(scope, thread_uid))


_of_tenant = and_(jobs.c.tenant_id == bindparam("of_tenant"), _open, any_of(jobs.c.kind, "kinds"))

_due_of_tenant = select(jobs.c.kind).where(_of_tenant, jobs.c.due_at <= bindparam("now")).limit(bindparam("most"))
_COUNT_DUE = select(func.count()).select_from(_due_of_tenant.subquery())


async def count_due(tx: Tx, tenant: Tenant, kinds: Collection[Kind], *, most: int, now: int) -> int:
    """How many jobs of the kinds are due, running ones included; ``most`` if there are more."""
    return int(await tx.scalar(_COUNT_DUE, of_tenant=tenant.tenant_id, kinds=list(kinds), most=most, now=now) or 0)


_PUT_OFF = (
    update(jobs)
    .where(
        _of_tenant,
        jobs.c.due_at < bindparam("until"),
        # A job that is being worked on keeps its time.
        or_(jobs.c.lease_until.is_(None), jobs.c.lease_until <= bindparam("now")),
    )
    .values(due_at=bindparam("until"), updated_at=bindparam("now"))
)


async def put_off(tx: Tx, tenant: Tenant, kinds: Collection[Kind], *, until: int, now: int) -> int:
    """Let the unclaimed jobs of the kinds be due at ``until`` and not before; that counts as no failure. Further
    requests make it due as always. Counts them."""
    return await tx.run(_PUT_OFF, of_tenant=tenant.tenant_id, kinds=list(kinds), until=until, now=now)
