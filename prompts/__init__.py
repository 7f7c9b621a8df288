"""The texts sent to a model, one file each. Its first line names it and its version:

    {# observe/1: what the observer is told #}

The version goes up with every change of what is said: all that a model made keeps the name and version of its prompt.
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
    """A prompt with its values in it. ``version`` is its name and version: "observe/1"."""

    text: str
    version: str


def render(name: str, **values: Any) -> Prompt:
    """The prompt of a name. Values are put in as they are: none is ever read as a template.

    Raises LookupError for a name that there is none of, TypeError for a value that the prompt has no place for, and
    jinja2's UndefinedError for one that it needs and was not given.
    """
    template, version, places = _loaded(name)
    unknown = values.keys() - places
    if unknown:
        raise TypeError(f"the prompt {name} has no place for {', '.join(sorted(unknown))}")
    return Prompt(template.render(values).strip(), version)


@cache
def _loaded(name: str) -> tuple[Any, str, frozenset[str]]:
    """The template, its version, and the names of its values."""
    environment = _environment()
    source, _, _ = environment.loader.get_source(environment, f"{name}.txt")
    found = _FIRST_LINE.match(source)
    if found is None or found[1] != name:
        raise ValueError(f"the first line of the prompt {name} must be {{# {name}/VERSION: what it is for #}}")
    places = importlib.import_module("jinja2.meta").find_undeclared_variables(environment.parse(source))
    return environment.get_template(f"{name}.txt"), f"{name}/{found[2]}", frozenset(places)


@cache
def _environment() -> Any:
    """jinja2 takes as long to import as a database to open: it comes with the first prompt."""
    jinja2 = importlib.import_module("jinja2")
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER),
        undefined=jinja2.StrictUndefined,
        autoescape=False,  # for a model: with HTML's letters it would read another text
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    environment.filters["json"] = lambda value: json.dumps(value, ensure_ascii=False)
    return environment
