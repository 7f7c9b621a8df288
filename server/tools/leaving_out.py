"""What counts as left out of a call.

Some clients make every argument required, since their provider wants it so (OpenAI's strict mode), or send each one
that they know of: for what they do not mean comes null, ``""``, ``0``, ``[]`` or ``{}``. So an optional argument is left
out when it is null, when it is its default, and when it is empty. Where an empty value says something (``title: ""``
removes a title), it does so in a call that leaves another argument out, and is left out of one that gives all of them:
who sends that fills them in.
"""

from collections.abc import Mapping
from typing import Any

from mcp.server.mcpserver.tools import Tool
from pydantic.fields import FieldInfo

EMPTY_SAYS = "the empty value of this argument says something"
"""Annotates such an argument."""
NESTED = "objects in this argument are filled in as calls are"
"""Annotates an argument whose objects, by its schema, are treated as a call's arguments are: an empty value is left out
of one that gives every key, and says what it says in any other."""

_EMPTY: dict[str, Any] = {"integer": 0, "array": [], "object": {}}


def without_left_out(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that say something, JSON text read where it stands for a list or an object."""
    schemas: Mapping[str, Any] = tool.parameters["properties"]
    fields = tool.fn_metadata.arg_model.model_fields
    sent = tool.fn_metadata.pre_parse_json(dict(arguments))
    filled_in = _fills_in(sent, schemas)
    kept = {}
    for name, raw in sent.items():
        value = _without_empty(raw, schemas[name]) if NESTED in fields[name].metadata else raw
        if not _is_left_out(value, fields[name], schemas[name], filled_in):
            kept[name] = value
    return kept


def _fills_in(sent: Mapping[str, Any], schemas: Mapping[str, Any]) -> bool:
    return all(sent.get(name) is not None for name in schemas)


def _is_left_out(value: Any, field: FieldInfo, schema: Mapping[str, Any], filled_in: bool) -> bool:
    if field.is_required():
        return False
    if value is None:
        return True
    if EMPTY_SAYS in field.metadata and not filled_in:
        return False
    return _is_empty(value, schema) or value == field.default


def _is_empty(value: Any, schema: Mapping[str, Any]) -> bool:
    """Whether it is the empty text, which stands for every type, or the empty value of the schema's type."""
    return not isinstance(value, bool) and value in ("", _EMPTY.get(schema.get("type", ""), ""))


def _without_empty(value: Any, schema: Mapping[str, Any]) -> Any:
    if isinstance(value, list):
        return [_without_empty(each, schema.get("items", {})) for each in value]
    if not isinstance(value, dict):
        return value
    schemas: Mapping[str, Any] = schema.get("properties", {})
    filled_in = bool(schemas) and _fills_in(value, schemas)
    inner = {name: _without_empty(each, schemas.get(name, {})) for name, each in value.items()}
    return {
        name: each
        for name, each in inner.items()
        if not (filled_in and name in schemas and _is_empty(each, schemas[name]))
    }
