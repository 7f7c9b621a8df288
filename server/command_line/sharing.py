"""``layerlore export --project`` and the import of such a file: shares a project's memory through a file in git."""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from layerlore.memory.engine.engine import Engine
from layerlore.memory.moving.exchange import list_shared
from layerlore.memory.moving.line_forms import RECORD, NumberedLine
from layerlore.memory.moving.shared_lines import SharedForms, SharedLines, add_line, is_gone, render_lines
from layerlore.server.command_line.known_engine import open_known_memory
from layerlore.server.process.safe_files import find_top, open_regular, read_regular, replace_file
from layerlore.server.settings.project import PREFIX, choose_project
from layerlore.server.settings.settings import Settings
from layerlore.storage.core.errors import InvalidInput, LimitExceeded
from layerlore.storage.core.records import Json, Scope

FILE_NAME = "layerlore.jsonl"
"""The name of the shared file in a folder."""
STANDARD_OUTPUT = "-"
MOST_BYTES = 256 * 1024 * 1024
_MOST_ATTRIBUTES = 1024 * 1024
_MARKERS = (b"<<<<<<<", b"=======", b">>>>>>>", b"|||||||")


def find_project_scope(settings: Settings, tenant: str, project: str) -> Scope:
    """The scope of a project by its name, or ``auto``: that of this folder. Raises InvalidInput if none exists."""
    resource = choose_project(project, os.curdir, str(settings.data_dir))
    if not resource:
        raise InvalidInput(f"--project {project}: this folder belongs to no project; name one, as in --project shop")
    return Scope(tenant, settings.agent, resource)


def export_project(settings: Settings, tenant: str, file: str, project: str) -> int:
    """Update a file, or the file in a folder, with the shared entries of a project's memory. Lines of others stay. Returns
    the exit code. Raises InvalidInput, LimitExceeded, NotFound, StorageUnavailable, DatabaseTooNew or OSError."""
    scope = find_project_scope(settings, tenant, project)
    if file == STANDARD_OUTPUT:
        sys.stdout.writelines(render_lines(asyncio.run(_list(settings, scope, None)).lines))
        return 0
    target = find_shared_file(Path(file).expanduser().absolute())
    before = _read_before(target)
    # Lines of others stay in the file, so the new lines are merged into it.
    found = asyncio.run(_list(settings, scope, target if before else None))
    text = "".join(render_lines(found.lines))
    # An equal file is not written, so that git shows no change.
    if text.encode() != before:
        replace_file(str(target), text.encode(), top=find_top(str(target)))
    changed = "" if text.encode() != before else "; nothing of it is new"
    sys.stdout.write(f"shared {describe_project(scope)} in {target}: {describe_lines(found.lines)}{changed}\n")
    if not _merges_by_union(target):
        sys.stdout.write(f"git merges it by itself with this line in .gitattributes:\n  {target.name} merge=union\n")
    return 0


def _read_before(target: Path) -> bytes:
    """The content of a shared file; empty if it does not exist. A repository may have brought a link in its place."""
    try:
        # One byte more than allowed shows that the file is too large; a link could lead out of the repository.
        return read_regular(str(target), MOST_BYTES + 1, follow=False)
    except FileNotFoundError:
        return b""


def describe_project(scope: Scope) -> str:
    """For people: the project of a scope."""
    return f"project {scope.resource_id.removeprefix(PREFIX)!r}"


def find_shared_file(path: Path) -> Path:
    """The shared file: the path itself, or for a folder the file with our name in it."""
    if path.is_dir():
        return path / FILE_NAME
    return path


def describe_lines(lines: dict[str, Json]) -> str:
    """For people: the numbers of each kind of line in a file."""
    there = [line for line in lines.values() if not is_gone(line)]
    replaced = sum(line.get("status") == "superseded" for line in there)
    standing = sum(line[RECORD] == "entry" for line in there) - replaced
    said = [f"{standing:,} {'entry' if standing == 1 else 'entries'}"]
    if replaced:
        said += [f"{replaced:,} that others took the place of"]
    if any(line[RECORD] == "document" for line in there):
        said += ["the profile"]
    if len(there) < len(lines):
        said += [f"{len(lines) - len(there):,} forgotten"]
    return ", ".join(said)


async def _list(settings: Settings, scope: Scope, target: Path | None) -> SharedLines:
    async with open_known_memory(settings, off="nothing can be exported", absent="nothing is stored") as engine:
        if target is not None:
            found = read_shared(engine, target)
        else:
            found = SharedLines()
        for line in (await list_shared(engine, scope)).values():
            add_line(found.lines, line)
        return found


def read_shared(engine: Engine, path: Path) -> SharedLines:
    """The entries that a file shares. Lines may be there twice and in any order, as merges leave them, and with the
    marks of a conflict around them: both sides count. Raises InvalidInput, LimitExceeded, OSError."""
    content = read_regular(str(path), MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise LimitExceeded(f"{path} has more than {MOST_BYTES:,} bytes, which are allowed")
    return SharedForms(engine).read(_number_lines(content.splitlines()))


def looks_shared(path: Path) -> bool:
    """Whether a file is one that projects share."""
    # Other endings belong to formats that are read elsewhere, and a large one need not be opened.
    if path.is_dir() or path.suffix not in (".jsonl", ".json", ".ndjson", ""):
        return False
    with open(open_regular(str(path)), "rb") as file:  # noqa: PTH123 - a descriptor
        # Three lines, since the first ones may be the marks of a merge conflict.
        for raw in (file.readline(1_000_000) for _ in range(3)):
            try:
                if raw.strip() and not raw.startswith(_MARKERS):
                    line = json.loads(raw)
                else:
                    line = {}
            except (ValueError, RecursionError):
                return False
            if isinstance(line, dict) and (line.get("format") == "layerlore-shared" or {"id", RECORD} <= line.keys()):
                return True
    return False


def _number_lines(raw: Iterable[bytes]) -> Iterator[NumberedLine]:
    for number, each in enumerate(raw, 1):
        if not each.strip() or each.startswith(_MARKERS):
            continue
        try:
            line = json.loads(each)
        except (ValueError, RecursionError) as error:
            raise InvalidInput(f"line {number} is no JSON: {error}; nothing of the file was taken in") from None
        if not isinstance(line, dict):
            raise InvalidInput(f"line {number} is no JSON object; nothing of the file was taken in")
        yield NumberedLine(number, line)


def _merges_by_union(target: Path) -> bool:
    """Whether a file beside it or above configures how git merges it, as far as the repository reaches; or there is
    none."""
    for folder in target.parents:
        attributes = folder / ".gitattributes"
        with contextlib.suppress(OSError):
            if b"merge=union" in read_regular(str(attributes), _MOST_ATTRIBUTES, follow=False):
                return True
        # Git reads no attributes above the repository.
        if (folder / ".git").exists():
            return False
    return True
