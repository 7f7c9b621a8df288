"""Limits and checks of what a caller sends: text, JSON, ids, numbers and times. Each error names the place and what is
allowed."""

import asyncio
import difflib
import json
import math
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, ClassVar, NoReturn

from pydantic import Field

from layerlore.memory.settings.context_settings import Bytes, Section
from layerlore.storage.core import linear_re
from layerlore.storage.core.errors import InvalidInput, LimitExceeded
from layerlore.storage.core.json_text import to_json
from layerlore.storage.core.records import Json, StoredJson


class Limits(Section):
    """How much a caller may send, and be sent. Every value is the largest that is still accepted; texts count in UTF-8,
    JSON as written compactly."""

    thread_id_chars: ClassVar[int] = 255
    title_chars: ClassVar[int] = 255
    name_chars: ClassVar[int] = 255
    id_chars: ClassVar[int] = 255

    message_text_bytes: Bytes = Field(
        default=256 * 1024, ge=1, description="One message without its images and files: everything but base64."
    )
    message_media_bytes: Bytes = Field(
        default=3 * 1024 * 1024,
        ge=0,
        description="Images and files inside one message, as base64: 4 characters for 3 bytes.",
    )
    messages_per_call: int = Field(default=100, ge=1, le=10_000, description="Messages in one add_messages.")
    metadata_bytes: Bytes = Field(default=16 * 1024, ge=2, description="Metadata of a message or a thread, as JSON.")
    json_depth: int = Field(
        default=64, ge=1, le=64, description="Lists and objects inside one another: `[]` is 1 deep, `[[]]` 2."
    )
    query_bytes: Bytes = Field(
        default=2048, ge=1, description="A question; of a longer one its beginning and its end are searched."
    )
    run_state_bytes: Bytes = Field(
        default=1024 * 1024, ge=2, description="A run's state, and all that its resumers bring to it, each as JSON."
    )
    run_pending_bytes: Bytes = Field(default=256 * 1024, ge=2, description="A run's pending tool calls, as JSON.")
    run_data_bytes: Bytes = Field(
        default=64 * 1024,
        ge=2,
        description="What one answer to a run's pending call brings, and a run's output, each as JSON.",
    )
    steps_per_call: int = Field(
        default=100, ge=1, le=10_000, description="Steps of an agent and its events together, in one record_steps."
    )
    step_bytes: Bytes = Field(default=64 * 1024, ge=2, description="One step or event, as JSON.")
    answer_bytes: Bytes = Field(
        default=1024 * 1024,
        ge=256 * 1024,
        le=64 * 1024 * 1024,
        description="One answer, resource or prompt, as sent: a structure counts as itself and as the text beside it. "
        "What is longer is cut, and `next` goes on. Of get_context, images count, too.",
    )


INT_DIGITS = 4300
"""CPython reads and writes no longer integers as text (`sys.int_info.default_max_str_digits`)."""

MOST_INTEGER = 2**63 - 1
"""The largest integer that both databases hold."""

# The depth of more text than this, in characters, is measured in a thread: the event loop must not wait for it.
_INLINE_CHARS = 4_000

_INT_CEILING = 10**INT_DIGITS
_CONTROL = linear_re.compile(r"[\x00-\x1f\x7f-\x9f]")
_ISO_TIME = linear_re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{8})([Tt ][0-9:.,]+([Zz]|[+-][0-9:]+)?)?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_FIRST_MS = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MILLISECOND
_LAST_MS = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MILLISECOND
_DIGITS = linear_re.compile(r"-?[0-9]{9,20}(\.[0-9]{1,9})?")
# A number is a time from 1990 to 2603. In these bounds seconds and milliseconds never overlap.
_FIRST_SECOND, _LAST_SECOND = 631_152_000, 20_000_000_000


