"""What providers and frameworks want of a tool's schema, as rules: each says what is wrong, with the place.

They are written from the providers' documentation and their error messages, and from the converters' own source; the
converters themselves run in ``tests/interop``.
"""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from mcp.types import Tool

from .calling import Json

Rule = Callable[[Tool], Iterator[str]]

_TYPES = frozenset({"string", "integer", "number", "boolean", "array", "object"})
_BESIDE = {"type", "description"}
_OF_TYPE: dict[str, set[str]] = {
    "string": {"enum"},
    "array": {"items"},
    "object": {"properties", "required"},
}
_MOST_DESCRIBED = 1024


def nodes(schema: Any, place: str = "") -> Iterator[tuple[str, Json]]:
    """Every schema within a schema."""
    yield place or "the root", schema
    for name, each in schema.get("properties", {}).items():
        yield from nodes(each, f"{place}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from nodes(schema[key], f"{place}[{key}]")
    for key in ("anyOf", "oneOf", "allOf"):
        for number, each in enumerate(schema.get(key, [])):
            yield from nodes(each, f"{place}[{key} {number}]")


def typed(schema: Json) -> Iterator[str]:
    """Each node has one type, or is a union of nodes that do; nothing is defined elsewhere, or is a mere true."""
    for place, node in nodes(schema):
        types = _TYPES | {"null"}
        if "anyOf" in node:
            if set(node) != {"anyOf"}:
                yield f"{place}: {sorted(node)}: anyOf stands with others"
        elif node.get("type") not in types:
            yield f"{place}: type is {node.get('type')!r}"
        if {"$ref", "$defs", "oneOf", "allOf", "default", "title"} & set(node):
            yield f"{place}: {sorted(node)}"
        if isinstance(node.get("additionalProperties"), bool) or "" in node.get("enum", []):
            yield f"{place}: {node}"


def gemini(tool: Tool) -> Iterator[str]:
    """Function declarations: a subset of OpenAPI's schemas, where each key belongs to a type."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.:-]{0,63}", tool.name):
        yield "its name"
    for place, node in nodes(tool.input_schema):
        if "anyOf" in node:
            continue  # stands alone
        type_ = node.get("type", "")
        if type_ not in _TYPES or not set(node) <= _BESIDE | _OF_TYPE.get(type_, set()):
            yield f"{place}: {type_!r} with {sorted(node)}"
        if type_ == "array" and "items" not in node:
            yield f"{place}: items: missing field"
        if not all(isinstance(value, str) and value for value in node.get("enum", [])):
            yield f"{place}: enum: cannot be empty"
        if not set(node.get("required", [])) <= set(node.get("properties", {})):
            yield f"{place}: required: property is not defined"


def gemini_json_schema(tool: Tool) -> Iterator[str]:
    """``parametersJsonSchema``, and Gemini CLI's check of types (hasValidTypes)."""
    understood = _BESIDE | {"enum", "items", "properties", "required", "additionalProperties", "anyOf"}
    for place, node in nodes(tool.input_schema):
        if not set(node) <= understood:
            yield f"{place}: {sorted(set(node) - understood)}"
        if not node.get("type") and not node.get("anyOf"):
            yield f"{place}: missing types in its parameter schema"


def anthropic(tool: Tool) -> Iterator[str]:
    """Names of arguments and no union at the root; the rest is JSON Schema."""
    if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", tool.name):
        yield "its name"
    if tool.input_schema.get("type") != "object" or {"anyOf", "oneOf", "allOf"} & set(tool.input_schema):
        yield "the root is no plain object"
    for name in tool.input_schema.get("properties", {}):
        if not re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", name):
            yield f"{name}: the name of an argument"


def openai(tool: Tool) -> Iterator[str]:
    """Without strict mode."""
    if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", tool.name) or len(tool.description or "") > _MOST_DESCRIBED:
        yield "its name or description"
    root = tool.input_schema
    if (
        root.get("type") != "object"
        or "properties" not in root
        or {"anyOf", "oneOf", "allOf", "enum", "not"} & set(root)
    ):
        yield "the root: object schema missing properties"
    for place, node in nodes(root):
        if node.get("type") == "array" and "items" not in node:
            yield f"{place}: array schema missing items"


def openai_strict(tool: Tool) -> Iterator[str]:
    """Strict mode, after what its SDKs do by themselves: every object closed, all its properties required.

    Bounds, lengths and defaults are refused by Azure and by older models.
    """
    permitted = _BESIDE | {"enum", "items", "properties", "required", "additionalProperties", "anyOf"}
    schema = strict(tool.input_schema)
    every = list(nodes(schema))
    for place, node in every:
        if not set(node) <= permitted:
            yield f"{place}: {sorted(set(node) - permitted)} is not permitted"
        if not ("anyOf" in node or node.get("type") in _TYPES):
            yield f"{place}: schema must have a 'type' key"
        if node.get("type") == "object" and node["additionalProperties"] is not False:
            yield f"{place}: 'additionalProperties' is required to be supplied and to be false"
        if sorted(node.get("required", [])) != sorted(node.get("properties", {})):
            yield f"{place}: 'required' must have every key in properties"
    if max(place.count(".") for place, _ in every) > 5:
        yield "more than 5 levels of nesting"
    if sum(len(node.get("properties", {})) for _, node in every) > 100:
        yield "more than 100 properties"


def strict(schema: Json) -> Json:
    """A schema as SDKs change it for strict mode."""
    made = dict(schema)
    if made.get("type") == "object":
        made.setdefault("additionalProperties", False)
    if "properties" in made:
        made["properties"] = {name: strict(each) for name, each in made["properties"].items()}
        made["required"] = list(made["properties"])
    if "items" in made:
        made["items"] = strict(made["items"])
    if "anyOf" in made:
        made["anyOf"] = [strict(each) for each in made["anyOf"]]
    return made


def filled(schema: Json, value: Any) -> Any:
    """A value with what a strict schema requires, and no more: what it leaves out is empty, true where that is said to be the
    default, or the first of a choice."""
    if isinstance(value, dict) and "properties" in schema:
        known = schema["properties"].items()
        return {name: filled(each, value[name]) if name in value else _empty(each) for name, each in known}
    if isinstance(value, dict):
        return json.dumps(value)  # of free objects strict mode leaves the text
    return [filled(schema["items"], each) for each in value] if isinstance(value, list) else value


def _empty(schema: Json) -> Any:
    if "Default true" in schema.get("description", ""):
        return True
    types = [each["type"] for each in schema.get("anyOf", [schema])]
    if "string" in types:
        return schema.get("enum", [""])[0]
    return {"integer": 0, "number": 0, "boolean": False, "array": [], "object": {}}[types[0]]


def autogen(tool: Tool) -> Iterator[str]:
    """autogen_core.utils.schema_to_pydantic_model: a type where it looks for one, and models of what it understands."""
    for place, node in nodes(tool.input_schema):
        if "anyOf" not in node and "enum" not in node and node.get("type") not in _TYPES:
            yield f"{place}: Unsupported or missing type"
        if node.get("enum") == [] or "format" in node or "oneOf" in node or "allOf" in node:
            yield f"{place}: {sorted(node)}"
        names = node.get("properties", {})
        if any(name.startswith("_") or name in {"model_config", "model_fields"} for name in names):
            yield f"{place}: no name for a field of a model"


def google_genai(tool: Tool) -> Iterator[str]:
    """google.genai's filter of a schema, and Google ADK's, which is like it: what they walk into must be schemas."""
    for place, node in nodes(tool.input_schema):
        for key in ("items", "additionalProperties"):
            if key in node and not isinstance(node[key], dict):
                yield f"{place}: {type(node[key]).__name__!r} object has no attribute 'items'"
        if isinstance(node.get("type"), list):
            yield f"{place}: a list of types"
        if not node:
            yield f"{place}: anything, which ADK takes for an object"
        if node.get("type") == "array" and "items" not in node:
            yield f"{place}: an array of anything, which ADK takes for one of texts"


RULES: tuple[Rule, ...] = (
    openai,
    openai_strict,
    anthropic,
    gemini,
    gemini_json_schema,
    autogen,
    google_genai,
)
