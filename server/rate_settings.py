"""How much callers over HTTP may ask for, each and all of a tenant together."""

from pydantic import Field

from layerlore.server.settings_section import Section

WAITING_AT_ONCE = 8
"""Calls of a tenant at the same time where they wait for a remote model more than they take of this machine."""


class RateSettings(Section):
    """Amounts a second, of which two seconds' worth may come at once, from each server process; 0 is no limit. The person
    at this machine has none."""

    principal_calls_per_second: int = Field(default=40, ge=0, description="Calls of one credential.")
    tenant_calls_per_second: int = Field(default=40, ge=0, description="Calls of all of a tenant's credentials.")
    principal_bytes_per_second: int = Field(default=1024 * 1024, ge=0, description="Bytes that one credential sends.")
    tenant_bytes_per_second: int = Field(default=4 * 1024 * 1024, ge=0, description="Bytes that a tenant sends.")
    principal_rows_per_second: int = Field(
        default=500, ge=0, description="Messages, steps and the like that one credential writes."
    )
    tenant_rows_per_second: int = Field(default=2000, ge=0, description="The same of a tenant.")
    tenant_calls_at_once: int = Field(
        default=2,
        ge=0,
        description="Calls of a tenant that run, or whose answers are not read; 8 with a remote embedder.",
    )
    tenant_requests_at_once: int = Field(
        default=64, ge=0, description="Requests of a tenant beside calls, such as lists, that run at the same time."
    )
    principal_unsent_bytes: int = Field(
        default=16 * 1024 * 1024, ge=0, description="Bytes of answers to one credential that its clients have not read."
    )
    tenant_unsent_bytes: int = Field(default=32 * 1024 * 1024, ge=0, description="The same of a tenant.")
    tenant_streams: int = Field(
        default=200, ge=0, description="Streams of a tenant that are open: those that listen, and /sse."
    )
    tenant_sessions: int = Field(
        default=500, ge=0, description="Sessions of a tenant's older clients; http.max_sessions is for all together."
    )
    tenant_jobs: int = Field(
        default=10_000, ge=0, description="Jobs of a tenant that are due; beyond, add_messages is refused."
    )
    tenant_stored_bytes: int = Field(
        default=10 * 1024**3, ge=0, description="Bytes that are stored of a tenant; beyond, writes are refused."
    )
    resource_stored_bytes: int = Field(default=1024**3, ge=0, description="The same of one resource, of all agents.")
    tenant_model_tokens_per_day: int = Field(
        default=0, ge=0, description="Tokens of models in a UTC day, for a tenant's background work."
    )
    wait_ms: int = Field(
        default=4000, ge=0, le=30_000, description="A call that is too early by no more than this waits its turn."
    )
