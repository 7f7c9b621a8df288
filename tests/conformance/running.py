"""Runs in the shortest words: an engine with a clock that only moves when told, and one client after another."""

from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest

from layerlore.memory.engine.engine import Engine, WriteRequest
from layerlore.memory.parts.tokens import TokenCounter, load_counter
from layerlore.memory.rules.validation import Limits
from layerlore.memory.secrets.redaction import Redactor
from layerlore.memory.work import pending_calls as decisions_of_runs
from layerlore.memory.work import run_changes, run_lists, runs, steps
from layerlore.memory.work.run_changes import Completion, RunUpdate, Start
from layerlore.memory.work.run_lists import RunListing
from layerlore.memory.work.runs import ResumeData, Suspension
from layerlore.storage.core.errors import LayerloreError
from layerlore.storage.core.records import Json, Origin, Scope
from layerlore.storage.core.transaction import Database
from layerlore.storage.threads import events
from layerlore.storage.work.runs import Ending

from .building import ANA, NOW, uid

KEY = b"k" * 32
counter = cache(load_counter)


@dataclass
class Clock:
    now: int = NOW


@dataclass
class Runs:
    """What callers do with runs, in a thread and a scope."""

    database: Database
    clock: Clock = field(default_factory=Clock)
    scope: Scope = ANA
    thread: str = "main"

    @property
    def engine(self) -> Engine:
        tokens: TokenCounter = counter()
        return Engine(
            database=self.database,
            tokens=tokens,
            redactor=Redactor(KEY),
            hmac_key=KEY,
            limits=Limits(),
            redaction="all",
            deleted_days=30,
            now=lambda: self.clock.now,
            new_id=uid,
        )

    async def suspend(
        self, run_id: str, state: Any, *, named: str = "", by: str = "agent", key: str = "", **given: Any
    ) -> Json:
        """``named``: the thread as an argument."""
        return await runs.suspend_run(
            self.engine,
            self.scope,
            named or ("" if given.get("claim") else self.thread),
            Suspension(run_id, state, **given),
            sent=WriteRequest(Origin(by, "suspend_run"), key, named),
        )

    async def resume(
        self,
        run_id: str,
        *data: Any,
        call: str = "",
        seconds: int = 300,
        by: str = "agent",
        key: str = "",
    ) -> Json:
        brought = ResumeData(*data, tool_call_id=call) if data else None
        sent = WriteRequest(Origin(by, "resume_run"), key)
        return await runs.resume_run(self.engine, self.scope, run_id, brought, lease_seconds=seconds, sent=sent)

    async def complete(
        self, run_id: str, claim: str, status: Ending = "completed", output: Any = None, *, key: str = ""
    ) -> Json:
        sent = WriteRequest(Origin("agent", "complete_run"), key)
        given = Completion(run_id, claim, status, output)
        return await run_changes.complete_run(self.engine, self.scope, "" if claim else self.thread, given, sent=sent)

    async def start(self, run_id: str = "", *, seconds: int = 300, by: str = "agent", **given: Any) -> Json:
        start = Start(run_id, has_state="state" in given, **given)
        sent = WriteRequest(Origin(by, "start_run"))
        return await run_changes.start_run(
            self.engine, self.scope, self.thread, start, lease_seconds=seconds, sent=sent
        )

    async def update(self, run_id: str, claim: str, *, seconds: int = 300, **given: Any) -> Json:
        update = RunUpdate(run_id, claim, has_state="state" in given, **given)
        sent = WriteRequest(Origin("agent", "update_run"))
        return await run_changes.update_run(self.engine, self.scope, update, lease_seconds=seconds, sent=sent)

    async def decide(self, run_id: str, *decisions: Any, by: str = "approver", key: str = "") -> Json:
        sent = WriteRequest(Origin(by, "decide_run"), key)
        return await decisions_of_runs.decide_run(self.engine, self.scope, run_id, list(decisions), sent=sent)

    async def cancel(self, run_id: str, reason: str = "", *, by: str = "boss") -> Json:
        return await run_changes.cancel_run(
            self.engine, self.scope, run_id, reason, sent=WriteRequest(Origin(by, "cancel_run"))
        )

    async def record(self, given: list[Json]) -> Json:
        sent = WriteRequest(Origin("agent", "record_steps"))
        return await steps.record_steps(self.engine, self.scope, self.thread, given, sent=sent)

    async def expire(self) -> int:
        return await runs.expire_runs(self.engine)

    async def one(self, run_id: str) -> Json:
        return await run_lists.get_run(self.engine, self.scope, run_id)

    async def page(self, *, limit: int = 100, cursor: str = "", **request: Any) -> Json:
        return await run_lists.list_runs(self.engine, self.scope, RunListing(**request), limit=limit, cursor=cursor)

    async def ids(self, **request: Any) -> list[str]:
        return [row["run_id"] for row in (await self.page(**request))["runs"]]

    async def log(self, thread: str = "main") -> list[tuple[str, Json]]:
        """The events of a thread: type and payload."""
        page = await self.database.read(events.read_page, self.scope, thread, after=0, types=[], limit=1000)
        return [(event.type, event.payload) for event in page.events]


async def refused(kind: type[LayerloreError], call: Any) -> str:
    """The text of a call that must fail so."""
    with pytest.raises(kind) as caught:
        await call
    assert type(caught.value) is kind
    return str(caught.value)
