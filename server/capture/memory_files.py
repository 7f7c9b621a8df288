"""Synchronizes with the memory files of hosts: reads their new notes, and writes a short section about this memory into
their files.

Only the person's own files count, since others can change those of a repository. Links in a memory folder are not followed.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import get_args

from layerlore.memory.documents import working_memory
from layerlore.memory.documents.document_lines import list_lines
from layerlore.memory.engine.engine import Engine, WriteRequest
from layerlore.memory.moving.foreign_notes import ForeignNote, name_actor, put_notes
from layerlore.memory.moving.line_forms import ImportReport
from layerlore.memory.recall.memory_block import find_memory
from layerlore.memory.text.quotation import quote_line
from layerlore.server.capture.event_capture import run_apart
from layerlore.server.capture.host_events import HookCall
from layerlore.server.capture.memory_notes import (
    INDEX,
    MOST_FILES,
    MemoryFolder,
    SectionDamaged,
    drop_section,
    find_section,
    list_memory_files,
    mark_file,
    name_owner,
    put_section,
    read_lines,
    read_notes,
    read_text,
)
from layerlore.server.process.safe_files import UnsafeFile, remove_file, replacing
from layerlore.server.settings.project import find_repository
from layerlore.storage.core import linear_re
from layerlore.storage.core.records import Message, Origin, Scope
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import entries

log = logging.getLogger(__name__)

SECTION_TOKENS = 400
"""The host shows the section in each session, so it holds the profile and the newest entries only."""
_MOST_TRIES = 5
_PERSON_HEADING = "## What is remembered of the user"
_PROJECT_HEADING = "## What is remembered of this project"
_ABOUT = "Notes of earlier sessions, which may be out of date. The tool recall_memory finds more."
_BY_AGENTS = "Noted by agents or in files:"
# A sign in front of a path makes Claude Code read that file.
_IMPORT = linear_re.compile(r"(^|\s)@")
_NO_LETTER = linear_re.compile(r"[^A-Za-z0-9]")


@dataclass(frozen=True, slots=True)
class HostMemory:
    """A host's memory files for a session: the folders of its notes, the person's file, which each session reads, and the
    project's file if the host keeps one outside of the repository."""

    of: MemoryFolder
    folders: tuple[Path, ...]
    person: Path
    project: Path | None = None


def find_host_memory(call: HookCall) -> HostMemory | None:
    """The memory files of an event's host, located by its transcript; None for a host without such files."""
    transcript = Path(call.transcript)
    if call.host == "claude-code" and transcript.is_absolute() and transcript.parent.parent.name == "projects":
        projects = transcript.parent.parent
        # Claude Code names the folder of a project's memory after its repository, which all worktrees share, and that of a
        # transcript after the session's folder.
        top = find_repository(call.folder) if call.folder else ""
        named = [projects / _NO_LETTER.sub("-", top)] if top else []
        folders = tuple(dict.fromkeys(folder / "memory" for folder in (*named, transcript.parent)))
        return HostMemory("claude-memory", folders, projects.parent / "CLAUDE.md", folders[0] / INDEX)
    if call.host == "codex" and transcript.is_absolute():
        home = next((folder.parent for folder in transcript.parents if folder.name == "sessions"), None)
        if home is not None:
            return HostMemory("codex-memory", (home / "memories",), home / "AGENTS.md")
    return None


class MemoryFiles:
    """Synchronizes a memory with the files of hosts at their events."""

    def __init__(self) -> None:
        # The mark of each file when it was last read. A restarted server reads all files again, which stores nothing
        # twice.
        self._read: dict[tuple[Scope, str], str] = {}

    async def keep_in_step(self, engine: Engine, scope: Scope, call: HookCall) -> None:
        """Read what the host wrote, and write our sections. Raises StorageUnavailable, LimitExceeded."""
        found = await run_apart(lambda: find_host_memory(call))
        if found is None:
            return
        sent = WriteRequest(Origin(f"layerlore hook {call.host}", "hook", "local"))
        # Codex has one memory for all projects.
        owner = scope if found.of == "claude-memory" else scope.of_person
        for folder in found.folders:
            await self._read_folder(engine, owner, folder, found.of, sent)
        await _keep_section(engine, scope.of_person, found.person, None, sent)
        if scope.person and found.project is not None and await run_apart(found.project.parent.is_dir):
            await _keep_section(engine, scope, found.project, found.project.parent, sent)

    async def _read_folder(
        self, engine: Engine, scope: Scope, folder: Path, of: MemoryFolder, sent: WriteRequest
    ) -> None:
        for file, mark, notes in await run_apart(lambda: [*self._list_changed(scope, folder, of)]):
            await put_notes(engine, scope, notes, "merge", ImportReport(), sent, source=of)
            # Only after the notes are stored: an event that fails is tried again.
            self._read[scope, str(file)] = mark

    def _list_changed(
        self, scope: Scope, folder: Path, of: MemoryFolder
    ) -> Iterator[tuple[Path, str, list[ForeignNote]]]:
        if folder.is_symlink() or not folder.is_dir():
            return
        for file in list_memory_files(folder, of)[:MOST_FILES]:
            mark = mark_file(file)
            if not mark or self._read.get((scope, str(file))) == mark:
                continue
            try:
                notes = [*read_notes(read_text(file, follow=False), file, of)]
            except (OSError, UnicodeDecodeError, SectionDamaged) as error:
                log.warning("%s is passed over: %s", file, error)
                continue
            yield file, mark, notes


