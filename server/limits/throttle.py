"""The throttle on callers: it limits calls, bytes and rows a second, and calls at a time.

A request that comes too early waits its turn, in order, for as long as clients wait for an answer; one that would wait
longer is refused. Connections, lists and pings have their own rate, so that calls never block them.

The throttle comes before any check, so that a refused request costs little more than reading it. A refusal is an ordinary
answer with the request's id, so every client gets one.
"""

import json
import math
import random
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import anyio
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver import MCPServer
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from layerlore.server.access.caller import principal_of, record_refusal
from layerlore.server.access.credentials import PRINCIPAL_CLAIM, Credentials, Principal
from layerlore.server.access.gate import Endpoint, Gate, GatedApp, subject_prefix
from layerlore.server.access.open_requests import ANSWER, CONNECTION, PendingAnswer, UnsentLimits, call_when_received
from layerlore.server.limits.room import (
    CALL_METHODS,
    Room,
    TooMuch,
    Turns,
    answer_refusal,
    content_length,
    refusal_error,
)
from layerlore.server.process.sdk_private import add_middleware, session_subjects
from layerlore.server.relay.hook_events import STORE_METHOD
from layerlore.server.settings.http import RateSettings
from layerlore.server.tools.toolsets import ALL_TOOLS, list_writers
from layerlore.storage.core import metrics

_NOTHING = 1e-9  # seconds, which rounding may leave


class Bucket:
    """A bucket that fills at ``rate`` a second up to ``burst``. A new one is full.

    An amount above the burst needs a full bucket and leaves it in debt: it is possible, but the sender waits for it
    afterwards. Over any time, no more is granted than the burst (or the one larger amount) and the rate times that time.
    """

    __slots__ = ("_at", "_burst", "_level", "_rate")

    def __init__(self, rate: float, burst: float, at: float) -> None:
        self._rate = rate
        self._burst = burst
        self._level = burst
        self._at = at

    def wait(self, amount: float, at: float) -> float:
        """Seconds until the amount may be taken; 0: now."""
        self._fill(at)
        # A large amount only needs a full bucket, since its debt is paid afterwards.
        seconds = (min(amount, self._burst) - self._level) / self._rate
        if seconds > _NOTHING:
            return seconds
        return 0.0

    def spend(self, amount: float, at: float) -> None:
        """Take the amount even if the bucket has less. Later requests wait for the debt."""
        self._fill(at)
        self._level -= amount

    def take(self, amount: float, at: float) -> float:
        """Take the amount if the bucket allows it now. Returns 0 then, else the seconds to wait."""
        seconds = self.wait(amount, at)
        if not seconds:
            self.spend(amount, at)
        return seconds

    def full(self, at: float) -> bool:
        self._fill(at)
        return self._level >= self._burst

    def _fill(self, at: float) -> None:
        # A caller may have read the clock before the last caller did.
        if at > self._at:
            self._level = min(self._burst, self._level + (at - self._at) * self._rate)
            self._at = at


BURST_SECONDS = 2.0
"""An idle caller may use the amount of this many seconds at once."""
MOST_ACCOUNTS = 10_000


class Account:
    """The remaining requests of one principal or one tenant.

    ``buckets``: for each limited rate; ``turns``: for each kind of request with a limit at a time. ``under_way`` counts
    the requests that wait or run, ``waiting`` those that wait, and ``listening`` the open listen streams.
    """

    __slots__ = ("buckets", "listening", "turns", "under_way", "waiting")

    def __init__(self, rates: Mapping[str, float], at_once: Mapping[str, int], at: float) -> None:
        # A rate of 0 means no limit, so it needs no bucket.
        self.buckets = {what: Bucket(rate, rate * BURST_SECONDS, at) for what, rate in rates.items() if rate}
        self.turns = {what: anyio.Semaphore(most) for what, most in at_once.items() if most}
        self.under_way = 0
        self.listening = 0
        self.waiting = 0

    def idle(self, at: float) -> bool:
        """Whether the account equals a new one."""
        return not self.under_way and all(bucket.full(at) for bucket in self.buckets.values())


