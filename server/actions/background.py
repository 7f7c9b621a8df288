"""Background work as its owner sees it: what waits, what failed, who thinks, and what that may cost today."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from layerlore.extraction.chat.automatic import told
from layerlore.memory.ages import iso
from layerlore.memory.usage_shapes import NANO
from layerlore.server.access.principal import LOCAL_TENANT
from layerlore.server.actions.call import Call
from layerlore.server.thinking import chosen_models
from layerlore.storage import jobs, spending, tenant_spending, threads
from layerlore.storage.errors import NotFound
from layerlore.storage.jobs import JobRow
from layerlore.storage.records import Json, Scope, Tenant, Thread
from layerlore.storage.spending import OfDay
from layerlore.storage.transaction import Tx

MOST_DEAD = 20
"""So many of the jobs that failed too often are shown one by one, the newest."""
MOST_FAILING = 20
"""So many of those that failed and are tried again, the most often failed first."""
RESUME = "layerlore jobs --resume"
_STATES = ("due", "running", "later", "dead")


@dataclass(frozen=True, slots=True)
class Background:
    """What is known of it now; ``tenant_tokens`` are those that the tenant spent today, ``thread`` is the current conversation, if it is stored."""

    rows: Sequence[JobRow]
    spent: OfDay
    tenant_tokens: int
    thread: Thread | None

    @property
    def dead(self) -> list[JobRow]:
        """The jobs that failed too often, the newest first."""
        return sorted((row for row in self.rows if row.state == "dead"), key=lambda row: -(row.dead_at or 0))

    @property
    def failing(self) -> list[JobRow]:
        """The jobs that failed and are tried again, the most often failed first."""
        failed = (row for row in self.rows if row.attempts and row.state != "dead")
        return sorted(failed, key=lambda row: (-row.attempts, row.due_at))


async def background(call: Call) -> Background:
    """Of the caller's scope; nothing while memory is off."""
    if call.settings.memory == "off":
        return Background([], OfDay(), 0, None)
    return await call.engine.database.read(_read, call.scope, call.caller.default_thread, call.engine.now())


async def _read(tx: Tx, scope: Scope, thread_id: str, now: int) -> Background:
    rows = await jobs.waiting(tx, scope, now)
    spent = await spending.on(tx, spending.day_of(now))
    tenant_tokens = await tenant_spending.on(tx, Tenant(scope.tenant_id), spending.day_of(now))
    try:
        thread = await threads.find(tx, scope, thread_id)
    except NotFound:
        thread = None
    return Background(rows, spent, tenant_tokens, thread)


def counted(rows: Sequence[JobRow], kinds: Collection[str] | None = None) -> list[Json]:
    """How many jobs there are of each kind (None: of all) in each state, the due ones first."""
    counts = Counter((row.state, row.kind) for row in rows if kinds is None or row.kind in kinds)
    ordered = sorted(counts.items(), key=lambda each: (_STATES.index(each[0][0]), each[0][1]))
    return [{"kind": kind, "state": state, "jobs": count} for (state, kind), count in ordered]


def shown_jobs(found: Background) -> Json:
    """For memory_status."""
    dead = [{**_failed(row), "since": iso(row.dead_at or 0)} for row in found.dead[:MOST_DEAD]]
    failing = [{**_failed(row), "next_at": iso(row.due_at)} for row in found.failing[:MOST_FAILING]]
    return {
        "waiting": counted(found.rows),
        **({"failing": failing} if failing else {}),
        **({"dead": dead, "resume": RESUME} if dead else {}),
    }


def _failed(row: JobRow) -> Json:
    return {
        "kind": row.kind,
        **({"thread_id": row.thread_id} if row.thread_id is not None else {}),
        "failures": row.attempts,
        "error": row.error or "",
    }


def shown_thinking(call: Call, found: Background) -> Json:
    """For memory_status."""
    llm = call.settings.llm
    chosen = chosen_models(llm)
    pause = call.worker.pause if call.worker is not None else None
    return {
        "model": told(chosen),
        "models": {kind: model for kind, model in chosen.by_kind.items() if model},
        "budget": {"day": spending.day_of(call.engine.now()), **_budget(call, found)},
        **({"paused": pause.reason, "paused_until": iso(pause.until)} if pause is not None else {}),
    }


def _budget(call: Call, found: Background) -> Json:
    """What all tenants spent together is for this machine's own to see."""
    llm, allowed = call.settings.llm, call.settings.rates.tenant_model_tokens_per_day
    own = {"tenant_tokens": found.tenant_tokens, "tenant_daily_tokens": allowed}
    if call.caller.principal.tenant != LOCAL_TENANT:
        return own
    return {
        "tokens": found.spent.tokens,
        "cost_usd": found.spent.cost_nano_usd / NANO,
        "daily_tokens": llm.daily_tokens,
        "daily_usd": llm.daily_usd,
        **(own if allowed else {}),
    }


def shown_observation(call: Call, found: Background) -> Json:
    """For memory_status; empty where there is no current conversation yet."""
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


def degraded(call: Call, found: Background) -> list[str]:
    """What of it does not work as it should, and how to mend it."""
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
            f"no model is asked for your tenant until {iso(spending.next_day(now))}: today's {allowed:,} tokens are spent"
        )
    return wrong
