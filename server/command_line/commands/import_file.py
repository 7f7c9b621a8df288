"""``layerlore import``: stores the content of an export, or of another program's files. It stores the conversations of other
programs as add_messages does, and their notes as entries with the trust of the caller's own word."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Annotated, Any, Literal

import typer

from layerlore.extraction.kinds.titles import shorten
from layerlore.memory.engine.engine import Engine, WriteRequest
from layerlore.memory.messages import addition
from layerlore.memory.messages.threads import update_thread
from layerlore.memory.moving.exchange import take_shared
from layerlore.memory.moving.foreign_notes import ForeignNote, UnreadableItem, put_notes
from layerlore.memory.moving.imports import Import
from layerlore.memory.moving.line_forms import ImportReport, NumberedLine
from layerlore.memory.parts.message_shapes import parse_messages
from layerlore.memory.rules.validation import Limits, check_new_id
from layerlore.server.access.credentials import LOCAL_TENANT
from layerlore.server.command_line.commands.export import Project
from layerlore.server.command_line.known_database import look_at_own_database
from layerlore.server.command_line.options import AsJson, TenantOption, fail, print_json, read_settings
from layerlore.server.command_line.owner import describe_scope, scope_of
from layerlore.server.command_line.sharing import (
    describe_project,
    find_project_scope,
    find_shared_file,
    looks_shared,
    read_shared,
)
from layerlore.server.command_line.suggestions import complete
from layerlore.server.command_line.tables import Came, print_table, show_progress
from layerlore.server.foreign.chat_exports import ForeignConversation
from layerlore.server.foreign.formats import FORMATS, Format, ReadProgress, find_format, list_resources, read_foreign
from layerlore.server.relay.server_query import mask_controls
from layerlore.server.runtime.engines import close_engine, open_engine
from layerlore.server.settings.project import is_project
from layerlore.server.settings.settings import Settings
from layerlore.storage.audit.stored_bytes import Quota
from layerlore.storage.core.errors import Conflict, InvalidInput, NotFound
from layerlore.storage.core.records import Json, Origin, Scope, Thread
from layerlore.storage.core.transaction import Tx
from layerlore.storage.messages import message_pages
from layerlore.storage.moving import moved_threads
from layerlore.storage.moving.moved_threads import Mode
from layerlore.storage.threads import threads

_TRANSCRIPTS = ("claude-code", "codex")
_NOTES = 100


class ForeignImport:
    """Stores conversations and notes one after the other. ``place``: returns the scope for a resource of the file; "" is
    content that belongs to no particular person. ``dry_run``: store nothing."""

    def __init__(
        self,
        engine: Engine,
        place: Callable[[str], Scope],
        mode: Mode,
        sent: WriteRequest,
        *,
        source: str,
        dry_run: bool = False,
    ) -> None:
        self.report = ImportReport()
        self._engine = engine
        self._place = place
        self._mode = mode
        self._sent = sent
        self._source = source
        self._dry = dry_run
        self._notes: list[ForeignNote] = []
        self._tried: dict[tuple[str, int], str] = {}

    async def take(self, found: ForeignConversation | ForeignNote | UnreadableItem) -> None:
        """Store an item of the file. Raises InvalidInput for resources that must not be mixed, LimitExceeded beyond the
        quota, and StorageUnavailable."""
        if isinstance(found, UnreadableItem):
            self.report.skip("unread", found.where, found.why)
        elif isinstance(found, ForeignNote):
            # A batch belongs to one resource, since a transaction writes to one scope, and to one file, since the new notes
            # of a file replace its old ones.
            last = self._notes[-1] if self._notes else found
            if (last.resource, last.file) != (found.resource, found.file):
                await self._store_notes()
            self._notes.append(found)
            if len(self._notes) >= _NOTES and not found.file:
                await self._store_notes()
        else:
            await self._store_conversation(found)

    async def finish(self) -> ImportReport:
        """Store the last batch of notes, and return the report."""
        await self._store_notes()
        return self.report

    async def _store_conversation(self, found: ForeignConversation) -> None:
        scope = self._place(found.resource)
        try:
            check_new_id(found.thread_id, "its id", self._engine.limits.thread_id_chars)
        except InvalidInput as error:
            self.report.skip("thread", found.title or found.thread_id, str(error))
            return
        before = await self._find(scope, found.thread_id)
        # Checked one by one, so that a bad message is reported and the rest of the conversation stored.
        said = [*self._list_fit(found)]
        if self._source in _TRANSCRIPTS:
            said = await self._leave_out_copied(scope, found.thread_id, said)
        if self._dry:
            await self._count_new(scope, before, said)
            self.report.add("thread", "unchanged" if before else "added")
            return
        added = 0
        most = self._engine.limits.messages_per_call
        for at in range(0, len(said), most):
            added += await self._add(scope, found.thread_id, said[at : at + most])
        if added or (before is not None and before.title is None):
            await self._describe(scope, found, before, said)
        if said:
            self.report.add("thread", "unchanged" if before else "added")

    async def _leave_out_copied(self, scope: Scope, thread_id: str, said: Sequence[Json]) -> list[Json]:
        """The messages without those that a forked session has copied from a stored one."""
        times = {each["id"]: each["created_at"] for each in said if each["created_at"] is not None}
        copied = (await self._engine.database.read(message_pages.find_copied, scope, thread_id, times)).ids
        if self._dry:
            # A dry run stores nothing, so this dictionary remembers the earlier messages of the file.
            for each, at in times.items():
                if self._tried.setdefault((each, at), thread_id) != thread_id:
                    copied.add(each)
        self.report.add("message", "unchanged", len(copied))
        return [each for each in said if each["id"] not in copied]

    async def _find(self, scope: Scope, thread_id: str) -> Thread | None:
        try:
            return await self._engine.database.read(threads.find, scope, thread_id)
        except NotFound:
            return None

    def _list_fit(self, found: ForeignConversation) -> Iterator[Json]:
        """The messages that can be stored, with long texts split into several. The report names the others."""
        ids: set[str] = set()
        for message in found.messages:
            for piece in _cut(message, self._engine.limits):
                try:
                    parse_messages([piece], self._engine.limits)
                except InvalidInput as error:
                    why = str(error).removeprefix("messages[0]").lstrip(".: ")
                    self.report.skip("message", f"{found.thread_id} {piece.get('id', '')}", why)
                    continue
                # A file may have a message twice.
                if piece["id"] not in ids:
                    ids.add(piece["id"])
                    yield piece

    async def _count_new(self, scope: Scope, thread: Thread | None, said: Sequence[Json]) -> None:
        ids = [each["id"] for each in said]
        known = []
        if thread:
            known = await self._engine.database.read(message_pages.ids_there, scope, thread.thread_uid, ids)
        self.report.add("message", "added", len(ids) - len(known))
        self.report.add("message", "unchanged", len(known))

    async def _add(self, scope: Scope, thread_id: str, said: list[Json]) -> int:
        """Add messages. One that conflicts with a stored message does not block the others. Returns the number of new ones."""
        replaces = self._mode == "overwrite"
        try:
            answer = await addition.add_messages(
                self._engine, scope, thread_id, said, replace=replaces, sent=self._sent
            )
        # Messages are added one by one then, so that the report can name the one with the conflict.
        except Conflict as error:
            if len(said) > 1:
                return sum([await self._add(scope, thread_id, [each]) for each in said])
            self.report.skip("message", f"{thread_id} {said[0]['id']}", str(error))
            return 0
        for each in answer["messages"]:
            self.report.add("message", each["status"])
        if gone := answer.get("skipped_deleted"):
            self.report.skip("message", f"{thread_id} {gone[0]}", "it was deleted here, and stays so", len(gone))
        self.report.masked += answer.get("masked", 0)
        return sum(each["status"] == "added" for each in answer["messages"])

    async def _describe(
        self, scope: Scope, found: ForeignConversation, before: Thread | None, said: Sequence[Json]
    ) -> None:
        """Give a thread its title, its metadata, and the times of its messages."""
        # An existing title may be the user's own.
        if found.title and (before is None or before.title is None):
            title = shorten(found.title, self._engine.limits.title_chars)
            metadata = found.metadata if before is None else None
            await update_thread(self._engine, scope, found.thread_id, title=title, metadata=metadata, sent=self._sent)
        thread = await self._find(scope, found.thread_id)
        times = [each["created_at"] for each in said if each.get("created_at") is not None]
        if thread is None or not times:
            return
        # The parser converts any form of time into milliseconds. A message needs some text.
        ends = [{"role": "user", "content": "x", "created_at": at} for at in (times[0], times[-1])]
        first, last = (each.created_at or 0 for each in parse_messages(ends, Limits()))
        now, uid = self._engine.now(), thread.thread_uid
        earlier = before.updated_at if before else None

        async def unit(tx: Tx) -> Json:
            # A time in the future would keep the thread on top of the list.
            await moved_threads.put_times(tx, scope, uid, first=first, last=min(last, now), before=earlier)
            return {}

        await self._engine.write(scope, self._sent, [], now, unit)

    async def _store_notes(self) -> None:
        notes, self._notes = self._notes, []
        if notes:
            scope = self._place(notes[0].resource)
            await put_notes(
                self._engine,
                scope,
                notes,
                self._mode,
                self.report,
                self._sent,
                source=self._source,
                dry_run=self._dry,
            )


def _cut(message: Json, limits: Limits) -> Iterator[Json]:
    """A message, or several if its texts are longer than one message may be."""
    most = limits.message_text_bytes // 4  # a character has four bytes at most
    parts = message["parts"]
    if sum(len(part.get("text", "")) for part in parts) <= most:
        yield message
        return
    pieces: list[Json] = []
    for part in parts:
        if part["type"] != "text":
            pieces.append(part)
            continue
        text = part["text"]
        pieces += [{**part, "text": text[at : at + most]} for at in range(0, len(text), most)]
    for number, piece in enumerate(pieces):
        yield {**message, "id": f"{message['id']}-{number + 1}" if number else message["id"], "parts": [piece]}


STANDARD_INPUT = "-"
MOST_LINE_BYTES = 64 * 1024 * 1024
"""One line of an export holds one message at most."""
SHOWN = 20
"""Without --json, at most this many reasons for items that were left out are printed."""
_BATCH_LINES = 250
_BATCH_BYTES = 2 * 1024 * 1024
_OUTCOMES = ("added", "unchanged", "replaced", "forgotten", "skipped", "checked")


@dataclass(frozen=True, slots=True)
class ImportRequest:
    """The source of an import, and its options. ``source``: the program of the file; "": recognize it. ``project``: import
    into this project's memory; "": that of the settings. ``everyone``: import each agent and resource of the file under its
    own name. ``accept``: shared entries count as the user's own."""

    tenant: str
    file: str
    source: str
    mode: Mode
    project: str
    everyone: bool
    accept: bool
    dry_run: bool
    as_json: bool


