"""The settings that only memory's own code can check, when the engine is made: JSON Schemas, and windows."""

from layerlore.memory.parts.tokens import TokenCounter
from layerlore.memory.rules.json_schema import check_schema
from layerlore.memory.settings.context_settings import WindowSettings
from layerlore.memory.settings.note_settings import WorkingMemoryRules
from layerlore.memory.window.policy import WindowPolicy, WindowRules, read_policy
from layerlore.server.settings.settings import Settings, SettingsError
from layerlore.storage.core.errors import LayerloreError
from layerlore.storage.core.records import Json


def check_rules(settings: Settings, counter: TokenCounter) -> None:
    """Check the documents and the windows of the server and of each agent. Raises SettingsError."""
    # "" is the server itself, whose rules also hold for agents without a profile.
    for agent in ("", *settings.agents):
        of_agent = settings.for_agent(agent)
        _check_documents(of_agent.working_memory, _place(agent))
        window_rules(of_agent, counter, agent)


def _place(agent: str) -> str:
    if agent:
        return f"agents.{agent}."
    return ""


def _check_documents(rules: WorkingMemoryRules, place: str) -> None:
    for name, document in (("thread", rules.thread), ("resource", rules.resource)):
        where = f"{place}working_memory.{name}"
        size = len(document.template.encode())
        if size > rules.max_bytes:
            raise SettingsError(
                f"{where}.template: {size:,} bytes; {place}working_memory.max_bytes is {rules.max_bytes:,}"
            )
        if document.json_schema:
            try:
                check_schema(document.json_schema, f"{where}.json_schema")
            except LayerloreError as error:
                raise SettingsError(str(error)) from None


def window_rules(settings: Settings, counter: TokenCounter, agent: str = "") -> WindowRules:
    """The windows' policies, what goes together and the predefined messages checked; ``agent`` is whose settings they are,
    if not the server's. Raises SettingsError."""
    return WindowRules(
        default=_policy(settings.window, f"{_place(agent)}window", settings, counter),
        named={name: _policy(each, f"windows.{name}", settings, counter) for name, each in settings.windows.items()},
    )


def _policy(given: WindowSettings, where: str, settings: Settings, counter: TokenCounter) -> WindowPolicy:
    # An empty prompt is the one that is built in.
    options = {name: value for name, value in given.model_dump(exclude_unset=True).items() if value != ""}
    try:
        return read_policy(options, where, WindowPolicy(), counter, settings.limits, _as_written)
    except LayerloreError as error:
        raise SettingsError(str(error)) from None


def _as_written(parts: list[Json]) -> tuple[list[Json], int]:
    """The operator's texts are not searched for secrets, as in the rest of the settings."""
    return parts, 0
