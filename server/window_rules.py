"""The policies of the window, as the settings describe them."""

from layerlore.memory.limits import Limits
from layerlore.memory.tokens import TokenCounter
from layerlore.memory.window.choosing import WindowRules
from layerlore.memory.window.policy import WindowPolicy, policy_from
from layerlore.server.settings import Settings, SettingsError
from layerlore.server.window_settings import WindowSettings
from layerlore.storage.errors import LayerloreError
from layerlore.storage.records import Json


def window_rules(settings: Settings, limits: Limits, counter: TokenCounter) -> WindowRules:
    """The policies, what goes together and the predefined messages checked. Raises SettingsError."""
    return WindowRules(
        default=_policy(settings.window, "window", limits, counter),
        named={
            name: _policy(profile, f"windows.{name}", limits, counter) for name, profile in settings.windows.items()
        },
    )


def _policy(settings: WindowSettings, where: str, limits: Limits, counter: TokenCounter) -> WindowPolicy:
    given = {name: value for name, value in settings.model_dump(exclude_unset=True).items() if value != ""}
    try:
        return policy_from(given, where, WindowPolicy(), counter, limits, _as_written)
    except LayerloreError as error:
        raise SettingsError(str(error)) from None


def _as_written(parts: list[Json]) -> tuple[list[Json], int]:
    """What the operator writes is not searched for secrets, as in the rest of the settings."""
    return parts, 0