def run_import(settings: Settings, request: ImportRequest) -> int:
    """Import a file, and print the report. Returns the exit code: 1 if the file ended too early.

    Raises InvalidInput, LimitExceeded beyond the quota, StorageUnavailable, DatabaseTooNew or OSError.
    """
    return asyncio.run(_import(settings, request))


async def _import(settings: Settings, request: ImportRequest) -> int:
    if settings.memory != "on":
        raise InvalidInput(f"memory is {settings.memory}: nothing is stored, and so nothing can be imported")
    if request.project:
        scope = find_project_scope(settings, request.tenant, request.project)
    else:
        scope = scope_of(settings, request.tenant)
    _check_owner(scope)
    source = _find_source(request)
    async with _open(settings, dry_run=request.dry_run) as engine:
        placing, sent = _ScopeChoice(scope, request), _sent(settings, request)
        # Only an export marks its end.
        ended = True
        if source == "shared":
            given = read_shared(engine, find_shared_file(_path(request)))
            report = await take_shared(engine, scope, given, sent, accept=request.accept, dry_run=request.dry_run)
        elif source == "layerlore":
            taking = Import(
                engine, placing.place, request.mode, sent, expect=placing.expect_scopes, dry_run=request.dry_run
            )
            report = await _import_lines(request, taking)
            ended = taking.ended
        else:
            placing.expect_resources(await asyncio.to_thread(list_resources, _path(request), source))
            storing = ForeignImport(
                engine, placing.place_resource, request.mode, sent, source=source, dry_run=request.dry_run
            )
            report = await _import_foreign(settings, request, source, storing)
    _print(request, scope, source, report)
    if not ended:
        sys.stderr.write("layerlore: the file ends in the middle: what is in it was stored, and the rest is missing\n")
        return 1
    return 0


