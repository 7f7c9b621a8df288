"""Prints docs/counterparts.md with the fourth column of its tables made anew: the types and defaults of what the third
names. Fails with every name there that we do not have.

A name is a tool (`plan`), an argument of one or a key inside it (`plan(plan.goal)`), a value of one
(`delete_messages(which=all)`), a key of a tool's answer (`list_runs.runs`), a setting (`window.drop`) or a value of one
(`window.drop=middle`), a resource (`memory://profile`), a prompt, or a command (`layerlore usage`).
"""

import itertools
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from generate_settings import _own, _shown_default, _type, sections
from generate_tools import argument
from pydantic.fields import FieldInfo
from typer.core import TyperGroup

from layerlore.memory.parts.parts import PART_KEYS
from layerlore.server.command_line.app import load_all
from layerlore.server.prompts.prompts import PROMPTS
from layerlore.server.resources.kinds import KINDS
from layerlore.server.resources.requests import template_of
from layerlore.server.settings.settings import Settings
from layerlore.server.tools.declaration import Declaration
from layerlore.server.tools.toolsets import DECLARATIONS

PAGE = Path(__file__).with_name("counterparts.md")
COLUMNS = 5

TOOLS: dict[str, Declaration] = {each.name: each for each in DECLARATIONS}
SETTINGS: dict[str, FieldInfo] = {
    f"{section}.{name}".lstrip("."): field
    for section, model in [("", Settings), *sections(Settings)]
    for name, field in _own(model)
}
RESOURCES = {template_of(kind).partition("{?")[0] for kind in KINDS}
# What no schema lists, since it costs every conversation: docs/messages.md has it.
_OF_PARTS = {"parts", *PART_KEYS, *itertools.chain(*PART_KEYS.values())}


class Unknown(Exception):
    """A name that is none of ours."""


def described(name: str) -> str:
    """The type and default of what a name means; empty for what has none. Raises Unknown."""
    if name.startswith("memory://"):
        return _known(name, name in RESOURCES)
    if name.startswith("layerlore "):
        return _known(name, _is_command(name.split()[1:]))
    setting, _, value = name.partition("=")
    if setting in SETTINGS:
        field = SETTINGS[setting]
        _known(name, not value or value in [str(each) for each in get_args(field.annotation)])
        return "" if value else f"{_type(field)}, {_shown_default(field)}"
    if found := re.fullmatch(r"(\w+)\(([\w.]+)(?:=(\w+))?\)", name):
        return _argument(*found.groups(default=""))
    tool, *path = name.split(".")
    _known(name, tool in TOOLS or (not path and tool in PROMPTS))
    return _known(name, not path or _in_answer(TOOLS[tool], path))


def _known(name: str, known: bool) -> str:
    if not known:
        raise Unknown(name)
    return ""


def _argument(tool: str, path: str, value: str) -> str:
    name, *inner = path.split(".")
    given = f"{tool}({path}{value and '=' + value})"
    _known(given, tool in TOOLS and name in TOOLS[tool].tool.parameters["properties"])
    declared = TOOLS[tool].tool
    node = declared.parameters["properties"][name]
    words = {*re.findall(r"\w+", declared.description), *(_OF_PARTS if tool == "add_messages" else ())}
    for key in inner:
        node = _inside(node, key)
        _known(given, node is not None or key in words)
    if value:
        choices = {**(node or {}).get("items", {}), **(node or {})}.get("enum", words)
        _known(given, value in choices)
        return ""
    if inner:
        return ""
    checked = declared.fn_metadata.arg_model.model_json_schema()["properties"][name]
    _, _, kind, default, *_ = (each.strip() for each in re.split(r"(?<!\\)\|", argument(name, node, checked)))
    return ", ".join(filter(None, (kind, default)))


def _inside(node: Any, key: str) -> Any:
    """The schema of a key of an object, of a list's objects, or of one of several; None if it has none."""
    for each in [node or {}, *(node or {}).get("anyOf", [])]:
        found = each.get("properties", {}).get(key) or ("items" in each and _inside(each["items"], key))
        if found:
            return found
    return None


def _in_answer(tool: Declaration, path: list[str]) -> bool:
    node: Any = tool.tool.fn_metadata.output_schema
    for key in path:
        node = _inside(node, key)
    return node is not None


def _is_command(words: list[str]) -> bool:
    command = load_all()
    for word in words:
        if not isinstance(command, TyperGroup) or word not in command.commands:
            return False
        command = command.commands[word]
    return True


def made_anew(page: str) -> Iterator[str]:
    """The lines of the page. Raises SystemExit with every line that names what is not there."""
    unknown = []
    for number, line in enumerate(page.splitlines(), 1):
        cells = re.split(r"(?<!\\)\|", line)[1:-1] if line.startswith("| ") else []
        if len(cells) != COLUMNS or cells[2].strip() == "here":
            yield line
            continue
        names = re.findall(r"`([^`]+)`", cells[2])
        told = []
        for name in names:
            try:
                told.append(described(name))
            except Unknown as error:
                unknown.append(f"line {number}: {error}")
        if not names and (cells[2].strip() != "–" or not cells[4].strip()):
            unknown.append(f"line {number}: names nothing: write – and why")
        cells[3] = f" {'; '.join(dict.fromkeys(filter(None, told)))} " if any(told) else " "
        yield f"|{'|'.join(cells)}|"
    if unknown:
        raise SystemExit("\n".join(["counterparts.md has what is not there:", *unknown]))


def main() -> None:
    page = Path(sys.argv[1]) if sys.argv[1:] else PAGE
    sys.stdout.write("\n".join([*made_anew(page.read_text(encoding="utf-8")), ""]))


if __name__ == "__main__":
    main()
