"""What memory_status answers: how much is stored, what the installation can do, and what is degraded."""

from layerlore.memory.engine.status_answers import CallerStatus, KeptMessages, MemoryStatus, StoredBytes, Vectors
from layerlore.memory.parts.tokens import ESTIMATE, PER_IMAGE
from layerlore.memory.rules.answers import order_keys
from layerlore.memory.usage.model_usage import present_lines
from layerlore.server.access.credentials import RIGHTS, Principal
from layerlore.server.process.version import VERSION
from layerlore.server.tools import background
from layerlore.server.tools.background import Background
from layerlore.server.tools.call import Call
from layerlore.storage.audit import stored_bytes, usage_rows
from layerlore.storage.audit.stored_bytes import Quota, Used
from layerlore.storage.core.records import Scope
from layerlore.storage.index import vectors
from layerlore.storage.removal import retention
from layerlore.storage.threads import threads


async def memory_status(call: Call) -> MemoryStatus:
    """The answer, as MemoryStatus has it."""
    # Memory off has an empty database, which is not worth a query.
    if call.settings.memory == "off":
        held, spent, stored, retired = threads.Counts(0, 0, 0, 0), [], Used(0, 0), 0
    else:
        held = await call.engine.database.read(threads.count_scope, call.scope)
        spent = await call.engine.database.read(usage_rows.of_resource, call.scope)
        stored = await call.engine.database.read(stored_bytes.read_used, call.scope)
        retired = await call.engine.database.read(retention.read_count, call.scope)
    found = await background.read_background(call)
    embedded = await _vectors(call)
    backend = call.engine.database.backend
    answer: MemoryStatus = {
        "memory": call.settings.memory,
        "version": VERSION,
        "database": {"kind": backend.name, **backend.describe()},
        "caller": _asking(call.caller.principal),
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
        "recall": {"signals": _signals(call)},
        "jobs": background.describe_jobs(found, call.engine.now()),
        "thinking": background.describe_thinking(call, found),
        "observation": background.describe_observation(call, found),
        "degraded": await _find_problems(call, found, embedded),
    }
    if call.caller.principal.local:  # what runs on this machine is its own person's business
        answer["server"] = call.describe_server()
    own = call.settings.agents.get(call.scope.agent_id)
    if own is not None:  # the settings that differ from those of other agents
        answer["agent_settings"] = own.describe()
    if call.engine.retention.deletes or retired:
        answer["retention"] = _describe_retention(call, retired)
    return order_keys(MemoryStatus, answer)


def _describe_scope(scope: Scope) -> dict[str, str]:
    """Whose memory it is; in a project the person's, and that of the project, whose counts the rest of the answer has."""
    own = {"agent": scope.agent_id, "resource": scope.person or scope.resource_id}
    if scope.person:
        return {**own, "project": scope.resource_id}
    return own


def _describe_retention(call: Call, retired: int) -> KeptMessages:
    """The rules by which messages go by themselves, and how many went."""
    rules = call.engine.retention
    shown: KeptMessages = {"distilled": rules.distilled, "messages_gone": retired}
    if rules.thread_messages:
        shown["thread_messages"] = rules.thread_messages
    if rules.resource_messages:
        shown["resource_messages"] = rules.resource_messages
    if rules.message_days:
        shown["message_days"] = rules.message_days
    return order_keys(KeptMessages, shown)


def _shown_bytes(quota: Quota | None, stored: Used) -> StoredBytes:
    shown: StoredBytes = {"resource": stored.resource}
    if quota is not None and quota.resource:
        shown["resource_allowed"] = quota.resource
    if quota is not None and quota.tenant:
        shown["tenant"] = stored.tenant
        shown["tenant_allowed"] = quota.tenant
    return shown


def _asking(principal: Principal) -> CallerStatus:
    rights: list[str] = [right for right in RIGHTS if right in principal.rights]
    return {"principal": principal.name, "tenant": principal.tenant, "rights": rights}


async def _vectors(call: Call) -> Vectors:
    """How far what is indexed in the scope has vectors of the model; ``model`` is empty without an embedder."""
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


def _signals(call: Call) -> list[str]:
    """What ranks the hits of a recall now."""
    embedding = call.engine.embedding
    return ["lexical", *(["semantic"] if embedding is not None and embedding.status().state == "ready" else [])]


def _find_missing_vectors(embedded: Vectors) -> list[str]:
    """What recall cannot find by its meaning now. Without an embedder, and with memory off, that is said elsewhere."""
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
    """What does not work as it should, and how to mend it."""
    found = background.find_problems(call, work)
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