def _check_owner(scope: Scope) -> Scope:
    """The scope, if something may be stored in it. Raises InvalidInput, LimitExceeded."""
    names = (("tenant", scope.tenant_id), ("agent", scope.agent_id), ("resource", scope.resource_id))
    for name, value in names:
        check_new_id(value, name, Limits().id_chars)
    return scope


def _path(request: ImportRequest) -> Path:
    return Path(request.file).expanduser()


def _find_source(request: ImportRequest) -> Format:
    if request.file == STANDARD_INPUT:
        if request.source not in ("", "layerlore"):
            raise InvalidInput(f"an import from {request.source} needs a file, and no standard input")
        if request.accept:
            raise InvalidInput("--accept needs the file that a project shares, and no standard input")
        return "layerlore"
    path = _path(request)
    if not request.source:
        path = find_shared_file(path)
    # A project's file looks like an export, so it is checked before the other formats.
    if request.source == "shared" or (path.is_file() and not request.source and looks_shared(path)):
        if not request.project:
            raise InvalidInput(
                f"{request.file} is what a project shares: --project auto (that of this folder) or --project NAME says whose "
                "memory takes it in"
            )
        return "shared"
    if request.accept:
        raise InvalidInput(f"--accept is for what a project shares, and {request.file} is another kind of file")
    return next((each for each in FORMATS if each == request.source), None) or find_format(_path(request))


