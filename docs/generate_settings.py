"""Prints docs/settings.md: every setting with its default and what it means, as the program has them."""

import json
import sys
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

from layerlore.server.settings import Settings

HEAD = """\
# Every setting

Made by `make docs` from the program itself; a test holds it equal. How they are given, in a file, a variable or a flag,
is in [settings](../configs/README.md); `configs/sqlite.toml` says more on each.
"""


def main() -> None:
    lines = [HEAD, *_table("", Settings)]
    for name, section in _sections(Settings, ""):
        lines += ["", f"## {name}", "", *_table(name, section)]
    sys.stdout.write("\n".join(lines) + "\n")


def _sections(model: type[BaseModel], above: str) -> Iterator[tuple[str, type[BaseModel]]]:
    for name, field in model.model_fields.items():
        if (section := _section(field)) is not None:
            yield above + name, section
            yield from _sections(section, f"{above}{name}.")


def _section(field: FieldInfo) -> type[BaseModel] | None:
    kind = field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def _table(above: str, model: type[BaseModel]) -> list[str]:
    own = [(name, field) for name, field in model.model_fields.items() if _section(field) is None]
    prefix = f"{above}." if above else ""
    rows = [f"| `{prefix}{name}` | {_default(field)} | {_meaning(field)} |" for name, field in own]
    return ["| setting | default | |", "|---|---|---|", *rows] if rows else []


def _default(field: FieldInfo) -> str:
    if field.default_factory is not None:
        return ""
    value: Any = field.default
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    return "empty" if value == "" else f"`{json.dumps(value).strip(chr(34))}`"


def _meaning(field: FieldInfo) -> str:
    return (field.description or "").replace("|", "\\|")


if __name__ == "__main__":
    main()
