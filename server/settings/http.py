"""Where ``layerlore serve`` listens, and which names and pages it answers to."""

import ipaddress
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from layerlore.memory.settings.context_settings import (
    Bytes,
    Name,
    Seconds,
    Section,
    Tokens,
    Unit,
    distinct,
    list_of,
    one_line,
)
from layerlore.storage.core import linear_re

Names = Annotated[list[str], BeforeValidator(list_of)]


_PATH = linear_re.compile(r"(?:/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*")


def _public_url(value: str) -> str:
    value = value.rstrip("/")
    try:
        url = urlsplit(value)
        whole = url.scheme == "https" and bool(url.hostname) and url.port != 0 and value.isascii()
    except ValueError:
        whole = False
    # Rebuilding the URL finds everything that does not belong in it: a query, a fragment, a user.
    if value and not (
        whole
        and value == f"https://{url.netloc}{url.path}"
        and "@" not in url.netloc
        and _PATH.fullmatch(url.path) is not None
    ):
        raise ValueError("https://HOST, https://HOST:PORT or one of them with a /PATH is needed")
    if value.endswith(("/mcp", "/sse")):
        raise ValueError("the URL is needed without its endpoint: leave out /mcp or /sse at its end")
    return value


def _networks(value: list[str]) -> list[str]:
    for each in value:
        try:
            ipaddress.ip_network(each)
        except ValueError:
            raise ValueError("addresses or networks are needed, as in 10.0.0.5 or 10.0.0.0/24") from None
    return value


class HttpSettings(Section):
    """`layerlore serve`: where it listens, and whom it answers."""

    host: str = Field(
        default="127.0.0.1",
        description="Address to listen on; 0.0.0.0 is every address. Other machines need credentials: a key, made with "
        "`layerlore keys create`, or [jwt]. TLS is a proxy's work.",
    )
    port: int = Field(default=8765, ge=0, le=65535, description="Port to listen on. 0 takes a free one and says which.")
    workers: int = Field(
        default=1,
        ge=1,
        le=64,
        description="Processes that serve on this port together; one for each core is the most that brings something. Each "
        "counts rates, connections and sessions for itself. Not on Windows.",
    )
    auth: bool = Field(
        default=True,
        description="Whether requests need a credential: the key that the first start writes to the file http-key in the "
        "data folder, where only this machine can reach the server, or one of the above. false asks for none, and serves "
        "this machine only.",
    )
    public_url: Annotated[str, AfterValidator(one_line), AfterValidator(_public_url)] = Field(
        default="",
        max_length=255,
        description="URL by which others reach this server, as `https://mem.example.com` or, where a proxy has a path for "
        "it, `https://example.com/memory`; without `/mcp`. They need a key or a token then, wherever it listens. It is "
        "also where clients learn who issues tokens.",
    )
    allowed_hosts: Names = Field(
        default=[], description="More Host headers to accept, as `memory.test`; `memory.test:*` is any port."
    )
    allowed_origins: Names = Field(
        default=[],
        description="More Origin headers to accept, as browsers send them: `https://app.test` needs an entry, "
        "`http://localhost:5173` does not.",
    )
    explore: bool = Field(
        default=True,
        description="Whether /explore has the page that shows what is remembered, to whoever signs in with a key: it can do "
        "there what the key may do.",
    )
    max_sessions: int = Field(
        default=2000, ge=1, description="Sessions at a time, of clients of the protocol before 2026-07-28."
    )
    session_idle_seconds: Annotated[int, Unit("seconds")] = Field(
        default=1800, ge=1, description="Time until an unused session ends."
    )
    head_seconds: Seconds = Field(
        default=30.0, gt=0, description="Time for the whole head of a request; then its connection is closed."
    )
    body_seconds: Seconds = Field(
        default=30.0, gt=0, description="Time for the whole body of a request; then its connection is closed."
    )
    write_seconds: Seconds = Field(
        default=60.0,
        gt=0,
        description="Time in which a client may read nothing of what was sent to it; then its connection is closed.",
    )
    max_connections: int = Field(
        default=4096, ge=1, description="Connections at a time, or fewer if this process may have fewer files open."
    )
    max_connections_per_address: int = Field(
        default=512,
        ge=1,
        description="Connections at a time of one address: one of IPv4, or a network of 64 bits of IPv6. This machine and "
        "trusted proxies are not counted.",
    )
    trusted_proxies: Annotated[Names, AfterValidator(_networks)] = Field(
        default=[],
        description="Addresses and networks of proxies, as `10.0.0.5` or `10.0.0.0/24`, which only max_connections holds. "
        "X-Forwarded-For is not looked at: how many connections a proxy lets one client have is its own setting.",
    )

    @property
    def public_origin(self) -> str:
        """The public URL without its path, as browsers send it."""
        return self.public_url.removesuffix(self.public_path)

    @property
    def public_path(self) -> str:
        """The path of the public URL; "" if it has none."""
        return urlsplit(self.public_url).path


