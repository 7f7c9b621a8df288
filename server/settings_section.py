"""A section of the settings: a table in the file, a prefix of the variables."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """Unknown keys are errors, and no error repeats a value."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)