class Accounts:
    """Accounts by name, made on first use.

    Idle accounts are dropped, the least recently used first. Beyond ``most`` accounts this also drops others without a
    request under way, together with their debts. ``rates``: amounts a second; 0: no limit. ``at_once``: the most requests
    at a time; 0: any number.
    """

    def __init__(
        self,
        rates: Mapping[str, float],
        clock: Callable[[], float],
        *,
        at_once: Mapping[str, int] | None = None,
        most: int = MOST_ACCOUNTS,
    ) -> None:
        self._rates = rates
        self._at_once = at_once or {}
        self._clock = clock
        self._most = most
        self._kept: OrderedDict[str, Account] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, name: str) -> Account:
        """The account of that name."""
        found = self._kept.get(name)
        if found is not None:
            self._kept.move_to_end(name)
            return found
        at = self._clock()
        self._make_room(at)
        made = self._kept[name] = Account(self._rates, self._at_once, at)
        return made

    def _make_room(self, at: float) -> None:
        # Check two accounts for each new one, so that in the end all idle ones are dropped.
        for _ in range(2):
            if not self._kept:
                return
            name, oldest = next(iter(self._kept.items()))
            # An account with requests under way counts them, so it must stay.
            if oldest.under_way:
                self._kept.move_to_end(name)
            elif oldest.idle(at) or len(self._kept) >= self._most:
                del self._kept[name]
            else:
                return


# The arguments whose elements become rows, and a text that each element has, to count them in JSON text: every message has
# a role, every step a type.
_ELEMENTS = {"add_messages": ("messages", '"role"'), "record_steps": ("steps", '"type"')}


def count_rows(tool: str, arguments: Any) -> int:
    """The rows that a call of a writing tool would add: its messages or steps, the steps of its plan, or else 1."""
    if not isinstance(arguments, Mapping):
        return 1
    if tool in _ELEMENTS:
        name, mark = _ELEMENTS[tool]
        return max(1, _count_elements(arguments.get(name), mark))
    given = arguments.get("plan")
    if tool == "plan" and given is not None:
        if isinstance(given, Mapping):
            steps = given.get("steps")
        else:
            steps = given
        return 1 + _count_elements(steps, '"description"')
    # A review only reads.
    if tool == "plan" and arguments.get("action") == "review":
        return 0
    return 1


def _count_elements(value: Any, mark: str) -> int:
    if isinstance(value, str):
        return value.count(mark)
    if isinstance(value, list):
        return len(value)
    return 0


def count_bytes(params: Mapping[str, Any] | None, request: Any) -> int:
    """The bytes of a request: its Content-Length, or else its parameters as JSON."""
    length = request.headers.get("content-length", "") if request is not None else ""
    if length.isascii() and length.isdigit():
        return int(length)
    try:
        return len(json.dumps(params))
    except (ValueError, RecursionError):
        return 0  # nested too deeply, or with a number that is too long: such a request is refused unread


Ctx = ServerRequestContext[Any, Any]

MOST_WAITING = 256
"""The most requests of one principal that may wait; more are refused."""
BESIDES_PER_CALL = 2
"""Other requests that are allowed for each allowed call."""
_NEVER_REFUSED = ("ping",)
_MOST_DEBT = 2.0  # seconds of debt, beyond a call's longest wait, for requests that cannot be refused
_AGAIN_SECONDS = 1.0  # a client should try again after this time, or earlier, if no turn was free
_LONG = ("subscriptions/listen",)  # open while a client listens
_WORDS = {"calls": "calls", "besides": "requests", "bytes": "bytes", "rows": "rows to write"}
_OF_TENANT = " of your tenant together"


@dataclass(frozen=True, slots=True)
class _Charge:
    """The cost of a request in one bucket, and its name in a refusal."""

    bucket: Bucket
    amount: int
    what: str
    rate: float


