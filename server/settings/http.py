"""Where ``layerlore serve`` listens, and which names and pages it answers to."""

import ipaddress
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field

from layerlore.memory.settings.section import Seconds, Section, Unit, list_of, one_line

Names = Annotated[list[str], BeforeValidator(list_of)]


def _https_origin(value: str) -> str:
    try:
        url = urlsplit(value)
        whole = url.scheme == "https" and bool(url.hostname) and url.port != 0 and value.isascii()
    except ValueError:
        whole = False
    if value and not (whole and value.rstrip("/") == f"https://{url.netloc}" and "@" not in url.netloc):
        raise ValueError("https://HOST or https://HOST:PORT is needed, without a path")
    return value.rstrip("/")


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
    public_url: Annotated[str, AfterValidator(one_line), AfterValidator(_https_origin)] = Field(
        default="",
        max_length=255,
        description="URL by which others reach this server, as `https://mem.example.com`. They need a key or a token then, "
        "wherever it listens. It is also where clients learn who issues tokens.",
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
