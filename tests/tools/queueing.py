"""The jobs of a test's database, as other processes make and change them."""

from collections.abc import Awaitable, Callable
from typing import Any

from sqlalchemy import text

from memstrata.extraction.hosted import LEASE_MS
from memstrata.storage import jobs, threads
from memstrata.storage.jobs import Claim, Kind
from memstrata.storage.records import Scope
from memstrata.storage.transaction import Tx


class Queue:
    """``write`` runs a function in a transaction of the database, ``now`` gives milliseconds since 1970."""

    def __init__(self, write: Callable[..., Awaitable[Any]], now: Callable[[], int]) -> None:
        self.write, self.now = write, now

    async def ask(
        self,
        kind: Kind = "entries",
        thread: str = "main",
        *,
        resource: str = "default",
        in_ms: int = 0,
    ) -> None:
        """Ask for a job up to a thread's newest message."""

        async def asked(tx: Tx) -> None:
            scope = Scope("local", "default", resource)
            found = await threads.find(tx, scope, thread)
            now = self.now()
            await jobs.request(tx, scope, found.thread_uid, kind, found.next_seq - 1, due_at=now + in_ms, now=now)

        await self.write(asked)

    async def change(self, sql: str) -> None:
        async def changed(tx: Tx) -> None:
            await tx.run(text(sql))

        await self.write(changed)

    async def claim(self, kind: Kind) -> Claim:
        claim = await self.write(jobs.claim, [kind], holder="other", now=self.now(), lease_ms=LEASE_MS)
        assert isinstance(claim, Claim)
        return claim
