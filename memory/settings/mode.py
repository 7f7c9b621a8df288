"""What a memory is used for: all of it, reads alone, or nothing."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from layerlore.storage.core.errors import InvalidInput

MemoryMode = Literal["on", "read-only", "off"]

# TOML's ``memory = false``, and the spellings of other systems.
_SPELLED = {"true": "on", "false": "off", "readonly": "read-only", "read_only": "read-only"}


def _read_mode(value: Any) -> Any:
    return _SPELLED.get(str(value).lower(), value)


MemoryChoice = Annotated[MemoryMode, BeforeValidator(_read_mode)]
"""A memory's mode as a setting."""


class MemoryClosed(InvalidInput):
    """The mode of the memory does not allow the call; the text names the setting."""


def describe_closed(mode: MemoryMode, agent: str) -> str:
    """Why a call is refused. ``agent`` is the name of the agent whose own setting says so; "" if it is the server's."""
    setting = f"agents.{agent}.memory = {mode}" if agent else f"memory = {mode}"
    whose = "for this agent " if agent else ""
    if mode == "off":
        return f"memory is switched off {whose}({setting}): nothing is stored and nothing is recalled"
    return f"memory is read-only {whose}({setting}): nothing is stored, changed or deleted; reads work"
