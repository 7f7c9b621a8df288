"""The source files and their imports, as the tests of the layout read them."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("server", "memory", "extraction", "storage", "prompts")


@cache
def sources() -> dict[str, Path]:
    """Dotted module name below layerlore -> file."""
    found = {}
    for package in PACKAGES:
        for path in (ROOT / package).rglob("*.py"):
            parts = list(path.relative_to(ROOT).with_suffix("").parts)
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imports(node: ast.AST) -> tuple[str, ...]:
    """Every module that is imported anywhere below a node; ``from a import b`` gives ``a.b``, which may be a name."""
    return tuple(_imports(node))


def _imports(node: ast.AST) -> Iterator[str]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Import):
            yield from (alias.name for alias in inner.names)
        elif isinstance(inner, ast.ImportFrom) and inner.level == 0:
            yield from (f"{inner.module}.{alias.name}" for alias in inner.names)


@cache
def own_imports(node: ast.AST) -> frozenset[str]:
    """The modules of ours that are imported, by their names in ``sources``."""
    found = set()
    for name in imports(node):
        if name.startswith("layerlore."):
            target = name.removeprefix("layerlore.")
            found.add(target if target in sources() else target.rpartition(".")[0])
    return frozenset(found)
