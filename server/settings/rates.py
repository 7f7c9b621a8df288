"""How much callers over HTTP may ask for, each and all of a tenant together."""

from typing import Annotated

from pydantic import Field

from layerlore.memory.settings.section import Bytes, Section, Tokens, Unit

WAITING_AT_ONCE = 8
"""Calls of a tenant at the same time where they wait for a remote model more than they take of this machine."""


class RateSettings(Section):
    """How much callers over HTTP may ask for, each credential and all of a tenant together: amounts a second, of which
    two seconds' worth may come at once. What is too much is refused, with the time to wait. 0: no limit. Each server
    process counts for itself. The local key and stdio have no limits. A call takes the server some milliseconds of a core:
    what one tenant may call should leave the others at least half of it."""

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