async def _import_lines(request: ImportRequest, taking: Import) -> ImportReport:
    try:
        source = sys.stdin.buffer if request.file == STANDARD_INPUT else _path(request).open("rb")
        with source, show_progress("import", _size(source)) as came:
            await _take_lines(taking, source, came)
        return await taking.finish()
    # Also after a failure, since a batch may still be in progress.
    finally:
        await taking.settle()


async def _import_foreign(
    settings: Settings, request: ImportRequest, source: Format, storing: ForeignImport
) -> ImportReport:
    progress = ReadProgress()
    found = read_foreign(_path(request), source, settings.capture, progress)
    stored = storing.report
    with show_progress("import", _path_size(_path(request))) as came:
        # The reader parses large files and blocks, so each step runs in a thread.
        while (each := await asyncio.to_thread(next, found, None)) is not None:
            await storing.take(each)
            came(progress.done, f"{stored.count('message'):,} messages, {stored.count('entry'):,} entries")
        return await storing.finish()


def _path_size(path: Path) -> int | None:
    """The size of a file; None if its reader does not report the position."""
    if path.suffix in (".json", ".zip") and path.is_file():
        return path.stat().st_size
    return None


@asynccontextmanager
async def _open(settings: Settings, *, dry_run: bool) -> AsyncIterator[Engine]:
    """Open the engine. It creates a missing database, except in a dry run."""
    if dry_run and not (await look_at_own_database(settings)).exists:
        settings = settings.model_copy(update={"memory": "off"})
    engine = await open_engine(settings)
    try:
        yield engine
    finally:
        await close_engine(engine)


def _sent(settings: Settings, request: ImportRequest) -> WriteRequest:
    rates = settings.rates
    quota = None
    # The person at this machine has no quota. Other tenants keep theirs, also on the command line.
    if request.tenant != LOCAL_TENANT and (rates.tenant_stored_bytes or rates.resource_stored_bytes):
        quota = Quota(rates.tenant_stored_bytes, rates.resource_stored_bytes)
    return WriteRequest(Origin("command line", "import", "command:import"), quota=quota)


class _ScopeChoice:
    """Chooses the scope in which each scope of the file is stored."""

    def __init__(self, scope: Scope, request: ImportRequest) -> None:
        self._scope = scope
        self._asked = request
        self._first: Scope | None = None

    def expect_scopes(self, scopes: int) -> None:
        """Check, before anything is stored, that an export with this number of scopes can be stored."""
        if scopes > 1 and not self._asked.everyone:
            raise InvalidInput(
                "the file holds several agents or resources: --everyone stores each as one of the tenant's own; nothing was "
                "stored"
            )

    def expect_resources(self, resources: Sequence[str]) -> None:
        """Check, before anything is stored, that a file with these resources can be stored."""
        if len(resources) > 1 and not self._asked.everyone:
            raise InvalidInput(
                f"the file holds memories of {len(resources):,} people ({', '.join(map(repr, resources[:SHOWN]))}): --everyone "
                "stores each as one of the tenant's own; nothing was stored"
            )

    def place_resource(self, resource: str) -> Scope:
        """The scope for another program's content about a resource; "" is content about no particular person."""
        if not resource:
            return self._scope
        return self.place(Scope("", self._scope.agent_id, resource))

    def place(self, named: Scope) -> Scope:
        """The scope for an export's content of a scope."""
        if self._asked.everyone:
            return _check_owner(Scope(self._scope.tenant_id, named.agent_id, named.resource_id))
        # The content of two owners in one memory could never be separated again.
        if self._first not in (None, named):
            raise InvalidInput(
                "the file holds several agents or resources: --everyone stores each as one of the tenant's own; what came "
                f"before {describe_scope(named)} was stored"
            )
        self._first = named
        return self._scope


