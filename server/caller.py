"""Who is calling, and which thread a call means: the only place where a request becomes a scope."""

import uuid
from dataclasses import dataclass
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from memstrata.server.process import Process
from memstrata.server.sdk_private import connection_of
from memstrata.storage.errors import InvalidInput
from memstrata.storage.records import Scope

THREAD_META = "memstrata/thread"
THREAD_HEADER = "Memstrata-Thread"
KEY_META = "memstrata/idempotency-key"
LOCAL_TENANT = "local"
_CLIENT_CHARS = 80


@dataclass(frozen=True, slots=True)
class Caller:
    """The scope of a call, the thread it means where no argument names one, its idempotency key, and the name of the
    client program, as that says it."""

    scope: Scope
    default_thread: str
    idempotency_key: str
    client: str

    def thread(self, argument: str) -> str:
        """The thread that a tool works on. Raises InvalidInput when nothing names one."""
        chosen = argument or self.default_thread
        if not chosen:
            raise InvalidInput(
                "thread_id: needed, because this connection has no session: pass thread_id, "
                f"or send it in _meta as {THREAD_META!r} or in the header {THREAD_HEADER}"
            )
        return chosen


def caller_of(ctx: ServerRequestContext[Process, Any]) -> Caller:
    """Scope and thread come from the launch and the transport, never from what a model wrote."""
    process = ctx.lifespan_context
    settings = process.settings
    meta = (ctx.params or {}).get("_meta") or {}
    return Caller(
        scope=Scope(LOCAL_TENANT, settings.agent, settings.resource),
        default_thread=_named(meta, ctx.request) or settings.thread or _session_thread(ctx, process),
        idempotency_key=_text(meta.get(KEY_META), KEY_META),
        client=_client(ctx),
    )


def _client(ctx: ServerRequestContext[Process, Any]) -> str:
    """What the client calls itself, in one line: for people to read, never to decide by."""
    params = ctx.session.client_params
    if params is None:
        return "unknown"
    told = " ".join((params.client_info.name, params.client_info.version)).split()
    return " ".join(told).encode(errors="replace").decode().replace("\x00", "")[:_CLIENT_CHARS] or "unknown"


def _named(meta: dict[str, Any], request: Any) -> str:
    from_meta = _text(meta.get(THREAD_META), THREAD_META)
    if from_meta or request is None:
        return from_meta
    header: str = request.headers.get(THREAD_HEADER, "")
    return header


def _text(value: Any, where: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidInput(f"_meta[{where!r}]: must be a string")
    return value


def _session_thread(ctx: ServerRequestContext[Process, Any], process: Process) -> str:
    """One new thread a process (stdio) or session (older protocol); over modern HTTP there is no session."""
    if ctx.request is None:
        key: Any = process
    elif ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
        return ""
    else:
        key = connection_of(ctx.session)
    return process.session_threads.setdefault(key, f"session-{uuid.uuid4().hex[:12]}")
