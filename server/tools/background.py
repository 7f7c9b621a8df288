"""The state of the memory and its background work: waiting and failed jobs, models, and today's budget."""

import hashlib
import math
import os
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from typing_extensions import TypedDict

from layerlore.extraction.chat.chat_port import choose_models, describe_models
from layerlore.extraction.jobs.host_jobs import TURN_KINDS
from layerlore.memory.engine import journal_lines
from layerlore.memory.engine.engine import Engine
from layerlore.memory.engine.journal_lines import WriteOutcome
from layerlore.memory.engine.status_answers import (
    Budget,
    FailedJob,
    Jobs,
    KeptMessages,
    MemoryStatus,
    ModelStatus,
    ObservationState,
    StoredBytes,
    TenantsJobs,
    Vectors,
    WaitingJobs,
)
from layerlore.memory.parts.tokens import ESTIMATE, PER_IMAGE
from layerlore.memory.rules.ages import iso
from layerlore.memory.rules.answers import order_keys
from layerlore.memory.usage.model_usage import NANO, present_lines
from layerlore.server.access.credentials import LOCAL_TENANT, RIGHTS
from layerlore.server.process.version import VERSION
from layerlore.server.tools.declaration import Call
from layerlore.storage.audit import stored_bytes, usage_rows
from layerlore.storage.audit.stored_bytes import Quota, StoredUsage
from layerlore.storage.audit.usage_rows import OfDay
from layerlore.storage.core.errors import NotFound
from layerlore.storage.core.installation import read_each
from layerlore.storage.core.records import Origin, Scope, Tenant, Thread
from layerlore.storage.core.transaction import Tx
from layerlore.storage.index import vectors
from layerlore.storage.jobs import job_rows
from layerlore.storage.jobs.backlog import JobCount, add_counts, count_all
from layerlore.storage.jobs.job_rows import JobRow
from layerlore.storage.removal import retention
from layerlore.storage.threads import threads

MOST_DEAD = 20
"""The most dead jobs that an answer lists, the newest first."""
MOST_FAILING = 20
"""The most failing jobs that an answer lists, those with the most failures first."""
RESUME = "layerlore jobs --resume"
_STATES: tuple[Literal["due", "running", "later", "dead"], ...] = ("due", "running", "later", "dead")


@dataclass(frozen=True, slots=True)
class Background:
    """The background work of a scope: its unfinished jobs, the model tokens that the installation and its tenant spent
    today, and the current conversation if it is stored. ``of_all``: the jobs of all tenants, for the owner of the
    database."""

    rows: Sequence[JobRow]
    spent: OfDay
    tenant_tokens: int
    thread: Thread | None
    of_all: Sequence[JobCount] = ()

    @property
    def dead(self) -> list[JobRow]:
        """The jobs that failed too often, the newest first."""
        return sorted((row for row in self.rows if row.state == "dead"), key=lambda row: -(row.dead_at or 0))

    @property
    def failing(self) -> list[JobRow]:
        """The jobs that failed and are tried again, the most often failed first."""
        failed = (row for row in self.rows if row.attempts and row.state != "dead")
        return sorted(failed, key=lambda row: (-row.attempts, row.due_at))


async def read_background(call: Call) -> Background:
    """The background work of the caller's scope; empty while memory is off."""
    if call.settings.memory == "off":
        return Background([], OfDay(), 0, None)
    database, now = call.engine.database, call.engine.now()
    tenant, day = Tenant(call.scope.tenant_id), usage_rows.day_of(now)
    spent, tenant_tokens = await database.home.read(_read_spent, tenant, day)
    found = await database.read(_read, call.scope, call.caller.default_thread, now, spent, tenant_tokens)
    principal = call.caller.principal
    # An administrator of one tenant learns nothing about others.
    if principal.local or principal.every_tenant:
        counts = await read_each(database, count_all, Tenant(principal.tenant), now=now)
        return replace(found, of_all=add_counts(counts.there))
    return found


async def _read_spent(tx: Tx, tenant: Tenant, day: str) -> tuple[OfDay, int]:
    return await usage_rows.read_of_day(tx, day), await usage_rows.read_of_tenant(tx, tenant, day)


async def _read(tx: Tx, scope: Scope, thread_id: str, now: int, spent: OfDay, tenant_tokens: int) -> Background:
    rows = await job_rows.list_waiting(tx, scope, now)
    try:
        thread = await threads.find(tx, scope, thread_id)
    except NotFound:
        thread = None
    return Background(rows, spent, tenant_tokens, thread)