def _size(source: IO[bytes]) -> int | None:
    try:
        name = source.name
        if isinstance(name, str):
            return Path(name).stat().st_size
        # A pipe has a number instead of a name, and no size.
        return None
    except (AttributeError, OSError):
        return None


async def _take_lines(taking: Import, source: IO[bytes], came: Came) -> None:
    number = done = 0
    while True:
        lines, number, size = await asyncio.to_thread(_read_some, source, number)
        if not size:
            return
        await taking.take(lines)
        done += size
        came(done, f"{taking.report.count('message'):,} messages")


def _read_some(source: IO[bytes], number: int) -> tuple[list[NumberedLine], int, int]:
    """The next lines, the number of the last one, and their bytes; 0 bytes at the end."""
    found: list[NumberedLine] = []
    size = 0
    # Each batch is one transaction, so its lines and bytes are limited.
    while len(found) < _BATCH_LINES and size < _BATCH_BYTES:
        raw = source.readline(MOST_LINE_BYTES)
        if not raw:
            break
        number += 1
        size += len(raw)
        if not raw.strip():
            continue
        found.append(_read_line(raw, number))
    return found, number, size


def _read_line(raw: bytes, number: int) -> NumberedLine:
    try:
        line = json.loads(raw)
    except (ValueError, RecursionError):
        # A last line without a line end shows that the file was cut off.
        return NumberedLine(number, {}, "it is no JSON" if raw.endswith(b"\n") else "it is cut off")
    if not isinstance(line, dict):
        return NumberedLine(number, {}, "it is no JSON object")
    return NumberedLine(number, line)


def _print(request: ImportRequest, scope: Scope, source: Format, report: ImportReport) -> None:
    if request.as_json:
        print_json({"from": source, "dry_run": request.dry_run, **report.show()})
        return
    if is_project(scope.resource_id):
        whose = describe_project(scope)
    else:
        whose = describe_scope(scope)
    if request.everyone:
        whose = f"all agents and resources of tenant {scope.tenant_id!r}"
    what = f"{request.file} ({source})"
    sys.stdout.write(f"{'would import' if request.dry_run else 'imported'} {what} for {whose}\n")
    used = [name for name in _OUTCOMES if any(counts[name] for counts in report.counts.values())]
    rows = [
        [kind, *(f"{counts[name]:,}" if counts[name] else "" for name in used)]
        for kind, counts in report.counts.items()
        if counts.total()
    ]
    if rows:
        print_table(("kind", *used), rows, numbers=used)
    if report.masked:
        sys.stdout.write(f"{report.masked:,} secrets were masked\n")
    for each in report.skipped[:SHOWN]:
        if each.count > 1:
            times = f" (and {each.count - 1:,} more)"
        else:
            times = ""
        why = complete(each.why)
        sys.stdout.write(mask_controls(f"left out: {each.kind}, {each.where}: {why}") + f"{times}\n")
    if len(report.skipped) > SHOWN:
        sys.stdout.write(f"and {len(report.skipped) - SHOWN:,} more reasons; --json lists them\n")


def import_(
    flags: dict[str, Any],
    file: Annotated[
        str,
        typer.Argument(help="An export, or what another program keeps; - is standard input.", show_default=False),
    ],
    from_: Annotated[
        Format | None,
        typer.Option("--from", help="The program that the file is from. Default: as it looks.", show_default=False),
    ] = None,
    existing: Annotated[
        Literal["merge", "overwrite", "skip"],
        typer.Option(
            help="Of two things under one id: merge keeps the newer, overwrite what the file has, skip what is stored."
        ),
    ] = "merge",
    project: Project = "",
    everyone: Annotated[
        bool, typer.Option("--everyone", help="Store each agent and resource of the file as one of the tenant's.")
    ] = False,
    accept: Annotated[
        bool, typer.Option("--accept", help="Trust what a project's shared file holds as your own words.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Store nothing: only show what would be stored.")] = False,
    tenant: TenantOption = LOCAL_TENANT,
    as_json: AsJson = False,
) -> int:
    """Store what a file holds. It stores nothing twice, so it can be repeated, and says what it leaves out and why."""
    if project and everyone:
        return fail("import takes --project or --everyone, not both", 2)
    request = ImportRequest(tenant, file, from_ or "", existing, project, everyone, accept, dry_run, as_json)
    return run_import(read_settings(flags), request)
