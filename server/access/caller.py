"""The caller of a request, its scope and its thread. Only this module turns a request into a scope."""

import contextlib
import hashlib
import uuid
from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from layerlore.memory.rules.time_zones import LONGEST_NAME, read_zone
from layerlore.memory.rules.validation import Limits, check_id, check_new_id
from layerlore.server.access.browser_sessions import PAGE_HEADER
from layerlore.server.access.credentials import PRINCIPAL_CLAIM, RIGHTS, Principal, Right, local_principal
from layerlore.server.settings.project import NONE, PREFIX, project_resource
from layerlore.server.settings.settings import Settings
from layerlore.storage.core.errors import InvalidInput, LayerloreError, NotFound
from layerlore.storage.core.records import Json, Scope

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

THREAD_META, THREAD_HEADER = "layerlore/thread", "Layerlore-Thread"
AGENT_META, AGENT_HEADER = "layerlore/agent", "Layerlore-Agent"
RESOURCE_META, RESOURCE_HEADER = "layerlore/resource", "Layerlore-Resource"
PROJECT_META, PROJECT_HEADER = "layerlore/project", "Layerlore-Project"
ZONE_META, ZONE_HEADER = "layerlore/time-zone", "Layerlore-Time-Zone"
CONVERSATION_HEADER = "Layerlore-Session"
"""Names the conversation of a client where nothing names a thread, in every session and request that has the header."""
CAPTURED_HEADER = "Layerlore-Captured"
"""Announces that hooks store the client's conversations in this memory, so that its model need not."""
HOST_METAS = ("vscode.conversationId", "sessionId", "threadId")
"""The keys of the hosts' own conversation ids in a call: VS Code sends the first one, Codex the others. Codex's hooks name
the session; a sub-agent has its own thread in the same session."""
KEY_META = "layerlore/idempotency-key"
UNKNOWN_CLIENT = "unknown"
_CLIENT_CHARS = 80
_READ = (
    *(THREAD_HEADER, CONVERSATION_HEADER, AGENT_HEADER, RESOURCE_HEADER, PROJECT_HEADER, ZONE_HEADER),
    *(CAPTURED_HEADER, PAGE_HEADER),
)
_RAW = {name: name.lower().encode() for name in _READ}
_NAMED = "layerlore.named"

Default = Literal["named", "session", "new"]
"""How a call whose arguments name no thread gets one: the request or the launch names it; the session has one; or nothing
connects the call with others, and it begins a new one."""


@dataclass(frozen=True, slots=True)
class Caller:
    """The principal and the scope of a call, its thread if no argument names one, its idempotency key, and the client
    program's own name.

    ``default``: how the call gets that thread. ``by_page``: the explorer's page makes the call. ``operates``: an operator
    reads the memory of a chosen user. ``zone``: the user's time zone. ``connection``: an object that lives as long as the
    connection; None if each request stands alone.
    """

    principal: Principal
    scope: Scope
    default_thread: str
    idempotency_key: str
    client: str
    default: Default = "named"
    by_page: bool = False
    operates: bool = False
    zone: tzinfo = UTC
    connection: Hashable | None = field(default=None, compare=False)


def make_terminal_caller(scope: Scope, thread: str) -> Caller:
    """The person at this machine's terminal, as the caller for a scope. ``thread``: the default thread."""
    person = replace(local_principal(scope.agent_id, scope.resource_id), tenant=scope.tenant_id)
    return Caller(person, scope, thread, "", "command line")


class Lifespan(Protocol):
    """The context that the server's lifespan gives to every request: the interface of the process.

    ``session_threads``: the thread of each session whose calls name none.
    """

    settings: Settings
    session_threads: MutableMapping[Any, str]

    @property
    def conversation(self) -> str:
        """The host's own id of the conversation of its calls on stdio; "" if it gives none."""

    def mask(self, text: str) -> str:
        """An error's text with its secrets masked."""

    async def act(
        self, name: str, function: Callable[..., Awaitable[Any]], caller: Caller, values: Json, given: frozenset[str]
    ) -> Any:
        """Run the function of a tool, a resource or a prompt on the open memory. Raises LayerloreError, or a defect."""

    async def record_refusal(self, principal: Principal, *, tool: str, client: str, error: Exception) -> None:
        """Record a refused call in the journal. Raises StorageUnavailable."""

    async def is_captured(self, client: str) -> bool:
        """Whether hooks of the host store the conversations of this client."""

    async def begin_watching(self, scope: Scope) -> None:
        """Begin to watch the scope from its current state. Raises StorageUnavailable."""


