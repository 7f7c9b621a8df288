"""Where ``layerlore serve`` listens, and which names and pages it answers to."""

import ipaddress
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field

from layerlore.server.settings_section import Section, list_of, one_line

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
    """``layerlore serve``."""

    host: str = Field(default="127.0.0.1", description="Address to listen on; other machines need credentials.")
    port: int = Field(default=8765, ge=0, le=65535, description="Port to listen on; 0 takes a free one.")
    auth: bool = Field(default=True, description="Whether requests need a credential; only here can they do without.")
    public_url: Annotated[str, AfterValidator(one_line), AfterValidator(_https_origin)] = Field(
        default="", max_length=255, description="https://HOST by which others reach this server."
    )
    allowed_hosts: Names = Field(default=[], description="More Host headers to accept; NAME:* is any port.")
    allowed_origins: Names = Field(default=[], description="More Origin headers to accept, as browsers send them.")
    max_sessions: int = Field(default=2000, ge=1, description="Sessions of older clients at a time.")
    session_idle_seconds: int = Field(default=1800, ge=1, description="Seconds until an unused session ends.")
    head_seconds: float = Field(default=30.0, gt=0, description="Seconds for the whole head of a request.")
    body_seconds: float = Field(default=30.0, gt=0, description="Seconds for the whole body of a request.")
    write_seconds: float = Field(
        default=60.0, gt=0, description="Seconds in which a client reads nothing, until its connection is closed."
    )
    max_connections: int = Field(default=4096, ge=1, description="Connections at a time.")
    max_connections_per_address: int = Field(default=512, ge=1, description="Of one address, but for trusted proxies.")
    trusted_proxies: Annotated[Names, AfterValidator(_networks)] = Field(
        default=[], description="Addresses or networks that only max_connections holds; this machine is one."
    )
