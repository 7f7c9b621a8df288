"""What of the settings only memory's own code can check, when the engine is made: JSON Schemas, and windows."""

from layerlore.memory.parts.tokens import TokenCounter
from layerlore.memory.rules.json_schema import check_schema
from layerlore.memory.settings.documents import WorkingMemoryRules
from layerlore.memory.settings.window import WindowSettings
from layerlore.memory.window.policy import WindowPolicy, WindowRules, read_policy
from layerlore.server.settings.settings import Settings, SettingsError
from layerlore.storage.core.errors import LayerloreError
from layerlore.storage.core.records import Json


def check_documents(rules: WorkingMemoryRules) -> None:
    """Check the templates' sizes and the JSON Schemas. Raises SettingsError."""
    for name, document in (("thread", rules.thread), ("resource", rules.resource)):
        where = f"working_memory.{name}"
        size = len(document.template.encode())
        if size > rules.max_bytes:
            raise SettingsError(f"{where}.template: {size:,} bytes; working_memory.max_bytes is {rules.max_bytes:,}")
        if document.json_schema:
            try:
                check_schema(document.json_schema, f"{where}.json_schema")
            except LayerloreError as error:
                raise SettingsError(str(error)) from None


def window_rules(settings: Settings, counter: TokenCounter) -> WindowRules:
    """The windows' policies, what goes together and the predefined messages checked. Raises SettingsError."""
    return WindowRules(
        default=_policy(settings.window, "window", settings, counter),
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
    """What the operator writes is not searched for secrets, as in the rest of the settings."""
    return parts, 0
