"""Redaction of what is stored already: secrets in rows that were written before a pattern was known, or before anything
was masked.

It goes through all content in short transactions while others write. A run that was stopped in the middle can be
repeated: what was masked stays masked."""

import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import Any

from layerlore.memory.engine import journal_lines
from layerlore.memory.engine.engine import Engine, said, work_on_long_text
from layerlore.memory.engine.journal_lines import WriteOutcome
from layerlore.memory.observations import observation_text
from layerlore.memory.removal.erasure import rewrite_if_owed
from layerlore.storage.core import installation
from layerlore.storage.core.errors import LimitExceeded
from layerlore.storage.core.json_text import parts_of, to_json
from layerlore.storage.core.records import Json, Message, Origin, Scope
from layerlore.storage.core.tables.columns import CONTENT, Form
from layerlore.storage.core.transaction import ErasedBytes, Tx
from layerlore.storage.messages import indexed_rows, place_rows
from layerlore.storage.removal import masked_rows
from layerlore.storage.removal.masked_rows import Change, StoredChanges, StoredRow
from layerlore.storage.threads import events
from layerlore.storage.threads.events import NewEvent

MaskedValue = tuple[Any, int]


class StoredContent:
    """Masks what is stored with the patterns that are known now, whatever ``redaction`` is set to."""

    def __init__(self, engine: Engine) -> None:
        self._entering = replace(engine, redaction="all")
        self._of: dict[Form, Callable[[Any], MaskedValue]] = {
            "json": self._json,
            "parts": self._entering.masked_parts,
            "body": self._body,
            "window": self._window,
        }

    def mask(self, form: Form, stored: str) -> tuple[str, int]:
        """A column's value with its secrets masked, and how many there were; if none exist, the very same.

        JSON stays JSON. Masking what is masked changes nothing.
        """
        if form == "text" or (form == "document" and not _is_object(stored)):
            return self._entering.redactor.text(stored)
        try:
            value = json.loads(stored)
        except (ValueError, RecursionError):  # damaged on the disk: what is left of it is text
            return self._entering.redactor.text(stored)
        try:
            clean, count = self._of.get(form, self._json)(value)
        except (AttributeError, LookupError, TypeError):  # damaged, too: JSON that is not of its form
            clean, count = self._json(value)
        if count:
            return (to_json(clean), count)
        return (stored, 0)

    def _json(self, value: Any) -> MaskedValue:
        """Data that resumers brought, and the like, lies deeper than sent data may: then each level by itself,
        down to where it does not."""
        try:
            return self._entering.masked(value)
        except LimitExceeded:
            if isinstance(value, list):
                items = [self._json(item) for item in value]
                return [item for item, _ in items], sum(count for _, count in items)
            fields = [(*self._json(key), *self._json(item)) for key, item in value.items()]
            return {key: item for key, _, item, _ in fields}, sum(one + two for _, one, _, two in fields)

    def _body(self, body: Json) -> MaskedValue:
        return self._fields({name: value for name, value in body.items() if name != "message_id"}, body)

    def _fields(self, masked: Json, whole: Json) -> tuple[Json, int]:
        """Each value on its own, so that a name of ours is not a context of it."""
        found = {name: self._json(value) for name, value in masked.items()}
        clean = {**whole, **{name: value for name, (value, _) in found.items()}}
        return clean, sum(count for _, count in found.values())

    def _window(self, policy: Json | str) -> MaskedValue:
        if isinstance(policy, str):  # the name of a profile
            return policy, 0
        # Predefined messages are masked like a thread's messages, so that equal parts get equal results.
        rest = {name: value for name, value in policy.items() if name != "predefined"}
        clean, total = self._fields(rest, policy)
        said = []
        for message in policy.get("predefined", ()):
            spoken, in_name = self._fields({"name": message["name"]} if "name" in message else {}, message)
            parts, in_parts = self._entering.masked_parts(message["parts"])
            said.append({**spoken, "parts": parts})
            total += in_name + in_parts
        return {**clean, **({"predefined": said} if said else {})}, total


def _is_object(stored: str) -> bool:
    """Whether a document is a JSON object as we write it, and no text that happens to look like one."""
    if not stored.startswith("{"):
        return False
    try:
        read = json.loads(stored)
        return isinstance(read, dict) and to_json(read) == stored
    except (ValueError, RecursionError):
        return False


BATCH = 32
"""Rows of one transaction, at most: others that write wait for it."""
_SCOPES = 500

ReportRows = Callable[[int], None]
"""Receives how many rows a batch looked at."""


@dataclass(frozen=True, slots=True)
class RedactionResult:
    """The masked rows, or (``dry_run``) those that would be masked: by table how many rows, and how many secrets were
    in them.

    ``search_rows`` are messages that stay as they were sent and are only indexed anew. ``left`` says that there may be
    such: ``redaction`` is ``derived``, and not everything was requested. ``bytes`` is what became of those of the
    secrets; None where nothing was to be changed.
    """

    rows: Mapping[str, int]
    secrets: Mapping[str, int]
    left: bool
    dry_run: bool
    bytes: ErasedBytes | None