def check_text(value: Any, where: str) -> str:
    """Return the text unchanged. Raises InvalidInput for NUL and lone surrogates, which databases store differently."""
    if not isinstance(value, str):
        raise InvalidInput(f"{where}: must be a string, not {describe(value)}")
    # ASCII has no surrogates, so the quick search for NUL is enough.
    if value.isascii():
        bad = value.find("\x00")
    else:
        bad = _first_unstorable(value)
    if bad >= 0:
        if value[bad] == "\x00":
            kind = "NUL"
        else:
            kind = f"half of a surrogate pair, U+{ord(value[bad]):04X}"
        raise InvalidInput(
            f"{where}: character {bad} is {kind}; any Unicode text is allowed except NUL and lone surrogates"
        )
    return value


def _first_unstorable(value: str) -> int:
    found = value.find("\x00")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        if found < 0:
            return error.start
        return min(found, error.start)
    return found


def check_json(value: Any, where: str, *, depth: int) -> None:
    """Refuse what is not plain JSON that both databases return as it was.

    Raises LimitExceeded beyond `depth` nested lists and objects, InvalidInput for text that `check_text` refuses (keys
    too), floats that are not finite, and Python values that JSON lacks; LimitExceeded for integers of more than `INT_DIGITS`
    digits.
    """
    # A list instead of recursion: a caller may nest JSON deeper than Python's stack.
    pending: list[tuple[Any, int, str]] = [(value, 0, where)]
    while pending:
        entry, above, place = pending.pop()
        if isinstance(entry, dict | list):
            if above == depth:
                raise LimitExceeded(f"{where}: nested more than {depth} levels deep; at most {depth} are allowed")
            if isinstance(entry, list):
                pending.extend((inner, above + 1, f"{place}[{index}]") for index, inner in enumerate(entry))
                continue
            for key, inner in entry.items():
                check_text(key, f"a key of {place}")
                pending.append((inner, above + 1, f"{place}.{key}" if len(key) <= 40 else f"{place}.{key[:40]}…"))
        else:
            _check_scalar(entry, place)


def _check_scalar(value: Any, where: str) -> None:
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, str):
        check_text(value, where)
    elif isinstance(value, int):
        if abs(value) >= _INT_CEILING:
            raise LimitExceeded(f"{where}: an integer of more than {INT_DIGITS:,} digits; send it as a string")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidInput(f"{where}: {value} is not a JSON number; allowed are finite numbers, or null")
    else:
        raise InvalidInput(
            f"{where}: must be JSON (object, list, string, number, true, false, null), not {describe(value)}"
        )


async def write_exact_json(value: Any, where: str, most_bytes: int, limits: Limits) -> str:
    """Return a value as JSON text that is stored as it is and never looked into; unlike other text it may hold NUL.

    Raises LimitExceeded beyond ``most_bytes`` and the usual depth, InvalidInput for lone surrogates, numbers that are
    not finite and integers of more than ``INT_DIGITS`` digits: those could not be sent back.
    """
    try:
        text = to_json(value)
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise InvalidInput(
            f"{where}: character {error.start} of its JSON is half of a surrogate pair, "
            f"U+{ord(error.object[error.start]):04X}; any Unicode text is allowed except lone surrogates"
        ) from None
    except ValueError:
        raise InvalidInput(
            f"{where}: has a number that is NaN, infinite, or an integer of more than {INT_DIGITS:,} digits; send it "
            "as a string"
        ) from None
    except RecursionError:
        raise _too_deep(where, limits) from None
    if size > most_bytes:
        raise LimitExceeded(f"{where}: {size:,} bytes of JSON; at most {most_bytes:,} are allowed")
    deep = len(text) > _INLINE_CHARS
    if deep:
        depth = await asyncio.to_thread(_depth, value)
    else:
        depth = _depth(value)
    if depth > limits.json_depth:
        raise _too_deep(where, limits)
    return text


def _too_deep(where: str, limits: Limits) -> LimitExceeded:
    return LimitExceeded(
        f"{where}: nested more than {limits.json_depth} levels deep; at most {limits.json_depth} are allowed"
    )


def _depth(value: Any) -> int:
    """How many levels of lists and objects a value has."""
    level, depth = [value], 0
    while level := [entry for entry in level if isinstance(entry, dict | list)]:
        depth += 1
        level = [inner for entry in level for inner in (entry.values() if isinstance(entry, dict) else entry)]
    return depth


