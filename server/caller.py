"""Who is calling, and whose memory and which thread a call means: the only place where a request becomes a scope."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.context import ServerRequestContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from memstrata.memory.acceptance import check_id
from memstrata.memory.limits import Limits
from memstrata.server.access.credentials import PRINCIPAL_CLAIM, local_principal
from memstrata.server.access.principal import Principal
from memstrata.server.process import Process
from memstrata.server.sdk_private import connection_of
from memstrata.storage.errors import InvalidInput, NotFound
from memstrata.storage.records import Scope

THREAD_META, THREAD_HEADER = "memstrata/thread", "Memstrata-Thread"
AGENT_META, AGENT_HEADER = "memstrata/agent", "Memstrata-Agent"
RESOURCE_META, RESOURCE_HEADER = "memstrata/resource", "Memstrata-Resource"
KEY_META = "memstrata/idempotency-key"
_CLIENT_CHARS = 80


@dataclass(frozen=True, slots=True)
class Caller:
    """The principal and the scope of a call, the thread it means where no argument names one, its idempotency key, and
    the name of the client program, as that says it."""

    principal: Principal
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


def principal_of(ctx: ServerRequestContext[Process, Any]) -> Principal:
    """Who the credential of the request says is calling; without HTTP, the person at this machine."""
    access = get_access_token()
    if access is not None:
        principal: Principal = (access.claims or {})[PRINCIPAL_CLAIM]
        return principal
    if ctx.request is not None:
        raise RuntimeError("a request over HTTP came past the gate")
    settings = ctx.lifespan_context.settings
    return local_principal(settings.agent, settings.resource)


def scope_of(principal: Principal, agent: str, resource: str) -> Scope:
    """Whose memory a principal means by these names; "" is the only one that it may name.

    Raises InvalidInput if there is no only one, NotFound for one outside its grant, as if there were none of that name.
    """
    if not agent:
        if principal.agents is None or len(principal.agents) != 1:
            raise _unnamed("agent", AGENT_META, AGENT_HEADER)
        (agent,) = principal.agents
    elif principal.agents is not None and agent not in principal.agents:
        raise NotFound(f"there is no agent {agent!r}")
    if not resource:
        if principal.resource is None:
            raise _unnamed("resource", RESOURCE_META, RESOURCE_HEADER)
        resource = principal.resource
    elif principal.resource is not None and resource != principal.resource:
        raise NotFound(f"there is no resource {resource!r}")
    return Scope(principal.tenant, agent, resource)


def caller_of(ctx: ServerRequestContext[Process, Any]) -> Caller:
    """Scope and thread come from the credential, the launch and the request's envelope, never from what a model wrote.

    Raises InvalidInput, LimitExceeded or NotFound.
    """
    process, principal = ctx.lifespan_context, principal_of(ctx)
    meta, request, limits = (ctx.params or {}).get("_meta") or {}, ctx.request, Limits()
    agent = _named(meta, AGENT_META, request, AGENT_HEADER, limits.id_chars)
    resource = _named(meta, RESOURCE_META, request, RESOURCE_HEADER, limits.id_chars)
    thread = _named(meta, THREAD_META, request, THREAD_HEADER, limits.thread_id_chars)
    return Caller(
        principal=principal,
        scope=scope_of(principal, agent, resource),
        default_thread=thread or process.settings.thread or _session_thread(ctx, process),
        idempotency_key=_text(meta.get(KEY_META), KEY_META),
        client=client_of(ctx),
    )


def client_of(ctx: ServerRequestContext[Process, Any]) -> str:
    """What the client calls itself, in one line: for people to read, never to decide by."""
    params = ctx.session.client_params
    if params is None:
        return "unknown"
    told = " ".join((params.client_info.name, params.client_info.version)).split()
    return " ".join(told).encode(errors="replace").decode().replace("\x00", "")[:_CLIENT_CHARS] or "unknown"


def _unnamed(what: str, meta: str, header: str) -> InvalidInput:
    return InvalidInput(
        f"{what}: needed, because this credential is not for a single one: send it in the header {header} "
        f"or in _meta as {meta!r}"
    )


def _named(meta: Mapping[str, Any], key: str, request: Any, header: str, most_chars: int) -> str:
    """What a request names, its _meta before its header; "" if neither does."""
    name, where = _text(meta.get(key), key), f"_meta[{key!r}]"
    if not name and request is not None:
        name, where = _header(request, header), f"header {header}"
    return check_id(name, where, most_chars) if name else ""


def _header(request: Any, header: str) -> str:
    """UTF-8, which HTTP carries as bytes. One that a proxy adds does not stand beside another that the client sent."""
    sent = set(request.headers.getlist(header)) - {""}
    if len(sent) > 1:
        raise InvalidInput(f"header {header}: was sent more than once; once is allowed")
    try:
        return sent.pop().encode("latin-1").decode() if sent else ""
    except UnicodeDecodeError as error:
        raise InvalidInput(f"header {header}: must be UTF-8") from error


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
