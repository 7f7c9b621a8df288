"""Holds callers to what they may ask for: calls, bytes and rows a second, and calls at a time.

What comes too early waits its turn, in the order it came, for as long as a client waits for an answer; only what would
wait longer is refused. Connecting, lists and pings have an amount of their own, so that no calls keep a client from them.

Asked for each request before anything of it is checked, so that one that is refused costs little more than its own
reading. The refusal is an ordinary answer with the request's id: no client waits for one in vain.
"""

import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import anyio
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from layerlore.server.access.accounts import Account, Accounts
from layerlore.server.access.amounts import bytes_of, rows_of
from layerlore.server.access.answers import when_taken
from layerlore.server.access.buckets import Bucket
from layerlore.server.access.principal import Principal
from layerlore.server.access.too_much import TooMuch, refusal, refused_call
from layerlore.server.rate_settings import RateSettings

Ctx = ServerRequestContext[Any, Any]

MOST_WAITING = 256
"""Requests of one principal that wait their turn; more are refused."""
BESIDES_PER_CALL = 2
"""So many requests beside calls may come for each call that may."""
_CALLS = ("tools/call", "resources/read", "prompts/get", "completion/complete")
_NEVER_REFUSED = ("ping",)
_MOST_DEBT = 2.0  # seconds that what cannot be refused may take ahead, beyond those that a call waits
_AGAIN_SECONDS = 1.0  # when to try again what no turn was free for, at the latest
_LONG = ("subscriptions/listen",)  # open for as long as somebody listens
_WORDS = {"calls": "calls", "besides": "requests", "bytes": "bytes", "rows": "rows to write"}
_OF_TENANT = " of your tenant together"


@dataclass(frozen=True, slots=True)
class _Charge:
    """What a request takes of one bucket, and how a refusal calls it."""

    bucket: Bucket
    amount: int
    what: str
    rate: float


async def _tell_nobody(ctx: Ctx, refused: TooMuch) -> None:
    """Refusals are noted nowhere."""