async def read_jobs(call: Call) -> list[JobRow]:
    """The jobs of the caller's scope that are not done."""
    return await call.engine.database.read(job_rows.list_waiting, call.scope, call.engine.now())


def count_jobs(rows: Sequence[JobRow], kinds: Collection[str] | None = None) -> list[WaitingJobs]:
    """The number of jobs of each kind and state, the due ones first. ``kinds``: count only these; None: all."""
    counts = Counter((row.state, row.kind) for row in rows if kinds is None or row.kind in kinds)
    ordered = sorted(counts.items(), key=lambda each: (_STATES.index(each[0][0]), each[0][1]))
    return [{"kind": kind, "state": state, "jobs": count} for (state, kind), count in ordered]


def count_due(rows: Sequence[JobRow], kinds: Collection[str]) -> int:
    """The number of due jobs of these kinds. Jobs about one turn of a conversation count once."""
    due = [row for row in rows if row.state == "due" and row.kind in kinds]
    # The jobs of one turn are offered as one, so a model needs one call for them.
    return len({(row.thread_uid, "" if row.kind in TURN_KINDS else row.kind) for row in due})


def name_holder(call: Call) -> str:
    """The name of the holder of the jobs that a caller's model takes: the client, and its session if it has one."""
    caller = call.caller
    # Without a session each call has a new thread, and the holder must stay the same.
    thread = "" if caller.default == "new" else caller.default_thread
    # The principal's name is hashed: the holder is visible to others who look at the jobs.
    whose = hashlib.sha256(f"{caller.principal.name}\0{thread}".encode(errors="replace"))
    return f"host:{caller.client}:{whose.hexdigest()[:12]}"


class Return(TypedDict, total=False):
    """When to ask for a job again."""

    again_in_seconds: int
    again_after: str


def describe_return(call: Call, rows: Sequence[JobRow], kinds: Collection[str]) -> Return:
    """When the caller should ask for a job again: the number of seconds, or the event to wait for."""
    now = call.engine.now()
    times = [
        row.lease_until if row.state == "running" else row.due_at
        for row in rows
        if row.kind in kinds and row.state in ("running", "later", "due")
    ]
    soonest = min((at for at in times if at is not None), default=None)
    # Nothing waits, and only a user's words make new work.
    if soonest is None:
        return {"again_after": "a turn in which the user says something"}
    return {"again_in_seconds": max(1, math.ceil((soonest - now) / 1000))}


def present_count(count: JobCount, now: int) -> TenantsJobs:
    """A count of jobs of all tenants as an answer shows it."""
    oldest_seconds = max(0, now - count.due_at) // 1000
    return {
        "kind": count.kind,
        "state": count.state,
        "jobs": count.jobs,
        "failed": count.failed,
        "oldest_seconds": oldest_seconds,
    }


def describe_jobs(found: Background, now: int) -> Jobs:
    """The counts of waiting jobs, and a list of the failed ones."""
    answer: Jobs = {"waiting": count_jobs(found.rows)}
    # Most installations have one tenant.
    if any(each.of_others for each in found.of_all):
        answer["all_tenants"] = [present_count(each, now) for each in found.of_all]
    if failing := found.failing[:MOST_FAILING]:
        answer["failing"] = [{**_failed(row), "next_at": iso(row.due_at)} for row in failing]
    if dead := found.dead[:MOST_DEAD]:
        answer["dead"] = [{**_failed(row), "since": iso(row.dead_at or 0)} for row in dead]
        answer["resume"] = RESUME
    return answer


def _failed(row: JobRow) -> FailedJob:
    failed: FailedJob = {"kind": row.kind, "failures": row.attempts, "error": row.error or ""}
    if row.thread_id is not None:
        failed["thread_id"] = row.thread_id
    return order_keys(FailedJob, failed)


def describe_thinking(call: Call, found: Background) -> ModelStatus:
    """The models that the background work calls, their budget of today, and whether the calls are paused."""
    llm = call.settings.llm
    chosen = choose_models(llm.model, llm.by_kind, os.environ)
    if call.worker is not None:
        pause = call.worker.pause
    else:
        pause = None
    thinking: ModelStatus = {
        "model": describe_models(chosen),
        "models": {kind: model for kind, model in chosen.by_kind.items() if model},
        "budget": _budget(call, found),
    }
    if pause is not None:
        thinking["paused"] = pause.reason
        thinking["paused_until"] = iso(pause.until)
    return thinking


