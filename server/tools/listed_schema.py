"""The schemas that are listed: what every client's converter takes, in few tokens.

Where converters differ, the narrowest decides: every node has a type (AutoGen, Gemini), nothing refers to elsewhere
(Gemini), nothing stands beside ``anyOf`` (Vertex), no ``true`` stands for a schema (google-genai), no argument is a
union with null (AutoGen, Gemini), and there is no ``default``, bound or length (OpenAI's strict mode, as Azure has it):
a default that nobody would expect is said in words, and an error names the bounds.
"""

import copy
import json
from collections.abc import Mapping
from typing import Any

Schema = dict[str, Any]

_UNSAID = ("title", "default", "minimum", "maximum", "minLength", "maxLength", "$ref", "$defs")
# In this order the keys of a node cost the fewest tokens.
_KEYS = ("description", "enum", "items", "anyOf", "required", "type")


def listed_input(schema: Schema) -> Schema:
    """What a tool takes."""
    definitions = schema.get("$defs", {})
    described = {name: {**each, **_described(each)} for name, each in schema["properties"].items()}
    return _listed({**schema, "properties": described}, definitions)


def listed_output(schema: Schema) -> Schema:
    """What a tool answers."""
    return _listed(schema, schema.get("$defs", {}))


def _described(argument: Schema) -> Schema:
    """Its description, with a default that nobody would expect."""
    default = argument.get("default")
    told = f"Default {json.dumps(default)}." if default and isinstance(default, int) else ""
    words = " ".join(filter(None, [argument.get("description", ""), told]))
    return {"description": words} if words else {}


def _listed(node: Schema, definitions: Mapping[str, Schema]) -> Schema:
    if "$ref" in node:
        node = {**definitions[node["$ref"].removeprefix("#/$defs/")], **node}
    node = {key: value for key, value in node.items() if key not in _UNSAID}
    if node.get("additionalProperties") is True:
        del node["additionalProperties"]
    for key in ("items", "additionalProperties"):
        if key in node:
            node[key] = _listed(node[key], definitions)
    if "properties" in node:
        node["properties"] = {name: _listed(each, definitions) for name, each in node["properties"].items()}
    if "anyOf" in node:
        node = _union(node, [_listed(each, definitions) for each in node.pop("anyOf")])
    first = {key: node.pop(key) for key in _KEYS if key in node}
    return copy.deepcopy(first | node)


def _union(node: Schema, branches: list[Schema]) -> Schema:
    """A union, its description in the first branch; or the one branch beside null, which any argument may be."""
    told = [each for each in branches if each != {"type": "null"}]
    first = {**told[0], **node}
    return first if len(told) == 1 else {"anyOf": [first, *branches[1:]]}