class Throttle:
    """Middleware of the MCP server. ``writing`` names the tools that write, ``refused`` hears of what was refused,
    ``clock`` gives seconds."""

    def __init__(
        self,
        rates: RateSettings,
        principal_of: Callable[[Ctx], Principal],
        writing: Collection[str],
        *,
        refused: Callable[[Ctx, TooMuch], Awaitable[None]] = _tell_nobody,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._principal_of = principal_of
        self._refused = refused
        self._writing = frozenset(writing)
        self._clock = clock
        self._patience = rates.wait_ms / 1000
        self._again = min(self._patience, _AGAIN_SECONDS)
        self._at_once = {"calls": rates.tenant_calls_at_once, "besides": rates.tenant_requests_at_once}
        self._most_streams = rates.tenant_streams
        self._rates = {whose: _rates_of(rates, whose) for whose in ("principal", "tenant")}
        self._principals = Accounts(self._rates["principal"], clock)
        self._tenants = Accounts(self._rates["tenant"], clock, at_once=self._at_once)

    async def __call__(self, ctx: Ctx, call_next: CallNext) -> HandlerResult:
        principal = self._principal_of(ctx)
        if principal.local:
            return await call_next(ctx)
        if ctx.request_id is None or ctx.method in _NEVER_REFUSED:
            self.count(principal, bytes_of(ctx.params, ctx.request))
            return await call_next(ctx)
        one, tenant = self._accounts(principal)
        running = ExitStack()
        for account in (one, tenant):
            account.under_way += 1
            running.callback(_leave, account)
        try:
            if ctx.method in _LONG:
                return await self._listening(ctx, call_next, one, tenant)
            await self._admitted(ctx, one, tenant)
            if turns := await self._turn(one, tenant, _counted_as(ctx.method)):
                running.callback(turns.release)
            return await call_next(ctx)
        except TooMuch as refused:
            await self._refused(ctx, refused)
            return _refusal(ctx, refused)
        finally:
            when_taken(ctx.request, running.close)

    async def _listening(self, ctx: Ctx, call_next: CallNext, one: Account, tenant: Account) -> HandlerResult:
        if tenant.listening >= self._most_streams > 0:
            raise TooMuch("open streams", f"{self._most_streams:,} of a tenant are allowed", self._again)
        tenant.listening += 1
        try:
            await self._admitted(ctx, one, tenant)
            return await call_next(ctx)
        finally:
            tenant.listening -= 1

    def beyond(self, principal: Principal, size: int, method: str = "") -> TooMuch | None:
        """What a request of so many bytes would be refused with, by what is known before it is read: ``method``, if its
        head tells. Nothing is taken."""
        one, tenant = self._accounts(principal)
        amounts = {_counted_as(method): 1} if method else {"calls": 1, "besides": 1}
        try:
            self._wait(self._charges({**amounts, "bytes": size}, one, tenant), one.waiting, self._clock())
        except TooMuch as refused:
            return refused
        if one.waiting < MOST_WAITING:
            return None
        return TooMuch("calls that wait their turn", f"{MOST_WAITING} are allowed", self._again)

    def count(self, principal: Principal, size: int) -> None:
        """Take what a request of so many bytes takes that is not refused: a notification, or what cannot be read."""
        (one, tenant), at = self._accounts(principal), self._clock()
        for charge in self._charges({"besides": 1, "bytes": size}, one, tenant):
            if charge.bucket.wait(charge.amount, at) < self._patience + _MOST_DEBT:
                charge.bucket.spend(charge.amount, at)

    def _accounts(self, principal: Principal) -> tuple[Account, Account]:
        """Its own (a name may be one in several tenants), and its tenant's."""
        return self._principals.of(f"{principal.tenant}\n{principal.name}"), self._tenants.of(principal.tenant)

    async def _admitted(self, ctx: Ctx, one: Account, tenant: Account) -> None:
        """Wait until what the request takes may be taken. Raises TooMuch."""
        amounts = {_counted_as(ctx.method): 1, "bytes": bytes_of(ctx.params, ctx.request), "rows": self._rows(ctx)}
        charges, at = self._charges(amounts, one, tenant), self._clock()
        wait = self._wait(charges, one.waiting, at)
        for charge in charges:
            charge.bucket.spend(charge.amount, at)
        if wait:
            one.waiting += 1
            try:
                await anyio.sleep(wait)
            finally:
                one.waiting -= 1

    async def _turn(self, one: Account, tenant: Account, counted_as: str) -> anyio.Semaphore | None:
        """Wait until it may run. Returns where its turn is to be given back. Raises TooMuch."""
        turns = tenant.turns.get(counted_as)
        if turns is None:
            return None
        try:
            turns.acquire_nowait()
            return turns
        except anyio.WouldBlock:
            pass
        if one.waiting < MOST_WAITING:
            one.waiting += 1
            try:
                with anyio.move_on_after(self._patience):
                    await turns.acquire()
                    return turns
            finally:
                one.waiting -= 1
        what = f"{_WORDS[counted_as]} at once{_OF_TENANT}"
        raise TooMuch(what, f"{self._at_once[counted_as]:,} are allowed", self._again)

    def _wait(self, charges: Sequence[_Charge], waiting: int, at: float) -> float:
        """Seconds until all of it may be taken. Raises TooMuch if that is too long, or too many wait already."""
        waits = [charge.bucket.wait(charge.amount, at) for charge in charges]
        wait = max(waits, default=0.0)
        if wait > self._patience or (wait and waiting >= MOST_WAITING):
            worst = charges[waits.index(wait)]
            raise TooMuch(worst.what, f"{worst.rate:,} a second are allowed", wait)
        return wait

    def _charges(self, amounts: Mapping[str, int], one: Account, tenant: Account) -> list[_Charge]:
        return [
            _Charge(account.buckets[what], amount, _WORDS[what] + words, self._rates[whose][what])
            for whose, account, words in (("principal", one, ""), ("tenant", tenant, _OF_TENANT))
            for what, amount in amounts.items()
            if amount and what in account.buckets
        ]

    def _rows(self, ctx: Ctx) -> int:
        params = ctx.params or {}
        tool = params.get("name")
        if ctx.method != "tools/call" or tool not in self._writing:
            return 0
        return rows_of(tool, params.get("arguments"))


def _leave(account: Account) -> None:
    account.under_way -= 1


def _counted_as(method: str) -> str:
    return "calls" if method in _CALLS else "besides"


def _rates_of(rates: RateSettings, whose: str) -> dict[str, float]:
    """Of a principal or a tenant, by what is counted."""
    calls = getattr(rates, f"{whose}_calls_per_second")
    counted = {what: getattr(rates, f"{whose}_{what}_per_second") for what in ("bytes", "rows")}
    return {"calls": calls, "besides": BESIDES_PER_CALL * calls, **counted}


def _refusal(ctx: Ctx, refused: TooMuch) -> HandlerResult:
    """A tool's answer has the form that the SDK's own would have; the rest are errors of the protocol."""
    if ctx.method != "tools/call":
        raise MCPError.from_error_data(refusal(refused)) from refused
    result = refused_call(refused).model_dump(by_alias=True, mode="json", exclude_none=True)
    if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        result.pop("resultType", None)
    return result