async def redact(
    engine: Engine,
    of: Callable[[Scope], bool],
    *,
    everything: bool = False,
    dry_run: bool = False,
    origin: Origin,
    report: ReportRows = lambda rows: None,
) -> RedactionResult:
    """Mask the secrets in all that is stored in the scopes that ``of`` takes, with the patterns that are known now;
    ``report`` receives how many rows each batch looked at. A dry run counts the same and changes nothing.

    Where ``redaction`` is ``derived``, the sent text stays as it is unless ``everything`` is requested, and only
    what was made of it is masked. Where it is ``off``, all is masked: that was requested. Raises StorageUnavailable.
    """
    left = engine.redaction == "derived" and not everything
    work = _Redaction(engine, StoredContent(engine), left, dry_run, origin, report)
    async for scope in _scopes(engine):
        if not of(scope):
            continue
        before = work.rows.total()
        for table in CONTENT:
            await work.go_through(scope, table)
        if work.rows.total() > before and not dry_run:
            # Caches still hold the old texts, and the masked rows need new vectors.
            engine.forget_texts(scope)
            if engine.embedding is not None:
                engine.written.notify(scope)
    if dry_run:
        rest = None
    else:
        rest = await rewrite_if_owed(engine)
    return RedactionResult(work.rows, work.secrets, left, dry_run, rest)


async def _scopes(engine: Engine) -> AsyncIterator[Scope]:
    after = Scope("", "", "")
    while some := await engine.database.read(place_rows.scopes_after, after, _SCOPES):
        for scope in some:
            yield scope
        after = some[-1]