# Those whose verifier holds no secret: with HS256, a program that can check a token can make one.
Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]


def _https_url(value: str) -> str:
    try:
        url = urlsplit(value)
        whole = url.scheme == "https" and bool(url.hostname) and url.port != 0
    except ValueError:
        whole = False
    if value and not (whole and "@" not in url.netloc and not url.query and not url.fragment and value.isprintable()):
        raise ValueError("https://HOST/PATH is needed, without a user, a query or a fragment")
    return value


HttpsUrl = Annotated[str, Field(max_length=2048), AfterValidator(one_line), AfterValidator(_https_url)]
Claim = Annotated[Name, Field(min_length=1)]


class JwtSettings(Section):
    """JWTs as credentials of `layerlore serve`, beside its keys. A claim's name with dots walks into objects, as
    `realm_access.roles`, unless a claim has the whole name."""

    issuer: HttpsUrl = Field(
        default="",
        description="Who issues the tokens, exactly as in their claim iss: `https://login.example.com/`. An issuer needs "
        "an audience or `http.public_url`. Empty: no JWT is accepted.",
    )
    audience: Name = Field(
        default="",
        description="The name that this server has at the issuer, which the claim aud must be or have. With "
        "`http.public_url` it may be empty, and the URLs of this server count beside it.",
    )
    jwks_url: HttpsUrl = Field(
        default="",
        description="URL of the issuer's key set, by https only. Empty: the `jwks_uri` of the issuer's OAuth or OpenID "
        "metadata. Proxies are taken from the environment (`HTTPS_PROXY`).",
    )
    ca_file: Name = Field(
        default="",
        description="A PEM file of the private authority that vouches for the issuer. Empty: the system's authorities.",
    )
    algorithms: Annotated[list[Algorithm], BeforeValidator(list_of), AfterValidator(distinct)] = Field(
        default=["RS256", "ES256", "EdDSA", "PS256"],
        min_length=1,
        description="Signatures that are accepted; none with a shared secret can be.",
    )
    leeway_seconds: Annotated[int, Unit("seconds")] = Field(
        default=30, ge=0, le=300, description="By how much clocks may differ."
    )
    tenant_claim: Claim = Field(
        default="tenant",
        description="The claim that names the tenant. It cannot name the tenant local, whose memory is this machine's.",
    )
    tenant: Name = Field(default="", description="The tenant of all tokens. Empty: the one that their claim names.")
    resource_claim: Claim = Field(default="sub", description="The claim that names the resource.")
    agents_claim: Claim = Field(
        default="agents",
        description="The claim that names the agents: one name, or a list. A token without it is for the agent of these "
        "settings.",
    )
    rights_claim: Claim = Field(
        default="scope",
        description="The claim that names the rights, a list or names with spaces between them: memory:read, memory:write, "
        "memory:forget, memory:admin, or the same without `memory:`. A token without any may do nothing.",
    )
    any_value: Name = Field(
        default="",
        description="What stands for any resource, or any agent, in these claims: `*`, if nobody at the issuer can be "
        "called so. Empty: nothing does.",
    )
    types: Annotated[list[Claim], BeforeValidator(list_of), AfterValidator(distinct)] = Field(
        default=["JWT", "at+jwt", "Bearer"],
        min_length=1,
        description="What typ may say, in a token's header and in its claims, in any case and with or without "
        "`application/`. Other kinds, such as ID, refresh and logout tokens, have the same issuer and often the same "
        "audience. A token may leave it out.",
    )
    jwks_cache_seconds: Annotated[int, Unit("seconds")] = Field(
        default=300,
        ge=10,
        le=3600,
        description="Time until the key set is fetched again. While that fails, its keys serve for an hour.",
    )

    @model_validator(mode="after")
    def _fits_together(self) -> "JwtSettings":
        if not self.issuer and (self.audience or self.jwks_url):
            raise ValueError("audience and jwks_url belong to an issuer, and none is set")
        return self


def _host_and_port(value: str) -> str:
    try:
        url = urlsplit(f"//{value}")
        whole = bool(url.hostname) and url.port is not None and url.netloc == value and "@" not in value
    except ValueError:
        whole = False
    if value and not whole:
        raise ValueError("HOST:PORT is needed, as in 127.0.0.1:9464 or [::1]:9464")
    return value


