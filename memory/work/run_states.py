"""The states of a run, and who may move it from one to the next: pure rules, whose errors name what is allowed.

    (new)      -> running, suspended, completed, failed, cancelled
    running    -> suspended, completed, failed, cancelled   by the holder of the newest claim
    running    -> running                                   by its holder, or by a resumer once the claim has run out
    suspended  -> running                                   by a resumer
    running, suspended -> cancelled                         by any caller
    completed, failed, cancelled: nothing follows

A claim is a fencing token: each start and each resume gets a new one, which makes the one before invalid.
Until another holder takes a run over, its last holder may still suspend or end it, however late: nothing can have
happened in between.
"""

from typing import NoReturn, get_args

from layerlore.memory.rules.ages import iso
from layerlore.memory.rules.validation import describe
from layerlore.storage.core.errors import Conflict
from layerlore.storage.work.runs import Ending, Run, Status

STATUSES: tuple[Status, ...] = get_args(Status)
ENDINGS: tuple[Ending, ...] = get_args(Ending)

_FROM_RUNNING = "allowed from running: " + ", ".join(("suspended", *ENDINGS))


def make_claim_token(epoch: int, name: str) -> str:
    """The claim of an epoch; its name is unique."""
    return f"{epoch}.{name}"


def is_claimed(run: Run, now: int) -> bool:
    """Whether the run has a holder."""
    return run.status == "running" and run.claimed_until is not None and run.claimed_until > now


def is_expired(run: Run, now: int) -> bool:
    """Whether the checkpoint's time is over; it lasts while the run has a holder."""
    return run.expires_at is not None and run.expires_at <= now and not is_claimed(run, now)


def check_resumable(run: Run, now: int) -> None:
    """Raises Conflict unless the run waits for a resumer."""
    if run.status in ENDINGS:
        raise Conflict(_describe_ended(run))
    if is_claimed(run, now):
        raise Conflict(
            f"{_describe_held(run)}. It can be resumed when it is suspended again, or when that time is over; {_FROM_RUNNING}, "
            "each by the holder of the claim"
        )
    if is_expired(run, now):
        raise Conflict(_describe_expired(run))


def check_open(run: Run, now: int) -> None:
    """Raises Conflict for a run that has ended, or whose checkpoint has expired."""
    if run.status in ENDINGS:
        raise Conflict(_describe_ended(run))
    if is_expired(run, now):
        raise Conflict(_describe_expired(run))


def refuse_taken(run: Run) -> NoReturn:
    """Raises Conflict for the run that has the id of a new one."""
    if run.status in ENDINGS:
        raise Conflict(_describe_ended(run))
    if run.status == "running":
        is_now = _describe_held(run)
    else:
        is_now = f"run {run.run_id!r} is suspended"
    raise Conflict(f"{is_now}; take it over with resume_run, or give another run_id")


def is_told(run: Run, claim: str) -> bool:
    """Whether the run was cancelled while the claim held it: its holder learns of it, and may still bring its
    output."""
    return run.status == "cancelled" and bool(claim) and run.claim == claim


def check_holder(run: Run, claim: str) -> None:
    """Raises Conflict unless the run is running and the claim is its newest."""
    if run.status in ENDINGS:
        raise Conflict(_describe_ended(run))
    if run.status == "suspended":
        if claim:
            stale = f"the claim {describe(claim)} is over: "
        else:
            stale = ""
        raise Conflict(
            f"{stale}run {run.run_id!r} is suspended since {iso(run.updated_at)}; allowed from suspended: running, "
            "with resume_run"
        )
    if not claim:
        raise Conflict(
            f"{_describe_held(run)}. Only its holder can move it, with the claim that {_taken_by(run)} gave; "
            f"{_FROM_RUNNING}"
        )
    if claim != run.claim:
        raise Conflict(
            f"the claim {describe(claim)} is not the newest of run {run.run_id!r}, and no longer good for anything: "
            f"{_describe_held(run)}"
        )


def check_kept(run: Run, now: int) -> None:
    """Raises Conflict for a suspended run whose checkpoint has expired, and which is about to be removed."""
    if run.status == "suspended" and is_expired(run, now):
        raise Conflict(_describe_expired(run))


def _describe_held(run: Run) -> str:
    assert run.claimed_at is not None
    assert run.claimed_until is not None
    return (
        f"run {run.run_id!r} is running: {run.claimed_by} {'resumed' if run.epoch else 'started'} it at "
        f"{iso(run.claimed_at)} and has it until {iso(run.claimed_until)}"
    )


def _taken_by(run: Run) -> str:
    if run.epoch:
        return "resume_run"
    return "start_run"


def _describe_ended(run: Run) -> str:
    if run.ended_by:
        by = f", by {run.ended_by}"
    else:
        by = ""
    return (
        f"run {run.run_id!r} is {run.status} since {iso(run.updated_at)}{by}, which is an end: nothing is allowed "
        "from there; another run needs another run_id"
    )


def _describe_expired(run: Run) -> str:
    assert run.expires_at is not None
    return (
        f"the checkpoint of run {run.run_id!r} expired at {iso(run.expires_at)} and is about to be removed; start again "
        "with suspend_run under another run_id"
    )
