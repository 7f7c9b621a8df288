"""The lines of a file that several machines share through git: one for each thing, under an id that it has everywhere.

Between two lines with one id, a rule that needs nothing else decides which is later: one that says it was forgotten
beats all, one that says another took its place beats those that do not, then the one changed last, then the greater
text. So a file is a set of lines, and two memories that read the same lines, in any order and any number of times, are
equal.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from layerlore.memory.engine.engine import Engine
from layerlore.memory.entries.evidence import LABELS
from layerlore.memory.entries.remember_requests import KINDS
from layerlore.memory.moving.line_forms import RECORD, Line, NumberedLine, check_names, is_number
from layerlore.memory.removal.stored_redaction import StoredContent
from layerlore.memory.rules.validation import check_text, describe, describe_choices
from layerlore.memory.text.trust import TRUSTS
from layerlore.storage.core import linear_re
from layerlore.storage.core.errors import InvalidInput, LimitExceeded
from layerlore.storage.core.json_text import to_json
from layerlore.storage.core.records import Json

FORMAT = "layerlore-shared"
VERSION = 1
DOCUMENT = "profile"
"""The id of the resource's document."""
ORIGINS = ("extracted", "remembered", "caller")
MOST_QUOTES = 20

ID = linear_re.compile("[A-Za-z0-9-]{1,64}")
_ENTRY = (
    *("id", RECORD, "status", "superseded_by", "changed_at", "created_at", "seen_at", "kind", "origin", "trust"),
    *("expires_at", "content", "quotes"),
)
_DOCUMENT = ("id", RECORD, "changed_at", "content")


@dataclass(slots=True)
class SharedLines:
    """Lines by their ids, one for each; how many secrets were masked in them."""

    lines: dict[str, Line] = field(default_factory=dict)
    masked: int = 0


def is_gone(line: Line) -> bool:
    """Whether a line says no more than that something was forgotten."""
    return bool(line[RECORD] == "forgotten")


def make_gone(id_: str) -> Line:
    """The line of what was forgotten: nothing but its id."""
    return {"id": id_, RECORD: "forgotten"}


def later(one: Line, other: Line) -> Line:
    """The one of two lines of an id that counts."""
    # It depends on the two lines alone, so every machine chooses the same one.
    return max(one, other, key=_rank)


def _rank(line: Line) -> tuple[bool, bool, int, str]:
    if is_gone(line):
        return True, False, 0, ""
    return False, line.get("status") == "superseded", line["changed_at"], to_json(line)


def add_line(lines: dict[str, Line], line: Line) -> None:
    """Add a line, unless one of its id is there that counts."""
    known = lines.get(line["id"])
    lines[line["id"]] = line if known is None else later(known, line)


def render_lines(lines: Mapping[str, Line]) -> Iterator[str]:
    """The lines of a file: a header, which is always the same, and each in the order of its text."""
    yield to_json({"format": FORMAT, RECORD: "header", "version": VERSION}) + "\n"
    # Sorted, so that git shows a change only where a line changed.
    for line in sorted(map(to_json, lines.values())):
        yield line + "\n"


