"""Rows as lines of an export, and lines as rows again, checked and masked as what enters by the tools is.

A line is a JSON object that says in ``record`` what it is. Times are milliseconds since 1970 (UTC); what is stored as JSON is JSON here, too.
``docs/moving.md`` describes each type.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, get_args

from layerlore.memory.engine.engine import Engine
from layerlore.memory.entries.remember_requests import KINDS
from layerlore.memory.moving.line_numbers import MOST_SMALL, is_number
from layerlore.memory.moving.work_lines import check_plan, check_run
from layerlore.memory.removal.content_forms import StoredContent
from layerlore.memory.rules.limits import Limits
from layerlore.memory.rules.validation import (
    check_json,
    check_text,
    describe,
    describe_choices,
)
from layerlore.memory.text.trust import TRUSTS
from layerlore.memory.work.plan_rules import MOST_BYTES
from layerlore.storage.core import linear_re
from layerlore.storage.core.content_columns import CONTENT
from layerlore.storage.core.damaged_values import value_of
from layerlore.storage.core.errors import InvalidInput, LimitExceeded
from layerlore.storage.core.json_text import to_json
from layerlore.storage.derived.entries import Origin
from layerlore.storage.moving.moved_tables import PLAN, RUN, MovedColumn, MovedTable, describe_columns
from layerlore.storage.moving.moved_threads import COUNTERS, CURSORS, DESCRIBED

Line = dict[str, Any]
"""A line of a file: a JSON object whose keys are names of columns, as its table has them (``docs/moving.md``)."""
FORMAT = "layerlore"
VERSION = 1
RECORD = "record"
"""The name in a line that says what it is."""

_ALLOWED: dict[tuple[str, str], Collection[str]] = {
    ("observations", "marker"): ("critical", "important", "info", "completion"),
    ("observations", "status"): ("buffered", "active", "superseded", "dropped"),
    ("observations", "trust"): TRUSTS,
    ("runs", "status"): ("running", "suspended", "completed", "failed", "cancelled"),
    ("session_memories", "change"): ("replace", "append", "restore", "clear", "cleared"),
    ("user_profiles", "change"): ("replace", "append", "restore", "clear", "cleared"),
    ("entries", "status"): ("active", "superseded", "wrong"),
    ("entries", "kind"): KINDS,
    ("entries", "origin"): get_args(Origin),
    ("entries", "trust"): TRUSTS,
}
_IDS = {"operation_id", "run_id", "actor", "tool", "type", "workflow_id", "entry_id", "superseded_by"}
_UID = linear_re.compile("[A-Za-z0-9-]{1,64}")
_STATE = (*COUNTERS, *CURSORS, "current_task", "next_step", "updated_at")
_ENTRY = (
    *("entry_id", "content", "kind", "status", "superseded_by", "origin", "trust", "model", "prompt", "created_at"),
    *("seen_at", "pinned_at", "expires_at", "unproven", "subject"),
)
THREAD_FIELDS = ("uid", "created_at", "updated_at", *DESCRIBED)


class LineForms:
    """Writes rows as lines, and reads lines as rows for an engine: with its limits, and masked as its ``redaction`` says."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._content = StoredContent(engine)
        self._most = _most_bytes(engine)

    def read_row(self, of: MovedTable, line: Line, where: str) -> tuple[dict[str, Any], int]:
        """The row of a line, by column as it is stored, and how many secrets were masked. Raises InvalidInput."""
        names = [name for name in of.columns if name != "thread_uid"]
        check_names(line, where, names, (RECORD, "thread", "sources"))
        row = self._read(of.table.name, names, of.json, line, where)
        if of is RUN:
            check_run(line, where, self._engine.limits)
        elif of is PLAN:
            check_plan(line.get("plan"), f"{where}.plan")
        return row

    def read_thread(self, line: Line, where: str) -> tuple[dict[str, Any], int]:
        """What describes a thread. Raises InvalidInput."""
        check_names(line, where, (RECORD, "thread", *THREAD_FIELDS))
        names = (*DESCRIBED, "created_at", "updated_at")
        found, masked = self._read("threads", names, frozenset({"metadata", "window_policy"}), line, where)
        if not isinstance(line.get("metadata", {}), dict):
            raise InvalidInput(f"{where}.metadata: must be an object, not {describe(line['metadata'])}")
        title = found["title"]
        if title is not None and len(title) > 2 * self._engine.limits.title_chars:
            raise LimitExceeded(f"{where}.title: {len(title):,} characters are too many")
        uid = line.get("uid")
        if not isinstance(uid, str) or not _UID.fullmatch(uid):
            raise InvalidInput(f"{where}.uid: must be 1 to 64 letters, digits and hyphens, not {describe(uid)}")
        return {**found, "uid": uid}, masked

    def read_state(self, line: Line, where: str) -> tuple[dict[str, Any], int]:
        """How far a thread has been counted and read. Raises InvalidInput."""
        check_names(line, where, (RECORD, "thread", *_STATE))
        return self._read("threads", _STATE, frozenset(), line, where)

    def read_entry(self, line: Line, where: str) -> tuple[dict[str, Any], int]:
        """An entry, without its sources. Raises InvalidInput."""
        check_names(line, where, (RECORD, "sources", *_ENTRY))
        found, masked = self._read("entries", _ENTRY, frozenset(), line, where)
        if not found["content"].strip() or len(found["content"]) > 2 * self._engine.entries.max_entry_length:
            most = self._engine.entries.max_entry_length
            raise LimitExceeded(
                f"{where}.content: {len(found['content']):,} characters; 1 to {most:,} are allowed in one entry"
            )
        return found, masked

    def _read(
        self, table: str, names: Iterable[str], json: Collection[str], line: Line, where: str
    ) -> tuple[dict[str, Any], int]:
        found: dict[str, Any] = {}
        masked = 0
        for column in describe_columns(table, names):
            name = column.name
            value = _check(table, column, line.get(name), f"{where}.{name}", name in json)
            if value is not None and (content := CONTENT.get(table, {}).get(name)) is not None:
                size, most = len(value.encode()), self._most.get((table, name), self._most["", ""])
                if size > most:
                    raise LimitExceeded(f"{where}.{name}: {size:,} bytes; at most {most:,} are allowed")
                if self._engine.redaction == "all" or (self._engine.redaction == "derived" and not content.as_sent):
                    value, count = self._content.mask(content.form, value)
                    masked += count
            found[name] = value
        return found, masked