RequestContext: TypeAlias = "ServerRequestContext[Lifespan, Any]"
"""A request as the SDK passes it to handlers."""


# The SDK is imported inside functions here, so that commands of the terminal need not wait for it.
def principal_of(ctx: RequestContext) -> Principal:
    """The principal of the request's credential; without HTTP, the person at this machine."""
    from mcp.server.auth.middleware.auth_context import get_access_token

    access = get_access_token()
    if access is not None:
        principal: Principal = (access.claims or {})[PRINCIPAL_CLAIM]
        return principal
    if ctx.request is not None:
        # Without this check a request that skipped the gate would get the rights of the local person.
        raise RuntimeError("a request over HTTP came past the gate")
    settings = ctx.lifespan_context.settings
    return local_principal(settings.agent, settings.resource)


def scope_of(principal: Principal, agent: str, resource: str, *, of_tenant: bool = False) -> Scope:
    """The scope that a principal means by these names. "" stands for the single agent or resource of its grant.
    ``of_tenant``: the call is about the whole tenant, so "" stays if the grant has several.

    Raises InvalidInput for "" if the grant has several, NotFound for a name outside the grant, as for an unknown name.
    """
    if not agent:
        if principal.agents is not None and len(principal.agents) == 1:
            agent = next(iter(principal.agents))
        if not agent and not of_tenant:
            raise _unnamed("agent", AGENT_META, AGENT_HEADER)
    elif principal.agents is not None and agent not in principal.agents:
        raise NotFound(f"there is no agent {agent!r}")
    if not resource:
        resource = principal.resource or ""
        if not resource and not of_tenant:
            raise _unnamed("resource", RESOURCE_META, RESOURCE_HEADER)
    elif principal.resource is not None and resource != principal.resource:
        raise NotFound(f"there is no resource {resource!r}")
    return Scope(principal.tenant, agent, resource)


def caller_of(ctx: RequestContext, *, of_tenant: bool = False) -> Caller:
    """The caller of a request. Its scope and thread come from the credential, the launch and the request's envelope, never
    from a model's arguments. In a project the scope is the project's, with the person's beside it.

    Raises InvalidInput, LimitExceeded or NotFound.
    """
    process, principal = ctx.lifespan_context, principal_of(ctx)
    meta, request, limits = (ctx.params or {}).get("_meta") or {}, ctx.request, Limits()
    agent = _named(meta, AGENT_META, request, AGENT_HEADER, limits.id_chars)
    resource = _named(meta, RESOURCE_META, request, RESOURCE_HEADER, limits.id_chars)
    thread = _named(meta, THREAD_META, request, THREAD_HEADER, limits.thread_id_chars)
    default, by_page = default_of(ctx), _comes_from_page(request)
    key = _text(meta.get(KEY_META), KEY_META)
    return Caller(
        principal=principal,
        scope=_in_project(ctx, scope_of(principal, agent, resource, of_tenant=of_tenant), principal),
        default_thread=thread or process.settings.thread or _own_thread(ctx, default, key),
        idempotency_key=key,
        client=client_of(ctx),
        default=default,
        by_page=by_page,
        operates=by_page and principal.operates,
        zone=_find_zone(ctx, meta),
        connection=_find_connection(ctx),
    )


def _find_zone(ctx: RequestContext, meta: Mapping[str, Any]) -> tzinfo:
    """The zone that the request names, else that of the settings. Without either it is this machine's zone on stdio, since
    the user sits at it, and UTC over HTTP."""
    name = _named(meta, ZONE_META, ctx.request, ZONE_HEADER, LONGEST_NAME)
    if name:
        return read_zone(name, ZONE_META if meta.get(ZONE_META) else f"header {ZONE_HEADER}")
    settings = ctx.lifespan_context.settings
    if ctx.request is not None and not settings.time_zone:
        return UTC
    return settings.zone


def is_for_page(ctx: RequestContext) -> bool:
    """Whether the request may be a page's: the explorer's own page, or one in a host that shows MCP Apps."""
    from mcp.server.apps import client_supports_apps

    return _comes_from_page(ctx.request) or client_supports_apps(ctx)


