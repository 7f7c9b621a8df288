"""Sections of the settings that are the server's own: of single agents, of what hosts' hooks capture and show, and of the
clusters beside the home cluster, on which tenants may be.

Settings go by precedence: server < agent < thread (seed 003's). A thread's own are what tools set for it: its window, by
update_thread.
"""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr

from layerlore.memory.settings.context_settings import (
    Characters,
    ContextRules,
    MemoryChoice,
    MemoryMode,
    RecallRules,
    Section,
    Tokens,
    WindowSettings,
    one_line,
    read_json,
)
from layerlore.memory.settings.note_settings import EntryRules, WorkingMemoryRules
from layerlore.storage.core.records import Json
from layerlore.storage.drivers.dialect import HOME_NAME, ShardUrls, check, check_roles

_LONGEST_NAME = 255
# A longer text is shown as its length: a prompt, a template, messages.
_LONGEST_SHOWN = 120


class AgentSettings(Section):
    """The settings of one agent that differ from the server's. Each of them takes the place of the
    server's; a document of working memory (its format, template and schema) does so as a whole."""

    memory: MemoryChoice = "on"
    window: WindowSettings = WindowSettings()
    working_memory: WorkingMemoryRules = WorkingMemoryRules()
    entries: EntryRules = EntryRules()
    recall: RecallRules = RecallRules()
    context: ContextRules = ContextRules()

    def over(self, server: Any) -> dict[str, Section | MemoryMode]:
        """The settings of this agent that differ from ``server``, by name. A memory that the server has
        switched off is off for every agent: no database exists."""
        found: dict[str, Section | MemoryMode] = {}
        # An agent cannot switch on a memory that has no database.
        if "memory" in self.model_fields_set and server.memory != "off":
            found["memory"] = self.memory
        for name in sorted(self.model_fields_set - {"memory"}):
            own, section = getattr(self, name), getattr(server, name)
            # Only the fields that were set: a default of the agent must not replace a setting of the server.
            found[name] = section.model_copy(update={each: getattr(own, each) for each in own.model_fields_set})
        return found

    def describe(self) -> Json:
        """The settings for people and models; long texts only by their length."""
        return {name: _shorten(value) for name, value in self.model_dump(exclude_unset=True).items()}


def _shorten(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _shorten(each) for name, each in value.items()}
    if isinstance(value, list):
        return f"{len(value)} given"
    if isinstance(value, str) and len(value) > _LONGEST_SHOWN:
        return f"{len(value):,} characters"
    return value


def _named(value: dict[str, AgentSettings]) -> dict[str, AgentSettings]:
    for name in value:
        if not 1 <= len(one_line(name)) <= _LONGEST_NAME:
            raise ValueError(f"an agent's name is 1 to {_LONGEST_NAME} characters")
    return value


AgentProfiles = Annotated[dict[str, AgentSettings], BeforeValidator(read_json), AfterValidator(_named)]
"""By the names of agents."""


def _of_postgres(value: SecretStr) -> SecretStr:
    check(value.get_secret_value())
    check_roles(value.get_secret_value())
    return value


def _needed(value: SecretStr) -> SecretStr:
    if not value.get_secret_value():
        raise ValueError("must be a postgresql:// URL")
    return value


def _not_home(value: str) -> str:
    if value == HOME_NAME:
        raise ValueError(f"{HOME_NAME} is the name of the cluster of `database`")
    return value


class ShardSettings(Section):
    """One more Postgres cluster."""

    name: Annotated[str, Field(pattern="^[a-z0-9][a-z0-9_-]{0,62}$"), AfterValidator(_not_home)]
    url: Annotated[SecretStr, AfterValidator(_of_postgres), AfterValidator(_needed)]
    owner_url: Annotated[SecretStr, AfterValidator(_of_postgres)] = SecretStr("")
    listen_url: Annotated[SecretStr, AfterValidator(_of_postgres)] = SecretStr("")


def _distinct(shards: list[ShardSettings]) -> list[ShardSettings]:
    names = [shard.name for shard in shards]
    if len({*names}) < len(names):
        raise ValueError("two shards have the same name")
    return shards


ShardList = Annotated[list[ShardSettings], BeforeValidator(read_json), AfterValidator(_distinct)]


def as_owners(shards: Sequence[ShardSettings]) -> list[ShardSettings]:
    """The shards as the role that owns the tables reaches them; without an owner_url that is the role that serves."""
    return [
        shard.model_copy(update={"url": shard.owner_url if shard.owner_url.get_secret_value() else shard.url})
        for shard in shards
    ]


def shard_urls(shards: Sequence[ShardSettings]) -> dict[str, ShardUrls]:
    """The URLs of the shards, as a server opens them."""
    return {
        shard.name: ShardUrls(shard.url.get_secret_value(), shard.listen_url.get_secret_value()) for shard in shards
    }


class CaptureSettings(Section):
    """What `layerlore hook` keeps of a host's conversations, and what it shows to their models unasked (docs/capture.md)."""

    tokens: Tokens = Field(
        default=800,
        ge=0,
        le=20_000,
        description="What one hook may show to a model at most, at the start of a session or with a prompt. 0: nothing.",
    )
    session_tokens: Tokens = Field(
        default=8000, ge=0, description="What all hooks of one session together may show to a model."
    )
    tool_chars: Characters = Field(
        default=4000,
        ge=100,
        le=100_000,
        description="Of each text in a tool's call or result so much is kept; the middle of a longer one is left out.",
    )
    subagents: bool = Field(default=False, description="Keep what sub-agents say and do, too.")
