"""Prints docs/http.md, its table of rights made anew between two marks from what the tools declare."""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from layerlore.server.access.caller import join_rights
from layerlore.server.access.credentials import RIGHTS, Right
from layerlore.server.tools.declaration import Declaration
from layerlore.server.tools.toolsets import DECLARATIONS

GUIDE = Path(__file__).parents[1] / "docs" / "http.md"
BEGIN, END = "<!-- rights: made by `make docs` -->\n", "<!-- end of rights -->"
BESIDE_TOOLS = {"read": "resources, prompts, completion, and listening to changes"}


def guide() -> str:
    before, _, rest = GUIDE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    rows = ["| right | what it opens |", "|---|---|", *(f"| `{right}` | {opened_by(right)} |" for right in RIGHTS)]
    return before + BEGIN + "\n".join(rows) + "\n" + END + after


def opened_by(right: Right) -> str:
    """What the right opens alone, then what it opens together with other rights."""
    by_rights: dict[frozenset[Right], list[str]] = {frozenset({right}): []}
    for declared in DECLARATIONS:
        for rights, call in calls_of(declared):
            if right in rights:
                by_rights.setdefault(rights, []).append(call)
    alone, *together = [
        ", ".join(calls) + (f" together with {join_rights(rights - {right})}" if len(rights) > 1 else "")
        for rights, calls in by_rights.items()
    ]
    return "; ".join(filter(None, [alone, BESIDE_TOOLS.get(right), *together]))


def calls_of(declared: Declaration) -> Iterator[tuple[frozenset[Right], str]]:
    """The rights that each way to call a tool needs, and how it is called that way."""
    usual = declared.needs({})
    others = [way for way in declared.ways if declared.needs(way) != usual]
    yield usual, f"`{declared.name}`" + (" in any other way" if others else "")
    for way in others:
        yield declared.needs(way), f"`{declared.name}({shown(declared, way)})`"


def shown(declared: Declaration, way: Mapping[str, Any]) -> str:
    """Arguments; the value of one only if it is one of a few."""
    properties = declared.tool.parameters["properties"]
    return ", ".join(
        f"{name}={json.dumps(value)}" if "enum" in properties[name] else name for name, value in way.items()
    )


if __name__ == "__main__":
    sys.stdout.write(guide())
