"""What the settings of a working memory document are read from, and which of them go together.

Only the form is looked at here, at the start; whether a JSON Schema is one is told where the engine is made.
"""

import json
from pathlib import Path
from typing import Any

_OF_FORMAT = {"template": "markdown", "json_schema": "json"}


def read_schema(value: Any) -> Any:
    """A JSON Schema as a table of TOML, as JSON, or as the path of a .json file. Raises ValueError."""
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


def check_format(format_: str, template: str, schema: dict[str, Any]) -> None:
    """Raises ValueError for a setting that the format has no use for, and for a form that is missing."""
    given = {"template": bool(template), "json_schema": bool(schema)}
    for name, belongs in _OF_FORMAT.items():
        if given[name] and format_ != belongs:
            raise ValueError(f"{name} belongs to format = {belongs!r}, and the format is {format_!r}")
    if format_ == "markdown" and not template.strip():
        raise ValueError("format = 'markdown' needs a template, which must not be empty; 'text' needs none")