async def _ignore(ctx: Ctx, refused: TooMuch) -> None:
    """Record no refusal."""


class Throttle:
    """Middleware of the MCP server. ``writing``: the names of the tools that write; ``refused``: called for each refusal;
    ``clock``: returns seconds."""

    def __init__(
        self,
        rates: RateSettings,
        principal_of: Callable[[Ctx], Principal],
        writing: Collection[str],
        *,
        refused: Callable[[Ctx, TooMuch], Awaitable[None]] = _ignore,
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
        # The limits protect others, and would only slow down the person at this machine.
        if principal.local:
            return await call_next(ctx)
        # A notification has no id, so it cannot be refused, but it still counts.
        if ctx.request_id is None or ctx.method in _NEVER_REFUSED:
            self.count(principal, count_bytes(ctx.params, ctx.request))
            return await call_next(ctx)
        one, tenant = self._accounts(principal)
        # The account counts a request until the client has received the answer, since an unread answer takes memory.
        running = ExitStack()
        for account in (one, tenant):
            account.under_way += 1
            running.callback(_leave, account)
        try:
            if ctx.method in _LONG:
                return await self._listen(ctx, call_next, one, tenant)
            await self._admit(ctx, one, tenant)
            if turns := await self._take_turn(one, tenant, _category(ctx.method)):
                running.callback(turns.release)
            return await call_next(ctx)
        except TooMuch as refused:
            metrics.REFUSED.add(refused.what)
            await self._refused(ctx, refused)
            return answer_refusal(ctx, refused)
        finally:
            call_when_received(ctx.request, running.close)

    async def _listen(self, ctx: Ctx, call_next: CallNext, one: Account, tenant: Account) -> HandlerResult:
        # Streams have a limit of their own, because they stay open and do not wait for a turn.
        if tenant.listening >= self._most_streams > 0:
            raise TooMuch("open streams", f"{self._most_streams:,} of a tenant are allowed", self._again)
        tenant.listening += 1
        try:
            await self._admit(ctx, one, tenant)
            return await call_next(ctx)
        finally:
            tenant.listening -= 1

    def find_excess(self, principal: Principal, size: int, method: str = "") -> TooMuch | None:
        """The refusal that a request of ``size`` bytes would get; None if it would get none. Called before the body is read;
        charges nothing. ``method``: from the head of the request, "" if it names none."""
        one, tenant = self._accounts(principal)
        if method:
            amounts = {_category(method): 1}
        else:
            # Before the body is read the kind may be unknown, so the request must fit both rates.
            amounts = {"calls": 1, "besides": 1}
        try:
            self._wait(self._charges({**amounts, "bytes": size}, one, tenant), one.waiting, self._clock())
        except TooMuch as refused:
            return refused
        if one.waiting < MOST_WAITING:
            return None
        return TooMuch("calls that wait their turn", f"{MOST_WAITING} are allowed", self._again)

    def count(self, principal: Principal, size: int) -> None:
        """Charge for a request of ``size`` bytes that cannot be refused: a notification, or an unreadable request."""
        (one, tenant), at = self._accounts(principal), self._clock()
        for charge in self._charges({"besides": 1, "bytes": size}, one, tenant):
            # The debt is bounded: a flood of notifications must not lock the caller out for long.
            if charge.bucket.wait(charge.amount, at) < self._patience + _MOST_DEBT:
                charge.bucket.spend(charge.amount, at)

    def _accounts(self, principal: Principal) -> tuple[Account, Account]:
        """The account of the principal, and that of its tenant."""
        # The tenant is part of the key, since two tenants may have principals of the same name.
        return self._principals.of(f"{principal.tenant}\n{principal.name}"), self._tenants.of(principal.tenant)

    async def _admit(self, ctx: Ctx, one: Account, tenant: Account) -> None:
        """Wait until the request's amounts may be taken. Raises TooMuch."""
        amounts = {_category(ctx.method): 1, "bytes": count_bytes(ctx.params, ctx.request), "rows": self._rows(ctx)}
        charges, at = self._charges(amounts, one, tenant), self._clock()
        wait = self._wait(charges, one.waiting, at)
        # Spent before the wait, so that later requests queue up behind this one.
        for charge in charges:
            charge.bucket.spend(charge.amount, at)
        if wait:
            one.waiting += 1
            try:
                await anyio.sleep(wait)
            finally:
                one.waiting -= 1

    async def _take_turn(self, one: Account, tenant: Account, category: str) -> anyio.Semaphore | None:
        """Wait until the request may run. Returns the semaphore to release afterwards, if any. Raises TooMuch."""
        turns = tenant.turns.get(category)
        if turns is None:
            return None
        try:
            # Tried first, since a free turn needs no place in the queue.
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
        what = f"{_WORDS[category]} at once{_OF_TENANT}"
        raise TooMuch(what, f"{self._at_once[category]:,} are allowed", self._again)

    def _wait(self, charges: Sequence[_Charge], waiting: int, at: float) -> float:
        """Seconds until all charges may be taken. Raises TooMuch if that is too long or too many requests wait already."""
        # All amounts are checked before any is spent, so that a refused request costs nothing.
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
        if ctx.method == STORE_METHOD:
            return count_rows("add_messages", params)
        tool = params.get("name")
        if ctx.method != "tools/call" or tool not in self._writing:
            return 0
        return count_rows(tool, params.get("arguments"))


def _leave(account: Account) -> None:
    account.under_way -= 1


def _category(method: str) -> str:
    if method in CALL_METHODS:
        return "calls"
    return "besides"


def _rates_of(rates: RateSettings, whose: str) -> dict[str, float]:
    """The rates of a principal or a tenant, by name."""
    calls = getattr(rates, f"{whose}_calls_per_second")
    counted = {what: getattr(rates, f"{whose}_{what}_per_second") for what in ("bytes", "rows")}
    return {"calls": calls, "besides": BESIDES_PER_CALL * calls, **counted}


HELD_SECONDS = (1.0, 3.0)
"""The shortest and the longest wait. It is random, so that requests that came together do not continue together."""
MOST_ANSWERED = 64
"""The most requests of one tenant that get an answer of the protocol after they waited."""
MOST_HELD = 1000
"""The most requests of one tenant that wait."""
UNREAD = (400, 408, 413, 415)
"""The HTTP statuses of invalid messages, and of requests that are refused unread."""


class Flood:
    """Holds back requests beyond the limits of ``throttle``, ``room`` (open bodies, streams and sessions) and ``unsent``
    (answers that clients have not read yet). ``chance`` returns numbers from 0 to 1."""

    def __init__(
        self,
        throttle: Throttle,
        room: Room,
        chance: Callable[[], float] = random.random,
        *,
        unsent: UnsentLimits | None = None,
    ) -> None:
        self._throttle = throttle
        self._room = room
        self._chance = chance
        self._unsent = unsent or UnsentLimits()
        self._held: Counter[str] = Counter()

    def wrap(self, app: ASGIApp) -> ASGIApp:
        """Hold back requests to ``app``, which is behind a gate, so that every request has its principal."""

        async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
            principal: Principal = scope["user"].access_token.claims[PRINCIPAL_CLAIM]
            if principal.local:
                await app(scope, receive, send)
                return
            # A body that the protocol refuses for its form never reaches the throttle.
            if scope["method"] == "POST":
                send = self._charge_unread(principal, content_length(scope), send)
            try:
                # Held before the body is read, so that a flooding client is slowed down at its own socket.
                await self._hold(principal, scope)
                if scope["method"] != "POST":
                    self._throttle.count(principal, 0)
                with self._room.take(principal.tenant, scope, receive, send) as (received, sent):
                    await self._answer(principal, app, scope, received, sent)
            except TooMuch as refused:
                await _too_many(refused)(scope, receive, send)

        return guarded

    async def _answer(self, principal: Principal, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Let ``app`` answer, and wait until the client has received the answer."""
        connection, answer = scope.get(CONNECTION), PendingAnswer()

        async def sent(message: Message) -> None:
            await send(message)
            # Checked after each piece, since a stream to a client that does not read must stop here.
            if message.get("more_body", False):
                await self._unsent.wait_sent(principal, connection)

        scope[ANSWER] = answer
        try:
            await app(scope, receive, sent)
            # Wait here and not in ``sent``: after its last piece an app counts as finished, and would be cancelled.
            await self._unsent.wait_sent(principal, connection)
        finally:
            answer.finish()

    def _charge_unread(self, principal: Principal, size: int, send: Send) -> Send:
        """Wrap ``send`` so that requests that are refused unread count, too, though the throttle never sees them."""

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] in UNREAD:
                self._throttle.count(principal, size)
            await send(message)

        return counted

    async def _hold(self, principal: Principal, scope: Scope) -> None:
        """Wait if the principal is beyond a limit. Raises TooMuch if too many requests of the tenant wait."""
        refused = self._throttle.find_excess(principal, content_length(scope), _method(scope))
        if refused is None:
            return
        before = self._held[principal.tenant]
        if before < MOST_HELD:
            least, most = HELD_SECONDS
            self._held[principal.tenant] += 1
            try:
                await anyio.sleep(least + (most - least) * self._chance())
            finally:
                self._held[principal.tenant] -= 1
                if not self._held[principal.tenant]:
                    del self._held[principal.tenant]
        # A few requests get an answer of the protocol with their id; the rest get a plain 429.
        if before >= MOST_ANSWERED:
            raise refused


class PatientGate(Gate):
    """A gate that holds back floods once it knows their principal."""

    def __init__(self, credentials: Credentials, flood: Flood, **options: Any) -> None:
        super().__init__(credentials, **options)
        self._flood = flood

    def wrap(self, app: ASGIApp, endpoint: Endpoint = "/mcp") -> GatedApp:
        return super().wrap(self._flood.wrap(app), endpoint)


def _method(scope: Scope) -> str:
    """The method in the request's head. The protocol refuses a request whose body names another one."""
    if scope["method"] != "POST":
        return str(scope["method"])
    named: bytes = next((value for name, value in scope["headers"] if name == b"mcp-method"), b"")
    return named.decode("latin-1").strip()


def _too_many(refused: TooMuch) -> JSONResponse:
    """The answer 429, with an error of the protocol as its body, without an id, since the request was not read."""
    metrics.REFUSED.add(refused.what)
    body = {"jsonrpc": "2.0", "id": None, "error": refusal_error(refused).model_dump(mode="json", exclude_none=True)}
    headers = {"Retry-After": str(math.ceil(refused.retry_after)), "Connection": "close"}
    return JSONResponse(body, status_code=429, headers=headers)


async def _record_refusal(ctx: ServerRequestContext[Any, Any], refused: TooMuch) -> None:
    name = (ctx.params or {}).get("name")
    await record_refusal(ctx, name if name in ALL_TOOLS else ctx.method, refused)


def make_gate(mcp: MCPServer[Any], rates: RateSettings, credentials: Credentials, **options: Any) -> PatientGate:
    """Make the gate in front of ``mcp``; call it once for each server. ``options`` are those of a Gate."""
    throttle = Throttle(rates, principal_of, list_writers(), refused=_record_refusal)
    add_middleware(mcp, throttle)
    add_middleware(mcp, Turns(rates))

    def count_sessions(tenant: str) -> int:
        # The subject of a session's credential begins with its tenant.
        return sum(subject.startswith(subject_prefix(tenant)) for subject in session_subjects(mcp))

    room = Room(streams=rates.tenant_streams, sessions=rates.tenant_sessions, sessions_of=count_sessions)
    unsent = UnsentLimits(of_principal=rates.principal_unsent_bytes, of_tenant=rates.tenant_unsent_bytes)
    return PatientGate(credentials, Flood(throttle, room, unsent=unsent), **options)
