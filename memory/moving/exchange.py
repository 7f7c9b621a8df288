"""The exchange of the lines and the entries of a resource with those of others, in one transaction."""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from layerlore.memory.engine.engine import Engine, WriteRequest, said
from layerlore.memory.moving.line_forms import RECORD, ImportReport, Line
from layerlore.memory.moving.shared_lines import (
    DOCUMENT,
    ID,
    MOST_QUOTES,
    ORIGINS,
    SharedLines,
    is_gone,
    later,
    make_gone,
)
from layerlore.storage.core import scopes
from layerlore.storage.core.json_text import to_json, value_of
from layerlore.storage.core.records import Json, Origin, Scope
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import entries, entry_curation, note_rows, working_memory
from layerlore.storage.derived.entries import Entry, Status, content_hash, content_key
from layerlore.storage.derived.working_memory import Version
from layerlore.storage.messages import indexed_rows
from layerlore.storage.moving import moved_entries
from layerlore.storage.moving.moved_entries import SharedRow, StoredEntry
from layerlore.storage.threads import events
from layerlore.storage.threads.events import NewEvent

_READ = 200
_NAMED = 200


class SharedExchange:
    """The lines and the entries of a scope in one transaction, which holds the resource."""

    def __init__(self, tx: Tx, scope: Scope, engine: Engine, seed: str, now: int) -> None:
        self.report = ImportReport()
        self.touched: set[str] = set()
        self._tx = tx
        self._scope = scope
        self._engine = engine
        self._seed = seed
        self._now = now
        self._rows: dict[str, SharedRow] = {}
        self._lines: dict[str, Line] = {}
        self._ids: dict[str, set[str]] = {}
        self._entries: dict[str, StoredEntry] = {}
        self._by_content: dict[str, str] = {}
        self._changed: set[str] = set()
        self._pinned: list[str] = []
        self._accepts = False
        self._accepted: set[str] = set()
        self._unproven: set[str] = set()
        self._document: Version | None = None

    def list_lines(self) -> dict[str, Line]:
        """The entries that the scope shares now."""
        found = {id_: self._lines.get(id_) or make_gone(id_) for id_ in self._rows if id_ != DOCUMENT}
        document = self._document_line()
        if document is None:
            return found
        return {**found, DOCUMENT: document}

    async def begin(self) -> None:
        """Read what is shared, and bring into it what happened here since."""
        await scopes.hold(self._tx, self._scope)
        await self._read()
        for row in list(self._rows.values()):
            gone = row.entry_id is not None and row.entry_id not in self._entries
            # An entry that was erased here is forgotten for the others, too.
            if gone or (row.entry_id is not None and row.share_id not in self._lines):
                self._forget(row.share_id)
        shareable = sorted(entry_id for entry_id, found in self._entries.items() if found.is_shareable)
        for entry_id in self._entries.keys() - set(shareable):
            for id_ in list(self._ids.get(entry_id, ())):
                self._forget(id_)
        quotes = await self._read_quotes(shareable)
        for entry_id in [entry_id for entry_id in shareable if entry_id not in quotes]:
            await self._forget_unproven(entry_id)
        shareable = [entry_id for entry_id in shareable if self._entries[entry_id].is_shareable]
        for _ in range(2):  # The second time, what took another's place has its id.
            for entry_id in shareable:
                self._note(self._entries[entry_id].entry, quotes.get(entry_id, []))
        for entry_id in sorted({str(self._rows[id_].entry_id) for id_ in self._changed if id_ in self._lines}):
            await self._show(entry_id)
        await self._note_document()

    async def _read(self) -> None:
        for each in await moved_entries.read_entries(self._tx, self._scope):
            self._entries[each.entry.entry_id] = each
            # Under another hash lies what was erased, or what another entry says.
            if each.entry.content_hash == content_hash(each.entry.content):
                self._by_content[content_key(each.entry.content)] = each.entry.entry_id
        for row in await moved_entries.read_lines(self._tx, self._scope):
            self._rows[row.share_id] = row
            if row.line is not None and row.share_id != DOCUMENT:
                self._lines[row.share_id] = value_of(row.line)
            if row.entry_id is not None:
                self._ids.setdefault(row.entry_id, set()).add(row.share_id)

    async def end(self) -> None:
        """Store the lines that changed."""
        await moved_entries.put_lines(self._tx, self._scope, [self._rows[id_] for id_ in sorted(self._changed)])

    # Changes made here

    def _note(self, entry: Entry, quotes: Sequence[Json]) -> None:
        ids = self._ids.get(entry.entry_id, set())
        if not ids:
            self._write_own(entry, quotes)
            return
        standing = self._standing(ids)
        line = self._lines[standing]
        if content_key(line["content"]) != content_key(entry.content):
            for id_ in list(ids):
                self._forget(id_)
            self._write_own(entry, quotes)
            return
        ended = line["status"] == "superseded"
        own = self._rows[standing].own
        again = entry.status == "active" and (ended or (entry.seen_at > line["seen_at"] and not own))
        if again:
            self._write_own(entry, quotes)
        elif not self._says(entry, line) or (own and not all(quote in quotes for quote in line.get("quotes", []))):
            ends = entry.status == "superseded" and not ended
            for id_ in sorted(ids) if ends else [standing]:
                if self._lines[id_]["status"] == "active" or not ends:
                    self._write_again(id_, entry, quotes)

    async def _forget_unproven(self, entry_id: str) -> None:
        """Forget what an entry said here on the strength of messages that are gone; what others say of it stays."""
        own = [id_ for id_ in self._ids.get(entry_id, ()) if self._rows[id_].own and self._lines[id_].get("quotes")]
        for id_ in own:
            self._forget(id_)
        if own:
            self._unproven.add(entry_id)
            await self._show(entry_id)

    def _says(self, entry: Entry, line: Line) -> bool:
        said_here = (entry.content, entry.kind, entry.status, entry.seen_at, entry.expires_at)
        said_there = tuple(line.get(name) for name in ("content", "kind", "status", "seen_at", "expires_at"))
        by = line.get("superseded_by")
        # How far a line of others is trusted here is not said to them.
        trusted = not self._rows[line["id"]].own or entry.trust == line["trust"]
        return trusted and said_here == said_there and self._told(entry.superseded_by) == self._told(self._entry_of(by))

    def _write_own(self, entry: Entry, quotes: Sequence[Json]) -> None:
        id_ = entry.entry_id
        # A forgotten id stays forgotten in every copy of the file, so the entry needs another one.
        if id_ in self._rows or not ID.fullmatch(id_):
            id_ = self._make_id(id_)
        if entry.origin in ORIGINS:
            origin = entry.origin
        else:
            origin = "remembered"
        self._put(id_, entry.entry_id, True, self._describe(id_, entry, quotes, origin, entry.trust, entry.seen_at))

    def _write_again(self, id_: str, entry: Entry, quotes: Sequence[Json]) -> None:
        row, line = self._rows[id_], self._lines[id_]
        # Later than the line that it changes, even if the clock of this machine is behind.
        changed_at = max(entry.seen_at, line["changed_at"] + 1)
        if row.own:
            shown = list(quotes)
            trust = entry.trust
        else:
            shown = line.get("quotes", [])
            trust = line["trust"]
        described = self._describe(id_, entry, shown, line["origin"], trust, changed_at)
        self._put(id_, entry.entry_id, bool(row.own), described)

    def _describe(
        self, id_: str, entry: Entry, quotes: Sequence[Json], origin: str, trust: str, changed_at: int
    ) -> Line:
        line: Line = {
            "id": id_,
            RECORD: "entry",
            "status": entry.status,
            "superseded_by": self._id_of(entry.superseded_by),
            "changed_at": changed_at,
            "created_at": entry.created_at,
            "seen_at": entry.seen_at,
            "kind": entry.kind,
            "origin": origin,
            "trust": trust,
            "expires_at": entry.expires_at,
            "content": entry.content,
            "quotes": list(quotes) or None,
        }
        return {name: value for name, value in line.items() if value is not None}

    async def _read_quotes(self, entry_ids: Sequence[str]) -> dict[str, list[Json]]:
        """The words that entries rest on, as far as their messages are here."""
        found: dict[str, list[Json]] = {}
        for at in range(0, len(entry_ids), _READ):
            sources = await entries.sources_of(self._tx, self._scope, entry_ids[at : at + _READ])
            places = [(source.thread_uid, source.seq) for some in sources.values() for source in some]
            if places:
                read = await indexed_rows.messages_of(self._tx, self._scope, places)
            else:
                read = {}
            for entry_id, some in sources.items():
                for source in some[:MOST_QUOTES]:
                    message = read.get((source.thread_uid, source.seq))
                    if message:
                        text = said(self._engine, message)[source.starts : source.ends]
                    else:
                        text = ""
                    if message and text:
                        quote = {"text": text, "label": source.label, "said_at": message.said_at}
                        found.setdefault(entry_id, []).append(quote)
        return found

    # Lines of others

    async def take(self, lines: Mapping[str, Line], origin: Origin, *, accept: bool) -> None:
        """Have the scope follow these lines."""
        self._accepts = accept
        moved: set[str] = set()
        for id_, line in sorted(lines.items()):
            if id_ == DOCUMENT:
                await self._take_document(line, origin)
                continue
            outcome = self._meet(id_, line)
            if outcome == "skipped":
                why = "it would change what the user said or pinned, which stays; --accept lets it"
                self.report.skip("entry", f"the line {id_}", why)
            else:
                self.report.add("entry", outcome)
            if accept and id_ in self._lines:
                self._accept(str(self._rows[id_].entry_id))
            if outcome in ("added", "forgotten"):
                moved |= {id_}
        # The entry here that an id leads to is another one now, or none.
        for id_, line in self._lines.items():
            if line.get("superseded_by") in moved:
                self.touched.add(str(self._rows[id_].entry_id))
        # One that was not exported may be exported again, under an id that none of these lines name.
        followed = {entry_id for entry_id, found in self._entries.items() if found.entry.superseded_by in self.touched}
        self.touched |= {entry_id for entry_id in followed if self._ids.get(entry_id)}
        for entry_id in sorted(self.touched):
            await self._show(entry_id)
        await self._hand_on_pins()
        if self.touched:
            happened = NewEvent("entries_changed", {"ids": sorted(self.touched)[:_NAMED]})
            await events.record_of_resource(self._tx, self._scope, happened, origin=origin, now=self._now)

    def _meet(self, id_: str, line: Line) -> str:
        row, known = self._rows.get(id_), self._lines.get(id_)
        if is_gone(line):
            if known is None:
                if row is None:
                    self._keep(SharedRow(id_, None, 0, None))
                return "unchanged"
            if row is not None and self._is_held(str(row.entry_id)):
                return "skipped"
            self.touched.add(self._forget(id_))
            return "forgotten"
        # It was forgotten here, which beats any other line of the id.
        if known is None and row is not None:
            return "unchanged"
        if known is not None and later(known, line) == known:
            return "unchanged"
        key = content_key(line["content"])
        if known is not None and row is not None and self._is_held(str(row.entry_id)):
            same = (line["status"], key) == (known["status"], content_key(known["content"]))
            if same:
                return "unchanged"
            return "skipped"
        before = None
        if row is not None:
            before = self._forget(id_)
            self.touched.add(before)
        entry_id = self._by_content.get(key)
        if entry_id is None:
            entry_id = id_ if id_ not in self._entries else self._make_id(id_)
            self._by_content[key] = entry_id
        self._put(id_, entry_id, bool(row and row.own and entry_id == before), line)
        self.touched.add(entry_id)
        if row is None:
            return "added"
        return "replaced"

    def _is_held(self, entry_id: str) -> bool:
        """Whether the user said or pinned an entry, so that only a line that the user accepts can change it."""
        known = self._entries.get(entry_id)
        if known is None or not known.is_shareable or self._accepts or entry_id in self._unproven:
            return False
        return known.entry.trust == "user" or known.entry.pinned_at is not None

    def _accept(self, entry_id: str) -> None:
        self._accepted.add(entry_id)
        known = self._entries.get(entry_id)
        if known is not None and known.entry.trust == "shared":
            self.touched.add(entry_id)

    async def _hand_on_pins(self) -> None:
        """Have what took the place of pinned entries be pinned in their stead."""
        for old in self._pinned:
            by = self._entries[old].entry.superseded_by
            # Entries may have taken each other's place in a circle.
            passed = {old}
            while by is not None and by not in passed and by in self._entries:
                if self._entries[by].entry.status == "active":
                    await entry_curation.inherit_pin(self._tx, self._scope, by, [old], now=self._now)
                    break
                passed.add(by)
                by = self._entries[by].entry.superseded_by

    async def _show(self, entry_id: str) -> None:
        """Have an entry be what its lines say."""
        ids, known = self._ids.get(entry_id), self._entries.get(entry_id)
        if ids and self._is_held(entry_id):
            return
        if ids:
            line = self._lines[self._standing(ids)]
            own = all(self._rows[id_].own for id_ in ids)
            shown = self._make_entry(entry_id, known, line, own=own)
        elif known is None or not known.is_shareable:
            return
        else:
            shown = replace(known.entry, status="dropped", superseded_by=None, seen_at=self._now)
        if known is None:
            await moved_entries.add_entry(self._tx, self._scope, shown, search_text=self._engine.search_text_of)
        elif shown != known.entry:
            await moved_entries.change_entry(self._tx, self._scope, shown, search_text=self._engine.search_text_of)
        self._entries[entry_id] = StoredEntry(shown, shown.status != "dropped")
        if shown.status == "superseded" and shown.pinned_at and known is not None and known.entry.status == "active":
            self._pinned.append(entry_id)
        if shown.status == "dropped" and self._engine.deleted_days == 0:
            await entries.erase(self._tx, self._scope, [entry_id])

    def _make_entry(self, entry_id: str, there: StoredEntry | None, line: Line, *, own: bool) -> Entry:
        if there is not None:
            known = there.entry
        else:
            known = None
        stays = there is not None and there.is_shareable and entry_id not in self._unproven
        if there is not None and stays:
            trust = there.entry.trust
        else:
            trust = "shared"
        if known and (known.origin == "caller" or own):
            origin = known.origin
        else:
            origin = "shared"
        if entry_id in self._accepted and trust != "user":
            if line["trust"] != "shared":
                trust = line["trust"]
            else:
                trust = "user"
            if known and own:
                origin = known.origin
            else:
                origin = "caller"
        return Entry(
            entry_id,
            line["content"],
            known.content_hash if known else content_hash(line["content"]),
            line.get("kind"),
            cast(Status, line["status"]),
            self._entry_of(line.get("superseded_by")),
            origin,
            trust,
            known.model if known else "import",
            known.prompt if known else "",
            known.created_at if known else line["created_at"],
            line["seen_at"],
            known.pinned_at if known and known.status in ("active", "superseded") else None,
            line.get("expires_at"),
            known.unproven if known else None,
            known.subject if known else None,
        )

    # Ids and lines

    def _standing(self, ids: Collection[str]) -> str:
        """The id of the line that says what an entry is: one that is active before those that are not, then the one
        seen last."""

        def place(id_: str) -> tuple[Any, ...]:
            line = self._lines[id_]
            return line["status"] == "active", line["seen_at"], to_json(line)

        return max(ids, key=place)

    def _entry_of(self, id_: str | None) -> str | None:
        """The entry here that an id everywhere leads to: none once it was forgotten, even if its own entry has another
        line by now."""
        if id_ is not None:
            row = self._rows.get(id_)
        else:
            row = None
        if row is not None:
            return row.entry_id
        return id_

    def _told(self, entry_id: str | None) -> str | None:
        """This entry, if the file has it."""
        if entry_id is not None and self._ids.get(entry_id):
            return entry_id
        return None

    def _id_of(self, entry_id: str | None) -> str | None:
        """The shared id of an entry here, made for one that has no line yet; none for an entry that is not shared."""
        ids = self._ids.get(entry_id or "", ())
        if entry_id is None or entry_id in ids:
            return entry_id
        if ids:
            return min(ids)
        known = self._entries.get(entry_id)
        if ID.fullmatch(entry_id) and (known is None or known.is_shareable):
            return entry_id
        return None

    def _make_id(self, known: str) -> str:
        return hashlib.sha256(f"{self._seed} {known}".encode()).hexdigest()[:32]

    def _keep(self, row: SharedRow) -> None:
        self._rows[row.share_id] = row
        self._changed.add(row.share_id)

    def _put(self, id_: str, entry_id: str, own: bool, line: Line) -> None:
        self._keep(SharedRow(id_, entry_id, int(own), to_json(line)))
        self._lines[id_] = line
        self._ids.setdefault(entry_id, set()).add(id_)

    def _forget(self, id_: str) -> str:
        """Forget a line for good; the entry that said it."""
        entry_id = str(self._rows[id_].entry_id)
        self._keep(SharedRow(id_, None, 0, None))
        self._lines.pop(id_, None)
        self._ids[entry_id].discard(id_)
        return entry_id

    # The document

    async def _note_document(self) -> None:
        self._document = await working_memory.read_newest(self._tx, self._scope, None)
        row, version = self._rows.get(DOCUMENT), self._document.version if self._document else 0
        if row is None and not (self._document and self._document.content):
            return
        if row is None or row.own != version:
            if row is not None:
                last = _changed_at(row) + 1
            else:
                last = 0
            self._stamp(max(last, self._document.created_at if self._document else 0))

    def _stamp(self, changed_at: int) -> None:
        if self._document:
            version = self._document.version
        else:
            version = 0
        self._keep(SharedRow(DOCUMENT, None, version, to_json({"changed_at": changed_at})))

    def _document_line(self) -> Json | None:
        row = self._rows.get(DOCUMENT)
        if row is None:
            return None
        if self._document:
            content = self._document.content
        else:
            content = ""
        line = {"id": DOCUMENT, RECORD: "document", "changed_at": _changed_at(row)}
        if content:
            return {**line, "content": content}
        return line

    async def _take_document(self, line: Line, origin: Origin) -> None:
        known = self._document_line()
        if known is not None and later(known, line) == known:
            self.report.add("profile", "unchanged")
            return
        content = line.get("content", "")
        why = self._refuse(content)
        if not self._accepts and content != (self._document.content if self._document else ""):
            why = why or "others wrote it, so it is not shown as the user's; with --accept it takes the place of yours"
        if why:
            self.report.skip("profile", "the profile", why)
            return
        if content != (self._document.content if self._document else ""):
            changed = await working_memory.change(
                self._tx,
                self._scope,
                "",
                lambda *_: content,
                how="replace" if content else "clear",
                expected_version=None,
                erase=not content and self._engine.deleted_days == 0,
                origin=origin,
                new_uid="",
                now=self._now,
            )
            self._document = changed.after
            await note_rows.refresh_document(self._tx, self._scope, None, self._engine.search_text_of)
            if changed.after:
                version = changed.after.version
            else:
                version = 0
            happened = NewEvent("profile_updated", {"scope": "resource", "version": version, "mode": "replace"})
            await events.record_of_resource(self._tx, self._scope, happened, origin=origin, now=self._now)
        self._stamp(line["changed_at"])
        self.report.add("profile", "added" if known is None else "replaced")

    def _refuse(self, content: str) -> str:
        """Why a document cannot be the resource's; empty: it can."""
        most = self._engine.working_memory.max_bytes
        if len(content.encode()) > most:
            return f"it has more than {most:,} bytes (working_memory.max_bytes)"
        is_json = self._engine.working_memory.of("resource").format == "json"
        if content and is_json and not isinstance(value_of(content), dict):
            return "it is text, and this server keeps the profile as JSON"
        return ""


