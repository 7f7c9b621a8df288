"""Jobs for the model of whoever calls us: it takes one, thinks, and hands its answer in.

Nothing is kept in memory between the two, which may come to different processes: the material is read again from the
claim, and must be what the model was given.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NoReturn, cast

import anyio

from layerlore.extraction.attempt import conclude, prepared
from layerlore.extraction.chat.repair import DEPTH
from layerlore.extraction.chat.structured import Wrong, read_answer
from layerlore.extraction.kind import WITHOUT_MODEL, JobKind, Material, Refused, Stale, Thinker
from layerlore.extraction.kinds import all_kinds
from layerlore.memory.acceptance import check_json
from layerlore.memory.ages import iso
from layerlore.memory.engine import Engine, Sent
from layerlore.storage import jobs
from layerlore.storage.errors import Conflict, InvalidInput, LimitExceeded, NotFound
from layerlore.storage.jobs import MOST_FAILURES, Claim, Kind
from layerlore.storage.json_text import to_json
from layerlore.storage.records import Json, Scope
from layerlore.storage.spending import next_day
from layerlore.storage.transaction import Tx

LEASE_MS = 600_000
"""A model that reads and writes in between its other work; whoever gave up leaves the job for so long."""
_AGAIN = "next_memory_job gives another"
_UNKNOWN = (
    "job_id: there is no such job, it has ended, or it was taken back: its lease ran out and somebody else took it, or "
    f"something was deleted; nothing was stored; {_AGAIN}"
)
_NAME = re.compile(r"(?P<kind>[a-z_]+)\.(?P<thread>[0-9A-Za-z-]*)\.(?P<epoch>[0-9]{1,18})\.(?P<given>[0-9a-f]{12})")


@dataclass(frozen=True, slots=True)
class Offer:
    """A job that was taken. ``job_id`` names the claim and what was given with it."""

    job_id: str
    claim: Claim
    material: Material


@cache
def hosted_kinds() -> Mapping[Kind, JobKind]:
    """The kinds that a model can do."""
    return {kind.name: kind for kind in all_kinds() if kind.name not in WITHOUT_MODEL}


def thinker(client: str) -> str:
    """How what a client's model made is marked."""
    return f"host:{client}"


async def take(engine: Engine, scope: Scope, client: str, *, sent: Sent) -> Offer | None:
    """Take a job of the scope that is due, for LEASE_MS; None when none is. Raises NotFound for a request sent again
    whose job has ended, StorageUnavailable."""
    while (claim := await _claimed(engine, scope, client, sent)) is not None:
        material = await prepared(engine, hosted_kinds()[claim.kind], claim)
        if material is not None:
            return Offer(_job_id(claim, material), claim, material)
        sent = replace(sent, key="")
    return None


async def submit(
    engine: Engine, scope: Scope, job_id: str, answer: Any, client: str, *, most_chars: int, sent: Sent
) -> Json:
    """Check an answer (an object, or text that holds one) as that of any other model, and store it with the job's end.

    Returns ``kind`` and, where parts of it were left out, why (``refused``). Raises NotFound for a job that is not the
    caller's, Conflict when its lease is over or what it is about has changed, InvalidInput for an answer that is
    refused: the job then stays the caller's until the lease ends.
    """
    now = engine.now()
    named = _NAME.fullmatch(job_id)
    kind = hosted_kinds().get(cast("Kind", named["kind"])) if named else None
    if named is None or kind is None:
        raise NotFound(_UNKNOWN)
    text = answer if isinstance(answer, str) else _as_text(answer)
    if len(text) > most_chars:
        raise LimitExceeded(f"result: {len(text):,} characters; {most_chars:,} are allowed")
    body = [job_id, hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()]
    claim = await engine.database.read(jobs.held, scope, named["thread"], kind.name, int(named["epoch"]))
    if claim is None:  # unless this is the same request once more
        return await engine.write(scope, sent, body, now, _refuse_unknown)
    if claim.lease_until <= now:
        raise Conflict(f"job_id: the lease ended at {iso(claim.lease_until)}; nothing was stored; {_AGAIN}")
    material = await prepared(engine, kind, claim)
    if material is None:
        raise Conflict(f"job_id: there is nothing left to do for it; nothing was stored; {_AGAIN}")
    try:
        if _fingerprint(material) != named["given"]:
            raise Stale("its material is not as it was given")
        # A schema is checked by steps that may take a while.
        read = await anyio.to_thread.run_sync(read_answer, text, material.schema)
        return await conclude(
            engine, kind, claim, material, read, Thinker(thinker(client), material.prompt), sent, body
        )
    except Stale as error:
        await engine.database.write(jobs.hand_back, claim, now=engine.now())
        raise Conflict(
            f"job_id: what it is about has changed since it was taken ({error}); nothing was stored; take it again "
            "with next_memory_job"
        ) from None
    except Wrong as error:
        await _refuse(engine, claim, error.told, kept=str(error))
    except Refused as error:
        await _refuse(engine, claim, str(error), kept=str(error))


def _as_text(answer: Any) -> str:
    check_json(answer, "result", depth=DEPTH)
    return to_json(answer)


async def _claimed(engine: Engine, scope: Scope, client: str, sent: Sent) -> Claim | None:
    now = engine.now()

    async def claim(tx: Tx) -> Json:
        kinds = list(hosted_kinds())
        # Also what was put off until tomorrow: the tenant's allowance is of our own model.
        taken = await jobs.claim_in(
            tx, scope, kinds, holder=thinker(client), now=now, lease_ms=LEASE_MS, also_at=next_day(now)
        )
        return {} if taken is None else {"of": [taken.thread_uid, taken.kind, taken.epoch]}

    given = await engine.write(scope, sent, [], now, claim)
    if not given:
        return None
    held = await engine.database.read(jobs.held, scope, *given["of"])
    if held is None:
        raise NotFound("the job that this request was given has ended: a new request needs a new idempotency key")
    return held


def _job_id(claim: Claim, material: Material) -> str:
    return f"{claim.kind}.{claim.thread_uid}.{claim.epoch}.{_fingerprint(material)}"


def _fingerprint(material: Material) -> str:
    content: Json = json.loads(material.content)
    given = {name: value for name, value in content.items() if name not in material.beside}
    return hashlib.sha256(to_json([material.prompt, given]).encode()).hexdigest()[:12]


async def _refuse_unknown(_: Tx) -> NoReturn:
    raise NotFound(_UNKNOWN)


async def _refuse(engine: Engine, claim: Claim, told: str, *, kept: str) -> NoReturn:
    """Count the failure as it is counted for any other model, and say what was wrong."""
    now = engine.now()
    error = engine.redactor.text(kept)[0]
    if claim.attempts + 1 >= MOST_FAILURES:
        await engine.database.write(jobs.fail, claim, error=error, retry_at=now, dead=True, now=now)
        raise InvalidInput(
            f"result: refused, nothing was stored: {told}. That was failure {claim.attempts + 1} of {MOST_FAILURES}: "
            f"the job is put aside, as memory_status shows; {_AGAIN}"
        )
    await engine.database.write(jobs.note_failure, claim, error=error, now=now)
    raise InvalidInput(
        f"result: refused, nothing was stored: {told}. The job is yours until {iso(claim.lease_until)}: mend that and "
        "submit it again"
    )
