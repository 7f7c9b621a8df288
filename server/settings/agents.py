"""The settings of single agents: server < agent < thread (seed 003's precedence).

A thread's own are what tools set for it: its window, by update_thread.
"""

from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator

from layerlore.memory.settings.context_settings import (
    ContextRules,
    MemoryChoice,
    MemoryMode,
    RecallRules,
    Section,
    WindowSettings,
    one_line,
    read_json,
)
from layerlore.memory.settings.note_settings import EntryRules, WorkingMemoryRules
from layerlore.storage.core.records import Json

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