class MetricsSettings(Section):
    """Numbers of `layerlore serve` for an operator, as Prometheus scrapes them. They need the extra `metrics`."""

    address: Annotated[str, AfterValidator(one_line), AfterValidator(_host_and_port)] = Field(
        default="",
        max_length=255,
        description="HOST:PORT where /metrics is served without a credential, so it belongs into a network of your own: "
        "`127.0.0.1:9464`. Of several workers each has a port: this one, the next, and so on. Port 0 takes a free one. "
        "Empty: nothing is counted.",
    )

    def place(self, worker: int) -> tuple[str, int]:
        """The host and the port of a worker's page."""
        url = urlsplit(f"//{self.address}")
        host, port = url.hostname or "", url.port or 0
        if port:
            return host, port + worker
        return host, 0


WAITING_AT_ONCE = 8
"""Calls of a tenant at the same time where they wait for a remote model more than they take of this machine."""


class RateSettings(Section):
    """How much callers over HTTP may ask for, each credential and all of a tenant together: amounts a second, of which
    two seconds' worth may come at once. What is too much is refused, with the time to wait. 0: no limit. Each server
    process counts for itself. For the local key and stdio there is no limit but calls_at_once. A call takes the server
    some milliseconds of a core: what one tenant may call should leave the others at least half of it."""

    principal_calls_per_second: int = Field(default=40, ge=0, description="Calls of one credential.")
    tenant_calls_per_second: int = Field(default=40, ge=0, description="Calls of all of a tenant's credentials.")
    principal_bytes_per_second: Bytes = Field(
        default=1024 * 1024, ge=0, description="Requests that one credential sends."
    )
    tenant_bytes_per_second: Bytes = Field(default=4 * 1024 * 1024, ge=0, description="Requests that a tenant sends.")
    principal_rows_per_second: int = Field(
        default=500,
        ge=0,
        description="Messages, steps of agents and steps of plans that one credential writes; every other write counts 1.",
    )
    tenant_rows_per_second: int = Field(default=2000, ge=0, description="The same of a tenant.")
    calls_at_once: int = Field(
        default=64,
        ge=0,
        description="Calls of all callers together that run at the same time in one server process, over stdio, too. "
        "Others wait for at most wait_ms, or for half a second if as many have been waiting for so long.",
    )
    tenant_calls_at_once: int = Field(
        default=2,
        ge=0,
        description=f"Calls of a tenant that run at the same time. If it is not set, {WAITING_AT_ONCE} with a remote "
        "embedder, for which calls mostly wait. A call runs until its client has read the answer.",
    )
    tenant_requests_at_once: int = Field(
        default=64, ge=0, description="Other requests of a tenant, such as lists, that run at the same time."
    )
    principal_unsent_bytes: Bytes = Field(
        default=16 * 1024 * 1024,
        ge=0,
        description="Answers to one credential that its clients have not read; beyond, the connection that has waited "
        "longest is closed.",
    )
    tenant_unsent_bytes: Bytes = Field(default=32 * 1024 * 1024, ge=0, description="The same of a tenant.")
    tenant_streams: int = Field(
        default=200,
        ge=0,
        description="Streams of a tenant that are open at a time: those that listen for changes, and sessions over /sse.",
    )
    tenant_sessions: int = Field(
        default=500,
        ge=0,
        description="Sessions of a tenant at a time, of clients of the protocol before 2026-07-28; `http.max_sessions` is "
        "for all tenants together.",
    )
    tenant_jobs: int = Field(
        default=10_000,
        ge=0,
        description="Background jobs of a tenant that are due; beyond, add_messages is refused, and nothing of it stored.",
    )
    tenant_stored_bytes: Bytes = Field(
        default=10 * 1024**3,
        ge=0,
        description="What is stored of a tenant; beyond, writes are refused. docs/tenants.md says what counts.",
    )
    resource_stored_bytes: Bytes = Field(
        default=1024**3, ge=0, description="What is stored of one resource, of all agents; beyond, writes are refused."
    )
    tenant_model_tokens_per_day: Tokens = Field(
        default=0,
        ge=0,
        description="What models may take, in and out, for a tenant's background work in one day (UTC), the local tenant's "
        "too; then its work waits for the next day. What a host's own model does is not counted.",
    )
    wait_ms: Annotated[int, Unit("milliseconds")] = Field(
        default=4000,
        ge=0,
        le=30_000,
        description="A call that comes too early by no more than this waits its turn instead of being refused (256 of a "
        "credential at a time), and as long for its turn among those at the same time.",
    )