class SharedForms:
    """Reads lines of a file for an engine: with its limits, and masked as its ``redaction`` says."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._content = StoredContent(engine)

    def read(self, lines: Iterable[NumberedLine]) -> SharedLines:
        """The result of a file's lines, in any order. Raises InvalidInput, naming the line, for one that is
        not as it must be."""
        found = SharedLines()
        for each in lines:
            line, where = each.line, f"line {each.number}"
            if line.get(RECORD) == "header":
                _check_header(line)
                continue
            read, masked = self._read(line, where)
            found.masked += masked
            add_line(found.lines, read)
        return found

    def _read(self, line: Line, where: str) -> tuple[Line, int]:
        id_, record = line.get("id"), line.get(RECORD)
        if not isinstance(id_, str) or not ID.fullmatch(id_):
            raise InvalidInput(f"{where}.id: must be 1 to 64 letters, digits and hyphens, not {describe(id_)}")
        if record in _RECORDS and (id_ == DOCUMENT) != (record == "document"):
            raise InvalidInput(f"{where}.id: the document is {DOCUMENT!r}, and nothing else is")
        if record == "forgotten":
            check_names(line, where, ("id", RECORD))
            return make_gone(id_), 0
        if record == "document":
            return self._read_document(line, where)
        if record == "entry":
            return self._read_entry(line, where)
        raise InvalidInput(f"{where}: unknown record {describe(record)}; {describe_choices(str(record), _RECORDS)}")

    def _read_document(self, line: Line, where: str) -> tuple[Line, int]:
        check_names(line, where, _DOCUMENT)
        _check_time(line, "changed_at", where)
        content, masked = self._text(
            line.get("content", ""), f"{where}.content", 2 * self._engine.working_memory.max_bytes
        )
        return self._made(_DOCUMENT, line, masked, {"content": content} if content else {})

    def _read_entry(self, line: Line, where: str) -> tuple[Line, int]:
        check_names(line, where, _ENTRY)
        for name in ("changed_at", "created_at", "seen_at"):
            _check_time(line, name, where)
        if line.get("expires_at") is not None:
            _check_time(line, "expires_at", where)
        for name, allowed in _WORDS.items():
            if (name != "kind" or line.get(name) is not None) and line.get(name) not in allowed:
                why = describe_choices(str(line.get(name)), list(allowed))
                raise InvalidInput(f"{where}.{name}: unknown value {describe(line.get(name))}; {why}")
        by = line.get("superseded_by")
        if by is not None and (not isinstance(by, str) or not ID.fullmatch(by)):
            raise InvalidInput(f"{where}.superseded_by: must be an id, not {describe(by)}")
        most = 2 * self._engine.entries.max_entry_length
        # A character has at most four bytes.
        content, masked = self._text(line.get("content"), f"{where}.content", 4 * most)
        if not content.strip() or len(content) > most:
            raise LimitExceeded(
                f"{where}.content: {len(content):,} characters; 1 to {most // 2:,} are allowed in one entry"
            )
        quotes, in_quotes = self._read_quotes(line.get("quotes", []), f"{where}.quotes")
        given = {"content": content, **({"quotes": quotes} if quotes else {})}
        return self._made(_ENTRY, line, masked + in_quotes, given)

    def _read_quotes(self, quotes: object, where: str) -> tuple[list[Json], int]:
        if not isinstance(quotes, list) or len(quotes) > MOST_QUOTES:
            raise InvalidInput(f"{where}: must be a list of at most {MOST_QUOTES}")
        found, total = [], 0
        for at, quote in enumerate(quotes):
            if not isinstance(quote, dict):
                raise InvalidInput(f"{where}[{at}]: must be an object, not {describe(quote)}")
            check_names(quote, f"{where}[{at}]", ("text", "label", "said_at"))
            _check_time(quote, "said_at", f"{where}[{at}]")
            if quote.get("label") not in LABELS:
                raise InvalidInput(f"{where}[{at}].label: unknown value {describe(quote.get('label'))}")
            text, masked = self._text(
                quote.get("text"), f"{where}[{at}].text", 2 * self._engine.limits.message_text_bytes
            )
            found.append({"text": text, "label": quote["label"], "said_at": quote["said_at"]})
            total += masked
        return found, total

    def _text(self, value: object, where: str, most: int) -> tuple[str, int]:
        text = check_text(value, where)
        size = len(text.encode())
        if size > most:
            raise LimitExceeded(f"{where}: {size:,} bytes; at most {most:,} are allowed")
        if self._engine.redaction == "off":
            return (text, 0)
        return self._content.mask("document", text)

    def _made(self, names: tuple[str, ...], line: Line, masked: int, given: Json) -> tuple[Line, int]:
        """The line in its one form. Masking is a change of its own, so that it takes the secret's place."""
        found = {**{name: value for name, value in line.items() if value is not None}, **given}
        for name in ("content", "quotes"):
            if name not in given:
                found.pop(name, None)
        if masked:
            found["changed_at"] += 1
        # One order of names, since lines are compared as texts.
        return {name: found[name] for name in names if name in found}, masked


_RECORDS = ["entry", "document", "forgotten"]
_WORDS = {"status": ("active", "superseded"), "kind": KINDS, "origin": ORIGINS, "trust": TRUSTS}


def _check_time(line: Line, name: str, where: str) -> None:
    # Half of what a number may be, so that it can be counted on from.
    if not is_number(line.get(name), 2**52):
        raise InvalidInput(f"{where}.{name}: must be a time in milliseconds, not {describe(line.get(name))}")


def _check_header(line: Line) -> None:
    if line.get("format") != FORMAT:
        raise InvalidInput(f"this is no file that a project shares: its format is {describe(line.get('format'))}")
    version = line.get("version")
    if type(version) is not int or version > VERSION:
        raise InvalidInput(
            f"the file has version {version} of the format, and this program reads up to {VERSION}: update layerlore"
        )