def is_captured_elsewhere(ctx: RequestContext) -> bool:
    """Whether the client announces that hooks on its machine store its conversations in this memory."""
    return ctx.request is not None and CAPTURED_HEADER in _headers_of(ctx.request)


def _comes_from_page(request: Any) -> bool:
    """Whether the explorer's page sends the request. The gate has checked that it is a page of this server."""
    return request is not None and PAGE_HEADER in _headers_of(request)


def _in_project(ctx: RequestContext, person: Scope, principal: Principal) -> Scope:
    """The scope of the request's project; without a project, the person's. On stdio the launch alone decides. The person at
    this machine reaches all projects. Raises InvalidInput, LimitExceeded; NotFound if the credential is for one resource
    alone."""
    if ctx.request is None:
        if principal.local:
            return ctx.lifespan_context.settings.scope_in(person.tenant_id)
        return person
    meta = (ctx.params or {}).get("_meta") or {}
    name = _named(meta, PROJECT_META, ctx.request, PROJECT_HEADER, Limits.id_chars - len(PREFIX))
    if not name or name.lower() == NONE:
        return person
    resource = project_resource(name)
    if principal.resource not in (None, resource) and not principal.local:
        # A credential for one resource must not reveal which projects exist, so the error is that of an unknown name.
        raise NotFound(f"{PROJECT_HEADER}: this credential is for one resource alone, and reaches no project")
    if person.resource_id == resource:
        return person
    return Scope(person.tenant_id, person.agent_id, resource, person=person.resource_id)


def settings_of(ctx: RequestContext) -> Settings:
    """The settings for the agent of a request; the server's own if the request names none that it may use."""
    settings = ctx.lifespan_context.settings
    if not settings.agents:
        return settings
    # The call itself reports wrong names. A list that needs these settings must not fail before that.
    with contextlib.suppress(LayerloreError):
        return settings.for_agent(caller_of(ctx).scope.agent_id)
    return settings


def default_of(ctx: RequestContext) -> Default:
    """How a call in this request gets its thread if no argument names one."""
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS

    meta, request = (ctx.params or {}).get("_meta") or {}, ctx.request
    in_header = request is not None and bool(_headers_of(request).get(THREAD_HEADER))
    if ctx.lifespan_context.settings.thread or meta.get(THREAD_META) or in_header:
        return "named"
    if request is None or ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return "session"
    # From 2026-07-28 on HTTP has no sessions, so only an id from the client can connect two requests.
    if _host_conversation(meta) or _headers_of(request).get(CONVERSATION_HEADER):
        return "session"
    return "new"


def client_of(ctx: RequestContext) -> str:
    """The client's own name in one line. It is unchecked, so it must never decide about rights."""
    params = ctx.session.client_params
    if params is None:
        return UNKNOWN_CLIENT
    words = " ".join((params.client_info.name, params.client_info.version)).split()
    # The name goes into logs and the journal, so it must be one line that a database can store.
    return " ".join(words).encode(errors="replace").decode().replace("\x00", "")[:_CLIENT_CHARS] or UNKNOWN_CLIENT


def _unnamed(what: str, meta: str, header: str) -> InvalidInput:
    return InvalidInput(
        f"{what}: needed, because this credential is not for a single one: send it in the header {header} "
        f"or in _meta as {meta!r}"
    )


def _named(meta: Mapping[str, Any], key: str, request: Any, header: str, most_chars: int) -> str:
    """The name in a request: from its _meta, else its header, else ""."""
    name, where = _text(meta.get(key), key), f"_meta[{key!r}]"
    if not name and request is not None:
        name, where = _header(request, header), f"header {header}"
    if not name:
        return ""
    # The page also shows what older versions stored under a blank name.
    if _comes_from_page(request):
        return check_id(name, where, most_chars)
    return check_new_id(name, where, most_chars)


def _header(request: Any, header: str) -> str:
    """The value of a header as UTF-8; "" without it. SingleHeaders has refused requests with two of one name."""
    try:
        return _headers_of(request).get(header, b"").decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"header {header}: must be UTF-8") from error


def _headers_of(request: Any) -> Mapping[str, bytes]:
    """The headers that this module needs, by name. They are read from the request once."""
    named: dict[str, bytes] | None = request.scope.get(_NAMED)
    if named is None:
        sent = dict(request.scope["headers"])
        named = request.scope[_NAMED] = {name: sent[raw] for name, raw in _RAW.items() if raw in sent}
    return named


