"""Holds a server's callers over HTTP to the rates that the settings name."""

from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import MCPServer

from layerlore.server.access.answers import Unsent
from layerlore.server.access.credentials import Credentials
from layerlore.server.access.flood import Flood, PatientGate
from layerlore.server.access.gate import subject_of_tenant
from layerlore.server.access.room import Room
from layerlore.server.access.throttle import Throttle
from layerlore.server.access.too_much import TooMuch
from layerlore.server.caller import principal_of
from layerlore.server.permitting import note_refusal
from layerlore.server.rate_settings import RateSettings
from layerlore.server.sdk_private import add_middleware, session_subjects
from layerlore.server.toolsets import DECLARATIONS, writing

_TOOLS = frozenset(each.signature.__name__ for each in DECLARATIONS)


async def _note(ctx: ServerRequestContext[Any, Any], refused: TooMuch) -> None:
    name = (ctx.params or {}).get("name")
    await note_refusal(ctx, name if name in _TOOLS else ctx.method, refused)


def limited(mcp: MCPServer[Any], rates: RateSettings, credentials: Credentials, **options: Any) -> PatientGate:
    """The gate to serve ``mcp`` behind; ``options`` are a gate's. To be asked for once a server."""
    throttle = Throttle(rates, principal_of, writing(), refused=_note)
    add_middleware(mcp, throttle)

    def sessions_of(tenant: str) -> int:
        return sum(subject.startswith(subject_of_tenant(tenant)) for subject in session_subjects(mcp))

    room = Room(streams=rates.tenant_streams, sessions=rates.tenant_sessions, sessions_of=sessions_of)
    unsent = Unsent(of_principal=rates.principal_unsent_bytes, of_tenant=rates.tenant_unsent_bytes)
    return PatientGate(credentials, Flood(throttle, room, unsent=unsent), **options)
