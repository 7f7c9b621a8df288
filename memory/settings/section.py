"""The base of every section of the settings, its units and types, and the mode of a memory."""

import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.fields import FieldInfo

from layerlore.storage.core.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class Unit:
    """The unit of a number, as the generated documents show it."""

    name: str


Bytes = Annotated[int, Unit("bytes")]
Characters = Annotated[int, Unit("characters")]
Tokens = Annotated[int, Unit("tokens")]
Messages = Annotated[int, Unit("messages")]
Seconds = Annotated[float, Unit("seconds")]


def bounds(field: FieldInfo) -> tuple[Any, Any]:
    """The least and the most that a field's number may be; None where no such bound exists."""
    least = [bound for each in field.metadata if (bound := getattr(each, "ge", None)) is not None]
    most = [bound for each in field.metadata if (bound := getattr(each, "le", None)) is not None]
    return (least or [None])[0], (most or [None])[0]


class Section(BaseModel):
    """A table of the settings file and a prefix of the variables. Unknown keys are errors, and no error repeats a value.

    A subclass is the only declaration of its settings: the code takes the object itself, and the settings files and
    documents are generated from the docstring (the text of the table) and from each field's type, default, bounds and
    description.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


def one_line(value: str) -> str:
    """The value itself. Raises ValueError for control characters."""
    if any(character < " " or character == "\x7f" for character in value):
        raise ValueError("a name without control characters is needed")
    return value


def read_json(value: Any) -> Any:
    """JSON in a string, as a variable has it; anything else as it is. Raises ValueError."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not valid JSON: {error}") from None


def list_of(value: Any) -> Any:
    """A list from names with commas between them, as flags and variables have them; anything else as it is."""
    if isinstance(value, str):
        return [name.strip() for name in value.split(",") if name.strip()]
    return value


def distinct(value: list[str]) -> list[str]:
    """The value itself. Raises ValueError for a name that comes twice."""
    if len(set(value)) < len(value):
        raise ValueError("every name may come once")
    return value


Name = Annotated[str, Field(max_length=255), AfterValidator(one_line)]

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
    if agent:
        setting = f"agents.{agent}.memory = {mode}"
        whose = "for this agent "
    else:
        setting = f"memory = {mode}"
        whose = ""
    if mode == "off":
        return f"memory is switched off {whose}({setting}): nothing is stored and nothing is recalled"
    return f"memory is read-only {whose}({setting}): nothing is stored, changed or deleted; reads work"
