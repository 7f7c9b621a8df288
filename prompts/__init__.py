"""The texts sent to a model, one file each. Its first line names it and its version:

    {# observe/1: what the observer is told #}

The version goes up with every change of the text, also of one that it includes: everything that a model makes keeps the
name and version of its prompt.
"""

import importlib
import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
_FIRST_LINE = re.compile(r"\{#\s*([a-z_]+)/(\d+)\b[^#]*#\}\s*\n")


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt with its values filled in. ``version`` is its name and version: "observe/1"."""

    text: str
    version: str


def render(name: str, **values: Any) -> Prompt:
    """Fill in the prompt of a name. Values are inserted as they are, and never read as templates.

    Raises LookupError for an unknown name, TypeError for a value that the prompt has no place for, and jinja2's
    UndefinedError for a missing value.
    """
    template, version, places = _load(name)
    unknown = values.keys() - places
    if unknown:
        raise TypeError(f"the prompt {name} has no place for {', '.join(sorted(unknown))}")
    return Prompt(template.render(values).strip(), version)


@cache
def _load(name: str) -> tuple[Any, str, frozenset[str]]:
    """The template, its version, and the names of its values."""
    environment = _make_environment()
    # The version stands in a comment, which the parsed template no longer has.
    source, _, _ = environment.loader.get_source(environment, f"{name}.txt")
    found = _FIRST_LINE.match(source)
    if found is None or found[1] != name:
        raise ValueError(f"the first line of the prompt {name} must be {{# {name}/VERSION: what it is for #}}")
    places = _find_places(environment, f"{name}.txt")
    return environment.get_template(f"{name}.txt"), f"{name}/{found[2]}", places


def _find_places(environment: Any, file: str) -> frozenset[str]:
    """The names of the values of a file and of those that it includes."""
    meta = importlib.import_module("jinja2.meta")
    source, _, _ = environment.loader.get_source(environment, file)
    parsed = environment.parse(source)
    places: set[str] = meta.find_undeclared_variables(parsed)
    included = (_find_places(environment, each) for each in meta.find_referenced_templates(parsed))
    return frozenset(places.union(*included))


@cache
def _make_environment() -> Any:
    """The template environment. jinja2 takes as long to import as a database to open, so it is loaded with the first prompt."""
    jinja2 = importlib.import_module("jinja2")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # the text is for a model, not HTML
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters["json"] = lambda value: json.dumps(value, ensure_ascii=False)
    return environment
