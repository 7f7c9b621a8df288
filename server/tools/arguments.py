"""The arguments of a call: what counts as left out, and whether the rest is what the tool takes.

Some clients make every argument required, since their provider wants it so (OpenAI's strict mode), or send each one
that they know of: for what they do not mean comes null, ``""``, ``0``, ``[]`` or ``{}``. So an optional argument is left
out when it is null, when it is its default, and when it is empty. Where an empty value says something (``title: ""``
removes a title), it does so in a call that leaves another argument out, and is left out of one that gives all of them:
who sends that fills them in.
"""

import difflib
import re
from collections.abc import Mapping
from typing import Annotated, Any

from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from pydantic import BeforeValidator, ValidationError
from pydantic.fields import FieldInfo

from layerlore.memory.rules.ages import DAY_MS
from layerlore.memory.rules.validation import parse_time

EMPTY_SAYS = "the empty value of this argument says something"
"""Annotates such an argument."""
NULL_SAYS = "null says something for this argument"
"""Annotates an argument for which null is a value, in a call that leaves another argument out."""
UNLISTED = "no model needs this argument"
"""Annotates an argument that is taken and not listed."""
NESTED = "objects in this argument are filled in as calls are"
"""Annotates an argument whose objects, by its schema, are treated as a call's arguments are: an empty value is left out
of one that gives every key, and says what it says in any other."""

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{8}")
_MOST_PROBLEMS = 5
# What is shown of a name that does not exist, in characters.
_LONGEST_NAME = 64
_EMPTY: dict[str, Any] = {"integer": 0, "array": [], "object": {}}


def check_arguments(tool: Tool, arguments: dict[str, Any]) -> tuple[dict[str, Any], frozenset[str]]:
    """The arguments as the tool's function takes them, with defaults for what is left out, and the names of those that
    are not. Raises ToolError."""
    allowed = list(tool.parameters.get("properties", {}))
    unknown = [name for name in arguments if name not in allowed]
    if unknown:
        takes = f"it takes {', '.join(allowed)}" if allowed else "it takes none"
        raise ToolError(
            f"{tool.name} has no argument {quote_name(unknown[0])}{suggest_name(unknown[0], allowed)} ({takes})"
        )
    given = drop_left_out(tool, arguments)
    try:
        # JSON text was read for what is left out already: the SDK's own function would try it again.
        return tool.fn_metadata.arg_model.model_validate(given).model_dump_one_level(), frozenset(given)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False, include_context=False)
        shown = "; ".join(f"{_place(problem['loc'])}: {problem['msg']}" for problem in problems[:_MOST_PROBLEMS])
        raise ToolError(f"{tool.name}: {shown}") from error


def quote_name(name: str) -> str:
    """A name that does not exist, as an error repeats it."""
    return repr(name if len(name) <= _LONGEST_NAME else name[:_LONGEST_NAME] + "…")


def suggest_name(name: str, allowed: list[str]) -> str:
    """What an error adds if one of the allowed names is like the name."""
    near = difflib.get_close_matches(name[:_LONGEST_NAME], allowed, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _write_number(value: Any) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if is_number else value


Moment = Annotated[str, BeforeValidator(_write_number)]
"""A time as an argument: ISO 8601, or a number of seconds or milliseconds since 1970, whose digits the function gets."""


def parse_until(text: str) -> int:
    """An ``until`` in milliseconds since 1970: a date alone means the whole day, to its last moment."""
    moment = parse_time(text, "until")
    return moment + DAY_MS - 1 if _DATE.fullmatch(text.strip()) else moment


def drop_left_out(tool: Tool, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that say something, JSON text read where it stands for a list or an object."""
    schemas: Mapping[str, Any] = tool.parameters["properties"]
    fields = tool.fn_metadata.arg_model.model_fields
    sent = tool.fn_metadata.pre_parse_json(dict(arguments))
    # Who fills in everything knows of what is listed.
    listed = {name: each for name, each in schemas.items() if UNLISTED not in fields[name].metadata}
    filled_in = _fills_in(sent, listed)
    names_all = listed.keys() <= sent.keys()
    kept: dict[str, Any] = {}
    for name, raw in sent.items():
        value = _without_empty(raw, schemas[name]) if NESTED in fields[name].metadata else raw
        null_says = value is None and NULL_SAYS in fields[name].metadata and not names_all
        if null_says or not _is_left_out(value, fields[name], schemas[name], filled_in):
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


def _place(location: tuple[int | str, ...]) -> str:
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return path.removeprefix(".") or "arguments"