def _changed_at(row: SharedRow) -> int:
    if row.line is not None:
        return int(value_of(row.line)["changed_at"])
    return 0


BATCH = 2_000
"""Lines that one transaction takes in."""


async def list_shared(engine: Engine, scope: Scope) -> dict[str, Line]:
    """The lines that a scope shares, by their ids, with what happened since they were last asked for."""
    seed, now = engine.new_id(), engine.now()
    found: dict[str, Line] = {}

    async def unit(tx: Tx, of: Scope) -> None:
        exchange = SharedExchange(tx, of, engine, seed, now)
        await exchange.begin()
        await exchange.end()
        # The database may run the unit again, and the lines of a first run must not stay.
        found.clear()
        found.update(exchange.list_lines())

    await engine.database.write(unit, scope)
    return found


async def take_shared(
    engine: Engine, scope: Scope, given: SharedLines, sent: WriteRequest, *, accept: bool = False, dry_run: bool = False
) -> ImportReport:
    """Have a scope follow lines that others share, and say what became of each. ``accept``: the user vouches for them, so
    that they count as this machine's own. Raises LimitExceeded beyond the quota, StorageUnavailable."""
    report = ImportReport(masked=given.masked)
    ids = sorted(given.lines)
    for at in range(0, len(ids), BATCH):
        some = {id_: given.lines[id_] for id_ in ids[at : at + BATCH]}
        taken = await _take_some(engine, scope, some, sent, accept=accept, dry_run=dry_run)
        for kind, outcomes in taken.counts.items():
            for outcome, number in outcomes.items():
                report.add(kind, outcome, number)
        for each in taken.skipped:
            report.skip(each.kind, each.where, each.why, 0)
    return report


class _Undone(Exception):
    """A dry run ends its transaction with it."""


async def _take_some(
    engine: Engine, scope: Scope, lines: Mapping[str, Line], sent: WriteRequest, *, accept: bool, dry_run: bool
) -> ImportReport:
    seed, now = engine.new_id(), engine.now()
    found = [ImportReport()]

    async def unit(tx: Tx) -> dict[str, int]:
        exchange = SharedExchange(tx, scope, engine, seed, now)
        await exchange.begin()
        await exchange.take(lines, sent.origin, accept=accept)
        await exchange.end()
        found[:] = [exchange.report]
        return {"entries": len(exchange.touched)}

    async def tried(tx: Tx, _: Scope) -> None:
        await unit(tx)
        raise _Undone

    if dry_run:
        try:
            await engine.database.write(tried, scope)
        except _Undone:
            return found[0]
    await engine.write(scope, sent, [], now, unit)
    return found[0]
