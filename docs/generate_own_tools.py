"""Prints memory/text/own_tools.json: our tools, and the arguments by which a call of ours is known."""

import inspect
import json
import sys

from layerlore.server.tools.toolsets import DECLARATIONS


def main() -> None:
    tools = {}
    arguments = set()
    for declaration in sorted(DECLARATIONS, key=lambda each: each.name):
        known_by = declaration.known_by
        if known_by is None:
            known_by = tuple(declaration.tool.parameters.get("required", ()))
        tools[declaration.name] = sorted(known_by)
        arguments |= inspect.signature(declaration.function).parameters.keys() - {"call"}
    sys.stdout.write(json.dumps({"tools": tools, "arguments": sorted(arguments)}, indent=1) + "\n")


main()