def check_metadata(value: Any, where: str, limits: Limits) -> StoredJson:
    """Return a JSON object within the limits of size and depth; null becomes the empty object."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidInput(f"{where}: must be a JSON object, not {describe(value)}")
    check_json(value, where, depth=limits.json_depth)
    size = count_json_bytes(value)
    if size > limits.metadata_bytes:
        raise LimitExceeded(f"{where}: {size:,} bytes of JSON; at most {limits.metadata_bytes:,} are allowed")
    return value


def check_new_id(value: Any, where: str, max_chars: int) -> str:
    """Return an id or a name under which something may be stored from now on: as ``check_id`` allows, with a character that
    people see."""
    text = check_id(value, where, max_chars)
    # Two such names look the same, or like no name.
    if is_blank(text):
        raise InvalidInput(
            f"{where}: has blanks and invisible characters only; at least one of its 1 to {max_chars:,} characters must be "
            "visible"
        )
    return text


def is_blank(text: str) -> bool:
    """Whether a text has no character that people see."""
    return not INVISIBLE.sub("", text).strip()


def check_id(value: Any, where: str, max_chars: int) -> str:
    """Return an id or a name unchanged: 1 to `max_chars` characters without control characters.

    For ids of things that exist already. A name of something new is for ``check_new_id``."""
    text = check_text(value, where)
    if not text:
        raise InvalidInput(f"{where}: must not be empty; 1 to {max_chars:,} characters are allowed")
    if len(text) > max_chars:
        raise LimitExceeded(f"{where}: {len(text):,} characters; at most {max_chars:,} are allowed")
    control = _CONTROL.search(text)
    if control:
        raise InvalidInput(
            f"{where}: character {control.start()} is the control character U+{ord(control.group()):04X}; "
            "every other character is allowed"
        )
    return text


def check_number(value: int | None, name: str, least: int, most: int = MOST_INTEGER, note: str = "") -> None:
    """Raises InvalidInput unless the value is None or within the bounds; `note` ends the text."""
    if value is None or least <= value <= most:
        return
    if most < MOST_INTEGER:
        bounds = f"{least:,} to {most:,}"
    else:
        bounds = f"{least:,} or more" if value < least else f"at most {most:,}"
    raise InvalidInput(f"{name} must be {bounds}{note}")


def parse_time(value: Any, where: str, zone: tzinfo = UTC) -> int:
    """Milliseconds since 1970 (UTC) of an ISO 8601 time (one that names no zone is in ``zone``), or of a number of seconds or milliseconds
    since 1970, as a number or as its digits.

    A date alone is its first moment; week dates and ordinal dates are not read. Parts of a millisecond are cut off.
    Raises InvalidInput for anything else, for ISO times outside the years 1 to 9999, and for numbers outside the years
    1990 to 2603: such a number has another unit, and would be stored as a wrong time.
    """
    if isinstance(value, str):
        text = value.strip()
        if _DIGITS.fullmatch(text):
            return _from_number(float(text), where)
        return _from_iso(text, where, zone)
    if isinstance(value, bool) or not isinstance(value, int | float):
        _refuse_time(describe(value), where)
    return _from_number(value, where)


def _from_number(value: float, where: str) -> int:
    if _FIRST_SECOND <= value <= _LAST_SECOND:
        return math.floor(value * 1000)
    if _FIRST_SECOND * 1000 <= value <= _LAST_SECOND * 1000:
        return math.floor(value)
    # NaN is in no range either.
    if value > _LAST_SECOND * 1000:
        hint = "; are these microseconds or nanoseconds?"
    else:
        hint = ""
    return _refuse_time(f"a number outside the years 1990 to 2603{hint}", where)


def _from_iso(text: str, where: str, zone: tzinfo) -> int:
    # fromisoformat() takes any character between date and time, so it reads "1711112312345" as the year 1711.
    if not _ISO_TIME.fullmatch(text):
        _refuse_time(describe(text), where)
    try:
        # RFC 3339 allows a small t and z.
        moment = datetime.fromisoformat(text.upper())
    except ValueError:
        _refuse_time(describe(text), where)
    if not moment.tzinfo:
        moment = moment.replace(tzinfo=zone)
    milliseconds = (moment - _EPOCH) // _MILLISECOND
    check_moment(milliseconds, where, describe(text))
    return milliseconds


def check_moment(milliseconds: int, where: str, given: str) -> None:
    """Refuse a time outside the years 1 to 9999 in UTC, which no calendar shows. ``given``: as the caller wrote it."""
    if not _FIRST_MS <= milliseconds <= _LAST_MS:
        _refuse_time(f"{given}, in UTC outside the years 1 to 9999", where)


def _refuse_time(what: str, where: str) -> NoReturn:
    raise InvalidInput(
        f"{where}: must be an ISO 8601 time such as '2025-03-01T14:30:00Z', or a number of seconds or milliseconds "
        f"since 1970; not {what}"
    )


def load_json(text: str, where: str) -> Any:
    """Parse JSON strictly. Raises ValueError for what RFC 8259 excludes (NaN) or leaves open (a repeated key), and
    LimitExceeded for nesting too deep for the parser. The values in it are not checked yet."""
    try:
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_without_repeats)
    except RecursionError:
        raise LimitExceeded(f"{where}: nested too deeply to be read") from None


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _without_repeats(pairs: list[tuple[str, Any]]) -> StoredJson:
    found: StoredJson = {}
    for key, entry in pairs:
        if key in found:
            raise ValueError(f"the key {describe(key)} occurs twice in one object")
        found[key] = entry
    return found


def count_json_bytes(value: Any) -> int:
    """The bytes of a checked JSON value, written compactly in UTF-8."""
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


def check_keys(value: Json, where: str, known: Sequence[str], passed_over: Collection[str] = ()) -> None:
    """Refuse keys that are in neither list, and suggest the nearest known one. A key whose value is null is ignored."""
    for key, entry in value.items():
        if entry is not None and key not in known and key not in passed_over:
            raise InvalidInput(f"{where}: unknown key {describe(key)}; {describe_choices(key, known)}")


def describe_choices(given: Any, allowed: Sequence[str]) -> str:
    """The end of an error about a name: the allowed names, and the one that was probably meant."""
    if isinstance(given, str):
        meant = find_nearest(given, allowed)
    else:
        meant = None
    return f"allowed: {', '.join(allowed)}" + (f"; did you mean {meant!r}?" if meant else "")


def find_nearest(name: str, allowed: Collection[str]) -> str | None:
    """The allowed name that is most like this one; None if none is like it."""
    # The comparison takes quadratic time, and the caller chose the length of the name.
    found = difflib.get_close_matches(name[:64], allowed, n=1)
    if found:
        return found[0]
    return None


def describe(value: Any) -> str:
    """Describe a value in an error: a string shortened, every other value by its JSON type."""
    if isinstance(value, str):
        return repr(value if len(value) <= 40 else value[:40] + "…")
    names = {
        type(None): "null",
        bool: "a boolean",
        int: "a number",
        float: "a number",
        list: "a list",
        dict: "an object",
    }
    return names.get(type(value), f"a Python {type(value).__name__}")


# Controls but tab and line break, soft hyphens and fillers, zero-width characters, marks and overrides of direction,
# variation selectors, annotations, and plane 14, in which ASCII can be written invisibly (Unicode's
# Default_Ignorable_Code_Point, and the controls).
HIDDEN = (
    "\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
)
INVISIBLE = linear_re.compile(f"[{HIDDEN}]")
_ASCII = bytes(code for code in range(128) if INVISIBLE.match(chr(code)))


def has_invisible(text: str) -> bool:
    """Whether the text has an invisible character."""
    if text.isascii():
        plain = text.encode()
        return len(plain.translate(None, _ASCII)) != len(plain)
    return INVISIBLE.search(text) is not None


def remove_invisible(text: str) -> tuple[str, list[int]]:
    """The text without invisible characters, and the place in the given text of each character that remains."""
    places: list[int] = []
    at = 0
    for found in INVISIBLE.finditer(text):
        places += range(at, found.start())
        at = found.end()
    places += range(at, len(text))
    return INVISIBLE.sub("", text), places