def check_names(line: Line, where: str, known: Collection[str], also: Collection[str] = ()) -> None:
    """Raises InvalidInput for a name that lines of this type have not."""
    for name in line:
        if name not in known and name not in also:
            raise InvalidInput(f"{where}: unknown name {describe(name)}; {describe_choices(name, [*also, *known])}")


def _check(table: str, column: MovedColumn, value: Any, where: str, is_json: bool) -> Any:
    if value is None:
        if not column.nullable:
            raise InvalidInput(f"{where}: is missing")
        return None
    if is_json:
        # A run's state may hold any text but half a character: it is never looked into.
        if table != "runs":
            check_json(value, where, depth=65)
        return _exact(value, where)
    if column.is_number:
        if not is_number(value, MOST_SMALL if column.is_small else 2**53):
            most = 31 if column.is_small else 53
            raise InvalidInput(f"{where}: must be a whole number below 2^{most}, not {describe(value)}")
        return value
    text = check_text(value, where)
    allowed = _ALLOWED.get((table, column.name))
    if allowed is not None and text not in allowed:
        raise InvalidInput(f"{where}: unknown value {describe(text)}; {describe_choices(text, list(allowed))}")
    if column.name in _IDS and len(text) > 4096:
        raise LimitExceeded(f"{where}: {len(text):,} characters are too many")
    return text


def _exact(value: Any, where: str) -> str:
    try:
        text = to_json(value)
        text.encode()
    except (ValueError, RecursionError):
        raise InvalidInput(f"{where}: is no JSON that can be stored") from None
    return text


def _most_bytes(engine: Engine) -> dict[tuple[str, str], int]:
    """How long each column may be. Masking makes texts longer than they came in: twice of what a tool takes."""
    limits: Limits = engine.limits
    document = engine.working_memory.max_bytes
    most = {
        ("", ""): max(limits.message_text_bytes, MOST_BYTES),
        ("threads", "metadata"): limits.metadata_bytes,
        ("threads", "window_policy"): limits.metadata_bytes,
        ("runs", "metadata"): limits.metadata_bytes,
        ("runs", "state"): limits.run_state_bytes,
        ("runs", "pending"): limits.run_pending_bytes,
        ("runs", "resumed"): limits.run_state_bytes,
        ("runs", "output"): limits.run_data_bytes,
        ("steps", "body"): limits.step_bytes,
        ("events", "payload"): max(limits.step_bytes, MOST_BYTES),
        ("session_memories", "content"): document,
        ("user_profiles", "content"): document,
    }
    return {name: 2 * size for name, size in most.items()}


def make_row_line(of: MovedTable, row: Mapping[str, Any], **more: Any) -> Line:
    """The line of a row as it is stored. A column that is null is left out."""
    line: Line = {RECORD: of.line, **more}
    for name in of.columns:
        if name != "thread_uid" and row[name] is not None:
            line[name] = value_of(row[name]) if name in of.json else row[name]
    return line


def make_thread_line(row: Mapping[str, Any]) -> Line:
    """The line that a thread begins with."""
    line: Line = {RECORD: "thread", "thread": row["thread_id"], "uid": row["thread_uid"]}
    for name in ("created_at", "updated_at", *DESCRIBED):
        if row[name] is not None:
            line[name] = value_of(row[name]) if name in ("metadata", "window_policy") else row[name]
    return line


def make_state_line(row: Mapping[str, Any]) -> Line:
    """The line that a thread ends with."""
    line: Line = {RECORD: "thread_state", "thread": row["thread_id"]}
    return line | {name: row[name] for name in _STATE if row[name] is not None}


def check_header(line: Line) -> None:
    """Raises InvalidInput for a file that is no export of ours, or one of a later format."""
    if line.get("format") != FORMAT:
        raise InvalidInput(f"this is not an export of layerlore: its format is {describe(line.get('format'))}")
    version = line.get("version")
    if type(version) is not int or version > VERSION:
        raise InvalidInput(
            f"the file has version {version} of the format, and this program reads up to {VERSION}: update layerlore"
        )