def _budget(call: Call, found: Background) -> Budget:
    """The tokens spent and allowed today: of all tenants together for the person at this machine, else of the tenant."""
    llm, allowed = call.settings.llm, call.settings.rates.tenant_model_tokens_per_day
    # The person at this machine pays for all tenants and sees the sums.
    local = call.caller.principal.tenant == LOCAL_TENANT
    budget: Budget = {"day": usage_rows.day_of(call.engine.now())}
    if local:
        budget["tokens"] = found.spent.tokens
        budget["cost_usd"] = found.spent.cost_nano_usd / NANO
        budget["daily_tokens"] = llm.daily_tokens
        budget["daily_usd"] = llm.daily_usd
    # Other tenants see their own numbers alone.
    if allowed or not local:
        budget["tenant_tokens"] = found.tenant_tokens
        budget["tenant_daily_tokens"] = allowed
    return budget


def describe_observation(call: Call, found: Background) -> ObservationState:
    """How far the current conversation is observed; empty if it is not stored yet."""
    thread = found.thread
    if thread is None:
        return {}
    return {
        "thread_id": thread.thread_id,
        "pending_tokens": thread.raw_tokens,
        "message_tokens": call.engine.observation.message_tokens,
        "observed_seq": thread.observed_seq,
        "noted_ahead_seq": thread.buffered_seq,
    }


def _find_job_problems(call: Call, found: Background) -> list[str]:
    """The problems of the background work, each with its remedy."""
    wrong = []
    if dead := len(found.dead):
        wrong.append(
            f"{dead} background jobs failed too often and rest (see jobs.dead); `{RESUME}` makes them due again"
        )
    if call.worker is not None and (pause := call.worker.pause) is not None:
        wrong.append(f"no model is asked until {iso(pause.until)}: {pause.reason}")
    allowed, now = call.settings.rates.tenant_model_tokens_per_day, call.engine.now()
    if allowed and found.tenant_tokens >= allowed:
        wrong.append(
            f"no model is asked for your tenant until {iso(usage_rows.next_day(now))}: today's {allowed:,} tokens are spent"
        )
    return wrong


async def resume_dead(engine: Engine, scope: Scope, origin: Origin) -> int:
    """Make the dead jobs of a scope due again. Returns their number."""
    now = engine.now()

    async def again(tx: Tx) -> tuple[int, WriteOutcome]:
        resumed = await job_rows.resume(tx, scope, None, now)
        return resumed, WriteOutcome("done", {"jobs": resumed})

    return await journal_lines.write(engine.database, engine.hmac_key, scope, origin, now, again)


async def memory_status(call: Call) -> MemoryStatus:
    """The answer of the tool memory_status."""
    # Memory off has an empty database, which is not worth a query.
    if call.settings.memory == "off":
        held, spent, stored, retired = threads.Counts(0, 0, 0, 0), [], StoredUsage(0, 0), 0
    else:
        held = await call.engine.database.read(threads.count_scope, call.scope)
        spent = await call.engine.database.read(usage_rows.of_resource, call.scope)
        stored = await call.engine.database.read(stored_bytes.read_used, call.scope)
        retired = await call.engine.database.read(retention.read_count, call.scope)
    found = await read_background(call)
    embedded = await _vectors(call)
    signals = ["lexical"]
    if embedded["state"] == "ready":
        signals.append("semantic")
    backend = call.engine.database.backend
    principal = call.caller.principal
    answer: MemoryStatus = {
        "memory": call.settings.memory,
        "version": VERSION,
        "database": {"kind": backend.name, **backend.describe()},
        "caller": {
            "principal": principal.name,
            "tenant": principal.tenant,
            "rights": [right for right in RIGHTS if right in principal.rights],
        },
        "scope": _describe_scope(call.scope),
        "counts": {
            "threads": held.threads,
            "messages": held.messages,
            "tokens": held.tokens,
            "restorable_deletes": held.restorable_deletes,
        },
        "stored_bytes": _shown_bytes(call.quota, stored),
        "tokens": {"encoding": call.engine.tokens.name, "image": PER_IMAGE},
        "usage": present_lines(spent),
        "vectors": embedded,
        "recall": {"signals": signals},
        "jobs": describe_jobs(found, call.engine.now()),
        "thinking": describe_thinking(call, found),
        "observation": describe_observation(call, found),
        "degraded": await _find_problems(call, found, embedded),
    }
    if principal.local:  # only the person at this machine learns about its processes
        answer["server"] = call.describe_server()
    own = call.settings.agents.get(call.scope.agent_id)
    if own is not None:  # this agent's settings differ from those of the others
        answer["agent_settings"] = own.describe()
    if call.engine.retention.deletes or retired:
        answer["retention"] = _describe_retention(call, retired)
    return order_keys(MemoryStatus, answer)


