"""The jobs of a test's database, as other processes make and change them."""

from collections.abc import Callable

from sqlalchemy import text

from layerlore.conformance.seeing_all import see_all
from layerlore.extraction.jobs.host_jobs import LEASE_MS
from layerlore.storage.core.records import Scope
from layerlore.storage.core.transaction import Database, Tx
from layerlore.storage.jobs import job_rows
from layerlore.storage.jobs.job_rows import Claim, Kind
from layerlore.storage.threads import threads


class Queue:
    """``now`` gives milliseconds since 1970."""

    def __init__(self, database: Database, now: Callable[[], int]) -> None:
        self.database, self.now = database, now

    async def ask(
        self,
        kind: Kind = "entries",
        thread: str = "main",
        *,
        resource: str = "default",
        in_ms: int = 0,
    ) -> None:
        """Ask for a job up to a thread's newest message."""

        async def asked(tx: Tx, scope: Scope) -> None:
            found = await threads.find(tx, scope, thread)
            now = self.now()
            await job_rows.request(tx, scope, found.thread_uid, kind, found.next_seq - 1, due_at=now + in_ms, now=now)

        await self.database.write(asked, Scope("local", "default", resource))

    async def change(self, sql: str) -> None:
        async def changed(tx: Tx) -> None:
            await see_all(tx)
            await tx.run(text(sql))

        await self.database.write_installation(changed)

    async def claim(self, kind: Kind) -> Claim:
        claim = await self.database.write_installation(
            job_rows.claim, [kind], holder="other", now=self.now(), lease_ms=LEASE_MS
        )
        assert isinstance(claim, Claim)
        return claim
