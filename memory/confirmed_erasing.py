"""Erasing as a caller of the server asks for it: it is shown first how much would go, with a token that confirms it.

A token is an HMAC and nothing is kept of it. It stands for a scope, a thread, how many threads and messages there were,
and until when it holds: what was said since is never erased unseen. (What background work makes of it comes and goes.)
"""

import base64
import hashlib
import hmac
from typing import Any

from layerlore.memory.ages import iso
from layerlore.memory.engine import Engine, Sent
from layerlore.memory.erasing import Receipt, erase, shown
from layerlore.storage.errors import InvalidInput
from layerlore.storage.json_text import to_json
from layerlore.storage.records import Json, Origin, Scope, Tenant
from layerlore.storage.transaction import Tx

TOKEN_MINUTES = 10
_MAC_BYTES = 15


async def preview(engine: Engine, scope: Scope, thread_id: str, origin: Origin) -> Json:
    """How much is kept of the scope (or of its threads of that name): a dry run's receipt, and the token to go on with.

    Raises InvalidInput, LimitExceeded, StorageUnavailable.
    """
    receipt = await erase(engine, **_whose(scope, thread_id), origin=origin, dry_run=True)
    until = engine.now() // 1000 + TOKEN_MINUTES * 60
    token = _token(engine, scope, thread_id, receipt, until)
    return {**shown(receipt), "confirm": token, "confirm_before": iso(until * 1000)}


async def confirmed(engine: Engine, scope: Scope, thread_id: str, token: str, sent: Sent) -> Json:
    """Erase what a preview told of, at most TOKEN_MINUTES ago; the receipt. The same request sent again gets the first
    receipt again, which is kept for a day under its key.

    Raises InvalidInput for a token of something else, or of another time, LimitExceeded, Conflict, StorageUnavailable.
    """
    arguments = [thread_id, token]
    if (answered := await engine.kept_answer(scope, sent, arguments)) is not None:
        return answered
    seen = await erase(engine, **_whose(scope, thread_id), origin=sent.origin, dry_run=True)
    _check(engine, scope, thread_id, seen, token)

    async def hidden(tx: Tx, receipt: Receipt) -> None:
        # Again, since a message may have come meanwhile. The receipt is kept with what it tells of, so that who was
        # interrupted has one.
        _check(engine, scope, thread_id, receipt, token)
        await engine.keep_answer(tx, scope, sent, arguments, shown(receipt))

    receipt = await erase(engine, **_whose(scope, thread_id), origin=sent.origin, hidden=hidden)
    answer = shown(receipt)
    await engine.database.write(engine.keep_answer, scope, sent, arguments, answer)
    return answer


def _whose(scope: Scope, thread_id: str) -> dict[str, Any]:
    return {
        "tenant": Tenant(scope.tenant_id),
        "resource_id": scope.resource_id,
        "agent_id": scope.agent_id,
        "thread_id": thread_id,
    }


def _token(engine: Engine, scope: Scope, thread_id: str, receipt: Receipt, until: int) -> str:
    told = [receipt.counts.get(name, 0) for name in ("threads", "messages")]
    body = to_json(["erase", scope.tenant_id, scope.agent_id, scope.resource_id, thread_id, *told, until])
    mac = hmac.new(engine.hmac_key, body.encode(), hashlib.sha256).digest()[:_MAC_BYTES]
    return f"{until:x}-{base64.b32encode(mac).decode().lower()}"


def _check(engine: Engine, scope: Scope, thread_id: str, receipt: Receipt, token: str) -> None:
    again = "this call erased nothing: call it with dry_run=true, and again with the token that it gives"
    try:
        until = int(token.partition("-")[0][:16], 16)
    except ValueError:
        until = 0
    if not hmac.compare_digest(_token(engine, scope, thread_id, receipt, until).encode(), token.encode()):
        raise InvalidInput(
            "confirm: needs the token that a dry run with the same thread_id gave, and no message may have come or gone "
            f"since; {again}"
        )
    if until * 1000 < engine.now():
        raise InvalidInput(f"confirm: the token was good until {iso(until * 1000)}; {again}")