def _describe_scope(scope: Scope) -> dict[str, str]:
    """The owner of the memory. In a project that is the person, with the project beside it; all counts in the answer are
    the project's."""
    own = {"agent": scope.agent_id, "resource": scope.person or scope.resource_id}
    if scope.person:
        return {**own, "project": scope.resource_id}
    return own


def _describe_retention(call: Call, retired: int) -> KeptMessages:
    """The rules by which old messages expire, and how many have expired."""
    rules = call.engine.retention
    shown: KeptMessages = {"distilled": rules.distilled, "messages_gone": retired}
    if rules.thread_messages:
        shown["thread_messages"] = rules.thread_messages
    if rules.resource_messages:
        shown["resource_messages"] = rules.resource_messages
    if rules.message_days:
        shown["message_days"] = rules.message_days
    return order_keys(KeptMessages, shown)


def _shown_bytes(quota: Quota | None, stored: StoredUsage) -> StoredBytes:
    shown: StoredBytes = {"resource": stored.resource}
    if quota is not None and quota.resource:
        shown["resource_allowed"] = quota.resource
    if quota is not None and quota.tenant:
        shown["tenant"] = stored.tenant
        shown["tenant_allowed"] = quota.tenant
    return shown


async def _vectors(call: Call) -> Vectors:
    """How many of the indexed texts of the scope have vectors of the model; ``model`` is empty without an embedder."""
    embedding = call.engine.embedding
    if embedding is None:
        return {"model": "", "dimension": 0, "total": 0, "pending": 0, "state": "off"}
    status = embedding.status()
    progress = await call.engine.database.read(vectors.progress, call.scope, status.model)
    # Texts that the embedder refuses would otherwise count as pending for good.
    refused = await call.engine.database.read(
        vectors.count_there, call.scope, embedding.refused.get(call.scope, frozenset())
    )
    answer: Vectors = {
        "model": status.model,
        "dimension": status.dimension,
        "total": progress.total,
        "pending": max(0, progress.total - progress.done - refused),
        "state": status.state,
        "languages": status.languages,
    }
    if refused:
        answer["refused"] = refused
    if status.reason:
        answer["reason"] = status.reason
    return answer


def _find_missing_vectors(embedded: Vectors) -> list[str]:
    """Why recall finds some texts by words only at the moment. ``_find_problems`` handles the case without an embedder."""
    found = []
    if embedded["state"] == "failed":
        found.append(f"recall finds words only for now, since the embedder failed: {embedded['reason']}")
    if embedded["state"] == "loading":
        found.append("recall finds words only for now: the embedder is loading, and the first recall waits for it")
    if embedded["state"] in ("loading", "ready") and embedded["pending"]:
        found.append(
            f"recall finds {embedded['pending']:,} of {embedded['total']:,} texts by words only for now: their "
            "vectors are still being made"
        )
    return found


async def _find_problems(call: Call, work: Background, embedded: Vectors) -> list[str]:
    """All problems of the memory, each with its remedy."""
    found = _find_job_problems(call, work)
    if unwritable := await call.engine.database.health.ask():
        # First in the list, since nothing else matters while nothing can be stored.
        found.insert(0, f"nothing can be stored now: {unwritable}")
    if damage := call.engine.database.health.damage:
        found.append(f"the memory is damaged: {'; '.join(damage)} (`layerlore doctor` says more, and the way out)")
    found += _find_missing_vectors(embedded)
    if embedded["state"] == "off" and call.settings.memory != "off":
        found.append("recall finds words only: there is no embedder (embedding.embedder = none)")
    if call.engine.tokens.name == ESTIMATE:
        found.append("tokens are estimated: no encoding file was found; reinstall litellm, which ships it")
    found += call.engine.database.backend.warnings()
    if call.settings.redaction != "all":
        found.append(f"redaction is {call.settings.redaction!r}: secrets in messages are stored as sent")
    return found
