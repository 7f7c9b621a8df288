"""A section of the settings: a table in the file, a prefix of the variables."""

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field


def one_line(value: str) -> str:
    if any(character < " " or character == "\x7f" for character in value):
        raise ValueError("a name without control characters is needed")
    return value


def list_of(value: Any) -> Any:
    """Names in one string, with commas, as flags and variables have them."""
    return [name.strip() for name in value.split(",") if name.strip()] if isinstance(value, str) else value


def distinct(value: list[str]) -> list[str]:
    if len(set(value)) < len(value):
        raise ValueError("every name may come once")
    return value


Name = Annotated[str, Field(max_length=255), AfterValidator(one_line)]


class Section(BaseModel):
    """Unknown keys are errors, and no error repeats a value."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)
