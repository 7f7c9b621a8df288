"""Prints what is made from the sections of the settings: every setting with its type, default, unit and text.

generate_settings.py table      docs/settings.md
generate_settings.py sqlite     configs/sqlite.toml
generate_settings.py postgres   configs/postgres.toml
generate_settings.py readme     configs/README.md, with its table of sections made anew
"""

import inspect
import json
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from layerlore.memory.settings.context_settings import Section, Unit
from layerlore.server.settings.settings import Settings

README = Path(__file__).parents[1] / "configs" / "README.md"
POSTGRES_URL = "postgresql://layerlore@localhost:5432/layerlore"
WIDTH = 118

TABLE_HEAD = """\
# Every setting

Made by `make docs` from the program itself; a test holds it equal. How they are given, in a file, a variable or a flag,
is in [settings](../configs/README.md).
"""

FILE_HEAD = """\
# layerlore on SQLite: every setting, with its meaning and its default. Those of Postgres are in postgres.toml.
#
#   layerlore --config sqlite.toml          (or LAYERLORE_CONFIG=sqlite.toml)
#
# A line that begins with "#name =" is a setting at its default: take the "#" away to change it. Each can also be given
# as a variable, which counts more than this file: LAYERLORE_AGENT, LAYERLORE_HTTP__PORT; and those at the top as a
# flag, which counts most: --agent, --data-dir.
#
# Made by `make docs` from the program itself.
"""

POSTGRES_HEAD = """\
# layerlore on Postgres: the settings that differ from those in sqlite.toml. Every other setting there can be set here,
# too, with the same meaning and default.
#
#   layerlore --config postgres.toml        (or LAYERLORE_CONFIG=postgres.toml)
#
# Made by `make docs` from the program itself.
"""


def table() -> str:
    """docs/settings.md."""
    lines = [TABLE_HEAD, *_rows("", Settings)]
    for name, section in sections(Settings):
        rows = _rows(name, section)
        lines += ["", f"## {name}", "", _plain(_text_of(section)), *(["", *rows] if rows else [])]
    return "\n".join(lines) + "\n"


def sqlite() -> str:
    """configs/sqlite.toml."""
    lines = [FILE_HEAD, *_settings(Settings)]
    for name, section in sections(Settings):
        if name != "postgres":
            lines += _toml_table(name, _text_of(section)) + _settings(section)
    for name, field in Settings.model_fields.items():
        if _is_profiles(field):
            lines += [*_comment(_described(field)), *_examples(field, ""), f"[{name}]", ""]
    return "\n".join(lines).rstrip() + "\n"


def postgres() -> str:
    """configs/postgres.toml: its database, and the section that SQLite's file leaves out."""
    database = Settings.model_fields["database"]
    section = dict(sections(Settings))["postgres"]
    lines = [POSTGRES_HEAD, *_comment(_described(database)), f'database = "{POSTGRES_URL}"', ""]
    for name, field in Settings.model_fields.items():
        if _is_tables(field):
            lines += [*_comment(_described(field)), *_examples(field, ""), f"#{name} = {_toml_default(field)}", ""]
    lines += _toml_table("postgres", _text_of(section)) + _settings(section)
    return "\n".join(lines).rstrip() + "\n"


def readme() -> str:
    """configs/README.md, its table of sections made anew between two marks."""
    rows = ["| section | what it is for |", "|---|---|"]
    for name, section in sections(Settings):
        anchor = name.replace(".", "")
        rows.append(
            f"| [`[{name}]`](../docs/settings.md#{anchor}) | {_plain(_text_of(section).split('. ')[0]).rstrip('.')} |"
        )
    begin, end = "<!-- sections: made by `make docs` -->\n", "<!-- end of sections -->"
    before, _, rest = README.read_text(encoding="utf-8").partition(begin)
    _, _, after = rest.partition(end)
    return before + begin + "\n".join(rows) + "\n" + end + after


def sections(model: type[BaseModel], above: str = "") -> Iterator[tuple[str, type[Section]]]:
    """Every section by its full name, each before those inside it."""
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, Section):
            yield above + name, kind
            yield from sections(kind, f"{above}{name}.")


def _own(model: type[BaseModel]) -> list[tuple[str, FieldInfo]]:
    """The settings of a section without those of the sections inside it."""
    inside = {name for name, _ in sections(model)}
    return [(name, field) for name, field in model.model_fields.items() if name not in inside]


