"""Notes of other programs, stored as entries of the caller's own word."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from layerlore.memory.engine.engine import Engine, WriteRequest
from layerlore.memory.entries.entries import normalize
from layerlore.memory.moving.line_forms import ImportReport
from layerlore.memory.text.echoes import strip_blocks
from layerlore.memory.text.quotation import make_visible
from layerlore.memory.text.trust import Trust
from layerlore.storage.core.records import Json, Scope
from layerlore.storage.core.transaction import Tx
from layerlore.storage.derived import entries
from layerlore.storage.derived.entries import Entry, content_hash
from layerlore.storage.moving import moved_entries
from layerlore.storage.moving.moved_entries import EntryOutcome, MovedEntry
from layerlore.storage.moving.moved_threads import Mode
from layerlore.storage.threads import events
from layerlore.storage.threads.events import NewEvent

_PROMPT = "import"
"""The name in place of an entry's prompt."""


@dataclass(frozen=True, slots=True)
class ForeignNote:
    """Something to remember on its own. ``about`` begins each piece of a text that is too long for one entry; ``at`` is in
    milliseconds, and so is ``expires_at``. ``file``: the file that it stands in, if others may change that file later."""

    text: str
    at: int
    about: str = ""
    resource: str = ""
    expires_at: int | None = None
    file: str = ""
    trust: Trust = "assistant"


@dataclass(frozen=True, slots=True)
class UnreadableItem:
    """Something that cannot be read: where it stands, and why."""

    where: str
    why: str


def name_actor(source: str) -> str:
    """The author that a note of this program gets; the file, if it has one, follows."""
    return f"import from {source}"


async def put_notes(
    engine: Engine,
    scope: Scope,
    notes: Sequence[ForeignNote],
    mode: Mode,
    report: ImportReport,
    sent: WriteRequest,
    *,
    source: str,
    dry_run: bool = False,
) -> None:
    """Store notes as entries, and count in the report what became of them. ``notes``: all of a file, or of no file.

    If the file has new notes, they take the place of those that it no longer has. A file without new notes takes nothing
    away: only an explicit delete does. Raises LimitExceeded beyond the quota, StorageUnavailable."""
    if not notes:
        return
    now, actor = engine.now(), name_actor(source)
    if notes[0].file:
        actor += f": {notes[0].file}"
    # A file may have the same note twice.
    found = {content: (min(note.at, now), note) for note in notes for content in _list_contents(engine, note, report)}
    moved = [MovedEntry(_make_entry(engine, actor, content, *each), ()) for content, each in found.items()]
    if dry_run:
        report.add("entry", "checked", len(moved))
        return
    # Ids are chosen before the write, so a repeated transaction writes the same entries.
    new_ids = {each.entry.entry_id: each.entry.entry_id for each in moved}
    puts: list[EntryOutcome] = []
    gone: list[str] = []

    async def unit(tx: Tx) -> Json:
        earlier = await moved_entries.list_of_actor(tx, scope, actor) if notes[0].file else []
        puts[:] = await moved_entries.put_entries(
            tx, scope, moved, mode, new_ids=new_ids, search_text=engine.search_text_of
        )
        ids = [put.entry_id for put in puts if put.status in ("added", "replaced")]
        # A line that the file had before is replaced, too, where only the file's time is later.
        new = [entry_id for entry_id in ids if entry_id not in earlier]
        there = {put.entry_id for put in puts}
        gone[:] = [entry_id for entry_id in earlier if new and entry_id not in there]
        if gone:
            await entries.supersede(tx, scope, gone, new[0], now=now)
        if ids:
            changed = NewEvent("entries_changed", {"ids": [*ids, *gone]})
            await events.record_of_resource(tx, scope, changed, origin=sent.origin, now=now)
        return {"entries": len(ids)}

    await engine.write(scope, sent, [], now, unit)
    for each, put in zip(moved, puts, strict=True):
        if put.status == "forgotten":
            report.skip("entry", each.entry.content[:60], "it was forgotten here, and stays so")
        else:
            report.add("entry", "unchanged" if put.status == "kept" else put.status)
    report.add("entry", "superseded", len(gone))


def _list_contents(engine: Engine, note: ForeignNote, report: ImportReport) -> Iterator[str]:
    """The entries of a note: as many as its length needs."""
    # A context shows stored texts in blocks, so a note must not bring such tags of its own.
    visible = strip_blocks(make_visible(note.text, engine.derived_text))
    text, masked = engine.masked(normalize(visible))
    longest = engine.entries.max_entry_length
    about, more = engine.masked(" ".join(note.about.split())[:200])
    report.masked += masked + more
    if about:
        beginning = f"{about[: longest // 2]}: "
    else:
        beginning = ""
    most = longest - len(beginning)
    while text:
        if len(text) <= most:
            end = len(text)
        else:
            # Cut at a space in the second half of the room, else in the middle of a word.
            end = text.rfind(" ", most // 2, most) + 1 or most
        yield beginning + text[:end].strip()
        text = text[end:]


def _make_entry(engine: Engine, actor: str, content: str, at: int, note: ForeignNote) -> Entry:
    return Entry(
        engine.new_id(),
        content,
        content_hash(content),
        None,
        "active",
        None,
        "caller",
        note.trust,
        actor,
        _PROMPT,
        at,
        at,
        expires_at=note.expires_at,
    )