async def _keep_section(engine: Engine, scope: Scope, path: Path, top: Path | None, sent: WriteRequest) -> None:
    """Update our section of a file, after storing the lines that others wrote into it."""
    owner = name_owner(scope.tenant_id, scope.agent_id, scope.resource_id)
    for _ in range(_MOST_TRIES):
        try:
            before = await run_apart(lambda: _read(path, top))
            section = find_section(before or "")
            if section is not None and section.owner not in ("", owner):
                log.warning("%s has the section of another memory, so it stays as it is", path)
                return
            if section is not None and section.new_lines:
                notes = [*read_lines("\n".join(section.new_lines), path, "assistant")]
                await put_notes(engine, scope, notes, "merge", ImportReport(), sent, source="section")
            lines = await _render(engine, scope)
            made_file = section is not None and section.made_file
            after = put_section(before, lines, owner) if lines else drop_section(before or "")
            if after == (before or "") or await run_apart(partial(_write, path, top, before, after, made_file)):
                return
        except (OSError, UnicodeDecodeError, SectionDamaged) as error:
            log.warning("%s stays as it is: %s", path, error)
            return
    log.warning("%s is being changed by others all the time, so it stays as it is", path)


def _read(path: Path, top: Path | None) -> str | None:
    """The text of a file that we write; None if it does not exist. Raises UnsafeFile, OSError, UnicodeDecodeError."""
    try:
        return read_text(path, follow=top is None)
    except FileNotFoundError:
        if path.is_symlink():
            raise UnsafeFile(str(path), "it is a link that leads nowhere") from None
        return None


class _Changed(Exception):
    """The file was changed since it was read."""


def _write(path: Path, top: Path | None, before: str | None, after: str, made_file: bool) -> bool:
    """Replace a file; False if another program changed it since it was read. An empty text removes a file that we made.
    Raises OSError."""
    try:
        if not after and made_file:
            if _read(path, top) != before:
                return False
            remove_file(str(path), top=str(top or path.parent))
            return True
        with replacing(str(path), top=str(top or ""), mode=0o600) as file:
            file.write(after.encode())
            file.flush()
            # Checked at the last moment, since the host also writes the file.
            if _read(path, top) != before:
                raise _Changed
    except _Changed:
        return False
    return True


async def _render(engine: Engine, scope: Scope) -> list[str]:
    """The lines of a section: the profile and the entries that conversations see unasked, within the section's tokens.
    Entries from tools, the web and shared files stay out."""
    profile: list[str] = []
    if not scope.person:
        document = await working_memory.read_current(engine, scope, "resource")
        shown = working_memory.drop_expired_lines(document, engine.now())
        profile = list_lines(shown.content, is_json=shown.rules.format == "json")
    current = await engine.database.read(_find_entries, scope, engine)
    said = [*_plain(profile), *_texts(current, "user")]
    noted = [*_texts(current, "assistant")]
    head = [_PROJECT_HEADING if scope.person else _PERSON_HEADING, _ABOUT]
    left = SECTION_TOKENS - sum(engine.tokens.text(line) for line in (*head, _BY_AGENTS))
    lines: list[str] = []
    for title, texts in (("", said), (_BY_AGENTS, noted)):
        fitting: list[str] = []
        for text in dict.fromkeys(texts):
            line = f"- {_quote(engine.derived_text(text))}"
            left -= engine.tokens.text(line)
            if left < 0:
                break
            fitting.append(line)
        if fitting:
            lines += [title, *fitting] if title else fitting
    return [*head, *lines] if lines else []


async def _find_entries(tx: Tx, scope: Scope, engine: Engine) -> list[Message]:
    """The entries that conversations see unasked; of two that contradict each other, the newer one. Entries from a host's
    own memory files stay out, since they may concern one project, and all projects read the section."""
    kept = await find_memory(tx, engine, scope, None)
    rows = await entries.read_seen(tx, scope, [entry.id for entry in kept.entries])
    return [
        entry
        for entry in kept.entries
        if "newer" not in entry.metadata
        and entry.id in rows
        and not rows[entry.id].model.startswith(tuple(name_actor(folder) for folder in get_args(MemoryFolder)))
    ]


def _plain(lines: Iterable[str]) -> Iterator[str]:
    """The lines of a document without list or heading marks."""
    for line in lines:
        text = line.lstrip("-*#> ").strip()
        if text:
            yield text


def _texts(found: Sequence[Message], trust: str) -> Iterator[str]:
    return (str(entry.parts[0]["text"]) for entry in found if entry.metadata["trust"] == trust)


def _quote(text: str) -> str:
    """A stored text as one line that cannot end our section or make the host read another file."""
    return _IMPORT.sub(r"\1\\@", quote_line(text)).replace("<!--", "<\\!--").replace("-->", "--\\>")


def remove_section(path: Path, top: Path | None = None) -> bool:
    """Remove our section from a file, and the file if we made it. Returns whether there was a section. Raises OSError,
    SectionDamaged."""
    for _ in range(_MOST_TRIES):
        try:
            before = _read(path, top)
        except (UnsafeFile, UnicodeDecodeError):
            # We never write to a file that we cannot read, so it has no section.
            return False
        section = find_section(before or "")
        if before is None or section is None:
            return False
        if _write(path, top, before, drop_section(before), section.made_file):
            return True
    raise UnsafeFile(str(path), "it is being changed by others all the time; close what writes it")


def list_section_files(host: str, home: Path) -> Iterator[tuple[Path, Path | None]]:
    """The files in a host's folder that may have our section, each with the folder in which links are not followed."""
    if host == "claude-code":
        yield home / "CLAUDE.md", None
        for file in sorted(home.glob(f"projects/*/memory/{INDEX}")):
            yield file, file.parent
    if host == "codex":
        yield home / "AGENTS.md", None
