"""What memory_status does, and the tools by which the caller's own model does background work."""

import json
from importlib.metadata import version
from typing import Any

from layerlore.extraction import hosted
from layerlore.extraction.chat.litellm_chat import CHARACTERS_A_TOKEN
from layerlore.memory.ages import iso
from layerlore.memory.tokens import ESTIMATE, PER_IMAGE
from layerlore.memory.usage import shown_lines
from layerlore.server.access.principal import RIGHTS, Principal
from layerlore.server.actions import background
from layerlore.server.actions.background import Background
from layerlore.server.actions.call import Call
from layerlore.storage import counts, jobs, sqlite_driver, stored_bytes, usage, vectors
from layerlore.storage.jobs import JobRow
from layerlore.storage.records import Json
from layerlore.storage.stored_bytes import Quota, Used


async def next_memory_job(call: Call) -> Json:
    offer = await hosted.take(call.engine, call.scope, call.caller.client, sent=call.sent())
    waiting = background.counted(await _waiting(call), hosted.hosted_kinds())
    if offer is None:
        return {"status": "nothing_due", "waiting": waiting}
    material = offer.material
    return {
        "status": "taken",
        "job_id": offer.job_id,
        "kind": offer.claim.kind,
        "instructions": material.instructions,
        "material": json.loads(material.content),
        "schema": material.schema,
        "lease_until": iso(offer.claim.lease_until),
        "waiting": waiting,
    }


async def submit_memory_job(call: Call, job_id: str, result: Any) -> Json:
    most_chars = call.settings.llm.max_answer_tokens * CHARACTERS_A_TOKEN
    stored = await hosted.submit(
        call.engine, call.scope, job_id, result, call.caller.client, most_chars=most_chars, sent=call.sent()
    )
    due = sum(row.state == "due" and row.kind in hosted.hosted_kinds() for row in await _waiting(call))
    return {**stored, "due": due}


async def _waiting(call: Call) -> list[JobRow]:
    return await call.engine.database.read(jobs.waiting, call.scope, call.engine.now())


async def memory_status(call: Call) -> Json:
    if call.settings.memory == "off":
        held, spent, stored = counts.Counts(0, 0, 0, 0), [], Used(0, 0)
    else:
        held = await call.engine.database.read(counts.of_scope_now, call.scope)
        spent = await call.engine.database.read(usage.of_resource, call.scope)
        stored = await call.engine.database.read(stored_bytes.used, call.scope)
    found = await background.background(call)
    database: Json = {"kind": call.engine.database.dialect}
    if call.engine.database.dialect == "sqlite":
        able = sqlite_driver.abilities()
        database |= {
            "sqlite": able.version,
            "module": able.module,
            "vector_extension": able.vector_extension or "none",
            "erases_words_at_once": able.fts5_secure_delete,
            "safe_for_several_processes": able.wal_safe,
        }
    return {
        "memory": call.settings.memory,
        "version": version("layerlore"),
        "database": database,
        "caller": _asking(call.caller.principal),
        "scope": {"agent": call.scope.agent_id, "resource": call.scope.resource_id},
        "counts": {
            "threads": held.threads,
            "messages": held.messages,
            "tokens": held.tokens,
            "restorable_deletes": held.restorable_deletes,
        },
        "stored_bytes": _shown_bytes(call.quota, stored),
        "tokens": {"encoding": call.engine.tokens.name, "image": PER_IMAGE},
        "usage": shown_lines(spent),
        "vectors": await _vectors(call),
        "recall": {"signals": _signals(call)},
        "jobs": background.shown_jobs(found),
        "thinking": background.shown_thinking(call, found),
        "observation": background.shown_observation(call, found),
        "degraded": await degraded(call, found),
    }


def _shown_bytes(quota: Quota | None, stored: Used) -> Json:
    if quota is None:
        return {"resource": stored.resource}
    return {
        "resource": stored.resource,
        **({"resource_allowed": quota.resource} if quota.resource else {}),
        **({"tenant": stored.tenant, "tenant_allowed": quota.tenant} if quota.tenant else {}),
    }


def _asking(principal: Principal) -> Json:
    rights = [right for right in RIGHTS if right in principal.rights]
    return {"principal": principal.name, "tenant": principal.tenant, "rights": rights}


async def _vectors(call: Call) -> Json:
    """How far what is indexed in the scope has vectors of the model; ``model`` is empty without an embedder."""
    embedding = call.engine.embedding
    if embedding is None:
        return {"model": "", "dimension": 0, "total": 0, "pending": 0, "state": "off"}
    status = embedding.status()
    progress = await call.engine.database.read(vectors.progress, call.scope, status.model)
    refused = await call.engine.database.read(
        vectors.count_there, call.scope, embedding.refused.get(call.scope, frozenset())
    )
    return {
        "model": status.model,
        "dimension": status.dimension,
        "total": progress.total,
        "pending": max(0, progress.total - progress.done - refused),
        "state": status.state,
        "languages": status.languages,
        **({"refused": refused} if refused else {}),
        **({"reason": status.reason} if status.reason else {}),
    }


def _signals(call: Call) -> list[str]:
    """What ranks the hits of a recall now."""
    embedding = call.engine.embedding
    return ["lexical", *(["semantic"] if embedding is not None and embedding.status().state == "ready" else [])]


async def degraded(call: Call, work: Background) -> list[str]:
    """What does not work as it should, and how to mend it."""
    found = background.degraded(call, work)
    if unwritable := await call.engine.database.health.ask():
        found.insert(0, f"nothing can be stored now: {unwritable}")
    if damage := call.engine.database.health.damage:
        found.append(f"the memory is damaged: {'; '.join(damage)} (`layerlore doctor` says more, and the way out)")
    status = call.engine.embedding.status() if call.engine.embedding is not None else None
    if status is not None and status.state == "failed":
        found.append(f"recall finds words only for now, since the embedder failed: {status.reason}")
    if status is None and call.settings.memory == "on":
        found.append("recall finds words only: there is no embedder (embedding.embedder = none)")
    if call.engine.tokens.name == ESTIMATE:
        found.append("tokens are estimated: no encoding file was found; reinstall litellm, which ships it")
    if call.engine.database.dialect == "sqlite" and not sqlite_driver.abilities().wal_safe:
        found.append(
            f"SQLite {sqlite_driver.driver.sqlite_version} can corrupt a file that several processes write; "
            "use one process, or a Python for which pysqlite3 has a wheel"
        )
    if call.settings.redaction != "all":
        found.append(f"redaction is {call.settings.redaction!r}: secrets in messages are stored as sent")
    return found
