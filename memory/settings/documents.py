"""The settings of working memory: what its documents may be.

The form is checked here, when the settings are read. Whether a JSON Schema is a valid one is checked when the engine is
made, since that needs the code that reads schemas.
"""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from layerlore.memory.settings.section import Bytes, Section

DocumentScope = Literal["thread", "resource"]
Format = Literal["text", "markdown", "json"]

_OF_FORMAT = {"template": "markdown", "json_schema": "json"}


def _read_schema(value: Any) -> Any:
    """A JSON Schema from a table of TOML, from JSON, or from the path of a .json file. Raises ValueError."""
    if not isinstance(value, str):
        return value
    text, where = value.strip(), "it"
    if not text:
        return {}
    if not text.startswith("{"):
        if not text.lower().endswith(".json"):
            raise ValueError("a table, JSON that begins with {, or the path of a .json file is needed")
        where = f"the file {text}"
        try:
            text = Path(text).expanduser().read_text(encoding="utf-8-sig")
        except OSError as error:
            raise ValueError(f"{where} cannot be read: {error.strerror}") from None
        except (ValueError, RuntimeError) as error:
            raise ValueError(f"{where} cannot be read: {error}") from None
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where} is not valid JSON: {error}") from None


class DocumentRules(Section):
    """What one document of working memory may be."""

    format: Format = Field(
        default="text",
        description="text: free text. markdown: text that follows a template. json: an object, which may have a schema.",
    )
    template: str = Field(
        default="", description="The form of a Markdown document, which an agent fills in; markdown needs one."
    )
    json_schema: Annotated[dict[str, Any], BeforeValidator(_read_schema)] = Field(
        default={},
        description="The JSON Schema of a JSON document: a table, JSON in a string, or the path of a .json file. Empty: "
        "any object will do.",
    )

    @model_validator(mode="after")
    def _fits_together(self) -> "DocumentRules":
        given = {"template": bool(self.template), "json_schema": bool(self.json_schema)}
        for name, belongs in _OF_FORMAT.items():
            if given[name] and self.format != belongs:
                raise ValueError(f"{name} belongs to format = {belongs!r}, and the format is {self.format!r}")
        if self.format == "markdown" and not self.template.strip():
            raise ValueError("format = 'markdown' needs a template, which must not be empty; 'text' needs none")
        return self


class WorkingMemoryRules(Section):
    """Working memory: the documents that an agent keeps current, one of each conversation (thread) and one about the
    person it serves (resource)."""

    max_bytes: Bytes = Field(
        default=16 * 1024, ge=1, le=1024 * 1024, description="The largest document; JSON counts as written compactly."
    )
    read_only: bool = Field(
        default=False, description="true: agents read the documents, and no tool that changes one is listed."
    )
    thread: DocumentRules = DocumentRules()
    resource: DocumentRules = DocumentRules()

    def of(self, scope: DocumentScope) -> DocumentRules:
        """The rules of the thread's or of the resource's document."""
        return self.thread if scope == "thread" else self.resource
