"""The limits of a server's callers over HTTP, as the settings name them."""

from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.mcpserver import MCPServer

from layerlore.server.access.caller import principal_of, record_refusal
from layerlore.server.access.credentials import Credentials
from layerlore.server.access.gate import subject_prefix
from layerlore.server.access.open_requests import UnsentLimits
from layerlore.server.limits.room import Room, TooMuch
from layerlore.server.limits.throttle import Flood, PatientGate, Throttle
from layerlore.server.process.sdk_private import add_middleware, session_subjects
from layerlore.server.settings.rates import RateSettings
from layerlore.server.tools.toolsets import ALL_TOOLS, list_writers


async def _record_refusal(ctx: ServerRequestContext[Any, Any], refused: TooMuch) -> None:
    name = (ctx.params or {}).get("name")
    await record_refusal(ctx, name if name in ALL_TOOLS else ctx.method, refused)


def make_gate(mcp: MCPServer[Any], rates: RateSettings, credentials: Credentials, **options: Any) -> PatientGate:
    """Make the gate that ``mcp`` is served behind, once for each server. ``options`` are those of a gate."""
    throttle = Throttle(rates, principal_of, list_writers(), refused=_record_refusal)
    add_middleware(mcp, throttle)

    def count_sessions(tenant: str) -> int:
        return sum(subject.startswith(subject_prefix(tenant)) for subject in session_subjects(mcp))

    room = Room(streams=rates.tenant_streams, sessions=rates.tenant_sessions, sessions_of=count_sessions)
    unsent = UnsentLimits(of_principal=rates.principal_unsent_bytes, of_tenant=rates.tenant_unsent_bytes)
    return PatientGate(credentials, Flood(throttle, room, unsent=unsent), **options)