def _text(value: Any, where: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InvalidInput(f"_meta[{where!r}]: must be a string")
    return value


def _find_connection(ctx: RequestContext) -> Hashable | None:
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS

    from layerlore.server.process.sdk_private import connection_of

    is_stateless = ctx.request is not None and ctx.protocol_version in MODERN_PROTOCOL_VERSIONS
    if is_stateless:
        return None
    # On stdio the process, or the host behind its thin client, is the connection.
    connection: Any
    if ctx.request is None:
        connection = ctx.lifespan_context
    else:
        connection = connection_of(ctx.session)
    found: Hashable = connection
    return found


def _own_thread(ctx: RequestContext, default: Default, key: str) -> str:
    """The thread of a request that names none: the host's own conversation, else one new thread for each process (stdio) or
    session (older protocol). A call without a connection to others gets a new thread, the same for the same idempotency
    key."""
    from layerlore.server.process.sdk_private import connection_of

    if default == "new":
        return new_thread(key)
    if of_host := _host_conversation((ctx.params or {}).get("_meta") or {}):
        return of_host
    process = ctx.lifespan_context
    session: Any
    if ctx.request is None:
        if _is_thread_id(process.conversation):
            return process.conversation
        session = process
    else:
        if named := _header(ctx.request, CONVERSATION_HEADER):
            return check_new_id(named, f"header {CONVERSATION_HEADER}", Limits.thread_id_chars)
        session = connection_of(ctx.session)
    thread = process.session_threads.get(session)
    if thread is None:
        thread = process.session_threads[session] = new_thread()
    return thread


def new_thread(key: str = "") -> str:
    """The id of a new thread. It is the same each time for one idempotency key, so that a repeated call is done once."""
    if key:
        # Only a digest, since the id is shown and the key may be a secret of the client.
        unique = hashlib.sha256(key.encode(errors="replace")).hexdigest()
    else:
        unique = uuid.uuid4().hex
    return f"session-{unique[:12]}"


def _host_conversation(meta: Mapping[str, Any]) -> str:
    """The id that a host gives its conversation in a call; "" if it gives none that can name a thread."""
    return next((meta[name] for name in HOST_METAS if _is_thread_id(meta.get(name))), "")


def _is_thread_id(value: Any) -> bool:
    # Hosts do not make these ids for this server, so an unusable one is not an error.
    try:
        check_new_id(value, "thread_id", Limits.thread_id_chars)
    except LayerloreError:
        return False
    return True


class NotPermitted(LayerloreError):
    """The credential lacks a right. The text names the missing rights and the existing ones."""


async def admit(ctx: RequestContext, needed: Collection[Right], what: str, *, of_tenant: bool = False) -> Caller:
    """Check the rights of a request, and return its caller. ``what``: the name of the tool or method; ``of_tenant``: it is
    about the whole tenant, so the request need not name an agent and a resource.

    Raises NotPermitted, InvalidInput, LimitExceeded, or NotFound for an agent or resource outside the grant.
    """
    await permit(ctx, needed, what)
    try:
        return caller_of(ctx, of_tenant=of_tenant)
    except NotFound as error:
        # An agent outside the grant may be an attack, so the journal records it, unlike other input errors.
        await record_refusal(ctx, what, error)
        raise


async def permit(ctx: RequestContext, needed: Collection[Right], what: str) -> None:
    """Check that the principal of the request has all these rights. Raises NotPermitted."""
    rights = principal_of(ctx).rights
    if missing := set(needed) - rights:
        every = f"right{'s' if len(needed) > 1 else ''} {join_rights(needed)}"
        if len(needed) > len(missing):
            lacks = f" and lacks {join_rights(missing)}"
        else:
            lacks = ""
        error = NotPermitted(f"{what} needs the {every}; this credential has {join_rights(rights)}{lacks}")
        await record_refusal(ctx, what, error)
        raise error


async def record_refusal(ctx: RequestContext, what: str, error: Exception) -> None:
    """Record in the journal that a call was refused. Raises nothing."""
    with contextlib.suppress(LayerloreError):
        await ctx.lifespan_context.record_refusal(principal_of(ctx), tool=what, client=client_of(ctx), error=error)


def join_rights(rights: Collection[Right]) -> str:
    """The rights in words: ``read, write and forget``."""
    *most, last = [str(right) for right in RIGHTS if right in rights] or ["none"]
    if most:
        return f"{', '.join(most)} and {last}"
    return last