def _text_of(section: type[BaseModel]) -> str:
    return " ".join((inspect.getdoc(section) or "").split())


def _rows(above: str, model: type[BaseModel]) -> list[str]:
    prefix = f"{above}." if above else ""
    rows = [
        f"| `{prefix}{name}` | {_type(field)} | {_shown_default(field)} | {_unit(field)} | {_plain(_described(field))} |"
        for name, field in _own(model)
    ]
    return ["| setting | type | default | unit | |", "|---|---|---|---|---|", *rows] if rows else []


def _settings(model: type[BaseModel]) -> list[str]:
    """The settings of one table of a TOML file, at their defaults and out of force."""
    lines: list[str] = []
    for name, field in _own(model):
        if not _is_profiles(field) and not _is_tables(field):
            kind, comma, bounds = _type(field).replace("`", "").partition(", ")
            about = f"{kind} of {_unit(field)}" if _unit(field) else kind
            lines += [*_comment(_described(field)), f"# ({about}{comma}{bounds})", *_examples(field, f"{name} = ")]
            lines += [f"#{name} = {_toml_default(field)}", ""]
    return lines


def _toml_table(name: str, text: str) -> list[str]:
    return [*_comment(text), f"[{name}]", ""]


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)


def _examples(field: FieldInfo, begin: str) -> list[str]:
    given = field.examples if field.default_factory is None else None
    return [f"#   {begin}{example}" for example in given or []]


def _is_profiles(field: FieldInfo) -> bool:
    """Whether a setting is tables by names of the operator's own."""
    found = get_args(field.annotation)
    return get_origin(field.annotation) is dict and isinstance(found[1], type) and issubclass(found[1], Section)


def _is_tables(field: FieldInfo) -> bool:
    """Whether a setting is any number of tables of one kind."""
    found = get_args(field.annotation)
    return get_origin(field.annotation) is list and isinstance(found[0], type) and issubclass(found[0], Section)


def _described(field: FieldInfo) -> str:
    return field.description or ""


def _plain(text: str) -> str:
    return text.replace("|", "\\|")


def _type(field: FieldInfo) -> str:
    kind, found = field.annotation, get_args(field.annotation)
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(f"`{each}`" for each in found)
    if get_origin(kind) is list:
        return "list of " + ("tables" if get_origin(found[0]) is dict or _is_tables(field) else "names")
    if get_origin(kind) is dict:
        return "tables by name" if _is_profiles(field) else "table"
    names: dict[Any, str] = {bool: "true or false", int: "whole number", float: "number", SecretStr: "text, secret"}
    return names.get(kind, "path" if kind is Path else "text") + _range(field)


def _range(field: FieldInfo) -> str:
    """What a number may be: ``, 1 to 500``; empty for what is none."""
    found = {
        name: value
        for each in field.metadata
        for name in ("ge", "gt", "le", "lt")
        if (value := getattr(each, name, None)) is not None
    }
    if "ge" in found and "le" in found:
        return f", {_number(found['ge'])} to {_number(found['le'])}"
    words = {"ge": "{} or more", "gt": "more than {}", "le": "{} or less", "lt": "less than {}"}
    return "".join(f", {words[name].format(_number(value))}" for name, value in found.items())


def _number(value: float) -> str:
    return f"{value:,}"


def _unit(field: FieldInfo) -> str:
    return next((each.name for each in field.metadata if isinstance(each, Unit)), "")


def _default(field: FieldInfo) -> Any:
    value: Any = field.default
    return value.get_secret_value() if isinstance(value, SecretStr) else value


def _shown_default(field: FieldInfo) -> str:
    if field.default_factory is not None:
        return "the platform's"
    value = _default(field)
    return "empty" if value in ("", {}, []) else f"`{json.dumps(value).strip(chr(34))}`"


def _toml_default(field: FieldInfo) -> str:
    value = (field.examples or [""])[0] if field.default_factory is not None else _default(field)
    return json.dumps(value, ensure_ascii=False)


PRINTED = {"table": table, "sqlite": sqlite, "postgres": postgres, "readme": readme}

if __name__ == "__main__":
    sys.stdout.write(PRINTED[sys.argv[1]]())