@dataclass(slots=True)
class _Redaction:
    """A redaction in progress: what it has masked so far, and how it goes on."""

    engine: Engine
    content: StoredContent
    left: bool
    dry_run: bool
    origin: Origin
    report: ReportRows
    rows: Counter[str] = field(default_factory=Counter)
    secrets: Counter[str] = field(default_factory=Counter)

    async def go_through(self, scope: Scope, table: str) -> None:
        """Mask the rows of a table in a scope."""
        forms = {name: each.form for name, each in CONTENT[table].items() if not (self.left and each.as_sent)}
        act = partial(self._mask, scope, table, forms)
        if table == "messages" and self.left:
            # Under "derived" the sent text stays, and only its search text loses the secrets.
            act = partial(self._index, scope)
        elif not forms:
            return
        after = None
        while page := await self.engine.database.read(masked_rows.page, scope, table, after=after, most=BATCH):
            self.report(len(page))
            if not await act(page):
                continue  # another caller changed one of them meanwhile
            if len(page) < BATCH:
                break
            after = page[-1].key

    async def _mask(self, scope: Scope, table: str, forms: Mapping[str, Form], page: Sequence[StoredRow]) -> bool:
        """Mask the rows of a page. False if one is another by now."""
        found = await work_on_long_text(self._changes, table, forms, page)
        if self.dry_run:
            self._count(table, [change for _, change in found])
            return True
        done = 0
        # Each thread has its own transaction, since its lock and its events belong to the change.
        for uid, some in groupby(found, key=lambda each: each[0]):
            made = await self._put(scope, table, uid, [change for _, change in some])
            self._count(table, made)
            done += len(made)
        return done == len(found)

    def _changes(self, table: str, forms: Mapping[str, Form], page: Sequence[StoredRow]) -> list[tuple[str, Change]]:
        """The thread of each row with a secret (empty: it hangs on none), and what the row is to be."""
        found: list[tuple[str, Change]] = []
        for row in page:
            masked = {
                name: self.content.mask(form, row.values[name])
                for name, form in forms.items()
                if row.values[name] is not None
            }
            after = {name: value for name, (value, count) in masked.items() if count}
            if after:
                secrets = sum(count for _, count in masked.values())
                change = Change(row.key, {name: row.values[name] for name in after}, after, secrets)
                # An event of the resource may name a thread, but is not one of its rows.
                if table == "resource_events":
                    uid = ""
                else:
                    uid = row.values.get("thread_uid", "")
                found.append((uid, self._counted(table, row, change)))
        return sorted(found, key=lambda each: each[0])

    def _counted(self, table: str, row: StoredRow, change: Change) -> Change:
        """The change with tokens counted anew, and with what a message's needs besides."""
        tokens = self.engine.tokens
        after = {**row.values, **change.after}
        counted: Json = {}
        if table == "observations":
            child = after["parent_id"] is not None
            line = observation_text.render_line(
                after["marker"], after["said_at"], after["text"], after["refers_to"], child=child
            )
            counted = {"tokens": tokens.text(line + "\n")}
        elif table == "summaries":
            counted = {"tokens": tokens.text(after["text"])}
        elif table == "messages":
            if "parts" in change.after:
                counted = {"tokens": tokens.parts(parts_of(after["parts"])), "encoding": tokens.name}
            # Evidence is stored as offsets into the text, which move with the masks. The revision catches a change
            # meanwhile.
            before = {**change.before, "revision": row.values["revision"]}
            moved = partial(_move_evidence, self.engine, row.values["parts"], after["parts"])
            change = replace(change, before=before, moved=moved)
        return replace(change, after={**change.after, **counted})

    async def _put(self, scope: Scope, table: str, uid: str, changes: Sequence[Change]) -> list[Change]:
        """Store the changes, with events that record them. Returns those that were made."""
        engine, now = self.engine, self.engine.now()

        async def unit(tx: Tx) -> tuple[list[Change], WriteOutcome]:
            put = await masked_rows.put(tx, scope, table, uid, changes, search_text=engine.search_text_of, now=now)
            if put.made:
                await self._tell(tx, scope, table, uid, put, now)
            masked = sum(change.secrets for change in put.made)
            return put.made, WriteOutcome("done", {"rows": len(put.made), "masked": masked})

        return await journal_lines.write(engine.database, engine.hmac_key, scope, self.origin, now, unit)

    async def _tell(self, tx: Tx, scope: Scope, table: str, uid: str, put: StoredChanges, now: int) -> None:
        happened = NewEvent("memory_redacted", {"what": table, "rows": len(put.made)})
        if put.thread is not None:
            await events.record(tx, scope, put.thread, [happened], origin=self.origin, now=now)
        if not uid or (table == "threads" and put.thread is not None):
            await events.record_of_resource(tx, scope, happened, thread_uid=uid or None, origin=self.origin, now=now)

    def _count(self, table: str, changes: Sequence[Change]) -> None:
        if changes:
            self.rows[table] += len(changes)
            self.secrets[table] += sum(change.secrets for change in changes)

    async def _index(self, scope: Scope, page: Sequence[StoredRow]) -> bool:
        """Index those messages of a page anew whose secrets can still be searched for."""
        for row in page:
            secrets, words = await work_on_long_text(self._in_index, row)
            uid, seq = row.key
            if not words or not await self.engine.database.read(masked_rows.is_indexed_with, scope, uid, seq, words):
                continue
            if not self.dry_run:
                await self._index_anew(scope, uid, seq)
            self.rows["search_rows"] += 1
            self.secrets["search_rows"] += secrets
        return True

    def _in_index(self, row: StoredRow) -> tuple[int, list[str]]:
        """How many secrets a message has, and the words that it has of them alone."""
        stored = row.values
        if stored["deletion_uid"] is not None:
            return 0, []
        forms = {name: each.form for name, each in CONTENT["messages"].items() if stored[name] is not None}
        secrets = sum(self.content.mask(form, stored[name])[1] for name, form in forms.items())
        if not secrets:
            return 0, []
        message = _make_message(stored["name"], stored["parts"])
        # Words of the sent text that the masked one lacks belong to the secrets.
        sent, shown = (
            {word for chunk in engine.search_text_of(message).chunks for word in chunk.split()}
            for engine in (replace(self.engine, redaction="off"), self.engine)
        )
        return secrets, sorted(sent - shown)

    async def _index_anew(self, scope: Scope, uid: str, seq: int) -> None:
        engine, now = self.engine, self.engine.now()

        async def unit(tx: Tx) -> tuple[None, WriteOutcome]:
            done = await indexed_rows.rebuild_rows(tx, scope, uid, [seq], engine.search_text_of)
            # The old words remain in free pages of the file until it is rewritten.
            await installation.owe_rewrite(tx)
            return None, WriteOutcome("done", {"rows": done})

        await journal_lines.write(engine.database, engine.hmac_key, scope, self.origin, now, unit)


def _make_message(name: str | None, parts: str) -> Message:
    """A message with only the fields that its text is made of."""
    return Message("", 0, "", "user", name, parts_of(parts), {}, 0, "", 0, 0, 1)


def _move_evidence(engine: Engine, before: str, after: str, starts: int, ends: int) -> tuple[int, int]:
    """Find where evidence of a message stands in its masked text: the same words, as often after their like as before;
    where a secret's end cuts them, the whole text, in which they stand too."""
    # The text that offsets were counted in: what was masked where it entered is masked in it.
    if engine.redaction == "derived":
        as_sent = engine
    else:
        as_sent = replace(engine, redaction="off")
    old, new = (said(each, _make_message(None, parts)) for each, parts in ((as_sent, before), (engine, after)))
    excerpt = old[starts:ends]
    masked = engine.redactor.text(excerpt)[0]
    at = -1
    for _ in range(_count_occurrences(old[: max(0, ends - 1)], excerpt) + 1):
        at = new.find(masked, at + 1)
        if at < 0:
            return 0, len(new)
    return at, at + len(masked)


def _count_occurrences(text: str, sought: str) -> int:
    """How often a text is in another, overlapping included."""
    count, at = 0, text.find(sought)
    while at >= 0:
        count, at = count + 1, text.find(sought, at + 1)
    return count
